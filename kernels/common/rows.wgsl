// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// A tensor as rows and columns, for kernels that work along some axes: columns run over the axes of the operator, rows
// over the others, both in row-major order (ops/rlx-reduce.c). Group 0 of axes is the innermost.
//
// LANES invocations share a row, and a workgroup has WG / LANES rows. With one lane there is no barrier.

// The element at which a row starts.
fn row_start (row: u32) -> u32 {
#if KEPT == 0
  return 0u;
#elif KEPT == 1
  return row * p.row_stride0;
#else
  var at = 0u;
  var rest = row;
#for j in 0..KEPT - 1
  at += (rest % p.row_dim$(j)) * p.row_stride$(j);
  rest /= p.row_dim$(j);
#endfor
  return at + rest * p.row_stride$(KEPT - 1);
#endif
}

// The offset of a column from the start of its row.
fn column (k: u32) -> u32 {
#if REDUCED == 0
  return 0u;
#elif REDUCED == 1
  return k * p.column_stride0;
#else
  var at = 0u;
  var rest = k;
#for j in 0..REDUCED - 1
  at += (rest % p.column_dim$(j)) * p.column_stride$(j);
  rest /= p.column_dim$(j);
#endfor
  return at + rest * p.column_stride$(REDUCED - 1);
#endif
}
