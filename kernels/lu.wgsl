// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Elimination with partial pivoting, a workgroup for each matrix: y receives both factors (without the unit diagonal of
// the lower one), and order the row of x that each row came from. Columns are eliminated in blocks of NB: immediately
// within the block, and in the columns to the right of it after the whole block.
//
// The bounds of loops are parameters, because drivers would unroll them otherwise and take long to compile them.
//
// With DETERMINANT, `result` receives the product of the pivots instead of the order.

var<workgroup> keys: array<u32, $(WG)>;
var<workgroup> places: array<u32, $(WG)>;
#if DETERMINANT
var<workgroup> products: array<f32, $(WG)>;
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let n = p.n;
  let base = group * n * n;
  for (var i = lane; i < n * n; i += $(WG)u) {
    store_y (base + i, load_x (base + i));
  }
#if DETERMINANT
  var sign = 1.0;
#else
  for (var i = lane; i < n; i += $(WG)u) {
    store_order (group * n + i, i);
  }
#endif
  storageBarrier ();

  for (var first = 0u; first < n; first += $(NB)u) {
    let end = min (first + $(NB)u, n);
    for (var j = first; j < end; j++) {
      // The element of the largest magnitude, the first one if several are equal; NaN is larger than all numbers.
      var key = 0u;
      var place = j;
      for (var i = j + lane; i < n; i += $(WG)u) {
        let bits = bitcast<u32> (load_y (base + i * n + j)) & 0x7fffffffu;
        if (bits > key) {
          key = bits;
          place = i;
        }
      }
      keys[lane] = key;
      places[lane] = place;
      for (var width = p.half; width > 0u; width /= 2u) {
        workgroupBarrier ();
        if (lane < width) {
          let other = keys[lane + width];
          if (other > keys[lane] || (other == keys[lane] && places[lane + width] < places[lane])) {
            keys[lane] = other;
            places[lane] = places[lane + width];
          }
        }
      }
      workgroupBarrier ();

      let best = places[0];
      if (best != j) {
        for (var c = lane; c < n; c += $(WG)u) {
          let a = load_y (base + j * n + c);
          let b = load_y (base + best * n + c);
          store_y (base + j * n + c, b);
          store_y (base + best * n + c, a);
        }
#if DETERMINANT
        sign = -sign;
#else
        if (lane == 0u) {
          let a = load_order (group * n + j);
          store_order (group * n + j, load_order (group * n + best));
          store_order (group * n + best, a);
        }
#endif
      }
      storageBarrier ();

      let pivot = load_y (base + j * n + j);
      for (var i = j + 1u + lane; i < n; i += $(WG)u) {
        let row = base + i * n;
        var factor = load_y (row + j) / pivot;
        if (pivot == 0.0) {
          factor = 0.0;
        }
        store_y (row + j, factor);
        for (var c = j + 1u; c < end; c++) {
          store_y (row + c, fma (-factor, load_y (base + j * n + c), load_y (row + c)));
        }
      }
      storageBarrier ();
    }

    if (end < n) {
      for (var c = end + lane; c < n; c += $(WG)u) {
        let at = base + first * n + c;
        let factors = base + first * n + first;
        for (var r = 1u; r < end - first; r++) {
          var v = load_y (at + r * n);
          for (var k = 0u; k < r; k++) {
            v = fma (-load_y (factors + r * n + k), load_y (at + k * n), v);
          }
          store_y (at + r * n, v);
        }
      }
      storageBarrier ();

      // Four rows for each load of a column.
      let columns = n - end;
      let n_tasks = columns * ((n - end + 3u) / 4u);
      for (var t = lane; t < n_tasks; t += $(WG)u) {
        let c = end + t % columns;
        let r = end + t / columns * 4u;
#for i in 0..4
        let row$(i) = base + min (r + $(i)u, n - 1u) * n;
        var sum$(i) = load_y (row$(i) + c);
#endfor
        for (var k = first; k < end; k++) {
          let v = load_y (base + k * n + c);
#for i in 0..4
          sum$(i) = fma (-load_y (row$(i) + k), v, sum$(i));
#endfor
        }
#for i in 0..4
        if (r + $(i)u < n) {
          store_y (row$(i) + c, sum$(i));
        }
#endfor
      }
      storageBarrier ();
    }
  }

#if DETERMINANT
  var product = 1.0;
  for (var i = lane; i < n; i += $(WG)u) {
    product *= load_y (base + i * n + i);
  }
  products[lane] = product;
  for (var width = p.half; width > 0u; width /= 2u) {
    workgroupBarrier ();
    if (lane < width) {
      products[lane] *= products[lane + width];
    }
  }
  if (lane == 0u) {
    store_result (group, sign * products[0]);
  }
#endif
}
