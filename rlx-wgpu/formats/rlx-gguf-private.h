/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The numbers of GGUF files, for who reads and who writes them.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define RLX_GGUF_MAGIC "GGUF"
#define RLX_GGUF_VERSION 3
/* The default if a file does not set it. */
#define RLX_GGUF_ALIGNMENT 32
#define RLX_GGUF_ALIGNMENT_KEY "general.alignment"

/* Types of metadata. */
enum
{
  RLX_GGUF_U8, RLX_GGUF_I8, RLX_GGUF_U16, RLX_GGUF_I16, RLX_GGUF_U32, RLX_GGUF_I32, RLX_GGUF_F32, RLX_GGUF_BOOL,
  RLX_GGUF_STRING, RLX_GGUF_ARRAY, RLX_GGUF_U64, RLX_GGUF_I64, RLX_GGUF_F64,
  RLX_GGUF_N_TYPES
};

G_END_DECLS
