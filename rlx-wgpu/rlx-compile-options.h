/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_COMPILE_OPTIONS (rlx_compile_options_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxCompileOptions, rlx_compile_options, RLX, COMPILE_OPTIONS, GObject)

RLX_AVAILABLE_IN_1_0
RlxCompileOptions * rlx_compile_options_new              (void) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxPrecision        rlx_compile_options_get_precision    (RlxCompileOptions *self);
RLX_AVAILABLE_IN_1_0
void                rlx_compile_options_set_precision    (RlxCompileOptions *self,
                                                          RlxPrecision       precision);
RLX_AVAILABLE_IN_1_0
gboolean            rlx_compile_options_get_tuning       (RlxCompileOptions *self);
RLX_AVAILABLE_IN_1_0
void                rlx_compile_options_set_tuning       (RlxCompileOptions *self,
                                                          gboolean           tuning);
RLX_AVAILABLE_IN_1_0
gboolean            rlx_compile_options_get_profiling    (RlxCompileOptions *self);
RLX_AVAILABLE_IN_1_0
void                rlx_compile_options_set_profiling    (RlxCompileOptions *self,
                                                          gboolean           profiling);
RLX_AVAILABLE_IN_1_0
gboolean            rlx_compile_options_get_checked      (RlxCompileOptions *self);
RLX_AVAILABLE_IN_1_0
void                rlx_compile_options_set_checked      (RlxCompileOptions *self,
                                                          gboolean           checked);
RLX_AVAILABLE_IN_1_0
guint64             rlx_compile_options_get_memory_limit (RlxCompileOptions *self);
RLX_AVAILABLE_IN_1_0
void                rlx_compile_options_set_memory_limit (RlxCompileOptions *self,
                                                          guint64            memory_limit);
RLX_AVAILABLE_IN_1_0
guint64             rlx_compile_options_get_buffer_limit (RlxCompileOptions *self);
RLX_AVAILABLE_IN_1_0
void                rlx_compile_options_set_buffer_limit (RlxCompileOptions *self,
                                                          guint64            buffer_limit);
RLX_AVAILABLE_IN_1_0
RlxDeviceFeatures   rlx_compile_options_get_avoided_features (RlxCompileOptions *self);
RLX_AVAILABLE_IN_1_0
void                rlx_compile_options_set_avoided_features (RlxCompileOptions *self,
                                                              RlxDeviceFeatures  avoided_features);
RLX_AVAILABLE_IN_1_0
double              rlx_compile_options_get_timeout      (RlxCompileOptions *self);
RLX_AVAILABLE_IN_1_0
void                rlx_compile_options_set_timeout      (RlxCompileOptions *self,
                                                          double             timeout);

G_END_DECLS
