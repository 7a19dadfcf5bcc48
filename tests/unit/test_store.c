/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the store: appended rows are found, filtered and deleted. */
#include "store.h"

#include "runtime/store/database.h"

static void an_appended_row_is_read_back_after_reopening(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_result written = some_result(1024), read;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_store_append(store, &written, &error), error);
  hr_store_close(store);
  assert_int_equal(strlen(written.id), 32);
  assert_int_equal(strlen(written.date), 24);
  assert_string_equal(written.problem, "gemm m=1024 n=4096 k=2560 batch=1 dtype=bf16 ta=0 tb=1");

  store = open_store(path, HR_STORE_READ);
  assert_ok(hr_store_query(store, NULL, keep_row, &read, &error), error);
  hr_store_close(store);
  assert_string_equal(read.id, written.id);
  assert_string_equal(read.problem, written.problem);
  assert_string_equal(read.axes, "{\"h\":1024}");
  assert_int_equal(read.gemm.m, 1024);
  assert_true(read.gemm.transpose_b);
  assert_true(read.measurement.median_ns == 1234.5);
  assert_true(isnan(read.measurement.mean_ns));
  assert_true(isnan(read.measurement.conditions.power_w));
}

static void a_point_is_found_whatever_its_status_and_other_points_are_not(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_result row = some_result(1024);
  hr_error error = {.status = HR_OK};
  row.measurement.status = HR_ERROR_OUT_OF_MEMORY;
  row.measurement.samples = 0;
  assert_ok(hr_store_append(store, &row, &error), error);

  hr_result same = some_result(1024);
  snprintf(same.host, sizeof same.host, "another");
  bool found = false;
  assert_ok(hr_store_has(store, &same, &found, &error), error);
  assert_true(found);

  hr_result others[9];
  for (int i = 0; i < 9; i++)
    others[i] = some_result(1024);
  others[0] = some_result(1025);
  strcpy(others[1].sweep, "fig25");
  strcpy(others[2].series, "h/a = 32");
  strcpy(others[3].axes, "{}");
  strcpy(others[4].product, "NVIDIA H100");
  others[5].measurement.warm = true;
  others[6].threads = 2;
  strcpy(others[7].kernel_asked, "gemm_cublaslt");
  others[8].autotune = 8;
  for (int i = 0; i < 9; i++) {
    assert_ok(hr_store_has(store, &others[i], &found, &error), error);
    assert_false(found);
  }
  hr_store_close(store);
}

static void a_point_that_has_a_row_gets_no_new_one(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  bool added = false;
  hr_result row = some_result(1024), same = some_result(1024), other = some_result(1025);
  assert_ok(hr_store_append_new(store, &row, &added, &error), error);
  assert_true(added);
  assert_ok(hr_store_append_new(store, &same, &added, &error), error);
  assert_false(added);
  assert_ok(hr_store_append_new(store, &other, &added, &error), error);
  assert_true(added);
  assert_int_equal(count_rows(store), 2);
  other.measurement.min_ns = -1;
  assert_fails(hr_store_append_new(store, &other, &added, &error), HR_ERROR_INVALID, error, "min_ns: is negative");
  append_row(store, 1024); /* the transactions have ended */
  hr_store_close(store);
}

static const char *problem_of(const hr_gemm *gemm, hr_result *row)
{
  hr_result_set_gemm(row, gemm);
  return row->problem;
}

static void gemms_with_the_same_memory_layout_are_one_problem(void **state)
{
  (void)state;
  hr_result row = hr_result_default();
  hr_gemm g = hr_gemm_default();
  g.m = 3, g.n = 5, g.k = 7;
  g.lda = 7, g.stride_a = 99; /* the values that 0 stands for, and a batch stride without a second batch */
  assert_string_equal(problem_of(&g, &row), "gemm m=3 n=5 k=7 batch=1 dtype=bf16 ta=0 tb=0");
  g.batch = 4, g.lda = 8, g.stride_a = 24, g.ldc = 20, g.stride_c = 5, g.broadcast_b = true;
  assert_string_equal(problem_of(&g, &row),
                      "gemm m=3 n=5 k=7 batch=4 dtype=bf16 ta=0 tb=0 lda=8 broadcast_b=1 ldc=20 stride_c=5");
  g = hr_gemm_default();
  g.k = 7, g.batch = 4, g.lda = 100; /* one row, so that lda only gives the distance of the batches */
  assert_string_equal(problem_of(&g, &row), "gemm m=1 n=1 k=7 batch=4 dtype=bf16 ta=0 tb=0 stride_a=100");
  g.m = g.n = g.k = g.batch = INT64_C(1) << 40;
  g.lda = g.ldb = g.ldc = g.stride_a = g.stride_b = g.stride_c = (INT64_C(1) << 40) + 1;
  assert_true(strlen(problem_of(&g, &row)) < sizeof row.problem - 1);
}

static void attention_and_other_rows_keep_their_problems(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  hr_result row = hr_result_default(), read;
  hr_attention attention = hr_attention_default();
  attention.q_heads = 32;
  attention.k_heads = 4;
  attention.v_heads = 16;
  attention.scale = 0.1f;
  hr_result_set_attention(&row, &attention);
  assert_ok(hr_store_append(store, &row, &error), error);
  hr_result_filter filter = hr_result_filter_default();
  filter.last = 1;
  assert_ok(hr_store_query(store, &filter, keep_row, &read, &error), error);
  assert_int_equal(read.kind, HR_RESULT_ATTENTION);
  assert_int_equal(read.attention.v_heads, 16);
  assert_true(read.attention.scale == 0.1f);
  assert_int_equal(read.attention.mask, HR_MASK_CAUSAL);

  row = hr_result_default();
  hr_result_set_attention_backward(&row, &attention);
  bool found = true;
  assert_ok(hr_store_has(store, &row, &found, &error), error);
  assert_false(found); /* a row of its own, beside that of the forward call */
  assert_ok(hr_store_append(store, &row, &error), error);
  assert_ok(hr_store_query(store, &filter, keep_row, &read, &error), error);
  assert_true(read.kind == HR_RESULT_ATTENTION && read.backward && read.attention.v_heads == 16);
  assert_non_null(strstr(read.problem, " backward=1"));
  hr_result_set_attention(&row, &attention);
  assert_false(row.backward);

  row = hr_result_default();
  row.kind = HR_RESULT_OTHER;
  strcpy(row.problem, "softmax rows=128 columns=2048 dtype=bf16");
  assert_ok(hr_store_append(store, &row, &error), error);
  assert_ok(hr_store_query(store, &filter, keep_row, &read, &error), error);
  assert_int_equal(read.kind, HR_RESULT_OTHER);
  assert_string_equal(read.problem, row.problem);
  hr_store_close(store);
}

static hr_decode some_decode(void)
{
  hr_decode d = hr_decode_default();
  hr_error error;
  d.batch = 8, d.kv_len = 4096;
  d.q_heads = 32, d.k_heads = 4, d.v_heads = 16;
  assert_ok(hr_decode_set_pages(&d, 16, &error), error);
  return d;
}

/* The name of a problem has every member of it. */
static void assert_same_decode(const hr_result *read, const hr_result *row)
{
  hr_result again = *read;
  hr_result_set_decode(&again, &read->decode);
  assert_string_equal(again.problem, row->problem);
}

static void decode_rows_keep_their_problem(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  hr_result row = hr_result_default(), read;
  hr_decode d = some_decode();
  d.cache_format = HR_KV_INT8, d.cache_scales = HR_KV_SCALE_TOKEN;
  d.k_scale_strides = (hr_kv_strides){.page = 6, .token = 5, .head = 4};
  d.window = 128, d.top_k = 100, d.sinks = d.latent = d.batch_invariant = true, d.softcap = 0.5f;
  d.k_strides = (hr_kv_strides){.page = 3, .token = 2, .head = 1};
  hr_result_set_decode(&row, &d);
  assert_ok(hr_store_append(store, &row, &error), error);
  assert_ok(hr_store_query(store, NULL, keep_row, &read, &error), error);
  assert_int_equal(read.kind, HR_RESULT_DECODE);
  assert_same_decode(&read, &row);
  assert_string_equal(read.problem, row.problem);
  hr_store_close(store);
}

static void decode_calls_of_other_caches_are_other_problems(void **state)
{
  (void)state;
  hr_result row = hr_result_default();
  hr_decode d = some_decode();
  hr_result_set_decode(&row, &d);
  assert_string_equal(row.problem, "decode batch=8 q_len=1 kv_len=4096 q_heads=32 k_heads=4 v_heads=16 qk_dim=64 "
                                   "v_dim=64 dtype=bf16 page_size=16");
  d.page_count += 2, d.window = 5, d.top_k = 3, d.sinks = true;
  d.v_strides = (hr_kv_strides){.page = 9, .token = 8, .head = 7};
  hr_result_set_decode(&row, &d);
  assert_string_equal(row.problem, "decode batch=8 q_len=1 kv_len=4096 q_heads=32 k_heads=4 v_heads=16 qk_dim=64 "
                                   "v_dim=64 dtype=bf16 page_size=16 pages=2050 pitch=256 window=5 top_k=3 sinks=1 "
                                   "v=9,8,7");
  d = some_decode();
  row.decode_part = 2;
  hr_result_set_decode(&row, &d);
  assert_string_equal(row.problem, "decode batch=8 q_len=1 kv_len=4096 q_heads=32 k_heads=4 v_heads=16 qk_dim=64 "
                                   "v_dim=64 dtype=bf16 page_size=16 part=2");
  row.decode_part = 0;
  d.cache_format = HR_KV_FP8, d.cache_scales = HR_KV_SCALE_TOKEN;
  d.v_scale_strides = (hr_kv_strides){.page = 3, .token = 2, .head = 1};
  hr_result_set_decode(&row, &d);
  assert_string_equal(row.problem, "decode batch=8 q_len=1 kv_len=4096 q_heads=32 k_heads=4 v_heads=16 qk_dim=64 "
                                   "v_dim=64 dtype=bf16 page_size=16 cache=fp8 scales=token v_scales=3,2,1");
}

static void invalid_utf8_and_non_finite_numbers_are_corrected_rather_than_refused(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  hr_result row = some_result(1), read;
  strcpy(row.measurement.reason, "half a character \xe2\x82, none \xff, cut \xc3");
  row.measurement.max_error = (double)INFINITY;
  assert_ok(hr_store_append(store, &row, &error), error);
  assert_ok(hr_store_query(store, NULL, keep_row, &read, &error), error);
  assert_string_equal(read.measurement.reason, "half a character ??, none ?, cut ");
  assert_true(isnan(read.measurement.max_error));
  hr_store_close(store);
}

static void an_invalid_row_is_refused_with_its_field(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  hr_result row = some_result(1);
  memset(row.series, 'x', sizeof row.series);
  assert_fails(hr_store_append(store, &row, &error), HR_ERROR_INVALID, error, "series: is not terminated");
  row = some_result(1);
  row.measurement.samples = -1;
  assert_fails(hr_store_append(store, &row, &error), HR_ERROR_INVALID, error, "samples: is negative");
  row = some_result(1);
  assert_ok(hr_store_append(store, &row, &error), error);
  assert_fails(hr_store_append(store, &row, &error), HR_ERROR_INVALID, error, "already");
  assert_int_equal(count_rows(store), 1);
  hr_store_close(store);
}

static void filters_choose_rows_and_deleting_takes_only_those(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  const struct {
    const char *date, *sweep, *product;
    hr_status status;
  } rows[] = {{"2026-01-31T10:00:00.000Z", "fig24", "NVIDIA H200", HR_OK},
              {"2026-02-01T10:00:00.000Z", "fig24", "NVIDIA A100", HR_ERROR_OUT_OF_MEMORY},
              {"2026-02-02T10:00:00.000Z", "fig36", "NVIDIA H200", HR_OK},
              {"2026-03-01T10:00:00.000Z", "", "Some CPU", HR_ERROR_NOISY}};
  char first[33] = "";
  for (int i = 0; i < 4; i++) {
    hr_result row = some_result(i + 1);
    assert_ok(hr_result_stamp(&row, &error), error);
    strcpy(row.date, rows[i].date);
    strcpy(row.sweep, rows[i].sweep);
    strcpy(row.product, rows[i].product);
    strcpy(row.device, i == 3 ? "cpu" : "cuda:0");
    row.measurement.status = rows[i].status;
    assert_ok(hr_store_append(store, &row, &error), error);
    if (i == 0)
      strcpy(first, row.id);
  }
  first[8] = '\0';
  hr_result_filter all = hr_result_filter_default();
  hr_result_filter filters[] = {all, all, all, all, all, all, all};
  filters[0].sweep = "fig24";         /* rows 0 and 1 */
  filters[1].device = "h200";         /* 0 and 2 */
  filters[2].device = "cuda:0";       /* 0, 1 and 2 */
  filters[3].since = "2026-02-01T10"; /* 1, 2 and 3 */
  filters[4].only_status = true;      /* 0 and 2 */
  filters[5].id = first;              /* 0 */
  filters[6].last = 3;                /* 1, 2 and 3 */
  const int64_t expected[] = {2, 2, 3, 3, 2, 1, 3};
  for (int i = 0; i < 7; i++) {
    int64_t count = -1;
    assert_ok(hr_store_count(store, &filters[i], &count, &error), error);
    assert_int_equal(count, expected[i]);
  }
  int64_t deleted = 0;
  filters[0].device = "A100";
  assert_ok(hr_store_delete(store, &filters[0], &deleted, &error), error);
  assert_int_equal(deleted, 1);
  assert_int_equal(count_rows(store), 3);

  hr_result_filter wrong = all;
  wrong.id = "abc";
  assert_fails(hr_store_count(store, &wrong, &deleted, &error), HR_ERROR_INVALID, error, "hexadecimal");
  wrong = all;
  wrong.since = "yesterday";
  assert_fails(hr_store_count(store, &wrong, &deleted, &error), HR_ERROR_INVALID, error, "yesterday");
  hr_store_close(store);
}

static int append_while_reading(void *context, const hr_result *result)
{
  (void)result;
  append_row(context, 7);
  return 0;
}

static void a_slow_reader_does_not_block_writers(void **state)
{
  char path[256];
  hr_store *writer = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  append_row(writer, 1);
  append_row(writer, 2);
  hr_store_set_patience(writer, 0);
  hr_store *reader = open_store(path, HR_STORE_READ);
  assert_ok(hr_store_query(reader, NULL, append_while_reading, writer, &error), error);
  assert_int_equal(count_rows(reader), 4);
  hr_store_close(reader);
  hr_store_close(writer);
}

static void cover(bool *covered, size_t at, size_t size)
{
  for (size_t i = at; i < at + size; i++)
    covered[i] = true;
}

/* Padding bytes belong to no column, and there are never 8 of them in a row. So the test detects a new member of
 * hr_result or hr_measurement that has no column. */
static void every_member_of_a_row_has_a_column(void **state)
{
  (void)state;
  bool covered[sizeof(hr_result)] = {false};
  cover(covered, offsetof(hr_result, struct_size), sizeof(size_t));
  cover(covered, offsetof(hr_result, gemm.struct_size), sizeof(size_t));
  cover(covered, offsetof(hr_result, attention.struct_size), sizeof(size_t));
  cover(covered, offsetof(hr_result, decode.struct_size), sizeof(size_t));
  /* What is measured is aligned to 256 bytes (SET_ALIGNMENT of measure/runner.c). */
  cover(covered, offsetof(hr_result, gemm.alignment), sizeof(int64_t));
  cover(covered, offsetof(hr_result, attention.alignment), sizeof(int64_t));
  cover(covered, offsetof(hr_result, decode.alignment), sizeof(int64_t));
  /* Commands and sweeps measure no call with first keys. */
  cover(covered, offsetof(hr_result, attention.first_keys), sizeof(bool));
  for (size_t i = 0; i < HR_FIELDS; i++) {
    for (int kind = 0; kind < HR_RESULT_KIND_COUNT; kind++) {
      if (hr_fields[i].of[kind])
        cover(covered, hr_fields[i].offset[kind], hr_fields[i].size);
    }
  }
  size_t run = 0;
  for (size_t at = 0; at < sizeof(hr_result); at++) {
    run = covered[at] ? 0 : run + 1;
    if (run == 8)
      fail_msg("the member at byte %zu of hr_result (hr_measurement begins at %zu) has no column in fields.inc", at - 7,
               offsetof(hr_result, measurement));
  }
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(an_appended_row_is_read_back_after_reopening),
      IN_FOLDER(a_point_is_found_whatever_its_status_and_other_points_are_not),
      IN_FOLDER(a_point_that_has_a_row_gets_no_new_one),
      cmocka_unit_test(gemms_with_the_same_memory_layout_are_one_problem),
      IN_FOLDER(attention_and_other_rows_keep_their_problems),
      IN_FOLDER(decode_rows_keep_their_problem),
      cmocka_unit_test(decode_calls_of_other_caches_are_other_problems),
      IN_FOLDER(invalid_utf8_and_non_finite_numbers_are_corrected_rather_than_refused),
      IN_FOLDER(an_invalid_row_is_refused_with_its_field),
      IN_FOLDER(filters_choose_rows_and_deleting_takes_only_those),
      IN_FOLDER(a_slow_reader_does_not_block_writers),
      cmocka_unit_test(every_member_of_a_row_has_a_column),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
