/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a JSON object and their types, as docs/json.md has them. */
#ifndef HEADROOM_TEST_JSON_KEYS_H
#define HEADROOM_TEST_JSON_KEYS_H

#include "test.h"

#include <jansson.h>

/* A key and its type: i integer, r number, s string, b boolean, o object, a non-empty list, n null. */
typedef struct key_row {
  const char *key, *types;
} key_row;

static inline bool is_of(const json_t *value, char type)
{
  switch (type) {
  case 'i': return json_is_integer(value);
  case 'r': return json_is_number(value);
  case 's': return json_is_string(value);
  case 'b': return json_is_boolean(value);
  case 'o': return json_is_object(value);
  case 'a': return json_is_array(value) && json_array_size(value) > 0;
  case 'e': return json_is_array(value); /* may be empty */
  case 'n': return json_is_null(value);
  default: return false;
  }
}

static inline void check_keys(const json_t *object, const char *where, const key_row *rows, size_t count)
{
  if (!json_is_object(object))
    fail_msg("%s is no object", where);
  for (size_t i = 0; i < count; i++) {
    const json_t *value = json_object_get(object, rows[i].key);
    bool good = false;
    for (const char *type = rows[i].types; value && *type; type++)
      good = good || is_of(value, *type);
    if (!good)
      fail_msg("%s.%s is missing or not of type %s", where, rows[i].key, rows[i].types);
  }
  if (json_object_size(object) != count)
    fail_msg("%s has %zu keys, docs/json.md %zu", where, json_object_size(object), count);
}

#define CHECK_KEYS(object, where, rows) check_keys(object, where, rows, sizeof(rows) / sizeof *(rows))

#endif
