/* SPDX-License-Identifier: Apache-2.0 */
/* A device file with the keys and kinds of former versions. */
#include "test.h"
#include "unit/devices.h"

#include "hardware/figures.h"

#include <headroom/device_file.h>
#include <headroom/experimental/catalog.h>
#include <headroom/hardware.h>
#include <stdio.h>
#include <string.h>

/* Present and former names, quoted as in a file. */
static const char *const names[][2] = {
    {"\"tma\":", "\"wide\":"},
    {"\"simt_formats\":", "\"vector_formats\":"},
    {"\"simt_tiles\":", "\"vector_tiles\":"},
    {"\"simt_batched_tiles\":", "\"vector_batched_tiles\":"},
    {"\"gemm_launch_ns\":", "\"product_launch_ns\":"},
    {"\"gemm_busy_ns\":", "\"product_busy_ns\":"},
    {"\"split_gemm_size\":", "\"split_products\":"},
    {"\"kind\": \"gemm_misaligned\"", "\"kind\": \"gemm_narrow\""},
    {"\"kind\": \"bmm_misaligned\"", "\"kind\": \"bmm_narrow\""},
    {"\"kind\": \"gemm\", \"dtype\": \"bf16\", \"instruction\"",
     "\"kind\": \"product\", \"dtype\": \"bf16\", \"instruction\""},
};
#define NAME_COUNT (sizeof names / sizeof *names)

/* Writes the text with the former names and counts how often each was replaced. */
static size_t write_former(const char *text, char *to, size_t size, int *found)
{
  size_t used = 0;
  for (const char *at = text; *at && used + 64 < size;) {
    size_t i = 0;
    while (i < NAME_COUNT && strncmp(at, names[i][0], strlen(names[i][0])) != 0)
      i++;
    if (i == NAME_COUNT) {
      to[used++] = *at++;
      continue;
    }
    found[i]++;
    used += (size_t)snprintf(to + used, size - used, "%s", names[i][1]);
    at += strlen(names[i][0]);
  }
  return used;
}

static void assert_same_figures(const hr_hardware *a, const hr_hardware *b)
{
  size_t count;
  const hr_device_figure *figures = hr_device_figures(&count);
  for (size_t i = 0; i < count; i++) {
    size_t numbers = hr_device_figure_numbers(a, &figures[i]);
    assert_int_equal(numbers, hr_device_figure_numbers(b, &figures[i]));
    for (size_t k = 0; k < numbers; k++)
      assert_true(hr_device_figure_get(a, &figures[i], k) == hr_device_figure_get(b, &figures[i], k));
  }
  assert_memory_equal(a->simt_formats, b->simt_formats, sizeof a->simt_formats);
  for (size_t i = 0; i < a->interval_count; i++)
    assert_int_equal(a->intervals[i].kind, b->intervals[i].kind);
  for (size_t i = 0; i < a->ceiling_count; i++)
    assert_int_equal(a->ceilings[i].kind, b->ceilings[i].kind);
}

static void files_with_former_names_read_as_those_with_present_ones(void **state)
{
  (void)state;
  static char old[1 << 18];
  int found[NAME_COUNT] = {0};
  size_t count = 0;
  const hr_catalog_entry *entries = hr_catalog_hardware(&count);
  for (size_t i = 0; i < count; i++) {
    hr_hardware present = hr_hardware_default(), former = hr_hardware_default();
    hr_error error;
    size_t length = entries[i].length;
    const char *text = entries[i].text;
    assert_ok(
        hr_hardware_from_json(&(hr_input){.text = text, .length = length, .name = entries[i].name}, &present, &error),
        error);
    length = write_former(text, old, sizeof old, found);
    assert_ok(
        hr_hardware_from_json(&(hr_input){.text = old, .length = length, .name = entries[i].name}, &former, &error),
        error);
    assert_same_figures(&present, &former);
  }
  for (size_t i = 0; i < NAME_COUNT; i++)
    assert_true(found[i] > 0 || (print_message("no device file has %s\n", names[i][0]), false));
}

/* An H200's file of version 0.9 has odd.row_ns over the share of a tile: the present model would read it as its own. */
static void costs_fitted_to_an_earlier_model_give_way_to_those_of_the_architecture(void **state)
{
  (void)state;
  static const char *const former[] = {
      "\"tma\": {\"launch_ns\": 9000, \"idle_share\": 0.01},",
      "\"aligned_4\": {\"launch_ns\": 9000, \"element_ns\": 0.1},",
      "\"aligned_2\": {\"launch_ns\": 9000, \"element_ns\": 0.1},", "\"simt\": {\"launch_ns\": 9000, \"tile_ns\": 96},",
      "\"narrow\": {\"launch_ns\": 9000}, \"odd\": {\"launch_ns\": 9000}, \"vector\": {\"launch_ns\": 9000},"};
  const hr_hardware h200 = device("h200");
  for (size_t i = 0; i < sizeof former / sizeof *former; i++) {
    char text[1024];
    hr_hardware read;
    hr_error error;
    int length = snprintf(text, sizeof text,
                          "{%s \"name\": \"mine\", \"product\": \"\", \"kind\": \"gpu\", \"architecture\": \"hopper\", "
                          "\"calibration\": \"measured\", \"error_band\": 0.1, \"multiprocessors\": 132, "
                          "\"memory_bytes\": 1, \"bandwidth_bytes_per_s\": 1e12, \"bandwidth_share\": 0.9, "
                          "\"launch_ns\": 2000, \"dense_flops_per_s\": {\"bf16\": 1e15}, "
                          "\"tiles\": [{\"m\": 128, \"n\": 128, \"share\": 1}]}",
                          former[i]);
    assert_ok(hr_hardware_from_json(&(hr_input){.text = text, .length = (size_t)length, .name = "mine"}, &read, &error),
              error);
    assert_memory_equal(&read.tma, &h200.tma, sizeof h200.tma);
    assert_memory_equal(&read.aligned_4, &h200.aligned_4, sizeof h200.aligned_4);
    assert_memory_equal(&read.aligned_2, &h200.aligned_2, sizeof h200.aligned_2);
    assert_memory_equal(&read.simt, &h200.simt, sizeof h200.simt);
    assert_true(read.error_band == 0.3); /* not of this device */
  }
}

static void a_key_by_both_names_is_refused(void **state)
{
  (void)state;
  static const char text[] = "{\"name\": \"x\", \"gemm_launch_ns\": 2000, \"product_launch_ns\": 2000}";
  hr_hardware hardware = hr_hardware_default();
  hr_error error;
  assert_int_equal(
      hr_hardware_from_json(&(hr_input){.text = text, .length = sizeof text - 1, .name = "x.json"}, &hardware, &error),
      HR_ERROR_INVALID);
  assert_string_equal(error.message,
                      "x.json: product_launch_ns: is the former name of \"gemm_launch_ns\", which is given, too");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_with_former_names_read_as_those_with_present_ones),
      cmocka_unit_test(costs_fitted_to_an_earlier_model_give_way_to_those_of_the_architecture),
      cmocka_unit_test(a_key_by_both_names_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
