/* SPDX-License-Identifier: Apache-2.0 */
#include "base/struct_size.h"

#include "base/error.h"

#include <stdbool.h>
#include <string.h>

/* Structs that have grown since they were released, and how large they were in their first release. Others have one
 * size. */
static const struct {
  const char *name;
  size_t bytes;
} grown[] = {
    {"hr_advise_options", 24},      /* 0.2.0; then nodes */
    {"hr_attention", 224},          /* 0.2.0; then alignment */
    {"hr_attention_arguments", 96}, /* 0.2.0; then batch, q_rows, kv_rows */
    {"hr_decode", 288},             /* 0.2.0; then alignment */
    {"hr_decode_arguments", 96},    /* 0.2.0; then batch */
    {"hr_gemm", 96},                /* 0.2.0; then alignment */
    {"hr_rowwise", 72},             /* 0.2.0; then alignment */
};

static size_t first_size(const char *name, size_t size)
{
  for (size_t i = 0; i < sizeof grown / sizeof *grown; i++) {
    if (strcmp(grown[i].name, name) == 0)
      return grown[i].bytes;
  }
  return size;
}

/* A struct that was never initialised may have any other size. */
static bool is_size(const char *name, size_t found, size_t size)
{
  return found >= first_size(name, size) && found <= 2 * size && found % sizeof(size_t) == 0;
}

static bool is_zero(const char *bytes, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (bytes[i] != 0)
      return false;
  }
  return true;
}

void hr_init_struct(void *to, size_t size, const void *value, size_t known)
{
  memset(to, 0, size);
  memcpy(to, value, known < size ? known : size);
  *(size_t *)to = size;
}

hr_status hr_check_struct(const void *from, size_t size, const char *name, hr_error *error)
{
  const size_t found = *(const size_t *)from;
  if (found == size)
    return HR_OK;
  if (!is_size(name, found, size))
    return hr_fail(error, HR_ERROR_INVALID, "%s: struct_size is %zu, expected %zu: initialise it with %s_default()",
                   name, found, size, name);
  if (found > size && !is_zero((const char *)from + size, found - size))
    return hr_fail(error, HR_ERROR_INVALID,
                   "%s: struct_size is %zu, and what follows the %zu bytes that this version of the library knows is "
                   "not 0",
                   name, found, size);
  return HR_OK;
}

const void *hr_take_struct(void *to, size_t size, const void *from, const char *name, hr_error *error)
{
  const size_t found = *(const size_t *)from;
  if (found == size)
    return from;
  if (hr_check_struct(from, size, name, error) != HR_OK)
    return NULL;
  memset(to, 0, size);
  memcpy(to, from, found < size ? found : size);
  *(size_t *)to = size;
  return to;
}

hr_status hr_give_struct(void *to, const void *from, size_t size, const char *name, hr_error *error)
{
  const size_t found = *(const size_t *)to;
  HR_TRY(hr_check_struct(to, size, name, error));
  memcpy(to, from, found < size ? found : size);
  *(size_t *)to = found;
  return HR_OK;
}
