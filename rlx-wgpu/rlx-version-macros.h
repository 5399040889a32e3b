/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <glib.h>
#include <rlx-wgpu/rlx-version.h>

#ifndef RLX_API
#if defined(RLX_COMPILATION) && defined(__GNUC__)
#define RLX_API __attribute__ ((visibility ("default"))) extern
#else
#define RLX_API extern
#endif
#endif

/* A minor version that adds functions has a block like that of 1.0 at each of the two
 * places below. */

/**
 * RLX_VERSION_1_0:
 *
 * Version 1.0, for [const@Rlx.VERSION_MIN_REQUIRED] and [const@Rlx.VERSION_MAX_ALLOWED].
 *
 * Since: 1.0
 */
#define RLX_VERSION_1_0 (G_ENCODE_VERSION (1, 0))

/* What comes before 1.0 is on its way there. */
#if RLX_MAJOR_VERSION < 1
#define RLX_VERSION_CURRENT_ RLX_VERSION_1_0
#else
#define RLX_VERSION_CURRENT_ (G_ENCODE_VERSION (RLX_MAJOR_VERSION, RLX_MINOR_VERSION))
#endif

/**
 * RLX_VERSION_MIN_REQUIRED:
 *
 * The oldest version that a program is meant to work with; by default that of the headers. Using anything that
 * was deprecated in that version or before leads to a warning. Define it, for example as `RLX_VERSION_1_0`,
 * before including the headers.
 *
 * Since: 1.0
 */
#ifndef RLX_VERSION_MIN_REQUIRED
#define RLX_VERSION_MIN_REQUIRED RLX_VERSION_CURRENT_
#endif

/**
 * RLX_VERSION_MAX_ALLOWED:
 *
 * The newest version whose functions a program may use; by default that of the headers. Using anything that was
 * added later leads to a warning. Define it, for example as `RLX_VERSION_1_0`, before including the headers.
 *
 * Since: 1.0
 */
#ifndef RLX_VERSION_MAX_ALLOWED
#define RLX_VERSION_MAX_ALLOWED RLX_VERSION_CURRENT_
#endif

#if RLX_VERSION_MIN_REQUIRED < RLX_VERSION_1_0
#error "RLX_VERSION_MIN_REQUIRED is below RLX_VERSION_1_0"
#endif
#if RLX_VERSION_MAX_ALLOWED < RLX_VERSION_MIN_REQUIRED
#error "RLX_VERSION_MAX_ALLOWED is below RLX_VERSION_MIN_REQUIRED"
#endif
#if RLX_VERSION_MIN_REQUIRED > RLX_VERSION_CURRENT_
#error "RLX_VERSION_MIN_REQUIRED is above the version of the headers"
#endif

/* Define RLX_DISABLE_DEPRECATION_WARNINGS to hear of neither. */
#ifdef RLX_DISABLE_DEPRECATION_WARNINGS
#define _RLX_DEPRECATED RLX_API
#define _RLX_DEPRECATED_FOR(f) RLX_API
#define _RLX_UNAVAILABLE(major, minor) RLX_API
#else
#define _RLX_DEPRECATED G_DEPRECATED RLX_API
#define _RLX_DEPRECATED_FOR(f) G_DEPRECATED_FOR (f) RLX_API
#define _RLX_UNAVAILABLE(major, minor) G_UNAVAILABLE (major, minor) RLX_API
#endif

/* Nothing for people to call: the scanner takes macros with arguments for functions. */
#ifndef __GI_SCANNER__
#if RLX_VERSION_MIN_REQUIRED >= RLX_VERSION_1_0
#define RLX_DEPRECATED_IN_1_0 _RLX_DEPRECATED
#define RLX_DEPRECATED_IN_1_0_FOR(f) _RLX_DEPRECATED_FOR (f)
#else
#define RLX_DEPRECATED_IN_1_0 RLX_API
#define RLX_DEPRECATED_IN_1_0_FOR(f) RLX_API
#endif
#endif
#if RLX_VERSION_MAX_ALLOWED < RLX_VERSION_1_0
#define RLX_AVAILABLE_IN_1_0 _RLX_UNAVAILABLE (1, 0)
#else
#define RLX_AVAILABLE_IN_1_0 RLX_API
#endif
