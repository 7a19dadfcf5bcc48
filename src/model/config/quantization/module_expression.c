/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config/quantization/module_expression.h"

#include <string.h>

/* Where a state goes on. Distances are relative, so that code can be moved. */
enum {
  ATOM,   /* reads a character */
  SPLIT,  /* the next instruction, and the one at the distance */
  JUMP,   /* the one at the distance */
  BEGIN,  /* the next, at the beginning of the name */
  END,    /* the next, at the end of the name */
  ACCEPT, /* the expression has matched */
};

/* ---- compiling ---- */

typedef struct compiler {
  hr_module_expression *expression;
  const char *text; /* what is left */
  bool unsupported;
} compiler;

static int emit(compiler *c, hr_module_instruction instruction)
{
  hr_module_expression *e = c->expression;
  if (e->count == HR_EXPRESSION_SIZE) {
    c->unsupported = true;
    return e->count - 1;
  }
  e->code[e->count] = instruction;
  return e->count++;
}

/* Puts a split before the code from `start` on, whose other branch begins `behind` instructions behind that code. */
static void insert_split(compiler *c, int start, int behind)
{
  hr_module_expression *e = c->expression;
  int moved = e->count - start;
  emit(c, (hr_module_instruction){.kind = ACCEPT});
  if (c->unsupported)
    return;
  memmove(e->code + start + 1, e->code + start, (size_t)moved * sizeof *e->code);
  e->code[start] = (hr_module_instruction){.kind = SPLIT, .at = (int16_t)(moved + 1 + behind)};
}

/* Characters of the class that begins at `text`; 0 if it does not end. */
static size_t class_length(const char *text)
{
  size_t at = text[1] == '^' ? 2 : 1;
  at += text[at] == ']';
  while (text[at] && text[at] != ']')
    at += text[at] == '\\' && text[at + 1] ? 2 : 1;
  return text[at] ? at + 1 : 0;
}

static bool is_word(char c)
{
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Letters and digits behind a backslash have meanings, of which `d` and `w` are supported. */
static bool is_escape(char c)
{
  return c && (!is_word(c) || c == 'd' || c == 'w' || c == '_');
}

/* Characters of the atom that begins at `text`; 0 if it is not supported. */
static size_t atom_length(const char *text)
{
  if (text[0] == '\\')
    return is_escape(text[1]) ? 2 : 0;
  if (text[0] == '[')
    return class_length(text);
  return strchr("*+?{}", text[0]) ? 0 : 1;
}

static void compile_atom(compiler *c)
{
  size_t length = atom_length(c->text);
  uint8_t kind = c->text[0] == '^' ? BEGIN : c->text[0] == '$' ? END : ATOM;
  if (length == 0)
    c->unsupported = true;
  emit(c, (hr_module_instruction){kind, (uint16_t)length, (int16_t)(c->text - c->expression->text)});
  c->text += length;
}

static void compile_alternatives(compiler *c);

static void compile_group(compiler *c)
{
  c->text += strncmp(c->text, "(?:", 3) == 0 ? 3 : 1;
  compile_alternatives(c);
  if (*c->text == ')')
    c->text++;
  else
    c->unsupported = true;
}

/* Repeats the code from `start` on as the quantifier says. A lazy one (`*?`) matches the same names. */
static void quantify(compiler *c, int start)
{
  char quantifier = *c->text;
  if (!quantifier || !strchr("*+?", quantifier))
    return;
  if (quantifier != '+')
    insert_split(c, start, quantifier == '*' ? 1 : 0);
  if (quantifier != '?')
    emit(c, (hr_module_instruction){.kind = quantifier == '*' ? JUMP : SPLIT,
                                    .at = (int16_t)(start - c->expression->count)});
  c->text += c->text[1] == '?' ? 2 : 1;
}

static void compile_sequence(compiler *c)
{
  while (*c->text && !strchr("|)", *c->text) && !c->unsupported) {
    int start = c->expression->count;
    if (*c->text == '(')
      compile_group(c);
    else
      compile_atom(c);
    quantify(c, start);
  }
}

static void compile_alternatives(compiler *c)
{
  int start = c->expression->count;
  compile_sequence(c);
  while (*c->text == '|' && !c->unsupported) {
    c->text++;
    insert_split(c, start, 1);
    int jump = emit(c, (hr_module_instruction){.kind = JUMP});
    compile_sequence(c);
    c->expression->code[jump].at = (int16_t)(c->expression->count - jump);
  }
}

bool hr_compile_expression(const char *text, hr_ending ending, hr_module_expression *expression)
{
  *expression = (hr_module_expression){.text = text, .ending = ending};
  compiler c = {.expression = expression, .text = text, .unsupported = strlen(text) > HR_EXPRESSION_LENGTH};
  if (!c.unsupported)
    compile_alternatives(&c);
  emit(&c, (hr_module_instruction){.kind = ACCEPT});
  return !c.unsupported && !*c.text;
}

/* ---- atoms ---- */

static bool escape_accepts(char escaped, char c)
{
  return escaped == 'd' ? c >= '0' && c <= '9' : escaped == 'w' ? is_word(c) : c == escaped;
}

/* `text` begins with '[' and has `length` characters with the ']'. */
static bool class_accepts(const char *text, size_t length, char c)
{
  bool negated = text[1] == '^', found = false;
  for (size_t i = negated ? 2 : 1; i + 1 < length; i++) {
    if (text[i] == '\\') {
      found = found || escape_accepts(text[++i], c);
    } else if (text[i + 1] == '-' && i + 3 < length) {
      found = found || (c >= text[i] && c <= text[i + 2]);
      i += 2;
    } else {
      found = found || text[i] == c;
    }
  }
  return found != negated;
}

static bool atom_accepts(const char *atom, size_t length, char c)
{
  if (atom[0] == '[')
    return class_accepts(atom, length, c);
  return atom[0] == '\\' ? escape_accepts(atom[1], c) : atom[0] == '.' || atom[0] == c;
}

/* ---- matching ---- */

typedef bool seen_states[HR_EXPRESSION_SIZE];

/* Adds the instruction at `at`, or those that it leads to without a character. */
static void add_state(hr_matching *m, seen_states seen, int at, bool at_end)
{
  const hr_module_instruction *code = &m->expression->code[at];
  ++*m->work;
  if (seen[at])
    return;
  seen[at] = true;
  bool passes = code->kind == SPLIT || (code->kind == BEGIN && !m->fed) || (code->kind == END && at_end);
  if (!at_end && (code->kind == ATOM || code->kind == END))
    m->states[m->count++] = (uint16_t)at;
  if (passes)
    add_state(m, seen, at + 1, at_end);
  if (code->kind == SPLIT || code->kind == JUMP)
    add_state(m, seen, at + code->at, at_end);
  m->accepts = m->accepts || code->kind == ACCEPT;
}

void hr_matching_begin(hr_matching *matching, const hr_module_expression *expression, int64_t *work)
{
  seen_states seen = {false};
  *matching = (hr_matching){.expression = expression, .work = work};
  add_state(matching, seen, 0, false);
  matching->found = matching->accepts && expression->ending == HR_ENDS_ANYWHERE;
}

/* The states behind the character `c`. */
static void step(const hr_matching *from, char c, hr_matching *to)
{
  const hr_module_expression *e = from->expression;
  seen_states seen = {false};
  to->fed = true;
  to->accepts = false;
  to->count = 0;
  for (int i = 0; i < from->count; i++) {
    const hr_module_instruction *code = &e->code[from->states[i]];
    *from->work += code->length;
    if (code->kind == ATOM && atom_accepts(e->text + code->at, code->length, c))
      add_state(to, seen, from->states[i] + 1, false);
  }
  to->found = to->accepts && e->ending == HR_ENDS_ANYWHERE;
}

void hr_matching_copy(hr_matching *to, const hr_matching *from)
{
  memcpy(to, from, offsetof(hr_matching, states) + (size_t)from->count * sizeof *from->states);
}

bool hr_matching_equals(const hr_matching *a, const hr_matching *b)
{
  return a->found == b->found && a->accepts == b->accepts && a->count == b->count &&
         memcmp(a->states, b->states, (size_t)a->count * sizeof *a->states) == 0;
}

void hr_matching_read(hr_matching *matching, const char *text)
{
  hr_matching before;
  for (; *text && !matching->found; text++) {
    if (matching->accepts && *text == '.')
      matching->found = true;
    if (matching->found || matching->count == 0)
      break;
    hr_matching_copy(&before, matching);
    step(&before, *text, matching);
  }
  matching->accepts = matching->accepts && !*text; /* not where no state has read on */
}

/* Whether the name matches where it ends. */
static bool matches_at_end(hr_matching *m)
{
  seen_states seen = {false};
  for (int i = 0, count = m->count; i < count && !m->accepts; i++) {
    if (m->expression->code[m->states[i]].kind == END)
      add_state(m, seen, m->states[i], true);
  }
  return m->accepts;
}

bool hr_matching_ends(const hr_matching *matching, const char *rest)
{
  hr_matching m;
  hr_matching_copy(&m, matching);
  hr_matching_read(&m, rest);
  return m.found || matches_at_end(&m);
}
