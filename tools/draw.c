/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A graph as a picture, for those who have no graphviz: `rlx dot -o FILE.svg`. Nodes lie
 * in rows, each below all it takes, and edges go through the rows between.
 */
#include "config.h"

#include "rlx-tool.h"

#define ROW 66
#define HEIGHT 40
#define GAP 22
/* Estimated width of a character. */
#define LETTER 6.6
#define MARGIN 16
#define SWEEPS 8
/* Larger graphs are not legible and take seconds to lay out. */
#define MAX_NODES 2000

typedef struct _Item Item;

/* A node, an output, or a place where an edge passes through a row. */
struct _Item
{
  RlxNode *node;           /* NULL for outputs and edges */
  char *title, *detail;    /* NULL for edges */
  const char *fill;
  guint row;
  double x, width;         /* x is the centre */
  double wanted;
  GPtrArray *above, *below;
};

static Item *
item_new (GPtrArray  *items,
          RlxNode    *node,
          char       *title,
          char       *detail,
          const char *fill)
{
  Item *item = g_new0 (Item, 1);

  item->node = node;
  item->title = title;
  item->detail = detail;
  item->fill = fill;
  if (title != NULL)
    item->width = 24 + LETTER * (double) MAX (g_utf8_strlen (title, -1), g_utf8_strlen (detail, -1));
  item->above = g_ptr_array_new ();
  item->below = g_ptr_array_new ();
  g_ptr_array_add (items, item);
  return item;
}

static void
item_free (gpointer data)
{
  Item *item = data;

  g_clear_object (&item->node);
  g_free (item->title);
  g_free (item->detail);
  g_ptr_array_unref (item->above);
  g_ptr_array_unref (item->below);
  g_free (item);
}

static void
connect (Item *from,
         Item *to)
{
  g_ptr_array_add (from->below, to);
  g_ptr_array_add (to->above, from);
  to->row = MAX (to->row, from->row + 1);
}

static gboolean
is_leaf (const Item *item)
{
  return item->node != NULL && item->above->len == 0;
}

static void
add_nodes (RlxGraph  *graph,
           GPtrArray *items)
{
  g_autoptr(GHashTable) known = g_hash_table_new (NULL, NULL);
  g_auto(GStrv) names = rlx_graph_dup_output_names (graph);

  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (graph)); i++)
    {
      RlxNode *node = g_list_model_get_item (G_LIST_MODEL (graph), i);
      const char *op = rlx_node_get_op (node), *name = rlx_node_get_name (node);
      RlxNode **inputs;
      g_autoptr(GString) detail = g_string_new (NULL);
      gsize n_inputs, n_dims;
      const gint64 *shape = rlx_node_get_shape (node, &n_dims);
      Item *item;

      g_string_append_printf (detail, "%s[", rlx_data_type_to_string (rlx_node_get_data_type (node)));
      for (gsize j = 0; j < n_dims; j++)
        g_string_append_printf (detail, "%s%" G_GINT64_FORMAT, j > 0 ? ", " : "", shape[j]);
      g_string_append_c (detail, ']');
      item = item_new (items, node, name ? g_strdup_printf ("%s %s", op, name) : g_strdup (op), g_strdup (detail->str),
                       g_str_equal (op, "input") ? "#cfe3f7" : g_str_equal (op, "state") ? "#f9e3b4" :
                       g_str_equal (op, "parameter") || g_str_equal (op, "constant") ? "#eeeeec" : "#ffffff");
      g_hash_table_insert (known, node, item);
      inputs = rlx_node_get_inputs (node, &n_inputs);
      for (gsize j = 0; j < n_inputs; j++)
        if (inputs[j] != NULL && g_hash_table_lookup (known, inputs[j]) != NULL)
          connect (g_hash_table_lookup (known, inputs[j]), item);
    }
  for (char **name = names; *name != NULL; name++)
    {
      Item *from = g_hash_table_lookup (known, rlx_graph_get_output (graph, *name));

      if (from != NULL)
        connect (from, item_new (items, NULL, g_strdup ("output"), g_strdup (*name), "#cfe9c6"));
    }
}

/* Assigns items to rows, and adds a place to each row that an edge passes through. Leaves are in the row above their first
 * user. (element-type GPtrArray) */
static GPtrArray *
make_rows (GPtrArray *items)
{
  GPtrArray *rows = g_ptr_array_new_with_free_func ((GDestroyNotify) g_ptr_array_unref);
  guint n_items = items->len;

  for (guint i = 0; i < n_items; i++)
    {
      Item *item = g_ptr_array_index (items, i);
      guint first = G_MAXUINT;

      for (guint j = 0; is_leaf (item) && j < item->below->len; j++)
        first = MIN (first, ((Item *) g_ptr_array_index (item->below, j))->row);
      if (first != G_MAXUINT)
        item->row = first - 1;
    }
  for (guint i = 0; i < n_items; i++)
    {
      Item *item = g_ptr_array_index (items, i);

      for (guint j = 0; j < item->below->len; j++)
        {
          Item *to = g_ptr_array_index (item->below, j), *last = item;

          if (to->row == item->row + 1)
            continue;
          g_ptr_array_remove (to->above, item);
          for (guint row = item->row + 1; row < to->row; row++)
            {
              Item *through = item_new (items, NULL, NULL, NULL, NULL);

              through->row = row;
              through->width = GAP;
              g_ptr_array_add (through->above, last);
              if (last == item)
                item->below->pdata[j] = through;
              else
                g_ptr_array_add (last->below, through);
              last = through;
            }
          g_ptr_array_add (last->below, to);
          g_ptr_array_add (to->above, last);
        }
    }
  for (guint i = 0; i < items->len; i++)
    {
      Item *item = g_ptr_array_index (items, i);

      while (rows->len <= item->row)
        g_ptr_array_add (rows, g_ptr_array_new ());
      g_ptr_array_add (g_ptr_array_index (rows, item->row), item);
    }
  return rows;
}

static int
compare_wanted (gconstpointer a,
                gconstpointer b)
{
  double difference = (*(Item *const *) a)->wanted - (*(Item *const *) b)->wanted;

  return difference > 0 ? 1 : difference < 0 ? -1 : 0;
}

/* Places the items of a row as close as possible to their preferred positions, without changing their order. */
static void
place (GPtrArray *row)
{
  double right = 0, shift = 0;

  for (guint i = 0; i < row->len; i++)
    {
      Item *item = g_ptr_array_index (row, i);

      item->x = item->wanted;
      if (i > 0)
        item->x = MAX (item->x, right + GAP + item->width / 2);
      right = item->x + item->width / 2;
      shift += item->wanted - item->x;
    }
  for (guint i = 0; i < row->len; i++)
    ((Item *) g_ptr_array_index (row, i))->x += shift / row->len;
}

static void
lay_out (GPtrArray *rows)
{
  for (guint sweep = 0; sweep <= SWEEPS; sweep++)
    for (guint i = 0; i < rows->len; i++)
      {
        gboolean down = sweep % 2 == 0;
        GPtrArray *row = g_ptr_array_index (rows, down ? i : rows->len - 1 - i);

        for (guint j = 0; j < row->len; j++)
          {
            Item *item = g_ptr_array_index (row, j);
            GPtrArray *others = down ? item->above : item->below;
            double sum = 0;

            for (guint k = 0; k < others->len; k++)
              sum += ((Item *) g_ptr_array_index (others, k))->x;
            item->wanted = others->len > 0 ? sum / others->len : sweep == 0 ? 100.0 * j : item->x;
          }
        g_ptr_array_sort (row, compare_wanted);
        place (row);
      }
}

/* Draws an edge from the bottom of an item through its places to the top of the next item. */
static void
draw_edge (GString    *svg,
           const Item *from,
           const Item *to)
{
  double x = from->x, y = MARGIN + ROW * from->row + HEIGHT;

  g_string_append_printf (svg, "  <path d=\"M%.0f %.0f", x, y);
  for (;;)
    {
      double end = MARGIN + ROW * to->row, half = (end - y) / 2;

      g_string_append_printf (svg, " C%.0f %.0f %.0f %.0f %.0f %.0f", x, y + half, to->x, end - half, to->x, end);
      if (to->title != NULL)
        break;
      x = to->x;
      y = end + HEIGHT;
      g_string_append_printf (svg, " L%.0f %.0f", x, y);
      to = g_ptr_array_index (to->below, 0);
    }
  g_string_append (svg, "\"/>\n");
}

char *
rlx_tool_draw_graph (RlxGraph *graph,
                     GError  **error)
{
  g_autoptr(GPtrArray) items = g_ptr_array_new_with_free_func (item_free);
  g_autoptr(GPtrArray) rows = NULL;
  GString *svg;
  double left = G_MAXDOUBLE, right = 0;

  if (g_list_model_get_n_items (G_LIST_MODEL (graph)) > MAX_NODES)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED,
                   "the graph has %u nodes; up to %u can be drawn, and graphviz may draw more",
                   g_list_model_get_n_items (G_LIST_MODEL (graph)), MAX_NODES);
      return NULL;
    }
  add_nodes (graph, items);
  rows = make_rows (items);
  lay_out (rows);
  for (guint i = 0; i < items->len; i++)
    {
      const Item *item = g_ptr_array_index (items, i);

      left = MIN (left, item->x - item->width / 2);
    }
  for (guint i = 0; i < items->len; i++)
    {
      Item *item = g_ptr_array_index (items, i);

      item->x += MARGIN - left;
      right = MAX (right, item->x + item->width / 2);
    }

  svg = g_string_new (NULL);
  g_string_append_printf (svg,
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %u\" font-family=\"sans-serif\" font-size=\"12\" text-anchor=\"middle\">\n"
                          "  <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#555\"/></marker></defs>\n"
                          "  <rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
                          "  <g fill=\"none\" stroke=\"#555\" marker-end=\"url(#tip)\">\n",
                          right + MARGIN, 2 * MARGIN + ROW * (MAX (rows->len, 1) - 1) + HEIGHT);
  for (guint i = 0; i < items->len; i++)
    {
      const Item *item = g_ptr_array_index (items, i);

      for (guint j = 0; item->title != NULL && j < item->below->len; j++)
        draw_edge (svg, item, g_ptr_array_index (item->below, j));
    }
  g_string_append (svg, "  </g>\n");
  for (guint i = 0; i < items->len; i++)
    {
      const Item *item = g_ptr_array_index (items, i);
      g_autofree char *title = NULL, *detail = NULL;
      guint y = MARGIN + ROW * item->row;

      if (item->title == NULL)
        continue;
      title = g_markup_escape_text (item->title, -1);
      detail = g_markup_escape_text (item->detail, -1);
      g_string_append_printf (svg,
                              "  <rect x=\"%.0f\" y=\"%u\" width=\"%.0f\" height=\"%u\" rx=\"%u\" fill=\"%s\" stroke=\"#555\"/>\n"
                              "  <text x=\"%.0f\" y=\"%u\">%s</text>\n  <text x=\"%.0f\" y=\"%u\" fill=\"#555\">%s</text>\n",
                              item->x - item->width / 2, y, item->width, HEIGHT, is_leaf (item) || item->node == NULL ? 20u : 5u, item->fill,
                              item->x, y + 17, title, item->x, y + 33, detail);
    }
  g_string_append (svg, "</svg>\n");
  return g_string_free (svg, FALSE);
}
