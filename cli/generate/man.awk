# SPDX-License-Identifier: Apache-2.0
# Fills @VERSION@, @SYNOPSIS@, @COMMANDS@, @OPTIONS@, @SYNONYMS@ and @EXAMPLES@ of the manual page's template:
#   awk -v template=headroom.1.in -v version=0.1.0 -f rows.awk -f man.awk TABLES
function roff(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  return text ~ /^[.']/ ? "\\&" text : text
}

function bold(text) { return "\\fB" roff(text) "\\fR" }
function italic(text) { return "\\fI" roff(text) "\\fR" }

# Upper-case words of an argument are to be replaced, the others are typed as they are. A line may end behind a |.
function argument(text,    result) {
  result = ""
  while (match(text, /[A-Za-z0-9_]+/)) {
    result = result roff(substr(text, 1, RSTART - 1))
    result = result (substr(text, RSTART, RLENGTH) ~ /[a-z]/ ? bold(substr(text, RSTART, RLENGTH)) \
      : italic(substr(text, RSTART, RLENGTH)))
    text = substr(text, RSTART + RLENGTH)
  }
  result = result roff(text)
  gsub(/\|/, "|\\:", result)
  return result
}

function sentence(text) { return roff(toupper(substr(text, 1, 1)) substr(text, 2)) "." }

function print_synopsis(    c) {
  for (c = 1; c <= command_count; c++) {
    print bold("headroom " command_name[c]) " [" italic("OPTION") "...]" \
      (command_arguments[c] == "" ? "" : " " argument(command_arguments[c]))
    print ".br"
  }
  print bold("headroom --version")
  print ".br\n" bold("headroom --licenses")
}

function print_commands(    c) {
  for (c = 1; c <= command_count; c++)
    print ".TP\n.B " roff(command_name[c]) "\n" sentence(command_summary[c])
}

# The parts of a help text: those of every command, then those of one or several with the same words.
function print_help(o,    parts, count, i, j, name, text, names, done) {
  count = split(option_help[o], parts, "; ")
  text = ""
  for (i = 1; i <= count; i++)
    if (part_of(parts[i]) == "")
      text = text (text == "" ? "" : "; ") parts[i]
  if (text != "")
    print sentence(text)
  for (i = 1; i <= count; i++) {
    name = part_of(parts[i])
    if (name == "" || i in done)
      continue
    text = substr(parts[i], length(name) + 3)
    names = name == "else" ? "other commands" : bold(name)
    for (j = i + 1; j <= count; j++) {
      if (part_of(parts[j]) != "" && substr(parts[j], length(part_of(parts[j])) + 3) == text) {
        names = names ", " bold(part_of(parts[j]))
        done[j] = 1
      }
    }
    print "In " names ": " roff(text) "."
  }
}

function has_group(c, g) { return in_group(command_groups[c], g) }

# The commands that have an option, but not by this group.
function print_others(o, g,    c, names, count) {
  count = 0
  for (c = 1; c <= command_count; c++) {
    if (!has_option(c, o) || has_group(c, g))
      continue
    names = names (count++ ? ", " : "") bold(command_name[c])
  }
  if (count > 0)
    print "Also an option of " names "."
}

function print_heading(g,    c, names, count) {
  count = 0
  for (c = 1; c <= command_count; c++)
    if (has_group(c, g))
      names = names (count++ ? ", " : "") command_name[c]
  print ".SS " group_heading[g] " (" (count == command_count ? "every command" : names) ")"
}

# An option is under the first of its groups.
function print_options(    g, o, headed, done) {
  for (g = 1; g <= group_count; g++) {
    headed = 0
    for (o = 1; o <= option_count; o++) {
      if (o in done || !in_group(option_groups[o], g))
        continue
      done[o] = 1
      if (!headed++)
        print_heading(g)
      print ".TP"
      print (option_letter[o] == "" ? "" : bold("-" option_letter[o]) ", ") bold("--" option_name[o]) \
        (option_argument[o] == "" ? "" : " " argument(option_argument[o]))
      print_help(o)
      print_others(o, g)
    }
  }
}

# One paragraph an option; synonyms of options of the same name are together.
function print_synonyms(    s, other, names, seen, count) {
  for (s = 1; s <= synonym_count; s++) {
    if (option_name[synonym_option[s]] in seen)
      continue
    seen[option_name[synonym_option[s]]] = 1
    split("", done)
    names = ""
    for (other = s; other <= synonym_count; other++) {
      if (option_name[synonym_option[other]] != option_name[synonym_option[s]] || synonym_name[other] in done)
        continue
      done[synonym_name[other]] = 1
      names = names (names == "" ? "" : ",\n") bold("--" synonym_name[other]) " (" roff(synonym_users[other]) ")"
    }
    print ".TP\n" bold("--" option_name[synonym_option[s]]) "\n" names
  }
}

function print_examples(    e) {
  for (e = 1; e <= example_count; e++) {
    if (e > 1)
      print ".PP"
    print sentence(example_text[e]) "\n.PP\n.RS\n" roff(example_line[e]) "\n.RE"
  }
}

END {
  read_tables()
  while ((getline line < template) > 0) {
    if (line == "@SYNOPSIS@")
      print_synopsis()
    else if (line == "@COMMANDS@")
      print_commands()
    else if (line == "@OPTIONS@")
      print_options()
    else if (line == "@SYNONYMS@")
      print_synonyms()
    else if (line == "@EXAMPLES@")
      print_examples()
    else {
      gsub(/@VERSION@/, version, line)
      print line
    }
  }
}
