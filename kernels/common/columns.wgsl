// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The loop that writes the results of a row; the kernel that includes it defines put(), which writes one column.

// Columns first, first + step, … below end.
fn put_columns (first: u32, end: u32, step: u32) {
  var k = first;
  // Four at a time, as long as every invocation has four.
  let whole = (end - min (first, end)) / (step * 4u);
  for (var i = 0u; i < whole; i++) {
#for u in 0..4
    put (k + $(u)u * step);
#endfor
    k += step * 4u;
  }
  for (; k < end; k += step) {
    put (k);
  }
}
