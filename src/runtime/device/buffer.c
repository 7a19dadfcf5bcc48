/* SPDX-License-Identifier: Apache-2.0 */
/* Memory on a device. Values are generated on the host, so that every device gets the same ones. */
#include "runtime/device/buffer.h"

#include "base/error.h"
#include "runtime/device/device.h"
#include "shape/number.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)1 << 16) /* fits the L2 cache between generating and copying */
#define NAN_BYTE 0xFF                 /* all bits set is a NaN in every dtype */

struct hr_buffer {
  hr_device *device;
  size_t bytes;
  void *data;
  bool part; /* of another one, which frees the memory */
};

/* For a buffer that becomes a workspace. */
static hr_status clear_counters(const hr_buffer *buffer, hr_error *error)
{
  const hr_backend *backend = buffer->device->backend;
  size_t bytes = buffer->bytes < backend->counter_bytes ? buffer->bytes : backend->counter_bytes;
  return bytes > 0 ? backend->set_bytes(buffer->device, buffer->data, 0, bytes, error) : HR_OK;
}

hr_status hr_buffer_create(hr_device *device, size_t bytes, hr_buffer **buffer, hr_error *error)
{
  HR_NEED(error, device, buffer);
  if (bytes < 1)
    return hr_fail(error, HR_ERROR_INVALID, "a buffer has at least 1 byte");
  hr_buffer *created = malloc(sizeof *created);
  if (!created)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a buffer's description");
  *created = (hr_buffer){.device = device, .bytes = bytes};
  hr_status status = device->backend->allocate(device, bytes, &created->data, error);
  if (created->data)
    device->buffer_bytes += bytes;
  if (status == HR_OK)
    status = clear_counters(created, error);
  if (status != HR_OK) {
    hr_buffer_free(created);
    return status;
  }
  *buffer = created;
  return HR_OK;
}

hr_status hr_buffer_part(const hr_buffer *whole, size_t offset, size_t bytes, hr_buffer **part, hr_error *error)
{
  if (offset > whole->bytes || bytes > whole->bytes - offset)
    return hr_fail(error, HR_ERROR_INVALID, "%zu bytes from %zu on do not fit a buffer of %zu", bytes, offset,
                   whole->bytes);
  hr_buffer *created = malloc(sizeof *created);
  if (!created)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a buffer's description");
  *created = (hr_buffer){.device = whole->device, .bytes = bytes, .data = (char *)whole->data + offset, .part = true};
  *part = created;
  return HR_OK;
}

void hr_buffer_free(hr_buffer *buffer)
{
  if (!buffer)
    return;
  if (!buffer->part && buffer->data)
    buffer->device->buffer_bytes -= buffer->bytes;
  if (!buffer->part)
    buffer->device->backend->release(buffer->device, buffer->data, buffer->bytes);
  free(buffer);
}

void *hr_buffer_data(const hr_buffer *buffer)
{
  return buffer->data;
}

static hr_status check_range(const hr_buffer *buffer, size_t bytes, hr_error *error)
{
  if (bytes > buffer->bytes)
    return hr_fail(error, HR_ERROR_INVALID, "%zu bytes do not fit a buffer of %zu", bytes, buffer->bytes);
  return HR_OK;
}

hr_status hr_buffer_write(hr_buffer *buffer, const void *from, size_t bytes, hr_error *error)
{
  HR_NEED(error, buffer, from);
  HR_TRY(check_range(buffer, bytes, error));
  return buffer->device->backend->write(buffer->device, buffer->data, from, bytes, error);
}

hr_status hr_buffer_read(const hr_buffer *buffer, void *to, size_t bytes, hr_error *error)
{
  HR_NEED(error, buffer, to);
  HR_TRY(check_range(buffer, bytes, error));
  return buffer->device->backend->read(buffer->device, to, buffer->data, bytes, error);
}

static hr_status check_dtype(hr_dtype dtype, hr_error *error)
{
  if (hr_dtype_bytes(dtype) == 0)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %d is not a number format", (int)dtype);
  return HR_OK;
}

size_t hr_buffer_bytes(const hr_buffer *buffer)
{
  return buffer->bytes;
}

hr_status hr_buffer_fill_uniform(hr_buffer *buffer, hr_dtype dtype, uint64_t seed, hr_error *error)
{
  HR_NEED(error, buffer);
  HR_TRY(check_dtype(dtype, error));
  size_t element = hr_dtype_bytes(dtype), total = buffer->bytes / element;
  const hr_backend *backend = buffer->device->backend;
  if (backend->fill_uniform) {
    hr_status filled = backend->fill_uniform(
        buffer->device, buffer->data,
        &(hr_uniform){.dtype = dtype, .bound = 1, .seed = seed, .rows = 1, .columns = total, .pitch = total}, error);
    if (filled != HR_ERROR_UNSUPPORTED)
      return filled;
  }
  char *chunk = malloc(CHUNK_BYTES);
  if (!chunk)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory to generate values");
  hr_status status = HR_OK;
  for (size_t first = 0; first < total && status == HR_OK; first += CHUNK_BYTES / element) {
    size_t count = total - first < CHUNK_BYTES / element ? total - first : CHUNK_BYTES / element;
    hr_numbers_uniform(dtype, seed, first, count, chunk);
    status = buffer->device->backend->write(buffer->device, (char *)buffer->data + first * element, chunk,
                                            count * element, error);
  }
  free(chunk);
  return status;
}

hr_status hr_buffer_poison(hr_buffer *buffer, hr_dtype dtype, hr_error *error)
{
  HR_NEED(error, buffer);
  HR_TRY(check_dtype(dtype, error));
  const hr_backend *backend = buffer->device->backend;
  if (backend->set_bytes)
    return backend->set_bytes(buffer->device, buffer->data, NAN_BYTE, buffer->bytes, error);
  char *chunk = malloc(CHUNK_BYTES);
  if (!chunk)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory to generate values");
  memset(chunk, NAN_BYTE, CHUNK_BYTES);
  hr_status status = HR_OK;
  for (size_t first = 0; first < buffer->bytes && status == HR_OK; first += CHUNK_BYTES) {
    size_t bytes = buffer->bytes - first < CHUNK_BYTES ? buffer->bytes - first : CHUNK_BYTES;
    status = backend->write(buffer->device, (char *)buffer->data + first, chunk, bytes, error);
  }
  free(chunk);
  return status;
}
