// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The numbers of RlxPackedType, for TYPE.
#define Q4_0 2
#define Q4_1 3
#define Q5_0 6
#define Q5_1 7
#define Q8_0 8
#define Q2_K 10
#define Q3_K 11
#define Q4_K 12
#define Q5_K 13
#define Q6_K 14
#define Q8_K 15
#define IQ2_XXS 16
#define IQ2_XS 17
#define IQ3_XXS 18
#define IQ1_S 19
#define IQ4_NL 20
#define IQ3_S 21
#define IQ2_S 22
#define IQ4_XS 23
#define IQ1_M 29
#define BF16 30
#define TQ1_0 34
#define TQ2_0 35
#define MXFP4 39
#define NVFP4 40
#define Q1_0 41
#define Q2_0 42
#define INT2 1002
#define INT4 1004
#define INT8 1008
#define F8_E4M3 1108
#define F8_E5M2 1208
