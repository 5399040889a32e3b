// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The same product without workgroup memory: REGISTERS in common/tile.wgsl. 4 x 4 sums an
// invocation and 64 invocations, 8 x 8: four steps take 8 vectors of memory, or of a cache,
// for 64 products, which is 8 a load and 2 a word. Rows of 8 lanes fetch the same four
// vectors of `a`, columns of 8 the same of `b`.
//
// On V3D a texture unit brings about 4 words a clock to QPUs that make 16 products: 2 a
// word are half of the peak at most. Only a larger tile could help, for which 64 registers
// do not suffice (8 x 4: 32 sums, 32 words of `a`, 4 of `b`, and addresses). Through
// workgroup memory the same words would come the same way, after having been written there.
// On other integrated devices this may win where the first cache is as fast as workgroup
// memory; only measuring tells.

#include "matmul-tile.wgsl"
