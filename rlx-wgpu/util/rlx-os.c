/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "util/rlx-os-private.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef G_OS_UNIX
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#endif
#ifdef __linux__
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#endif

/* ---- the process ---- */

gboolean
rlx_os_is_privileged (void)
{
#if defined (__linux__)
  return getauxval (AT_SECURE) != 0;
#elif defined (G_OS_UNIX)
  return getuid () != geteuid () || getgid () != getegid ();
#else
  return FALSE;
#endif
}

/* Not g_thread_yield() if there is an alternative: it sleeps for longer than a notification
 * takes. */
void
rlx_os_yield (void)
{
#ifdef G_OS_UNIX
  sched_yield ();
#else
  g_thread_yield ();
#endif
}

guint64
rlx_os_get_memory_size (void)
{
  guint64 size = G_MAXUINT64;

#ifdef G_OS_UNIX
  long pages = sysconf (_SC_PHYS_PAGES);
  long page_size = sysconf (_SC_PAGESIZE);
  struct rlimit address_space;

  if (pages > 0 && page_size > 0)
    size = (guint64) pages * (guint64) page_size;
  if (getrlimit (RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY)
    size = MIN (size, (guint64) address_space.rlim_cur);
#endif

  return size;
}

void
rlx_os_watch_fork (void (*func) (void))
{
#ifdef G_OS_UNIX
  pthread_atfork (NULL, NULL, func);
#endif
}

static void (*exit_func) (const int *status);

#ifdef HAVE_ON_EXIT
static void
on_exit_with_status (int   status,
                     void *data G_GNUC_UNUSED)
{
  exit_func (&status);
}
#else
static void
on_exit_without_status (void)
{
  exit_func (NULL);
}
#endif

void
rlx_os_watch_exit (void (*func) (const int *status))
{
  exit_func = func;
#ifdef HAVE_ON_EXIT
  on_exit (on_exit_with_status, NULL);
#else
  atexit (on_exit_without_status);
#endif
}

void
rlx_os_exit (int status)
{
  fflush (NULL);
  _Exit (status);
}

/* ---- memory ---- */

/* The size of a single request. */
#define POPULATE_PIECE ((gsize) 4 << 20)
/* The size of large pages on most processors. */
#define LARGE_PAGE ((gsize) 2 << 20)

gpointer
rlx_os_pages_new (gsize size)
{
#ifdef G_OS_UNIX
  void *pages = mmap (NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  return pages != MAP_FAILED ? pages : NULL;
#else
  return NULL;
#endif
}

void
rlx_os_pages_free (gpointer pages,
                   gsize    size)
{
#ifdef G_OS_UNIX
  munmap (pages, size);
#endif
}

void
rlx_os_pages_drop (gpointer pages,
                   gsize    size)
{
#ifdef G_OS_UNIX
  madvise (pages, size, MADV_DONTNEED);
#endif
}

gsize
rlx_os_pages_find_middle (gsize size)
{
  return MIN ((size / 2 + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE, size);
}

/* Most of the cost of new memory is that of its pages. Large ones are faster, and
 * requesting many at once is faster than faulting in each when it is first touched. Not all
 * at once, though: in the meantime, other threads that need memory have to wait. */
void
rlx_os_pages_populate (gpointer pages,
                       gsize    size)
{
#ifdef MADV_POPULATE_WRITE
#ifdef MADV_HUGEPAGE
  if (size >= LARGE_PAGE)
    madvise (pages, size, MADV_HUGEPAGE);
#endif
  for (gsize at = 0; at < size; at += POPULATE_PIECE)
    if (madvise ((guint8 *) pages + at, MIN (size - at, POPULATE_PIECE), MADV_POPULATE_WRITE) != 0)
      return;
#endif
}

/* ---- libraries ---- */

gpointer
rlx_os_find_symbol (const char *library,
                    const char *symbol,
                    gboolean   *found)
{
#ifdef G_OS_UNIX
  void *handle = dlopen (library, RTLD_NOW | RTLD_LOCAL);

  *found = handle != NULL;
  return handle != NULL ? dlsym (handle, symbol) : NULL;
#else
  *found = FALSE;
  return NULL;
#endif
}

#ifdef __linux__
typedef struct
{
  ElfW(Addr) address;
  GString *out;
} BuildId;

static int
find_build_id (struct dl_phdr_info *info,
               size_t               size G_GNUC_UNUSED,
               void                *data)
{
  BuildId *build_id = data;
  gboolean here = FALSE;

  for (int i = 0; i < info->dlpi_phnum; i++)
    {
      const ElfW(Phdr) *header = &info->dlpi_phdr[i];
      ElfW(Addr) start = info->dlpi_addr + header->p_vaddr;

      if (header->p_type == PT_LOAD &&
          build_id->address >= start && build_id->address - start < header->p_memsz)
        here = TRUE;
    }

  if (!here)
    return 0;

  for (int i = 0; i < info->dlpi_phnum; i++)
    {
      const ElfW(Phdr) *header = &info->dlpi_phdr[i];
      const guint8 *note = (const guint8 *) (info->dlpi_addr + header->p_vaddr);
      const guint8 *end = note + header->p_memsz;

      if (header->p_type != PT_NOTE)
        continue;

      while ((gsize) (end - note) > sizeof (ElfW(Nhdr)))
        {
          const ElfW(Nhdr) *entry = (const ElfW(Nhdr) *) note;
          gsize name = ((gsize) entry->n_namesz + 3) & ~(gsize) 3;
          gsize body = ((gsize) entry->n_descsz + 3) & ~(gsize) 3;
          gsize left = (gsize) (end - note) - sizeof *entry;

          if (name > left || body > left - name)
            break;
          if (entry->n_type == NT_GNU_BUILD_ID)
            for (guint b = 0; b < entry->n_descsz; b++)
              g_string_append_printf (build_id->out, "%02x", note[sizeof *entry + name + b]);
          note += sizeof *entry + name + body;
        }
    }

  return 1;
}
#endif

void
rlx_os_append_build_id (GString *text,
                        void   (*function) (void))
{
#ifdef __linux__
  BuildId build_id = { (ElfW(Addr)) function, text };

  dl_iterate_phdr (find_build_id, &build_id);
#endif
}

/* ---- files that are read in places ---- */

#ifdef G_OS_UNIX

static void
set_errno_error (GError    **error,
                 const char *what)
{
  int code = errno;

  g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code), "%s: %s", what, g_strerror (code));
}

/* Takes ownership of @file. */
static int
check_file (int      file,
            GError **error)
{
  guint64 size;

  if (file < 0)
    set_errno_error (error, "It cannot be opened");
  else if (!rlx_os_file_get_size (file, &size, error))
    {
      close (file);
      file = -1;
    }
  return file;
}

int
rlx_os_file_open (const char *path,
                  gboolean    links,
                  GError    **error)
{
  /* Without O_NONBLOCK, opening a pipe waits for a writer. */
  return check_file (open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (links ? 0 : O_NOFOLLOW)), error);
}

int
rlx_os_file_open_below (const char *folder,
                        const char *path,
                        GError    **error)
{
  int file = open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat info;

  while (file >= 0 && path != NULL)
    {
      const char *slash = strchr (path, '/');
      g_autofree char *name = slash != NULL ? g_strndup (path, (gsize) (slash - path)) : g_strdup (path);
      int inner, problem;

      inner = g_str_equal (name, "..") || name[0] == '\0'
                ? (errno = EINVAL, -1)
                : openat (file, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | (slash != NULL ? O_DIRECTORY : 0));
      problem = errno;
      close (file);
      errno = problem;
      file = inner;
      path = slash != NULL ? slash + 1 : NULL;
    }
  /* The system's message for a link is about loops. */
  if (file < 0 && (errno == ELOOP || errno == EMLINK))
    {
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_PERMISSION_DENIED, "It is a link, which may point anywhere");
      return RLX_OS_NO_FILE;
    }
  file = check_file (file, error);
  if (file >= 0 && fstat (file, &info) == 0 && info.st_nlink != 1)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_PERMISSION_DENIED, "It has %lu hard links, so it may be a file from elsewhere", (gulong) info.st_nlink);
      close (file);
      return RLX_OS_NO_FILE;
    }
  return file;
}

int
rlx_os_file_dup (int      file,
                 GError **error)
{
  return check_file (fcntl (file, F_DUPFD_CLOEXEC, 0), error);
}

gboolean
rlx_os_file_get_size (int       file,
                      guint64  *size,
                      GError  **error)
{
  struct stat info;

  if (fstat (file, &info) != 0)
    set_errno_error (error, "Its size cannot be determined");
  else if (S_ISDIR (info.st_mode))
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_IS_DIRECTORY, "It is a directory");
  else if (!S_ISREG (info.st_mode))
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_REGULAR_FILE, "It is not a regular file");
  else
    {
      *size = (guint64) info.st_size;
      return TRUE;
    }
  return FALSE;
}

gssize
rlx_os_file_read (int      file,
                  guint64  offset,
                  gpointer buffer,
                  gsize    size,
                  GError **error)
{
  gssize n;

  do
    n = pread (file, buffer, size, (off_t) offset);
  while (n < 0 && errno == EINTR);
  if (n < 0)
    set_errno_error (error, "It cannot be read");
  return n;
}

void
rlx_os_file_close (int file)
{
  close (file);
}

#else

static gboolean
refuse_file (GError **error)
{
  g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED, "File descriptors are not supported on this system");
  return FALSE;
}

int
rlx_os_file_open (const char *path G_GNUC_UNUSED,
                  gboolean    links G_GNUC_UNUSED,
                  GError    **error)
{
  refuse_file (error);
  return RLX_OS_NO_FILE;
}

int
rlx_os_file_open_below (const char *folder G_GNUC_UNUSED,
                        const char *path G_GNUC_UNUSED,
                        GError    **error)
{
  refuse_file (error);
  return RLX_OS_NO_FILE;
}

int
rlx_os_file_dup (int      file G_GNUC_UNUSED,
                 GError **error)
{
  refuse_file (error);
  return RLX_OS_NO_FILE;
}

gboolean
rlx_os_file_get_size (int       file G_GNUC_UNUSED,
                      guint64  *size G_GNUC_UNUSED,
                      GError  **error)
{
  return refuse_file (error);
}

gssize
rlx_os_file_read (int      file G_GNUC_UNUSED,
                  guint64  offset G_GNUC_UNUSED,
                  gpointer buffer G_GNUC_UNUSED,
                  gsize    size G_GNUC_UNUSED,
                  GError **error)
{
  refuse_file (error);
  return -1;
}

void
rlx_os_file_close (int file G_GNUC_UNUSED)
{
}

#endif

/* ---- folders ---- */

static void
entry_clear (gpointer data)
{
  RlxOsEntry *entry = data;

  g_free (entry->name);
}

#ifdef G_OS_UNIX

int
rlx_os_folder_open (const char *path)
{
  return open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static gboolean
is_ours (int fd)
{
  struct stat status;

  return fstat (fd, &status) == 0 &&
         S_ISDIR (status.st_mode) &&
         status.st_uid == geteuid () &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

int
rlx_os_folder_open_own (int         parent,
                        const char *name,
                        gboolean    make)
{
  int fd;

  if (make && mkdirat (parent, name, 0700) != 0 && errno != EEXIST)
    return RLX_OS_NO_FOLDER;

  fd = openat (parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return RLX_OS_NO_FOLDER;
  if (is_ours (fd))
    return fd;

  close (fd);
  return RLX_OS_NO_FOLDER;
}

void
rlx_os_folder_close (int folder)
{
  close (folder);
}

GArray *
rlx_os_folder_list (int folder)
{
  GArray *entries = g_array_new (FALSE, FALSE, sizeof (RlxOsEntry));
  /* The stream takes ownership of the descriptor. */
  int fd = openat (folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = fd >= 0 ? fdopendir (fd) : NULL;
  struct dirent *item;

  g_array_set_clear_func (entries, entry_clear);
  if (stream == NULL)
    {
      if (fd >= 0)
        close (fd);
      return entries;
    }

  while ((item = readdir (stream)) != NULL)
    {
      struct stat status;
      RlxOsEntry entry;

      if (g_str_equal (item->d_name, ".") || g_str_equal (item->d_name, "..") ||
          fstatat (folder, item->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        continue;

      entry.name = g_strdup (item->d_name);
      entry.is_folder = S_ISDIR (status.st_mode);
      entry.size = (guint64) MAX (status.st_size, 0);
      entry.modified = status.st_mtime;
      g_array_append_val (entries, entry);
    }
  closedir (stream);

  return entries;
}

gboolean
rlx_os_folder_remove (int         folder,
                      const char *name,
                      GError    **error)
{
  int problem = unlinkat (folder, name, 0) == 0 ? 0 : errno;

  if (problem == 0 || problem == ENOENT)
    return TRUE;
  g_set_error_literal (error, G_IO_ERROR, g_io_error_from_errno (problem), g_strerror (problem));
  return FALSE;
}

static gboolean
read_all (int     fd,
          guint8 *data,
          gsize   size)
{
  while (size > 0)
    {
      ssize_t n = read (fd, data, size);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return FALSE;
      data += n;
      size -= (gsize) n;
    }

  return TRUE;
}

static gboolean
write_all (int           fd,
           const guint8 *data,
           gsize         size)
{
  while (size > 0)
    {
      ssize_t n = write (fd, data, size);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return FALSE;
      data += n;
      size -= (gsize) n;
    }

  return TRUE;
}

guint8 *
rlx_os_folder_read (int         folder,
                    const char *name,
                    gsize       min,
                    gsize       max,
                    gint64      stale,
                    gsize      *size)
{
  struct stat status;
  guint8 *data = NULL;
  int fd;

  /* O_NONBLOCK in case somebody has left a FIFO there. */
  fd = openat (folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return NULL;

  if (fstat (fd, &status) == 0 && S_ISREG (status.st_mode) &&
      status.st_uid == geteuid () &&
      status.st_size >= 0 && (guint64) status.st_size >= min && (guint64) status.st_size <= max)
    {
      *size = (gsize) status.st_size;
      data = g_try_malloc (*size);
      if (data != NULL && !read_all (fd, data, *size))
        g_clear_pointer (&data, g_free);
    }

  if (data != NULL && g_get_real_time () / G_USEC_PER_SEC - status.st_mtime > stale)
    (void) futimens (fd, NULL);
  close (fd);

  return data;
}

gboolean
rlx_os_folder_write (int         folder,
                     const char *name,
                     GByteArray *head,
                     const void *body,
                     gsize       body_size)
{
  static atomic_uint counter;
  /* Process IDs are reused, and containers have their own. GLib's random numbers belong to
   * the program, which may seed them. */
  g_autofree char *temporary = g_strdup_printf (RLX_OS_TEMPORARY "%ld-%u-%" G_GINT64_MODIFIER "x", (long) getpid (),
                                                atomic_fetch_add (&counter, 1), g_get_real_time ());
  gboolean good;
  int fd;

  fd = openat (folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return FALSE;

  good = write_all (fd, head->data, head->len) && write_all (fd, body, body_size);
  if (close (fd) != 0)
    good = FALSE;
  if (good && renameat (folder, temporary, folder, name) == 0)
    return TRUE;

  unlinkat (folder, temporary, 0);
  return FALSE;
}

#else /* no owners to check */

int
rlx_os_folder_open (const char *path)
{
  return RLX_OS_NO_FOLDER;
}

int
rlx_os_folder_open_own (int         parent,
                        const char *name,
                        gboolean    make)
{
  return RLX_OS_NO_FOLDER;
}

void
rlx_os_folder_close (int folder)
{
}

GArray *
rlx_os_folder_list (int folder)
{
  GArray *entries = g_array_new (FALSE, FALSE, sizeof (RlxOsEntry));

  g_array_set_clear_func (entries, entry_clear);
  return entries;
}

gboolean
rlx_os_folder_remove (int         folder,
                      const char *name,
                      GError    **error)
{
  return TRUE;
}

guint8 *
rlx_os_folder_read (int         folder,
                    const char *name,
                    gsize       min,
                    gsize       max,
                    gint64      stale,
                    gsize      *size)
{
  return NULL;
}

gboolean
rlx_os_folder_write (int         folder,
                     const char *name,
                     GByteArray *head,
                     const void *body,
                     gsize       body_size)
{
  return FALSE;
}

#endif
