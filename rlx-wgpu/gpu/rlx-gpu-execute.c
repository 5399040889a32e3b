/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Running a job: encode, submit in bounded pieces, wait, read back. Nothing
 * here makes an object on the GPU, except for staging memory and queries that
 * the pool does not hold yet.
 */
#include "config.h"

#include "rlx-gpu-internal.h"

#include <math.h>
#include <string.h>

/* Watchdogs of GPU drivers kill work after one to two seconds, some silently, so a
 * submit stays far below that. */
#define SUBMIT_SECONDS 0.1
#define SUBMIT_DISPATCHES 512
/* Estimates may be far off. If progress is reported, there are at least this many submits. */
#define WATCHED_SUBMITS 32
#define UNKNOWN_ESTIMATE 20e-6
#define MAX_ESTIMATE 3600.0
/* Enough for the GPU never to idle between two submits. */
#define SUBMITS_IN_FLIGHT 2

#define UPLOAD_IN_FLIGHT (G_GUINT64_CONSTANT (64) << 20)

#define ROUND_MAX (G_GUINT64_CONSTANT (256) << 20)
#define ROUND_MIN (G_GUINT64_CONSTANT (64) << 10)

/* The canary comes first; segments start at multiples of this. */
#define SEGMENT_ALIGNMENT 16

/* Some drivers compile a shader when it is first dispatched. */
#define COLD_ALLOWANCE (5 * G_USEC_PER_SEC)

/* Bytes of timestamps of one submit; a multiple of the 256 that resolving
 * asks for. */
#define RESOLVE_SLOT (SUBMIT_DISPATCHES * 2 * sizeof (guint64))

typedef struct
{
  guint first;
  guint n;
  guint64 allowance;       /* microseconds on top of the time-out */
} Chunk;

/* A piece of a download. */
typedef struct
{
  WGPUBuffer source;
  guint64 source_offset;
  guint64 length;
  guint64 staging_offset;
  guint8 *target;
  gsize skip;              /* bytes before the requested ones, from rounding down */
  gsize wanted;
} Segment;

typedef struct
{
  WGPUFuture future;
  guint64 allowance;
  guint n_done;            /* dispatches that have ended when it has */
} InFlight;

typedef struct
{
  RlxGpu *gpu;
  const RlxGpuJob *job;
  GArray *chunks;          /* the device's, as the segments */
  guint64 timeout;
  gboolean timeout_given;
  gboolean cold;           /* some kernel was not dispatched before */

  InFlight in_flight[SUBMITS_IN_FLIGHT];
  guint n_in_flight;

  GArray *segments;
  guint64 round_max;
  guint next_download;
  guint64 next_position;
  guint64 *stamps;         /* NULL when not profiled */
  gsize stamps_size;

  RlxGpuStaging staging;
  guint64 staging_used;
  guint64 header;          /* bytes in front of the segments: the canary, and those of jobs that nobody waited for */
  guint32 sequence;
} Run;

void
rlx_gpu_execute_clear (RlxGpu *gpu)
{
  rlx_gpu_staging_trim (gpu, 0);
  rlx_gpu_left_clear (gpu);

  rlx_gpu_clear_canary (gpu);
  if (gpu->resolve != NULL)
    rlx_gpu_raw_buffer_free (gpu, gpu->resolve, gpu->resolve_size);
  gpu->resolve = NULL;
  g_clear_pointer (&gpu->queries, wgpuQuerySetRelease);
  g_clear_pointer (&gpu->chunks, g_array_unref);
  g_clear_pointer (&gpu->segments, g_array_unref);
}

/* ---- planning ---- */

static gboolean
plan_chunks (Run     *run,
             GError **error)
{
  const RlxGpuJob *job = run->job;
  guint32 max_workgroups = run->gpu->info->target.limits.max_workgroups;
  guint max_dispatches = SUBMIT_DISPATCHES;
  Chunk chunk = { 0 };
  double seconds = 0.0;

  if (job->watched)
    max_dispatches = MIN ((job->n_dispatches + WATCHED_SUBMITS - 1) / WATCHED_SUBMITS, SUBMIT_DISPATCHES);

  for (guint i = 0; i < job->n_dispatches; i++)
    {
      const RlxGpuDispatch *dispatch = &job->dispatches[i];
      double estimate = dispatch->estimate;

      if (dispatch->pipeline == NULL || dispatch->group == NULL)
        {
          g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL,
                       "Dispatch %u has no kernel or no buffers", i);
          return FALSE;
        }
      for (guint d = 0; d < 3; d++)
        if (dispatch->grid[d] > max_workgroups)
          {
            g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL,
                         "Dispatch %u of “%s” has %u workgroups in dimension %u; the limit is %u",
                         i, dispatch->pipeline->label, dispatch->grid[d], d, max_workgroups);
            return FALSE;
          }

      /* Also for NaN. */
      if (!(estimate > 0.0))
        estimate = UNKNOWN_ESTIMATE;
      estimate = MIN (estimate, MAX_ESTIMATE);

      if (chunk.n == max_dispatches ||
          (chunk.n > 0 && seconds + estimate > SUBMIT_SECONDS))
        {
          g_array_append_val (run->chunks, chunk);
          chunk = (Chunk) { .first = i };
          seconds = 0.0;
        }

      seconds += estimate;
      chunk.n++;
      chunk.allowance += (guint64) (10.0 * estimate * G_USEC_PER_SEC);
      run->cold = run->cold || !dispatch->pipeline->warm;
      if (!dispatch->pipeline->warm && !run->timeout_given)
        chunk.allowance += COLD_ALLOWANCE;
    }

  /* There is always one, if only for the copies and the canary. */
  g_array_append_val (run->chunks, chunk);
  return TRUE;
}

/* Download @index, with the timestamps as one more after the last. */
static gboolean
get_download (Run        *run,
              guint       index,
              WGPUBuffer *source,
              guint64    *capacity,
              guint64    *offset,
              gsize      *size,
              guint8    **target)
{
  const RlxGpuJob *job = run->job;

  if (index < job->n_downloads)
    {
      const RlxGpuDownload *download = &job->downloads[index];

      *source = download->buffer->handle;
      *capacity = download->buffer->capacity;
      *offset = download->offset;
      *size = download->size;
      *target = download->data;
      return TRUE;
    }

  if (index == job->n_downloads && run->stamps != NULL)
    {
      *source = run->gpu->resolve;
      *capacity = run->gpu->resolve_size;
      *offset = 0;
      *size = run->stamps_size;
      *target = (guint8 *) run->stamps;
      return TRUE;
    }

  return FALSE;
}

/* Needs no staging: it is read in place once the job is over. */
static gboolean
is_direct (const Run *run,
           guint      index)
{
  return index < run->job->n_downloads && run->job->downloads[index].buffer->host != NULL;
}

static gboolean
check_downloads (Run     *run,
                 guint64 *total,
                 GError **error)
{
  WGPUBuffer source;
  guint64 capacity, offset;
  gsize size;
  guint8 *target;

  run->header = (sizeof (guint32) + rlx_gpu_left_get_size (run->gpu) + SEGMENT_ALIGNMENT - 1) & ~(guint64) (SEGMENT_ALIGNMENT - 1);
  *total = run->header;
  for (guint i = 0; get_download (run, i, &source, &capacity, &offset, &size, &target); i++)
    {
      if (offset > capacity || size > capacity - offset)
        {
          g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL,
                       "A read of %" G_GSIZE_FORMAT " bytes at %" G_GUINT64_FORMAT
                       " does not fit a buffer of %" G_GUINT64_FORMAT " bytes",
                       size, offset, capacity);
          return FALSE;
        }
      if (!is_direct (run, i))
        *total += size + 2 * SEGMENT_ALIGNMENT;
    }

  return TRUE;
}

/* The next pieces of the downloads that fit into the staging memory. */
static void
plan_round (Run *run)
{
  WGPUBuffer source;
  guint64 capacity, offset;
  gsize size;
  guint8 *target;
  guint64 used = run->header;
  guint64 max = MIN (run->round_max, run->staging.size);

  g_array_set_size (run->segments, 0);

  while (get_download (run, run->next_download, &source, &capacity, &offset, &size, &target))
    {
      Segment segment = { .source = source };
      guint64 start = offset + run->next_position;
      guint64 left = size - run->next_position;
      guint64 aligned = start & ~G_GUINT64_CONSTANT (3);

      if (left == 0 || is_direct (run, run->next_download))
        {
          run->next_download++;
          run->next_position = 0;
          continue;
        }

      if (max - used < SEGMENT_ALIGNMENT)
        break;

      segment.skip = (gsize) (start - aligned);
      segment.wanted = (gsize) MIN (left, max - used - segment.skip);
      /* Only the last piece of a download may end inside a word. */
      if (segment.wanted < left)
        segment.wanted = ((segment.skip + segment.wanted) & ~(gsize) 3) - segment.skip;
      segment.source_offset = aligned;
      segment.length = (segment.skip + segment.wanted + 3) & ~G_GUINT64_CONSTANT (3);
      segment.staging_offset = used;
      segment.target = target + run->next_position;
      g_array_append_val (run->segments, segment);

      run->next_position += segment.wanted;
      used = (used + segment.length + SEGMENT_ALIGNMENT - 1) & ~(guint64) (SEGMENT_ALIGNMENT - 1);
    }

  run->staging_used = used;
}

static gboolean
downloads_left (Run *run)
{
  WGPUBuffer source;
  guint64 capacity, offset;
  gsize size;
  guint8 *target;

  while (get_download (run, run->next_download, &source, &capacity, &offset, &size, &target))
    {
      if (run->next_position < size && !is_direct (run, run->next_download))
        return TRUE;
      run->next_download++;
      run->next_position = 0;
    }

  return FALSE;
}

/* Staging for all downloads, or for smaller and smaller parts of them if memory is
 * tight. */
static gboolean
take_staging (Run     *run,
              guint64  total,
              GError **error)
{
  g_autoptr (GError) local_error = NULL;

  run->round_max = ROUND_MAX;
  for (;;)
    {
      if (rlx_gpu_staging_take (run->gpu, MIN (total, run->round_max), &run->staging, &local_error))
        return TRUE;

      if (!g_error_matches (local_error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY) ||
          run->round_max <= ROUND_MIN)
        break;

      g_clear_error (&local_error);
      rlx_gpu_staging_trim (run->gpu, 0);
      run->round_max /= 2;
    }

  g_propagate_error (error, g_steal_pointer (&local_error));
  return FALSE;
}

/* ---- waiting ---- */

static void
note_in_flight (Run         *run,
                const Chunk *chunk)
{
  InFlight *one = &run->in_flight[run->n_in_flight++];

  one->allowance = chunk->allowance;
  one->n_done = chunk->first + chunk->n;
  one->future = rlx_gpu_work_done (run->gpu);
}

/* Waits until at most @keep submits are still running. */
static gboolean
wait_in_flight (Run     *run,
                guint    keep,
                GError **error)
{
  while (run->n_in_flight > keep)
    {
      InFlight one = run->in_flight[0];

      run->n_in_flight--;
      memmove (&run->in_flight[0], &run->in_flight[1], run->n_in_flight * sizeof one);

      atomic_fetch_add (&run->gpu->n_waits, 1);
      if (!rlx_gpu_wait (run->gpu, one.future, run->timeout + one.allowance + run->gpu->left_allowance, "a submit", error))
        return FALSE;
      if (run->job->n_done != NULL)
        g_atomic_int_set (run->job->n_done, (int) one.n_done);
    }

  return TRUE;
}

/* ---- encoding ---- */

/* Only waits if there is too much for Dawn to hold at a time. */
gboolean
rlx_gpu_write_uploads (RlxGpu          *gpu,
                       const RlxGpuJob *job,
                       GError         **error)
{
  guint64 timeout = rlx_gpu_get_timeout (NULL) + gpu->left_allowance, in_flight = 0;

  for (guint i = 0; i < job->n_uploads; i++)
    {
      const RlxGpuUpload *upload = &job->uploads[i];
      gsize done = 0;

      while (done < upload->size)
        {
          gsize length = (gsize) MIN (upload->size - done, UPLOAD_IN_FLIGHT);

          if (in_flight + length > UPLOAD_IN_FLIGHT)
            {
              if (!rlx_gpu_wait (gpu, rlx_gpu_work_done (gpu), timeout, "an upload", error))
                return FALSE;
              in_flight = 0;
            }
          if (!rlx_gpu_write (gpu, upload->buffer, upload->offset + done,
                              (const guint8 *) upload->data + done, length, error))
            return FALSE;
          done += length;
          in_flight += length;
        }
      rlx_gpu_count_upload (gpu, upload->size);
    }

  return TRUE;
}

/* A pass for every dispatch, since passes are what can be timed. */
static void
encode_timed (Run                *run,
              WGPUCommandEncoder  encoder,
              const Chunk        *chunk,
              guint               index)
{
  for (guint i = 0; i < chunk->n; i++)
    {
      const RlxGpuDispatch *dispatch = &run->job->dispatches[chunk->first + i];
      WGPUPassTimestampWrites writes = WGPU_PASS_TIMESTAMP_WRITES_INIT;
      WGPUComputePassDescriptor descriptor = WGPU_COMPUTE_PASS_DESCRIPTOR_INIT;
      WGPUComputePassEncoder pass;

      if (rlx_gpu_dispatch_is_empty (dispatch))
        continue;

      writes.querySet = run->gpu->queries;
      writes.beginningOfPassWriteIndex = 2 * i;
      writes.endOfPassWriteIndex = 2 * i + 1;
      descriptor.timestampWrites = &writes;
      pass = wgpuCommandEncoderBeginComputePass (encoder, &descriptor);
      rlx_gpu_encode_dispatch (pass, dispatch, NULL);
      wgpuComputePassEncoderEnd (pass);
      wgpuComputePassEncoderRelease (pass);
    }

  if (chunk->n > 0)
    wgpuCommandEncoderResolveQuerySet (encoder, run->gpu->queries, 0, 2 * chunk->n,
                                       run->gpu->resolve, index * RESOLVE_SLOT);
}

/* Reads back what fits, and the canary. */
static void
encode_round (Run                *run,
              WGPUCommandEncoder  encoder)
{
  plan_round (run);

  for (guint i = 0; i < run->segments->len; i++)
    {
      const Segment *segment = &g_array_index (run->segments, Segment, i);

      wgpuCommandEncoderCopyBufferToBuffer (encoder, segment->source, segment->source_offset,
                                            run->staging.handle, segment->staging_offset,
                                            segment->length);
    }

  run->sequence = rlx_gpu_encode_canary (run->gpu, encoder, run->staging.handle, 0);
  if (rlx_gpu_left_get_size (run->gpu) > 0)
    wgpuCommandEncoderCopyBufferToBuffer (encoder, run->gpu->left_words, 0, run->staging.handle, sizeof run->sequence,
                                          rlx_gpu_left_get_size (run->gpu));
}

static gboolean
submit_chunks (Run          *run,
               GCancellable *cancellable,
               GError      **error)
{
  RlxGpu *gpu = run->gpu;

  for (guint i = 0; i < run->chunks->len; i++)
    {
      const Chunk *chunk = &g_array_index (run->chunks, Chunk, i);
      gboolean last = i == run->chunks->len - 1;
      gboolean good = TRUE;
      WGPUCommandEncoder encoder;

      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;

      encoder = wgpuDeviceCreateCommandEncoder (gpu->device, NULL);
      if (i == 0)
        good = rlx_gpu_encode_copies (encoder, run->job->copies_in, run->job->n_copies_in, error);

      if (!good)
        ;
      else if (run->stamps != NULL)
        encode_timed (run, encoder, chunk, i);
      else
        rlx_gpu_encode_dispatches (encoder, run->job->dispatches + chunk->first, chunk->n);

      if (good && last)
        {
          good = rlx_gpu_encode_copies (encoder, run->job->copies, run->job->n_copies, error);
          if (good)
            encode_round (run, encoder);
        }

      if (good && !last)
        good = wait_in_flight (run, SUBMITS_IN_FLIGHT - 1, error);
      if (good)
        {
          rlx_gpu_submit (gpu, encoder);
          atomic_fetch_add (&gpu->n_dispatches, chunk->n);
        }

      wgpuCommandEncoderRelease (encoder);
      if (!good)
        return FALSE;

      if (!last)
        note_in_flight (run, chunk);
    }

  return TRUE;
}

/* ---- reading back ---- */

static void
on_mapped (WGPUMapAsyncStatus status,
           WGPUStringView     message,
           void              *userdata1,
           void              *userdata2 G_GNUC_UNUSED)
{
  RlxGpu *gpu = userdata1;

  gpu->map_status = status;
  g_free (gpu->map_message);
  gpu->map_message = status != WGPUMapAsyncStatus_Success ? rlx_gpu_string (message) : NULL;
}

static gboolean
read_round (Run     *run,
            guint64  allowance,
            GError **error)
{
  RlxGpu *gpu = run->gpu;
  WGPUBufferMapCallbackInfo callback = WGPU_BUFFER_MAP_CALLBACK_INFO_INIT;
  g_autoptr (GError) stray = NULL;
  const guint8 *mapped;
  guint32 canary;
  WGPUFuture future;

  callback.mode = WGPUCallbackMode_WaitAnyOnly;
  callback.callback = on_mapped;
  callback.userdata1 = gpu;
  future = wgpuBufferMapAsync (run->staging.handle, WGPUMapMode_Read, 0,
                               (size_t) run->staging_used, callback);

  atomic_fetch_add (&gpu->n_waits, 1);
  if (!rlx_gpu_wait (gpu, future, run->timeout + allowance + gpu->left_allowance, "a job", error))
    return FALSE;

  if (gpu->map_status != WGPUMapAsyncStatus_Success)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL,
                   "The results could not be read: %s", gpu->map_message);
      return FALSE;
    }

  mapped = wgpuBufferGetConstMappedRange (run->staging.handle, 0, (size_t) run->staging_used);
  if (mapped == NULL)
    {
      g_set_error_literal (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL,
                           "The results could not be read: the staging memory is not mapped");
      return FALSE;
    }

  memcpy (&canary, mapped, sizeof canary);
  if (canary != run->sequence)
    {
      wgpuBufferUnmap (run->staging.handle);
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL,
                   "The GPU did not finish job %u: its last word is %u", run->sequence, canary);
      return FALSE;
    }
  if (!rlx_gpu_check_uncaptured (gpu, "a job", &stray))
    rlx_gpu_left_fail (gpu, stray);
  if (stray != NULL)
    {
      wgpuBufferUnmap (run->staging.handle);
      g_propagate_error (error, g_steal_pointer (&stray));
      return FALSE;
    }
  if (!rlx_gpu_left_check (gpu, (const guint32 *) (mapped + sizeof canary), error))
    {
      wgpuBufferUnmap (run->staging.handle);
      return FALSE;
    }

  for (guint i = 0; i < run->segments->len; i++)
    {
      const Segment *segment = &g_array_index (run->segments, Segment, i);

      memcpy (segment->target, mapped + segment->staging_offset + segment->skip, segment->wanted);
    }

  wgpuBufferUnmap (run->staging.handle);
  return TRUE;
}

/* Reads what the device wrote into host memory; counts all. */
static void
read_direct (Run *run)
{
  for (guint i = 0; i < run->job->n_downloads; i++)
    {
      const RlxGpuDownload *download = &run->job->downloads[i];

      if (is_direct (run, i) && download->size > 0)
        memcpy (download->data, download->buffer->host + download->offset, download->size);
      atomic_fetch_add (&run->gpu->n_downloads, 1);
      atomic_fetch_add (&run->gpu->downloaded_bytes, download->size);
    }
}

/* Downloads that did not fit the staging memory in the first round. */
static gboolean
read_more_rounds (Run     *run,
                  GError **error)
{
  while (downloads_left (run))
    {
      WGPUCommandEncoder encoder;

      encoder = wgpuDeviceCreateCommandEncoder (run->gpu->device, NULL);
      encode_round (run, encoder);
      rlx_gpu_submit (run->gpu, encoder);
      wgpuCommandEncoderRelease (encoder);

      if (!rlx_gpu_check_uncaptured (run->gpu, "reading results", error) ||
          !read_round (run, 0, error))
        return FALSE;
    }

  return TRUE;
}

/* ---- timestamps ---- */

static gboolean
prepare_stamps (Run     *run,
                GError **error)
{
  RlxGpu *gpu = run->gpu;
  guint64 size = run->chunks->len * RESOLVE_SLOT;

  memset (run->job->dispatch_ns, 0, run->job->n_dispatches * sizeof (guint64));

  if (!(gpu->info->target.features & RLX_DEVICE_FEATURES_TIMESTAMPS) || run->job->n_dispatches == 0)
    return TRUE;

  if (gpu->queries == NULL)
    {
      WGPUQuerySetDescriptor descriptor = WGPU_QUERY_SET_DESCRIPTOR_INIT;

      descriptor.type = WGPUQueryType_Timestamp;
      descriptor.count = 2 * SUBMIT_DISPATCHES;
      rlx_gpu_scopes_push (gpu);
      gpu->queries = wgpuDeviceCreateQuerySet (gpu->device, &descriptor);
      if (!rlx_gpu_scopes_pop (gpu, "timestamps", error))
        {
          g_clear_pointer (&gpu->queries, wgpuQuerySetRelease);
          return FALSE;
        }
    }

  if (gpu->resolve_size < size)
    {
      WGPUBuffer resolve = rlx_gpu_raw_buffer (gpu, size,
                                               WGPUBufferUsage_QueryResolve | WGPUBufferUsage_CopySrc,
                                               NULL, "timestamps", error);

      if (resolve == NULL)
        return FALSE;
      if (gpu->resolve != NULL)
        rlx_gpu_raw_buffer_free (gpu, gpu->resolve, gpu->resolve_size);
      gpu->resolve = resolve;
      gpu->resolve_size = size;
    }

  run->stamps_size = (gsize) size;
  run->stamps = g_malloc0 (run->stamps_size);
  return TRUE;
}

static void
read_stamps (Run *run)
{
  for (guint c = 0; c < run->chunks->len; c++)
    {
      const Chunk *chunk = &g_array_index (run->chunks, Chunk, c);
      const guint64 *stamps = run->stamps + c * RESOLVE_SLOT / sizeof (guint64);

      for (guint i = 0; i < chunk->n; i++)
        {
          /* Some clocks restart between two submits. */
          if (!rlx_gpu_dispatch_is_empty (&run->job->dispatches[chunk->first + i]) &&
              stamps[2 * i + 1] > stamps[2 * i])
            run->job->dispatch_ns[chunk->first + i] = stamps[2 * i + 1] - stamps[2 * i];
        }
    }
}

/* ---- the whole ---- */

/* They grow once and are kept. */
static void
take_arrays (Run *run)
{
  RlxGpu *gpu = run->gpu;

  if (gpu->chunks == NULL)
    {
      gpu->chunks = g_array_new (FALSE, FALSE, sizeof (Chunk));
      gpu->segments = g_array_new (FALSE, FALSE, sizeof (Segment));
    }

  run->chunks = gpu->chunks;
  run->segments = gpu->segments;
  g_array_set_size (run->chunks, 0);
  g_array_set_size (run->segments, 0);
}

static double
count_seconds (const RlxGpuJob *job)
{
  double seconds = 0.0;

  for (guint i = 0; i < job->n_dispatches; i++)
    seconds += job->dispatches[i].estimate > 0.0 ? job->dispatches[i].estimate : UNKNOWN_ESTIMATE;
  return seconds;
}

static guint64
count_uploads (const RlxGpuJob *job)
{
  guint64 bytes = 0;

  for (guint i = 0; i < job->n_uploads; i++)
    bytes += job->uploads[i].size;
  return bytes;
}

static gboolean
prepare (Run     *run,
         GError **error)
{
  guint64 total;

  return rlx_gpu_left_flush (run->gpu, error) &&
         (run->job->dispatch_ns == NULL || prepare_stamps (run, error)) &&
         check_downloads (run, &total, error) &&
         take_staging (run, total, error);
}

static gboolean
run_job (Run          *run,
         GCancellable *cancellable,
         GError      **error)
{
  /* What was submitted still uses the caller's buffers. */
  if (!rlx_gpu_write_uploads (run->gpu, run->job, error) ||
      !submit_chunks (run, cancellable, error) ||
      !rlx_gpu_check_uncaptured (run->gpu, "a job", error) ||
      !rlx_gpu_check_lost (run->gpu, error))
    {
      if (!rlx_gpu_is_lost (run->gpu))
        wait_in_flight (run, 0, NULL);
      return FALSE;
    }

  if (!wait_in_flight (run, 0, error))
    return FALSE;

  if (!read_round (run, g_array_index (run->chunks, Chunk, run->chunks->len - 1).allowance, error))
    return FALSE;

  read_direct (run);
  return read_more_rounds (run, error);
}

gboolean
rlx_gpu_execute (RlxGpu          *gpu,
                 const RlxGpuJob *job,
                 GCancellable    *cancellable,
                 GError         **error)
{
  Run run = { .gpu = gpu, .job = job };
  g_autoptr (GError) stray = NULL;
  gboolean result = FALSE;
  guint n_cold = 0;

  g_return_val_if_fail (gpu != NULL, FALSE);
  g_return_val_if_fail (job != NULL, FALSE);
  g_return_val_if_fail (rlx_gpu_on_thread (gpu), FALSE);
  g_return_val_if_fail (!job->leave || (job->n_downloads == 0 && job->dispatch_ns == NULL), FALSE);

  if (g_cancellable_set_error_if_cancelled (cancellable, error) ||
      !rlx_gpu_check_lost (gpu, error))
    return FALSE;

  /* Errors left by an earlier job. */
  if (!rlx_gpu_check_uncaptured (gpu, "a job", &stray))
    rlx_gpu_left_fail (gpu, stray);
  if (!rlx_gpu_check_lost (gpu, error) || !rlx_gpu_prepare_canary (gpu, error) ||
      (job->leave && !rlx_gpu_left_has_room (gpu, count_seconds (job), count_uploads (job)) && !rlx_gpu_settle (gpu, error)))
    return FALSE;

  run.timeout = rlx_gpu_get_timeout (&run.timeout_given);
  if (!run.timeout_given && job->timeout_us > 0)
    {
      run.timeout = job->timeout_us;
      run.timeout_given = TRUE;
    }

  take_arrays (&run);
  if (!plan_chunks (&run, error))
    return FALSE;

  if (job->leave && run.chunks->len == 1)
    {
      result = rlx_gpu_left_add (gpu, job, g_array_index (run.chunks, Chunk, 0).allowance, count_seconds (job), count_uploads (job), error);
      if (run.cold)
        atomic_fetch_add (&gpu->n_cold, 1);
    }
  else if (prepare (&run, error))
    {
      n_cold = run.cold ? atomic_fetch_add (&gpu->n_cold, 1) + 1 : atomic_load (&gpu->n_cold);
      result = run_job (&run, cancellable, error) && rlx_gpu_check_uncaptured (gpu, "a job", error);
    }

  if (result)
    {
      /* What was submitted before it has ended, too. */
      if (n_cold > 0)
        atomic_store (&gpu->n_cold_done, n_cold);
      if (run.stamps != NULL)
        read_stamps (&run);
      for (guint i = 0; i < job->n_dispatches; i++)
        job->dispatches[i].pipeline->warm = TRUE;
      rlx_gpu_staging_give_back (gpu, &run.staging);
      result = rlx_gpu_check_lost (gpu, error);
    }
  else
    {
      /* It may still be waiting to be mapped, and cannot be reused then. */
      if (run.staging.handle != NULL)
        rlx_gpu_raw_buffer_free (gpu, run.staging.handle, run.staging.size);
      /* It is unknown whether they arrived. */
      gpu->n_canaries = 0;
    }

  g_free (run.stamps);

  return result;
}
