/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads and as processes: what they send each other, and what they say when one is missing, asks for
 * something else, gives up or ends. */
#include "machine.h"

#include "base/error.h"
#include "shape/number.h"

#include <headroom/experimental/collective.h>
#include <headroom/experimental/communicator.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS_MAX 5
#define COUNT_MAX 600

static void assert_says(const char *message, const char *part)
{
  if (!strstr(message, part))
    fail_msg("'%s' does not say '%s'", message, part);
}

/* ---- ranks as threads ---- */

typedef struct rank_thread rank_thread;
struct rank_thread {
  hr_communicator *communicator;
  int64_t rank, size;
  void (*run)(rank_thread *t);
  hr_status status;
  hr_error error;
};

static void *main_of(void *argument)
{
  rank_thread *t = argument;
  t->run(t);
  return NULL;
}

static void run_ranks(int64_t size, double patience_s, void (*run)(rank_thread *t), rank_thread *ranks)
{
  hr_device *devices[RANKS_MAX];
  hr_communicator *communicators[RANKS_MAX];
  pthread_t threads[RANKS_MAX];
  hr_error error;
  hr_communicator_options options = hr_communicator_options_default();
  options.patience_s = patience_s;
  for (int64_t i = 0; i < size; i++)
    assert_ok(hr_device_open("cpu", 1, &devices[i], &error), error);
  assert_ok(hr_communicators_create(devices, size, &options, communicators, &error), error);
  for (int64_t i = 0; i < size; i++) {
    ranks[i] = (rank_thread){.communicator = communicators[i], .rank = i, .size = size, .run = run};
    assert_int_equal(pthread_create(&threads[i], NULL, main_of, &ranks[i]), 0);
  }
  for (int64_t i = 0; i < size; i++)
    pthread_join(threads[i], NULL);
  for (int64_t i = 0; i < size; i++) {
    hr_communicator_free(communicators[i]);
    hr_device_close(devices[i]);
  }
}

/* ---- what arrives ---- */

/* Element i of what a rank sends: sums of few of them are exact in every format. */
static double element_of(int64_t rank, int64_t i)
{
  return (double)((rank * 7 + i * 3) % 32) - 8;
}

static double sum_of(int64_t size, int64_t i)
{
  double sum = 0;
  for (int64_t r = 0; r < size; r++)
    sum += element_of(r, i);
  return sum;
}

static double expected(const hr_collective_call *c, int64_t size, int64_t rank, int64_t i)
{
  const int64_t part = c->count / size;
  switch (c->kind) {
  case HR_ALL_REDUCE: return sum_of(size, i);
  case HR_REDUCE_SCATTER: return sum_of(size, rank * part + i);
  case HR_ALL_GATHER: return element_of(i / part, i % part);
  case HR_ALL_TO_ALL: return element_of(i / part, rank * part + i % part);
  case HR_BROADCAST: return element_of(c->peer, i);
  case HR_POINT_TO_POINT: return element_of(c->source, i);
  case HR_COLLECTIVE_COUNT: break;
  }
  return 0;
}

/* Where a call in place has its result; `receive` of any other. */
static void set_places(const hr_communicator *c, bool in_place, char *send, char *receive, hr_collective_call *call)
{
  const size_t element = hr_dtype_bytes(call->dtype), part = (size_t)(call->count / hr_communicator_size(c)) * element;
  const size_t own = (size_t)hr_communicator_rank(c) * part;
  call->send = send;
  call->receive = receive;
  if (in_place && call->kind == HR_ALL_GATHER)
    call->receive = send - own;
  else if (in_place)
    call->receive = send + (call->kind == HR_REDUCE_SCATTER ? own : 0);
}

static int check_result(const hr_communicator *c, const hr_collective_call *call, bool in_place, hr_error *error)
{
  const int64_t size = hr_communicator_size(c), rank = hr_communicator_rank(c);
  const int64_t received = call->kind == HR_REDUCE_SCATTER ? call->count / size : call->count;
  for (int64_t i = 0; i < received; i++) {
    if (hr_number_load(call->dtype, call->receive, (size_t)i) != expected(call, size, rank, i))
      return (int)hr_fail(error, HR_ERROR_INVALID, "element %d of a %s of %d in %s is wrong", (int)i,
                          hr_collective_name(call->kind), (int)call->count, hr_dtype_name(call->dtype));
  }
  uint32_t behind = UINT32_MAX; /* nothing is written there */
  if (!in_place && hr_dtype_bytes(call->dtype) == sizeof behind)
    memcpy(&behind, (const char *)call->receive + (size_t)received * sizeof behind, sizeof behind);
  return behind != UINT32_MAX;
}

/* In two calls, if it is in parts. */
static hr_status communicate(hr_communicator *communicator, hr_collective_call call, hr_error *error)
{
  if (call.part == HR_CALL_WHOLE)
    return hr_communicate(communicator, &call, NULL, error);
  call.part = HR_CALL_BEGIN;
  const hr_status begun = hr_communicate(communicator, &call, NULL, error);
  call.part = HR_CALL_END;
  return begun != HR_OK ? begun : hr_communicate(communicator, &call, NULL, error);
}

/* 0: right. */
static int try_call(hr_communicator *communicator, hr_collective_call call, bool in_place, hr_error *error)
{
  const int64_t size = hr_communicator_size(communicator), rank = hr_communicator_rank(communicator);
  const int64_t sent = call.kind == HR_ALL_GATHER ? call.count / size : call.count;
  const size_t bytes = (size_t)(call.count + 1) * sizeof(float), element = hr_dtype_bytes(call.dtype);
  char *all = malloc(bytes), *receive = malloc(bytes);
  char *send = all + (in_place && call.kind == HR_ALL_GATHER ? (size_t)(rank * sent) * element : 0);
  memset(receive, 0xff, bytes); /* NaN */
  for (int64_t i = 0; i < sent; i++)
    hr_number_store(call.dtype, send, (size_t)i, element_of(rank, i));
  set_places(communicator, in_place, send, receive, &call);
  const int wrong =
      communicate(communicator, call, error) != HR_OK ? 1 : check_result(communicator, &call, in_place, error);
  free(all);
  free(receive);
  return wrong;
}

static int try_all(hr_communicator *communicator, hr_error *error)
{
  static const hr_dtype dtypes[] = {HR_FP32, HR_BF16, HR_FP16};
  static const int64_t parts[] = {0, 1, 3, 17, 120};
  const int64_t size = hr_communicator_size(communicator), rank = hr_communicator_rank(communicator);
  for (int kind = 0; kind < HR_COLLECTIVE_COUNT; kind++) {
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
      for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        hr_collective_call call = hr_collective_call_default();
        call.kind = (hr_collective_kind)kind;
        call.dtype = dtypes[d];
        call.count = parts[p] * size;
        call.peer = kind == HR_BROADCAST ? size - 1 : (rank + 1) % size;
        call.source = (rank + size - 1) % size;
        const bool may_replace = kind != HR_ALL_TO_ALL && kind != HR_POINT_TO_POINT;
        if (try_call(communicator, call, false, error) || (may_replace && try_call(communicator, call, true, error)))
          return 1;
      }
    }
  }
  return 0;
}

static void run_all(rank_thread *t)
{
  t->status = try_all(t->communicator, &t->error) == 0 ? HR_OK : HR_ERROR_INVALID;
}

static void test_arrives(void **state)
{
  (void)state;
  rank_thread ranks[RANKS_MAX];
  for (int64_t size = 1; size <= RANKS_MAX; size++) {
    run_ranks(size, 60, run_all, ranks);
    for (int64_t i = 0; i < size; i++)
      assert_ok(ranks[i].status, ranks[i].error);
  }
}

/* Parts of more than the 4 MiB that a piece has, and of no whole number of them. */
static void run_large(rank_thread *t)
{
  static const hr_collective_kind kinds[] = {HR_ALL_REDUCE, HR_REDUCE_SCATTER, HR_ALL_GATHER};
  int wrong = 0;
  for (int i = 0; i < 6; i++) {
    hr_collective_call call = hr_collective_call_default();
    call.kind = kinds[i % 3];
    call.dtype = i < 3 ? HR_FP32 : HR_BF16;
    call.count = 2200001 * t->size;
    wrong = wrong || try_call(t->communicator, call, i % 2 == 1, &t->error);
  }
  for (int64_t large = 0; large < 2; large++) {
    hr_collective_call call = hr_collective_call_default();
    call.part = HR_CALL_BEGIN;
    call.count = large ? 1200001 : 17;
    wrong =
        wrong || try_call(t->communicator, call, false, &t->error) || try_call(t->communicator, call, true, &t->error);
  }
  t->status = wrong ? HR_ERROR_INVALID : HR_OK;
}

static void test_pieces(void **state)
{
  (void)state;
  rank_thread ranks[RANKS_MAX];
  run_ranks(3, 60, run_large, ranks);
  for (int64_t i = 0; i < 3; i++)
    assert_ok(ranks[i].status, ranks[i].error);
}

/* ---- ranks that fail ---- */

static hr_status add_up(hr_communicator *c, int64_t count, hr_error *error)
{
  float numbers[COUNT_MAX] = {0};
  hr_collective_call call = hr_collective_call_default();
  call.count = count;
  call.send = call.receive = numbers;
  return hr_communicate(c, &call, NULL, error);
}

static void ask_for_other(rank_thread *t)
{
  t->status = add_up(t->communicator, t->rank == 2 ? 8 : 16, &t->error);
}

static void stay_away(rank_thread *t)
{
  t->status = t->rank == 1 ? HR_ERROR_UNAVAILABLE : add_up(t->communicator, 4, &t->error);
  if (t->rank != 1)
    assert_int_equal(add_up(t->communicator, 4, NULL), HR_ERROR_UNAVAILABLE); /* at once */
}

static void leave_off(rank_thread *t)
{
  if (t->rank == 0)
    hr_communicator_give_up(t->communicator, "its disk is full");
  t->status = add_up(t->communicator, 4, &t->error);
}

static void test_failures(void **state)
{
  (void)state;
  static const struct {
    void (*run)(rank_thread *t);
    hr_status status;
    int64_t silent; /* this rank says nothing */
    const char *text;
  } cases[] = {
      {ask_for_other, HR_ERROR_INVALID, -1, "rank 2 asks for an all_reduce of 8 fp32, rank 0 for an all_reduce of 16"},
      {stay_away, HR_ERROR_UNAVAILABLE, 1, "rank 1 of 3 has not come to all_reduce (exchange 1) within 0.2 s"},
      {leave_off, HR_ERROR_UNAVAILABLE, -1, "rank 0 of 3 gave up: its disk is full"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rank_thread ranks[RANKS_MAX];
    run_ranks(3, 0.2, cases[i].run, ranks);
    for (int64_t r = 0; r < 3; r++) {
      assert_int_equal(ranks[r].status, cases[i].status);
      if (r != cases[i].silent)
        assert_says(ranks[r].error.message, cases[i].text);
    }
  }
}

static void test_refusals(void **state)
{
  (void)state;
  hr_device *cpu, *reference;
  hr_communicator *c[2];
  hr_error error;
  assert_ok(hr_device_open("cpu", 1, &cpu, &error), error);
  assert_ok(hr_device_open("reference", 1, &reference, &error), error);
  assert_int_equal(hr_communicators_create((hr_device *[]){cpu, reference}, 2, NULL, c, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "cpu and reference are devices of two kinds");
  assert_int_equal(hr_communicators_create((hr_device *[]){cpu, cpu}, 2, NULL, c, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "cpu is given twice, as ranks 0 and 1");
  assert_int_equal(hr_communicators_create(&cpu, 0, NULL, c, &error), HR_ERROR_INVALID);
  assert_ok(hr_communicators_create(&cpu, 1, NULL, c, &error), error);
  assert_int_equal(hr_communicator_size(c[0]), 1);
  hr_collective_call call = hr_collective_call_default();
  call.count = 1;
  assert_int_equal(hr_communicate(c[0], &call, NULL, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "all_reduce: send is NULL");
  call.kind = HR_BROADCAST;
  call.peer = 1;
  assert_int_equal(hr_communicate(c[0], &call, NULL, &error), HR_ERROR_INVALID);
  call.peer = 0;
  call.dtype = HR_FP8_E4M3;
  assert_int_equal(hr_communicate(c[0], &call, NULL, &error), HR_ERROR_UNSUPPORTED);
  hr_communicator_free(c[0]);
  hr_device_close(reference);
  hr_device_close(cpu);
}

/* ---- ranks as processes ---- */

static int64_t free_port(void)
{
  return 20000 + getpid() % 20000;
}

/* The child processes get the port of their parent. */
static void in_children(int64_t size, int (*run)(int64_t rank, int64_t port), int *results)
{
  pid_t children[RANKS_MAX];
  const int64_t port = free_port();
  for (int64_t i = 0; i < size; i++) {
    children[i] = fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0)
      _exit(run(i, port));
  }
  for (int64_t i = 0; i < size; i++) {
    int status;
    waitpid(children[i], &status, 0);
    results[i] = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
}

static hr_status join_at(int64_t rank, int64_t port, hr_communicator **c, hr_error *error)
{
  hr_communicator_options options = hr_communicator_options_default();
  hr_device *device;
  options.rank = rank, options.size = 3, options.port = port, options.patience_s = 5;
  strcpy(options.address, "127.0.0.1");
  const hr_status status = hr_device_open("cpu", 1, &device, error);
  return status == HR_OK ? hr_communicator_join(device, &options, c, error) : status;
}

static int say(const hr_error *error)
{
  fprintf(stderr, "%s\n", error->message);
  return 1;
}

static int send_all_kinds(int64_t rank, int64_t port)
{
  hr_communicator *c;
  hr_error error;
  if (join_at(rank, port, &c, &error) != HR_OK || try_all(c, &error) != 0 || hr_communicator_meet(c, &error) != HR_OK)
    return say(&error);
  hr_communicator_free(c);
  return 0;
}

static int end_suddenly(int64_t rank, int64_t port)
{
  hr_communicator *c;
  hr_error error;
  if (join_at(rank, port, &c, &error) != HR_OK || add_up(c, 4, &error) != HR_OK)
    return say(&error);
  if (rank == 2)
    raise(SIGKILL);
  if (add_up(c, 4, &error) != HR_ERROR_UNAVAILABLE)
    return 2;
  return strncmp(error.message, "rank 2 of 3 is gone", strlen("rank 2 of 3 is gone")) == 0 ? 0 : say(&error);
}

static int come_twice(int64_t rank, int64_t port)
{
  hr_communicator *c;
  hr_error error;
  return join_at(rank == 2 ? 1 : rank, port, &c, &error) == HR_OK ? 1 : strstr(error.message, "there twice") ? 0 : 2;
}

static void test_processes(void **state)
{
  (void)state;
  int results[RANKS_MAX];
  in_children(3, send_all_kinds, results);
  for (int i = 0; i < 3; i++)
    assert_int_equal(results[i], 0);
  in_children(3, end_suddenly, results);
  assert_int_equal(results[0], 0);
  assert_int_equal(results[1], 0);
  assert_int_equal(results[2], -SIGKILL);
  in_children(3, come_twice, results);
  for (int i = 0; i < 3; i++)
    assert_true(results[i] != 1);
}

/* ---- launchers ---- */

static void clear_environment(void)
{
  static const char *const names[] = {"RANK",
                                      "WORLD_SIZE",
                                      "LOCAL_RANK",
                                      "LOCAL_WORLD_SIZE",
                                      "MASTER_ADDR",
                                      "MASTER_PORT",
                                      "HEADROOM_PORT",
                                      "SLURM_PROCID",
                                      "SLURM_STEP_NUM_TASKS",
                                      "SLURM_LOCALID",
                                      "SLURM_STEP_TASKS_PER_NODE",
                                      "SLURM_STEP_NODELIST",
                                      "SLURM_JOB_ID",
                                      "OMPI_COMM_WORLD_RANK",
                                      "OMPI_COMM_WORLD_SIZE",
                                      "OMPI_COMM_WORLD_LOCAL_RANK",
                                      "OMPI_COMM_WORLD_LOCAL_SIZE"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    unsetenv(names[i]);
}

static void test_environment(void **state)
{
  (void)state;
  static const struct {
    const char *variables[6][2];
    int64_t rank, size, local_rank, local_size, port;
    const char *address; /* NULL: an error with the text */
    const char *error;
  } cases[] = {
      {{{"RANK", "3"},
        {"WORLD_SIZE", "8"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"MASTER_ADDR", "node1"},
        {"MASTER_PORT", "29500"}},
       3,
       8,
       1,
       2,
       29501,
       "node1",
       NULL},
      {{{"SLURM_PROCID", "9"},
        {"SLURM_STEP_NUM_TASKS", "16"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_STEP_TASKS_PER_NODE", "4(x3),4"},
        {"SLURM_STEP_NODELIST", "gpu[07-08,11]"},
        {"SLURM_JOB_ID", "20005"}},
       9,
       16,
       1,
       4,
       20005,
       "gpu07",
       NULL},
      {{{"SLURM_PROCID", "0"},
        {"SLURM_STEP_NUM_TASKS", "2"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_STEP_NODELIST", "alpha,beta"},
        {"HEADROOM_PORT", "77"}},
       0,
       2,
       0,
       0,
       77,
       "alpha",
       NULL},
      {{{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
       1,
       2,
       1,
       2,
       29517,
       "127.0.0.1",
       NULL},
      {{{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}},
       1,
       2,
       0,
       1,
       29517,
       "",
       NULL},
      {{{"RANK", "8"}, {"WORLD_SIZE", "8"}}, 0, 0, 0, 0, 0, NULL, "RANK: expected 0 to 7, found '8'"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "two"}}, 0, 0, 0, 0, 0, NULL, "WORLD_SIZE: expected 1 to"},
      {{{"WORLD_SIZE", "2"}}, 0, 0, 0, 0, 0, NULL, "RANK is not set"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "5"}}, 0, 0, 0, 0, 0, NULL, "no launcher has set WORLD_SIZE"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_communicator_options o = hr_communicator_options_default();
    hr_error error;
    clear_environment();
    for (size_t k = 0; k < 6 && cases[i].variables[k][0]; k++)
      setenv(cases[i].variables[k][0], cases[i].variables[k][1], 1);
    const hr_status status = hr_communicator_environment(&o, &error);
    if (!cases[i].address) {
      assert_true(status != HR_OK);
      assert_says(error.message, cases[i].error);
      continue;
    }
    assert_ok(status, error);
    assert_int_equal(o.rank, cases[i].rank);
    assert_int_equal(o.size, cases[i].size);
    assert_int_equal(o.local_rank, cases[i].local_rank);
    assert_int_equal(o.local_size, cases[i].local_size);
    assert_int_equal(o.port, cases[i].port);
    assert_string_equal(o.address, cases[i].address);
  }
  clear_environment();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_processes), /* first: children of a process with threads would have none */
      cmocka_unit_test(test_arrives),   cmocka_unit_test(test_pieces),      cmocka_unit_test(test_failures),
      cmocka_unit_test(test_refusals),  cmocka_unit_test(test_environment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
