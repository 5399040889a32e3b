/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the subcommands of `rlx` have in common.
 */
#pragma once

#include <json-glib/json-glib.h>
#include <rlx-wgpu/rlx-wgpu.h>

G_BEGIN_DECLS

/* Exit codes. */
enum
{
  RLX_TOOL_OK = 0,
  RLX_TOOL_FAILED = 1,
  RLX_TOOL_USAGE = 2,
  RLX_TOOL_NO_ADAPTER = 77,
};

/* A subcommand: argv[0] is its name. */
typedef int (*RlxToolFunc) (int    argc,
                            char **argv);

typedef struct
{
  const char *name;
  const char *arguments;
  const char *summary;
  RlxToolFunc run;
} RlxToolCommand;

int rlx_tool_bench   (int argc, char **argv);
int rlx_tool_calibrate (int argc, char **argv);
int rlx_tool_compile (int argc, char **argv);
int rlx_tool_convert (int argc, char **argv);
int rlx_tool_demo    (int argc, char **argv);
int rlx_tool_devices (int argc, char **argv);
int rlx_tool_targets (int argc, char **argv);
int rlx_tool_dot     (int argc, char **argv);
int rlx_tool_embed   (int argc, char **argv);
int rlx_tool_export  (int argc, char **argv);
int rlx_tool_info    (int argc, char **argv);
int rlx_tool_ops     (int argc, char **argv);
int rlx_tool_profile (int argc, char **argv);
int rlx_tool_run     (int argc, char **argv);
int rlx_tool_spectrum (int argc, char **argv);
int rlx_tool_verify  (int argc, char **argv);

/* Parses options; the number of operands left must be in the range. On FALSE
 * *@status is the exit code (0 after --help). */
gboolean    rlx_tool_parse      (const char         *arguments,
                                 const char         *summary,
                                 const GOptionEntry *entries,
                                 int                *argc,
                                 char             ***argv,
                                 int                 min_operands,
                                 int                 max_operands,
                                 int                *status);
/* Prints the error and gives the exit code for it. */
int         rlx_tool_fail       (const GError       *error);
/* A dictionary (floating is fine) as JSON. */
char *      rlx_tool_to_json    (GVariant           *value);
void        rlx_tool_print_json (GVariant           *value);
/* Text from a file must not move the cursor. */
char *      rlx_tool_make_printable (const char     *text);
/* Files of models; tools/model.c */
gboolean    rlx_tool_is_model   (const char         *path);
GVariant *  rlx_tool_parse_dimensions (char        **arguments,
                                       GError      **error);
RlxGraph *  rlx_tool_build_model (const char        *path,
                                  char             **dimensions,
                                  GError           **error);
/* Whether --dim was given. */
gboolean    rlx_tool_has_dimensions (void);
int         rlx_tool_info_model (const char         *path,
                                 char              **dimensions,
                                 gboolean            json);
/* A graph in text form, or a model for the sizes that --dim gave; rlx_tool_parse() knows
 * that option wherever the first argument is a GRAPH. */
RlxGraph *  rlx_tool_load_graph (const char         *path,
                                 GError            **error);
/* What --tune and --precision (nullable) say. On NULL *@status is the exit code. */
#define RLX_TOOL_TUNE_HELP "Measure which kernels are fastest for it"
RlxCompileOptions * rlx_tool_get_options (gboolean    tune,
                                          const char *precision,
                                          int        *status);
/* Splits "name=file"; FALSE with an error when there is no "=". */
gboolean    rlx_tool_split      (const char         *text,
                                 char              **name,
                                 char              **value,
                                 GError            **error);
/* Inputs with random values in [-1, 1], or small integers. (element-type RlxTensor) */
GPtrArray * rlx_tool_random_inputs (RlxGraph        *graph,
                                    GError         **error);
/* Parameters of the graph with random values, set on the executable. */
gboolean    rlx_tool_random_parameters (RlxGraph      *graph,
                                        RlxExecutable *executable,
                                        GError       **error);
/* Parameters by "name=file.npy", then the others from a file of weights; both are nullable. */
gboolean    rlx_tool_set_parameters (RlxExecutable *executable,
                                     char         **parameters,
                                     const char    *weights,
                                     GError       **error);
/* Makes an output of every node, after those that there are. Returns how many, 0 with an error. */
gsize       rlx_tool_add_values (RlxGraph           *graph,
                                 GError            **error);
/* Tells of the value of each node what is largest, the mean, and how much is not finite. */
void        rlx_tool_print_values (RlxGraph         *graph,
                                   RlxTensor       **values,
                                   gsize             n_values);
/* The graph as an SVG picture. */
char *      rlx_tool_draw_graph (RlxGraph           *graph,
                                 GError            **error);
/* Serves the files of a folder at this port (0: any that is free), to this machine alone. Returns only if it
 * cannot. */
gboolean    rlx_tool_serve      (GFile              *folder,
                                 guint16             port,
                                 GError            **error);
/* Draws a bar on the line of the terminal. */
void        rlx_tool_show_progress (double           fraction,
                                    const char      *what);
/* Waits for a call that does not block, with a bar on a terminal where that takes more than
 * 100 ms. @what the call does is told beside it. @object has a property “progress”, from 0
 * to 1. rlx_tool_wait_done() is the
 * callback of the call, the wait its data; rlx_tool_wait_end() frees the wait and gives
 * the result for the call's other half. */
typedef struct _RlxToolWait RlxToolWait;
RlxToolWait  * rlx_tool_wait_new  (const char   *what,
                                   gpointer      object);
void           rlx_tool_wait_done (GObject      *source,
                                   GAsyncResult *result,
                                   gpointer      wait);
GAsyncResult * rlx_tool_wait_end  (RlxToolWait  *self);
/* The default device, and a graph for it, with the same bar. */
RlxDevice *     rlx_tool_open  (GError           **error);
RlxExecutable * rlx_tool_build (RlxDevice         *device,
                                RlxGraph          *graph,
                                RlxCompileOptions *options,
                                GError           **error);
/* The samples of a WAV file, from -1 to 1, the mean of its channels, and how many there are in
 * a second. */
float *     rlx_tool_read_sound (const char         *path,
                                 gsize              *n_samples,
                                 guint              *rate,
                                 GError            **error);
/* A model as a graph in the text form; larger constants become parameters, whose values go to a
 * safetensors file, unless @weights is NULL. */
gboolean    rlx_tool_convert_model (const char       *path,
                                    char            **dimensions,
                                    const char       *weights,
                                    GFile            *output,
                                    GError          **error);
/* The tensors of a model of llama2.c by their names in GGUF files, and its metadata there.
 * @tokenizer is nullable. */
GVariant *  rlx_tool_read_llama2c (const char       *path,
                                   const char       *tokenizer,
                                   GPtrArray       **names,
                                   GPtrArray       **tensors,
                                   GError          **error);
/* What there is to tell of an adapter, the lines below its name, and names of features (floating). */
void        rlx_tool_describe_adapter (RlxAdapter     *adapter,
                                       GVariantDict   *dict);
void        rlx_tool_print_adapter    (RlxAdapter     *adapter);
GVariant *  rlx_tool_list_features    (RlxDeviceFeatures features);
/* The measurements with their units, as lines and as a dictionary (floating). */
void        rlx_tool_print_calibration    (RlxCalibration *calibration);
GVariant *  rlx_tool_describe_calibration (RlxCalibration *calibration);
double      rlx_tool_median     (double             *values,
                                 guint               n_values);

/* A transformer encoder with seeded weights: embedding lookup, then layers of
 * layer norm, projections, attention and a GELU feed-forward with residuals.
 * The graph has the input "tokens" (i32 [sequence]) and the output "y". */
typedef struct
{
  gint64 vocabulary;
  gint64 sequence;
  gint64 width;
  gint64 heads;
  gint64 hidden;
  guint layers;
} RlxEncoderConfig;

RlxGraph *  rlx_encoder_new     (const RlxEncoderConfig *config,
                                 GError                **error);
RlxTensor * rlx_encoder_tokens  (const RlxEncoderConfig *config,
                                 guint                   seed);

G_END_DECLS
