#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""That loops of machine code get the trip counts of the text, and that clocks, spills and goals are computed correctly."""
import os
import random
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import tap

import chips
import isa
import machine
import trips

WGSL = '''
fn stage (lane: u32) {
  for (var i = lane; i < 512u; i += 64u) { tile[i] = x[i]; }   // for (var no = 0u; no < 3u; no++)
}
@compute @workgroup_size(64)
fn main (@builtin(local_invocation_index) lane: u32) {
  for (var k = 0u; k < to.end; k += 8u) {
    workgroupBarrier ();
    stage (lane);
    for (var q = 0u; q < 4u; q++) { sum += tile[q]; }
  }
  for (var width = 32u; width > 0u; width /= 2u) { workgroupBarrier (); }
  for (var j = 0u; j < p.parts; j++) { }
}
'''

# A loop that fills workgroup memory, one over k with a scratch message, and a nested one that stages.
AMD = '''BB0:
	v_lshlrev_b32_e32 v1, 4, v0
BB1:
	ds_store_b128 v1, v[4:7]
	s_cbranch_scc0 BB1
BB2:
	s_barrier
	v_mul_lo_u32 v9, v1, v2
BB3:
	buffer_load_b128 v[4:7], v1, s[0:3], 0 offen
	s_waitcnt vmcnt(0)
	ds_store_b128 v1, v[4:7]
	s_cbranch_scc0 BB3
BB4:
	v_fmac_f32_e32 v1, v2, v3
	v_fmac_f32_e32 v1, v2, v3
	scratch_load_b32 v1, off, s32
	s_cbranch_scc1 BB2
BB5:
	s_endpgm
'''

# 16 lanes: a spill, its two helpers, a product with a scalar, workgroup memory; in a loop.
INTEL = '''mov(16)         g2<1>UD         0x0UD                           { align1 1H };
LABEL1:
and(1)          a0.2<1>UD       g0.5<0,1,0>UD   0xfffffc00UD    { align1 WE_all 1N };
send(16)        nullUD          g48UD           g46UD           0x44000504                a0.2<0>UD
                ugm MsgDesc: ( store, a32, d32, V1, L1STATE_L3MOCS dst_len = 0, src0_len = 2, ss )
send(16)        g20UD           g48UD           nullUD          0x44000504                0
                slm MsgDesc: ( load, a32, d32, V4, L1STATE_L3MOCS dst_len = 8, src0_len = 2, flat )
mad(16)         g10<1>F         g10<8,8,1>F     g20<8,8,1>F     g30<0,1,0>F { align1 1H };
dpas.8x8(8)     g40<1>F         g40<1,1,0>F     g60<1,1,0>HF    g70<1,1,0>HF { align1 1Q };
sync bar(16)                    null<0,1,0>UB                   { align1 WE_all 1H };
while(16)       JIP:  LABEL1                                    { align1 1H };
'''

NVIDIA = '''block 0 [] {
    r1 = mov 0x0
} -> {1}
block 1 [0, 1] {
    r1 = ffma r1 r2 r3
    r1 = ld.shared.b128 [r2]
    st.local.b32 [r2] r1
    bar.sync
} -> {1, 2}
block 2 [1] {
    exit
} -> {}
'''


def read(chip, text):
    path = os.path.join(tap.folder, f'{chip}.s')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    import importlib
    module = importlib.import_module(chips.CHIPS[chip].maker)
    outside, loops = module.read(path, chips.CHIPS[chip], 64)
    machine.set_facts(loops)
    return path, outside, loops


@tap.test
def loops_of_the_text():
    loops = trips.read_text(WGSL, {'p.parts': 6})
    tap.equal([loop.trips for loop in loops], [None, 6, 6])
    tap.equal([loop.trips for loop in loops[0].inner], [8, 4])
    tap.equal([loop.barrier for loop in loops], [True, True, False])


@tap.test
def some_loops_run_seldom():
    counts = [trips.count_trips(header, {'odd': 0, 'grown': 0.03}) for header in (
        'var i = 0u; i < odd; i++', 'var i = 0u; i < grown; i++', 'var e = lane; e < 64u; e += 256u', 'var e = lane; e < 300u; e += 256u', 'var e = 0u; e < 64u; e += 256u')]
    tap.equal(counts, [0, 0.03, 0.25, 2, 1])


@tap.test
def largest_scores_seldom_grow():
    with open(os.path.join(HERE, '..', '..', 'kernels', 'attention-matrix.wgsl'), encoding='utf-8') as file:
        slack = float(re.search(r'SLACK: f32 = ([\d.]+);', file.read())[1])
    draw = random.Random(1)
    groups, queries, blocks, keys = 12, 128, 16, 32
    grown = set()
    for group in range(groups):
        for _ in range(queries):
            top = None
            for block in range(blocks):
                best = max(draw.gauss(0, 1) for _ in range(keys))
                if top is None or best > top + slack:
                    if top is not None:
                        grown.add((group, block))
                    top = best
    share = len(grown) / groups / blocks
    print(f'# {share:.3f} of the blocks')
    tap.equal(share <= trips.KNOWN['grown'] <= 3 * share, True)


@tap.test
def loops_that_are_gone_are_the_short_ones():
    loops = trips.read_text(WGSL, {'p.parts': 6})
    outer, inner = machine.MachineLoop(), machine.MachineLoop()
    outer.inner, outer.barrier = [inner], True
    _, pairs = trips.match([outer], loops)
    tap.equal(pairs[outer].header, loops[0].header)
    tap.equal(pairs[inner].trips, 8)


@tap.test
def amd_adds_up():
    _, outside, loops = read('navi31', AMD)
    tap.equal([len(loops), len(loops[1].inner)], [2, 1])
    tap.equal(loops[0].is_idle, True)
    turn = loops[1].counts
    # Two passes for an integer product, four times as long; float products are paired.
    tap.equal([turn['clk valu'], turn['macs'], turn['product'], turn['spill vmem'], turn['fills']], [10, 128, 2, 4, 1])
    tap.equal(loops[1].inner[0].counts['clk lds'], 16)
    tap.equal(loops[1].inner[0].counts.flight, 1)
    tap.equal(outside['clk valu'], 2)


@tap.test
def intel_adds_up():
    _, _, loops = read('dg2', INTEL)
    turn = loops[0].counts
    tap.equal([turn['spills'], turn['spill lsc'], turn['clk lsc']], [1, 8, 40])
    tap.equal([turn['product'], turn['matrix'], turn['macs'], turn['barriers']], [2, 16, 16 + 1024, 1])
    _, _, loops = read('tgl', INTEL)
    tap.equal(loops[0].counts['clk alu'], 3)
    _, _, loops = read('lnl', INTEL)
    tap.equal(loops[0].counts['product'], 1)


@tap.test
def nvidia_adds_up():
    _, outside, loops = read('ada', NVIDIA)
    turn = loops[0].counts
    tap.equal([turn['clk issue'], turn['macs'], turn['clk shared'], turn['spill shared'], turn['barriers']], [4, 32, 20, 4, 1])
    tap.equal(outside['clk issue'], 2)


@tap.test
def trips_follow_from_the_work():
    path, _, _ = read('navi31', AMD)
    step = {'parameters': {}, 'workgroup-size': 64, 'grid': (10, 1, 1), 'operations': 2.0 * 10 * 128 * 100, 'bytes': 0,
            'kernel': 'k', 'wgsl': WGSL}
    figure = isa.Figures(chips.CHIPS['navi31'], 'g', step, {'subgroup': 64}, path)
    tap.equal(figure.certain, True)
    # 100 iterations of 10 clocks, 100 · 8 iterations of 16 of workgroup memory, and the initial fill.
    tap.equal([figure.total['clk valu'], figure.total['clk lds'], figure.total['macs']], [1002, 12816, 12800])
    # Of memory and scratch, together, 100 · (8 · 16 + 4): spills cost as much as they exceed workgroup memory.
    tap.equal([figure.bound, round(figure.share, 2)], ['vmem', round(100 * 12800 / 64 / 13200, 2)])
    tap.equal(round(figure.spills, 2), round(100 * (1 - 12816 / 13200), 2))


@tap.test
def goals():
    tap.equal(isa.parse_goal('33M'), (33, True))
    tap.equal([isa.is_met('share', 95, 95), isa.is_met('clocks', 8.1, 8), isa.is_met('share', 94, 95)], [True, False, False])
    row = {'target': 'dg2', 'graph': 'g', 'measure': 'share', 'goal': 95, 'value': 80, 'met': False}
    tap.equal(len(isa.find_worse([row], {'dg2 g share': 96})), 1)
    # never met, narrowly missed, unknown
    tap.equal(isa.find_worse([row], {'dg2 g share': 90}), [])
    tap.equal(isa.find_worse([{**row, 'value': 94.5}], {'dg2 g share': 96}), [])
    tap.equal(isa.find_worse([row], {}), [])


tap.main('isa')
