/* SPDX-License-Identifier: Apache-2.0 */
/* Models over ranks for tests: a thread, a device and a communicator for each. */
#ifndef HEADROOM_TEST_RANKS_H
#define HEADROOM_TEST_RANKS_H

#include "machine.h"

#include "base/error.h"
#include "runtime/communicator/communicator.h"

#include <headroom/experimental/communicator.h>
#include <headroom/experimental/run.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define TEST_RANKS_MAX 4

/** What every rank does: what it begins with, and its result. */
typedef struct test_rank {
  hr_device *device;
  hr_communicator *communicator; /* NULL: alone */
  hr_status status;
  hr_error error;
} test_rank;

/** The first member of *rank is its test_rank. */
typedef hr_status (*test_rank_fn)(void *rank);

static inline hr_model test_model(const char *name, const char *config)
{
  hr_model model;
  hr_error error;
  const hr_input input = {.name = name, .text = config, .length = strlen(config)};
  assert_ok(hr_model_from_json(&input, NULL, NULL, &model, &error), error);
  return model;
}

/** The CPU, or with HEADROOM_TEST=gpu the GPU of that number; NULL: there is none. The caller closes it. */
static inline hr_device *test_rank_device(int64_t rank)
{
  hr_device *device = NULL;
  char name[16] = "cpu";
  if (test_asks_for("gpu"))
    snprintf(name, sizeof name, "cuda:%d", (int)rank);
  return hr_device_open(name, 1, &device, NULL) == HR_OK ? device : NULL;
}

/** How many ranks have a device of their own. Whole models do not share a real GPU: it loads their programs while no
 *  kernel waits. */
static inline int64_t test_ranks(void)
{
  int64_t most = 0;
  for (hr_device *device; most < TEST_RANKS_MAX && (device = test_rank_device(most)); most++)
    hr_device_close(device);
  return most;
}

typedef struct test_rank_thread {
  pthread_t thread;
  test_rank_fn run;
  test_rank *rank;
} test_rank_thread;

static inline void *test_rank_main(void *argument)
{
  const test_rank_thread *t = argument;
  test_rank *r = t->rank;
  r->status = t->run(r);
  if (r->status != HR_OK && r->communicator)
    hr_communicator_give_up(r->communicator, r->error.message);
  return NULL;
}

/** Runs `count` ranks of `bytes` each at the same time. Those that have no GPU of their own share the first. */
static inline void test_run_ranks(void *ranks, size_t bytes, int64_t count, test_rank_fn run)
{
  hr_device *devices[TEST_RANKS_MAX];
  hr_communicator *communicators[TEST_RANKS_MAX];
  test_rank_thread threads[TEST_RANKS_MAX];
  hr_error error;
  for (int64_t i = 0; i < count; i++) {
    devices[i] = test_rank_device(i);
    if (!devices[i])
      assert_non_null(devices[i] = test_rank_device(0));
  }
  const hr_communicator_options options = hr_communicator_options_default();
  assert_ok(hr_communicators_connect(devices, count, &options, communicators, &error), error);
  for (int64_t i = 0; i < count; i++) {
    test_rank *r = (test_rank *)(void *)((char *)ranks + (size_t)i * bytes);
    *r = (test_rank){.device = devices[i], .communicator = count > 1 ? communicators[i] : NULL};
    threads[i] = (test_rank_thread){.run = run, .rank = r};
    assert_int_equal(pthread_create(&threads[i].thread, NULL, test_rank_main, &threads[i]), 0);
  }
  for (int64_t i = 0; i < count; i++)
    pthread_join(threads[i].thread, NULL);
  for (int64_t i = 0; i < count; i++) {
    hr_communicator_free(communicators[i]);
    hr_device_close(devices[i]);
  }
}

#endif
