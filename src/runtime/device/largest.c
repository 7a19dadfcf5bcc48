/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/largest.h"

#include "runtime/device/device.h"
#include "shape/number.h"

static int32_t largest_of(const hr_largest_arguments *x, int64_t row)
{
  const size_t first = (size_t)(row * x->columns);
  int64_t at = 0;
  double best = hr_number_load(x->dtype, x->x, first);
  for (int64_t i = 1; i < x->columns; i++) {
    const double value = hr_number_load(x->dtype, x->x, first + (size_t)i);
    if (value > best)
      best = value, at = i;
  }
  return (int32_t)at;
}

hr_status hr_device_find_largest(hr_device *device, const hr_largest_arguments *x, void *stream, hr_error *error)
{
  if (device->backend->find_largest)
    return device->backend->find_largest(device, x, stream, error);
  for (int64_t row = 0; row < x->rows; row++)
    x->to[row] = largest_of(x, row);
  return HR_OK;
}
