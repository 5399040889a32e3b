/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The facts about each data type: a single table for the host, the text form, files and the
 * WGSL around kernels.
 */
#pragma once

#include "rlx-types.h"

G_BEGIN_DECLS

typedef enum
{
  RLX_NUMBER_NONE,     /* not a data type */
  RLX_NUMBER_FLOAT,
  RLX_NUMBER_SIGNED,
  RLX_NUMBER_UNSIGNED,
  RLX_NUMBER_BOOL,
  RLX_NUMBER_NARROW,   /* a float that is stored and converted, but never computed with */
} RlxNumberClass;

typedef struct
{
  const char *name;           /* as in the text form */
  RlxNumberClass number;
  guint bits;                 /* of an element on the host */
  RlxDataType on_device;      /* the type that the device stores instead; mostly the same */
  RlxDataType in_files;       /* the type that .npy files use instead; mostly the same */
  const char *wgsl;           /* the type kernels compute with */
  /* The integers it can represent; for floats narrower than 32 bits, those that do not
   * round to infinity. */
  gint64 min;
  guint64 max;
} RlxDataTypeInfo;

#define RLX_N_DATA_TYPES (RLX_DATA_TYPE_U2 + 1)
extern const RlxDataTypeInfo rlx_data_types[RLX_N_DATA_TYPES + 1];

/* Also correct if the compiler makes the enumeration signed. */
#define RLX_IS_DATA_TYPE(data_type) ((guint) (data_type) < RLX_N_DATA_TYPES)

/* For values that are not data types, returns a row that says so. */
static inline const RlxDataTypeInfo *
rlx_data_type_get_info (RlxDataType data_type)
{
  return &rlx_data_types[MIN ((guint) data_type, RLX_N_DATA_TYPES)];
}

/* The type a value has on the device: 64-bit integers are stored in 32 bits. */
static inline RlxDataType
rlx_data_type_on_device (RlxDataType data_type)
{
  return rlx_data_type_get_info (data_type)->on_device;
}

static inline gboolean
rlx_data_type_is_float (RlxDataType data_type)
{
  return rlx_data_type_get_info (data_type)->number == RLX_NUMBER_FLOAT;
}

/* Floats that kernels only load and store. */
static inline gboolean
rlx_data_type_is_narrow (RlxDataType data_type)
{
  return rlx_data_type_get_info (data_type)->number == RLX_NUMBER_NARROW;
}

/* Whether kernels load the type as a float. */
static inline gboolean
rlx_data_type_loads_float (RlxDataType data_type)
{
  return rlx_data_type_is_float (data_type) || rlx_data_type_is_narrow (data_type);
}

static inline gboolean
rlx_data_type_is_unsigned (RlxDataType data_type)
{
  return rlx_data_type_get_info (data_type)->number == RLX_NUMBER_UNSIGNED;
}

static inline gboolean
rlx_data_type_is_int (RlxDataType data_type)
{
  return rlx_data_type_get_info (data_type)->number == RLX_NUMBER_SIGNED || rlx_data_type_is_unsigned (data_type);
}

/* The names of a set of types, by bit. */
char *rlx_data_types_to_string (guint       types,
                                const char *separator);

G_END_DECLS
