/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of rotary positions: a row for each, cosines first. */
#include "run/executor.h"

#include "base/error.h"
#include "shape/number.h"

#include <math.h>
#include <stdlib.h>

/* Llama 3.1 divides frequencies whose wave is longer than positions / low by the factor, leaves those whose wave is
 * shorter than positions / high, and goes over smoothly between them. Source: its config.json and transformers'
 * modeling_rope_utils.py. */
static double stretch_llama3(const hr_numerics *n, double frequency)
{
  const double turns = n->rotary_positions * frequency / (2 * M_PI);
  const double share = (turns - n->rotary_low) / (n->rotary_high - n->rotary_low);
  const double kept = fmin(1, fmax(0, share));
  return kept * frequency + (1 - kept) * frequency / n->rotary_factor;
}

/* The pair that turns so often within the positions of the model before it was stretched. */
static double pair_with_turns(const hr_numerics *n, double turns, int64_t dim)
{
  return (double)dim * log(n->rotary_positions / (turns * 2 * M_PI)) / (2 * log(n->rotary_base));
}

/* YaRN divides the frequencies of slow pairs by the factor, leaves those of fast ones, and goes over linearly between
 * them. Source: Peng et al., arXiv 2309.00071, section 3.2, and transformers' modeling_rope_utils.py. */
static double stretch_yarn(const hr_numerics *n, double frequency, int64_t pair, int64_t dim)
{
  double low = pair_with_turns(n, n->rotary_high, dim), high = pair_with_turns(n, n->rotary_low, dim);
  low = fmax(0, n->rotary_truncated ? floor(low) : low);
  high = fmin((double)dim - 1, n->rotary_truncated ? ceil(high) : high);
  const double width = high == low ? 0.001 : high - low;
  const double slow = fmin(1, fmax(0, ((double)pair - low) / width));
  return slow * frequency / n->rotary_factor + (1 - slow) * frequency;
}

static double frequency_of(const hr_numerics *n, bool window, int64_t pair, int64_t dim)
{
  const bool other = window && n->rotary_window_base > 0;
  const double base = other ? n->rotary_window_base : n->rotary_base;
  const double frequency = pow(base, -2.0 * (double)pair / (double)dim);
  switch (other ? HR_ROTARY_UNSCALED : n->rotary_scaling) {
  case HR_ROTARY_LINEAR: return frequency / n->rotary_factor;
  case HR_ROTARY_LLAMA3: return stretch_llama3(n, frequency);
  case HR_ROTARY_YARN: return stretch_yarn(n, frequency, pair, dim);
  default: return frequency;
  }
}

/* `turn`: 1, or −1 for the opposite angles. */
static void write_row(const hr_executor *x, bool window, int64_t position, double turn, void *table)
{
  const int64_t half = x->rotary_dim / 2;
  const size_t row = (size_t)(position * x->rotary_dim);
  const double amplitude = x->model.numerics.rotary_scaling == HR_ROTARY_YARN ? x->model.numerics.rotary_amplitude : 1;
  for (int64_t i = 0; i < half; i++) {
    const double angle = (double)position * frequency_of(&x->model.numerics, window, i, x->rotary_dim);
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
