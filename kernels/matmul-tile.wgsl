// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// A matrix product on a GPU, in tiles: common/tile.wgsl is the main loop, common/product.wgsl the epilogue,
// common/operand.wgsl the loader of each operand.
//
// BM + BN numbers are loaded for BM · BN products, so tiles of 32 x 32 have an intensity of 8 flops per byte, 64 x 64
// of 16, 128 x 128 of 32, and twice that in f16. A row of a tile along k is 32 (KT 8) or 64 contiguous bytes of memory,
// one across k 128 to 512.

#define BM TM * TY
#define BN TN * TX
#include "common/product.wgsl"

#if PRODUCT
#if !ROWS
#include "common/operand.wgsl" x="a" X="A" m="m" ALONG_K=A_ALONG_K VECTORS=A_VECTORS SPLIT=A_SPLIT PANEL=0
#endif
#if PACKED
#include "packed/decode.wgsl"
#else
#include "common/operand.wgsl" x="b" X="B" m="n" ALONG_K=B_ALONG_K VECTORS=B_VECTORS SPLIT=B_SPLIT PANEL=PANEL
#endif
#endif
#if ROWS
#include "common/tile-rows.wgsl"
#else
#include "common/tile.wgsl"
#endif
