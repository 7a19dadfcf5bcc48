/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/search/grids.h"

#include "analysis/search/heads.h"
#include "analysis/search/options.h"
#include "base/checked.h"
#include "base/error.h"
#include "hardware/hardware.h"

#include <inttypes.h>

#define LARGEST_SIZE ((int64_t)1 << 40)

/* A step of a grid leaves at least so many values in its range, if a smaller one does. */
#define VALUES_MIN 8
/* This many values are tried among those that the parameter band allows beside the model's other sizes. */
#define VALUES_IN_BAND 2

static int64_t common_divisor(int64_t a, int64_t b)
{
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Takes positive numbers; returns LARGEST_SIZE + 1 if the multiple is above LARGEST_SIZE. */
static int64_t common_multiple(int64_t a, int64_t b)
{
  hr_checked64 product = hr_times(hr_checked(a / common_divisor(a, b)), b);
  return product.overflow || product.value > LARGEST_SIZE ? LARGEST_SIZE + 1 : product.value;
}

static void add_served(hr_search_space *space, int64_t t)
{
  size_t at = 0;
  while (at < space->served_count && space->served[at] < t)
    at++;
  if (at < space->served_count && space->served[at] == t)
    return;
  for (size_t i = space->served_count++; i > at; i--)
    space->served[i] = space->served[i - 1];
  space->served[at] = t;
}

static hr_status check_kept_heads(const char *option, int64_t heads, int64_t t, hr_error *error)
{
  if (heads % t == 0)
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID,
                 "%s: the %" PRId64 " query heads that the search keeps do not spread over %" PRId64 " devices", option,
                 heads, t);
}

static hr_status list_degrees(const hr_search_options *options, int64_t kept_heads, hr_search_space *space,
                              hr_error *error)
{
  static const int64_t usual[] = {1, 2, 4, 8}; /* of a server with up to eight devices */
  int64_t t = space->workload->tensor_parallel;
  HR_TRY(check_kept_heads("tensor_parallel", kept_heads, t, error));
  add_served(space, t);
  for (size_t i = 0; i < options->serve_on_count; i++) {
    HR_TRY(check_kept_heads("serve_on", kept_heads, options->serve_on[i], error));
    add_served(space, options->serve_on[i]);
  }
  for (size_t i = 0; options->serve_on_count == 0 && i < sizeof usual / sizeof *usual; i++) {
    if (kept_heads % usual[i] == 0)
      add_served(space, usual[i]);
    else
      space->unserved_on[space->unserved_count++] = usual[i];
  }
  return HR_OK;
}

hr_status hr_search_list_served(const hr_search_options *options, int64_t kept_heads, hr_search_space *space,
                                hr_error *error)
{
  space->served_count = space->unserved_count = 0;
  space->share = 1;
  if (!options->require_divisible)
    return HR_OK;
  HR_TRY(list_degrees(options, kept_heads, space, error));
  for (size_t i = 0; i < space->served_count; i++) {
    space->share = common_multiple(space->share, space->served[i]);
    if (space->share > LARGEST_SIZE)
      return hr_fail(error, HR_ERROR_INVALID,
                     "serve_on: no size up to 2^40 is a multiple of every degree up to %" PRId64, space->served[i]);
  }
  return HR_OK;
}

/* ---- steps ---- */

int64_t hr_search_granule(const hr_hardware *hardware, hr_dtype dtype)
{
  return hr_max64(hr_hardware_fast_bytes(hardware, 1, false) / (int64_t)hr_dtype_bytes(dtype), 1);
}

int64_t hr_search_block(const hr_model *model)
{
  int64_t block = 1;
  for (size_t i = 0; i < model->quantization.format_count; i++) {
    const hr_weight_format *format = &model->quantization.formats[i];
    const int64_t sides[] = {format->block_inputs, format->block_outputs};
    for (size_t j = 0; j < 2; j++) {
      int64_t common = sides[j] > 1 ? common_multiple(block, sides[j]) : block;
      block = common <= LARGEST_SIZE ? common : block;
    }
  }
  return block;
}

/* `a` times `b`, at most LARGEST_SIZE + 1. */
static int64_t product(int64_t a, int64_t b)
{
  hr_checked64 result = hr_times(hr_checked(a), b);
  return result.overflow || result.value > LARGEST_SIZE ? LARGEST_SIZE + 1 : result.value;
}

/* A step on which the shares of all degrees are multiples of the granule is `max_times` the one on which those of the
 * workload's own are; between them are its divisors. */
int64_t hr_search_step(const hr_search_space *space, int64_t unit, int64_t range, int64_t in_band)
{
  int64_t t = space->workload->tensor_parallel, least = common_multiple(space->share, unit);
  int64_t finest = common_multiple(product(space->granule, t), least);
  int64_t max_times = common_multiple(product(space->granule, space->share), least) / finest;
  for (int64_t times = max_times; times > 1; times--) {
    int64_t step = times * finest;
    if (max_times % times == 0 && range / step >= VALUES_MIN && in_band / step >= VALUES_IN_BAND)
      return step;
  }
  return range / finest >= 2 ? finest : common_multiple(product(8, t), least);
}

/* The model's own value first, then by distance from it; of equal distances the smaller first. */
hr_status hr_search_list_hidden(const hr_search_options *options, hr_search_space *space, hr_error *error)
{
  int64_t own = space->model->hidden, least, most;
  hr_search_bounds_near(hr_search_varies(options, HR_SEARCH_HIDDEN, options->hidden_min, options->hidden_max), own,
                        options->hidden_min, options->hidden_max, &least, &most);
  int64_t step =
      options->hidden_step > 0 ? options->hidden_step : hr_search_step(space, space->block, most - least, INT64_MAX);
  int64_t down = hr_min64(own - 1, most) / step * step, up = hr_round_up(hr_max64(own + 1, least), step);
  if (most > least && (most - least) / step >= HR_SEARCH_HIDDEN_MAX)
    return hr_fail(error, HR_ERROR_INVALID,
                   "hidden_step: %" PRId64 " gives more than %d sizes between %" PRId64 " and %" PRId64, step,
                   HR_SEARCH_HIDDEN_MAX, least, most);
  if (own >= least && own <= most)
    space->hidden[space->hidden_count++] = own;
  while (space->hidden_count < HR_SEARCH_HIDDEN_MAX && ((down >= least && down > 0) || up <= most)) {
    bool take_down = down >= least && down > 0 && (up > most || own - down <= up - own);
    space->hidden[space->hidden_count++] = take_down ? down : up;
    *(take_down ? &down : &up) += take_down ? -step : step;
  }
  return HR_OK;
}

/* Ascending, without repetition. */
static void add_vocabulary(hr_search_space *space, int64_t vocabulary)
{
  size_t at = 0;
  while (at < space->vocabulary_count && space->vocabularies[at] < vocabulary)
    at++;
  if (vocabulary > LARGEST_SIZE)
    return;
  if (at < space->vocabulary_count && space->vocabularies[at] == vocabulary)
    return;
  for (size_t i = space->vocabulary_count++; i > at; i--)
    space->vocabularies[i] = space->vocabularies[i - 1];
  space->vocabularies[at] = vocabulary;
}

/* Frameworks pad to at least so many rows: DEFAULT_VOCAB_PADDING_SIZE of vLLM
 * (vllm/model_executor/layers/vocab_parallel_embedding.py, 2025). */
#define VOCABULARY_PADDING 64

/* Padded so that it spreads over all devices; to whole granules on the workload's devices, to twice as many, and to
 * whole granules on the devices of every degree. */
void hr_search_list_vocabularies(const hr_search_options *options, hr_search_space *space)
{
  int64_t own = space->model->vocabulary, granule = common_multiple(space->granule, VOCABULARY_PADDING);
  int64_t granules = common_multiple(product(granule, space->workload->tensor_parallel), space->share);
  const int64_t multiples[HR_SEARCH_VOCABULARIES_MAX] = {space->share, granules, product(2, granules),
                                                         product(granule, space->share)};
  bool varies = (options->vary & HR_SEARCH_VOCABULARY) != 0 && !options->keep_vocabulary;
  if (options->vocabulary_multiple > 0 && !options->keep_vocabulary) {
    add_vocabulary(space, hr_round_up(own, options->vocabulary_multiple));
    return;
  }
  if (!varies)
    add_vocabulary(space, own);
  for (size_t i = 0; varies && i < HR_SEARCH_VOCABULARIES_MAX; i++)
    add_vocabulary(space, hr_round_up(own, hr_max64(1, multiples[i])));
}

static void add_head_dim(hr_search_space *space, int64_t dim)
{
  size_t at = 0;
  while (at < space->head_dim_count && space->head_dims[at] < dim)
    at++;
  if (space->head_dim_count == HR_SEARCH_HEAD_DIMS_MAX || (at < space->head_dim_count && space->head_dims[at] == dim))
    return;
  for (size_t i = space->head_dim_count++; i > at; i--)
    space->head_dims[i] = space->head_dims[i - 1];
  space->head_dims[at] = dim;
}

/* Multiples of 8, the smallest granule of any matrix unit; coarser if the range is very wide. */
static void add_head_dims(int64_t least, int64_t most, hr_search_space *space)
{
  int64_t step = hr_round_up(hr_ceil_div(hr_max64(most - least, 1), HR_SEARCH_HEAD_DIMS_MAX - 8), 8);
  add_head_dim(space, least);
  add_head_dim(space, most);
  for (int64_t dim = hr_round_up(least, step); dim <= most; dim += step)
    add_head_dim(space, dim);
}

void hr_search_list_head_dims(const hr_search_options *options, hr_search_space *space)
{
  int64_t own = hr_search_own_heads(space->model).qk_dim, least = options->head_dim_min, most = options->head_dim_max;
  if (least > 0 || most > 0) {
    most = most > 0 ? most : hr_max64(hr_max64(own, least), 256);
    if (own >= least && own <= most)
      add_head_dim(space, own);
    add_head_dims(hr_max64(least, 1), most, space);
    return;
  }
  add_head_dim(space, own);
  bool varies = (options->vary & HR_SEARCH_HEADS) != 0 && !hr_search_keeps_heads(space->model);
  for (size_t i = 0; varies && i < options->head_size_count; i++)
    add_head_dim(space, options->head_sizes[i]);
}
