/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "util/rlx-data-type-private.h"

#define T(NAME) RLX_DATA_TYPE_##NAME

/* clang-format off */
const RlxDataTypeInfo rlx_data_types[RLX_N_DATA_TYPES + 1] = {
  /*            name    number               bits  on device  in files  wgsl    from            to            */
  [T (F32)]  = { "f32",  RLX_NUMBER_FLOAT,    32,   T (F32),  T (F32),  "f32",  G_MININT64,     G_MAXINT64  },
  [T (F16)]  = { "f16",  RLX_NUMBER_FLOAT,    16,   T (F16),  T (F16),  "f32",  -65519,         65519       },
  [T (I32)]  = { "i32",  RLX_NUMBER_SIGNED,   32,   T (I32),  T (I32),  "i32",  G_MININT32,     G_MAXINT32  },
  [T (U32)]  = { "u32",  RLX_NUMBER_UNSIGNED, 32,   T (U32),  T (U32),  "u32",  0,              G_MAXUINT32 },
  [T (I8)]   = { "i8",   RLX_NUMBER_SIGNED,   8,    T (I8),   T (I8),   "i32",  G_MININT8,      G_MAXINT8   },
  [T (U8)]   = { "u8",   RLX_NUMBER_UNSIGNED, 8,    T (U8),   T (U8),   "u32",  0,              G_MAXUINT8  },
  [T (BOOL)] = { "bool", RLX_NUMBER_BOOL,     8,    T (BOOL), T (BOOL), "bool", 0,              1           },
  [T (I64)]  = { "i64",  RLX_NUMBER_SIGNED,   64,   T (I32),  T (I64),  "i32",  G_MININT64,     G_MAXINT64  },
  [T (U64)]  = { "u64",  RLX_NUMBER_UNSIGNED, 64,   T (U32),  T (U64),  "u32",  0,              G_MAXUINT64 },
  [T (I4)]   = { "i4",   RLX_NUMBER_SIGNED,   4,    T (I4),   T (I8),   "i32",  -8,             7           },
  [T (U4)]   = { "u4",   RLX_NUMBER_UNSIGNED, 4,    T (U4),   T (U8),   "u32",  0,              15          },
  [T (I16)]  = { "i16",  RLX_NUMBER_SIGNED,   16,   T (I16),  T (I32),  "i32",  G_MININT16,     G_MAXINT16  },
  [T (U16)]  = { "u16",  RLX_NUMBER_UNSIGNED, 16,   T (U16),  T (U32),  "u32",  0,              G_MAXUINT16 },
  [T (BF16)] = { "bf16", RLX_NUMBER_NARROW,   16,   T (BF16), T (F32),  "f32",  G_MININT64,     G_MAXINT64  },
  [T (F8E4M3FN)]   = { "f8e4m3fn",   RLX_NUMBER_NARROW, 8, T (F8E4M3FN),   T (F32), "f32", -464,   464   },
  [T (F8E4M3FNUZ)] = { "f8e4m3fnuz", RLX_NUMBER_NARROW, 8, T (F8E4M3FNUZ), T (F32), "f32", -247,   247   },
  [T (F8E5M2)]     = { "f8e5m2",     RLX_NUMBER_NARROW, 8, T (F8E5M2),     T (F32), "f32", -61439, 61439 },
  [T (F8E5M2FNUZ)] = { "f8e5m2fnuz", RLX_NUMBER_NARROW, 8, T (F8E5M2FNUZ), T (F32), "f32", -61439, 61439 },
  [T (F8E8M0)]     = { "f8e8m0",     RLX_NUMBER_NARROW, 8, T (F8E8M0),     T (F32), "f32", 1,      G_MAXINT64 },
  [T (F4E2M1)]     = { "f4e2m1",     RLX_NUMBER_NARROW, 4, T (F4E2M1),     T (F32), "f32", -6,     6     },
  [T (I2)]   = { "i2",   RLX_NUMBER_SIGNED,   2,    T (I2),   T (I8),   "i32",  -2,             1           },
  [T (U2)]   = { "u2",   RLX_NUMBER_UNSIGNED, 2,    T (U2),   T (U8),   "u32",  0,              3           },
  [RLX_N_DATA_TYPES] = { .name = "invalid" },
};
/* clang-format on */

char *
rlx_data_types_to_string (guint       types,
                          const char *separator)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < RLX_N_DATA_TYPES; i++)
    if (types & (1u << i))
      g_string_append_printf (text, "%s%s", text->len > 0 ? separator : "", rlx_data_types[i].name);

  return g_string_free (text, FALSE);
}
