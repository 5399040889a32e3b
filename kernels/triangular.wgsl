// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The elements on one side of a diagonal of each matrix, 0 on the other. Sizes use all 32 bits, so distances are
// unsigned: with BELOW the diagonal is `distance` below the main one, otherwise above.

fn element (i: u32) -> u32 {
  let column = i % p.columns;
  let row = i / p.columns % p.rows;
#if UPPER && BELOW
  let keep = column >= row || row - column <= p.distance;
#elif UPPER
  let keep = column >= row && column - row >= p.distance;
#elif BELOW
  let keep = row >= column && row - column >= p.distance;
#else
  let keep = column <= row || column - row <= p.distance;
#endif
  if (keep) {
    return load_x (i);
  }
  return 0u;
}

#include "common/elements.wgsl"
