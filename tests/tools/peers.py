# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that do the same work, from the root that `./dev peers` makes."""
import os

# The project, its results and the user's files have the same paths as here.
ENTER = '''peers=$RLX_PEERS_ROOT
for folder in /proc /dev /sys /tmp "$@"; do
  [ "$folder" != -- ] || break
  mkdir -p "$peers$folder" && mount --rbind "$folder" "$peers$folder" || exit 1
done
while [ "$1" != -- ]; do shift; done
shift
exec chroot "$peers" "$@"'''
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def command(*arguments, folders=()):
    """The command that runs a program of the root with these arguments and access to the project and the folders; None if there
    is no root."""
    if not os.path.isdir(os.environ.get('RLX_PEERS_ROOT', '')):
        return None
    user = [] if os.geteuid() == 0 else ['--user', '--map-root-user']
    visible = sorted({PROJECT, *map(os.path.abspath, folders)})
    return ['unshare', *user, '--mount', 'sh', '-c', ENTER, 'sh', *visible, '--', *arguments]
