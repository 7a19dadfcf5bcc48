/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of rotary positions: a row for each, cosines first. */
#include "run/executor.h"

#include "base/error.h"
#include "model/layers/rotary_frequency.h"
#include "shape/number.h"

#include <math.h>
#include <stdlib.h>

/* `turn`: 1, or −1 for the opposite angles. */
static void write_row(const hr_executor *x, bool window, int64_t position, double turn, void *table)
{
  const int64_t half = x->rotary_dim / 2;
  const size_t row = (size_t)(position * x->rotary_dim);
  const double amplitude = x->model.numerics.rotary_scaling == HR_ROTARY_YARN ? x->model.numerics.rotary_amplitude : 1;
  for (int64_t i = 0; i < half; i++) {
    const double angle = (double)position * hr_rotary_frequency(&x->model.numerics, window, i, x->rotary_dim);
    hr_number_store(x->options.dtype, table, row + (size_t)i, amplitude * cos(angle));
    hr_number_store(x->options.dtype, table, row + (size_t)(half + i), turn * amplitude * sin(angle));
  }
}

static hr_status make_table(hr_executor *x, bool window, double turn, hr_error *error)
{
  hr_buffer **buffer = turn > 0 ? &x->angles[window] : &x->angles_back[window];
  const size_t bytes = (size_t)(x->options.tokens * x->rotary_dim) * hr_dtype_bytes(x->options.dtype);
  void *table = malloc(bytes);
  if (!table)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a table of positions");
  for (int64_t position = 0; position < x->options.tokens; position++)
    write_row(x, window, position, turn, table);
  hr_status status = hr_buffer_create(x->device, bytes, buffer, error);
  if (status == HR_OK)
    status = hr_buffer_write(*buffer, table, bytes, error);
  free(table);
  return status;
}

hr_status hr_run_make_angles(hr_executor *x, hr_error *error)
{
  for (size_t i = 0; i < x->model.group_count && x->model.positions == HR_POSITIONS_ROTARY; i++) {
    const int64_t dim = x->model.groups[i].attention.rotary_dim + x->model.groups[i].latent.rope_dim;
    if (dim > 0 && x->rotary_dim > 0 && dim != x->rotary_dim)
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "layers that rotate parts of several sizes cannot be run yet");
    x->rotary_dim = dim > 0 ? dim : x->rotary_dim;
  }
  if (x->rotary_dim == 0)
    return HR_OK;
  for (int window = 0; window < (x->model.numerics.rotary_window_base > 0 ? 2 : 1); window++) {
    HR_TRY(make_table(x, window, 1, error));
    if (x->options.trains)
      HR_TRY(make_table(x, window, -1, error));
  }
  return HR_OK;
}
