// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// What the kernels that combine sorted updates share. MODE is an RlxScatterMode.

#if FLOAT && MODE == 3
#use op_max
#endif
#if FLOAT && MODE == 4
#use op_min
#endif

fn combine (a: type_y, b: type_y) -> type_y {
#if MODE == 1
  return a + b;
#elif MODE == 2
  return a * b;
#elif MODE == 3 && FLOAT
  return op_max (a, b);
#elif MODE == 3
  return max (a, b);
#elif FLOAT
  return op_min (a, b);
#else
  return min (a, b);
#endif
}

// The update at a position in sorted order.
fn number (i: u32) -> u32 {
#if SORTED
  return load_order (i);
#else
  return i;
#endif
}

#if TARGET
fn slot_of (i: u32) -> u32 {
  return load_target (number (i));
}
#endif
