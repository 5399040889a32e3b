/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-program-private.h"

#include <string.h>

#include "rlx-tensor-private.h"
#include "rlx-upload-private.h"

void
rlx_program_unref (RlxProgram *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  for (guint i = 0; i < self->plan->buffers->len; i++)
    {
      if (self->residents[i] == NULL)
        rlx_gpu_buffer_free (self->buffers[i]);
      g_clear_pointer (&self->residents[i], rlx_resident_release);
    }
  g_clear_pointer (&self->params, rlx_gpu_buffer_free);
  g_free (self->buffers);
  g_free (self->residents);
  g_string_free (self->relaid, TRUE);
  g_free (self->pipelines);
  for (guint i = 0; i < G_N_ELEMENTS (self->ports); i++)
    g_clear_object (&self->ports[i]);
  g_free (self->input_names);
  g_free (self->output_names);
  g_free (self->is_set);
  g_free (self->given);
  g_free (self->is_f16);
  g_free (self->steps);
  g_ptr_array_unref (self->forks);
  g_mutex_clear (&self->mutex);
  rlx_plan_free (self->plan);
  rlx_gpu_unref (self->gpu);
  g_free (self);
}

static const char *
buffer_label (RlxBufferKind kind)
{
  switch (kind)
    {
    case RLX_BUFFER_BANK: return "bank";
    case RLX_BUFFER_WEIGHTS: return "weights";
    case RLX_BUFFER_FOLDED: return "folded weights";
    default: return "state";
    }
}

RlxGpuBuffer *
rlx_program_new_buffer (RlxProgram *self,
                        guint       index,
                        GError    **error)
{
  const RlxBuffer *buffer = &g_array_index (self->plan->buffers, RlxBuffer, index);

  return rlx_gpu_buffer_new (self->gpu, MAX (buffer->size, 16), RLX_GPU_BUFFER_STORAGE, buffer_label (buffer->kind), error);
}

/* For display: the layout and its size. */
static void
note_relaid (RlxProgram            *self,
             const RlxResidentPart *parts,
             guint                  n_parts,
             guint64                size)
{
  g_autoptr(GString) layout = g_string_new (NULL);

  if (parts[0].packing.width == 0)
    g_string_append (layout, "as it is given");
  else
    g_string_append_printf (layout, "in panels of %u", parts[0].packing.width);
  if (n_parts > 1)
    g_string_append_printf (layout, ", joined with %u others", n_parts - 1);
  for (guint i = 0; i < n_parts; i++)
    {
      gsize n_dims;
      const gint64 *shape = rlx_tensor_get_shape (parts[i].tensor, &n_dims);
      g_autofree char *text = rlx_shape_to_string (shape, n_dims);

      g_string_append_printf (self->relaid, "second layout of %s%s: %s, %" G_GUINT64_FORMAT " bytes\n",
                              rlx_data_type_to_string (rlx_tensor_get_data_type (parts[i].tensor)), text, layout->str,
                              i + 1 < n_parts ? parts[i + 1].offset - parts[i].offset : size - parts[i].offset);
    }
}

char *
rlx_program_describe_weights (RlxProgram *self)
{
  GString *out = g_string_new (NULL);

  if (self->found_bytes > 0)
    g_string_append_printf (out, "%" G_GUINT64_FORMAT " bytes of weights were on the device\n", self->found_bytes);
  g_string_append (out, self->relaid->str);
  return g_string_free (out, FALSE);
}

/* Memory for a constant, shared with others that have it. */
static gboolean
find_resident (RlxProgram *self,
               guint       index,
               GError    **error)
{
  const RlxPlan *plan = self->plan;
  const RlxBuffer *buffer = &g_array_index (plan->buffers, RlxBuffer, index);
  g_autofree RlxResidentPart *parts = g_new0 (RlxResidentPart, buffer->n_constants);
  RlxResidentOrigin origin;

  for (guint i = 0; i < buffer->n_constants; i++)
    {
      const RlxSlot *slot = rlx_plan_get_slot (plan, g_array_index (plan->constants, guint, buffer->first_constant + i));

      parts[i] = (RlxResidentPart) { slot->leaf->data, slot->packing, slot->offset };
    }
  self->residents[index] = rlx_resident_get (self->gpu, parts, buffer->n_constants, buffer->size, &origin, error);
  if (self->residents[index] == NULL)
    return FALSE;

  self->buffers[index] = rlx_resident_get_buffer (self->residents[index]);
  if (origin == RLX_RESIDENT_FOUND)
    self->found_bytes += buffer->size;
  else if (origin == RLX_RESIDENT_RELAID)
    {
      self->relaid_bytes += buffer->size;
      note_relaid (self, parts, buffer->n_constants, buffer->size);
    }
  return TRUE;
}

static gboolean
upload_params (RlxProgram *self,
               GError    **error)
{
  const RlxPlan *plan = self->plan;
  g_autofree guint8 *data = g_malloc0 (MAX (plan->params_size, 16));

  for (guint i = 0; i < plan->steps->len; i++)
    {
      const RlxStep *step = g_ptr_array_index (plan->steps, i);

      for (guint j = 0; j < step->params->len; j++)
        memcpy (data + step->param_offset + j * 4, &g_array_index (step->params, RlxParam, j).bits, 4);
    }
  self->params = rlx_gpu_buffer_new (self->gpu, MAX (plan->params_size, 16), RLX_GPU_BUFFER_UNIFORM, "parameters", error);
  return self->params != NULL &&
         rlx_gpu_buffer_write (self->gpu, self->params, 0, data, MAX (plan->params_size, 16), error);
}

static gboolean
make_pipelines (RlxProgram   *self,
                RlxTicker    *ticker,
                GCancellable *cancellable,
                GError      **error)
{
  const RlxPlan *plan = self->plan;
  g_autofree RlxGpuPipelineDesc *descs = g_new0 (RlxGpuPipelineDesc, plan->steps->len);
  g_autoptr(GPtrArray) kinds = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GHashTable) texts = g_hash_table_new (g_str_hash, g_str_equal);
  gboolean late = rlx_gpu_compiles_late (self->gpu), warm;
  guint failed = 0;

  for (guint i = 0; i < plan->steps->len; i++)
    {
      const RlxStep *step = g_ptr_array_index (plan->steps, i);
      RlxGpuBindingKind *bindings = g_new0 (RlxGpuBindingKind, step->bindings->len);

      for (guint j = 0; j < step->bindings->len; j++)
        bindings[j] = g_array_index (step->bindings, RlxStepBinding, j).kind;
      g_ptr_array_add (kinds, bindings);
      descs[i] = (RlxGpuPipelineDesc) { step->kernel, step->wgsl, bindings, step->bindings->len, NULL };
      /* Steps that share a kernel count once. */
      if (ticker != NULL && g_hash_table_add (texts, step->wgsl))
        descs[i].n_made = rlx_ticker_count (ticker);
    }
  rlx_ticker_set (ticker, "compiling kernels", 0, g_hash_table_size (texts));

  warm = !late || rlx_gpu_pipelines_warm (self->gpu, descs, plan->steps->len, &failed, cancellable, error);
  /* They have already been counted. */
  for (guint i = 0; late && i < plan->steps->len; i++)
    descs[i].n_made = NULL;
  if (warm && rlx_gpu_pipelines_new (self->gpu, descs, plan->steps->len, self->pipelines, &failed, cancellable, error))
    return TRUE;
  if (error != NULL && *error != NULL && (*error)->domain == RLX_COMPILE_ERROR && failed < plan->steps->len)
    {
      const RlxStep *step = g_ptr_array_index (plan->steps, failed);
      g_prefix_error (error, "%s “%s”: ", step->op, step->label);
    }
  return FALSE;
}

void
rlx_program_choose_dispatches (RlxProgram     *self,
                               RlxProgramFork *fork)
{
  for (guint i = 0; i < self->n_steps; i++)
    fork->running[i] = fork->dispatches[self->steps[i]];
}

void
rlx_program_choose_steps (RlxProgram *self)
{
  const RlxPlan *plan = self->plan;

  self->n_steps = 0;
  for (guint i = plan->n_prologue; i < plan->steps->len; i++)
    {
      const RlxStep *step = g_ptr_array_index (plan->steps, i);

      if (step->f16_weight == 0 || self->is_f16[step->f16_weight - 1] == step->if_f16)
        self->steps[self->n_steps++] = i;
    }
  for (guint i = 0; i < self->forks->len; i++)
    rlx_program_choose_dispatches (self, g_ptr_array_index (self->forks, i));
}

static const char **
port_names (const GArray *ports)
{
  const char **names = g_new0 (const char *, ports->len + 1);

  for (guint i = 0; i < ports->len; i++)
    names[i] = g_array_index (ports, RlxPlanPort, i).name;
  return names;
}

RlxProgram *
rlx_program_new (RlxGpu          *gpu,
                 RlxPlan         *plan,
                 const RlxSpeeds *speeds,
                 RlxTicker       *ticker,
                 GCancellable    *cancellable,
                 GError         **error)
{
  RlxProgram *self = g_new0 (RlxProgram, 1);
  gboolean ok = TRUE;

  g_atomic_ref_count_init (&self->ref_count);
  self->plan = plan;
  self->gpu = rlx_gpu_ref (gpu);
  self->speeds = *speeds;
  self->input_names = port_names (plan->inputs);
  self->output_names = port_names (plan->outputs);
  self->buffers = g_new0 (RlxGpuBuffer *, plan->buffers->len + 1);
  self->relaid = g_string_new (NULL);
  self->residents = g_new0 (RlxResident *, plan->buffers->len + 1);
  self->pipelines = g_new0 (RlxGpuPipeline *, plan->steps->len + 1);
  self->is_set = g_new0 (gboolean, plan->parameters->len + 1);
  self->given = g_new0 (int, plan->parameters->len + 1);
  self->stale = plan->n_prologue > 0;
  g_mutex_init (&self->mutex);
  self->is_f16 = g_new0 (gboolean, plan->f16_weights->len + 1);
  self->steps = g_new0 (guint, plan->steps->len + 1);
  self->forks = g_ptr_array_new ();
  rlx_program_choose_steps (self);

  for (guint i = 0; ok && i < plan->buffers->len; i++)
    if (g_array_index (plan->buffers, RlxBuffer, i).kind == RLX_BUFFER_CONSTANT)
      ok = find_resident (self, i, error);
    else if (!rlx_plan_is_own_buffer (plan, i))
      ok = (self->buffers[i] = rlx_program_new_buffer (self, i, error)) != NULL;

  if (ok)
    {
      RlxUpload *upload = rlx_upload_start (gpu, plan, self->buffers, self->residents, cancellable);

      ok = upload_params (self, error) && make_pipelines (self, ticker, cancellable, error);
      /* Of two errors, the first is kept. */
      ok = rlx_upload_finish (upload, ok ? error : NULL) && ok;
    }

  if (!ok)
    {
      rlx_program_unref (self);
      return NULL;
    }
  return self;
}
