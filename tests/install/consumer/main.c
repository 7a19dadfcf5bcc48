/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest program that uses an installed Headroom; compiled as C and as C++. */
#include <headroom/experimental/headroom.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
  size_t models = 0;
  int64_t flops = 0;
  hr_gemm gemm = hr_gemm_default();
  gemm.m = 8192, gemm.n = 7680, gemm.k = 2560;
  (void)hr_catalog_models(&models);
  /* 2·8192·7680·2560 */
  if (hr_gemm_flops(&gemm, &flops) != HR_OK || flops != INT64_C(322122547200) ||
      strcmp(hr_status_name(HR_OK), "ok") != 0 || strcmp(hr_version(), HR_VERSION) != 0)
    return 1;
  printf("%s %d\n", HR_VERSION, models > 0);
  return 0;
}
