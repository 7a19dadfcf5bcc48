/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a large JSON object member by member, in memory for one member at a time.
 *
 * A tree of the whole takes up to 40 times the text's size, which a hostile file would choose. The text is cut at the
 * commas of the object here, and jansson parses each member. */
#ifndef HR_JSON_MEMBERS_H
#define HR_JSON_MEMBERS_H

#include <headroom/status.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HR_JSON_MEMBER_BYTES_MAX ((size_t)1 << 20)
#define HR_JSON_MEMBER_DEPTH_MAX 2 /* lists and objects within each other that a member's value may have */

/** Receives a member; `name` and `value` are valid during the call. `inner`: a member of the object `opened`. A failure
 *  ends the reading. */
typedef hr_status (*hr_json_member_fn)(void *context, bool inner, const char *name, const json_t *value,
                                       hr_error *error);

typedef struct hr_json_members {
  const char *input;  /* in messages */
  const char *opened; /* a member whose value is an object that is cut into members, too; NULL: none */
  hr_json_member_fn take;
  void *context;

  /* The state. All zero at the beginning. */
  char *member; /* '{' and the member's text up to here */
  size_t length, capacity;
  uint64_t position, member_position; /* bytes of the text read, and before the member */
  int depth, base;                    /* of objects and lists; of the object that is being cut, 0 before it */
  bool in_string, escaped;
  bool comma, closed; /* what came last outside of a member: a comma, or the end of `opened` */
  bool opened_before, ended;
} hr_json_members;

/** Reads the next bytes of the text. HR_ERROR_UNREADABLE, with the position, if they cannot belong to a JSON object, or
 *  a member is larger or nested deeper than the limits above; HR_ERROR_OUT_OF_MEMORY; errors of `take`. Members
 *  before a mistake have been taken. Does not see that a name is given twice in the object. */
hr_status hr_json_members_feed(hr_json_members *members, const char *text, size_t length, hr_error *error);

/** HR_ERROR_UNREADABLE unless the text was a whole object. */
hr_status hr_json_members_end(const hr_json_members *members, hr_error *error);

/** Frees what was allocated, also after a failure. */
void hr_json_members_free(hr_json_members *members);

#endif
