// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Fourier transforms of F elements, T of them in a workgroup. F is the product of the radices R0, R1, … of S stages;
// butterfly_R () is one stage for R elements in registers.
//
// Stages are in place: in a block of B elements, those B / R apart are transformed and multiplied by twiddle factors,
// which leaves R blocks of B / R. The result has its digits in reverse order, so each element is stored directly at its
// final position. Only the S - 1 exchanges go through workgroup memory.
//
// A longer transform takes several passes. Earlier passes have transformed p.done elements of it, and p.steps
// transforms of F are left: the elements of transform j are p.steps apart in the operand, element r is rotated by
// r (j mod p.done) / (p.done F) of a turn, and they are p.done apart in the result.
//
// CONVOLVE: the operand, times a chirp, is convolved with another: transformed, multiplied by FILTER, transformed back
// by the same stages in reverse order, which takes digits as they are, and multiplied by the chirp again. An inverse
// transform is one with the real and imaginary parts exchanged (SWAP).
//
// HALF: a real operand is read as F complex numbers, each made of two neighbours, and all its lengths count such pairs.
// SPLIT turns the transform of these at the end into that of the 2 F real elements.
//
// FRAMES: rows are p.hop apart in signals of p.signal elements, p.frames of each. WINDOW: they are multiplied by a
// window. POWER: the result is the square of the absolute value.
//
// EVEN_X, EVEN_Y: the operand has all elements, and the whole result is wanted.
//
// SAME: in each stage, all elements of an invocation belong to the same transform.
//
// TOUCH: where loads are gathers, one load whose lanes are a cache line apart fetches as many lines of the operand and
// of the result at once; without it each gather of the first stage, and each store of the last, waits for a line.

${BUTTERFLIES}

#if S > 1
var<workgroup> work: array<vec2<f32>, $(F * T)>;
#endif
#if HALF
var<workgroup> whole: array<vec2<f32>, $(F * T)>;
#endif

fn product (a: vec2f, b: vec2f) -> vec2f {
  return vec2f (a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

#if TURN
// exp (-2πi k / (p.done F))
fn turn (k: u32) -> vec2f {
  return product (load2_turns (k >> p.bits), load2_turns (p.coarse + (k & ((1u << p.bits) - 1u))));
}
#endif

// The position of a transform in the operand and in the result: its row, its first element, and its rotation.
struct Place {
  there: bool,
  k: u32,
  from_x: u32,
  from_y: u32,
  x: u32,
  y: u32,
}

fn find_row (row: u32) -> u32 {
#if FRAMES
  return row / p.frames * p.signal + row % p.frames * p.hop;
#else
  return row * p.x_length;
#endif
}

fn find (transform: u32) -> Place {
  let m = min (transform, p.count - 1u);
#if PLAIN
  return Place (transform < p.count, 0u, 0u, 0u, find_row (m), m * p.y_length);
#else
  let inner = m % ${INNER};
  let outer = m / ${INNER} / p.steps;
  let j = m / ${INNER} % p.steps;
  let k = j % p.done;
  return Place (transform < p.count, k, j, (j - k) * $(F)u + k,
                find_row (outer) * ${INNER} + inner, outer * p.y_length * ${INNER} + inner);
#endif
}

// The index in the operand, and in the result, of element r of a transform.
fn operand_of (place: Place, r: u32) -> u32 {
#if PLAIN
  return r;
#else
  return place.from_x + r * p.steps;
#endif
}

fn result_of (place: Place, r: u32) -> u32 {
#if PLAIN
  return r;
#else
  return place.from_y + r * p.done;
#endif
}

// Loads element r of a transform.
fn fetch (place: Place, r: u32) -> vec2f {
  let k = operand_of (place, r);
#if HERMITIAN
  let other = k > p.n / 2u;
  let from_k = select (k, p.n - k, other);
#else
  let from_k = k;
#endif
#if EVEN_X
  let at = place.x + from_k * ${INNER};
#else
  // Clamped rather than skipped: a load in a branch costs more.
  let at = place.x + min (from_k, p.x_length - 1u) * ${INNER};
#endif
#if REAL_X
  var v = vec2f (load_x (at), 0.0);
#elif PLANAR_X
  var v = vec2f (load_x (at), load_x (at + p.x_plane));
#else
  var v = load2_x (at);
#endif
#if HERMITIAN
  v.y = select (v.y, -v.y, other);
#endif
#if WINDOW && HALF
  v *= load2_window (min (k, p.x_length - 1u));
#elif WINDOW
  v *= load_window (min (k, p.x_length - 1u));
#endif
#if !EVEN_X
  v = select (vec2f (0.0), v, from_k < p.x_length && k < p.n);
#endif
#if SWAP_X
  v = v.yx;
#endif
#if CHIRP_X
  v = product (v, load2_chirp (min (k, p.n - 1u)));
#endif
  return v;
}

// Stores element r of a transform.
fn put (place: Place, r: u32, value: vec2f) {
  let k = result_of (place, r);
  var v = value;
#if FILTER
  v = product (v, load2_filter (k));
#endif
#if SWAP_MIDDLE
  v = v.yx;
#endif
#if CHIRP_Y
  v = product (v, load2_chirp (min (k, p.y_length - 1u)));
#endif
#if SWAP_Y
  v = v.yx;
#endif
#if SCALED
  v *= p.scale;
#endif
  let at = place.y + k * ${INNER};
#if EVEN_Y
  {
#else
  if (place.there && k < p.y_length) {
#endif
#if POWER
    store_y (at, dot (v, v));
#elif REAL_Y
    store_y (at, v.x);
#elif PLANAR_Y
    store_y (at, v.x);
    store_y (at + p.y_plane, v.y);
#else
    store_y (2u * at, v.x);
    store_y (2u * at + 1u, v.y);
#endif
  }
}

#if S > 1
fn slot (i: u32, t: u32) -> u32 {
#if ACROSS
  return i * $(T)u + t;
#else
  return t * $(F)u + i;
#endif
}
#endif

@compute @workgroup_size($(WG))${SUBGROUP_SIZE}
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

#if TOUCH
  var seen = 0u;
#for s in 0..2
#define LINES (s == 0) * LINES_X + (s == 1) * LINES_Y
#define LINE (s == 0) * LINE_X + (s == 1) * LINE_Y
#if TOUCHED == 1
  let lines_$(s) = find (group * $(T)u);
#endif
  for (var i = lane; i < $(LINES * TOUCHED)u; i += $(WG)u) {
#if TOUCHED == 1
    let place = lines_$(s);
    let r = i * $(LINE)u;
#else
    let place = find (group * $(T)u + i / $(LINES)u);
    let r = i % $(LINES)u * $(LINE)u;
#endif
#if s == 0
    let at = place.x + min (operand_of (place, r), p.x_length - 1u) * ${INNER};
#if REAL_X || PLANAR_X
    seen |= bitcast<u32> (load_x (at));
#else
    seen |= bitcast<u32> (load2_x (at).x);
#endif
#else
    let at = place.y + min (result_of (place, r), p.y_length - 1u) * ${INNER};
    seen |= bitcast<u32> (load_y ($(2 - (REAL_Y || PLANAR_Y || POWER))u * at));
#endif
  }
#endfor
  if (p.count == 0u) {
    store_y (0u, bitcast<f32> (seen));
  }
#endif

#for s in 0..S
#define R (s == 0) * R0 + (s == 1) * R1 + (s == 2) * R2 + (s == 3) * R3 + (s == 4) * R4 + (s == 5) * R5 + (s == 6) * R6 + (s == 7) * R7
#define BEFORE (s == 0) + (s == 1) * R0 + (s == 2) * R0 * R1 + (s == 3) * R0 * R1 * R2 + (s == 4) * R0 * R1 * R2 * R3 + (s == 5) * R0 * R1 * R2 * R3 * R4 + (s == 6) * R0 * R1 * R2 * R3 * R4 * R5 + (s == 7) * R0 * R1 * R2 * R3 * R4 * R5 * R6
#define STEP F / (BEFORE * R)
#if SAME && (s == 0 || (s == S - 1 && !HALF))
  let place_$(s) = find (group * $(T)u + lane % $(T)u);
#endif
  for (var w = lane; w < $(F / R * T)u; w += $(WG)u) {
#if ACROSS
    let t = w % $(T)u;
    let j = w / $(T)u;
#else
    let t = w / $(F / R)u;
    let j = w % $(F / R)u;
#endif
    var v = array<vec2f, $(R)> ();
#if SAME && (s == 0 || (s == S - 1 && !HALF))
    let place = place_$(s);
#elif s == 0 || (s == S - 1 && !HALF)
    let place = find (group * $(T)u + t);
#endif
#if s == 0
    let at = j;
#for r in 0..R
#if r < GIVEN
    v[$(r)] = fetch (place, j + $(r * STEP)u);
#endif
#endfor
#if TURN
    let k = place.k;
    let turn_0 = turn (k * j);
    v[0] = product (v[0], turn_0);
#for r in 1..R
#define HIGH 1 + (r >= 2) + 2 * (r >= 4) + 4 * (r >= 8) + 8 * (r >= 16) + 16 * (r >= 32)
#if r == HIGH && (r != 2 && r != 8 && r != 32)
    let step_$(r) = turn (k * $(r * STEP)u);
#elif r == HIGH
    let step_$(r) = product (step_$(r / 2), step_$(r / 2));
#else
    let step_$(r) = product (step_$(HIGH), step_$(r - HIGH));
#endif
    v[$(r)] = product (v[$(r)], product (turn_0, step_$(r)));
#endfor
#endif
#else
#if s == S - 1
    let at = ${BLOCK} * $(R)u;
#else
    let at = j / $(STEP)u * $(STEP * R)u + j % $(STEP)u;
#endif
#for r in 0..R
    v[$(r)] = work[slot (at + $(r * STEP)u, t)];
#endfor
#endif
    butterfly_$(R) (&v);
#if s < S - 1
#if STEP > 1
    let i = j % $(STEP)u * $(BEFORE)u;
#for r in 1..R
#define HIGH 1 + (r >= 2) + 2 * (r >= 4) + 4 * (r >= 8) + 8 * (r >= 16) + 16 * (r >= 32)
#if r == HIGH
    let root_$(r) = load2_roots ($(r)u * i);
#else
    let root_$(r) = product (root_$(HIGH), root_$(r - HIGH));
#endif
    v[$(r)] = product (v[$(r)], root_$(r));
#endfor
#endif
#for r in 0..R
    work[slot (at + $(r * STEP)u, t)] = v[$(r)];
#endfor
#elif CONVOLVE
#for r in 0..R
    v[$(r)] = product (v[$(r)], load2_filter (j + $(r * (F / R))u)).yx;
#endfor
    butterfly_$(R) (&v);
#if S > 1
#for r in 0..R
    work[slot (at + $(r)u, t)] = v[$(r)];
#endfor
#else
#for r in 0..R
#if r < WANTED
    put (place, $(r)u, v[$(r)]);
#endif
#endfor
#endif
#elif HALF
#for r in 0..R
    whole[t * $(F)u + j + $(r * (F / R))u] = v[$(r)];
#endfor
#else
#for r in 0..R
    put (place, j + $(r * (F / R))u, v[$(r)]);
#endfor
#endif
  }
#if s < S - 1 || (CONVOLVE && S > 1) || HALF
  workgroupBarrier ();
#endif
#endfor

#if HALF
  // SPLIT: with e and o the transforms of the even and the odd elements, element k is e + w o, and F - k the conjugate
  // of e - w o.
  for (var i = lane; i < $((F / 2 + 1) * T)u; i += $(WG)u) {
    let t = i / $(F / 2 + 1)u;
    let k = i % $(F / 2 + 1)u;
    let place = find (group * $(T)u + t);
    let a = whole[t * $(F)u + k];
    let b = whole[t * $(F)u + select ($(F)u - k, 0u, k == 0u)];
    let even = 0.5 * vec2f (a.x + b.x, a.y - b.y);
    let odd = product (load2_halves (k), 0.5 * vec2f (a.y + b.y, b.x - a.x));
    put (place, k, even + odd);
    put (place, $(F)u - k, vec2f (even.x - odd.x, odd.y - even.y));
  }
#endif

#if CONVOLVE && S > 1
#for u in 1..S
#define s S - 1 - u
#define R (s == 0) * R0 + (s == 1) * R1 + (s == 2) * R2 + (s == 3) * R3 + (s == 4) * R4 + (s == 5) * R5 + (s == 6) * R6 + (s == 7) * R7
#define BEFORE (s == 0) + (s == 1) * R0 + (s == 2) * R0 * R1 + (s == 3) * R0 * R1 * R2 + (s == 4) * R0 * R1 * R2 * R3 + (s == 5) * R0 * R1 * R2 * R3 * R4 + (s == 6) * R0 * R1 * R2 * R3 * R4 * R5 + (s == 7) * R0 * R1 * R2 * R3 * R4 * R5 * R6
#define STEP F / (BEFORE * R)
  for (var w = lane; w < $(F / R * T)u; w += $(WG)u) {
#if ACROSS
    let t = w % $(T)u;
    let j = w / $(T)u;
#else
    let t = w / $(F / R)u;
    let j = w % $(F / R)u;
#endif
    var v = array<vec2f, $(R)> ();
    let at = j / $(STEP)u * $(STEP * R)u + j % $(STEP)u;
    let i = j % $(STEP)u * $(BEFORE)u;
    v[0] = work[slot (at, t)];
#for r in 1..R
#define HIGH 1 + (r >= 2) + 2 * (r >= 4) + 4 * (r >= 8) + 8 * (r >= 16) + 16 * (r >= 32)
#if r == HIGH
    let root_$(r) = load2_roots ($(r)u * i);
#else
    let root_$(r) = product (root_$(HIGH), root_$(r - HIGH));
#endif
    v[$(r)] = product (work[slot (at + $(r * STEP)u, t)], root_$(r));
#endfor
    butterfly_$(R) (&v);
#if s > 0
#for r in 0..R
    work[slot (at + $(r * STEP)u, t)] = v[$(r)];
#endfor
#else
#if SAME
    let place = place_0;
#else
    let place = find (group * $(T)u + t);
#endif
#for r in 0..R
#if r < WANTED
    put (place, at + $(r * STEP)u, v[$(r)]);
#endif
#endfor
#endif
  }
#if s > 0
  workgroupBarrier ();
#endif
#endfor
#endif
}
