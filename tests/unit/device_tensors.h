/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on a device beside their copies on the host, for tests of what a backend runs. */
#ifndef HR_TESTS_DEVICE_TENSORS_H
#define HR_TESTS_DEVICE_TENSORS_H

#include "test.h"

#include "runtime/device/device.h"
#include "shape/number.h"

#include <headroom/buffer.h>
#include <stdlib.h>
#include <string.h>

static hr_device *device;

/* A tensor on the device and on the host. */
typedef struct tensor {
  hr_buffer *buffer;
  void *host;
  size_t bytes;
} tensor;

static inline tensor tensor_of(size_t bytes)
{
  tensor t = {.host = malloc(bytes), .bytes = bytes};
  hr_error error;
  assert_non_null(t.host);
  memset(t.host, 0xFF, bytes); /* NaN */
  assert_ok(hr_buffer_create(device, bytes, &t.buffer, &error), error);
  assert_ok(hr_buffer_write(t.buffer, t.host, bytes, &error), error);
  return t;
}

static inline tensor random_tensor(hr_dtype dtype, uint64_t seed, int64_t count)
{
  hr_error error;
  tensor t = tensor_of((size_t)count * hr_dtype_bytes(dtype));
  hr_numbers_uniform(dtype, seed, 0, (size_t)count, t.host);
  assert_ok(hr_buffer_write(t.buffer, t.host, t.bytes, &error), error);
  return t;
}

static inline void fetch(const tensor *t)
{
  hr_error error;
  assert_ok(hr_buffer_read(t->buffer, t->host, t->bytes, &error), error);
}

static inline void tensor_free(tensor *t)
{
  hr_buffer_free(t->buffer);
  free(t->host);
}

static inline int open_device(void **state)
{
  (void)state;
  return hr_device_open(test_asks_for("gpu") ? "cuda:0" : "cpu", 0, &device, NULL) == HR_OK ? 0 : -1;
}

static inline int close_device(void **state)
{
  (void)state;
  hr_device_close(device);
  return 0;
}

#endif
