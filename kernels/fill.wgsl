// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Zeros.

fn element (i: u32) -> u32 {
  return 0u;
}

#include "common/elements.wgsl"
