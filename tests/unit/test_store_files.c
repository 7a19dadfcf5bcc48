/* SPDX-License-Identifier: Apache-2.0 */
/* The store's file: every error about it is one line, and no row is lost. */
#include "store.h"

#include "runtime/store/database.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- files that are no store ---- */

static void write_file(const char *path, const void *bytes, size_t size)
{
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static void a_file_other_than_a_store_is_an_error_in_one_line_and_not_changed(void **state)
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
               "is not a regular file");
  assert_fails(hr_store_open("", HR_STORE_WRITE, &store, &error), HR_ERROR_INVALID, error, "empty");

  memset(text, 'x', sizeof text);
  write_file(path_in(state, "text.db", path), text, sizeof text);
  for (hr_store_mode mode = HR_STORE_READ; mode <= HR_STORE_WRITE; mode++)
    assert_fails(hr_store_open(path, mode, &store, &error), HR_ERROR_UNREADABLE, error, "is not a store of results");
  for (size_t size = 5; size > 0; size--) {
    struct stat about;
    write_file(path, "short", size);
    assert_fails(hr_store_open(path, HR_STORE_WRITE, &store, &error), HR_ERROR_UNREADABLE, error, "is not a store");
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_size, size);
  }
  assert_null(store);
}

static void an_empty_file_cannot_be_read_but_may_be_written(void **state)
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

/* Runs SQL on a file, as another program might. */
static void run_sql(const char *path, const char *sql)
{
  sqlite3 *database;
  char *problem = NULL;
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  if (sqlite3_exec(database, sql, NULL, NULL, &problem) != SQLITE_OK)
    fail_msg("%s", problem);
  sqlite3_close(database);
}

static void a_database_of_another_program_is_not_changed(void **state)
{
  char path[256];
  hr_store *store = NULL;
  hr_error error = {.status = HR_OK};
  run_sql(path_in(state, "a.db", path), "CREATE TABLE results (x); PRAGMA user_version = 1");
  for (hr_store_mode mode = HR_STORE_READ; mode <= HR_STORE_WRITE; mode++)
    assert_fails(hr_store_open(path, mode, &store, &error), HR_ERROR_UNREADABLE, error, "of another program");
}

static void a_store_of_a_newer_version_is_refused_and_not_changed(void **state)
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

static void an_invalid_value_is_reported_as_damage_with_its_row_and_column(void **state)
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

static void a_full_disk_is_reported_and_keeps_every_row(void **state)
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
  assert_non_null(strstr(error.message, "the disk is full; earlier rows are kept"));
  assert_int_equal(count_rows(store), kept);
  sqlite3_exec(store->database, "PRAGMA max_page_count = 1000000", NULL, NULL, NULL);
  append_row(store, 5000); /* there is space again */
  assert_int_equal(count_rows(store), kept + 1);
  hr_store_close(store);
  assert_int_equal(count_in_file(path), kept + 1);
}

static void a_new_store_that_cannot_be_written_leaves_no_file(void **state)
{
  char path[256];
  path_in(state, "a.db", path);
  hr_store *store = NULL;
  hr_error error = {.status = HR_OK};
  void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit, narrow;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlim_t rooms[] = {0, 512, 8192};
  for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
    narrow = limit;
    narrow.rlim_cur = rooms[i];
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &narrow), 0);
    hr_status status = hr_store_open(path, HR_STORE_WRITE, &store, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(status, HR_ERROR_OUTPUT);
    assert_int_equal(access(path, F_OK), -1);
  }
  signal(SIGXFSZ, before);
}

static void an_abandoned_store_is_removed_only_if_it_is_new_and_has_no_row(void **state)
{
  char path[256];
  hr_store_abandon(open_store(path_in(state, "new.db", path), HR_STORE_WRITE));
  assert_int_equal(access(path, F_OK), -1);
  hr_store *store = open_store(path_in(state, "row.db", path), HR_STORE_WRITE);
  append_row(store, 1);
  hr_store_abandon(store);
  assert_int_equal(count_in_file(path), 1);
  hr_store_close(open_store(path_in(state, "old.db", path), HR_STORE_WRITE));
  hr_store_abandon(open_store(path, HR_STORE_WRITE));
  assert_int_equal(count_in_file(path), 0);
  hr_store_abandon(NULL);
}

static void a_store_removed_by_another_process_is_created_again_with_the_first_row(void **state)
{
  char path[256];
  hr_store *maker = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_store *first = open_store(path, HR_STORE_WRITE), *second = open_store(path, HR_STORE_WRITE);
  hr_store_abandon(maker);
  assert_int_equal(access(path, F_OK), -1);
  append_row(first, 1);
  append_row(second, 2); /* into the file that exists now */
  append_row(first, 3);
  assert_int_equal(count_rows(second), 3);
  hr_store_close(first);
  hr_store_abandon(second);
  assert_int_equal(count_in_file(path), 3);
}

static void an_import_also_creates_a_removed_store_again(void **state)
{
  char path[256], from[256];
  hr_store *other = open_store(path_in(state, "b.db", from), HR_STORE_WRITE);
  append_row(other, 1);
  hr_store_close(other);
  hr_store *maker = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_store *store = open_store(path, HR_STORE_WRITE);
  hr_store_abandon(maker);
  hr_error error = {.status = HR_OK};
  assert_ok(hr_store_merge(store, from, NULL, &error), error);
  hr_store_close(store);
  assert_int_equal(count_in_file(path), 1);
}

static void abandoning_does_not_remove_a_file_that_replaced_the_store(void **state)
{
  char path[256];
  hr_store *maker = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  assert_int_equal(unlink(path), 0);
  hr_store *other = open_store(path, HR_STORE_WRITE);
  append_row(other, 1);
  hr_store_close(other);
  hr_store_abandon(maker);
  assert_int_equal(count_in_file(path), 1);
}

static void a_store_that_is_removed_while_it_is_open_takes_no_row(void **state)
{
  char path[256];
  hr_error error = {.status = HR_OK};
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  append_row(store, 1);
  assert_int_equal(unlink(path), 0);
  hr_result row = some_result(2);
  assert_int_equal(hr_store_append(store, &row, &error), HR_ERROR_OUTPUT);
  assert_non_null(strstr(error.message, "a.db: was moved or removed while in use"));
  hr_store_close(store);
}

static void a_limit_on_file_sizes_is_reported_and_keeps_every_row(void **state)
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

static void a_lock_that_is_not_released_is_reported_and_may_be_retried(void **state)
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
               "is locked; another process has held it for 0.03 s");
  assert_fails(hr_store_has(store, &row, &found, &error), HR_ERROR_UNREADABLE, error, "is locked");
  assert_ok(hr_store_execute(holder, "COMMIT", true, &error), error);
  assert_ok(hr_store_append(store, &row, &error), error);
  assert_int_equal(count_rows(holder), 2);
  hr_store_close(store);
  hr_store_close(holder);
}

/* Runs in a child without root's rights, because root ignores file modes. Exit code 0 if everything is as expected. */
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
                     strstr(error.message, "its folder cannot be written, which rows need: Permission denied");
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

/* A file as version 1 wrote it: without the columns added later. */
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

static void a_file_of_version_1_is_read_unchanged_and_migrated_when_written(void **state)
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

/* The name of a problem has every member of it. */
static void assert_same_decode(const hr_result *read, const hr_result *row)
{
  hr_result again = *read;
  hr_result_set_decode(&again, &read->decode);
  assert_string_equal(again.problem, row->problem);
}

static void a_migrated_file_takes_rows_of_every_kind(void **state)
{
  char path[256];
  hr_error error = {.status = HR_OK};
  write_version_1(path_in(state, "a.db", path));
  hr_store *store = open_store(path, HR_STORE_WRITE);
  hr_result row = hr_result_default(), read;
  hr_decode d = hr_decode_default();
  d.cache_format = HR_KV_FP8;
  d.kv_len = 100, d.top_k = 7, d.sinks = true, d.batch_invariant = true;
  assert_ok(hr_decode_set_pages(&d, 16, &error), error);
  row.decode_part = 2;
  hr_result_set_decode(&row, &d);
  assert_ok(hr_store_append(store, &row, &error), error);
  assert_ok(hr_store_query(store, NULL, keep_row, &read, &error), error);
  assert_same_decode(&read, &row);
  assert_int_equal(read.decode_part, 2);
  hr_store_close(store);
}

static void a_migration_that_cannot_be_finished_leaves_the_old_version(void **state)
{
  char path[256];
  hr_store *store = NULL;
  hr_error error = {.status = HR_OK};
  write_version_1(path_in(state, "a.db", path));
  run_sql(path, "ALTER TABLE results ADD COLUMN latency_ns REAL"); /* which version 2 adds */
  assert_int_not_equal(hr_store_open(path, HR_STORE_WRITE, &store, &error), HR_OK);
  store = open_store(path, HR_STORE_READ);
  assert_int_equal(store->version, 1);
  check_row_of_version_1(store);
  hr_store_close(store);
}

/* ---- location ---- */

static void the_default_file_is_below_xdg_data_home_then_home(void **state)
{
  (void)state;
  char path[256];
  hr_error error = {.status = HR_OK};
  setenv("HOME", "/somewhere", 1);
  setenv("XDG_DATA_HOME", "/data", 1);
  assert_ok(hr_store_default_path(path, sizeof path, &error), error);
  assert_string_equal(path, "/data/headroom/results.db");
  setenv("XDG_DATA_HOME", "relative", 1); /* the specification says to ignore relative paths */
  assert_ok(hr_store_default_path(path, sizeof path, &error), error);
  assert_string_equal(path, "/somewhere/.local/share/headroom/results.db");
  unsetenv("XDG_DATA_HOME");
  assert_fails(hr_store_default_path(path, 20, &error), HR_ERROR_INVALID, error, "longer than a path");
  unsetenv("HOME");
  assert_fails(hr_store_default_path(path, sizeof path, &error), HR_ERROR_INVALID, error,
               "neither XDG_DATA_HOME nor HOME");
}

static void the_default_folder_is_accessible_to_its_user_only(void **state)
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

/* attention_fused_onednn became attention_blocked_onednn. */
static void rows_of_a_renamed_kernel_are_read_and_found_by_its_current_name(void **state)
{
  char path[256];
  hr_error error = {.status = HR_OK};
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_result row = some_result(1024), read;
  assert_ok(hr_store_append(store, &row, &error), error);
  hr_store_close(store);
  run_sql(path, "UPDATE results SET kernel = 'attention_fused_onednn', kernel_asked = 'attention_fused'");

  store = open_store(path, HR_STORE_READ);
  assert_ok(hr_store_query(store, NULL, keep_row, &read, &error), error);
  assert_string_equal(read.measurement.kernel, "attention_blocked_onednn");
  assert_string_equal(read.kernel_asked, "attention_blocked");
  const char *asked[] = {"attention_blocked", "attention_fused", "attention_flash"};
  for (int i = 0; i < 3; i++) {
    hr_result point = some_result(1024);
    strcpy(point.kernel_asked, asked[i]);
    bool found = false;
    assert_ok(hr_store_has(store, &point, &found, &error), error);
    assert_int_equal(found, i < 2);
  }
  hr_store_close(store);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(a_file_other_than_a_store_is_an_error_in_one_line_and_not_changed),
      IN_FOLDER(an_empty_file_cannot_be_read_but_may_be_written),
      IN_FOLDER(a_database_of_another_program_is_not_changed),
      IN_FOLDER(a_store_of_a_newer_version_is_refused_and_not_changed),
      IN_FOLDER(a_damaged_file_is_an_error_and_no_crash),
      IN_FOLDER(an_invalid_value_is_reported_as_damage_with_its_row_and_column),
      IN_FOLDER(a_full_disk_is_reported_and_keeps_every_row),
      IN_FOLDER(a_new_store_that_cannot_be_written_leaves_no_file),
      IN_FOLDER(an_abandoned_store_is_removed_only_if_it_is_new_and_has_no_row),
      IN_FOLDER(a_store_removed_by_another_process_is_created_again_with_the_first_row),
      IN_FOLDER(an_import_also_creates_a_removed_store_again),
      IN_FOLDER(abandoning_does_not_remove_a_file_that_replaced_the_store),
      IN_FOLDER(a_store_that_is_removed_while_it_is_open_takes_no_row),
      IN_FOLDER(a_limit_on_file_sizes_is_reported_and_keeps_every_row),
      IN_FOLDER(a_lock_that_is_not_released_is_reported_and_may_be_retried),
      IN_FOLDER(a_read_only_file_can_be_read_and_is_not_written),
      IN_FOLDER(a_file_of_version_1_is_read_unchanged_and_migrated_when_written),
      IN_FOLDER(a_migrated_file_takes_rows_of_every_kind),
      IN_FOLDER(a_migration_that_cannot_be_finished_leaves_the_old_version),
      cmocka_unit_test(the_default_file_is_below_xdg_data_home_then_home),
      IN_FOLDER(rows_of_a_renamed_kernel_are_read_and_found_by_its_current_name),
      IN_FOLDER(the_default_folder_is_accessible_to_its_user_only),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
