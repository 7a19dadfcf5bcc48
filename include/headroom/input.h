/* SPDX-License-Identifier: Apache-2.0 */
/* Text that functions read: JSON, CSV. Thread safety: hr_input is a value. */
#ifndef HEADROOM_INPUT_H
#define HEADROOM_INPUT_H

#include <stddef.h>

/** `length` bytes of text, in which a 0 is an error, and what messages call it ("config.json"). */
typedef struct hr_input {
  const char *text;
  size_t length;
  const char *name;
} hr_input;

#endif
