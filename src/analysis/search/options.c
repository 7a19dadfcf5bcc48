/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/search/options.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"

#include <inttypes.h>
#include <stdio.h>

#define LARGEST_SIZE ((int64_t)1 << 40)

/* Default range of hidden and layers. */
#define NEAR_LESS 0.75
#define NEAR_MORE (4.0 / 3)

#define USUAL_SIZES (HR_SEARCH_HIDDEN | HR_SEARCH_HEADS | HR_SEARCH_MLP | HR_SEARCH_VOCABULARY)

/* Head sizes for which today's attention kernels are written: FlashAttention-3 compiles 64, 96, 128, 192 and 256
 * (hopper/setup.py, 2025). */
void hr_search_options_init(hr_search_options *options, size_t size)
{
  HR_INIT(options, size,
          (hr_search_options){.parameter_band = 0.02,
                              .require_divisible = true,
                              .limit = 20,
                              .vary = USUAL_SIZES,
                              .head_size_count = 5,
                              .head_sizes = {64, 96, 128, 192, 256}});
}

const char *hr_search_size_name(hr_search_size size)
{
  switch (size) {
#define SIZE_NAME(enumerator, bit, name) \
  case enumerator: return name;
    HR_SEARCH_SIZE_LIST(SIZE_NAME)
#undef SIZE_NAME
  }
  return "unknown";
}

static hr_status check_size(const char *name, int64_t value, hr_error *error)
{
  if (value < 0 || value > LARGEST_SIZE)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected 0 to 2^40, found %" PRId64, name, value);
  return HR_OK;
}

static hr_status check_range(const char *name, int64_t least, int64_t most, hr_error *error)
{
  char member[48];
  snprintf(member, sizeof member, "%s_min", name);
  HR_TRY(check_size(member, least, error));
  snprintf(member, sizeof member, "%s_max", name);
  HR_TRY(check_size(member, most, error));
  if (least > 0 && most > 0 && least > most)
    return hr_fail(error, HR_ERROR_INVALID, "%s_min %" PRId64 " is above %s_max %" PRId64, name, least, name, most);
  return HR_OK;
}

static hr_status check_list(const char *name, const int64_t *values, size_t count, size_t most, int64_t largest,
                            hr_error *error)
{
  if (count > most)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected at most %zu values, found %zu", name, most, count);
  for (size_t i = 0; i < count; i++) {
    if (values[i] < 1 || values[i] > largest)
      return hr_fail(error, HR_ERROR_INVALID, "%s: expected 1 to %" PRId64 ", found %" PRId64, name, largest,
                     values[i]);
  }
  return HR_OK;
}

hr_status hr_search_check_options(const hr_search_options *options, hr_error *error)
{
  HR_TRY(check_range("hidden", options->hidden_min, options->hidden_max, error));
  HR_TRY(check_range("layers", options->layers_min, options->layers_max, error));
  HR_TRY(check_range("heads", options->heads_min, options->heads_max, error));
  HR_TRY(check_range("head_dim", options->head_dim_min, options->head_dim_max, error));
  HR_TRY(check_range("mlp_width", options->mlp_width_min, options->mlp_width_max, error));
  HR_TRY(check_size("hidden_step", options->hidden_step, error));
  HR_TRY(check_size("mlp_step", options->mlp_step, error));
  HR_TRY(check_size("vocabulary_multiple", options->vocabulary_multiple, error));
  HR_TRY(check_size("query_heads_per_kv", options->query_heads_per_kv, error));
  if (!(options->parameter_band >= 0 && options->parameter_band <= 1))
    return hr_fail(error, HR_ERROR_INVALID, "parameter_band: expected 0 to 1, found %g", options->parameter_band);
  if (options->limit < 1 || options->limit > HR_SEARCH_LIMIT_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "limit: expected 1 to %d, found %zu", HR_SEARCH_LIMIT_MAX, options->limit);
  HR_TRY(check_list("head_sizes", options->head_sizes, options->head_size_count, HR_SEARCH_HEAD_SIZES_MAX, LARGEST_SIZE,
                    error));
  return check_list("serve_on", options->serve_on, options->serve_on_count, HR_SEARCH_SERVE_ON_MAX, LARGEST_SIZE,
                    error);
}

bool hr_search_varies(const hr_search_options *options, hr_search_size size, int64_t least, int64_t most)
{
  return (options->vary & (uint32_t)size) != 0 || least > 0 || most > 0;
}

void hr_search_bounds_near(bool varies, int64_t own, int64_t min, int64_t max, int64_t *least, int64_t *most)
{
  *least = min > 0 ? min : varies ? hr_max64((int64_t)((double)own * NEAR_LESS), 1) : own;
  *most = max > 0 ? max : varies ? hr_max64((int64_t)((double)own * NEAR_MORE), 1) : own;
}
