// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The product of matmul-tile.wgsl without workgroup memory: REGISTERS in common/tile.wgsl. 4 x 4 sums for each of 8 x 8
// invocations: four steps load 8 vectors from memory, or from a cache, for 64 products, which is 8 for each load and 2
// for each word. The lanes of a row of 8 fetch the same four vectors of `a`, those of a column of 8 the same of `b`.
//
// On V3D a texture unit delivers about 4 words per clock to QPUs that compute 16 products: 2 products per word are half
// of the peak at most. Only a larger tile could help, but 64 registers are not enough for that (8 x 4: 32 sums, 32
// words of `a`, 4 of `b`, and addresses). Workgroup memory would deliver the same words through the same unit, after
// they have been written there. On other integrated devices this kernel may win where the first-level cache is as fast
// as workgroup memory; only measuring tells.

#include "matmul-tile.wgsl"
