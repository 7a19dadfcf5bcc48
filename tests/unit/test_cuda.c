/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the CUDA backend that need no GPU: missing or outdated libraries, names of cuBLASLt's tiles, and
 * measuring with a device that has its own clock. */
#include "test.h"

#include "runtime/cuda/gemm/algorithm.h"
#include "runtime/device/library.h"
#include "runtime/measure/error_bounds.h"
#include "runtime/measure/runner.h"
#include "runtime/measure/settle.h"

#include <math.h>
#include <string.h>

typedef struct one_entry {
  void (*entry)(void);
} one_entry;

static void a_library_that_is_missing_is_named_with_how_to_get_it(void **state)
{
  (void)state;
  static const hr_library_source source = {
      .title = "Nowhere", .files = {"libheadroom-nowhere.so.1"}, .how_to_get = "look elsewhere"};
  void *handle = &handle;
  hr_error error;
  assert_int_equal(hr_library_open(&source, NULL, 0, NULL, &handle, &error), HR_ERROR_UNAVAILABLE);
  assert_null(handle);
  assert_string_equal(error.message, "Nowhere (libheadroom-nowhere.so.1) cannot be loaded: look elsewhere");
}

static void a_library_without_an_entry_point_is_too_old(void **state)
{
  (void)state;
  static const hr_library_source source = {
      .title = "C", .files = {"libheadroom-nowhere.so.1", "libc.so.6"}, .how_to_get = "take a newer one"};
  static const hr_symbol there = {"strlen", offsetof(one_entry, entry)}, missing = {"no_such_entry_point", 0};
  one_entry table = {NULL};
  void *handle = NULL;
  hr_error error;
  assert_ok(hr_library_open(&source, &there, 1, &table, &handle, &error), error);
  assert_non_null(handle);
  assert_true(table.entry != NULL);
  hr_library_close(handle);
  assert_int_equal(hr_library_open(&source, &missing, 1, &table, &handle, &error), HR_ERROR_UNAVAILABLE);
  assert_non_null(strstr(error.message, "no_such_entry_point"));
  assert_null(handle);
  hr_library_close(NULL);
}

static void every_library_has_a_version_or_says_what_is_missing(void **state)
{
  (void)state;
  hr_library libraries[HR_LIBRARIES_MAX];
  size_t count = 0;
  hr_libraries(NULL, libraries, &count);
  assert_true(count >= 4 && count <= HR_LIBRARIES_MAX);
  for (size_t i = 0; i < count; i++) {
    bool found = libraries[i].status == HR_OK;
    assert_true(libraries[i].name[0] && libraries[i].purpose[0]);
    assert_int_equal(found, libraries[i].version[0] != '\0');
    assert_int_equal(found, libraries[i].detail[0] == '\0');
  }
}

/* An algorithm as cuBLASLt describes it. */
static lt_result known_config(const lt_algorithm *algorithm, int attribute, void *value, size_t bytes, size_t *written)
{
  uint32_t wide = (uint32_t)algorithm->data[attribute < 8 ? attribute : 7];
  if (bytes == sizeof wide)
    memcpy(value, &wide, sizeof wide);
  else
    *(uint16_t *)value = (uint16_t)wide;
  *written = bytes;
  return LT_SUCCESS;
}

static void an_algorithm_is_described_for_the_row_major_gemm(void **state)
{
  (void)state;
  const hr_cublaslt lt = {.cublasLtMatmulAlgoConfigGetAttribute = known_config};
  /* Numbers of cublasLtMatmulTile_t: 24 is 256x128, 513 is 256x256; stages 35 is 64xauto; clusters 3 is 2x1x1. */
  lt_heuristic chosen = {.waves = 1.5f};
  chosen.algorithm.data[LT_CONFIG_ID] = 66;
  chosen.algorithm.data[LT_CONFIG_TILE] = 24;
  chosen.algorithm.data[LT_CONFIG_SPLIT_K] = 2;
  chosen.algorithm.data[LT_CONFIG_STAGES] = 35;
  chosen.algorithm.data[7] = 3;
  char text[128];
  hr_algorithm_describe(&lt, &chosen, false, text, sizeof text);
  assert_string_equal(text, "algo 66, tile 128x256, stages 64xauto, cluster 1x2, split-k 2, waves 1.50");
  chosen.algorithm.data[LT_CONFIG_TILE] = 513;
  chosen.algorithm.data[LT_CONFIG_STAGES] = 0;
  chosen.algorithm.data[7] = 0;
  hr_algorithm_describe(&lt, &chosen, false, text, sizeof text);
  assert_string_equal(text, "algo 66, tile 256x256, stages auto, cluster auto, split-k 2, waves 1.50");
  chosen.algorithm.data[LT_CONFIG_TILE] = 60000; /* of a future version */
  chosen.algorithm.data[LT_CONFIG_STAGES] = 29;
  chosen.algorithm.data[7] = 999;
  hr_algorithm_describe(&lt, &chosen, false, text, sizeof text);
  assert_string_equal(text, "algo 66, tile no. 60000, stages no. 29, cluster no. 999, split-k 2, waves 1.50");
  hr_algorithm_describe(&lt, &chosen, true, text, sizeof text);
  assert_non_null(strstr(text, "split-k 2 rounded,"));
  chosen.algorithm.data[LT_CONFIG_SPLIT_K] = (uint32_t)-1;
  hr_algorithm_describe(&lt, &chosen, false, text, sizeof text);
  assert_non_null(strstr(text, "split-k auto,"));
}

static void split_k_parts_are_rounded_where_they_are_stored_in_the_format_of_the_result(void **state)
{
  (void)state;
  const hr_cublaslt lt = {.cublasLtMatmulAlgoConfigGetAttribute = known_config};
  /* Reduction schemes of cublasLtReductionScheme_t: 0 none, 1 in place, 2 in compute type, 4 in output type. */
  static const struct {
    int32_t split;
    uint32_t reduction;
    int64_t rounded, parts;
  } cases[] = {{1, 0, 0, 1}, {1, 4, 0, 1},  {8, 0, 0, 8},  {8, 1, 8, 8},  {8, 2, 0, 8},
               {8, 4, 8, 8}, {-1, 0, 0, 1}, {-1, 2, 0, 1}, {-1, 4, 64, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lt_heuristic chosen = {.waves = 1};
    chosen.algorithm.data[LT_CONFIG_SPLIT_K] = (uint32_t)cases[i].split;
    chosen.algorithm.data[LT_CONFIG_REDUCTION] = cases[i].reduction;
    assert_int_equal(hr_algorithm_rounded_split_k(&lt, &chosen), cases[i].rounded);
    assert_int_equal(hr_algorithm_split_k(&lt, &chosen), cases[i].parts);
  }
}

static void rounded_split_k_parts_widen_the_error_bound(void **state)
{
  (void)state;
  /* 4 split-K parts of a sum of norm 16 in bf16: 8 · 2⁻⁸ · √4 · 16 = 1; fp32 accumulation of 1024 terms adds 8 · 2⁻²⁴ ·
   * 36 · 16 = 0.00027, and the result, of about 1, is rounded by 2⁻⁸ or slightly more. */
  const hr_summation whole_sum = {0}, four = {.parts = 4, .rounded_parts = 4}, many = {.rounded_parts = 64};
  double whole = hr_gemm_error_bound(HR_BF16, 1024, &whole_sum, 0, 16);
  double parts = hr_gemm_error_bound(HR_BF16, 1024, &four, 0, 16);
  assert_true(whole < 0.001);
  assert_true(parts > 1.0 && parts < 1.01);
  /* At most one part per term: 2 of norm 1 have an error of 8 · 2⁻⁸ · √2 = 0.0442. */
  parts = hr_gemm_error_bound(HR_BF16, 2, &many, 0, 1);
  assert_true(parts > 0.0441 && parts < 0.0446);
}

static hr_status no_time(hr_device *device, hr_run_fn run, void *context, int64_t count, void **recording,
                         double *time_ns, hr_error *error)
{
  (void)device, (void)run, (void)context, (void)count, (void)recording, (void)error;
  *time_ns = 1;
  return HR_OK;
}

static void a_graph_uses_every_buffer_set_equally_often(void **state)
{
  (void)state;
  const hr_backend recording = {.name = "recording", .time_runs = no_time}, plain = {.name = "plain"};
  hr_device device = {.backend = &recording};
  hr_runner runner = {.device = &device, .sets = 7, .group = 1};
  hr_runner_set_group(&runner, 10);
  assert_int_equal(runner.group, 14);
  hr_runner_set_group(&runner, 3);
  assert_int_equal(runner.group, 7);
  device.backend = &plain; /* continues where the last sample stopped */
  hr_runner_set_group(&runner, 10);
  assert_int_equal(runner.group, 10);
}

static void a_clock_is_throttled_when_it_is_well_below_the_settled_clock(void **state)
{
  (void)state;
  hr_device device = {.settled_clock_hz = 1500e6};
  hr_conditions conditions = {.clock_hz = 1400e6, .throttled_by = "temperature"}, warm = {.clock_hz = 1000e6};
  assert_true(hr_device_throttled(&device, &warm, &conditions));
  conditions.clock_hz = 1430e6; /* 5% below is 1425 MHz */
  assert_false(hr_device_throttled(&device, &warm, &conditions));
  conditions.clock_hz = 345e6;
  conditions.throttled_by[0] = '\0'; /* idle */
  assert_false(hr_device_throttled(&device, &warm, &conditions));
  conditions = (hr_conditions){.clock_hz = (double)NAN, .throttled_by = "temperature"};
  assert_false(hr_device_throttled(&device, &warm, &conditions));
  conditions.clock_hz = 100e6;
  device.settled_clock_hz = (double)NAN;
  assert_false(hr_device_throttled(&device, &warm, &conditions));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_library_that_is_missing_is_named_with_how_to_get_it),
      cmocka_unit_test(a_library_without_an_entry_point_is_too_old),
      cmocka_unit_test(every_library_has_a_version_or_says_what_is_missing),
      cmocka_unit_test(an_algorithm_is_described_for_the_row_major_gemm),
      cmocka_unit_test(rounded_split_k_parts_widen_the_error_bound),
      cmocka_unit_test(split_k_parts_are_rounded_where_they_are_stored_in_the_format_of_the_result),
      cmocka_unit_test(a_graph_uses_every_buffer_set_equally_often),
      cmocka_unit_test(a_clock_is_throttled_when_it_is_well_below_the_settled_clock),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
