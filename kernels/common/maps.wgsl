// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Several tensors seen as the same rows and columns (ops/rlx-norm.c): map 0 locates the elements of the operand, the
// others those of scales and the like, which may be broadcast along some axes. Group 0 of axes is the innermost. A map
// whose bit is not in ROW_MAPS is the same for all rows, one whose bit is not in COLUMN_MAPS the same for all columns.

#define BIT 1
#for m in 0..MAPS

// The element at which a row starts.
fn row_start$(m) (row: u32) -> u32 {
#if KEPT == 0 || ROW_MAPS / BIT % 2 == 0
  return 0u;
#elif KEPT == 1
  return row * p.row_stride$(m)_0;
#else
  var at = 0u;
  var rest = row;
#for j in 0..KEPT - 1
  at += (rest % p.row_dim$(j)) * p.row_stride$(m)_$(j);
  rest /= p.row_dim$(j);
#endfor
  return at + rest * p.row_stride$(m)_$(KEPT - 1);
#endif
}

// The offset of a column from the start of its row.
fn column$(m) (k: u32) -> u32 {
#if REDUCED == 0 || COLUMN_MAPS / BIT % 2 == 0
  return 0u;
#elif REDUCED == 1
  return k * p.column_stride$(m)_0;
#else
  var at = 0u;
  var rest = k;
#for j in 0..REDUCED - 1
  at += (rest % p.column_dim$(j)) * p.column_stride$(m)_$(j);
  rest /= p.column_dim$(j);
#endfor
  return at + rest * p.column_stride$(m)_$(REDUCED - 1);
#endif
}

var<private> start$(m): u32;
#define BIT BIT * 2
#endfor

fn start_row (row: u32) {
#for m in 0..MAPS
  start$(m) = row_start$(m) (row);
#endfor
}

#if STAGE == 1 || STAGE == 2

// Long rows are split into chunks of p.span columns, and each chunk into SPREAD interleaved parts. The number of columns
// that `part` has.
fn part_columns (part: u32) -> u32 {
  let first = part / $(SPREAD)u * p.span;
  return (min (p.span, p.columns - first) + $(SPREAD - 1)u - part % $(SPREAD)u) / $(SPREAD)u;
}

#endif
