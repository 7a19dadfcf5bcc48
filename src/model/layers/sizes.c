/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layers/sizes.h"

#include "base/error.h"

#include <inttypes.h>

hr_status hr_check_range(const char *name, int64_t value, int64_t least, hr_error *error)
{
  if (value < least)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected at least %" PRId64 ", found %" PRId64, name, least, value);
  if (value > HR_MODEL_SIZE_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected at most %" PRId64 ", found %" PRId64, name, HR_MODEL_SIZE_MAX,
                   value);
  return HR_OK;
}

hr_status hr_check_at_most(const char *name, int64_t value, const char *limit_name, int64_t limit, hr_error *error)
{
  if (value <= limit)
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID, "%s: %" PRId64 " is more than %s, %" PRId64, name, value, limit_name, limit);
}

hr_status hr_check_divides(const char *name, int64_t value, const char *whole_name, int64_t whole, hr_error *error)
{
  if (whole % value == 0)
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID, "%s: %" PRId64 " does not divide %s, %" PRId64, name, value, whole_name,
                 whole);
}

hr_checked64 hr_linear_parameters(hr_checked64 in, hr_checked64 out, bool bias)
{
  hr_checked64 weight = hr_times(in, out.value);
  weight.overflow |= out.overflow;
  return bias ? hr_plus(weight, out) : weight;
}
