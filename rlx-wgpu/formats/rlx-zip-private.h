/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The numbers of zip archives, for who reads and who writes them.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The signature of each part. */
#define RLX_ZIP_MEMBER 0x04034b50u     /* a member, with its bytes */
#define RLX_ZIP_ENTRY 0x02014b50u      /* a member in the directory */
#define RLX_ZIP_END 0x06054b50u        /* the end of the directory */
#define RLX_ZIP_END64 0x06064b50u      /* the same for large ones, before that */
#define RLX_ZIP_LOCATOR 0x07064b50u    /* the locator of the latter */

/* The size of each without its variable parts. */
#define RLX_ZIP_MEMBER_SIZE 30
#define RLX_ZIP_ENTRY_SIZE 46
#define RLX_ZIP_END_SIZE 22
#define RLX_ZIP_END64_SIZE 56
#define RLX_ZIP_LOCATOR_SIZE 20

/* Marks a number that does not fit and is in an extra field. */
#define RLX_ZIP_LARGE16 0xffffu
#define RLX_ZIP_LARGE32 0xffffffffu
#define RLX_ZIP_EXTRA64 1

#define RLX_ZIP_STORED 0
#define RLX_ZIP_DEFLATED 8

#define RLX_ZIP_ENCRYPTED 1            /* flags */
#define RLX_ZIP_UTF8 0x800

G_END_DECLS
