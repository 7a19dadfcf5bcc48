/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the weights, block by block through memory of the host. */
#include "run/weights.h"

#include "base/error.h"
#include "shape/number.h"

#include <headroom/experimental/operators.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define INITIAL_DEVIATION 0.02 /* of weights, as GPT-2 and most models since begin with */
#define PART 4096              /* elements that are scaled at a time */

typedef struct loading {
  uint64_t seed;
  void *host; /* room for the largest block */
  size_t room;
  int64_t done, total; /* bytes */
  hr_progress_fn progress;
  void *context;
} loading;

/* ---- random weights ---- */

static bool is_factor(int role)
{
  const char *name = hr_weight_role_name(role);
  const size_t length = strlen(name);
  return length >= 5 && strcmp(name + length - 5, "_norm") == 0;
}

static void fill_with(hr_dtype dtype, double value, int64_t count, void *to)
{
  for (int64_t i = 0; i < count; i++)
    hr_number_store(dtype, to, (size_t)i, value);
}

/* Uniform numbers with the deviation of an initialisation. Each weight has a seed of its own. */
static void fill_random(hr_dtype dtype, uint64_t seed, int64_t count, void *to)
{
  float part[PART];
  for (int64_t first = 0; first < count; first += PART) {
    const int64_t some = count - first < PART ? count - first : PART;
    hr_numbers_uniform(HR_FP32, seed, (size_t)first, (size_t)some, part);
    for (int64_t i = 0; i < some; i++)
      part[i] *= (float)(INITIAL_DEVIATION * sqrt(3));
    hr_floats_store(dtype, to, (size_t)first, (size_t)some, part);
  }
}

static hr_status fill_weight(const hr_executor *x, const hr_weight_block *block, size_t index, const loading *l,
                             void *to)
{
  const int role = block->roles[index];
  const hr_dtype dtype = x->options.dtype;
  if (hr_run_is_bias(role) || is_factor(role))
    fill_with(dtype, is_factor(role) ? 1 : 0, block->elements[index], to);
  else
    fill_random(dtype, l->seed + (uint64_t)(block->layer + 1) * HR_WEIGHT_ROLE_COUNT + (uint64_t)role,
                block->elements[index], to);
  return HR_OK;
}

/* ---- blocks ---- */

static hr_status make_room(loading *l, size_t bytes, hr_error *error)
{
  if (bytes <= l->room)
    return HR_OK;
  void *larger = realloc(l->host, bytes);
  if (!larger)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a weight of %zu bytes", bytes);
  l->host = larger;
  l->room = bytes;
  return HR_OK;
}

static hr_status load_block(hr_executor *x, const hr_weight_block *block, void *context, hr_error *error)
{
  loading *l = context;
  const size_t element = hr_dtype_bytes(x->options.dtype), bytes = (size_t)block->total * element;
  size_t at = 0;
  if (l->progress && l->progress(l->context, (double)l->done / (double)l->total, "loading weights"))
    return hr_fail(error, HR_ERROR_INTERRUPTED, "interrupted");
  HR_TRY(make_room(l, bytes, error));
  for (size_t i = 0; i < block->count; i++) {
    char *to = (char *)l->host + at * element;
    if (block->shapes[i].rows == 0)
      fill_with(x->options.dtype, 0, block->elements[i], to);
    else
      HR_TRY(fill_weight(x, block, i, l, to));
    at += (size_t)block->elements[i];
  }
  l->done += (int64_t)bytes;
  return hr_buffer_write(*hr_weight_buffer(x, block->layer, block->key), l->host, bytes, error);
}

hr_status hr_executor_load(hr_executor *executor, const char *what, uint64_t seed, hr_progress_fn progress,
                           void *context, hr_error *error)
{
  HR_NEED(error, executor);
  hr_executor *x = executor;
  loading l = {.seed = seed, .progress = progress, .context = context};
  if (what)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: checkpoints cannot be loaded yet", what);
  HR_TRY(hr_run_bytes_needed(x, &l.total, error));
  hr_status status = hr_each_weight_block(x, load_block, &l, error);
  free(l.host);
  return status;
}
