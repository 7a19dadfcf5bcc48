/* SPDX-License-Identifier: Apache-2.0 */
/* Linked to the tests under the memory sanitizer: says what a function of a library that is built without it has
 * set. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <sanitizer/msan_interface.h>
#include <utf8proc.h>

utf8proc_ssize_t utf8proc_iterate(const utf8proc_uint8_t *text, utf8proc_ssize_t length, utf8proc_int32_t *character)
{
  utf8proc_ssize_t (*real)(const utf8proc_uint8_t *, utf8proc_ssize_t, utf8proc_int32_t *);
  *(void **)&real = dlsym(RTLD_NEXT, "utf8proc_iterate");
  utf8proc_ssize_t used = real(text, length, character);
  __msan_unpoison(character, sizeof *character);
  return used;
}
