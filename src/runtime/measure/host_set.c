/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/measure/checks.h"

#include "base/error.h"
#include "runtime/device/host.h"

#include <headroom/buffer.h>

#include <sys/mman.h>

#define LARGE ((size_t)1 << 26) /* bytes from which the host's free memory is checked first */

static void *reserve(size_t bytes)
{
  void *image = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return image == MAP_FAILED ? NULL : image;
}

hr_status hr_host_set_begin(const hr_runner *s, hr_host_set *host, hr_error *error)
{
  for (size_t i = 0; i < s->operands.count; i++) {
    host->operands[i] = hr_buffer_data(s->buffers[i]);
    if (!s->device->backend->own_memory)
      continue;
    host->operands[i] = host->images[i] = reserve(s->operands.bytes[i]);
    if (!host->images[i])
      return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "the host has no address space to check %.2f GiB",
                     (double)s->operands.bytes[i] * 0x1p-30);
  }
  return HR_OK;
}

void hr_host_set_end(const hr_runner *s, hr_host_set *host)
{
  for (size_t i = 0; i < s->operands.count; i++) {
    if (host->images[i])
      munmap(host->images[i], s->operands.bytes[i]);
  }
}

hr_status hr_host_set_fetch(const hr_runner *s, hr_host_set *host, size_t i, hr_operand_part wanted, hr_error *error)
{
  const hr_operand_part *here = &host->here[i];
  if (!host->images[i] || (here->offset == wanted.offset && here->bytes == wanted.bytes))
    return HR_OK;
  if (wanted.bytes > LARGE && wanted.bytes > hr_host_memory_available() / 16 * 15)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "the host has no %.2f GiB to check an operand",
                   (double)wanted.bytes * 0x1p-30);
  HR_TRY(s->device->backend->read(s->device, (char *)host->images[i] + wanted.offset,
                                  (const char *)hr_buffer_data(s->buffers[i]) + wanted.offset, wanted.bytes, error));
  host->here[i] = wanted;
  return HR_OK;
}

hr_status hr_host_set_fetch_row(const hr_runner *s, hr_host_set *host, const hr_sample *of, int64_t start,
                                hr_error *error)
{
  const size_t output = s->operands.inputs + of->output;
  const size_t element = hr_dtype_bytes(hr_operand_dtype(&s->problem, &s->operands, output));
  const hr_operand_part result = {(size_t)start * element, (size_t)of->length * element};
  HR_TRY(hr_host_set_fetch(s, host, output, result, error));
  for (size_t i = 0; i < s->operands.inputs; i++)
    HR_TRY(hr_host_set_fetch(s, host, i, (hr_operand_part){0, s->operands.bytes[i]}, error));
  return HR_OK;
}
