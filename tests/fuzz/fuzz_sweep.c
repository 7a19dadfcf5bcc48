/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a sweep file: a clear error, or points with an order that can be predicted. */
#include "fuzz.h"
#include "hardware/hardware.h"
#include "properties.h"

#include "expect.h"

#include <stdlib.h>

static void expect_points(const hr_sweep *sweep, size_t count)
{
  hr_error error = {.status = HR_OK};
  for (size_t i = 0; i < count; i += 1 + count / 16) {
    hr_sweep_point point;
    double time_ns;
    EXPECT(hr_sweep_point_at(sweep, i, HR_FP16, &point, &error) == HR_OK);
    expect_printable(point.series);
    expect_printable(point.axes);
    hr_status status = hr_sweep_predict(&fuzz_devices()[0], &point, &time_ns, &error);
    if (status == HR_OK)
      EXPECT(time_ns > 0 && time_ns < 1e300);
    else
      expect_clear_failure(status, &error);
  }
}

static void expect_order(const hr_sweep *sweep, size_t count)
{
  hr_error error = {.status = HR_OK};
  hr_sweep_choice choice = hr_sweep_choice_default();
  choice.points = 10;
  size_t *indices, chosen;
  EXPECT(hr_sweep_order(sweep, &choice, &indices, &chosen, &error) == HR_OK);
  EXPECT(chosen == (count < 10 ? count : 10));
  for (size_t i = 0; i < chosen; i++)
    EXPECT(indices[i] < count);
  free(indices);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  for (int small = 0; small < 2; small++) {
    hr_sweep *sweep = NULL;
    hr_error error = {.status = HR_OK};
    hr_status status = hr_sweep_from_json(&(hr_input){.text = (const char *)data, .length = size, .name = "sweep.json"},
                                          NULL, small, &sweep, &error);
    if (status != HR_OK) {
      expect_clear_failure(status, &error);
      EXPECT(!sweep);
      continue;
    }
    hr_sweep_about about = *hr_sweep_describe(sweep);
    EXPECT(about.point_count >= 1 && about.point_count <= HR_SWEEP_POINTS_MAX && about.series_count >= 1);
    expect_printable(about.name);
    expect_printable(about.title);
    expect_printable(about.note);
    expect_points(sweep, about.point_count);
    expect_order(sweep, about.point_count);
    hr_sweep_free(sweep);
  }
  return 0;
}
