// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// A workgroup has the boxes of one class. It iterates over them once for each box that it chooses: those that overlap
// with the last chosen box are discarded for good, and the best of the others is the next. An invocation always has the
// same boxes, so no other one reads their flags.

#use op_is_nan

const NOTHING = 0xffffffffu;

struct Box {
  low: vec2<f32>,
  high: vec2<f32>,
}

var<workgroup> best_scores: array<f32, $(WG)>;
var<workgroup> best_boxes: array<u32, $(WG)>;

fn load_box (i: u32) -> Box {
  let a = vec2<f32> (load_boxes (4u * i), load_boxes (4u * i + 1u));
  let b = vec2<f32> (load_boxes (4u * i + 2u), load_boxes (4u * i + 3u));
#if CENTER
  return Box (a - 0.5 * b, a + 0.5 * b);
#else
  return Box (min (a, b), max (a, b));
#endif
}

fn get_area (box: Box) -> f32 {
  let size = max (box.high - box.low, vec2<f32> (0.0));
  return size.x * size.y;
}

fn overlaps (a: Box, b: Box) -> bool {
  let shared_area = get_area (Box (max (a.low, b.low), min (a.high, b.high)));
  return shared_area > 0.0 && shared_area > p.overlap * (get_area (a) + get_area (b) - shared_area);
}

fn is_better (score: f32, box: u32, other_score: f32, other_box: u32) -> bool {
  return box != NOTHING && (other_box == NOTHING || score > other_score || (score == other_score && box < other_box));
}

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let row = workgroup_index (wid);
  if (row >= p.rows) {
    return;
  }
  let boxes_at = row / p.classes * p.n;
  let scores_at = row * p.n;
  let y_at = row * p.keep;

  // -1 if there was none.
  var chosen = NOTHING;
  if (p.first > 0u) {
    chosen = u32 (load_y (y_at + p.first - 1u));
  }
  for (var k = p.first; k < p.end; k++) {
    var best_score = 0.0;
    var best = NOTHING;
    // Once no box is left, none follows.
    if (k == 0u || chosen != NOTHING) {
      let last = load_box (boxes_at + min (chosen, p.n - 1u));
      for (var i = lane; i < p.n; i += $(WG)u) {
        let score = load_scores (scores_at + i);
        var alive = !op_is_nan (score) && score > p.score;
        if (k > 0u) {
          alive = load_alive (scores_at + i) != 0 && i != chosen && !overlaps (load_box (boxes_at + i), last);
        }
        store_alive (scores_at + i, select (0, 1, alive));
        if (alive && is_better (score, i, best_score, best)) {
          best_score = score;
          best = i;
        }
      }
    }
    best_scores[lane] = best_score;
    best_boxes[lane] = best;
    for (var step = $(WG)u / 2u; step > 0u; step >>= 1u) {
      workgroupBarrier ();
      if (lane < step && is_better (best_scores[lane + step], best_boxes[lane + step], best_scores[lane], best_boxes[lane])) {
        best_scores[lane] = best_scores[lane + step];
        best_boxes[lane] = best_boxes[lane + step];
      }
    }
    chosen = workgroupUniformLoad (&best_boxes[0]);
    if (lane == 0u) {
      store_y (y_at + k, i32 (chosen));
    }
  }
}
