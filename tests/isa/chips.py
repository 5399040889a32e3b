# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The chips to compile for, and what is known about them."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Chip:
    """`name` is a target of the library. `card` is its name for the driver, or gpu-shim.c. `bytes_per_clock` is what
    memory delivers to one of the units whose clocks are counted (an engine for Intel, a SIMD for AMD, a quarter of an SM
    for NVIDIA), according to the vendors' data: bandwidth / (units · clock)."""
    name: str
    maker: str
    card: str
    model: str
    bytes_per_clock: float
    units: int                # their number
    matrix_rate: int = 0      # of its matrix units, f16 with f32 sums, in f32 products; 0: no usable ones
    lanes: int = 8            # Intel: of an engine
    shared_pipe: bool = False  # Intel: floats and integers share a pipe
    gfx: int = 11             # AMD: the generation


# Bandwidth in GB/s and clock in GHz: 68, 1.3; 560, 2.1; 136, 1.95; 512, 2.25; 960, 2.3; 640, 2.6; 336, 1.68; 272, 2.46.
CHIPS = {chip.name: chip for chip in (
    Chip('tgl', 'intel', 'tgl', 'Iris Xe (Tiger Lake)', 0.54, 96, shared_pipe=True),
    Chip('dg2', 'intel', 'dg2', 'Arc A770', 0.52, 512, 8),
    Chip('lnl', 'intel', 'lnl', 'Arc 140V (Lunar Lake)', 1.09, 64, 8, lanes=16),
    Chip('navi21', 'amd', 'navi21', 'RX 6900 XT', 1.42, 160, gfx=10),
    Chip('navi31', 'amd', 'navi31', 'RX 7900 XTX', 2.17, 192, 2),
    Chip('gfx1201', 'amd', 'gfx1201', 'RX 9070 XT', 1.92, 128, gfx=12),
    Chip('turing', 'nvidia', 'turing', 'RTX 2060', 1.67, 120, 2),
    Chip('ada', 'nvidia', 'ada', 'RTX 4060', 1.15, 96, 2),
)}


def get_peak(chip):
    """Multiply-adds of f32 per clock and unit."""
    return {'intel': chip.lanes, 'amd': 64 if chip.gfx >= 11 else 32, 'nvidia': 32}[chip.maker]
