/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Serves the files of a folder to browsers on this machine.
 */
#include "config.h"

#include <string.h>

#include "rlx-tool.h"

#define MAX_THREADS 16
#define MAX_HEAD 16384
#define TIMEOUT_S 30

/* The types of files in an export; browsers only accept a module with the right one. */
static const char *
get_content_type (const char *name)
{
  static const char *const types[][2] = {
    { ".html", "text/html; charset=utf-8" },
    { ".js", "text/javascript; charset=utf-8" },
    { ".mjs", "text/javascript; charset=utf-8" },
    { ".ts", "text/plain; charset=utf-8" },
    { ".json", "application/json" },
    { ".css", "text/css; charset=utf-8" },
    { ".png", "image/png" },
    { ".svg", "image/svg+xml" },
    { ".wasm", "application/wasm" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    if (g_str_has_suffix (name, types[i][0]))
      return types[i][1];
  return "application/octet-stream";
}

static gboolean
answer (GOutputStream *out,
        const char    *status,
        const char    *headers,
        const char    *text)
{
  return g_output_stream_printf (out, NULL, NULL, NULL,
                                 "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %" G_GSIZE_FORMAT
                                 "\r\nConnection: close\r\n%s\r\n%s", status, strlen (text), headers, text);
}

/* The name of a file in the folder itself: no hidden file, and no path. */
static char *
parse_name (const char *target)
{
  gsize length = strcspn (target, "?#");
  g_autofree char *path = g_strndup (target, length), *name = NULL;

  if (path[0] != '/')
    return NULL;
  if (path[1] == '\0')
    return g_strdup ("index.html");
  name = g_uri_unescape_string (path + 1, "/");
  return name != NULL && name[0] != '.' && g_utf8_validate (name, -1, NULL) ? g_steal_pointer (&name) : NULL;
}

/* Whether the Host header is an address of this machine: any other name could have been made to resolve to it by anybody. */
static gboolean
is_own_host (const char *host)
{
  gsize length = strcspn (host, ":");

  return (length == 9 && (strncmp (host, "127.0.0.1", length) == 0 || g_ascii_strncasecmp (host, "localhost", length) == 0));
}

/* Reads the request line and the Host header; FALSE if there is no request. */
static gboolean
read_head (GDataInputStream *in,
           char            **request,
           char            **host)
{
  gsize total = 0;

  for (;;)
    {
      gsize length = 0;
      g_autofree char *line = g_data_input_stream_read_line (in, &length, NULL, NULL);

      if (line == NULL || (total += length) > MAX_HEAD)
        return FALSE;
      if (line[0] == '\0')
        return *request != NULL;
      if (*request == NULL)
        *request = g_steal_pointer (&line);
      else if (g_ascii_strncasecmp (line, "Host:", 5) == 0 && *host == NULL)
        *host = g_strdup (g_strstrip (line + 5));
    }
}

static void
serve_file (GFile         *folder,
            GOutputStream *out,
            const char    *name,
            gboolean       with_content)
{
  g_autoptr(GFile) file = g_file_get_child (folder, name);
  g_autoptr(GFileInputStream) in = g_file_read (file, NULL, NULL);
  g_autoptr(GFileInfo) info = in != NULL ? g_file_input_stream_query_info (in, G_FILE_ATTRIBUTE_STANDARD_SIZE, NULL, NULL) : NULL;

  if (info == NULL)
    {
      answer (out, "404 Not Found", "", "There is no such file.\n");
      return;
    }
  /* The names of weights contain their checksum. */
  if (!g_output_stream_printf (out, NULL, NULL, NULL,
                               "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %" G_GOFFSET_FORMAT "\r\nCache-Control: %s\r\n"
                               "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
                               get_content_type (name), g_file_info_get_size (info),
                               g_str_has_prefix (name, "weights-") ? "max-age=31536000, immutable" : "no-cache"))
    return;
  if (with_content)
    g_output_stream_splice (out, G_INPUT_STREAM (in), G_OUTPUT_STREAM_SPLICE_NONE, NULL, NULL);
}

static gboolean
on_run (GThreadedSocketService *service G_GNUC_UNUSED,
        GSocketConnection      *connection,
        GObject                *source G_GNUC_UNUSED,
        GFile                  *folder)
{
  GOutputStream *out = g_io_stream_get_output_stream (G_IO_STREAM (connection));
  g_autoptr(GDataInputStream) in = g_data_input_stream_new (g_io_stream_get_input_stream (G_IO_STREAM (connection)));
  g_autofree char *request = NULL, *host = NULL, *name = NULL;
  g_auto(GStrv) words = NULL;

  g_socket_set_timeout (g_socket_connection_get_socket (connection), TIMEOUT_S);
  g_data_input_stream_set_newline_type (in, G_DATA_STREAM_NEWLINE_TYPE_ANY);
  g_buffered_input_stream_set_buffer_size (G_BUFFERED_INPUT_STREAM (in), MAX_HEAD);
  if (!read_head (in, &request, &host))
    return TRUE;
  words = g_strsplit (request, " ", 4);
  if (g_strv_length (words) != 3 || !g_str_has_prefix (words[2], "HTTP/1."))
    answer (out, "400 Bad Request", "", "This is not a request.\n");
  else if (!g_str_equal (words[0], "GET") && !g_str_equal (words[0], "HEAD"))
    answer (out, "405 Method Not Allowed", "Allow: GET, HEAD\r\n", "Files can only be read.\n");
  else if (host == NULL || !is_own_host (host))
    answer (out, "403 Forbidden", "", "This server is for this machine only.\n");
  else if ((name = parse_name (words[1])) == NULL)
    answer (out, "404 Not Found", "", "There is no such file.\n");
  else
    serve_file (folder, out, name, g_str_equal (words[0], "GET"));
  g_io_stream_close (G_IO_STREAM (connection), NULL, NULL);
  return TRUE;
}

gboolean
rlx_tool_serve (GFile   *folder,
                guint16  port,
                GError **error)
{
  g_autoptr(GSocketService) service = g_threaded_socket_service_new (MAX_THREADS);
  g_autoptr(GInetAddress) loopback = g_inet_address_new_loopback (G_SOCKET_FAMILY_IPV4);
  g_autoptr(GSocketAddress) address = g_inet_socket_address_new (loopback, port), effective = NULL;
  g_autoptr(GMainLoop) loop = g_main_loop_new (NULL, FALSE);

  if (!g_socket_listener_add_address (G_SOCKET_LISTENER (service), address, G_SOCKET_TYPE_STREAM, G_SOCKET_PROTOCOL_TCP, NULL,
                                      &effective, error))
    return FALSE;
  g_signal_connect (service, "run", G_CALLBACK (on_run), folder);
  g_socket_service_start (service);
  g_print ("http://127.0.0.1:%u/\n", g_inet_socket_address_get_port (G_INET_SOCKET_ADDRESS (effective)));
  g_printerr ("Open it in a browser; Ctrl+C stops the server.\n");
  g_main_loop_run (loop);
  return TRUE;
}
