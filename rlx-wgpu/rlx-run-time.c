/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The version of the library that a program runs with, which may be a later one than that of the headers it was
 * compiled with.
 */
#include "config.h"

#include "rlx-run-time.h"

/**
 * rlx_get_major_version:
 *
 * Gets the major version of the library that the program runs with: the 1 in 1.2.3.
 *
 * Returns: the number
 *
 * Since: 1.0
 */
guint
rlx_get_major_version (void)
{
  return RLX_MAJOR_VERSION;
}

/**
 * rlx_get_minor_version:
 *
 * Gets the minor version of the library that the program runs with: the 2 in 1.2.3.
 *
 * Returns: the number
 *
 * Since: 1.0
 */
guint
rlx_get_minor_version (void)
{
  return RLX_MINOR_VERSION;
}

/**
 * rlx_get_micro_version:
 *
 * Gets the micro version of the library that the program runs with: the 3 in 1.2.3.
 *
 * Returns: the number
 *
 * Since: 1.0
 */
guint
rlx_get_micro_version (void)
{
  return RLX_MICRO_VERSION;
}

/**
 * rlx_check_version:
 * @major: the required major version
 * @minor: the required minor version
 * @micro: the required micro version
 *
 * Checks whether the library that the program runs with has the given version or a later one with the same
 * major version. [func@Rlx.CHECK_VERSION] checks the headers.
 *
 * Returns: whether it has
 *
 * Since: 1.0
 */
gboolean
rlx_check_version (guint major,
                   guint minor,
                   guint micro)
{
  const guint own_minor = RLX_MINOR_VERSION, own_micro = RLX_MICRO_VERSION;

  return major == RLX_MAJOR_VERSION && (minor < own_minor || (minor == own_minor && micro <= own_micro));
}
