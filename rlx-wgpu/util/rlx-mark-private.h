/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Marks on sysprof's time line. They cost next to nothing while nobody records them, and
 * nothing if the library was built without sysprof.
 *
 *   RLX_MARK_BEGIN (run);
 *   …
 *   RLX_MARK_END (run, "%u dispatches", n);
 */
#pragma once

#ifdef HAVE_SYSPROF
#include <sysprof-capture.h>

#define RLX_MARK_BEGIN(name) gint64 mark_begin_##name = SYSPROF_CAPTURE_CURRENT_TIME
#define RLX_MARK_END(name, ...) \
  sysprof_collector_mark_printf (mark_begin_##name, SYSPROF_CAPTURE_CURRENT_TIME - mark_begin_##name, "rlx-wgpu", #name, __VA_ARGS__)
#else
#define RLX_MARK_BEGIN(name) G_STMT_START { } G_STMT_END
#define RLX_MARK_END(name, ...) G_STMT_START { } G_STMT_END
#endif
