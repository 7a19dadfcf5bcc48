/* The store: what is appended is there, and whatever is wrong with a file is said in one line without losing a row. */
#include "store.h"

#include "runtime/store/database.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- rows ---- */

static int keep_row(void *context, const hr_result *result)
{
  *(hr_result *)context = *result;
  return 0;
}

static void an_appended_row_comes_back_whole_after_reopening(void **state)
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

static const char *problem_of(const hr_gemm *gemm, hr_result *row)
{
  hr_result_set_gemm(row, gemm);
  return row->problem;
}

static void products_that_lie_alike_in_memory_are_one_problem(void **state)
{
  (void)state;
  hr_result row = hr_result_default();
  hr_gemm g = hr_gemm_default();
  g.m = 3, g.n = 5, g.k = 7;
  g.lda = 7, g.stride_a = 99; /* what 0 means, and between the one batch and none */
  assert_string_equal(problem_of(&g, &row), "gemm m=3 n=5 k=7 batch=1 dtype=bf16 ta=0 tb=0");
  g.batch = 4, g.lda = 8, g.stride_a = 24, g.ldc = 20, g.stride_c = 5, g.broadcast_b = true;
  assert_string_equal(problem_of(&g, &row),
                      "gemm m=3 n=5 k=7 batch=4 dtype=bf16 ta=0 tb=0 lda=8 broadcast_b=1 ldc=20 stride_c=5");
  g = hr_gemm_default();
  g.k = 7, g.batch = 4, g.lda = 100; /* one row: it is only where the next batch begins */
  assert_string_equal(problem_of(&g, &row), "gemm m=1 n=1 k=7 batch=4 dtype=bf16 ta=0 tb=0 stride_a=100");
  g.m = g.n = g.k = g.batch = INT64_C(1) << 40;
  g.lda = g.ldb = g.ldc = g.stride_a = g.stride_b = g.stride_c = (INT64_C(1) << 40) + 1;
  assert_true(strlen(problem_of(&g, &row)) < sizeof row.problem - 1);
}

static void attention_and_other_rows_keep_what_they_are_of(void **state)
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
  row.kind = HR_RESULT_OTHER;
  strcpy(row.problem, "softmax rows=128 columns=2048 dtype=bf16");
  assert_ok(hr_store_append(store, &row, &error), error);
  assert_ok(hr_store_query(store, &filter, keep_row, &read, &error), error);
  assert_int_equal(read.kind, HR_RESULT_OTHER);
  assert_string_equal(read.problem, row.problem);
  hr_store_close(store);
}

static void what_is_no_utf8_or_not_finite_is_mended_rather_than_refused(void **state)
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

static void a_row_that_cannot_be_is_refused_with_its_field(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  hr_result row = some_result(1);
  memset(row.series, 'x', sizeof row.series);
  assert_fails(hr_store_append(store, &row, &error), HR_ERROR_INVALID, error, "series: the text has no end");
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

static void a_reader_that_takes_its_time_keeps_no_writer_out(void **state)
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

/* Bytes that no column holds are padding, of which there are never 8 in a row. So a member that is added to a row or a
 * measurement, but to no column, is noticed. */
static void every_member_of_a_row_has_a_column(void **state)
{
  (void)state;
  bool covered[sizeof(hr_result)] = {false};
  cover(covered, offsetof(hr_result, struct_size), sizeof(size_t));
  cover(covered, offsetof(hr_result, gemm.struct_size), sizeof(size_t));
  cover(covered, offsetof(hr_result, attention.struct_size), sizeof(size_t));
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

/* ---- files that are no store ---- */

static void write_file(const char *path, const void *bytes, size_t size)
{
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static void what_is_no_store_is_told_in_one_line_and_left_alone(void **state)
{
  char path[256], text[4096];
  hr_store *store = NULL;
  hr_error error = {.status = HR_OK};
  assert_fails(hr_store_open(path_in(state, "none.db", path), HR_STORE_READ, &store, &error), HR_ERROR_NOT_FOUND, error,
               "none.db: no such file");
  assert_fails(hr_store_open(path_in(state, "no/where.db", path), HR_STORE_WRITE, &store, &error), HR_ERROR_OUTPUT,
               error, "No such file or directory");
  assert_fails(hr_store_open(*state, HR_STORE_WRITE, &store, &error), HR_ERROR_UNREADABLE, error, "is a directory");
  assert_fails(hr_store_open("/dev/zero", HR_STORE_WRITE, &store, &error), HR_ERROR_UNREADABLE, error,
               "is no regular file");
  assert_fails(hr_store_open("", HR_STORE_WRITE, &store, &error), HR_ERROR_INVALID, error, "empty");

  memset(text, 'x', sizeof text);
  write_file(path_in(state, "text.db", path), text, sizeof text);
  for (hr_store_mode mode = HR_STORE_READ; mode <= HR_STORE_WRITE; mode++)
    assert_fails(hr_store_open(path, mode, &store, &error), HR_ERROR_UNREADABLE, error, "is not a store of results");
  write_file(path, "short", 5);
  assert_fails(hr_store_open(path, HR_STORE_WRITE, &store, &error), HR_ERROR_UNREADABLE, error, "is not a store");
  struct stat about;
  assert_int_equal(stat(path, &about), 0);
  assert_int_equal(about.st_size, 5);
  assert_null(store);
}

static void an_empty_file_is_nothing_to_read_but_may_be_filled(void **state)
{
  char path[256];
  hr_store *store = NULL;
  hr_error error = {.status = HR_OK};
  write_file(path_in(state, "a.db", path), "", 0);
  assert_fails(hr_store_open(path, HR_STORE_READ, &store, &error), HR_ERROR_UNREADABLE, error, "is empty");
  store = open_store(path, HR_STORE_WRITE);
  append_row(store, 1);
  hr_store_close(store);
  assert_int_equal(count_in_file(path), 1);
}

/* Runs SQL on a file, as another program would. */
static void run_sql(const char *path, const char *sql)
{
  sqlite3 *database;
  char *problem = NULL;
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  if (sqlite3_exec(database, sql, NULL, NULL, &problem) != SQLITE_OK)
    fail_msg("%s", problem);
  sqlite3_close(database);
}

static void a_database_of_another_program_is_left_alone(void **state)
{
  char path[256];
  hr_store *store = NULL;
  hr_error error = {.status = HR_OK};
  run_sql(path_in(state, "a.db", path), "CREATE TABLE results (x); PRAGMA user_version = 1");
  for (hr_store_mode mode = HR_STORE_READ; mode <= HR_STORE_WRITE; mode++)
    assert_fails(hr_store_open(path, mode, &store, &error), HR_ERROR_UNREADABLE, error, "of another program");
}

static void a_store_of_a_newer_version_is_refused_and_left_alone(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  append_row(store, 1);
  hr_store_close(store);
  store = NULL;
  run_sql(path, "PRAGMA user_version = 999");
  for (hr_store_mode mode = HR_STORE_READ; mode <= HR_STORE_WRITE; mode++)
    assert_fails(hr_store_open(path, mode, &store, &error), HR_ERROR_UNSUPPORTED, error, "newer Headroom");
  assert_null(store);
}

static void a_damaged_file_is_an_error_and_no_crash(void **state)
{
  char path[256], bytes[64];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  for (int i = 0; i < 100; i++)
    append_row(store, i + 1);
  hr_store_close(store);
  memset(bytes, 0x5a, sizeof bytes);
  int file = open(path, O_RDWR);
  struct stat about;
  assert_int_equal(fstat(file, &about), 0);
  for (off_t at = 4096; at < about.st_size; at += 512)
    assert_int_equal(pwrite(file, bytes, sizeof bytes, at), (ssize_t)sizeof bytes);
  close(file);
  store = NULL;
  hr_status status = hr_store_open(path, HR_STORE_READ, &store, &error);
  hr_result row;
  if (status == HR_OK)
    status = hr_store_query(store, NULL, keep_row, &row, &error);
  assert_int_equal(status, HR_ERROR_UNREADABLE);
  assert_non_null(strstr(error.message, "is damaged"));
  hr_store_close(store);
}

static void a_value_that_cannot_be_is_damage_with_its_row_and_column(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  hr_result row;
  append_row(store, 1);
  run_sql(path, "UPDATE results SET dtype = 'bf17'");
  assert_fails(hr_store_query(store, NULL, keep_row, &row, &error), HR_ERROR_UNREADABLE, error,
               "is damaged: row 1: dtype: expected a number format, found \"bf17\"");
  hr_store_close(store);
}

/* ---- files that cannot be written ---- */

static void a_full_disk_is_said_and_keeps_every_row(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  append_row(store, 1);
  sqlite3_exec(store->database, "PRAGMA max_page_count = 8", NULL, NULL, NULL);
  int64_t kept = 1;
  hr_status status = HR_OK;
  while (status == HR_OK && kept < 1000) {
    hr_result row = some_result(kept + 1);
    status = hr_store_append(store, &row, &error);
    kept += status == HR_OK;
  }
  assert_int_equal(status, HR_ERROR_OUTPUT);
  assert_non_null(strstr(error.message, "the disk is full; the rows before are kept"));
  assert_int_equal(count_rows(store), kept);
  sqlite3_exec(store->database, "PRAGMA max_page_count = 1000000", NULL, NULL, NULL);
  append_row(store, 5000); /* there is room again */
  assert_int_equal(count_rows(store), kept + 1);
  hr_store_close(store);
  assert_int_equal(count_in_file(path), kept + 1);
}

static void a_limit_on_the_size_of_files_is_said_and_keeps_every_row(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit, narrow;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  narrow = limit;
  narrow.rlim_cur = 65536;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &narrow), 0);
  int64_t kept = 0;
  hr_status status = HR_OK;
  while (status == HR_OK && kept < 1000) {
    hr_result row = some_result(kept + 1);
    status = hr_store_append(store, &row, &error);
    kept += status == HR_OK;
  }
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  signal(SIGXFSZ, before);
  assert_int_equal(status, HR_ERROR_OUTPUT);
  assert_true(kept > 0);
  append_row(store, 5000);
  hr_store_close(store);
  assert_int_equal(count_in_file(path), kept + 1);
}

static void a_lock_that_is_not_let_go_of_is_said_and_may_be_tried_again(void **state)
{
  char path[256];
  hr_store *holder = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_store *store = open_store(path, HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  append_row(store, 1);
  hr_store_set_patience(store, 30);
  assert_ok(hr_store_execute(holder, "BEGIN EXCLUSIVE", true, &error), error);
  hr_result row = some_result(2);
  bool found;
  assert_fails(hr_store_append(store, &row, &error), HR_ERROR_OUTPUT, error,
               "is locked; another process has not let go of it for 0.03 s");
  assert_fails(hr_store_has(store, &row, &found, &error), HR_ERROR_UNREADABLE, error, "is locked");
  assert_ok(hr_store_execute(holder, "COMMIT", true, &error), error);
  assert_ok(hr_store_append(store, &row, &error), error);
  assert_int_equal(count_rows(holder), 2);
  hr_store_close(store);
  hr_store_close(holder);
}

/* In a child without root's rights, to whom modes mean nothing. Exit code 0 when all is as expected. */
static int try_read_only(const char *folder, const char *path)
{
  hr_store *store = NULL;
  hr_error error = {.message = ""};
  int64_t count = 0;
  if (chmod(path, 0444) != 0 || chmod(folder, 0555) != 0 || (geteuid() == 0 && chown(path, 65534, 65534) != 0) ||
      (geteuid() == 0 && setuid(65534) != 0))
    return 1;
  if (hr_store_open(path, HR_STORE_WRITE, &store, &error) != HR_ERROR_OUTPUT || !strstr(error.message, "is read-only"))
    return 2;
  if (hr_store_open(path, HR_STORE_READ, &store, &error) != HR_OK ||
      hr_store_count(store, NULL, &count, &error) != HR_OK)
    return 3;
  hr_store_close(store);
  if (count != 1)
    return 4;
  bool folder_told = chmod(path, 0666) == 0 && hr_store_open(path, HR_STORE_WRITE, &store, &error) == HR_ERROR_OUTPUT &&
                     strstr(error.message, "rows cannot be written, as its folder cannot: Permission denied");
  return folder_told ? 0 : 5;
}

static void a_read_only_file_can_be_read_and_is_not_written(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  append_row(store, 1);
  hr_store_close(store);
  assert_int_equal(chmod(*state, 0755), 0);
  pid_t child = fork();
  if (child == 0)
    _exit(try_read_only(*state, path));
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(chmod(*state, 0755), 0);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- versions ---- */

/* A file as version 1 wrote it: without what came later. */
static void write_version_1(const char *path)
{
  run_sql(path,
          "CREATE TABLE results (id TEXT NOT NULL DEFAULT '' PRIMARY KEY, date TEXT NOT NULL DEFAULT '',"
          " sweep TEXT NOT NULL DEFAULT '', series TEXT NOT NULL DEFAULT '', axes TEXT NOT NULL DEFAULT '',"
          " operation TEXT, problem TEXT NOT NULL DEFAULT '', dtype TEXT, batch INTEGER, m INTEGER, n INTEGER,"
          " k INTEGER, transpose_a INTEGER, transpose_b INTEGER, q_len INTEGER, kv_len INTEGER, q_heads INTEGER,"
          " k_heads INTEGER, v_heads INTEGER, qk_dim INTEGER, v_dim INTEGER, mask TEXT, window INTEGER, scale REAL,"
          " device TEXT NOT NULL DEFAULT '', product TEXT NOT NULL DEFAULT '', threads INTEGER,"
          " kernel_asked TEXT NOT NULL DEFAULT '', kernel TEXT NOT NULL DEFAULT '',"
          " configuration TEXT NOT NULL DEFAULT '', status TEXT, reason TEXT NOT NULL DEFAULT '', samples INTEGER,"
          " min_ns REAL, p10_ns REAL, median_ns REAL, mean_ns REAL, p90_ns REAL, max_ns REAL, stddev_ns REAL,"
          " median_low_ns REAL, median_high_ns REAL, flops_per_s REAL, bytes_per_s REAL, ceiling_share REAL,"
          " library_share REAL, warm INTEGER, buffer_sets INTEGER, max_error REAL, rows_checked INTEGER, seed INTEGER,"
          " clock_hz REAL, memory_clock_hz REAL, power_w REAL, temperature_c REAL,"
          " throttled TEXT NOT NULL DEFAULT '', driver TEXT NOT NULL DEFAULT '', libraries TEXT NOT NULL DEFAULT '',"
          " host TEXT NOT NULL DEFAULT '', program TEXT NOT NULL DEFAULT '');"
          "CREATE INDEX results_by_point ON results (sweep, problem); CREATE INDEX results_by_date ON results (date);"
          "INSERT INTO results (id, date, operation, problem, dtype, batch, m, n, k, transpose_a, transpose_b, threads,"
          " status, warm, median_ns) VALUES ('0123456789abcdef0123456789abcdef', '2026-01-31T00:00:00.000Z', 'gemm',"
          " 'gemm m=3 n=4 k=5 batch=2 dtype=fp16 ta=0 tb=1', 'fp16', 2, 3, 4, 5, 0, 1, 0, 'noisy', 1, 17.25);"
          "PRAGMA application_id = 1215456627; PRAGMA user_version = 1"); /* 0x48726573 */
}

static void check_row_of_version_1(hr_store *store)
{
  hr_result row;
  bool found = false;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_store_query(store, NULL, keep_row, &row, &error), error);
  assert_string_equal(row.problem, "gemm m=3 n=4 k=5 batch=2 dtype=fp16 ta=0 tb=1");
  assert_int_equal(row.measurement.status, HR_ERROR_NOISY);
  assert_true(row.measurement.warm);
  assert_true(row.measurement.median_ns == 17.25);
  assert_true(isnan(row.measurement.latency_ns));
  assert_int_equal(row.measurement.discarded, 0);
  assert_int_equal(row.gemm.lda, 0); /* packed */
  assert_false(row.gemm.broadcast_b);
  assert_int_equal(row.autotune, 0);
  assert_ok(hr_store_has(store, &row, &found, &error), error);
  assert_true(found);
  row.autotune = 4;
  assert_ok(hr_store_has(store, &row, &found, &error), error);
  assert_false(found);
}

static void a_file_of_version_1_is_read_as_it_is_and_migrated_when_written(void **state)
{
  char path[256];
  hr_error error = {.status = HR_OK};
  write_version_1(path_in(state, "a.db", path));
  hr_store *store = open_store(path, HR_STORE_READ);
  assert_int_equal(store->version, 1);
  check_row_of_version_1(store);
  hr_store_close(store);

  store = open_store(path, HR_STORE_WRITE);
  assert_int_equal(store->version, HR_STORE_VERSION);
  check_row_of_version_1(store);
  hr_result row = some_result(9), read;
  row.measurement.latency_ns = 2.5;
  row.gemm.ldb = 4104, row.gemm.stride_c = 12, row.gemm.broadcast_a = true;
  assert_ok(hr_store_append(store, &row, &error), error);
  hr_store_close(store);

  store = open_store(path, HR_STORE_READ);
  assert_int_equal(store->version, HR_STORE_VERSION);
  assert_int_equal(count_rows(store), 2);
  hr_result_filter filter = hr_result_filter_default();
  filter.last = 1;
  assert_ok(hr_store_query(store, &filter, keep_row, &read, &error), error);
  assert_true(read.measurement.latency_ns == 2.5);
  assert_int_equal(read.gemm.ldb, 4104);
  assert_int_equal(read.gemm.stride_c, 12);
  assert_true(read.gemm.broadcast_a);
  hr_store_close(store);
}

static void a_migration_that_cannot_be_finished_leaves_the_old_version(void **state)
{
  char path[256];
  hr_store *store = NULL;
  hr_error error = {.status = HR_OK};
  write_version_1(path_in(state, "a.db", path));
  run_sql(path, "ALTER TABLE results ADD COLUMN latency_ns REAL"); /* which version 2 wants to add */
  assert_int_not_equal(hr_store_open(path, HR_STORE_WRITE, &store, &error), HR_OK);
  store = open_store(path, HR_STORE_READ);
  assert_int_equal(store->version, 1);
  check_row_of_version_1(store);
  hr_store_close(store);
}

/* ---- where it is ---- */

static void the_default_file_is_below_xdg_data_home_then_home(void **state)
{
  (void)state;
  char path[256];
  hr_error error = {.status = HR_OK};
  setenv("HOME", "/somewhere", 1);
  setenv("XDG_DATA_HOME", "/data", 1);
  assert_ok(hr_store_default_path(path, sizeof path, &error), error);
  assert_string_equal(path, "/data/headroom/results.db");
  setenv("XDG_DATA_HOME", "relative", 1); /* which the specification says to ignore */
  assert_ok(hr_store_default_path(path, sizeof path, &error), error);
  assert_string_equal(path, "/somewhere/.local/share/headroom/results.db");
  unsetenv("XDG_DATA_HOME");
  assert_fails(hr_store_default_path(path, 20, &error), HR_ERROR_INVALID, error, "longer than a path");
  unsetenv("HOME");
  assert_fails(hr_store_default_path(path, sizeof path, &error), HR_ERROR_INVALID, error,
               "neither XDG_DATA_HOME nor HOME");
}

static void the_default_folder_is_made_for_the_user_alone(void **state)
{
  char path[256], file[300];
  setenv("XDG_DATA_HOME", path_in(state, "deep", path), 1);
  hr_store *store = open_store(NULL, HR_STORE_WRITE);
  snprintf(file, sizeof file, "%s/headroom/results.db", path);
  assert_string_equal(hr_store_path(store), file);
  hr_store_close(store);
  struct stat about;
  assert_int_equal(stat(path, &about), 0);
  assert_int_equal(about.st_mode & 0777, 0700);
  assert_int_equal(unlink(file), 0);
  *strrchr(file, '/') = '\0';
  assert_int_equal(rmdir(file), 0);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(an_appended_row_comes_back_whole_after_reopening),
      IN_FOLDER(a_point_is_found_whatever_its_status_and_other_points_are_not),
      cmocka_unit_test(products_that_lie_alike_in_memory_are_one_problem),
      IN_FOLDER(attention_and_other_rows_keep_what_they_are_of),
      IN_FOLDER(what_is_no_utf8_or_not_finite_is_mended_rather_than_refused),
      IN_FOLDER(a_row_that_cannot_be_is_refused_with_its_field),
      IN_FOLDER(filters_choose_rows_and_deleting_takes_only_those),
      IN_FOLDER(a_reader_that_takes_its_time_keeps_no_writer_out),
      cmocka_unit_test(every_member_of_a_row_has_a_column),
      IN_FOLDER(what_is_no_store_is_told_in_one_line_and_left_alone),
      IN_FOLDER(an_empty_file_is_nothing_to_read_but_may_be_filled),
      IN_FOLDER(a_database_of_another_program_is_left_alone),
      IN_FOLDER(a_store_of_a_newer_version_is_refused_and_left_alone),
      IN_FOLDER(a_damaged_file_is_an_error_and_no_crash),
      IN_FOLDER(a_value_that_cannot_be_is_damage_with_its_row_and_column),
      IN_FOLDER(a_full_disk_is_said_and_keeps_every_row),
      IN_FOLDER(a_limit_on_the_size_of_files_is_said_and_keeps_every_row),
      IN_FOLDER(a_lock_that_is_not_let_go_of_is_said_and_may_be_tried_again),
      IN_FOLDER(a_read_only_file_can_be_read_and_is_not_written),
      IN_FOLDER(a_file_of_version_1_is_read_as_it_is_and_migrated_when_written),
      IN_FOLDER(a_migration_that_cannot_be_finished_leaves_the_old_version),
      cmocka_unit_test(the_default_file_is_below_xdg_data_home_then_home),
      IN_FOLDER(the_default_folder_is_made_for_the_user_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
