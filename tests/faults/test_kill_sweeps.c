/* SPDX-License-Identifier: Apache-2.0 */
/* Four processes measure one sweep into one store and are killed at random moments, again and again. The store is
 * whole, has every point that one of them was told is stored, once, and the next processes go on without help.
 *
 * HEADROOM_TEST=whole: 100 moments, otherwise 5. HEADROOM_TEST_SEED chooses them. */
#include "stored.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define WRITERS 4
#define POINTS 300

static hr_sweep *long_sweep(void)
{
  static const char text[] = "{\"name\":\"long\",\"x\":\"m\",\"axes\":{\"m\":{\"from\":1,\"to\":300,\"step\":1}},"
                             "\"series\":\"all\",\"problem\":{\"kind\":\"gemm\",\"m\":\"m\",\"n\":1,\"k\":1}}";
  hr_sweep *sweep = NULL;
  if (hr_sweep_from_json(&(hr_input){.text = text, .length = sizeof text - 1, .name = "sweep.json"}, NULL, false,
                         &sweep, NULL) != HR_OK)
    _exit(1);
  return sweep;
}

typedef struct telling {
  int pipe;
  int64_t measured;
  int32_t point; /* m of the point that is being measured */
} telling;

/* Tells the parent which point has its row. */
static int tell(void *context, const hr_sweep_progress *now)
{
  telling *t = context;
  if (now->measured > t->measured && write(t->pipe, &t->point, sizeof t->point) != (ssize_t)sizeof t->point)
    _exit(3);
  t->measured = now->measured;
  const char *m = now->what ? strstr(now->what, " m=") : NULL;
  t->point = m ? (int32_t)strtol(m + 3, NULL, 10) : 0;
  return 0;
}

/* In a child, which must not run cmocka's assertions. */
static void measure_and_tell(const char *path, int pipe)
{
  hr_error error = {.message = ""};
  hr_device *device = NULL;
  hr_store *store = NULL;
  hr_sweep_options options = hr_sweep_options_default();
  options.time_limit_ns = 1e5;
  options.dtype = HR_FP32;
  telling t = {.pipe = pipe};
  options.progress = tell, options.context = &t;
  hr_status status = hr_device_open("reference", 0, &device, &error);
  if (status == HR_OK)
    status = hr_store_open(path, HR_STORE_WRITE, &store, &error);
  if (status == HR_OK)
    status = hr_sweep_run(long_sweep(), device, store, &options, NULL, &error);
  if (status != HR_OK)
    fprintf(stderr, "%s\n", error.message);
  _exit(status == HR_OK ? 0 : 2);
}

typedef struct work {
  char path[256];
  bool told[POINTS + 1], stored[POINTS + 1];
  uint64_t random;
  int killed, finished;
} work;

static uint64_t next_random(work *w)
{
  uint64_t z = w->random += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static int note_stored(void *context, const hr_result *result)
{
  work *w = context;
  assert_in_range(result->gemm.m, 1, POINTS);
  assert_false(w->stored[result->gemm.m]); /* once */
  w->stored[result->gemm.m] = true;
  return 0;
}

static void assert_nothing_is_lost(work *w)
{
  hr_error error = {.status = HR_OK};
  memset(w->stored, 0, sizeof w->stored);
  hr_store *store = open_left(w->path);
  if (store)
    assert_ok(hr_store_query(store, NULL, note_stored, w, &error), error);
  hr_store_close(store);
  assert_integrity(w->path, "after a kill");
  for (int m = 1; m <= POINTS; m++) {
    if (w->told[m] && !w->stored[m])
      fail_msg("the row of m = %d was acknowledged and is lost", m);
  }
}

static void start(work *w, pid_t children[WRITERS], int ends[2])
{
  assert_int_equal(pipe(ends), 0);
  for (int i = 0; i < WRITERS; i++) {
    children[i] = fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0) {
      close(ends[0]);
      measure_and_tell(w->path, ends[1]);
    }
  }
  close(ends[1]);
}

static void wait_for(work *w, pid_t child, int signal)
{
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) {
    assert_int_equal(WTERMSIG(status), signal);
    w->killed++;
  } else {
    assert_int_equal(WEXITSTATUS(status), 0);
    w->finished += signal != 0; /* before it was killed */
  }
}

static void collect(work *w, int end)
{
  int32_t m;
  while (read(end, &m, sizeof m) == (ssize_t)sizeof m) {
    assert_in_range(m, 1, POINTS);
    w->told[m] = true;
  }
  close(end);
}

/* The first is killed at a random moment, each other one at another moment soon after. */
static void run_and_kill(work *w)
{
  pid_t children[WRITERS];
  int ends[2];
  start(w, children, ends);
  for (int i = 0; i < WRITERS; i++) {
    const struct timespec pause = {.tv_nsec = (long)(next_random(w) % (i == 0 ? 60000000 : 5000000))};
    nanosleep(&pause, NULL);
    assert_int_equal(kill(children[i], SIGKILL), 0);
  }
  for (int i = 0; i < WRITERS; i++)
    wait_for(w, children[i], SIGKILL);
  collect(w, ends[0]);
}

static void finish(work *w)
{
  pid_t children[WRITERS];
  int ends[2];
  start(w, children, ends);
  for (int i = 0; i < WRITERS; i++)
    wait_for(w, children[i], 0);
  collect(w, ends[0]);
  assert_nothing_is_lost(w);
  for (int m = 1; m <= POINTS; m++)
    assert_true(w->stored[m]);
}

static void sweeps_that_are_killed_lose_no_row_and_go_on(void **state)
{
  const char *seed = getenv("HEADROOM_TEST_SEED");
  work w = {.random = seed ? strtoull(seed, NULL, 10) : 19};
  int moments = test_asks_for("whole") ? 100 : 5, finished = 0;
  path_in(state, "a.db", w.path);
  for (int i = 0; i < moments; i++) {
    run_and_kill(&w);
    assert_nothing_is_lost(&w);
    if (w.finished > finished) {
      finished = w.finished;
      finish(&w);
      assert_int_equal(unlink(w.path), 0);
      memset(w.told, 0, sizeof w.told);
    }
  }
  finish(&w);
  print_message("%d processes killed at %d moments, %d had finished\n", w.killed, moments, w.finished);
  assert_true(w.killed > moments);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(sweeps_that_are_killed_lose_no_row_and_go_on, make_folder_in_memory,
                                      remove_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
