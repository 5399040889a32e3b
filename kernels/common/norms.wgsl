// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Adds up the components of a partial distance.
fn add_up (v: ${TYPE}) -> f32 {
#if VECTORS
  return (v.x + v.y) + (v.z + v.w);
#else
  return v;
#endif
}

#if COSINE
// 0 where a norm is zero.
fn divide_by_norms (product: f32, square: f32, other: f32) -> f32 {
  let none = square == 0.0 || other == 0.0;
  let size = op_sqrt (select (square, 1.0, none)) * op_sqrt (select (other, 1.0, none));
  return select (product / size, 0.0, none);
}
#endif

#if COSINE
fn get_square (point: u32) -> f32 {
  var sum = ${TYPE} (0.0);
#if ANY
  for (var i = 0u; i < p.width; i++) {
    let a = ${LOAD}_x (point + i);
    sum = fma (a, a, sum);
  }
#endif
  return add_up (sum);
}
#endif
