/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the property tests draw: sizes at the edges of tiles, and tensors with
 * the values that break things.
 */
#pragma once

#include <float.h>
#include <math.h>
#include <string.h>

#include "rlx-reference.h"
#include "rlx-test-util.h"

G_BEGIN_DECLS

/* What kind of values a tensor has. */
typedef enum
{
  PROP_GIVEN,      /* not random: as provided by a generator */
  PROP_TAME,       /* floats within ±2, small integers */
  PROP_WILD,       /* every magnitude, infinities and NaN; every integer */
  PROP_POSITIVE,   /* floats from ½ to 2 */
  PROP_ODD,        /* tame floats with many zeros of both signs, subnormals and halves */
  PROP_SPOILT,     /* the same with an infinity or a NaN here and there */
  PROP_SPOILT_POSITIVE,
} PropKind;

gint64 prop_pick (GRand *rand, gint64 least, gint64 greatest);
gboolean prop_chance (GRand *rand, double probability);
gint64 prop_size (GRand *rand, gint64 most);
gsize prop_count (const gint64 *shape, gsize n_dims);
double prop_float (GRand *rand, PropKind kind, gboolean half);
gint64 prop_int (GRand *rand, PropKind kind, RlxDataType data_type);
char *prop_type_text (RlxDataType data_type, const gint64 *shape, gsize n_dims);
RlxTensor *prop_tensor (GRand *rand, PropKind kind, RlxDataType data_type, const gint64 *shape, gsize n_dims);
guint32 prop_seed (const char *what);

G_END_DECLS
