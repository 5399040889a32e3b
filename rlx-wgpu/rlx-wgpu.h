/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#define RLX_INSIDE
#include <rlx-wgpu/rlx-version.h>
#include <rlx-wgpu/rlx-version-macros.h>
#include <rlx-wgpu/rlx-run-time.h>
#include <rlx-wgpu/rlx-types.h>
#include <rlx-wgpu/rlx-enum-types.h>
#include <rlx-wgpu/rlx-adapter.h>
#include <rlx-wgpu/rlx-calibration.h>
#include <rlx-wgpu/rlx-compile-options.h>
#include <rlx-wgpu/rlx-device.h>
#include <rlx-wgpu/rlx-executable.h>
#include <rlx-wgpu/rlx-gradient-options.h>
#include <rlx-wgpu/rlx-graph.h>
#include <rlx-wgpu/rlx-model.h>
#include <rlx-wgpu/rlx-node.h>
#include <rlx-wgpu/rlx-op-methods.h>
#include <rlx-wgpu/rlx-op-options.h>
#include <rlx-wgpu/rlx-operators.h>
#include <rlx-wgpu/rlx-optimizer-options.h>
#include <rlx-wgpu/rlx-port.h>
#include <rlx-wgpu/rlx-profile.h>
#include <rlx-wgpu/rlx-session.h>
#include <rlx-wgpu/rlx-state.h>
#include <rlx-wgpu/rlx-target.h>
#include <rlx-wgpu/rlx-tensor.h>
#include <rlx-wgpu/rlx-text-encoder.h>
#include <rlx-wgpu/rlx-tokenizer.h>
#include <rlx-wgpu/rlx-web-export.h>
#include <rlx-wgpu/rlx-weights.h>
#undef RLX_INSIDE
