/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "import/rlx-model-private.h"
#include "rlx-session.h"
#include "rlx-state.h"

G_BEGIN_DECLS

#define RLX_SESSION_LIMIT_ROWS (1 << 20)

struct _RlxSession
{
  GObject parent_instance;

  RlxModel *model;
  RlxDevice *device;
  RlxCompileOptions *options;
  char **output_names;     /* without those kept as states */
  GPtrArray *old_names;    /* callers may still be reading them */

  GMutex mutex;
  GCond ready;             /* creating an executable succeeded or failed */
  GQueue made;             /* Made, most recently used first */
  GHashTable *making;      /* keys that a thread is working on */
  GHashTable *known;       /* names of inputs whose elements are part of the key */
  guint capacity;

  gboolean running;        /* a run with states is in progress, which owns the fields below */
  GPtrArray *states;       /* RlxSessionState */
  GHashTable *longer;      /* inputs that grow with the rows, by name: their axis + 1 */
  guint max_rows;
  gint64 n_rows;           /* rows in the buffers of states */

  gboolean begins_anew;    /* the next run does… */
  guint wanted_rows;       /* …with room for this many rows */
};

/* The value of an output, kept for an input of the next run. */
typedef struct
{
  char *input;
  char *output;
  RlxTensor *value;        /* as a whole; NULL: none yet, or it is in the buffer */
  RlxState *buffer;        /* its rows, if it has turned out to grow; nullable */
  gboolean is_in_buffer;
  gboolean grows;          /* the output is the input with rows appended along… */
  guint axis;
} RlxSessionState;

/* A run that is being prepared. */
typedef struct
{
  GHashTable *tensors;     /* RlxTensor by name: given ones, and values of states */
  GHashTable *types;       /* RlxTensorType by name: of all inputs */
  gint64 n_rows;           /* of states that grow */
  RlxExecutable *executable;
  gboolean grows;          /* it supports any number of rows, and adds… */
  gint64 n_new;            /* …this many */
} RlxSessionCall;

/* An executable and its key. */
typedef struct
{
  GBytes *key;
  RlxExecutable *executable;
  gboolean grows;
  gint64 n_new;
} RlxSessionMade;

void          rlx_session_made_free    (RlxSessionMade     *made);
void          rlx_session_trim         (RlxSession         *self);
void          rlx_session_call_clear   (RlxSessionCall     *call);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (RlxSessionCall, rlx_session_call_clear)

/* Finds or creates the executable. With states, between the start and the end of a run. */
gboolean      rlx_session_find         (RlxSession         *self,
                                        const char *const  *names,
                                        RlxTensor         **inputs,
                                        gsize               n_inputs,
                                        RlxSessionCall     *call,
                                        GCancellable       *cancellable,
                                        GError            **error);

/* ---- tensors: rlx-session-value.c ---- */

RlxTensor *   rlx_session_new_zeros    (const RlxTensorType *type,
                                        GError            **error);
/* Truncates a tensor, or appends zeros, to get @size elements along an axis. */
RlxTensor *   rlx_session_resize       (RlxTensor          *tensor,
                                        guint               axis,
                                        gint64              size,
                                        GError            **error);
/* Whether the model has that output. */
gboolean      rlx_session_has_output   (RlxSession         *self,
                                        const char         *name);
/* One of @outputs without padding. It stays on the device if there is none. */
RlxTensor *   rlx_session_cut          (RlxSession         *self,
                                        const char *const  *names,
                                        RlxTensor         **outputs,
                                        guint               index,
                                        GCancellable       *cancellable,
                                        GError            **error);
/* Those of @outputs that the session returns, without padding; terminated by NULL. */
RlxTensor **  rlx_session_take_outputs (RlxSession         *self,
                                        RlxExecutable      *executable,
                                        RlxTensor         **outputs,
                                        gsize              *n_outputs,
                                        GCancellable       *cancellable,
                                        GError            **error);

/* ---- states: rlx-session-state.c ---- */

void          rlx_session_state_free   (gpointer            state);
void          rlx_session_name_outputs (RlxSession         *self);
gboolean      rlx_session_has_states   (RlxSession         *self);
/* Waits until no other run with states is in progress. */
gboolean      rlx_session_begin_run    (RlxSession         *self,
                                        GCancellable       *cancellable,
                                        GError            **error);
void          rlx_session_end_run      (RlxSession         *self);
RlxSessionState *
              rlx_session_find_state   (RlxSession         *self,
                                        const char         *input);
/* Adds the values of states, and inputs that depend on them, to the inputs of a call. */
gboolean      rlx_session_add_past     (RlxSession         *self,
                                        RlxSessionCall     *call,
                                        GError            **error);
RlxTensor **  rlx_session_run_states   (RlxSession         *self,
                                        const char *const  *names,
                                        RlxTensor         **inputs,
                                        gsize               n_inputs,
                                        gsize              *n_outputs,
                                        GCancellable       *cancellable,
                                        GError            **error);

static inline void
rlx_session_get_type_of (RlxTensor     *tensor,
                         RlxTensorType *type)
{
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);

  *type = (RlxTensorType) { .data_type = rlx_tensor_get_data_type (tensor), .n_dims = (guint) n_dims };
  for (gsize i = 0; i < n_dims; i++)
    type->shape[i] = shape[i];
}

G_END_DECLS
