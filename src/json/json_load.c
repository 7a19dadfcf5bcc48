/* SPDX-License-Identifier: Apache-2.0 */
/* jansson's parser does not look whether its token buffer could grow: where memory runs out, bytes are missing from a
 * name or a number, and the rest is parsed. Functions set with json_set_alloc_funcs() would see that, but they are the
 * whole process's, in which others may use jansson, too. Therefore the text is parsed as the second value of a list
 * whose first is a string at least as long as the longest token. The buffer never shrinks: if this string arrived
 * whole, the buffer did not grow afterwards. */
#include "json/json.h"

#include <string.h>

/* The most bytes between two delimiters outside of strings: no token is longer. */
static size_t longest_token(const char *text, size_t length)
{
  static const char delimiters[] = {',', ':', '[', ']', '{', '}'};
  size_t longest = 0, begin = 0;
  bool quoted = false;
  for (size_t i = 0; i < length; i++) {
    if (quoted && text[i] == '\\') {
      i++;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && memchr(delimiters, text[i], sizeof delimiters)) {
      longest = i - begin > longest ? i - begin : longest;
      begin = i + 1;
    }
  }
  return length - begin > longest ? length - begin : longest;
}

/* The length of a string whose token is at least as long. Its closing quote is not the byte at which the buffer grows
 * (the 16th, 32nd, 64th, …): without that quote, jansson unescapes beyond the buffer's end. */
static size_t first_length(size_t longest)
{
  size_t token = longest + 2;
  return token & (token - 1) ? longest : longest + 1;
}

/* The list ["xxx…", TEXT], piece by piece. */
typedef struct list {
  struct {
    const char *bytes; /* NULL: 'x' */
    size_t length;
  } pieces[5];
  size_t piece, taken;
} list;

/* json_load_callback_t; 0 at the end. */
static size_t read_list(void *buffer, size_t size, void *context)
{
  list *l = context;
  while (l->piece < 5 && l->taken == l->pieces[l->piece].length) {
    l->piece++;
    l->taken = 0;
  }
  if (l->piece == 5)
    return 0;
  size_t left = l->pieces[l->piece].length - l->taken, count = left < size ? left : size;
  if (l->pieces[l->piece].bytes)
    memcpy(buffer, l->pieces[l->piece].bytes + l->taken, count);
  else
    memset(buffer, 'x', count);
  l->taken += count;
  return count;
}

/* Whether parsing ended because an allocation failed. Then there is no message, or a string was read to its quote but
 * not stored, which jansson takes for an invalid token. */
static bool no_memory(const json_error_t *problem, const char *text, size_t length)
{
  size_t end = problem->position > 0 ? (size_t)problem->position : 0;
  bool after_string = end > 0 && end <= length && text[end - 1] == '"';
  bool no_token =
      strncmp(problem->text, "invalid token", 13) == 0 || strncmp(problem->text, "string or '}' expected", 22) == 0;
  return problem->text[0] == '\0' || json_error_code(problem) == json_error_out_of_memory || (after_string && no_token);
}

json_t *hr_json_load(const char *text, size_t length, json_error_t *problem, bool *out_of_memory)
{
  *problem = (json_error_t){.line = 0}; /* jansson leaves the code unset where memory ran out */
  size_t first = first_length(longest_token(text, length));
  list whole = {.pieces = {{"[\"", 2}, {NULL, first}, {"\",", 2}, {text, length}, {"]", 1}}};
  json_t *read = json_load_callback(read_list, &whole, JSON_REJECT_DUPLICATES, problem);
  bool complete = read && json_string_length(json_array_get(read, 0)) == first;
  json_t *value = complete && json_array_size(read) == 2 ? json_incref(json_array_get(read, 1)) : NULL;
  json_decref(read);
  *out_of_memory = read && !complete;
  if (value || *out_of_memory || (!read && json_error_code(problem) == json_error_stack_overflow))
    return value;
  /* The text alone, for a message that fits it. If it is read now, memory ran out before. */
  *problem = (json_error_t){.line = 0};
  value = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, problem);
  *out_of_memory = value || no_memory(problem, text, length);
  json_decref(value);
  return NULL;
}
