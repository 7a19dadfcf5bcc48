/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of reports, and tables in every format. */
#include "test.h"

#include "report/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct test_row {
  const char *name;
  int64_t count;
  double time_ns;
  bool hidden;
  const char *shown;
} test_row;

/* Empty for a count of 0. */
static void count_or_none(const void *member, hr_cell *cell)
{
  if (*(const int64_t *)member != 0)
    hr_cell_set_count(cell, *(const int64_t *)member);
}

static const hr_column columns[] = {
    {"name", "name", HR_PLAIN, 0, HR_MEMBER(test_row, name)},
    {"count", "runs", HR_PLAIN, 2, HR_COMPUTED_OF(COUNT, count_or_none, test_row, count)},
    {"time_ns", "time", HR_TIME, 0, HR_MEMBER(test_row, time_ns)},
    {"hidden", NULL, HR_PLAIN, 0, HR_MEMBER(test_row, hidden)},
    {NULL, "shown", HR_PLAIN, 1, HR_MEMBER(test_row, shown)}};

static const test_row two_rows[] = {{"a, \"quoted\"|name", 1234, 12400, true, "µ"}, {"b", 0, NAN, false, NULL}};

/* A table of two rows as `options` says; the caller frees it. */
static char *written(const hr_report_options *options)
{
  char *text = NULL;
  size_t length;
  hr_error error = {.status = HR_OK};
  FILE *out = open_memstream(&text, &length);
  hr_table *table = HR_TABLE_OF(columns, test_row);
  assert_non_null(table);
  hr_table_add(table, &two_rows[0]);
  hr_table_add(table, &two_rows[1]);
  assert_ok(hr_table_write(table, out, options, &error), error);
  hr_table_free(table);
  fclose(out);
  return text;
}

static void csv_has_values_and_quotes_as_rfc_4180_says(void **state)
{
  (void)state;
  hr_report_options options = hr_report_options_default();
  options.format = HR_FORMAT_CSV;
  char *text = written(&options);
  assert_string_equal(text, "name,count,time_ns,hidden\n\"a, \"\"quoted\"\"|name\",1234,12400,true\nb,,,false\n");
  free(text);
}

static void a_table_aligns_numbers_to_the_right(void **state)
{
  (void)state;
  hr_report_options options = hr_report_options_default();
  char *text = written(&options);
  assert_string_equal(text, "name               runs     time  shown\n"
                            "a, \"quoted\"|name  1,234  12.4 µs  µ\n"
                            "b                     -        -  -\n");
  free(text);
}

/* The second row has no time. */
static void a_rare_column_is_shown_where_a_row_has_a_value(void **state)
{
  (void)state;
  static const hr_column rare[] = {{"name", "name", HR_PLAIN, 0, HR_MEMBER(test_row, name)},
                                   {"time_ns", "time", HR_TIME, 0, HR_MEMBER(test_row, time_ns), .rare = true}};
  static const hr_format formats[] = {HR_FORMAT_TABLE, HR_FORMAT_CSV, HR_FORMAT_MARKDOWN};
  for (size_t i = 0; i < 3; i++) {
    for (size_t first = 0; first < 2; first++) {
      char *text = NULL;
      size_t length;
      hr_error error;
      hr_report_options options = hr_report_options_default();
      options.format = formats[i];
      FILE *out = open_memstream(&text, &length);
      hr_table *table = HR_TABLE_OF(rare, test_row);
      for (size_t row = first; row < 2; row++)
        hr_table_add(table, &two_rows[row]);
      assert_ok(hr_table_write(table, out, &options, &error), error);
      hr_table_free(table);
      fclose(out);
      assert_int_equal(strstr(text, "time") != NULL, first == 0 || formats[i] == HR_FORMAT_CSV);
      free(text);
    }
  }
}

static void a_narrow_table_drops_its_least_important_column_first(void **state)
{
  (void)state;
  hr_report_options options = hr_report_options_default();
  options.width = 34;
  char *text = written(&options);
  assert_string_equal(text, "name                 time  shown\n"
                            "a, \"quoted\"|name  12.4 µs  µ\n"
                            "b                       -  -\n");
  free(text);
}

static void markdown_escapes_cell_separators(void **state)
{
  (void)state;
  hr_report_options options = hr_report_options_default();
  options.format = HR_FORMAT_MARKDOWN;
  char *text = written(&options);
  assert_non_null(strstr(text, "| a, \"quoted\"\\|name | 1,234 | 12.4 µs | µ |\n"));
  assert_non_null(strstr(text, "| --- | ---: | ---: | --- |\n"));
  free(text);
}

static void a_column_follows_a_pointer_and_is_empty_if_it_is_null(void **state)
{
  typedef struct pointing_row {
    const test_row *to;
  } pointing_row;
  static const hr_column column = {
      "count", "runs", HR_PLAIN, 0, HR_THROUGH(pointing_row, to), HR_MEMBER(test_row, count)};
  (void)state;
  hr_cell cell;
  hr_column_read(&column, &(pointing_row){&two_rows[0]}, &cell);
  assert_int_equal(cell.type, HR_CELL_COUNT);
  assert_int_equal(cell.count, 1234);
  hr_column_read(&column, &(pointing_row){NULL}, &cell);
  assert_int_equal(cell.type, HR_CELL_NONE);
}

static void an_empty_optional_text_is_null(void **state)
{
  typedef struct text_row {
    char text[8];
    hr_status status;
  } text_row;
  static const hr_column as_it_is = {"text", NULL, HR_PLAIN, 0, HR_MEMBER(text_row, text)};
  static const hr_column optional = {"text", NULL, HR_PLAIN, 0, HR_OPTIONAL(text_row, text)};
  static const hr_column status = {"status", NULL, HR_PLAIN, 0, HR_MEMBER(text_row, status)};
  (void)state;
  hr_cell cell;
  const text_row row = {"", HR_ERROR_NOISY};
  hr_column_read(&as_it_is, &row, &cell);
  assert_int_equal(cell.type, HR_CELL_TEXT);
  hr_column_read(&optional, &row, &cell);
  assert_int_equal(cell.type, HR_CELL_NONE);
  hr_column_read(&status, &row, &cell);
  assert_string_equal(cell.text, "noisy");
  assert_int_equal(cell.style, HR_STYLE_YELLOW);
}

static void json_uses_its_own_key_if_it_differs(void **state)
{
  static const hr_column fields[] = {
      {"measured_ns", NULL, HR_TIME, 0, HR_MEMBER(test_row, time_ns), .section = "times", .json = "median_ns"},
      {"count", NULL, HR_PLAIN, 0, HR_MEMBER(test_row, count), .section = "counts"}};
  (void)state;
  bool failed = false;
  hr_json json = {json_object(), &failed};
  hr_json_put_section(json, "times", fields, 2, &two_rows[0]);
  assert_false(failed);
  assert_int_equal(json_object_size(json.object), 1);
  assert_true(json_real_value(json_object_get(json.object, "median_ns")) == 12400);
  json_decref(json.object);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(csv_has_values_and_quotes_as_rfc_4180_says),
      cmocka_unit_test(a_table_aligns_numbers_to_the_right),
      cmocka_unit_test(a_rare_column_is_shown_where_a_row_has_a_value),
      cmocka_unit_test(a_narrow_table_drops_its_least_important_column_first),
      cmocka_unit_test(a_column_follows_a_pointer_and_is_empty_if_it_is_null),
      cmocka_unit_test(an_empty_optional_text_is_null),
      cmocka_unit_test(json_uses_its_own_key_if_it_differs),
      cmocka_unit_test(markdown_escapes_cell_separators),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
