# Adds the words of $2, and with $3 also files, that begin with $1.
_headroom_reply() {
  mapfile -t COMPREPLY < <(compgen -W "$2" -- "$1"; [[ -z $3 ]] || compgen -f -- "$1")
  [[ -z $3 ]] || compopt -o filenames 2>/dev/null
}

_headroom() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} files=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _headroom_reply "$word" "$_headroom_commands --help --version --licenses" ""
    return
  fi
  if [[ $word == "=" ]]; then
    word=""
  elif [[ $before == "=" ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if _headroom_takes_value "$before"; then
    if _headroom_takes_file "$before"; then files=yes; fi
    _headroom_reply "$word" "$(_headroom_values "$before")" "$files"
  elif [[ $word == -* ]]; then
    _headroom_reply "$word" "$(_headroom_options "$command")" ""
  else
    if _headroom_reads_files "$command"; then files=yes; fi
    _headroom_reply "$word" "$(_headroom_arguments "$command" $((COMP_CWORD - 1)))" "$files"
  fi
}

complete -F _headroom headroom
