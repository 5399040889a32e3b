// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// What the kernels for matrix products share:
//
//   y[batch, m, n] = epilogue (alpha · Σₖ a[batch, m, k] · b[batch, k, n] + beta · bias)
//
// where the matrices of a batch start, which tile a workgroup computes (with BM rows and BN columns), and what happens
// to a sum.
//
// Operands come with the stride of each of their axes, so a transpose costs nothing here. Rows and columns are
// exchanged (SWAP) when there are more rows than columns to spread over the lanes. Indices past the edge are clamped to
// it and only stores are guarded.

#if PRODUCT
// The first element of each matrix, for one index of the batch.
struct Origin {
  a: u32,
  b: u32,
}

fn origin (batch: u32) -> Origin {
  var at = Origin (0u, 0u);
#if BATCH_DIMS > 0
  var rest = batch;
#for d in 0..BATCH_DIMS
  let c$(d) = rest % p.batch$(d);
  rest /= p.batch$(d);
  at.a += c$(d) * p.a_batch$(d);
  at.b += c$(d) * p.b_batch$(d);
#endfor
#endif
  return at;
}
#endif

#use ${EPILOGUE_USES}
${EPILOGUE_TEXT}

#if !SPLIT_K
// A sum before the epilogue. Takes coordinates of the result.
fn biased (batch: u32, m: u32, n: u32, sum: f32) -> f32 {
  var v = sum;
#if ALPHA
  v *= p.alpha;
#endif
#if BIAS
  var at = n * p.bias_n;
#if BIAS_GROUPS
  at += batch % p.bias_groups * p.bias_group;
#endif
#if BIAS_DIMS > 0
  var rest = m;
#for d in 0..BIAS_DIMS
  at += (rest % p.row$(d)) * p.bias_row$(d);
  rest /= p.row$(d);
#endfor
#endif
#if BETA
  v = fma (p.beta, load_bias (at), v);
#else
  v += load_bias (at);
#endif
#endif
  return v;
}
#endif

// Takes coordinates as the loops below have them, and whether there is such an element.
//
// With several results each has a single store, inside a single condition. With && in it, and inside a condition of the
// caller, a driver lost 16-bit stores to the third of three results.
fn put_if (there: bool, batch: u32, row: u32, col: u32, sum: f32) {
#if OUTPUTS > 1
#if SWAP
  let m = select (0u, col, there);
  let n = select (0u, row, there);
#else
  let m = select (0u, row, there);
  let n = select (0u, col, there);
#endif
  let v = biased (batch, m, n, sum);
  let first0 = 0u;
#for o in 1..OUTPUTS
  let first$(o) = first$(o - 1) + p.width$(o - 1);
#endfor
  // Columns before the first one wrap around.
#for o in 0..OUTPUTS
  if (there & (n - first$(o) < p.width$(o))) {
    store_y$(o) (m * p.width$(o) + n - first$(o), v);
  }
#endfor
#else
  if (there) {
    put (batch, row, col, sum);
  }
#endif
}

#if OUTPUTS == 1
fn put (batch: u32, row: u32, col: u32, sum: f32) {
#if SWAP
  let m = col;
  let n = row;
  let rows = p.n;
  let cols = p.m;
#else
  let m = row;
  let n = col;
  let rows = p.m;
  let cols = p.n;
#endif
#if SPLIT_K
  // Here `batch` is the index of the split.
  store_y0 ((batch * rows + m) * cols + n, sum);
#else
  let v = biased (batch, m, n, sum);
  let y = (batch * rows + m) * cols + n;
#if EPILOGUE
  store_y0 (y, epilogue (y, v));
#else
  store_y0 (y, v);
#endif
#endif
}
#endif

#if defined(BM)

// The tile of a workgroup.
struct Place {
  row: u32,
  col: u32,
  batch: u32,   // or the split of the sum
  k: u32,       // the range of steps of its sum
  k_end: u32,
}

fn place (group: u32) -> Place {
  // Neighbouring workgroups share columns, which stay in the cache.
  let rest = group / p.tiles_m;
  let batch = rest / p.tiles_n;
#if SPLIT_K
  let k = batch * p.split_k;
  return Place ((group % p.tiles_m) * $(BM)u, (rest % p.tiles_n) * $(BN)u, batch, k, min (k + p.split_k, p.k));
#else
  return Place ((group % p.tiles_m) * $(BM)u, (rest % p.tiles_n) * $(BN)u, batch, 0u, p.k);
#endif
}

#endif
