/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Libraries of WGSL functions. Each function is a block that begins with a line
 *
 *   //= name: dependency dependency …
 *
 * and runs to the next such line or the end of the file; text before the first
 * block belongs to none. A kernel includes the blocks that it names and their
 * dependencies, because every function that reaches the driver costs compile time.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* The library that contains most functions, and that #use in a template refers to. */
#define RLX_WGSL_LIBRARY_MATH "common/math.wgsl"

/* The text of a file below kernels/. */
char *   rlx_wgsl_library_load         (const char         *file,
                                        GError            **error);

/* The blocks called @names (NULL-terminated; NULL for all of them) and what
 * they depend on, each once, in the order of the file. */
char *   rlx_wgsl_library_select       (const char         *file,
                                        const char *const  *names,
                                        GError            **error);

/* The same, but without the blocks in @done, a set that owns its strings, to which the
 * selected ones are added. */
char *   rlx_wgsl_library_select_new   (const char         *file,
                                        const char *const  *names,
                                        GHashTable         *done,
                                        GError            **error);

/* Adds the op_* and cast_* identifiers in @text to @names, an array of strings
 * with g_free() as its free function, unless they are in it already. */
void     rlx_wgsl_library_scan         (const char         *text,
                                        GPtrArray          *names);

G_END_DECLS
