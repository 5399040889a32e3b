/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Differences between systems. Only rlx-os.c includes headers that not every system has, or
 * asks which system it is compiled for. Tests run on Linux; each function says what happens
 * elsewhere.
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

/* Whether the process has more privileges than the user who started it. Never on Windows,
 * which has no such programs. */
gboolean rlx_os_is_privileged    (void);
/* Yields the processor to another thread, for as short a time as possible. */
void     rlx_os_yield            (void);
/* The memory of the machine, or the part that the process may map; G_MAXUINT64 if
 * unknown. Windows: not implemented; GlobalMemoryStatusEx() would tell. */
guint64  rlx_os_get_memory_size  (void);
/* Calls @func in each child created by fork(). Does nothing on Windows, which has no
 * fork(). */
void     rlx_os_watch_fork       (void (*func) (void));
/* Calls @func, which is always the same one, when the process exits: with the exit
 * status if the system has on_exit(), and with NULL on Windows and macOS. There, @func
 * cannot end the process, so a forked child runs the handlers of its driver. */
void     rlx_os_watch_exit       (void (*func) (const int *status));
/* Ends the process at once, after flushing the buffers of stdio. */
void     rlx_os_exit             (int status) G_NORETURN;

/* ---- memory ---- */

/* Zeroed pages, or NULL. Windows: always NULL, which callers handle; VirtualAlloc()
 * would provide them. */
gpointer rlx_os_pages_new        (gsize size);
void     rlx_os_pages_free       (gpointer pages,
                                  gsize    size);
/* Discards the contents: returns the memory to the system, but keeps the addresses. */
void     rlx_os_pages_drop       (gpointer pages,
                                  gsize    size);
/* Announces that all of it is about to be written. Only Linux is told. */
void     rlx_os_pages_populate   (gpointer pages,
                                  gsize    size);
/* Where two threads divide that between them. */
gsize    rlx_os_pages_find_middle (gsize size);

/* ---- libraries ---- */

/* Dawn finds Direct3D on Windows and Metal on macOS without our help. */
#if defined (G_OS_UNIX) && !defined (__APPLE__)
#define RLX_OS_VULKAN_LOADER "libvulkan.so.1"
#endif

/* Loads @library permanently and looks up @symbol in it. @found (out) tells whether the
 * library exists. Windows: never; LoadLibraryEx() would do it. */
gpointer rlx_os_find_symbol      (const char *library,
                                  const char *symbol,
                                  gboolean   *found);
/* Appends an identifier of the build of the library that contains @function. Appends
 * nothing except on Linux: caches then rely on version numbers. */
void     rlx_os_append_build_id  (GString *text,
                                  void   (*function) (void));

/* ---- files with random access ---- */

/* None: not available on Windows, where callers read from a stream. */
#define RLX_OS_NO_FILE (-1)

/* Opens the file at this path, which may be a link if @links is set, without blocking;
 * or duplicates an open handle. Only for regular files: folders, pipes and devices are
 * rejected. */
int      rlx_os_file_open        (const char *path,
                                  gboolean    links,
                                  GError    **error);
/* Opens a file below a folder, by a path of plain names. None of them may be a link,
 * and the file must not have other hard links. The folder's own path may contain links. */
int      rlx_os_file_open_below  (const char *folder,
                                  const char *path,
                                  GError    **error);
int      rlx_os_file_dup         (int         file,
                                  GError    **error);
gboolean rlx_os_file_get_size    (int         file,
                                  guint64    *size,
                                  GError    **error);
/* Reads at most @size bytes from @offset on; returns 0 at the end of the file, -1 with
 * an error. There is no file position, so threads can share the file. */
gssize   rlx_os_file_read        (int         file,
                                  guint64     offset,
                                  gpointer    buffer,
                                  gsize       size,
                                  GError    **error);
void     rlx_os_file_close       (int         file);

/* ---- folders that only the user can write to ---- */

/* Not implemented on Windows, where nothing is cached. It would take files opened
 * relative to a folder's handle, with checked access control lists. */
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
/* A folder in another one that is not a link, belongs to the user and is not writable
 * by others. Created on request. */
int      rlx_os_folder_open_own  (int         parent,
                                  const char *name,
                                  gboolean    make);
void     rlx_os_folder_close     (int folder);
/* Its contents. (element-type RlxOsEntry) (transfer full) */
GArray * rlx_os_folder_list      (int folder);
/* Succeeds if the file does not exist. */
gboolean rlx_os_folder_remove    (int         folder,
                                  const char *name,
                                  GError    **error);
/* The bytes of a regular file that belongs to the user, or NULL, also if it has less
 * than @min or more than @max bytes. If it is older than @stale seconds, its
 * modification time is updated. */
guint8 * rlx_os_folder_read      (int         folder,
                                  const char *name,
                                  gsize       min,
                                  gsize       max,
                                  gint64      stale,
                                  gsize      *size);
/* Atomically writes a file of @head and @body with that name. If the process dies
 * half-way, it leaves a file that begins with this: */
#define RLX_OS_TEMPORARY "tmp-"
gboolean rlx_os_folder_write     (int         folder,
                                  const char *name,
                                  GByteArray *head,
                                  const void *body,
                                  gsize       body_size);

G_END_DECLS
