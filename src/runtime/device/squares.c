/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/squares.h"

#include "base/checked.h"
#include "runtime/device/device.h"
#include "shape/number.h"

#include <string.h>

#define CHUNK 1024 /* elements */

static double squares_of(const hr_squares_arguments *x)
{
  double numbers[CHUNK], sum = 0;
  for (int64_t at = 0; at < x->count; at += CHUNK) {
    const size_t count = (size_t)hr_min64(CHUNK, x->count - at);
    hr_numbers_load(x->dtype, x->x, (size_t)at, count, numbers);
    for (size_t i = 0; i < count; i++)
      sum += numbers[i] * numbers[i];
  }
  return sum;
}

hr_status hr_device_add_squares(hr_device *device, const hr_squares_arguments *x, void *stream, hr_error *error)
{
  if (device->backend->add_squares)
    return device->backend->add_squares(device, x, stream, error);
  if (!x->adds)
    memset(x->to, 0, HR_SQUARES_SUMS * sizeof *x->to);
  x->to[0] = (float)(x->to[0] + squares_of(x));
  return HR_OK;
}
