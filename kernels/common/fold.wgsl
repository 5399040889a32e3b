// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Combines two numbers of a row: their sum (SUM), product (PROD), maximum (MAX) or minimum (MIN).
#if FLOAT && MAX
#use op_max
#elif FLOAT && MIN
#use op_min
#endif

fn join (a: fold_t, b: fold_t) -> fold_t {
#if SUM
  return a + b;
#elif PROD
  return a * b;
#elif MAX && FLOAT
  return op_max (a, b);
#elif MAX
  return max (a, b);
#elif FLOAT
  return op_min (a, b);
#else
  return min (a, b);
#endif
}
