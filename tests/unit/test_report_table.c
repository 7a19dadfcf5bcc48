/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of reports, and tables in every format. */
#include "test.h"

#include "report/json.h"
#include "report/markdown.h"

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

static size_t reads;

static void none_and_count_the_reads(const void *member, hr_cell *cell)
{
  (void)member;
  (void)cell;
  reads++;
}

/* A report of 100,000 rows would take minutes otherwise. */
static void a_rare_column_without_a_value_is_read_once_a_row(void **state)
{
  (void)state;
  static const hr_column rare[] = {
      {"name", "name", HR_PLAIN, 0, HR_MEMBER(test_row, name)},
      {"none", "none", HR_PLAIN, 0, .rare = true, HR_COMPUTED_OF(COUNT, none_and_count_the_reads, test_row, count)}};
  static const hr_format formats[] = {HR_FORMAT_TABLE, HR_FORMAT_MARKDOWN, HR_FORMAT_HTML};
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    hr_error error = {.status = HR_OK};
    hr_report_options options = hr_report_options_default();
    options.format = formats[i];
    FILE *out = fopen("/dev/null", "w");
    hr_table *table = HR_TABLE_OF(rare, test_row);
    reads = 0;
    for (size_t row = 0; row < 100; row++)
      hr_table_add(table, &two_rows[0]);
    assert_ok(hr_table_write(table, out, &options, &error), error);
    assert_int_equal(reads, 100);
    hr_table_free(table);
    fclose(out);
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
                            "b                       -  -\n"
                            "left out at this width: runs\n");
  free(text);
}

static void a_narrow_table_wraps_its_texts_from_the_widest_on(void **state)
{
  (void)state;
  static const hr_column texts[] = {{NULL, "first", HR_PLAIN, 0, HR_MEMBER(test_row, name)},
                                    {NULL, "runs", HR_PLAIN, 0, HR_MEMBER(test_row, count)},
                                    {NULL, "last", HR_PLAIN, 0, HR_MEMBER(test_row, shown)}};
  const test_row rows[] = {
      {"sixteen heads of 128 beside 64", 1, 0, false, "two experts of sixty-four, each 1408"},
      {"b", 2, 0, false, "c"},
  };
  char *text = NULL;
  size_t length;
  hr_report_options options = hr_report_options_default();
  options.width = 24 + 2 + 4 + 2 + 24; /* both texts at their least width, with a gap on each side of "runs" */
  FILE *out = open_memstream(&text, &length);
  hr_table *table = HR_TABLE_OF(texts, test_row);
  hr_table_add(table, &rows[0]);
  hr_table_add(table, &rows[1]);
  hr_table_write_aligned(table, out, &options);
  hr_table_free(table);
  fclose(out);
  assert_string_equal(text, "first                     runs  last\n"
                            "sixteen heads of 128         1  two experts of\n"
                            "beside 64                       sixty-four, each 1408\n"
                            "b                            2  c\n");
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

static char *markdown_of(const char *text, void (*write)(FILE *out, const char *text))
{
  char *written = NULL;
  size_t size;
  FILE *out = open_memstream(&written, &size);
  assert_non_null(out);
  write(out, text);
  fclose(out);
  return written;
}

/* Each of these would be something else than text: without the backslashes it is the text again. */
static void text_in_markdown_is_text(void **state)
{
  static const char *const pairs[][2] = {
      {"<img src=//e.x onerror=alert(1)>", "\\<img src=//e.x onerror=alert(1)\\>"},
      {"[a](http://e.x)", "\\[a\\](http://e.x)"},
      {"![a](http://e.x)", "!\\[a\\](http://e.x)"},
      {"a|b", "a\\|b"},
      {"\\|", "\\\\\\|"},
      {"`code` *a* _b_ ~~c~~", "\\`code\\` \\*a\\* \\_b\\_ \\~\\~c\\~\\~"},
      {"&lt;img&gt;", "\\&lt;img\\&gt;"},
      {"$x$", "\\$x\\$"},
      {"@name a@b @ #12 a#12 # 12", "@<!-- -->name a@<!-- -->b @ #<!-- -->12 a#12 # 12"}, /* no mention, no issue */
      {"_\u00a0_c_\u00a0_c a_\u201cb\u201d_c", "\\_\u00a0\\_c\\_\u00a0\\_c a\\_\u201cb\u201d\\_c"},
      {"attention_flash_sm90 1.5 a-b 2", "attention_flash_sm90 1.5 a-b 2"},
      {"- 1. # =", "- 1. # ="}, /* in a cell or after a label */
      {"", ""},
  };
  (void)state;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    char *written = markdown_of(pairs[i][0], hr_markdown_write);
    assert_string_equal(written, pairs[i][1]);
    free(written);
  }
}

static void a_line_in_markdown_begins_no_block(void **state)
{
  static const char *const pairs[][2] = {
      {"# title", "\\# title\n"}, {"## title", "\\## title\n"}, {"- item", "\\- item\n"},
      {"1. item", "1\\. item\n"}, {"12) item", "12\\) item\n"}, {"---", "\\---\n"},
      {"===", "\\===\n"},         {"> quoted", "\\> quoted\n"}, {"1.5 x", "1.5 x\n"},
      {"-1.5%", "-1.5%\n"},       {"12 heads", "12 heads\n"},   {"", "\n"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    char *written = markdown_of(pairs[i][0], hr_markdown_write_line);
    assert_string_equal(written, pairs[i][1]);
    free(written);
  }
}

typedef struct one_text {
  char text[64];
} one_text;

static char *csv_of(const char *text)
{
  static const hr_column column = {"text", "text", HR_PLAIN, 0, HR_MEMBER(one_text, text)};
  hr_report_options options = hr_report_options_default();
  options.format = HR_FORMAT_CSV;
  hr_error error;
  one_text row;
  snprintf(row.text, sizeof row.text, "%s", text);
  hr_table *table = hr_table_create(&column, 1, sizeof row);
  hr_table_add(table, &row);
  char *written = NULL;
  size_t size;
  FILE *out = open_memstream(&written, &size);
  assert_non_null(out);
  assert_ok(hr_table_write(table, out, &options, &error), error);
  hr_table_free(table);
  fclose(out);
  return written;
}

static void formulas_in_csv_are_text(void **state)
{
  static const char *const pairs[][2] = {
      {"=HYPERLINK(\"http://e.x\",A1)", "text\n\"'=HYPERLINK(\"\"http://e.x\"\",A1)\"\n"},
      {"+1", "text\n'+1\n"},
      {"-1", "text\n'-1\n"},
      {"@SUM(A1)", "text\n'@SUM(A1)\n"},
      {"a=1", "text\na=1\n"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    char *written = csv_of(pairs[i][0]);
    assert_string_equal(written, pairs[i][1]);
    free(written);
  }
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
  typedef struct one_text {
    char text[8];
    hr_status status;
  } text_row;
  static const hr_column as_it_is = {"text", NULL, HR_PLAIN, 0, HR_MEMBER(one_text, text)};
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
      cmocka_unit_test(a_rare_column_without_a_value_is_read_once_a_row),
      cmocka_unit_test(a_narrow_table_drops_its_least_important_column_first),
      cmocka_unit_test(a_narrow_table_wraps_its_texts_from_the_widest_on),
      cmocka_unit_test(a_column_follows_a_pointer_and_is_empty_if_it_is_null),
      cmocka_unit_test(an_empty_optional_text_is_null),
      cmocka_unit_test(json_uses_its_own_key_if_it_differs),
      cmocka_unit_test(markdown_escapes_cell_separators),
      cmocka_unit_test(text_in_markdown_is_text),
      cmocka_unit_test(a_line_in_markdown_begins_no_block),
      cmocka_unit_test(formulas_in_csv_are_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
