# SPDX-License-Identifier: Apache-2.0
# Writes the completion for bash: awk -f rows.awk -f bash.awk TABLES
function options_line(c,    o, line) {
  for (o = 1; o <= option_count; o++)
    if (has_option(c, o))
      line = line (line == "" ? "" : " ") "--" option_name[o]
  return line
}

# "--tensor-parallel | -t | --tp": as case patterns.
function all_names(o,    s, names) {
  names = "--" option_name[o] (option_letter[o] == "" ? "" : " | -" option_letter[o])
  for (s = 1; s <= synonym_count; s++)
    if (synonym_option[s] == o && !(synonym_name[s] in is_option))
      names = names " | --" synonym_name[s]
  return names
}

function print_options(    c) {
  print "_headroom_options() {\n  case $1 in"
  for (c = 1; c <= command_count; c++)
    print "    " command_name[c] ") echo \"" options_line(c) "\" ;;"
  print "  esac\n}\n"
}

# One option of a name stands for all.
function print_values(    o, seen) {
  print "# The values of an option, one a line or with spaces between; nothing for a free value."
  print "_headroom_values() {\n  case $1 in"
  for (o = 1; o <= option_count; o++) {
    if (option_name[o] in seen)
      continue
    seen[option_name[o]] = 1
    if (values_of(o) != "")
      print "    " all_names(o) ") echo \"" values_of(o) "\" ;;"
    else if (names_of_option(o) != "")
      print "    " all_names(o) ") " names_of_option(o) " 2>/dev/null ;;"
  }
  print "  esac\n}\n"
}

function print_takers(title, files,    o, names, seen) {
  names = ""
  for (o = 1; o <= option_count; o++) {
    if (option_argument[o] == "" || (files && !option_takes_files(o)) || all_names(o) in seen)
      continue
    seen[all_names(o)] = 1
    names = names (names == "" ? "" : " | ") all_names(o)
  }
  print title "() {\n  case $1 in\n    " names ") return 0 ;;\n  esac\n  return 1\n}\n"
}

function print_arguments(    c, line) {
  print "# What may stand behind the options of a command, by their number from 1."
  print "_headroom_arguments() {\n  case $1 in"
  for (c = 1; c <= command_count; c++) {
    line = ""
    if (words_of(c) != "" || command_arguments[c] ~ /COMMAND/)
      line = (command_arguments[c] ~ /^[a-z]/ ? "[[ $2 -gt 1 ]] || " : "") "echo \"" words_of(c) \
        (command_arguments[c] ~ /COMMAND/ ? " " all_commands() : "") "\""
    if (names_of_arguments(c) != "")
      line = line (line == "" ? "" : "; ") names_of_arguments(c) " 2>/dev/null"
    if (line != "")
      print "    " command_name[c] ") " line " ;;"
  }
  print "  esac\n}\n"
}

function print_file_commands(    c, names) {
  for (c = 1; c <= command_count; c++)
    if (takes_files(c))
      names = names (names == "" ? "" : " | ") command_name[c]
  print "_headroom_reads_files() {\n  case $1 in\n    " names ") return 0 ;;\n  esac\n  return 1\n}\n"
}

END {
  read_tables()
  for (o = 1; o <= option_count; o++)
    is_option[option_name[o]] = 1
  print "# bash completion of headroom(1), made from cli/commands.inc and cli/options.inc.\n"
  print_options()
  print_values()
  print_takers("_headroom_takes_value", 0)
  print_takers("_headroom_takes_file", 1)
  print_arguments()
  print_file_commands()
  print "_headroom_commands=\"" all_commands() "\"\n"
  while ((getline line < body) > 0)
    print line
}
