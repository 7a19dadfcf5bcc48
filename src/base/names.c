#include "base/names.h"

#include <string.h>

const char *hr_name_of(const char *const *names, size_t count, int value)
{
  return value >= 0 && (size_t)value < count ? names[value] : "unknown";
}

hr_status hr_name_find(const char *const *names, size_t count, const char *name, int *value)
{
  for (size_t i = 0; name && i < count; i++) {
    if (strcmp(names[i], name) == 0) {
      *value = (int)i;
      return HR_OK;
    }
  }
  return HR_ERROR_NOT_FOUND;
}

void hr_copy_text(char *to, size_t size, const char *from)
{
  size_t length = strlen(from);
  if (length >= size) {
    length = size - 1;
    while (length > 0 && ((unsigned char)from[length] & 0xC0) == 0x80)
      length--;
  }
  memcpy(to, from, length);
  to[length] = '\0';
}
