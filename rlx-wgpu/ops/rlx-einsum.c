/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Contractions: einsum and dot_general. Both are a list of labels for each operand and for
 * the result, and both become transposes, sums and matrix products before the graph is
 * lowered.
 */
#include "config.h"

#include "ops/rlx-builder-private.h"

#include <string.h>

/* The 52 letters, then the dimensions that an ellipsis stands for, which are aligned at the
 * end. A set of labels is a 64-bit mask. */
#define N_LETTERS 52
#define N_LABELS (N_LETTERS + RLX_MAX_DIMS)
/* Each contraction considers all pairs of the operands that are left. */
#define MAX_TERMS 64

#define BIT(label) (G_GUINT64_CONSTANT (1) << (label))

/* One label for each dimension. */
typedef struct
{
  guint n;
  guint8 labels[N_LABELS];
} Term;

typedef struct
{
  guint n_terms;
  Term terms[MAX_TERMS];
  Term output;
  gint64 shape[N_LABELS];
} Equation;

static guint64
term_get_set (const Term *term)
{
  guint64 set = 0;

  for (guint i = 0; i < term->n; i++)
    set |= BIT (term->labels[i]);
  return set;
}

/* Appends the labels of @from that are in @set. */
static void
term_add (Term       *term,
          const Term *from,
          guint64     set)
{
  for (guint i = 0; i < from->n; i++)
    if (set & BIT (from->labels[i]))
      term->labels[term->n++] = from->labels[i];
}

static gboolean
term_equal (const Term *a,
            const Term *b)
{
  return a->n == b->n && memcmp (a->labels, b->labels, a->n) == 0;
}

static gboolean
term_to_type (const Equation  *equation,
              const Term      *term,
              RlxDataType      data_type,
              RlxTensorType   *type)
{
  if (term->n > RLX_MAX_DIMS)
    return FALSE;

  *type = (RlxTensorType) { .data_type = data_type, .n_dims = term->n };
  for (guint i = 0; i < term->n; i++)
    type->shape[i] = equation->shape[term->labels[i]];
  return TRUE;
}

/* ---- the equation ------------------------------------------------------------- */

static int
letter_to_label (char c)
{
  if (c >= 'A' && c <= 'Z')
    return c - 'A';
  if (c >= 'a' && c <= 'z')
    return c - 'a' + 26;
  return -1;
}

static char *
label_to_string (guint label)
{
  if (label >= N_LETTERS)
    return g_strdup_printf ("dimension -%u of the ellipsis", N_LABELS - label);
  return g_strdup_printf ("the label “%c”", label < 26 ? 'A' + label : 'a' + label - 26);
}

/* A term as written, before the number of dimensions that "..." stands for is known. */
typedef struct
{
  const char *start;
  const char *end;
  Term letters;
  int ellipsis;       /* number of letters before it; -1: there is none */
} Piece;

/* Reads up to a comma, an arrow or the end. */
static gboolean
read_piece (const RlxOpCall *call,
            const char      *text,
            const char     **p,
            Piece           *piece,
            GError         **error)
{
  *piece = (Piece) { .start = *p, .ellipsis = -1 };

  for (;; (*p)++)
    {
      char c = **p;
      int label = letter_to_label (c);

      if (c == ' ')
        continue;
      if (c == ',' || c == '-' || c == '\0')
        break;

      if (label >= 0)
        {
          if (piece->letters.n == N_LETTERS)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                                   "a term of the equation has more than %d labels at character %u",
                                   N_LETTERS, (guint) (*p - text) + 1);
          piece->letters.labels[piece->letters.n++] = (guint8) label;
          continue;
        }

      if (c == '.')
        {
          if (strncmp (*p, "...", 3) != 0)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "the equation has a dot at character %u that is not one of “...”", (guint) (*p - text) + 1);
          if (piece->ellipsis >= 0)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "the equation has a second “...” in one term at character %u", (guint) (*p - text) + 1);
          piece->ellipsis = (int) piece->letters.n;
          *p += 2;
          continue;
        }

      {
        g_autofree char *bad = g_utf8_substring (*p, 0, 1);

        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "the equation has “%s” at character %u, where a letter, “...”, a comma or “->” is expected",
                               bad, (guint) (*p - text) + 1);
      }
    }

  piece->end = *p;
  return TRUE;
}

static void
piece_to_term (const Piece *piece,
               guint        n_ellipsis,
               Term        *term)
{
  term->n = 0;
  for (guint i = 0; i <= piece->letters.n; i++)
    {
      if (piece->ellipsis == (int) i)
        for (guint j = n_ellipsis; j > 0; j--)
          term->labels[term->n++] = (guint8) (N_LABELS - j);
      if (i < piece->letters.n)
        term->labels[term->n++] = piece->letters.labels[i];
    }
}

/* Adds the term of an operand, whose dimensions of size 1 broadcast. */
static gboolean
add_term (const RlxOpCall *call,
          Equation        *equation,
          const Term      *term,
          guint64         *known,
          GError         **error)
{
  guint index = equation->n_terms;
  const RlxTensorType *type = call->inputs[index];
  guint64 seen = 0;

  for (guint i = 0; i < term->n; i++)
    {
      guint label = term->labels[i];
      gint64 dim = type->shape[i];

      for (guint j = 0; (seen & BIT (label)) && j < i; j++)
        if (term->labels[j] == label && type->shape[j] != dim)
          {
            g_autofree char *name = label_to_string (label);

            return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                                   "%s is repeated in operand %u, with the sizes %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT,
                                   name, index, type->shape[j], dim);
          }
      seen |= BIT (label);

      if (!(*known & BIT (label)) || equation->shape[label] == 1)
        {
          *known |= BIT (label);
          equation->shape[label] = dim;
        }
      else if (dim != 1 && dim != equation->shape[label])
        {
          g_autofree char *name = label_to_string (label);

          return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                                 "%s has the size %" G_GINT64_FORMAT " in operand %u, but %" G_GINT64_FORMAT " in one before",
                                 name, dim, index, equation->shape[label]);
        }
    }

  equation->terms[equation->n_terms++] = *term;
  return TRUE;
}

static gboolean
parse (const RlxOpCall *call,
       const char      *text,
       Equation        *equation,
       GError         **error)
{
  const char *p = text;
  Piece piece;
  guint64 known = 0, once = 0, again = 0;
  guint n_ellipsis = 0;

  *equation = (Equation) { 0 };

  if (call->n_inputs > MAX_TERMS)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "there are %u operands; the limit is %d", call->n_inputs, MAX_TERMS);
  for (guint i = 1; i < call->n_inputs; i++)
    if (call->inputs[i]->data_type != call->inputs[0]->data_type)
      return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                             "operand %u is of type %s, but the first one is %s", i,
                             rlx_data_type_to_string (call->inputs[i]->data_type), rlx_data_type_to_string (call->inputs[0]->data_type));

  for (;; p++)
    {
      const RlxTensorType *type;
      guint index = equation->n_terms;
      guint here = 0;
      Term term;

      if (!read_piece (call, text, &p, &piece, error))
        return FALSE;
      if (index == call->n_inputs)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "the equation has more terms than there are operands, which are %u", call->n_inputs);

      type = call->inputs[index];
      if (piece.ellipsis >= 0 && type->n_dims >= piece.letters.n)
        here = type->n_dims - piece.letters.n;
      if (piece.letters.n + here != type->n_dims)
        {
          g_autofree char *shape = rlx_type_to_string (type);
          g_autofree char *quoted = g_strndup (piece.start, (gsize) (piece.end - piece.start));

          return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                                 "the term “%s” has %u labels, but operand %u is %s", quoted, piece.letters.n, index, shape);
        }
      n_ellipsis = MAX (n_ellipsis, here);
      piece_to_term (&piece, here, &term);
      if (!add_term (call, equation, &term, &known, error))
        return FALSE;

      for (guint i = 0; i < piece.letters.n; i++)
        {
          again |= once & BIT (piece.letters.labels[i]);
          once |= BIT (piece.letters.labels[i]);
        }
      if (*p != ',')
        break;
    }

  if (equation->n_terms != call->n_inputs)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "the equation has %u terms, but there are %u operands", equation->n_terms, call->n_inputs);

  if (*p == '\0')
    {
      /* Letters that occur exactly once, in alphabetical order. */
      piece = (Piece) { .ellipsis = 0 };
      for (guint label = 0; label < N_LETTERS; label++)
        if (once & ~again & BIT (label))
          piece.letters.labels[piece.letters.n++] = (guint8) label;
    }
  else
    {
      guint64 seen = 0;

      if (p[1] != '>')
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "the equation has a “-” at character %u that is not one of “->”", (guint) (p - text) + 1);
      p += 2;
      if (!read_piece (call, text, &p, &piece, error))
        return FALSE;
      if (*p != '\0')
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "the equation goes on at character %u after the result", (guint) (p - text) + 1);

      for (guint i = 0; i < piece.letters.n; i++)
        {
          guint label = piece.letters.labels[i];
          g_autofree char *name = label_to_string (label);

          if (seen & BIT (label))
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "%s appears twice in the result of the equation", name);
          if (!(known & BIT (label)))
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "%s is in the result of the equation, but in no operand", name);
          seen |= BIT (label);
        }
    }

  piece_to_term (&piece, n_ellipsis, &equation->output);
  return TRUE;
}

/* ---- contracting ----------------------------------------------------------------- */

/* An operand or an intermediate product, without dimensions of size 1. */
typedef struct
{
  Term term;
  RlxIrValue *value;     /* NULL in a dry run */
} Part;

typedef struct
{
  const RlxOpCall *call;
  const Equation *equation;
  RlxDataType data_type;
  RlxBuilder *b;         /* NULL in a dry run, which only finds out whether the contraction is possible */
  RlxIrValue *const *inputs;
  GError **error;        /* the builder's, if there is one */
  guint n_sums;          /* number of steps so far that round their result */
} Work;

static guint64
term_n_elements (Work *work,
                 const Term *term)
{
  guint64 n = 1;

  for (guint i = 0; i < term->n; i++)
    n *= (guint64) work->equation->shape[term->labels[i]];
  return n;
}

static gboolean
part_reshape (const Work   *work,
              Part         *part,
              const gint64 *shape,
              guint         n_dims)
{
  if (work->b == NULL)
    return TRUE;

  part->value = rlx_build_reshape (work->b, part->value, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (shape, n_dims)));
  return part->value != NULL;
}

static gboolean
part_transpose (Work *work,
                Part       *part,
                const Term *order)
{
  gint64 permutation[RLX_MAX_DIMS];
  Term before = part->term;

  part->term = *order;
  if (work->b == NULL || term_equal (&before, order))
    return TRUE;

  for (guint i = 0; i < order->n; i++)
    for (guint j = 0; j < before.n; j++)
      if (before.labels[j] == order->labels[i])
        permutation[i] = j;
  part->value = rlx_build_transpose (work->b, part->value, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (permutation, order->n)));
  return part->value != NULL;
}

/* Sums over all labels but those of @keep. */
static gboolean
part_sum (Work *work,
          Part       *part,
          guint64     keep)
{
  gint64 axes[RLX_MAX_DIMS];
  guint n_axes = 0;
  Term before = part->term;

  part->term.n = 0;
  term_add (&part->term, &before, keep);
  if (part->term.n == before.n)
    return TRUE;
  work->n_sums++;
  if (work->b == NULL)
    return TRUE;

  for (guint i = 0; i < before.n; i++)
    if (!(keep & BIT (before.labels[i])))
      axes[n_axes++] = i;
  part->value = rlx_build_reduce_sum (work->b, part->value, RLX_REDUCE_SUM_ATTRS (.axes = RLX_INTS (axes, n_axes)));
  return part->value != NULL;
}

/* Finds two dimensions with the same label. */
static gboolean
find_repeated (const Term *term,
               guint      *first,
               guint      *second)
{
  for (*first = 0; *first < term->n; (*first)++)
    for (*second = *first + 1; *second < term->n; (*second)++)
      if (term->labels[*first] == term->labels[*second])
        return TRUE;
  return FALSE;
}

/* Makes a part of an operand: takes diagonals where a label repeats, and drops dimensions
 * of size 1. */
static gboolean
part_init (Work *work,
           guint       index,
           Part       *part)
{
  const RlxTensorType *type = work->call->inputs[index];
  gint64 shape[RLX_MAX_DIMS];
  guint n = 0, first, second;
  Term term;

  part->term = work->equation->terms[index];
  part->value = work->b != NULL ? work->inputs[index] : NULL;
  if (part->value != NULL)
    part->value = rlx_build_as (work->b, part->value, work->data_type);
  memcpy (shape, type->shape, type->n_dims * sizeof (gint64));

  while (find_repeated (&part->term, &first, &second))
    {
      guint8 label = part->term.labels[first];
      gint64 dim = shape[first];

      if (work->b != NULL)
        part->value = rlx_build_diagonal (work->b, part->value, RLX_DIAGONAL_ATTRS (.axis1 = first, .axis2 = second));

      /* The diagonal is now the last dimension. */
      n = 0;
      for (guint i = 0; i < part->term.n; i++)
        if (i != first && i != second)
          {
            shape[n] = shape[i];
            part->term.labels[n++] = part->term.labels[i];
          }
      shape[n] = dim;
      part->term.labels[n++] = label;
      part->term.n = n;
    }

  term = part->term;
  n = 0;
  for (guint i = 0; i < term.n; i++)
    if (shape[i] != 1)
      {
        shape[n] = shape[i];
        part->term.labels[n++] = term.labels[i];
      }
  part->term.n = n;
  return n == term.n || part_reshape (work, part, shape, n);
}

/* The product if nothing is summed: dimensions that one operand lacks have size 1 there. */
static gboolean
multiply_elements (Work *work,
                   Part       *a,
                   Part       *b,
                   const Term *order)
{
  Part *parts[] = { a, b };

  for (guint i = 0; i < 2; i++)
    {
      guint64 set = term_get_set (&parts[i]->term);
      gint64 shape[RLX_MAX_DIMS];
      Term own = { 0 };

      term_add (&own, order, set);
      if (!part_transpose (work, parts[i], &own))
        return FALSE;
      for (guint j = 0; j < order->n; j++)
        shape[j] = set & BIT (order->labels[j]) ? work->equation->shape[order->labels[j]] : 1;
      if (own.n < order->n && !part_reshape (work, parts[i], shape, order->n))
        return FALSE;
    }

  a->term = *order;
  if (work->b == NULL)
    return TRUE;
  a->value = rlx_build_mul (work->b, a->value, b->value);
  return a->value != NULL;
}

typedef enum
{
  LIES_STRAIGHT,
  LIES_SWAPPED,
  LIES_OTHERWISE,
} Lie;

/* How the matrices of a part are laid out. */
static Lie
get_lie (const Part *part,
         const Term *batch,
         const Term *rows,
         const Term *columns)
{
  Term straight = { 0 }, swapped = { 0 };

  term_add (&straight, batch, ~(guint64) 0);
  swapped = straight;
  term_add (&straight, rows, ~(guint64) 0);
  term_add (&straight, columns, ~(guint64) 0);
  term_add (&swapped, columns, ~(guint64) 0);
  term_add (&swapped, rows, ~(guint64) 0);

  if (term_equal (&part->term, &straight))
    return LIES_STRAIGHT;
  return term_equal (&part->term, &swapped) ? LIES_SWAPPED : LIES_OTHERWISE;
}

/* Turns a part into a stack of matrices; @swapped tells whether they are transposed. */
static gboolean
make_matrices (Work *work,
               Part       *part,
               const Term *batch,
               const Term *rows,
               const Term *columns,
               gboolean   *swapped)
{
  gint64 shape[3];
  guint n_dims = 0;
  Lie lie = get_lie (part, batch, rows, columns);
  Term order = { 0 };

  if (lie == LIES_OTHERWISE)
    {
      term_add (&order, batch, ~(guint64) 0);
      term_add (&order, rows, ~(guint64) 0);
      term_add (&order, columns, ~(guint64) 0);
      if (!part_transpose (work, part, &order))
        return FALSE;
    }

  *swapped = lie == LIES_SWAPPED;
  if (batch->n > 0)
    shape[n_dims++] = (gint64) term_n_elements (work, batch);
  shape[n_dims++] = (gint64) term_n_elements (work, *swapped ? columns : rows);
  shape[n_dims++] = (gint64) term_n_elements (work, *swapped ? rows : columns);
  return part_reshape (work, part, shape, n_dims);
}

static gboolean
multiply_matrices (Work *work,
                   Part       *a,
                   Part       *b,
                   guint64     shared,
                   guint64     keep)
{
  Part *parts[] = { a, b };
  Term batches[2] = { 0 }, sums[2] = { 0 }, rows = { 0 }, columns = { 0 };
  guint best = G_MAXUINT, batch = 0, sum = 0;
  gboolean swapped[2];
  gint64 shape[RLX_MAX_DIMS];

  for (guint i = 0; i < 2; i++)
    {
      term_add (&batches[i], &parts[i]->term, shared & keep);
      term_add (&sums[i], &parts[i]->term, shared & ~keep);
    }
  term_add (&rows, &a->term, ~shared);
  term_add (&columns, &b->term, ~shared);

  /* The order of the shared labels is free: choose the one that needs the fewest copies. */
  for (guint i = 0; i < 2; i++)
    for (guint j = 0; j < 2; j++)
      {
        guint copies = (get_lie (a, &batches[i], &rows, &sums[j]) == LIES_OTHERWISE) +
                       (get_lie (b, &batches[i], &sums[j], &columns) == LIES_OTHERWISE);

        if (copies < best)
          {
            best = copies;
            batch = i;
            sum = j;
          }
      }

  if (!make_matrices (work, a, &batches[batch], &rows, &sums[sum], &swapped[0]) ||
      !make_matrices (work, b, &batches[batch], &sums[sum], &columns, &swapped[1]))
    return FALSE;

  a->term = batches[batch];
  term_add (&a->term, &rows, ~(guint64) 0);
  term_add (&a->term, &columns, ~(guint64) 0);
  if (work->b == NULL)
    return TRUE;

  a->value = rlx_build_matmul (work->b, a->value, b->value,
                               RLX_MATMUL_ATTRS (.transpose_a = swapped[0], .transpose_b = swapped[1]));
  if (a->value == NULL)
    return FALSE;

  for (guint i = 0; i < a->term.n; i++)
    shape[i] = work->equation->shape[a->term.labels[i]];
  return part_reshape (work, a, shape, a->term.n);
}

/* Contracts @b into @a. @order, if not NULL, is the order that suits what follows best. */
static gboolean
join (Work *work,
      Part       *a,
      Part       *b,
      guint64     keep,
      const Term *order)
{
  guint64 set_a = term_get_set (&a->term);
  guint64 set_b = term_get_set (&b->term);
  Term straight = { 0 }, swapped = { 0 };

  work->n_sums++;
  term_add (&straight, &a->term, set_b & keep);
  term_add (&straight, &a->term, ~set_b);
  term_add (&straight, &b->term, ~set_a);
  if ((set_a & set_b & ~keep) == 0)
    return multiply_elements (work, a, b, order != NULL ? order : &straight);

  term_add (&swapped, &b->term, set_a & keep);
  term_add (&swapped, &b->term, ~set_a);
  term_add (&swapped, &a->term, ~set_b);
  if (order != NULL && term_equal (order, &swapped) && !term_equal (order, &straight))
    {
      Part c = *a;

      *a = *b;
      *b = c;
    }
  return multiply_matrices (work, a, b, set_a & set_b, keep);
}

/* The best pair to contract: the one that reduces the number of elements most. */
static gboolean
choose_pair (Work *work,
             const Part *parts,
             guint       n_parts,
             guint64     output,
             guint      *first,
             guint      *second)
{
  double best = G_MAXDOUBLE;
  gboolean found = FALSE;

  for (guint i = 0; i < n_parts; i++)
    for (guint j = i + 1; j < n_parts; j++)
      {
        guint64 keep = output;
        guint64 set;
        guint n_dims = 0;
        double size = 1.0, gain;

        for (guint k = 0; k < n_parts; k++)
          if (k != i && k != j)
            keep |= term_get_set (&parts[k].term);
        set = (term_get_set (&parts[i].term) | term_get_set (&parts[j].term)) & keep;
        for (guint label = 0; label < N_LABELS; label++)
          if (set & BIT (label))
            {
              n_dims++;
              size *= (double) work->equation->shape[label];
            }
        gain = size - (double) term_n_elements (work, &parts[i].term) - (double) term_n_elements (work, &parts[j].term);
        if (n_dims <= RLX_MAX_DIMS && gain < best)
          {
            best = gain;
            *first = i;
            *second = j;
            found = TRUE;
          }
      }
  return found;
}

static RlxIrValue *
contract (Work *work)
{
  g_autofree Part *parts = g_new0 (Part, work->equation->n_terms);
  const Term *output = &work->equation->output;
  guint n_parts = work->equation->n_terms;
  guint64 wanted = term_get_set (output);
  gint64 shape[RLX_MAX_DIMS];
  Term order = { 0 };

  for (guint i = 0; i < n_parts; i++)
    if (!part_init (work, i, &parts[i]))
      return NULL;

  for (guint i = 0; i < output->n; i++)
    if (work->equation->shape[output->labels[i]] != 1)
      order.labels[order.n++] = output->labels[i];

  for (guint i = 0; i < n_parts; i++)
    {
      guint64 keep = wanted;

      for (guint j = 0; j < n_parts; j++)
        if (j != i)
          keep |= term_get_set (&parts[j].term);
      if (!part_sum (work, &parts[i], keep))
        return NULL;
    }

  while (n_parts > 1)
    {
      guint first, second;
      guint64 keep = wanted;
      RlxTensorType type;

      if (!choose_pair (work, parts, n_parts, wanted, &first, &second))
        {
          rlx_call_error (work->call, work->error, RLX_GRAPH_ERROR_LIMIT,
                          "the product of any two of %u tensors that are left has more than %d dimensions",
                          n_parts, RLX_MAX_DIMS);
          return NULL;
        }

      for (guint k = 0; k < n_parts; k++)
        if (k != first && k != second)
          keep |= term_get_set (&parts[k].term);
      if (!join (work, &parts[first], &parts[second], keep, n_parts == 2 ? &order : NULL))
        return NULL;
      term_to_type (work->equation, &parts[first].term, work->data_type, &type);
      if (!rlx_type_check (&type, work->error))
        return NULL;
      memmove (&parts[second], &parts[second + 1], (n_parts - second - 1) * sizeof (Part));
      n_parts--;
    }

  if (!part_transpose (work, &parts[0], &order))
    return NULL;
  for (guint i = 0; i < output->n; i++)
    shape[i] = work->equation->shape[output->labels[i]];
  if (order.n < output->n && !part_reshape (work, &parts[0], shape, output->n))
    return NULL;
  return parts[0].value;
}

/* The rule of both operators. */
static gboolean
infer_result (RlxOpCall      *call,
              const Equation *equation,
              GError        **error)
{
  GError *failure = NULL;
  Work work = { call, equation, call->inputs[0]->data_type, NULL, NULL, &failure, 0 };
  RlxTensorType type;

  if (!term_to_type (equation, &equation->output, call->inputs[0]->data_type, &type))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the result has %u dimensions; the limit is %d", equation->output.n, RLX_MAX_DIMS);

  contract (&work);
  if (failure != NULL)
    {
      /* an error about a type does not say which operator it is about */
      if (!g_str_has_prefix (failure->message, call->op->name))
        g_prefix_error (&failure, "%s: an intermediate product is too large: ", call->op->name);
      g_propagate_error (error, failure);
      return FALSE;
    }
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* Reconstructs the call that created the node. */
static RlxOpCall
get_call (const RlxIrNode      *node,
          const RlxTensorType **types)
{
  for (guint i = 0; i < node->n_inputs; i++)
    types[i] = &node->inputs[i]->type;

  return (RlxOpCall) {
    .op = node->op,
    .attrs = node->attrs,
    .inputs = types,
    .n_inputs = node->n_inputs,
  };
}

/* Whether the result consists of empty sums. Contracted pair by pair, one of these zeros
 * could be multiplied by an infinity or a NaN. */
static gboolean
sums_nothing (const Equation *equation)
{
  guint64 output = term_get_set (&equation->output);

  for (guint i = 0; i < equation->n_terms; i++)
    for (guint j = 0; j < equation->terms[i].n; j++)
      {
        guint8 label = equation->terms[i].labels[j];

        if (equation->shape[label] == 0 && !(output & BIT (label)))
          return TRUE;
      }
  return FALSE;
}

static RlxIrValue *
expand_result (const RlxOpCall   *call,
               const Equation    *equation,
               RlxBuilder        *b,
               RlxIrValue *const *inputs)
{
  RlxDataType data_type = call->inputs[0]->data_type;
  Work dry = { call, equation, data_type, NULL, NULL, &b->error, 0 };
  Work work = { call, equation, data_type, b, inputs, &b->error, 0 };

  if (sums_nothing (equation))
    {
      RlxTensorType type = { .n_dims = 0 };

      term_to_type (equation, &equation->output, data_type, &type);
      return rlx_build_expand (b, rlx_build_constant (b, rlx_tensor_new_scalar (data_type, 0, NULL)), RLX_EXPAND_ATTRS (.shape = RLX_INTS (type.shape, type.n_dims)));
    }

  /* f16 is for storage, not for intermediate results. */
  contract (&dry);
  if (dry.n_sums > 1)
    work.data_type = RLX_DATA_TYPE_F32;
  return rlx_build_as (b, contract (&work), data_type);
}

/* ---- einsum ------------------------------------------------------------------------ */

gboolean
rlx_einsum_infer (RlxOpCall            *call,
                  const RlxEinsumAttrs *attrs,
                  GError              **error)
{
  g_autofree Equation *equation = g_new0 (Equation, 1);

  return parse (call, attrs->equation, equation, error) && infer_result (call, equation, error);
}

RlxIrValue *
rlx_einsum_expand (RlxBuilder        *b,
                   const RlxIrNode   *node,
                   RlxIrValue *const *inputs)
{
  const RlxTensorType *types[MAX_TERMS];
  const RlxOpCall call = get_call (node, types);
  g_autofree Equation *equation = g_new0 (Equation, 1);

  return parse (&call, rlx_einsum_attrs (node)->equation, equation, &b->error) ? expand_result (&call, equation, b, inputs) : NULL;
}

/* ---- dot_general ------------------------------------------------------------------- */

/* Gives two axes the same label. */
static gboolean
pair_axes (const RlxOpCall *call,
           Equation        *equation,
           const char      *name_a,
           const RlxInts   *axes_a,
           const char      *name_b,
           const RlxInts   *axes_b,
           Term            *batch,
           GError         **error)
{
  const RlxInts *lists[] = { axes_a, axes_b };
  const char *names[] = { name_a, name_b };

  if (lists[0]->n_values != lists[1]->n_values)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "%s has %u axes, but %s has %u", name_a, lists[0]->n_values, name_b, lists[1]->n_values);

  for (guint i = 0; i < lists[0]->n_values; i++)
    {
      guint axes[2];
      guint8 label;

      for (guint j = 0; j < 2; j++)
        {
          if (!rlx_call_axis (call, lists[j]->values[i], call->inputs[j]->n_dims, &axes[j], error))
            return FALSE;
          if (equation->terms[j].labels[axes[j]] != N_LABELS)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "%s has the axis %u, which is given twice", names[j], axes[j]);
          equation->terms[j].labels[axes[j]] = 0;
        }
      if (call->inputs[0]->shape[axes[0]] != call->inputs[1]->shape[axes[1]])
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "axis %u of the first operand (%s) and axis %u of the second (%s) have different sizes: %"
                               G_GINT64_FORMAT " and %" G_GINT64_FORMAT,
                               axes[0], name_a, axes[1], name_b,
                               call->inputs[0]->shape[axes[0]], call->inputs[1]->shape[axes[1]]);

      label = (guint8) axes[0];
      equation->terms[0].labels[axes[0]] = label;
      equation->terms[1].labels[axes[1]] = label;
      equation->shape[label] = call->inputs[0]->shape[axes[0]];
      if (batch != NULL)
        batch->labels[batch->n++] = label;
    }
  return TRUE;
}

static gboolean
get_dimension_numbers (const RlxOpCall          *call,
                       const RlxDotGeneralAttrs *attrs,
                       Equation                 *equation,
                       GError                  **error)
{
  *equation = (Equation) { .n_terms = 2 };

  for (guint j = 0; j < 2; j++)
    {
      equation->terms[j].n = call->inputs[j]->n_dims;
      memset (equation->terms[j].labels, N_LABELS, call->inputs[j]->n_dims);
    }

  if (!pair_axes (call, equation, "lhs_contracting", &attrs->lhs_contracting, "rhs_contracting", &attrs->rhs_contracting, NULL, error) ||
      !pair_axes (call, equation, "lhs_batch", &attrs->lhs_batch, "rhs_batch", &attrs->rhs_batch, &equation->output, error))
    return FALSE;

  for (guint j = 0; j < 2; j++)
    for (guint i = 0; i < equation->terms[j].n; i++)
      if (equation->terms[j].labels[i] == N_LABELS)
        {
          guint8 label = (guint8) (j * RLX_MAX_DIMS + i);

          equation->terms[j].labels[i] = label;
          equation->shape[label] = call->inputs[j]->shape[i];
          equation->output.labels[equation->output.n++] = label;
        }
  return TRUE;
}

gboolean
rlx_dot_general_infer (RlxOpCall                *call,
                       const RlxDotGeneralAttrs *attrs,
                       GError                  **error)
{
  g_autofree Equation *equation = g_new0 (Equation, 1);

  return get_dimension_numbers (call, attrs, equation, error) && infer_result (call, equation, error);
}

RlxIrValue *
rlx_dot_general_expand (RlxBuilder        *b,
                        const RlxIrNode   *node,
                        RlxIrValue *const *inputs)
{
  const RlxTensorType *types[2];
  const RlxOpCall call = get_call (node, types);
  g_autofree Equation *equation = g_new0 (Equation, 1);

  if (!get_dimension_numbers (&call, rlx_dot_general_attrs (node), equation, &b->error))
    return NULL;
  return expand_result (&call, equation, b, inputs);
}
