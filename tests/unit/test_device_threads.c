/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that several threads run on several streams, and workspaces that several plans use one after the other. */
#include "cuda_program.h"
#include "kernel_calls.h"

#include <pthread.h>

#define THREADS 8
#define STREAMS 8 /* of a thread */
#define REPLAYS 2

/* One thread's streams, with an output and a workspace for each. */
typedef struct worker {
  const program *p;
  const kernel_call *call;
  int streams;
  cu_stream stream[STREAMS];
  hr_buffer *output[STREAMS], *workspace[STREAMS];
  cu_graph_exec graph;
  hr_status status;
  hr_error error;
  pthread_t thread;
} worker;

static void make_worker(worker *w, const program *p, const kernel_call *c, int streams)
{
  *w = (worker){.p = p, .call = c, .streams = streams};
  for (int i = 0; i < streams; i++) {
    w->stream[i] = make_stream(p);
    w->output[i] = make_operand(c->device, output_bytes(c), HR_BF16, 77);
    w->workspace[i] = make_workspace(c);
  }
}

static void free_worker(const worker *w)
{
  for (int i = 0; i < w->streams; i++) {
    assert_int_equal(w->p->driver.cuStreamDestroy_v2(w->stream[i]), CU_SUCCESS);
    hr_buffer_free(w->output[i]);
    hr_buffer_free(w->workspace[i]);
  }
}

static void start(worker *w, int i)
{
  hr_arguments x = arguments_to(w->call, w->output[i]);
  if (w->status == HR_OK)
    w->status = run_arguments(w->call->plan, &x, w->workspace[i], w->stream[i], &w->error);
}

/* Threads call this, so nothing here may end the test. */
static void *run_on_each_stream(void *argument)
{
  worker *w = argument;
  for (int i = 0; i < w->streams; i++)
    start(w, i);
  return NULL;
}

static void start_threads(worker *workers, int count, void *(*work)(void *))
{
  for (int i = 0; i < count; i++)
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  for (int i = 0; i < count; i++)
    pthread_join(workers[i].thread, NULL);
  for (int i = 0; i < count; i++)
    assert_ok(workers[i].status, workers[i].error);
}

static void expect_outputs(const worker *w, const char *expected)
{
  static char found[CALL_BYTES_MAX];
  hr_error error;
  for (int i = 0; i < w->streams; i++) {
    assert_int_equal(w->p->driver.cuStreamSynchronize(w->stream[i]), CU_SUCCESS);
    assert_ok(hr_buffer_read(w->output[i], found, output_bytes(w->call), &error), error);
    if (memcmp(found, expected, output_bytes(w->call)) != 0)
      fail_msg("%s: another result than alone on stream %d", hr_plan_kernel(w->call->plan), i);
  }
}

static const program *shared_program; /* of each_kernel_of()'s checks */

/* Kernels with counters are run by all threads on all streams, others by two on one each. */
static void share_plan(const kernel_call *c)
{
  static char expected[CALL_BYTES_MAX];
  const bool counts = c->plan->kernel->functions->counters;
  const int threads = counts ? THREADS : 2, streams = counts ? STREAMS : 1;
  worker workers[THREADS];
  run_alone(c, expected);
  for (int i = 0; i < threads; i++)
    make_worker(&workers[i], shared_program, c, streams);
  start_threads(workers, threads, run_on_each_stream);
  for (int i = 0; i < threads; i++) {
    expect_outputs(&workers[i], expected);
    free_worker(&workers[i]);
  }
}

static void threads_run_one_plan_on_many_streams(void **state)
{
  shared_program = need_gpu(state);
  hr_device *device = open_gpu();
  assert_true(each_kernel_of(device, share_plan) > 0);
  hr_device_close(device);
}

/* ---- graphs ---- */

static void capture(worker *w)
{
  const hr_driver *driver = &w->p->driver;
  cu_graph graph = NULL;
  assert_int_equal(driver->cuStreamBeginCapture_v2(w->stream[0], CU_CAPTURE_THREAD_LOCAL), CU_SUCCESS);
  start(w, 0);
  assert_ok(w->status, w->error);
  assert_int_equal(driver->cuStreamEndCapture(w->stream[0], &graph), CU_SUCCESS);
  assert_int_equal(driver->cuGraphInstantiateWithFlags(&w->graph, graph, 0), CU_SUCCESS);
  assert_int_equal(driver->cuGraphDestroy(graph), CU_SUCCESS);
}

static void *replay(void *argument)
{
  worker *w = argument;
  const hr_driver *driver = &w->p->driver;
  cu_context popped;
  cu_result result = driver->cuCtxPushCurrent_v2(w->p->primary);
  for (int i = 0; i < REPLAYS && result == CU_SUCCESS; i++)
    result = driver->cuGraphLaunch(w->graph, w->stream[0]);
  driver->cuCtxPopCurrent_v2(&popped);
  w->status = hr_driver_check(driver, result, "cuGraphLaunch", &w->error);
  return NULL;
}

static void replay_two(const kernel_call *c)
{
  static char expected[CALL_BYTES_MAX];
  worker workers[2];
  run_alone(c, expected);
  for (int i = 0; i < 2; i++) {
    make_worker(&workers[i], shared_program, c, 1);
    capture(&workers[i]);
  }
  start_threads(workers, 2, replay);
  for (int i = 0; i < 2; i++) {
    expect_outputs(&workers[i], expected);
    assert_int_equal(shared_program->driver.cuGraphExecDestroy(workers[i].graph), CU_SUCCESS);
    free_worker(&workers[i]);
  }
}

static void two_graphs_of_one_plan_are_replayed_at_the_same_time(void **state)
{
  shared_program = need_gpu(state);
  hr_device *device = open_gpu();
  assert_true(each_kernel_of(device, replay_two) > 0);
  hr_device_close(device);
}

/* ---- one workspace ---- */

#define WORKSPACE_BYTES ((size_t)32 << 20)

static hr_buffer *common;

static void expect_counters_of_0(const char *kernel)
{
  static int32_t counters[HR_WORKSPACE_COUNTERS];
  hr_error error;
  assert_ok(hr_buffer_read(common, counters, sizeof counters, &error), error);
  for (int i = 0; i < HR_WORKSPACE_COUNTERS; i++)
    if (counters[i] != 0)
      fail_msg("%s leaves counter %d at %d", kernel, i, counters[i]);
}

static void run_in_common(const kernel_call *c)
{
  static char expected[CALL_BYTES_MAX], found[CALL_BYTES_MAX];
  hr_error error;
  hr_arguments x = arguments_to(c, output_of(c));
  run_alone(c, expected);
  assert_true(hr_plan_workspace_bytes(c->plan) <= WORKSPACE_BYTES);
  for (int i = 0; i < 2; i++) {
    assert_ok(run_arguments(c->plan, &x, common, hr_device_stream(c->device), &error), error);
    expect_counters_of_0(hr_plan_kernel(c->plan));
  }
  assert_ok(hr_buffer_read(output_of(c), found, output_bytes(c), &error), error);
  assert_memory_equal(found, expected, output_bytes(c));
}

static void one_workspace_serves_all_plans_in_turn_and_its_counters_stay_0(void **state)
{
  (void)state;
  hr_device *device = open_gpu();
  hr_error error;
  assert_ok(hr_buffer_create(device, WORKSPACE_BYTES, &common, &error), error);
  assert_true(each_kernel_of(device, run_in_common) > 0);
  hr_buffer_free(common);
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_run_one_plan_on_many_streams),
      cmocka_unit_test(two_graphs_of_one_plan_are_replayed_at_the_same_time),
      cmocka_unit_test(one_workspace_serves_all_plans_in_turn_and_its_counters_stay_0),
  };
  return cmocka_run_group_tests(tests, start_program, end_program);
}
