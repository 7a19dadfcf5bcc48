/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of many rows: they take no memory for rows that are written, and end where the caller stops. */
#include "test.h"

#include "report/json_stream.h"

#include <headroom/experimental/report.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
  FILE *out;
  char *text;
  size_t size;
  hr_store *store;
} fixture;

/* Once something is written. */
static int is_begun(void *context)
{
  fixture *f = context;
  return ftell(f->out) > 0;
}

static void begin(fixture *f)
{
  char rows[4096];
  size_t used = 0;
  hr_error error;
  hr_store_options options = hr_store_options_default();
  options.cancelled = is_begun, options.context = f;
  f->out = open_memstream(&f->text, &f->size);
  assert_ok(hr_store_open_with("rows", HR_STORE_SCRATCH, &options, &f->store, &error), error);
  for (int i = 0; i < 4; i++)
    used += (size_t)snprintf(rows + used, sizeof rows - used,
                             "{\"operation\":\"gemm\",\"dtype\":\"bf16\",\"batch\":1,\"m\":%d,\"n\":8,\"k\":8,"
                             "\"transpose_a\":false,\"transpose_b\":false,\"status\":\"ok\",\"sweep\":\"s%d\","
                             "\"axes\":\"h=%d\",\"id\":\"%032d\",\"date\":\"2026-01-01T00:00:00.000Z\"}\n",
                             i + 1, i, i, i);
  FILE *in = fmemopen(rows, used, "r");
  assert_ok(hr_store_import(f->store, in, "rows", NULL, &error), error);
  fclose(in);
}

static void end(fixture *f)
{
  hr_store_close(f->store);
  fclose(f->out);
  free(f->text);
}

static void a_page_ends_where_the_caller_stops(void **state)
{
  (void)state;
  fixture f;
  hr_error error;
  begin(&f);
  const hr_report_options options = hr_report_options_default();
  const hr_page page = hr_page_default();
  assert_int_equal(hr_report_page(f.out, &options, f.store, &page, &error), HR_ERROR_INTERRUPTED);
  end(&f);
}

/* The first row is in the stream when the second is asked for. */
static void rows_as_json_are_written_one_by_one(void **state)
{
  (void)state;
  fixture f;
  hr_error error;
  hr_result_filter filter = hr_result_filter_default();
  begin(&f);
  hr_report_options options = hr_report_options_default();
  options.format = HR_FORMAT_JSON;
  assert_int_equal(hr_report_results(f.out, &options, f.store, &filter, &error), HR_ERROR_INTERRUPTED);
  fflush(f.out);
  assert_non_null(strstr(f.text, "\"m\": 1,"));
  assert_null(strstr(f.text, "\"m\": 2,"));
  end(&f);
}

static hr_json document(bool *failed)
{
  hr_json made = hr_json_document("test/1", failed);
  hr_json_put_text(made, "text", "a\nb");
  return made;
}

static void a_list_that_is_streamed_reads_as_one_that_is_not(void **state)
{
  (void)state;
  for (int count = 0; count < 3; count++) {
    char *texts[2];
    size_t sizes[2];
    bool failed;
    hr_error error;
    FILE *whole = open_memstream(&texts[0], &sizes[0]), *streamed = open_memstream(&texts[1], &sizes[1]);
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
      json_array_append_new(list, json_pack("{s:i, s:[s, s], s:{}}", "i", i, "texts", "x\ny", "", "none"));
    assert_ok(hr_json_stream_begin(streamed, document(&failed), "items", &error), error);
    for (int i = 0; i < count; i++)
      assert_ok(hr_json_stream_item(streamed, i == 0, json_incref(json_array_get(list, (size_t)i)), &error), error);
    hr_json_stream_end(streamed, count == 0);
    hr_json at_once = document(&failed);
    hr_json_put(at_once, "items", list);
    assert_ok(hr_json_write(whole, at_once, &error), error);
    fclose(whole);
    fclose(streamed);
    assert_string_equal(texts[1], texts[0]);
    free(texts[0]);
    free(texts[1]);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_page_ends_where_the_caller_stops),
      cmocka_unit_test(rows_as_json_are_written_one_by_one),
      cmocka_unit_test(a_list_that_is_streamed_reads_as_one_that_is_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
