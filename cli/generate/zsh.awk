# SPDX-License-Identifier: Apache-2.0
# Writes the completion for zsh: awk -f rows.awk -f zsh.awk TABLES
function quoted(text) {
  gsub(/'/, "'\\''", text)
  return "'" text "'"
}

# Within a specification of _arguments, where [ ] : \ mean something.
function escaped(text) {
  gsub(/\\/, "\\\\", text)
  gsub(/\[/, "\\[", text)
  gsub(/\]/, "\\]", text)
  gsub(/:/, "\\:", text)
  return text
}

# Within an element of _describe.
function described(text) {
  gsub(/\\/, "\\\\", text)
  gsub(/:/, "\\:", text)
  return text
}

# _headroom_values FILES COMMAND WORD...: the words, the lines that COMMAND prints, and with FILES = files also files.
function source(words, command, files) {
  return "_headroom_values " (files ? "files" : "-") " " (command == "" ? "-" : "\"" command "\"") \
    (words == "" ? "" : " " words)
}

function action(o) {
  if (values_of(o) == "" && names_of_option(o) == "" && !option_takes_files(o))
    return ":" escaped(option_argument[o]) ":"
  return ":value:{" source(values_of(o), names_of_option(o), option_takes_files(o)) "}"
}

function print_option(o, command,    rest) {
  rest = "[" escaped(help_of(o, command)) "]" (option_argument[o] == "" ? "" : action(o))
  if (option_letter[o] == "")
    print "        " quoted("--" option_name[o] rest) " \\"
  else
    print "        " quoted("(-" option_letter[o] " --" option_name[o] ")") "{-" option_letter[o] ",--" option_name[o] "}" \
      quoted(rest) " \\"
}

# "!": known with its value, not offered.
function print_synonym(s,    o) {
  o = synonym_option[s]
  print "        " quoted("!--" synonym_name[s] (option_argument[o] == "" ? "" : action(o))) " \\"
}

function print_arguments(c,    words) {
  words = words_of(c) (command_arguments[c] ~ /COMMAND/ ? " " all_commands() : "")
  if (words != "" || names_of_arguments(c) != "" || takes_files(c))
    print "        " quoted("*:argument:{" source(words, names_of_arguments(c), takes_files(c)) "}")
  else
    print "        && return"
}

END {
  read_tables()
  print "#compdef headroom"
  print "# zsh completion of headroom(1), made from cli/commands.inc and cli/options.inc.\n"
  print "_headroom_values() {"
  print "  local files=$1 command=$2"
  print "  local -a values"
  print "  shift 2"
  print "  values=($@)"
  print "  [[ $command == - ]] || values+=(${(f)\"$(eval $command 2>/dev/null)\"})"
  print "  compadd -a values"
  print "  [[ $files == - ]] || _files"
  print "}\n"
  print "_headroom() {"
  print "  local -a commands"
  print "  commands=("
  for (c = 1; c <= command_count; c++)
    print "    " quoted(command_name[c] ":" described(command_summary[c]))
  print "  )"
  print "  if (( CURRENT == 2 )); then"
  print "    _describe command commands"
  print "    return"
  print "  fi"
  print "  local command=$words[2]"
  print "  shift words"
  print "  (( CURRENT-- ))"
  print "  case $command in"
  for (c = 1; c <= command_count; c++) {
    print "    " command_name[c] ")"
    print "      _arguments \\"
    for (o = 1; o <= option_count; o++)
      if (has_option(c, o))
        print_option(o, command_name[c])
    for (s = 1; s <= synonym_count; s++)
      if (has_synonym(c, s))
        print_synonym(s)
    print_arguments(c)
    print "      ;;"
  }
  print "  esac\n}\n"
  print "_headroom \"$@\""
}
