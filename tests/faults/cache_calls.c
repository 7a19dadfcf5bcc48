/* SPDX-License-Identifier: Apache-2.0 */
/* cache_calls FOLDER: stores a kernel in the cache of compiled kernels, twice, and reads it. Whatever calls of the
 * system fail (tests/cli/faults.sh), the cache then has the kernel as it was stored, or none. Exit code 0; 1:
 * something else. */
#include "runtime/cuda/driver/cache.h"

#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments)
{
  static const char image[] = "an image of some bytes", key[] = "the text of a program";
  char *found = NULL;
  size_t bytes = 0;
  if (count != 2)
    return 2;
  hr_cache_write(arguments[1], key, image, sizeof image);
  hr_cache_write(arguments[1], key, image, sizeof image);
  if (!hr_cache_read(arguments[1], key, &found, &bytes))
    return 0;
  int code = bytes == sizeof image && memcmp(found, image, bytes) == 0 ? 0 : 1;
  free(found);
  return code;
}
