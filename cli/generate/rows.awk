# SPDX-License-Identifier: Apache-2.0
# Reads the tables of the command from groups.h, commands.inc, options.inc, synonyms.inc, examples.inc and
# headroom/status.h, for the scripts that write the completions and the manual page. POSIX awk.
#
#   command_count, command_name[c], command_arguments[c], command_summary[c], has_option(c, o)
#   group_count, group_name[g], group_heading[g]
#   option_count, option_name[o], option_letter[o] ("" if none), option_argument[o] ("" for a flag), option_help[o]
#   synonym_count, synonym_name[s], synonym_option[s] (an o), synonym_users[s], has_synonym(c, s)
#   example_count, example_command[e] (a name), example_text[e], example_line[e]
#   statuses: the names of HR_STATUS_LIST

{ sub(/^[ \t]*\/\*.*\*\/[ \t]*$/, "") }
/^#define/ && !/HR_STATUS_LIST|CLI_GROUP_LIST/ { next }
{ text = text " " $0 }

# The next argument of a macro call from text[at]: strings side by side are joined, "a | b" is kept. Sets at behind the
# comma, or to 0 at the closing parenthesis.
function next_argument(    value, c, depth) {
  value = ""
  depth = 0
  while (at <= length(text)) {
    c = substr(text, at++, 1)
    if (c == "\"") {
      while ((c = substr(text, at++, 1)) != "\"") {
        if (c == "\\")
          c = substr(text, at++, 1)
        value = value c
      }
    } else if (c == "," && depth == 0) {
      return value
    } else if (c == ")" && depth == 0) {
      at = 0
      return value
    } else if (c !~ /[ \t]/) {
      value = value c
    }
  }
}

# All calls of a macro: arguments[call, index], both from 1; returns how many calls.
function read_calls(macro, arguments,    start, position, calls, i) {
  calls = 0
  start = 1
  while ((position = index(substr(text, start), macro "(")) > 0) {
    at = start + position + length(macro)
    calls++
    for (i = 1; at > 0; i++) {
      start = at
      arguments[calls, i] = next_argument()
    }
  }
  return calls
}

function read_tables(    rows, i, c) {
  group_count = read_calls("ROW", rows)
  statuses = ""
  for (i = 1; i <= group_count; i++) {
    if (rows[i, 1] ~ /^GROUP_/) {
      group_name[++groups_kept] = rows[i, 1]
      group_heading[groups_kept] = substr(rows[i, 3], 1, length(rows[i, 3]) - 1)
    } else if (rows[i, 1] ~ /^HR_/) {
      statuses = statuses (statuses == "" ? "" : " ") rows[i, 2]
    }
  }
  group_count = groups_kept
  command_count = read_calls("CLI_COMMAND", rows)
  for (i = 1; i <= command_count; i++) {
    command_name[i] = rows[i, 2]
    command_arguments[i] = rows[i, 3]
    command_groups[i] = "|" rows[i, 4] "|"
    command_summary[i] = rows[i, 5]
    is_command[rows[i, 2]] = 1
  }
  option_count = read_calls("CLI_OPTION", rows)
  for (i = 1; i <= option_count; i++) {
    option_groups[i] = "|" rows[i, 1] "|"
    option_name[i] = rows[i, 3]
    option_of_member[rows[i, 2]] = i
    c = rows[i, 4]
    option_letter[i] = c == "0" ? "" : substr(c, 2, 1)
    option_argument[i] = rows[i, 8] == "NULL" ? "" : rows[i, 8]
    option_help[i] = rows[i, 9]
  }
  synonym_count = read_calls("CLI_SYNONYM", rows)
  for (i = 1; i <= synonym_count; i++) {
    synonym_name[i] = rows[i, 1]
    synonym_option[i] = option_of_member[rows[i, 2]]
    synonym_users[i] = rows[i, 3]
  }
  example_count = read_calls("CLI_EXAMPLE", rows)
  for (i = 1; i <= example_count; i++) {
    example_command[i] = rows[i, 1]
    example_text[i] = rows[i, 2]
    example_line[i] = rows[i, 3]
  }
}

function in_group(groups, g) { return index(groups, "|" group_name[g] "|") > 0 }

# The first group of the command that has the option; 0: none.
function group_of(c, o,    g) {
  for (g = 1; g <= group_count; g++)
    if (in_group(command_groups[c], g) && in_group(option_groups[o], g))
      return g
  return 0
}

# Not if it is of GROUP_COMMON and another option of the command has its name (option_table.c has the same rule).
function has_option(c, o,    g, other) {
  g = group_of(c, o)
  if (g == 0 || group_name[g] != "GROUP_COMMON")
    return g > 0
  for (other = 1; other <= option_count; other++)
    if (other != o && option_name[other] == option_name[o] && group_name[group_of(c, other)] != "GROUP_COMMON" \
        && group_of(c, other) > 0)
      return 0
  return 1
}

# A command has the synonyms of its options, unless it has an option of that name.
function has_synonym(c, s,    o) {
  for (o = 1; o <= option_count; o++)
    if (option_name[o] == synonym_name[s] && has_option(c, o))
      return 0
  return has_option(c, synonym_option[s])
}

# The name before ": " of a part of a help text, if it is a command or "else"; "" otherwise.
function part_of(part,    name) {
  name = part
  if (!sub(/: .*/, "", name) || !(name in is_command || name == "else"))
    return ""
  return name
}

# What `headroom COMMAND --help` says of an option (options.c has the same rule).
function help_of(o, command,    parts, count, i, own, name, result) {
  count = split(option_help[o], parts, "; ")
  own = "else"
  for (i = 1; i <= count; i++)
    if (part_of(parts[i]) == command)
      own = command
  result = ""
  for (i = 1; i <= count; i++) {
    name = part_of(parts[i])
    if (name != "" && name != own)
      continue
    result = result (result == "" ? "" : "; ") (name == "" ? parts[i] : substr(parts[i], length(name) + 3))
  }
  return result
}

# The lower-case words of a command's arguments: "list show export …".
function words_of(c,    rest, words) {
  rest = command_arguments[c]
  words = ""
  while (match(rest, /[A-Za-z]+/)) {
    if (substr(rest, RSTART, RLENGTH) ~ /^[a-z]+$/)
      words = words (words == "" ? "" : " ") substr(rest, RSTART, RLENGTH)
    rest = substr(rest, RSTART + RLENGTH)
  }
  return words
}

# The command that lists the names which an argument may be, "" if there is none.
function names_of_arguments(c) {
  if (command_arguments[c] ~ /^MODEL/)
    return "headroom describe --list"
  return command_arguments[c] ~ /NAME/ ? "headroom " command_name[c] " --list" : ""
}
function names_of_option(o) {
  if (option_name[o] == "device" || option_name[o] == "kernel")
    return "headroom " option_name[o] "s --list"
  return option_name[o] == "sweep" ? "headroom sweep --list" : ""
}
function takes_files(c) { return command_arguments[c] ~ /MODEL|FILE/ }
function option_takes_files(o) { return option_argument[o] == "FILE" || option_name[o] == "device" }

# The values of an option that the table lists, with spaces between; "" for a free value.
function values_of(o,    values) {
  if (option_name[o] == "status")
    return statuses
  values = option_argument[o]
  if (values !~ /^[a-z0-9_]+(\|[a-z0-9_]+)+$/)
    return ""
  gsub(/\|/, " ", values)
  return values
}

function all_commands(    c, names) {
  for (c = 1; c <= command_count; c++)
    names = names (c == 1 ? "" : " ") command_name[c]
  return names
}
