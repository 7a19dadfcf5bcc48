/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses the library may have a locale with a decimal comma: nothing that the library reads, writes,
 * stores or says depends on it. */
#include "comma_locale.h"
#include "hardware/hardware.h"
#include "store.h"

#include "base/text.h"

#include <headroom/experimental/headroom.h>

static char folder[64];

static int begin(void **state)
{
  (void)state;
  strcpy(folder, "/tmp/headroom-locale-XXXXXX");
  assert_non_null(mkdtemp(folder));
  make_comma_locale(folder);
  return 0;
}

static int end(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

static void reset(void)
{
  setlocale(LC_NUMERIC, "C");
}

static void numbers_in_text_have_a_point(void **state)
{
  (void)state;
  char text[32], *rest = NULL;
  set_comma_locale();
  hr_write_text(text, sizeof text, "%.2f %g %a", 1.25, 0.5, 1.5);
  double number = hr_read_number("1.25x", &rest);
  char still[16];
  snprintf(still, sizeof still, "%.1f", 0.5); /* the program's own locale is as it was */
  reset();
  assert_string_equal(text, "1.25 0.5 0x1.8p+0");
  assert_true(number == 1.25);
  assert_string_equal(rest, "x");
  assert_string_equal(still, "0,5");
}

static hr_result scaled_attention(void)
{
  hr_result result = hr_result_default();
  hr_attention attention = hr_attention_default();
  attention.scale = 0.1F;
  attention.softcap = 30.5F;
  hr_result_set_attention(&result, &attention);
  snprintf(result.sweep, sizeof result.sweep, "s");
  result.measurement.median_ns = 1234.5;
  return result;
}

static void a_row_stored_under_one_locale_is_found_under_another(void **state)
{
  char path[256];
  hr_error error = {.status = HR_OK};
  set_comma_locale();
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_result row = scaled_attention();
  assert_ok(hr_store_append(store, &row, &error), error);
  reset();
  assert_null(strchr(row.problem, ','));
  bool found = false;
  hr_result same = scaled_attention();
  assert_ok(hr_store_has(store, &same, &found, &error), error);
  assert_true(found);
  hr_store_close(store);
}

static FILE *exported(hr_store *store, hr_store_format format)
{
  hr_error error = {.status = HR_OK};
  FILE *file = tmpfile();
  assert_non_null(file);
  assert_ok(hr_store_export(store, NULL, format, file, &error), error);
  rewind(file);
  return file;
}

static void an_export_has_points_and_is_read_back(void **state)
{
  char path[256], copy[256], text[8192];
  hr_error error = {.status = HR_OK};
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  append_row(store, 1); /* 1234.5 ns */
  set_comma_locale();
  for (hr_store_format format = HR_STORE_CSV; format <= HR_STORE_JSON_LINES; format++) {
    hr_store_change change = {0};
    FILE *file = exported(store, format);
    size_t length = fread(text, 1, sizeof text - 1, file);
    text[length] = '\0';
    rewind(file);
    hr_store *into = open_store(path_in(state, format == HR_STORE_CSV ? "b.db" : "c.db", copy), HR_STORE_WRITE);
    assert_ok(hr_store_import(into, file, "rows", &change, &error), error);
    hr_result row;
    assert_ok(hr_store_query(into, NULL, keep_row, &row, &error), error);
    fclose(file);
    hr_store_close(into);
    assert_non_null(strstr(text, "1234.5"));
    assert_int_equal(change.added, 1);
    assert_true(row.measurement.median_ns == 1234.5);
  }
  reset();
  hr_store_close(store);
}

static void sentences_about_numbers_have_points(void **state)
{
  (void)state;
  hr_error error = {.status = HR_OK};
  hr_model model;
  assert_ok(hr_resolve_model("gpt2", NULL, NULL, &model, &error), error);
  hr_hardware hardware;
  assert_ok(hr_resolve_hardware("h200", &hardware, &error), error);
  hr_workload workload = hr_workload_default(&model);
  hr_search_options options = hr_search_options_default();
  options.parameter_band = 1.5;
  hr_search_result *result = NULL;
  set_comma_locale();
  hr_status status = hr_search(&hardware, &model, &workload, &options, &result, &error);
  reset();
  assert_int_equal(status, HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "found 1.5"));
}

/* The advice on a model and a device that are read anew, in a format. The caller frees it. */
static char *advice_in(hr_format format)
{
  hr_error error = {.status = HR_OK};
  hr_model model;
  hr_hardware hardware;
  hr_advice *advice = NULL;
  assert_ok(hr_resolve_model("pythia-2.8b", NULL, NULL, &model, &error), error);
  assert_ok(hr_resolve_hardware("h200", &hardware, &error), error);
  hr_workload workload = hr_workload_default(&model);
  workload.tensor_parallel = 3;
  assert_ok(hr_advise(&hardware, &model, &workload, &advice, &error), error);
  hr_report_options options = hr_report_options_default();
  options.format = format;
  options.verbose = true;
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  assert_non_null(out);
  assert_ok(hr_report_advice(out, &options, advice, NULL, &error), error);
  fclose(out);
  hr_advice_free(advice);
  return text;
}

static void reports_are_the_same_in_every_format(void **state)
{
  (void)state;
  for (hr_format format = HR_FORMAT_TABLE; format <= HR_FORMAT_MARKDOWN; format++) {
    char *plain = advice_in(format);
    set_comma_locale();
    char *with_comma = advice_in(format);
    reset();
    assert_string_equal(with_comma, plain);
    assert_non_null(strchr(plain, '.'));
    free(with_comma);
    free(plain);
  }
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_in_text_have_a_point),
      IN_FOLDER(a_row_stored_under_one_locale_is_found_under_another),
      IN_FOLDER(an_export_has_points_and_is_read_back),
      cmocka_unit_test(sentences_about_numbers_have_points),
      cmocka_unit_test(reports_are_the_same_in_every_format),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
