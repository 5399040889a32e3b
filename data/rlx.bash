# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Completion for rlx in bash. It asks rlx itself what there is, so that it need not change with it.

_rlx ()
{
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words= files=

  COMPREPLY=()
  if [[ $prev == --precision || $prev == = && ${COMP_WORDS[COMP_CWORD - 2]} == --precision ]]; then
    [[ $cur != = ]] || cur=
    words='full reduced integer'
  elif [[ $prev == --target || $prev == = && ${COMP_WORDS[COMP_CWORD - 2]} == --target ]]; then
    [[ $cur != = ]] || cur=
    words=$("$1" --complete targets 2>/dev/null)
  # "=" is a word of its own: -i NAME=FILE
  elif [[ $prev == = || $cur == = ]]; then
    [[ $cur != = ]] || cur=
    files='*.npy'
  elif [[ $COMP_CWORD == 1 ]]; then
    words="$("$1" --complete 2>/dev/null) --help --version"
  elif [[ $cur == -* ]]; then
    words=$("$1" "$command" --help 2>/dev/null | grep -oE '^  (-[a-z], )?--[a-z-]+' | grep -oE -e '--[a-z-]+')
  elif [[ $command == ops || $prev == --only ]]; then
    words=$("$1" --complete ops 2>/dev/null)
  elif [[ $command =~ ^(run|bench|compile|export|profile|dot|info|convert|embed|spectrum)$ && ! $prev =~ ^(-[binop]|--bins|--input|--parameter|--output|--runs)$ ]]; then
    files='*'
  fi

  if [[ $files ]]; then
    # Folders too, and names with spaces.
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -X "!$files" -- "$cur"; [[ $files == '*' ]] || compgen -d -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
  fi
}

complete -F _rlx rlx
