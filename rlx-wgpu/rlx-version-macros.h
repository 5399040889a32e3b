/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <glib.h>

#ifndef RLX_API
#if defined(RLX_COMPILATION) && defined(__GNUC__)
#define RLX_API __attribute__ ((visibility ("default"))) extern
#else
#define RLX_API extern
#endif
#endif
