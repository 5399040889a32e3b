/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What is measured: the same numbers for all who take part.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef enum
{
  BENCH_MATMUL,        /* rows, inner, columns */
  BENCH_PACKED,        /* rows, inner, columns: the weight is in blocks of GGUF's q4_k, along columns */
  BENCH_ENCODER,       /* batch, sequence, width, heads, hidden, layers, vocabulary */
  BENCH_ATTENTION,     /* heads, width, queries, keys */
  BENCH_SOFTMAX,       /* rows, columns */
  BENCH_LAYER_NORM,    /* rows, columns */
  BENCH_ELEMENTWISE,   /* rows, columns */
  BENCH_TRANSPOSE,     /* rows, columns */
  BENCH_REDUCE,        /* rows, columns */
  BENCH_GATHER,        /* rows, columns, indices */
  BENCH_CONV,          /* channels, height and width */
  BENCH_RESNET_BLOCK,  /* channels, height and width */
  BENCH_FFT,           /* transforms, length */
  BENCH_LOG_MEL,       /* samples, bands */
  BENCH_SCAN,          /* steps, channels, states */
  BENCH_DELTA_NET,     /* steps, heads, width */
  BENCH_KNN,           /* points, dimensions, neighbours */
  BENCH_TOP_K,         /* rows, columns, k */
  BENCH_TINY,          /* elements */
  BENCH_COPY,          /* elements: no work for a graph, but a measure of memory bandwidth */
} BenchFamily;

typedef enum
{
  BENCH_RUN,      /* of a compiled graph */
  BENCH_START,    /* from the start of the process to the first result */
  BENCH_COMPILE,  /* only */
  BENCH_CHAIN,    /* 100 runs, each on the result that the previous one left on the device, and one fetch */
  BENCH_APPLY,    /* an operator without a graph, alternating with a run of the executable cached for it */
  BENCH_WEB,      /* a run, also for contenders in JavaScript */
  BENCH_STAY,     /* a run with operands and result on the device */
} BenchKind;

typedef enum
{
  BENCH_F32,
  BENCH_F16,
  BENCH_I32,
  BENCH_Q4_K,     /* the last dimension is in blocks */
} BenchType;

/* The numbers in a q4_k block, and its size in bytes. */
#define BENCH_Q4_K_NUMBERS 256
#define BENCH_Q4_K_BYTES 144


typedef struct
{
  const char *name;
  BenchFamily family;
  BenchKind kind;
  gboolean cold;       /* all shader caches are empty */
  BenchType type;      /* of numbers other than indices */
  gint64 size[7];
  const char *data;    /* the workload whose data it uses, if not its own */
  const char *weights; /* the file of its constants, if shared by several */
  double tolerance;    /* the largest error explained by rounding */
  double f16_sums_tolerance;   /* the same for contenders that accumulate f16 in f16, or compute a transform term by term, if
                                * there are any */
  const char *what;
} BenchWorkload;

typedef enum
{
  BENCH_INPUT,
  BENCH_CONSTANT,
  BENCH_DERIVED,   /* a constant computed from others, for contenders that need it */
  BENCH_OUTPUT,
} BenchRole;

typedef struct
{
  char name[40];
  BenchRole role;
  BenchType type;
  gsize n_dims;
  gint64 shape[4];
  double low, high;   /* uniform; exclusive of high for I32 */
  gsize offset;       /* within its file */
} BenchTensor;

extern const BenchWorkload bench_workloads[];
extern const gsize bench_n_workloads;

const BenchWorkload * bench_find_workload  (const char          *name);
const char *          bench_data_name      (const BenchWorkload *self);
/* The name of the file for tensors of this role, in the data folder. Free it. */
char *                bench_file_name      (const BenchWorkload *self,
                                            BenchRole            role);
/* All of them, in file order. (element-type BenchTensor) */
GArray *              bench_list_tensors   (const BenchWorkload *self);
const BenchTensor *   bench_find_tensor    (GArray              *tensors,
                                            const char          *name);
gsize                 bench_tensor_count   (const BenchTensor   *self);
gsize                 bench_tensor_size    (const BenchTensor   *self);
const char *          bench_type_name      (BenchType            type);
/* The amount of work: floating-point operations (a product and a sum are two), and the
 * minimum number of bytes to be moved. */
double                bench_count_flops    (const BenchWorkload *self);
double                bench_count_bytes    (const BenchWorkload *self);

/* Sorts the times. */
double                bench_median         (double              *times,
                                            gsize                n_times);

/* Prints the report of a contender's process: the median time of its runs, the processor
 * time of each, and more (numbers as "name": value, …), or NULL. Sorts the times. */
void                  bench_print_times    (double              *times,
                                            gsize                n_times,
                                            const char          *more);
/* That many runs are timed together: times are still reported per run. */
void                  bench_set_runs_together (gsize             n_runs);
/* Whether there should be another run before any is timed: drivers get faster over their
 * first few. */
gboolean              bench_warm_up        (gint64               start,
                                            gsize                n_runs);
/* Whether another run should be timed. */
gboolean              bench_continue       (gint64               start,
                                            double               seconds,
                                            gsize                n_times);
gboolean              bench_write_floats   (const char          *path,
                                            const float         *values,
                                            gsize                n_values);

/* Uses all processors. */
void                  bench_copy           (float               *to,
                                            const float         *from,
                                            gsize                n);
/* The expected results of transforms, sequences and searches, in double precision. The
 * operands are in the order of their tensors. */
double *              bench_compute_signal (const BenchWorkload *self,
                                            double             **operands);

#define BENCH_MAX_RUNS 2000
/* If data stays on the device, that many runs are timed together, including the fetch of the last result. */
#define BENCH_RUNS_THAT_STAY 8

G_END_DECLS
