# SPDX-License-Identifier: Apache-2.0
# Writes the completion for fish: awk -f rows.awk -f fish.awk TABLES
function quoted(text) {
  gsub(/\\/, "\\\\", text)
  gsub(/'/, "\\'", text)
  return "'" text "'"
}

function condition(command) { return " -n '__headroom_uses " command "'" }

function values(o,    list) {
  list = values_of(o)
  if (list == "" && names_of_option(o) != "")
    list = "(" names_of_option(o) " 2>/dev/null)"
  return list == "" ? "" : " -a " quoted(list)
}

function print_option(o, command,    line) {
  line = "complete -c headroom" condition(command) " -l " option_name[o]
  if (option_letter[o] != "")
    line = line " -s " option_letter[o]
  if (option_argument[o] != "")
    line = line (option_takes_files(o) ? " -r -F" : " -x") values(o)
  print line " -d " quoted(help_of(o, command))
}

function print_arguments(c,    list) {
  list = words_of(c)
  if (command_arguments[c] ~ /COMMAND/)
    list = list (list == "" ? "" : " ") all_commands()
  if (names_of_arguments(c) != "")
    list = list (list == "" ? "" : " ") "(" names_of_arguments(c) " 2>/dev/null)"
  if (list != "" || takes_files(c))
    print "complete -c headroom" condition(command_name[c]) (takes_files(c) ? " -F" : "") \
      (list == "" ? "" : " -a " quoted(list))
}

END {
  read_tables()
  print "# fish completion of headroom(1), made from cli/commands.inc and cli/options.inc.\n"
  print "function __headroom_uses\n    set -l words (commandline -opc)"
  print "    test (count $words) -ge 2; and contains -- $words[2] $argv\nend\n"
  print "function __headroom_has_no_command\n    test (count (commandline -opc)) -lt 2\nend\n"
  print "complete -c headroom -f"
  print "complete -c headroom -n __headroom_has_no_command -l help -s h -d 'the commands'"
  print "complete -c headroom -n __headroom_has_no_command -l version -s V -d 'the version'"
  print "complete -c headroom -n __headroom_has_no_command -l licenses -d 'the licenses of what the command contains'"
  for (c = 1; c <= command_count; c++)
    print "complete -c headroom -n __headroom_has_no_command -a " command_name[c] " -d " quoted(command_summary[c])
  for (c = 1; c <= command_count; c++) {
    print ""
    print_arguments(c)
    for (o = 1; o <= option_count; o++)
      if (has_option(c, o))
        print_option(o, command_name[c])
  }
}
