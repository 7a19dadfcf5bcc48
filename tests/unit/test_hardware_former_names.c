/* SPDX-License-Identifier: Apache-2.0 */
/* A device file with the keys and kinds of former versions. */
#include "test.h"

#include "hardware/figures.h"

#include <headroom/device_file.h>
#include <headroom/experimental/catalog.h>
#include <headroom/hardware.h>
#include <stdio.h>
#include <string.h>

/* Present and former names, quoted as in a file. */
static const char *const names[][2] = {
    {"\"aligned_4\":", "\"narrow\":"},
    {"\"aligned_4_tiles\":", "\"narrow_tiles\":"},
    {"\"aligned_2\":", "\"odd\":"},
    {"\"aligned_2_tiles\":", "\"odd_tiles\":"},
    {"\"aligned_2_split_bytes\":", "\"odd_split_bytes\":"},
    {"\"misaligned_k_bytes\":", "\"narrow_k_bytes\":"},
    {"\"misaligned_split_bytes\":", "\"narrow_split_bytes\":"},
    {"\"misaligned_store\":", "\"narrow_store\":"},
    {"\"tma\":", "\"wide\":"},
    {"\"simt\":", "\"vector\":"},
    {"\"simt_formats\":", "\"vector_formats\":"},
    {"\"simt_tiles\":", "\"vector_tiles\":"},
    {"\"simt_batched_tiles\":", "\"vector_batched_tiles\":"},
    {"\"gemm_launch_ns\":", "\"product_launch_ns\":"},
    {"\"gemm_busy_ns\":", "\"product_busy_ns\":"},
    {"\"gemm_step_ns\":", "\"product_step_ns\":"},
    {"\"split_gemm_size\":", "\"split_products\":"},
    {"\"few_pairs_share\":", "\"few_share\":"},
    {"\"few_long_pairs_share\":", "\"few_long_share\":"},
    {"\"kind\": \"gemm_misaligned\"", "\"kind\": \"gemm_narrow\""},
    {"\"kind\": \"bmm_misaligned\"", "\"kind\": \"bmm_narrow\""},
    {"\"kind\": \"gemm\", \"dtype\": \"bf16\", \"instruction\"",
     "\"kind\": \"product\", \"dtype\": \"bf16\", \"instruction\""},
};
#define NAME_COUNT (sizeof names / sizeof *names)

/* Figures that no shipped file has, before those of a shipped file. */
static size_t write_present(const hr_catalog_entry *entry, char *to, size_t size)
{
  return (size_t)snprintf(to, size, "{\"misaligned_store\": 1.5, \"aligned_2_split_bytes\": 512,%.*s",
                          (int)entry->length - 1, entry->text + 1);
}

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
  static char text[1 << 18], old[1 << 18];
  int found[NAME_COUNT] = {0};
  size_t count = 0;
  const hr_catalog_entry *entries = hr_catalog_hardware(&count);
  for (size_t i = 0; i < count; i++) {
    hr_hardware present = hr_hardware_default(), former = hr_hardware_default();
    hr_error error;
    size_t length = write_present(&entries[i], text, sizeof text);
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
      cmocka_unit_test(a_key_by_both_names_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
