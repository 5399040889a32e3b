/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Tells how far a long call is, to somebody who waits in a main context. The call only
 * counts; a time-out of that context looks at the count ten times a second. So
 * nothing is told of calls that take less, nor in contexts that nobody runs, and no
 * other thread ever calls into a script.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _RlxTicker RlxTicker;

/* In the main context. @fraction is from 0 to 1, @what nullable. */
typedef void (*RlxTickerFunc) (gpointer    object,
                               double      fraction,
                               const char *what);

/* Calls @func for @object, which it keeps alive. */
RlxTicker * rlx_ticker_start (GMainContext *context,
                              GObject      *object,
                              RlxTickerFunc func);

/* @self is nullable in all of these. */

/* The current activity, and how many of its pieces are done; a total of 0 means unknown. */
void        rlx_ticker_set   (RlxTicker    *self,
                              const char   *what,
                              guint         n_done,
                              guint         n_pieces);
/* The counter of pieces done, to be incremented atomically. NULL without a ticker. */
int *       rlx_ticker_count (RlxTicker    *self);
/* At the end of the call. Reports completion if anything was reported and the call is @complete. */
void        rlx_ticker_stop  (RlxTicker    *self,
                              gboolean      complete);

G_END_DECLS
