/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A small preprocessor for WGSL, which does what `override` cannot do (types,
 * structure, unrolling). Lines that start with # are directives:
 *
 *   #include "common/name.wgsl"      once per expansion; relative to kernels/
 *   #include "FILE" N=EXPR T="text"… once per set of values, which are defined up to its end
 *   #use NAME NAME…                  functions of common/math.wgsl and their
 *                                    dependencies, each once per expansion; ${NAME}
 *                                    stands for the names in a text variable, if any
 *   #define NAME EXPR                an integer, from here on
 *   #if EXPR  #elif EXPR  #else  #endif
 *   #for NAME in A..B  #endfor       repeats its body for A, A+1, … B-1
 *
 * and everywhere $(EXPR) becomes the decimal value of an integer expression
 * and ${NAME} the text of a text variable. EXPR has integers, names,
 * defined(NAME), + - * / % ( ) ! == != < <= > >= && ||. An unknown name, a
 * division by zero, an overflow or an unbalanced directive is an error that
 * names file and line. Only the library's own files and numbers are processed,
 * never a string from a user.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _RlxTemplate RlxTemplate;

RlxTemplate *rlx_template_new        (void);
void         rlx_template_free       (RlxTemplate *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxTemplate, rlx_template_free)

void         rlx_template_set_int    (RlxTemplate *self, const char *name, gint64 value);
void         rlx_template_set_text   (RlxTemplate *self, const char *name, const char *text);

/* All definitions, in a fixed order: while the description is the same, so is the expansion
 * of a text. */
char *       rlx_template_describe   (RlxTemplate *self);

/* Expands a kernel file of the library's resource, for instance "softmax.wgsl"
 * (resource path /rlx-wgpu/kernels/softmax.wgsl). */
char *       rlx_template_expand_file (RlxTemplate *self, const char *file, GError **error);
/* Expands text; @label stands for the file name in messages. */
char *       rlx_template_expand     (RlxTemplate *self, const char *text, const char *label, GError **error);

G_END_DECLS
