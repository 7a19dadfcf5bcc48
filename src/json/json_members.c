/* SPDX-License-Identifier: Apache-2.0 */
#include "json/json_members.h"

#include "base/error.h"
#include "json/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static hr_status fail_at(const hr_json_members *members, uint64_t position, const char *what, hr_error *error)
{
  return hr_fail(error, HR_ERROR_UNREADABLE, "%s: byte %" PRIu64 " of the JSON: %s", members->input, position, what);
}

static hr_status no_memory(const hr_json_members *members, hr_error *error)
{
  return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading", members->input);
}

static hr_status append(hr_json_members *members, char c, hr_error *error)
{
  if (members->length + 2 > members->capacity) { /* one for the closing bracket */
    size_t capacity = members->capacity ? 2 * members->capacity : 256;
    char *larger = capacity <= HR_JSON_MEMBER_BYTES_MAX ? realloc(members->member, capacity) : NULL;
    if (capacity > HR_JSON_MEMBER_BYTES_MAX)
      return fail_at(members, members->member_position, "a member of more than 1 MiB", error);
    if (!larger)
      return no_memory(members, error);
    members->member = larger;
    members->capacity = capacity;
  }
  if (members->length == 0) {
    members->member_position = members->position;
    members->member[members->length++] = '{';
  }
  members->member[members->length++] = c;
  return HR_OK;
}

/* Parses and passes on the text of a member. */
static hr_status take_member(hr_json_members *members, hr_error *error)
{
  json_error_t problem;
  bool out_of_memory;
  members->member[members->length] = '}';
  json_t *object = hr_json_load(members->member, members->length + 1, &problem, &out_of_memory);
  if (out_of_memory)
    return no_memory(members, error);
  if (!object) {
    uint64_t inside = problem.position > 1 ? (uint64_t)problem.position - 1 : 0;
    return fail_at(members, members->member_position + inside, problem.text, error);
  }
  hr_status status = HR_OK;
  const char *name;
  json_t *value;
  json_object_foreach(object, name, value) status =
      members->take(members->context, members->base == 2, name, value, error);
  json_decref(object);
  members->length = 0;
  return status;
}

/* Takes the member before a comma or before the end of an object. Only an empty object has none. */
static hr_status end_member(hr_json_members *members, bool last, hr_error *error)
{
  bool missing = members->length == 0 && !members->closed && (!last || members->comma);
  if (missing)
    return fail_at(members, members->position, "expected a member", error);
  members->closed = false;
  members->comma = !last;
  return members->length > 0 ? take_member(members, error) : HR_OK;
}

/* Whether the member so far is the name of `opened` and its colon. */
static bool is_opened(const hr_json_members *members)
{
  if (!members->opened || members->depth != 1 || members->base != 1 || members->length == 0)
    return false;
  const char *text = members->member + 1;
  size_t left = members->length - 1, name = strlen(members->opened);
  if (left < name + 3 || text[0] != '"' || memcmp(text + 1, members->opened, name) != 0 || text[name + 1] != '"')
    return false;
  bool colon = false;
  for (size_t i = name + 2; i < left; i++) {
    if (!strchr(" \t\r\n", text[i]) && (text[i] != ':' || colon))
      return false;
    colon = colon || text[i] == ':';
  }
  return colon;
}

static hr_status open_bracket(hr_json_members *members, char c, hr_error *error)
{
  if (members->depth == 0) {
    if (c != '{')
      return fail_at(members, members->position, "expected an object", error);
    members->depth = members->base = 1;
    return HR_OK;
  }
  if (c == '{' && is_opened(members)) {
    if (members->opened_before)
      return hr_fail(error, HR_ERROR_UNREADABLE, "%s: %s: is given twice", members->input, members->opened);
    members->opened_before = true;
    members->depth = members->base = 2;
    members->length = 0;
    members->comma = false;
    return HR_OK;
  }
  if (members->depth == members->base + HR_JSON_MEMBER_DEPTH_MAX)
    return fail_at(members, members->position, "nested too deep", error);
  members->depth++;
  return append(members, c, error);
}

static hr_status close_bracket(hr_json_members *members, char c, hr_error *error)
{
  if (members->depth > members->base) {
    members->depth--;
    return append(members, c, error);
  }
  if (c != '}' || members->depth == 0)
    return fail_at(members, members->position, "unexpected closing bracket", error);
  HR_TRY(end_member(members, true, error));
  members->depth = --members->base;
  members->closed = members->base == 1;
  members->comma = false;
  members->ended = members->base == 0;
  return HR_OK;
}

static hr_status feed_string(hr_json_members *members, char c, hr_error *error)
{
  if (members->escaped)
    members->escaped = false;
  else if (c == '\\')
    members->escaped = true;
  else if (c == '"')
    members->in_string = false;
  return append(members, c, error);
}

static hr_status feed_byte(hr_json_members *members, char c, hr_error *error)
{
  if (members->in_string)
    return feed_string(members, c, error);
  if (members->length == 0 && (c == ' ' || c == '\t' || c == '\r' || c == '\n'))
    return HR_OK;
  if (members->ended)
    return fail_at(members, members->position, "the object has ended", error);
  if (c == ',' && members->depth > 0 && members->depth == members->base)
    return end_member(members, false, error);
  if (c == '}' || c == ']')
    return close_bracket(members, c, error);
  if (members->closed)
    return fail_at(members, members->position, "expected ',' or '}'", error);
  if (c == '{' || c == '[')
    return open_bracket(members, c, error);
  if (members->depth == 0)
    return fail_at(members, members->position, "expected an object", error);
  members->in_string = c == '"';
  return append(members, c, error);
}

hr_status hr_json_members_feed(hr_json_members *members, const char *text, size_t length, hr_error *error)
{
  for (size_t i = 0; i < length; i++) {
    HR_TRY(feed_byte(members, text[i], error));
    members->position++;
  }
  return HR_OK;
}

hr_status hr_json_members_end(const hr_json_members *members, hr_error *error)
{
  return members->ended ? HR_OK : fail_at(members, members->position, "it ends before the object does", error);
}

void hr_json_members_free(hr_json_members *members)
{
  free(members->member);
  members->member = NULL;
  members->length = members->capacity = 0;
}
