/* SPDX-License-Identifier: Apache-2.0 */
/* What calls cost on a GPU beside their kernels' time, a line each:
 *   run      host time of a run, and over that of a bare cuLaunchKernel, interleaved
 *   plans    host time of finding a plan in a cache of plans
 *   plan     host time of making a plan whose program is in the disk cache: first on a device, and again
 *   streams  small decode calls on two streams, over as many on one
 *   bounds   a plan for 64 sequences that runs fewer, over a plan made for them
 * call_costs [DEVICE]; run it twice for `plan`: the first time fills the disk cache. */
#include "base/error.h"
#include "runtime/cuda/driver/graph.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/driver/timing.h"
#include "runtime/device/clock.h"
#include "runtime/device/plan.h"
#include "runtime/measure/statistics.h"

#include <headroom/headroom.h>

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 41
#define BATCH 100   /* runs between two waits: fewer than the driver queues */
#define ASKED 16    /* problems in the cache */
#define CALLS 400   /* of a stream */
#define SMALL 2048  /* tokens of its calls */
#define GROUP 20    /* runs of a timed graph */
#define TOKENS 4096 /* of a sequence of the bounds */

static hr_error error;

static void must(hr_status status)
{
  if (status == HR_OK)
    return;
  fprintf(stderr, "call_costs: %s\n", error.message);
  exit(1);
}

static double median(double *times, int count)
{
  return hr_median_of(times, count).value;
}

/* ---- one call of each operation ---- */

typedef struct call {
  const char *name;
  hr_plan *plan;
  hr_arguments arguments;
  hr_buffer *operands[HR_OPERANDS_MAX], *workspace;
} call;

static call make_call(hr_device *device, const char *name, hr_problem problem)
{
  call c = {.name = name};
  must(hr_plan_create(device, &problem, NULL, &c.plan, &error));
  const void *inputs[HR_OPERANDS_MAX] = {NULL};
  hr_operands operands = hr_problem_operands(&problem);
  for (size_t i = 0; i < operands.count; i++) {
    must(hr_buffer_create(device, operands.bytes[i], &c.operands[i], &error));
    if (operands.kinds[i] == HR_OPERAND_NUMBERS)
      must(hr_buffer_fill_uniform(c.operands[i], problem.dtype, i + 1, &error));
    inputs[i] = hr_buffer_data(c.operands[i]);
  }
  must(hr_buffer_create(device, hr_plan_workspace_bytes(c.plan) + 1, &c.workspace, &error));
  void *output = hr_buffer_data(c.operands[operands.inputs]);
  const hr_operand_addresses at = {inputs, &output};
  c.arguments = hr_problem_arguments(&problem, &operands, at);
  return c;
}

static void free_call(call *c)
{
  hr_plan_free(c->plan);
  for (int i = 0; i < HR_OPERANDS_MAX; i++)
    hr_buffer_free(c->operands[i]);
  hr_buffer_free(c->workspace);
}

static hr_status run(const call *c, void *stream)
{
  void *workspace = hr_buffer_data(c->workspace);
  switch (c->plan->problem.operation) {
  case HR_OPERATION_GEMM: return hr_plan_run_gemm(c->plan, &c->arguments.gemm, workspace, stream, &error);
  case HR_OPERATION_ROWWISE: return hr_plan_run_rowwise(c->plan, &c->arguments.rows, workspace, stream, &error);
  case HR_OPERATION_DECODE: return hr_plan_run_decode(c->plan, &c->arguments.decode, workspace, stream, &error);
  default: return hr_plan_run_attention(c->plan, &c->arguments.attention, workspace, stream, &error);
  }
}

static hr_problem small_gemm(void)
{
  hr_gemm g = hr_gemm_default();
  g.m = g.n = g.k = 64;
  return hr_gemm_problem(&g);
}

static hr_problem small_attention(void)
{
  hr_attention a = hr_attention_default();
  a.q_len = a.kv_len = 64, a.q_heads = a.k_heads = a.v_heads = 4;
  return hr_attention_problem(&a);
}

static hr_problem small_rows(void)
{
  hr_rowwise r = hr_rowwise_default();
  r.rows = 64, r.columns = 1024;
  return hr_rowwise_problem(&r);
}

static hr_problem decode_of(int64_t batch, int64_t tokens)
{
  hr_decode d = hr_decode_default();
  d.batch = batch, d.kv_len = tokens;
  d.q_heads = 32, d.k_heads = d.v_heads = 8, d.qk_dim = d.v_dim = 128;
  must(hr_decode_set_pages(&d, 16, &error));
  return hr_decode_problem(&d);
}

/* ---- run ---- */

/* A kernel that does nothing. */
static hr_status launch_bare(const hr_cuda *cuda, cu_function function, void *stream)
{
  cu_address to = 0;
  unsigned long long elements = 0, key = 0;
  float bound = 1;
  void *parameters[] = {&to, &elements, &key, &bound};
  return HR_CU(&cuda->driver, cuLaunchKernel, (function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL), &error);
}

/* Times of a bare launch and of a run, alternately. */
static void time_run(hr_device *device, cu_function bare, const call *c)
{
  const hr_cuda *cuda = device->state;
  double launches[ROUNDS], runs[ROUNDS], ratios[ROUNDS];
  void *stream = hr_device_stream(device);
  for (int round = 0; round < ROUNDS; round++) {
    double start = hr_clock_ns();
    for (int i = 0; i < BATCH; i++)
      must(launch_bare(cuda, bare, stream));
    launches[round] = (hr_clock_ns() - start) / BATCH;
    must(device->backend->wait(device, &error));
    start = hr_clock_ns();
    for (int i = 0; i < BATCH; i++)
      must(run(c, stream));
    runs[round] = (hr_clock_ns() - start) / BATCH;
    must(device->backend->wait(device, &error));
    ratios[round] = runs[round] / launches[round];
  }
  printf("run      %-10s %-28s %6.0f ns, bare launch %6.0f ns, ratio %.2f\n", c->name, hr_plan_kernel(c->plan),
         median(runs, ROUNDS), median(launches, ROUNDS), median(ratios, ROUNDS));
}

static void time_runs(hr_device *device)
{
  const hr_cuda *cuda = device->state;
  cu_function bare = NULL;
  must(hr_cuda_function(cuda, "fill", HR_FP32, NULL, "fill_uniform", &bare, &error));
  must(hr_cuda_enter(cuda, &error)); /* as a program that launches kernels has it */
  call calls[] = {make_call(device, "gemm", small_gemm()), make_call(device, "attention", small_attention()),
                  make_call(device, "rowwise", small_rows()), make_call(device, "decode", decode_of(1, 256))};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    time_run(device, bare, &calls[i]);
    free_call(&calls[i]);
  }
  hr_cuda_leave(cuda);
}

/* ---- plans, plan ---- */

static void time_cache(hr_device *device)
{
  hr_plans *plans = NULL;
  double times[ROUNDS];
  hr_plan *plan = NULL;
  hr_decode problems[ASKED];
  must(hr_plans_create(device, 64, &plans, &error));
  for (int i = 0; i < ASKED; i++) {
    problems[i] = decode_of(1 + i, 256).decode;
    must(hr_plans_decode(plans, &problems[i], &plan, &error));
    hr_plan_free(plan);
  }
  for (int round = 0; round < ROUNDS; round++) {
    double start = hr_clock_ns();
    for (int i = 0; i < ASKED * 100; i++) {
      must(hr_plans_decode(plans, &problems[i % ASKED], &plan, &error));
      hr_plan_free(plan);
    }
    times[round] = (hr_clock_ns() - start) / (ASKED * 100);
  }
  printf("plans    found and given back in %.0f ns\n", median(times, ROUNDS));
  hr_plans_free(plans);
}

static void time_plan(const char *name, const char *what, hr_problem problem)
{
  hr_device *device = NULL;
  double times[2];
  must(hr_device_open(name, 0, &device, &error)); /* without programs */
  for (int i = 0; i < 2; i++) {
    hr_plan *plan = NULL;
    double start = hr_clock_ns();
    must(hr_plan_create(device, &problem, NULL, &plan, &error));
    times[i] = hr_clock_ns() - start;
    hr_plan_free(plan);
  }
  printf("plan     %-10s first %7.0f µs, again %6.1f µs\n", what, times[0] * 1e-3, times[1] * 1e-3);
  hr_device_close(device);
}

/* ---- streams ---- */

/* A graph of CALLS runs, so that the host's launches do not bind. */
static cu_graph_exec record(const hr_cuda *cuda, const call *c, cu_stream stream)
{
  cu_graph graph = NULL;
  cu_graph_exec executable = NULL;
  must(HR_CU(&cuda->driver, cuStreamBeginCapture_v2, (stream, CU_CAPTURE_THREAD_LOCAL), &error));
  for (int i = 0; i < CALLS; i++)
    must(run(c, stream));
  must(HR_CU(&cuda->driver, cuStreamEndCapture, (stream, &graph), &error));
  must(HR_CU(&cuda->driver, cuGraphInstantiateWithFlags, (&executable, graph, 0), &error));
  cuda->driver.cuGraphDestroy(graph);
  return executable;
}

/* Launches both graphs, each on its stream or both on the first, and waits. */
static double elapsed(const hr_cuda *cuda, const cu_graph_exec graphs[2], const cu_stream *streams, int count)
{
  double start = hr_clock_ns();
  for (int s = 0; s < 2; s++)
    must(HR_CU(&cuda->driver, cuGraphLaunch, (graphs[s], streams[s % count]), &error));
  for (int s = 0; s < count; s++)
    must(HR_CU(&cuda->driver, cuStreamSynchronize, (streams[s]), &error));
  return hr_clock_ns() - start;
}

static void time_streams(hr_device *device)
{
  const hr_cuda *cuda = device->state;
  cu_stream streams[2] = {NULL};
  cu_graph_exec graphs[2];
  double ratios[ROUNDS], alone[ROUNDS];
  call calls[2] = {make_call(device, "decode", decode_of(1, SMALL)), make_call(device, "decode", decode_of(1, SMALL))};
  must(hr_cuda_enter(cuda, &error));
  for (int s = 0; s < 2; s++) {
    must(HR_CU(&cuda->driver, cuStreamCreate, (&streams[s], 1 /* non-blocking */), &error));
    graphs[s] = record(cuda, &calls[s], streams[s]);
  }
  for (int round = 0; round < ROUNDS; round++) {
    alone[round] = elapsed(cuda, graphs, streams, 1);
    ratios[round] = elapsed(cuda, graphs, streams, 2) / alone[round];
  }
  printf("streams  %d decode calls of a sequence of %d tokens: one stream %.2f µs a call, two take %.2f of it\n",
         2 * CALLS, SMALL, median(alone, ROUNDS) / (2 * CALLS) * 1e-3, median(ratios, ROUNDS));
  for (int s = 0; s < 2; s++) {
    cuda->driver.cuGraphExecDestroy(graphs[s]);
    cuda->driver.cuStreamDestroy_v2(streams[s]);
    free_call(&calls[s]);
  }
  hr_cuda_leave(cuda);
}

/* ---- bounds ---- */

static hr_device *timed_on;

static hr_status run_call(void *context, hr_error *reason)
{
  (void)reason;
  return run(context, hr_device_stream(timed_on));
}

static void time_bound(hr_device *device, call *large, int64_t batch)
{
  call exact = make_call(device, "decode", decode_of(batch, TOKENS));
  double ratios[ROUNDS], times[ROUNDS];
  void *recordings[2] = {NULL};
  timed_on = device;
  large->arguments.decode.batch = batch;
  for (int round = 0; round < ROUNDS; round++) {
    double other;
    must(hr_cuda_time_runs(device, run_call, &exact, GROUP, &recordings[0], &times[round], &error));
    must(hr_cuda_time_runs(device, run_call, large, GROUP, &recordings[1], &other, &error));
    ratios[round] = other / times[round];
  }
  printf("bounds   %2d of 64 sequences of %d tokens: %7.2f µs by a plan for them, %.3f of it by the plan for 64\n",
         (int)batch, TOKENS, median(times, ROUNDS) * 1e-3, median(ratios, ROUNDS));
  for (int i = 0; i < 2; i++)
    hr_cuda_forget(device, recordings[i]);
  free_call(&exact);
}

int main(int count, char **words)
{
  const char *name = count > 1 ? words[1] : "cuda:0";
  hr_device *device = NULL;
  static const int64_t batches[] = {1, 7, 33, 64};
  must(hr_device_open(name, 0, &device, &error));
  if (!hr_device_stream(device)) {
    fprintf(stderr, "call_costs: %s has no streams\n", name);
    return 2;
  }
  time_runs(device);
  time_cache(device);
  time_plan(name, "gemm", small_gemm());
  time_plan(name, "attention", small_attention());
  time_plan(name, "rowwise", small_rows());
  time_plan(name, "decode", decode_of(1, 256));
  time_streams(device);
  call large = make_call(device, "decode", decode_of(64, TOKENS));
  for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
    time_bound(device, &large, batches[i]);
  free_call(&large);
  hr_device_close(device);
  return 0;
}
