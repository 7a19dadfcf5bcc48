/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that are killed, and processes that write concurrently. */
#include "store.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

/* Appends rows m = first, first + 1, … until there are `count` or it is killed; reports each committed row with a byte
 * in the pipe. Children must not run cmocka's assertions. */
static void append_and_tell(const char *path, int64_t first, int64_t count, int tell)
{
  hr_store *store;
  hr_error error = {.message = ""};
  if (hr_store_open(path, HR_STORE_WRITE, &store, &error) != HR_OK)
    _exit(1);
  hr_store_set_patience(store, 60000);
  for (int64_t i = 0; i < count; i++) {
    hr_result row = some_result(first + i);
    if (hr_store_append(store, &row, &error) != HR_OK) {
      fprintf(stderr, "%s\n", error.message);
      _exit(2);
    }
    if (tell >= 0 && write(tell, "x", 1) != 1)
      _exit(3);
  }
  hr_store_close(store);
  _exit(0);
}

static int64_t drain(int pipe_end)
{
  char bytes[256];
  int64_t total = 0;
  for (ssize_t got; (got = read(pipe_end, bytes, sizeof bytes)) != 0;) {
    if (got > 0)
      total += got;
    else if (errno != EINTR)
      break;
  }
  return total;
}

/* Lets a child write for a while and kills it. Returns the number of rows that it reported. */
static int64_t run_and_kill(const char *path, int64_t first, long after_ns)
{
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    append_and_tell(path, first, INT64_MAX, ends[1]);
  }
  close(ends[1]);
  char byte;
  assert_int_equal(read(ends[0], &byte, 1), 1); /* the first row is committed */
  const struct timespec pause = {.tv_nsec = after_ns};
  nanosleep(&pause, NULL);
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, NULL, 0), child);
  int64_t told = 1 + drain(ends[0]);
  close(ends[0]);
  return told;
}

static int note_row(void *context, const hr_result *result)
{
  bool *seen = context;
  assert_false(seen[result->gemm.m]);
  seen[result->gemm.m] = true;
  return 0;
}

#define ROWS_MAX 200000

static void every_row_that_was_acknowledged_survives_kill_9(void **state)
{
  char path[256];
  path_in(state, "a.db", path);
  int64_t first[20], told[20];
  bool *seen = calloc(ROWS_MAX, 1);
  hr_error error = {.status = HR_OK};
  for (int i = 0; i < 20; i++) {
    first[i] = 1 + i * (ROWS_MAX / 20);
    told[i] = run_and_kill(path, first[i], 1000000 + i * 731000); /* at varying moments of a commit */
    assert_true(told[i] < ROWS_MAX / 20);
  }
  hr_store *store = open_store(path, HR_STORE_READ);
  assert_ok(hr_store_query(store, NULL, note_row, seen, &error), error);
  hr_store_close(store);
  for (int i = 0; i < 20; i++) {
    for (int64_t row = 0; row < told[i]; row++)
      assert_true(seen[first[i] + row]);
    assert_false(seen[first[i] + told[i] + 1]); /* at most the row in progress is there unacknowledged */
  }
  free(seen);
}

static void a_row_half_written_by_a_killed_process_does_not_block_a_reader(void **state)
{
  char path[256];
  path_in(state, "a.db", path);
  for (int i = 0; i < 10; i++) {
    int64_t told = run_and_kill(path, 1, 500000 + i * 317000);
    int64_t count = count_in_file(path);
    assert_true(count >= told && count <= told + 1);
    assert_int_equal(unlink(path), 0);
  }
}

#define WRITERS 3
#define ROWS_EACH 40

static void concurrent_writers_lose_no_row(void **state)
{
  char path[256];
  path_in(state, "a.db", path);
  pid_t children[WRITERS];
  for (int i = 0; i < WRITERS; i++) {
    children[i] = fork(); /* the file does not exist yet, so they also create it concurrently */
    if (children[i] == 0)
      append_and_tell(path, 1 + i * ROWS_EACH, ROWS_EACH, -1);
  }
  for (int i = 0; i < WRITERS; i++) {
    int status = -1;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
  assert_int_equal(count_in_file(path), WRITERS * ROWS_EACH);
}

/* Reports each row that it added. */
static void append_new_and_tell(const char *path, int tell)
{
  hr_store *store;
  hr_error error = {.message = ""};
  if (hr_store_open(path, HR_STORE_WRITE, &store, &error) != HR_OK)
    _exit(1);
  hr_store_set_patience(store, 60000);
  for (int64_t i = 0; i < ROWS_EACH; i++) {
    bool added = false;
    hr_result row = some_result(1 + i);
    if (hr_store_append_new(store, &row, &added, &error) != HR_OK) {
      fprintf(stderr, "%s\n", error.message);
      _exit(2);
    }
    if (added && write(tell, "x", 1) != 1)
      _exit(3);
  }
  hr_store_close(store);
  _exit(0);
}

static void concurrent_writers_of_the_same_points_add_each_once(void **state)
{
  char path[256];
  path_in(state, "a.db", path);
  int ends[2];
  pid_t children[WRITERS];
  assert_int_equal(pipe(ends), 0);
  for (int i = 0; i < WRITERS; i++) {
    children[i] = fork();
    if (children[i] == 0)
      append_new_and_tell(path, ends[1]);
  }
  close(ends[1]);
  assert_int_equal(drain(ends[0]), ROWS_EACH);
  close(ends[0]);
  for (int i = 0; i < WRITERS; i++) {
    int status = -1;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  assert_int_equal(count_in_file(path), ROWS_EACH);
}

static void a_killed_writer_does_not_stop_the_other(void **state)
{
  char path[256];
  path_in(state, "a.db", path);
  hr_store *store = open_store(path, HR_STORE_WRITE);
  hr_store_set_patience(store, 60000);
  int64_t mine = 0;
  for (int i = 0; i < 5; i++) {
    run_and_kill(path, 1, 2000000);
    append_row(store, 100 + i);
    mine++;
  }
  hr_result_filter filter = hr_result_filter_default();
  filter.last = 1;
  hr_error error = {.status = HR_OK};
  bool *seen = calloc(ROWS_MAX, 1);
  assert_ok(hr_store_query(store, &filter, note_row, seen, &error), error);
  assert_true(seen[104]);
  free(seen);
  assert_true(count_rows(store) > mine);
  hr_store_close(store);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(every_row_that_was_acknowledged_survives_kill_9),
      IN_FOLDER(a_row_half_written_by_a_killed_process_does_not_block_a_reader),
      IN_FOLDER(concurrent_writers_lose_no_row),
      IN_FOLDER(concurrent_writers_of_the_same_points_add_each_once),
      IN_FOLDER(a_killed_writer_does_not_stop_the_other),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
