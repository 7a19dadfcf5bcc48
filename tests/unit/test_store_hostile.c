/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* fopencookie */
/* Stores that somebody else made: what no store has is refused, and every wait and every loop over rows can be
 * stopped. */
#include "store.h"

#include "runtime/store/database.h"

#include <errno.h>
#include <sys/stat.h>

/* Runs SQL on a file, as another program might. */
static void run_sql(const char *path, const char *sql)
{
  sqlite3 *database;
  char *problem = NULL;
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
  sqlite3_exec(database, "PRAGMA synchronous = 0", NULL, NULL, NULL);
  if (sqlite3_exec(database, sql, NULL, NULL, &problem) != SQLITE_OK)
    fail_msg("%s: %s", sql, problem);
  sqlite3_close(database);
}

static void make_store(const char *path, int rows)
{
  hr_store *store = open_store(path, HR_STORE_WRITE);
  for (int i = 1; i <= rows; i++)
    append_row(store, i);
  hr_store_close(store);
}

static void copy_file(const char *from, const char *to)
{
  char bytes[1 << 16];
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  assert_true(in && out);
  size_t length = fread(bytes, 1, sizeof bytes, in);
  assert_in_range(length, 1, sizeof bytes - 1);
  assert_int_equal(fwrite(bytes, 1, length, out), length);
  fclose(in);
  assert_int_equal(fclose(out), 0);
}

/* ---- objects that no store has ---- */

/* The rows of `results` without end. */
#define ENDLESS                                                                             \
  "CREATE VIEW results AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)" \
  " SELECT kept.*, n.i AS rowid FROM kept, n"

/* The table with another definition of a column. */
#define REDEFINED(was, is)                                                                           \
  "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = replace(sql, \"" was "\", \"" is "\")" \
  " WHERE type = 'table'"

static const struct {
  const char *sql, *words;
} tampering[] = {
    {"ALTER TABLE results RENAME TO kept; " ENDLESS, "it has the table \"kept\""},
    {"DROP TABLE results; CREATE VIEW results AS SELECT 1 AS id; PRAGMA writable_schema = 1;"
     "UPDATE sqlite_master SET type = 'table', rootpage = 2",
     "is damaged"}, /* SQLite itself compares */
    {"CREATE TRIGGER t BEFORE INSERT ON results BEGIN SELECT raise(IGNORE); END", "it has the trigger \"t\""},
    {"CREATE TRIGGER t AFTER INSERT ON results BEGIN DELETE FROM results; END", "it has the trigger \"t\""},
    {"CREATE VIEW v AS SELECT 1", "it has the view \"v\""},
    {"CREATE TABLE t (x)", "it has the table \"t\""},
    {"CREATE VIRTUAL TABLE t USING fts3(x)", "it has the table \"t"},
    {"CREATE UNIQUE INDEX i ON results (product)", "it has the index \"i\""},
    {"CREATE INDEX i ON results (hex(zeroblob(100000)))", "it has the index \"i\""},
    {"CREATE INDEX i ON results (product) WHERE instr(zeroblob(100000), x'01') = 0", "it has the index \"i\""},
    {"ALTER TABLE results ADD COLUMN slow AS (hex(zeroblob(100000)))", "its table has constraints"},
    {REDEFINED("device TEXT", "device TEXT UNIQUE ON CONFLICT REPLACE"), "its table has constraints"},
    {REDEFINED("latency_ns REAL", "latency_ns REAL NOT NULL ON CONFLICT IGNORE"), "its table has constraints"},
    {REDEFINED("latency_ns REAL", "latency_ns REAL CHECK (hex(zeroblob(100000)) <> '')"), "its table has constraints"},
    {REDEFINED("latency_ns REAL", "latency_ns REAL REFERENCES results ON DELETE CASCADE"), "its table has constraints"},
    {REDEFINED("id TEXT", "id TEXT COLLATE NOCASE"), "its table has constraints"},
    {REDEFINED("PRIMARY KEY", "PRIMARY KEY ON CONFLICT REPLACE"), "its table has constraints"},
    {REDEFINED("latency_ns REAL,", "latency_ns REAL, /* */"), "its table has constraints"},
    {"PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = sql || ' STRICT' WHERE name = 'results'",
     "its table has constraints"},
};

static void a_store_with_objects_of_others_is_refused(void **state)
{
  char path[256], good[256];
  hr_error error = {.status = HR_OK};
  make_store(path_in(state, "good.db", good), 1);
  for (size_t i = 0; i < sizeof tampering / sizeof *tampering; i++) {
    copy_file(good, path_in(state, "a.db", path));
    run_sql(path, tampering[i].sql);
    for (hr_store_mode mode = HR_STORE_READ; mode <= HR_STORE_WRITE; mode++) {
      hr_store *store = NULL;
      assert_fails(hr_store_open(path, mode, &store, &error), HR_ERROR_UNREADABLE, error, tampering[i].words);
      assert_null(store);
    }
    assert_int_equal(unlink(path), 0);
  }
}

/* ---- files beside a store ---- */

/* Writes the journal of a transaction on several files, which names one that SQLite deletes when it has rolled the
 * journal back. */
static void write_journal(const char *store, const char *named)
{
  static const unsigned char magic[8] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
  unsigned char head[512] = {0}, end[16];
  char path[300];
  size_t length = strlen(named);
  int sum = 0;            /* of signed bytes */
  memcpy(head, magic, 8); /* then, in big endian: 0 records, a number, 5 pages, sectors of 512 bytes, pages of 4096 */
  head[19] = 5, head[22] = 2, head[26] = 16;
  for (size_t i = 0; i < length; i++)
    sum += (signed char)named[i];
  for (int i = 0; i < 4; i++) {
    end[i] = (unsigned char)(length >> (24 - 8 * i));
    end[4 + i] = (unsigned char)((unsigned)sum >> (24 - 8 * i));
  }
  memcpy(end + 8, magic, 8);
  snprintf(path, sizeof path, "%s-journal", store);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  const unsigned char page[4] = {0, 4, 0, 1}; /* that of the lock, 2^30 / 4096 + 1 */
  fwrite(head, 1, sizeof head, file);
  fwrite(page, 1, sizeof page, file);
  fwrite(named, 1, length, file);
  fwrite(end, 1, sizeof end, file);
  assert_int_equal(fclose(file), 0);
}

static void no_file_is_deleted_that_a_journal_names(void **state)
{
  char path[256], named[256], journal[300];
  hr_error error = {.status = HR_OK};
  make_store(path_in(state, "a.db", path), 1);
  FILE *file = fopen(path_in(state, "of others", named), "wb");
  assert_non_null(file);
  fputs("kept", file);
  fclose(file);
  write_journal(path, named);
  snprintf(journal, sizeof journal, "%s-journal", path);
  for (hr_store_mode mode = HR_STORE_READ; mode <= HR_STORE_WRITE; mode++) {
    hr_store *store = NULL;
    assert_fails(hr_store_open(path, mode, &store, &error), HR_ERROR_UNREADABLE, error, "several files");
    assert_null(store);
    assert_int_equal(access(named, F_OK), 0);
    assert_int_equal(access(journal, F_OK), 0);
  }
  write_journal(path_in(state, "new.db", journal), named);
  hr_store *created = NULL;
  assert_fails(hr_store_open(journal, HR_STORE_WRITE, &created, &error), HR_ERROR_UNREADABLE, error, "several files");
  assert_int_not_equal(access(journal, F_OK), 0);
  assert_int_equal(access(path_in(state, "new.db-journal", journal), F_OK), 0);
  run_sql(path, "SELECT 1 FROM results"); /* the journal is as SQLite wants it */
  assert_int_not_equal(access(named, F_OK), 0);
}

static void what_is_no_file_beside_a_store_is_refused(void **state)
{
  static const char *const suffixes[] = {"-journal", "-wal", "-shm"};
  char path[256], beside[300];
  hr_error error = {.status = HR_OK};
  make_store(path_in(state, "a.db", path), 1);
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    snprintf(beside, sizeof beside, "%s%s", path, suffixes[i]);
    for (int link = 0; link <= 1; link++) {
      assert_int_equal(link ? symlink(path, beside) : mkfifo(beside, 0600), 0);
      hr_store *store = NULL;
      assert_fails(hr_store_open(path, HR_STORE_WRITE, &store, &error), HR_ERROR_UNREADABLE, error,
                   "is not a regular file");
      assert_int_equal(unlink(beside), 0);
    }
  }
  hr_store_close(open_store(path, HR_STORE_WRITE));
}

static void such_a_store_is_not_merged(void **state)
{
  char path[256], from[256];
  hr_error error = {.status = HR_OK};
  make_store(path_in(state, "b.db", from), 2);
  run_sql(from, tampering[0].sql);
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  assert_fails(hr_store_merge(store, from, NULL, &error), HR_ERROR_UNREADABLE, error, "b.db: is not a store");
  assert_int_equal(count_rows(store), 0);
  hr_store_close(store);
}

static void a_store_with_statistics_and_indices_of_its_owner_is_read(void **state)
{
  char path[256];
  make_store(path_in(state, "a.db", path), 2);
  run_sql(path, "CREATE INDEX i ON results (product); ALTER TABLE results ADD COLUMN remark TEXT; ANALYZE; VACUUM");
  hr_store *store = open_store(path, HR_STORE_WRITE);
  append_row(store, 3);
  assert_int_equal(count_rows(store), 3);
  hr_store_close(store);
}

/* The check at opening has passed; then SQLite's own defences must hold. */
static void views_and_triggers_that_arrive_later_have_no_effect(void **state)
{
  char path[256];
  hr_error error = {.status = HR_OK};
  hr_result row;
  make_store(path_in(state, "a.db", path), 2);
  hr_store *store = open_store(path, HR_STORE_WRITE);
  run_sql(path, tampering[3].sql);
  append_row(store, 3);
  assert_int_equal(count_rows(store), 3);
  run_sql(path, "DROP TRIGGER t; ALTER TABLE results RENAME TO kept; CREATE VIEW results AS SELECT * FROM kept");
  assert_fails(hr_store_query(store, NULL, keep_row, &row, &error), HR_ERROR_UNREADABLE, error,
               "access to view \"results\" prohibited");
  hr_store_close(store);
}

static void sqlite_is_told_to_expect_the_worst(void **state)
{
  static const int wanted[][2] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                                  {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                                  {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                                  {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0}};
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    int value = -1;
    assert_int_equal(sqlite3_db_config(store->database, wanted[i][0], -1, &value), SQLITE_OK);
    assert_int_equal(value, wanted[i][1]);
  }
  assert_int_equal(sqlite3_limit(store->database, SQLITE_LIMIT_LENGTH, -1), 1000000);
  assert_int_equal(sqlite3_limit(store->database, SQLITE_LIMIT_ATTACHED, -1), 0);
  sqlite3_stmt *statement;
  assert_int_equal(sqlite3_prepare_v2(store->database, "PRAGMA cell_size_check", -1, &statement, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
  assert_int_equal(sqlite3_column_int(statement, 0), 1);
  sqlite3_finalize(statement);
  hr_store_close(store);
}

/* ---- stopping ---- */

/* Says stop once it has been asked `*context` times. */
static int stop_after(void *context)
{
  int *left = context;
  return *left == 0 || --*left == 0;
}

static hr_store *open_stoppable(const char *path, hr_store_mode mode, int *left)
{
  hr_store *store = NULL;
  hr_error error = {.status = HR_OK};
  hr_store_options options = hr_store_options_default();
  options.cancelled = stop_after;
  options.context = left;
  assert_ok(hr_store_open_with(path, mode, &options, &store, &error), error);
  return store;
}

#define SOON 20 /* polls */

static void long_work_stops_when_the_caller_wants_it_and_changes_nothing(void **state)
{
  char path[256], from[256];
  int left = -1;
  int64_t count = 0;
  hr_result row;
  hr_error error = {.status = HR_OK};
  make_store(path_in(state, "a.db", path), 1);
  hr_store *source = open_store(path_in(state, "b.db", from), HR_STORE_WRITE);
  assert_int_equal(sqlite3_exec(source->database, "BEGIN", NULL, NULL, NULL), SQLITE_OK);
  for (int i = 0; i < 400; i++)
    append_row(source, i + 1);
  assert_int_equal(sqlite3_exec(source->database, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
  FILE *rows = tmpfile();
  assert_ok(hr_store_export(source, NULL, HR_STORE_CSV, rows, &error), error);
  rewind(rows);
  hr_store_close(source);

  hr_store *store = open_stoppable(path, HR_STORE_WRITE, &left), *large = open_stoppable(from, HR_STORE_WRITE, &left);
  left = SOON;
  assert_fails(hr_store_query(large, NULL, keep_row, &row, &error), HR_ERROR_INTERRUPTED, error, "stopped");
  left = 1;
  assert_fails(hr_store_delete(large, NULL, &count, &error), HR_ERROR_INTERRUPTED, error, "b.db: stopped");
  left = 1;
  assert_fails(hr_store_count(large, NULL, &count, &error), HR_ERROR_INTERRUPTED, error, "b.db: stopped");
  left = SOON;
  assert_fails(hr_store_import(store, rows, "rows", NULL, &error), HR_ERROR_INTERRUPTED, error, "stopped");
  left = SOON;
  assert_fails(hr_store_merge(store, from, NULL, &error), HR_ERROR_INTERRUPTED, error, "stopped");
  fclose(rows);
  hr_store_close(store);
  hr_store_close(large);
  assert_int_equal(count_in_file(path), 1);
  assert_int_equal(count_in_file(from), 400);
}

static void a_measured_row_is_stored_even_if_the_caller_stops(void **state)
{
  char path[256];
  int left = -1;
  hr_store *store = open_stoppable(path_in(state, "a.db", path), HR_STORE_WRITE, &left);
  hr_error error = {.status = HR_OK};
  left = 0;
  append_row(store, 1);
  hr_result row = some_result(2);
  bool added = false;
  assert_ok(hr_store_append_new(store, &row, &added, &error), error);
  assert_true(added);
  hr_store_close(store);
  assert_int_equal(count_in_file(path), 2);
}

static void an_abandoned_store_is_removed_even_if_the_caller_stops(void **state)
{
  char path[256];
  int left = -1;
  hr_store *store = open_stoppable(path_in(state, "a.db", path), HR_STORE_WRITE, &left);
  left = 0;
  hr_store_abandon(store);
  assert_int_equal(access(path, F_OK), -1);
}

static void a_wait_for_a_lock_stops_when_the_caller_wants_it(void **state)
{
  char path[256];
  int left = -1;
  hr_error error = {.status = HR_OK};
  make_store(path_in(state, "a.db", path), 1);
  hr_store *store = open_stoppable(path, HR_STORE_WRITE, &left);
  hr_store_set_patience(store, 3600 * 1000);
  sqlite3 *other;
  assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
  assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
  int64_t count;
  hr_result row = some_result(2);
  hr_store *second = NULL;
  hr_store_options options = hr_store_options_default();
  options.patience_ms = 3600 * 1000;
  options.cancelled = stop_after;
  options.context = &left;
  left = 3;
  assert_fails(hr_store_count(store, NULL, &count, &error), HR_ERROR_INTERRUPTED, error, "a.db: stopped");
  left = 3;
  assert_fails(hr_store_append(store, &row, &error), HR_ERROR_INTERRUPTED, error, "a.db: stopped");
  left = 3;
  assert_fails(hr_store_open_with(path, HR_STORE_READ, &options, &second, &error), HR_ERROR_INTERRUPTED, error,
               "a.db: stopped");
  assert_null(second);
  assert_int_equal(sqlite3_close(other), SQLITE_OK);
  hr_store_close(store);
}

/* ---- signals of the program that uses the library ---- */

typedef struct interrupted_input {
  const char *text;
  int interruptions; /* before the next byte */
} interrupted_input;

/* Reads a byte at a time, each after an interruption by a signal. */
static ssize_t read_slowly(void *context, char *to, size_t size)
{
  interrupted_input *in = context;
  if (in->interruptions-- > 0 && size > 0) {
    errno = EINTR;
    return -1;
  }
  in->interruptions = 1;
  *to = *in->text;
  in->text += *in->text != '\0';
  return *to != '\0';
}

static void a_signal_ends_an_import_only_if_the_caller_stops(void **state)
{
  static const char rows[] = "operation,dtype,batch,m,n,k,transpose_a,transpose_b,status\n"
                             "gemm,bf16,1,8,8,8,false,false,ok\n";
  char path[256];
  int left = -1;
  hr_error error = {.status = HR_OK};
  hr_store *store = open_stoppable(path_in(state, "a.db", path), HR_STORE_WRITE, &left);
  for (int stops = 0; stops <= 1; stops++) {
    interrupted_input input = {.text = rows, .interruptions = 1};
    FILE *in = fopencookie(&input, "r", (cookie_io_functions_t){.read = read_slowly});
    assert_non_null(in);
    left = stops ? SOON : -1;
    hr_status status = hr_store_import(store, in, "rows", NULL, &error);
    fclose(in);
    assert_int_equal(status, stops ? HR_ERROR_INTERRUPTED : HR_OK);
    left = -1;
    assert_int_equal(count_rows(store), 1);
  }
  hr_store_close(store);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(a_store_with_objects_of_others_is_refused),
      IN_FOLDER(such_a_store_is_not_merged),
      IN_FOLDER(no_file_is_deleted_that_a_journal_names),
      IN_FOLDER(what_is_no_file_beside_a_store_is_refused),
      IN_FOLDER(a_store_with_statistics_and_indices_of_its_owner_is_read),
      IN_FOLDER(views_and_triggers_that_arrive_later_have_no_effect),
      IN_FOLDER(sqlite_is_told_to_expect_the_worst),
      IN_FOLDER(long_work_stops_when_the_caller_wants_it_and_changes_nothing),
      IN_FOLDER(a_measured_row_is_stored_even_if_the_caller_stops),
      IN_FOLDER(an_abandoned_store_is_removed_even_if_the_caller_stops),
      IN_FOLDER(a_wait_for_a_lock_stops_when_the_caller_wants_it),
      IN_FOLDER(a_signal_ends_an_import_only_if_the_caller_stops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
