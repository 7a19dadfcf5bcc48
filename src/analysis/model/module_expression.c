/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions of module names: literals, `.`, classes, `*`, `+`, `?`, and groups of alternatives, which are
 * expanded. A set of states is carried through the name, so that no expression takes long. */
#include "analysis/model/module_expression.h"

#include "base/error.h"

#include <string.h>

#define ALTERNATIVES_MAX 64 /* after expansion */
#define TEXT_MAX 256

typedef struct expansion {
  hr_sequence_fn visit;
  void *context;
  int left; /* alternatives that may still be visited */
  bool unsupported, stop;
} expansion;

/* The end of a class that begins at `text`, or its last character if it has no end. */
static size_t class_end(const char *text)
{
  size_t at = 1;
  if (text[at] == '^')
    at++;
  if (text[at] == ']')
    at++;
  while (text[at] && text[at] != ']')
    at += text[at] == '\\' && text[at + 1] ? 2 : 1;
  return text[at] ? at : at - 1;
}

/* Characters of the atom that begins at `text`. */
static size_t atom_length(const char *text)
{
  if (text[0] == '\\' && text[1])
    return 2;
  return text[0] == '[' ? class_end(text) + 1 : 1;
}

/* The index of the first `(` or `|` outside of classes; the length if there is none. */
static size_t find_special(const char *text, const char *wanted)
{
  size_t at = 0;
  while (text[at] && !strchr(wanted, text[at]))
    at += atom_length(text + at);
  return at;
}

/* The index behind the group that begins at `text`; 0 if it does not end. */
static size_t group_end(const char *text)
{
  size_t at = 0;
  int depth = 0;
  do {
    if (!text[at])
      return 0;
    depth += (text[at] == '(') - (text[at] == ')');
    at += atom_length(text + at);
  } while (depth > 0);
  return at;
}

static void expand(expansion *e, const char *text, int depth);

/* Expands the expression with `middle` between the parts around a group. */
static void expand_with(expansion *e, const char *text, size_t before, const char *middle, size_t length, size_t after,
                        int depth)
{
  char joined[TEXT_MAX + 1];
  size_t rest = strlen(text + after);
  if (before + length + rest > TEXT_MAX) {
    e->unsupported = true;
    return;
  }
  memcpy(joined, text, before);
  memcpy(joined + before, middle, length);
  memcpy(joined + before + length, text + after, rest + 1);
  expand(e, joined, depth + 1);
}

/* The alternatives of `text`[first … last), of a group or of the whole. */
static void expand_alternatives(expansion *e, const char *text, size_t before, size_t first, size_t last, size_t after,
                                int depth)
{
  size_t start = first, at = first;
  int level = 0;
  while (at <= last && !e->unsupported && !e->stop) {
    if (at == last || (text[at] == '|' && level == 0)) {
      expand_with(e, text, before, text + start, at - start, after, depth);
      start = at + 1;
    } else {
      level += (text[at] == '(') - (text[at] == ')');
    }
    at += at == last ? 1 : atom_length(text + at);
  }
}

static void expand_group(expansion *e, const char *text, size_t at, int depth)
{
  size_t end = group_end(text + at);
  size_t first = at + 1, after = at + end;
  if (end > 0 && strncmp(text + first, "?:", 2) == 0)
    first += 2;
  if (end == 0 || text[first] == '?' || (text[after] && strchr("*+{", text[after]))) {
    e->unsupported = true;
    return;
  }
  bool optional = text[after] == '?';
  if (optional)
    expand_with(e, text, at, "", 0, after + 1, depth);
  expand_alternatives(e, text, at, first, at + end - 1, after + optional, depth);
}

static void expand(expansion *e, const char *text, int depth)
{
  if (e->unsupported || e->stop)
    return;
  if (depth > ALTERNATIVES_MAX) {
    e->unsupported = true;
    return;
  }
  size_t group = find_special(text, "("), bar = find_special(text, "|");
  if (text[bar] && bar < group) {
    expand_alternatives(e, text, 0, 0, strlen(text), strlen(text), depth);
    return;
  }
  if (text[group]) {
    expand_group(e, text, group, depth);
    return;
  }
  if (e->left-- <= 0 || text[find_special(text, "){")])
    e->unsupported = true;
  else
    e->stop = e->visit(e->context, text);
}

bool hr_expand_expression(const char *text, hr_sequence_fn visit, void *context)
{
  expansion e = {.visit = visit, .context = context, .left = ALTERNATIVES_MAX};
  expand(&e, text, 0);
  return !e.unsupported;
}

/* ---- one sequence of atoms ---- */

static bool in_class(const char *class_text, size_t length, char c)
{
  bool negated = class_text[1] == '^', found = false;
  for (size_t i = negated ? 2 : 1; i + 1 < length; i++) {
    if (class_text[i] == '\\' && class_text[i + 1] == 'd')
      found = found || (c >= '0' && c <= '9');
    if (class_text[i + 1] == '-' && i + 3 < length) {
      found = found || (c >= class_text[i] && c <= class_text[i + 2]);
      i += 2;
    } else {
      found = found || class_text[i] == c;
    }
  }
  return found != negated;
}

static bool is_word(char c)
{
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool accepts(const char *atom, size_t length, char c)
{
  if (atom[0] == '[')
    return in_class(atom, length, c);
  if (atom[0] == '\\' && atom[1] == 'd')
    return c >= '0' && c <= '9';
  if (atom[0] == '\\' && atom[1] == 'w')
    return is_word(c);
  return atom[0] == '\\' ? atom[1] == c : atom[0] == '.' || atom[0] == c;
}

typedef bool state_set[TEXT_MAX + 2]; /* indices into the sequence that may be next */

static bool is_skippable(const char *text, size_t at, size_t *next)
{
  size_t length = atom_length(text + at);
  char quantifier = text[at + length];
  *next = at + length + (quantifier && strchr("*+?", quantifier) ? 1 : 0);
  return quantifier == '*' || quantifier == '?';
}

/* Adds `at`, and what follows atoms that may be absent. */
static void add_state(state_set states, const char *text, size_t at)
{
  size_t next;
  states[at] = true;
  while (text[at] && is_skippable(text, at, &next)) {
    at = next;
    states[at] = true;
  }
}

static void step(const char *text, const state_set from, char c, state_set to)
{
  memset(to, 0, sizeof(state_set));
  for (size_t at = 0; text[at]; at++) {
    if (!from[at] || text[at] == '$' || !accepts(text + at, atom_length(text + at), c))
      continue;
    size_t next;
    is_skippable(text, at, &next);
    add_state(to, text, next);
    char quantifier = text[at + atom_length(text + at)];
    if (quantifier == '*' || quantifier == '+')
      add_state(to, text, at);
  }
}

/* Whether the sequence may end here; `$` only at the end of the name. */
static bool has_ended(const char *text, const state_set states, bool at_end)
{
  size_t length = strlen(text);
  return states[length] || (at_end && length > 0 && text[length - 1] == '$' && states[length - 1]);
}

bool hr_sequence_matches(const char *sequence, const char *name, hr_ending ending)
{
  state_set states = {false}, next;
  const char *text = sequence + (sequence[0] == '^');
  add_state(states, text, 0);
  for (size_t i = 0;; i++) {
    bool may_end = ending == HR_ENDS_ANYWHERE || !name[i] || name[i] == '.';
    if (may_end && has_ended(text, states, !name[i]))
      return true;
    if (!name[i])
      return false;
    step(text, states, name[i], next);
    memcpy(states, next, sizeof states);
  }
}
