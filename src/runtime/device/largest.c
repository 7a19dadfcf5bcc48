/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/largest.h"

#include "runtime/device/device.h"
#include "shape/number.h"

#include <math.h>

static void find_in_row(const hr_largest_arguments *x, int64_t row)
{
  const size_t start = (size_t)(row * x->stride);
  int64_t at = 0;
  double best = x->columns > 0 ? hr_number_load(x->dtype, x->x, start) : -(double)INFINITY;
  if (x->first > 0 && isnan(best))
    best = -(double)INFINITY;
  for (int64_t i = 1; i < x->columns; i++) {
    const double value = hr_number_load(x->dtype, x->x, start + (size_t)i);
    if (value > best)
      best = value, at = i;
  }
  x->to[row] = (int32_t)(x->first + at);
  if (x->values)
    x->values[row] = (float)best;
}

hr_status hr_device_find_largest(hr_device *device, const hr_largest_arguments *x, void *stream, hr_error *error)
{
  if (device->backend->find_largest)
    return device->backend->find_largest(device, x, stream, error);
  for (int64_t row = 0; row < x->rows; row++)
    find_in_row(x, row);
  return HR_OK;
}
