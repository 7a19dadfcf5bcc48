/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, widths and lines of text in reports. */
#include "test.h"

#include "base/names.h"
#include "base/quantity.h"
#include "base/utf8.h"
#include "hardware/hardware.h"
#include "report/ceilings.h"
#include "report/kernel_runs.h"
#include "report/lines.h"
#include "report/width.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

typedef struct written_row {
  double value;
  const char *text;
} written_row;

static void check_writer(void (*write)(char *, size_t, double), const written_row *rows, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    char text[HR_NUMBER_SIZE];
    write(text, sizeof text, rows[i].value);
    assert_string_equal(text, rows[i].text);
  }
}

#define CHECK_WRITER(write, rows) check_writer(write, rows, sizeof(rows) / sizeof *(rows))

static void counts_have_thousands_separators(void **state)
{
  static const struct {
    int64_t count;
    const char *text;
  } rows[] = {{0, "0"},
              {999, "999"},
              {1000, "1,000"},
              {50257, "50,257"},
              {6738415616, "6,738,415,616"},
              {-1234, "-1,234"},
              {INT64_MIN, "-9,223,372,036,854,775,808"}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[HR_NUMBER_SIZE];
    hr_write_count(text, sizeof text, rows[i].count);
    assert_string_equal(text, rows[i].text);
  }
}

static void a_unit_changes_where_the_rounded_number_would_need_four_digits(void **state)
{
  static const written_row times[] = {{0, "0 ns"},        {12400, "12.4 µs"},  {999.4, "999 ns"},
                                      {999.6, "1.00 µs"}, {999600, "1.00 ms"}, {9.996e6, "10.0 ms"},
                                      {1.5e12, "1500 s"}, {NAN, "-"},          {INFINITY, "-"}};
  static const written_row sizes[] = {{0, "0 B"}, {1023, "1023 B"}, {1024, "1.00 KiB"}, {150754820096.0, "140 GiB"}};
  static const written_row counts[] = {{999, "999"}, {2651548160.0, "2.65 B"}, {124439808, "124 M"}};
  (void)state;
  CHECK_WRITER(hr_write_time, times);
  CHECK_WRITER(hr_write_bytes, sizes);
  CHECK_WRITER(hr_write_short, counts);
}

static void rates_above_a_cpus_data_sheet_are_attributed_to_its_clock(void **state)
{
  (void)state;
  char line[HR_CEILING_NOTE_SIZE];
  hr_hardware hardware = hr_hardware_default();
  hardware.about.kind = HR_HARDWARE_CPU;
  hardware.about.calibration = HR_CALIBRATION_MEASURED;
  snprintf(hardware.about.name, sizeof hardware.about.name, "cpu");
  hardware.clock_hz = 2e9;
  hardware.dense_flops_per_s[HR_FP32] = 100e9;
  hardware.library_share[HR_FP32] = 0.9;
  hardware.ceilings[hardware.ceiling_count++] =
      (hr_ceiling){.kind = HR_CEILING_GEMM, .dtype = HR_FP32, .instruction = "fma", .per_s = 100e9};
  assert_false(hr_ceiling_clock_note(&hardware, line));
  hardware.ceilings[0].per_s = 150e9; /* 1.5 times the data sheet: at least 3 GHz */
  assert_true(hr_ceiling_clock_note(&hardware, line));
  assert_non_null(strstr(line, "computed from its instruction set and the 2.00 GHz"));
  assert_non_null(strstr(line, "at least 3.00 GHz"));
  hardware.about.kind = HR_HARDWARE_GPU;
  assert_false(hr_ceiling_clock_note(&hardware, line));
}

static void a_small_change_is_not_shown_as_none(void **state)
{
  /* 47 rows of 2560 on 2,651,548,160 parameters are 4.5e-5 */
  static const written_row gains[] = {{0.182, "+18.2%"},  {5.4, "+540%"},      {-0.12, "-12.0%"},
                                      {0, "0%"},          {4.5e-5, "+0.005%"}, {-1e-9, "0%"},
                                      {0.0004, "+0.04%"}, {NAN, "-"},          {0.9996, "+100%"}};
  (void)state;
  CHECK_WRITER(hr_write_gain, gains);
}

static void text_width_counts_terminal_columns_not_bytes(void **state)
{
  (void)state;
  assert_int_equal(hr_display_width("12.4 µs"), 7);
  assert_int_equal(hr_display_width("m×n×k"), 5);
  assert_int_equal(hr_display_width("模型"), 4);
  assert_int_equal(hr_display_width("e\xCC\x81"), 1); /* e with a combining acute accent */
  assert_int_equal(hr_display_width("\xFF"), 1);
}

static void control_characters_and_invalid_utf8_are_replaced(void **state)
{
  (void)state;
  char clean[64];
  hr_copy_text(clean, sizeof clean,
               "a\x1b[31mb\nc\xFF\xC2\x9B"
               "d");
  assert_string_equal(clean, "a?[31mb?c??d");                /* U+009B is an escape, too */
  hr_copy_text(clean, sizeof clean, "\xED\xA0\x80\xC0\xAF"); /* a surrogate, an overlong slash */
  assert_string_equal(clean, "?????");
  hr_copy_text(clean, 4, "abµ");
  assert_string_equal(clean, "ab"); /* cut before a character, not inside it */
}

static void lines_break_at_spaces_and_within_words_that_are_too_long(void **state)
{
  (void)state;
  const char *next;
  assert_int_equal(hr_wrap_length("the vocabulary", 7, &next), 3);
  assert_string_equal(next, "vocabulary");
  assert_int_equal(hr_wrap_length("vocabulary", 4, &next), 4);
  assert_string_equal(next, "bulary");
  assert_int_equal(hr_wrap_length("a_long kernel_name", 9, &next), 6); /* a space is better than a "_" */
  assert_int_equal(hr_wrap_length("attention_flash_sm90", 18, &next), 16);
  assert_string_equal(next, "sm90");
  assert_int_equal(hr_wrap_length("fits", 4, &next), 4);
  assert_string_equal(next, "");
}

static void kernels_with_the_same_reason_are_named_together(void **state)
{
  (void)state;
  const hr_kernel_measurement runs[] = {
      {.kernel = "a_one", .measurement = {.status = HR_ERROR_UNSUPPORTED, .reason = "a_one needs sm80"}},
      {.kernel = "b", .measurement = {.status = HR_OK}},
      {.kernel = "a", .measurement = {.status = HR_ERROR_UNSUPPORTED, .reason = "a needs sm80"}},
      {.kernel = "c", .measurement = {.status = HR_ERROR_UNSUPPORTED, .reason = "c takes fp32"}},
      {.kernel = "d", .measurement = {.status = HR_ERROR_TIMEOUT, .reason = "one run takes 1 s"}}};
  char *text = NULL;
  size_t length;
  hr_error error;
  hr_report_options options = hr_report_options_default();
  hr_document document;
  FILE *out = open_memstream(&text, &length);
  assert_non_null(out);
  hr_document_begin(&document, out, &options);
  hr_print_reasons(&document, runs, 5);
  assert_ok(hr_document_end(&document, HR_OK, &error), error);
  fclose(out);
  assert_string_equal(text, "unsupported   a_one, a: needs sm80\n"
                            "unsupported   c takes fp32\n"
                            "timeout       d: one run takes 1 s\n");
  free(text);
}

/* Every first and second byte is taken, with third and fourth bytes at the ends of their range and beside them. */
static void characters_are_those_of_utf8proc(void **state)
{
  (void)state;
  static const char ends[] = {'\0', '\x7f', '\x80', '\xbf', '\xc0'};
  for (int i = 1; i < 256 * 256 * 25; i++) {
    const char text[] = {(char)(i % 256), (char)(i / 256 % 256), ends[i / 65536 % 5], ends[i / 65536 / 5], '\0'};
    utf8proc_int32_t expected;
    uint32_t found = 0;
    utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &expected);
    assert_int_equal(hr_utf8_decode(text, &found), length > 0 ? length : 0);
    if (length > 0)
      assert_int_equal(found, expected);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(characters_are_those_of_utf8proc),
      cmocka_unit_test(counts_have_thousands_separators),
      cmocka_unit_test(a_unit_changes_where_the_rounded_number_would_need_four_digits),
      cmocka_unit_test(a_small_change_is_not_shown_as_none),
      cmocka_unit_test(text_width_counts_terminal_columns_not_bytes),
      cmocka_unit_test(control_characters_and_invalid_utf8_are_replaced),
      cmocka_unit_test(lines_break_at_spaces_and_within_words_that_are_too_long),
      cmocka_unit_test(kernels_with_the_same_reason_are_named_together),
      cmocka_unit_test(rates_above_a_cpus_data_sheet_are_attributed_to_its_clock),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
