/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What systems do differently. Only rlx-os.c includes headers that not every system
 * has, or asks which system it is compiled for. Linux is what is tested; each
 * function says what happens elsewhere.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

#ifdef G_OS_WIN32
#define RLX_OS_IS_WINDOWS TRUE
#else
#define RLX_OS_IS_WINDOWS FALSE
#endif
#ifdef __APPLE__
#define RLX_OS_IS_MACOS TRUE
#else
#define RLX_OS_IS_MACOS FALSE
#endif

/* ---- the process ---- */

/* Whether it runs with more rights than the user who started it. Never on Windows,
 * which has no such programs. */
gboolean rlx_os_is_privileged    (void);
/* Lets another thread have the processor, for as short a time as possible. */
void     rlx_os_yield            (void);
/* The memory of the machine, or what of it the process may map; G_MAXUINT64 where
 * nobody says. Windows: not asked; GlobalMemoryStatusEx() knows. */
guint64  rlx_os_get_memory_size  (void);
/* Calls @func in each child that fork() makes. Nothing on Windows, where there is
 * no fork(). */
void     rlx_os_watch_fork       (void (*func) (void));
/* Calls @func, which is always the same one, when the process exits: with its status
 * where there is on_exit(), and with NULL on Windows and macOS. There, nobody can end
 * the process in @func: a forked child runs the handlers of its driver. */
void     rlx_os_watch_exit       (void (*func) (const int *status));
/* Ends the process at once, with what is in the buffers of stdio written. */
void     rlx_os_exit             (int status) G_NORETURN;

/* ---- memory ---- */

/* Pages of zeros, or NULL. Windows: always NULL, and a caller goes without;
 * VirtualAlloc() has them. */
gpointer rlx_os_pages_new        (gsize size);
void     rlx_os_pages_free       (gpointer pages,
                                  gsize    size);
/* Nobody wants to know what is in there any more: gives the memory back, but not
 * the addresses. */
void     rlx_os_pages_drop       (gpointer pages,
                                  gsize    size);
/* All of it is about to be written. Only Linux is told. */
void     rlx_os_pages_populate   (gpointer pages,
                                  gsize    size);

/* ---- libraries ---- */

/* Dawn finds Direct3D on Windows and Metal on macOS without our help. */
#if defined (G_OS_UNIX) && !defined (__APPLE__)
#define RLX_OS_VULKAN_LOADER "libvulkan.so.1"
#endif

/* Loads @library for good and looks for @symbol in it. @found (out) says whether
 * the library is there. Windows: it never is; LoadLibraryEx() would look. */
gpointer rlx_os_find_symbol      (const char *library,
                                  const char *symbol,
                                  gboolean   *found);
/* Appends what tells the build of the library that @function is in from others.
 * Nothing outside of Linux: a cache then relies on version numbers. */
void     rlx_os_append_build_id  (GString *text,
                                  void   (*function) (void));

/* ---- files that are read in places ---- */

/* None: not on Windows, where a caller reads by way of a stream. */
#define RLX_OS_NO_FILE (-1)

/* A file of this path, which may be a link with @links, opened without waiting for
 * anybody; or another handle of an open one. Only for what has an end: a folder, a pipe
 * or a device is refused. */
int      rlx_os_file_open        (const char *path,
                                  gboolean    links,
                                  GError    **error);
/* A file below a folder, by a path of plain names: none of them may be a link, and the
 * file may have no other name elsewhere. The folder's own path may have links. */
int      rlx_os_file_open_below  (const char *folder,
                                  const char *path,
                                  GError    **error);
int      rlx_os_file_dup         (int         file,
                                  GError    **error);
gboolean rlx_os_file_get_size    (int         file,
                                  guint64    *size,
                                  GError    **error);
/* At most @size bytes from @offset on; 0 at the end of the file, -1 with an error.
 * It needs no position, so threads can share the file. */
gssize   rlx_os_file_read        (int         file,
                                  guint64     offset,
                                  gpointer    buffer,
                                  gsize       size,
                                  GError    **error);
void     rlx_os_file_close       (int         file);

/* ---- folders that nobody else can write to ---- */

/* On Windows there are none: nothing is cached. Files opened by handles relative
 * to a folder, with the access control list checked, would do there. */
#define RLX_OS_NO_FOLDER (-1)

typedef struct
{
  char *name;
  gboolean is_folder;
  guint64 size;
  gint64 modified;         /* seconds */
} RlxOsEntry;

/* The folder of this path, which may be a link. */
int      rlx_os_folder_open      (const char *path);
/* A folder in another that is no link, belongs to the user and is writable for
 * nobody else. Made on request. */
int      rlx_os_folder_open_own  (int         parent,
                                  const char *name,
                                  gboolean    make);
void     rlx_os_folder_close     (int folder);
/* What is in it. (element-type RlxOsEntry) (transfer full) */
GArray * rlx_os_folder_list      (int folder);
/* A file that is not there is as good as one that was removed. */
gboolean rlx_os_folder_remove    (int         folder,
                                  const char *name,
                                  GError    **error);
/* The bytes of a plain file of the user's, or NULL, also when it has less than @min
 * or more than @max. If it is older than @stale seconds, its time becomes now. */
guint8 * rlx_os_folder_read      (int         folder,
                                  const char *name,
                                  gsize       min,
                                  gsize       max,
                                  gint64      stale,
                                  gsize      *size);
/* Puts a file of @head and @body where that name is or was, all of it or nothing.
 * What a process that dies half-way leaves behind begins with this: */
#define RLX_OS_TEMPORARY "tmp-"
gboolean rlx_os_folder_write     (int         folder,
                                  const char *name,
                                  GByteArray *head,
                                  const void *body,
                                  gsize       body_size);

G_END_DECLS
