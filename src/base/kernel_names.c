/* SPDX-License-Identifier: Apache-2.0 */
#include "base/kernel_names.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
  const char *former, *current;
} renamed[] = {
#define HR_KERNEL_RENAMED(former, current) {former, current},
#include "base/kernel_names.inc"
#undef HR_KERNEL_RENAMED
};

/* Replaces the family `from` at the beginning of a name by `by`; false where the name is of another family. */
static bool replace_family(const char *name, const char *from, const char *by, char to[HR_KERNEL_NAME_SIZE])
{
  size_t length = strlen(from);
  if (strncmp(name, from, length) != 0 || (name[length] != '\0' && name[length] != '_'))
    return false;
  char rest[HR_KERNEL_NAME_SIZE];
  snprintf(rest, sizeof rest, "%s", name + length);
  snprintf(to, HR_KERNEL_NAME_SIZE, "%s%s", by, rest);
  return true;
}

static void keep(const char *name, char to[HR_KERNEL_NAME_SIZE])
{
  if (to != name)
    snprintf(to, HR_KERNEL_NAME_SIZE, "%s", name);
}

void hr_kernel_current_name(const char *name, char to[HR_KERNEL_NAME_SIZE])
{
  for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
    if (replace_family(name, renamed[i].former, renamed[i].current, to))
      return;
  }
  keep(name, to);
}

void hr_kernel_former_name(const char *name, char to[HR_KERNEL_NAME_SIZE])
{
  for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
    if (replace_family(name, renamed[i].current, renamed[i].former, to))
      return;
  }
  keep(name, to);
}
