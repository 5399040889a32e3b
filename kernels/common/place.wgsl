// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Where sorted pairs are stored: element i of a run of a row.
//
// Runs have p.keep elements and are contiguous, p.kept elements to a row; a final result has a single run.

fn operand_at (row: u32, k: u32) -> u32 {
  return (row / p.inner * p.length + k) * p.inner + row % p.inner;
}

fn place (row: u32, run: u32, i: u32, key: u32, index: u32) {
#if TO_PAIRS
  let at = row * p.kept + run * p.keep + i;
  store_sorted_keys (at, key);
  store_sorted_indices (at, index);
#else
  let at = (row / p.inner * p.keep + i) * p.inner + row % p.inner;
#if VALUES
  store_values (at, load_x (operand_at (row, index)));
#endif
#if INDICES
  store_result (at, type_result (index));
#endif
#endif
}
