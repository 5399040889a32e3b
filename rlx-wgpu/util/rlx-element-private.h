/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One element of an array of any data type: the only place that knows how types are laid out
 * in memory. @data is aligned for the type, and @index is within the array.
 */
#pragma once

#include "util/rlx-data-type-private.h"

G_BEGIN_DECLS

/* The integers that a type can represent; for f16 those that do not round to infinity. */
void   rlx_element_get_int_range (RlxDataType    data_type,
                                  gint64        *min,
                                  guint64       *max);

/* @value is in the range of @data_type. */
void   rlx_element_set_int       (RlxDataType    data_type,
                                  gpointer       data,
                                  gsize          index,
                                  gint64         value);

/* For narrow floats, rounded as by rlx_narrow_from_double(). */
void   rlx_element_set_narrow    (RlxDataType    data_type,
                                  gpointer       data,
                                  gsize          index,
                                  double         value);

double rlx_element_get_double    (RlxDataType    data_type,
                                  gconstpointer  data,
                                  gsize          index);
float  rlx_element_get_float     (RlxDataType    data_type,
                                  gconstpointer  data,
                                  gsize          index);
/* Floats are truncated, values out of range are clamped, and NaN becomes 0. */
gint64 rlx_element_get_int       (RlxDataType    data_type,
                                  gconstpointer  data,
                                  gsize          index);

/* The element as text; the same in every locale. */
void   rlx_element_append        (GString       *text,
                                  RlxDataType    data_type,
                                  gconstpointer  data,
                                  gsize          index);

G_END_DECLS
