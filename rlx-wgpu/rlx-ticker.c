/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-ticker-private.h"

#define INTERVAL_MS 100

struct _RlxTicker
{
  gatomicrefcount ref_count;
  GMainContext *context;
  GObject *object;
  RlxTickerFunc func;
  GSource *source;
  int n_done;              /* atomic */

  GMutex mutex;            /* of what follows */
  char *what;
  guint n_pieces;
  gboolean told;
  gboolean stopped;
};

static void
ticker_unref (gpointer data)
{
  RlxTicker *self = data;

  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  g_mutex_clear (&self->mutex);
  g_main_context_unref (self->context);
  g_object_unref (self->object);
  g_free (self->what);
  g_free (self);
}

static void
attach (RlxTicker  *self,
        GSource    *source,
        GSourceFunc func)
{
  g_atomic_ref_count_inc (&self->ref_count);
  /* Before the callback of the call, which has the same priority. */
  g_source_set_priority (source, G_PRIORITY_DEFAULT);
  g_source_set_callback (source, func, self, ticker_unref);
  g_source_attach (source, self->context);
}

static gboolean
tick (gpointer data)
{
  RlxTicker *self = data;
  g_autofree char *what = NULL;
  double fraction = 0.0;
  gboolean stopped;

  g_mutex_lock (&self->mutex);
  stopped = self->stopped;
  self->told = self->told || !stopped;
  what = g_strdup (self->what);
  if (self->n_pieces > 0)
    fraction = MIN ((double) g_atomic_int_get (&self->n_done) / self->n_pieces, 1.0);
  g_mutex_unlock (&self->mutex);

  if (!stopped)
    self->func (self->object, fraction, what);
  return G_SOURCE_CONTINUE;
}

static gboolean
tell_end (gpointer data)
{
  RlxTicker *self = data;

  self->func (self->object, 1.0, self->what);
  return G_SOURCE_REMOVE;
}

RlxTicker *
rlx_ticker_start (GMainContext *context,
                  GObject      *object,
                  RlxTickerFunc func)
{
  RlxTicker *self = g_new0 (RlxTicker, 1);

  g_atomic_ref_count_init (&self->ref_count);
  g_mutex_init (&self->mutex);
  self->context = g_main_context_ref (context);
  self->object = g_object_ref (object);
  self->func = func;
  self->source = g_timeout_source_new (INTERVAL_MS);
  attach (self, self->source, tick);
  return self;
}

void
rlx_ticker_set (RlxTicker  *self,
                const char *what,
                guint       n_done,
                guint       n_pieces)
{
  if (self == NULL)
    return;
  g_mutex_lock (&self->mutex);
  g_set_str (&self->what, what);
  self->n_pieces = n_pieces;
  g_atomic_int_set (&self->n_done, (int) n_done);
  g_mutex_unlock (&self->mutex);
}

int *
rlx_ticker_count (RlxTicker *self)
{
  return self != NULL ? &self->n_done : NULL;
}

void
rlx_ticker_stop (RlxTicker *self,
                 gboolean   complete)
{
  gboolean told;

  if (self == NULL)
    return;
  g_mutex_lock (&self->mutex);
  self->stopped = TRUE;
  told = self->told;
  g_mutex_unlock (&self->mutex);

  g_source_destroy (self->source);
  g_clear_pointer (&self->source, g_source_unref);
  if (told && complete)
    {
      g_autoptr(GSource) source = g_idle_source_new ();

      attach (self, source, tell_end);
    }
  ticker_unref (self);
}
