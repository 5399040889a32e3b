/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * rope and rope_2d: angles far out, tables, and what is refused. Random shapes
 * are in the property tests.
 */
#include "config.h"

#include "rlx-test-util.h"

#include <math.h>

/* Rotates pair (a, b) of 2 · @pairs elements. */
static void
turn (const double *x,
      double       *y,
      guint         a,
      guint         b,
      double        angle)
{
  y[a] = x[a] * cos (angle) - x[b] * sin (angle);
  y[b] = x[b] * cos (angle) + x[a] * sin (angle);
}

/* Positions up to the largest: the angle is that of the exact product. */
static void
test_far (void)
{
  static const double positions[] = { 0, 1, 100, 4095, 131071, 1e8, 2147483647, -1, -77777, -2147483647 };
  enum { N = G_N_ELEMENTS (positions), PAIRS = 8, WIDTH = 2 * PAIRS + 3 };
  g_autoptr(RlxTensor) x = NULL;
  g_autoptr(RlxTensor) p = NULL;
  g_autoptr(RlxTensor) y = NULL;
  g_autofree double *values = NULL;
  double expected[N * WIDTH];

  if (rlx_test_device () == NULL)
    return;

  x = rlx_test_random ("f32[1,1,10,19]", -1, 1, 3);
  p = rlx_test_tensor ("i32[10]", positions);
  values = rlx_test_get_values (x);
  for (guint i = 0; i < N; i++)
    {
      const double *from = values + i * WIDTH;
      double *to = expected + i * WIDTH;

      for (guint j = 2 * PAIRS; j < WIDTH; j++)
        to[j] = from[j];
      for (guint j = 0; j < PAIRS; j++)
        turn (from, to, j, j + PAIRS, positions[i] * pow (10000, -(double) j / PAIRS));
    }

  y = rlx_test_run_op ("rope", 2, (RlxTensor *[]) { x, p }, g_variant_new_parsed ("{'rotated': <int64 16>}"));
  /* 2e-6 of both elements, which are at most 1 */
  rlx_test_compare ("rope", y, "f32[1,1,10,19]", expected, 4e-6, 0);
}

/* A position outside the table uses the nearest row. */
static void
test_table (void)
{
  static const double x_values[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
  static const double positions[] = { -3, 9 };
  static const double cosines[] = { 1, 0.5, 0, -1, 2, 0.25 };
  static const double sines[] = { 0, 1, 1, 0.5, -1, 2 };
  static const double expected[] = { 1 * 1 - 3 * 0, 2 * 0.5 - 4 * 1, 3 * 1 + 1 * 0, 4 * 0.5 + 2 * 1,
                                     5 * 2 + 7 * 1, 6 * 0.25 - 8 * 2, 7 * 2 - 5 * 1, 8 * 0.25 + 6 * 2 };
  g_autoptr(RlxTensor) x = NULL;
  g_autoptr(RlxTensor) p = NULL;
  g_autoptr(RlxTensor) c = NULL;
  g_autoptr(RlxTensor) s = NULL;
  g_autoptr(RlxTensor) y = NULL;

  if (rlx_test_device () == NULL)
    return;

  x = rlx_test_tensor ("f32[1,2,1,4]", x_values);
  p = rlx_test_tensor ("i32[2]", positions);
  c = rlx_test_tensor ("f32[3,2]", cosines);
  s = rlx_test_tensor ("f32[3,2]", sines);
  y = rlx_test_run_op ("rope", 4, (RlxTensor *[]) { x, p, c, s }, g_variant_new_parsed ("{'layout': <'sequence-first'>}"));
  rlx_test_compare ("rope", y, "f32[1,2,1,4]", expected, 1e-6, 0);
}

static void
test_plane (void)
{
  enum { COLUMNS = 3, N = 7, PAIRS = 4 };
  g_autoptr(RlxTensor) x = NULL;
  g_autoptr(RlxTensor) y = NULL;
  g_autofree double *values = NULL;
  double expected[N * 2 * PAIRS];

  if (rlx_test_device () == NULL)
    return;

  x = rlx_test_random ("f32[1,1,7,8]", -1, 1, 3);
  values = rlx_test_get_values (x);
  for (guint i = 0; i < N; i++)
    for (guint j = 0; j < PAIRS; j++)
      turn (values + i * 2 * PAIRS, expected + i * 2 * PAIRS, 2 * j, 2 * j + 1,
            (j < PAIRS / 2 ? i / COLUMNS : i % COLUMNS) * pow (100, -(double) (j % (PAIRS / 2)) / (PAIRS / 2)));
  y = rlx_test_run_op ("rope_2d", 1, &x,
                       g_variant_new_parsed ("{'columns': <int64 3>, 'interleaved': <true>, 'base': <100.0>}"));
  rlx_test_compare ("rope_2d", y, "f32[1,1,7,8]", expected, 4e-6, 0);
}

static void
test_rule (void)
{
  rlx_test_infers ("rope", "f16[2,4,5,8]", NULL, "f16[2,4,5,8]");
  rlx_test_infers ("rope", "f32[2,4,5,8] i32[2,5]", NULL, "f32[2,4,5,8]");
  rlx_test_infers ("rope", "f32[2,4,5,8] i32[2,1]", NULL, "f32[2,4,5,8]");
  rlx_test_infers ("rope", "f32[2,4,5,8] - f32[5,8] f32[5,8]", NULL, "f32[2,4,5,8]");
  rlx_test_infers ("rope", "f32[2,4,5,8] i32[] f16[99,4] f16[99,4]", NULL, "f32[2,4,5,8]");
  rlx_test_infers ("rope", "f32[2,4,0,8]", NULL, "f32[2,4,0,8]");
  rlx_test_infers ("rope_2d", "f32[2,4,5,8] i32[2,5,2]", NULL, "f32[2,4,5,8]");

#define REFUSES(op, types, attrs, code, words) \
  rlx_test_refuses (op, types, g_variant_new_parsed (attrs), RLX_GRAPH_ERROR_##code, words)
  REFUSES ("rope", "f32[4,5,8]", "@a{sv} {}", SHAPE, "operand must be [batch, heads, sequence, width]; it is f32[4, 5, 8]");
  REFUSES ("rope", "f32[2,4,5,7]", "@a{sv} {}", SHAPE, "7 rotated elements do not make pairs");
  REFUSES ("rope", "f32[2,4,5,8]", "{'rotated': <int64 3>}", SHAPE, "3 rotated");
  REFUSES ("rope", "f32[2,4,5,8]", "{'rotated': <int64 10>}", INVALID_ARGUMENT, "rotated is 10; it must be between 0 and the width, 8");
  REFUSES ("rope", "f32[2,4,5,8]", "{'rotated': <int64 -2>}", INVALID_ARGUMENT, "rotated is -2");
  REFUSES ("rope", "f32[2,4,5,8]", "{'base': <0.5>}", INVALID_ARGUMENT, "base is 0.5");
  REFUSES ("rope", "f32[2,4,5,8]", "{'base': <1e39>}", INVALID_ARGUMENT, "base");
  REFUSES ("rope", "f32[2,4,5,8]", "{'scale': <1e39>}", INVALID_ARGUMENT, "scale");
  REFUSES ("rope", "f32[2,4,5,8] i32[4]", "@a{sv} {}", SHAPE, "positions i32[4] do not broadcast");
  REFUSES ("rope", "f32[2,4,5,8] i32[1,2,5]", "@a{sv} {}", SHAPE, "positions");
  REFUSES ("rope", "f32[2,4,5,8] f32[5]", "@a{sv} {}", DATA_TYPE, NULL);
  REFUSES ("rope", "f32[2,4,5,8] - f32[5,4]", "@a{sv} {}", INVALID_ARGUMENT, "cosines but no sines");
  REFUSES ("rope", "f32[2,4,5,8] - - f32[5,4]", "@a{sv} {}", INVALID_ARGUMENT, "sines but no cosines");
  REFUSES ("rope", "f32[2,4,5,8] - f32[5,4] f32[5,8]", "@a{sv} {}", SHAPE, "differ");
  REFUSES ("rope", "f32[2,4,5,8] - f32[5,3] f32[5,3]", "@a{sv} {}", SHAPE, "rows of neither 4 nor 8 elements");
  REFUSES ("rope", "f32[2,4,5,8] - f32[6,4] f32[6,4]", "@a{sv} {}", SHAPE, "do not broadcast to [batch, sequence, pairs], [2, 5, 4]");
  REFUSES ("rope", "f32[2,4,5,8] i32[5] f32[4] f32[4]", "@a{sv} {}", SHAPE, "a row for each position");
  REFUSES ("rope", "f32[2,4,5,8] i32[5] f32[0,4] f32[0,4]", "@a{sv} {}", SHAPE, "a row for each position");
  REFUSES ("rope_2d", "f32[2,4,5,6] i32[5,2]", "@a{sv} {}", SHAPE, "width of 6");
  REFUSES ("rope_2d", "f32[2,4,5,8] i32[5,1]", "@a{sv} {}", SHAPE, "positions");
  REFUSES ("rope_2d", "f32[2,4,5,8]", "@a{sv} {}", INVALID_ARGUMENT, "neither positions nor columns");
  REFUSES ("rope_2d", "f32[2,4,5,8] i32[5,2]", "{'columns': <int64 2>}", INVALID_ARGUMENT, "both positions and columns");
  REFUSES ("rope_2d", "f32[2,4,5,8]", "{'columns': <int64 -1>}", INVALID_ARGUMENT, "columns is -1");
#undef REFUSES
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/rope/rule", test_rule);
  g_test_add_func ("/rope/far", test_far);
  g_test_add_func ("/rope/table", test_table);
  g_test_add_func ("/rope/plane", test_plane);

  return g_test_run ();
}
