#include <headroom/gemm.h>

#include "base/checked.h"
#include "base/error.h"

#include <inttypes.h>

hr_gemm hr_gemm_default(void)
{
  return (hr_gemm){.struct_size = sizeof(hr_gemm), .m = 1, .n = 1, .k = 1, .batch = 1, .dtype = HR_BF16};
}

static hr_checked64 gemm_flops(const hr_gemm *gemm)
{
  return hr_times(hr_times(hr_times(hr_times(hr_checked(2), gemm->m), gemm->n), gemm->k), gemm->batch);
}

static hr_checked64 gemm_bytes(const hr_gemm *gemm)
{
  hr_checked64 a = hr_times(hr_checked(gemm->m), gemm->k);
  hr_checked64 b = hr_times(hr_checked(gemm->k), gemm->n);
  hr_checked64 c = hr_times(hr_checked(gemm->m), gemm->n);
  hr_checked64 elements = hr_times(hr_plus(hr_plus(a, b), c), gemm->batch);
  return hr_times(elements, (int64_t)hr_dtype_bytes(gemm->dtype));
}

hr_status hr_gemm_flops(const hr_gemm *gemm, int64_t *flops)
{
  return hr_checked_take(gemm_flops(gemm), flops);
}

hr_status hr_gemm_bytes(const hr_gemm *gemm, int64_t *bytes)
{
  return hr_checked_take(gemm_bytes(gemm), bytes);
}

hr_status hr_gemm_check(const hr_gemm *gemm, hr_error *error)
{
  const struct {
    const char *name;
    int64_t value;
  } sizes[] = {{"m", gemm->m}, {"n", gemm->n}, {"k", gemm->k}, {"batch", gemm->batch}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i].value < 1)
      return hr_fail(error, HR_ERROR_INVALID, "%s: expected at least 1, found %" PRId64, sizes[i].name, sizes[i].value);
  }
  if (hr_dtype_bytes(gemm->dtype) == 0)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %d is no number format", (int)gemm->dtype);
  if (gemm_flops(gemm).overflow || gemm_bytes(gemm).overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW,
                   "a product of m %" PRId64 ", n %" PRId64 ", k %" PRId64 ", batch %" PRId64 " is too large to count",
                   gemm->m, gemm->n, gemm->k, gemm->batch);
  return HR_OK;
}
