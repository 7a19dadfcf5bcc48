/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduces of several GPUs of this host: own kernels in one and two shots beside NCCL, and with residual and norm
 * beside the two apart. Each call is one of 50 of a captured graph; the ways take turns, and a row has the medians of
 * their rounds and of the ratios within a round.
 *   all_reduce GPUS [bf16|fp32]                                             a thread for each GPU
 *   torchrun --no-python --nproc-per-node GPUS all_reduce GPUS [bf16|fp32]   a process
 * The best of torch's symmetric memory in the same minutes: bench/all_reduce_torch.py. */
#include "base/error.h"
#include "runtime/communicator/communicator.h"
#include "runtime/cuda/collective/collective.h"
#include "runtime/cuda/driver/graph.h"

#include <headroom/buffer.h>
#include <headroom/experimental/communicator.h>
#include <headroom/plan.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLS 50 /* of a graph */
#define ROUNDS 25
#define GPUS_MAX 8
#define MOST_BYTES (INT64_C(256) << 20)
#define NORM_COLUMNS 4096

typedef enum bench_way {
  BENCH_NCCL,
  BENCH_ONE,
  BENCH_TWO,
  BENCH_BLOCKS,
  BENCH_NORM,
  BENCH_APART,
  BENCH_WAYS
} bench_way;

typedef struct bench_rank {
  hr_device *device;
  hr_communicator *communicator;
  int64_t rank, size;
  hr_dtype dtype;
  hr_buffer *buffers[6];
  hr_plan *norm;
  cu_graph_exec graphs[BENCH_WAYS];
  double times_us[BENCH_WAYS][ROUNDS];
} bench_rank;

static void must(hr_status status, const hr_error *error)
{
  if (status == HR_OK)
    return;
  fprintf(stderr, "all_reduce: %s\n", error->message);
  _exit(1);
}

typedef struct bench_call {
  bench_rank *rank;
  bench_way way;
  hr_collective_call call;
} bench_call;

static hr_status run_norm(const bench_call *b, hr_error *error)
{
  const bench_rank *r = b->rank;
  const hr_collective_call *c = &b->call;
  hr_rowwise_arguments a = hr_rowwise_arguments_default();
  a.inputs[0] = c->receive, a.inputs[1] = c->residual, a.inputs[2] = c->norm_weight;
  a.output = hr_buffer_data(r->buffers[5]);
  a.more_outputs[0] = c->residual_sum;
  return hr_plan_run_rowwise(r->norm, &a, NULL, hr_device_stream(r->device), error);
}

static hr_status run_one(const bench_call *b, hr_error *error)
{
  const hr_cuda *cuda = b->rank->device->state;
  hr_collective_call plain = b->call;
  plain.columns = 0;
  if (b->way == BENCH_NORM)
    return hr_cuda_reduce_with_norm(b->rank->communicator, &b->call, cuda->stream, error);
  static const hr_all_reduce_way ways[BENCH_WAYS] = {[BENCH_NCCL] = HR_WAY_NCCL,
                                                     [BENCH_ONE] = HR_WAY_ONE_SHOT,
                                                     [BENCH_TWO] = HR_WAY_TWO_SHOT,
                                                     [BENCH_BLOCKS] = HR_WAY_BLOCKS,
                                                     [BENCH_APART] = HR_WAY_ONE_SHOT};
  HR_TRY(hr_cuda_reduce(b->rank->communicator, &plain, ways[b->way], cuda->stream, error));
  return b->way == BENCH_APART ? run_norm(b, error) : HR_OK;
}

static hr_status run_calls(void *context, hr_error *error)
{
  for (int i = 0; i < CALLS; i++)
    HR_TRY(run_one(context, error));
  return HR_OK;
}

/* ---- one size ---- */

static bool takes(const bench_call *b, int64_t bytes)
{
  if (b->way == BENCH_NORM || b->way == BENCH_APART)
    return b->rank->norm && hr_communicator_takes_norm(b->rank->communicator, &b->call);
  if (b->way == BENCH_BLOCKS)
    return bytes <= 64 << 20;
  return b->way == BENCH_NCCL || bytes <= (b->way == BENCH_ONE ? 1 << 20 : 8 << 20);
}

static hr_status prepare(bench_rank *r, int64_t bytes, bench_call *calls, hr_error *error)
{
  const hr_cuda *cuda = r->device->state;
  const int64_t count = bytes / (int64_t)hr_dtype_bytes(r->dtype);
  r->norm = NULL;
  if (count % NORM_COLUMNS == 0 && bytes <= 1 << 20) {
    hr_rowwise rows = hr_rowwise_default();
    rows.operation = HR_ROWWISE_RESIDUAL_RMS_NORM;
    rows.dtype = r->dtype;
    rows.rows = count / NORM_COLUMNS, rows.columns = NORM_COLUMNS;
    HR_TRY(hr_plan_rowwise(r->device, &rows, NULL, &r->norm, error));
  }
  for (int way = 0; way < BENCH_WAYS; way++) {
    bench_call *b = &calls[way];
    *b = (bench_call){.rank = r, .way = (bench_way)way, .call = hr_collective_call_default()};
    b->call.dtype = r->dtype, b->call.count = count, b->call.columns = NORM_COLUMNS;
    b->call.epsilon = 1e-5;
    b->call.send = hr_buffer_data(r->buffers[0]), b->call.receive = hr_buffer_data(r->buffers[1]);
    b->call.residual = hr_buffer_data(r->buffers[2]), b->call.residual_sum = hr_buffer_data(r->buffers[3]);
    b->call.norm_weight = hr_buffer_data(r->buffers[4]);
    r->graphs[way] = NULL;
    if (!takes(b, bytes))
      continue;
    hr_collective_call plain = b->call;
    plain.columns = 0;
    HR_TRY(hr_cuda_prepare_call(r->communicator, &plain, error));
    HR_TRY(hr_cuda_prepare_call(r->communicator, &b->call, error));
    HR_TRY(run_one(b, error));
    HR_TRY(hr_communicator_wait(r->communicator, cuda->stream, error));
    HR_TRY(hr_cuda_capture(cuda, run_calls, b, &r->graphs[way], error));
  }
  return HR_OK;
}

static hr_status time_graph(bench_rank *r, bench_way way, double *time_us, hr_error *error)
{
  const hr_cuda *cuda = r->device->state;
  const hr_driver *driver = &cuda->driver;
  float ms = 0;
  HR_TRY(hr_communicator_meet(r->communicator, error));
  HR_TRY(HR_CU(driver, cuGraphLaunch, (r->graphs[way], cuda->stream), error)); /* the ranks come together in it */
  HR_TRY(HR_CU(driver, cuEventRecord, (cuda->start, cuda->stream), error));
  HR_TRY(HR_CU(driver, cuGraphLaunch, (r->graphs[way], cuda->stream), error));
  HR_TRY(HR_CU(driver, cuEventRecord, (cuda->end, cuda->stream), error));
  HR_TRY(hr_communicator_wait(r->communicator, cuda->stream, error));
  HR_TRY(HR_CU(driver, cuEventSynchronize, (cuda->end), error));
  HR_TRY(HR_CU(driver, cuEventElapsedTime, (&ms, cuda->start, cuda->end), error));
  *time_us = (double)ms * 1e3 / CALLS;
  return HR_OK;
}

static int ascending(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(const double *values)
{
  double sorted[ROUNDS];
  memcpy(sorted, values, sizeof sorted);
  qsort(sorted, ROUNDS, sizeof *sorted, ascending);
  return sorted[ROUNDS / 2];
}

static double ratio(const bench_rank *r, bench_way way, bench_way to)
{
  double ratios[ROUNDS];
  for (int i = 0; i < ROUNDS; i++)
    ratios[i] = r->times_us[way][i] / r->times_us[to][i];
  return median(ratios);
}

static void print_row(const bench_rank *r, int64_t bytes)
{
  printf("%d,%lld", (int)r->size, (long long)bytes);
  for (int way = 0; way < BENCH_WAYS; way++)
    r->graphs[way] ? printf(",%.2f", median(r->times_us[way])) : printf(",");
  r->graphs[BENCH_ONE] ? printf(",%.3f", ratio(r, BENCH_ONE, BENCH_NCCL)) : printf(",");
  r->graphs[BENCH_TWO] ? printf(",%.3f", ratio(r, BENCH_TWO, BENCH_NCCL)) : printf(",");
  r->graphs[BENCH_BLOCKS] ? printf(",%.3f", ratio(r, BENCH_BLOCKS, BENCH_NCCL)) : printf(",");
  r->graphs[BENCH_NORM] ? printf(",%.3f", ratio(r, BENCH_NORM, BENCH_APART)) : printf(",");
  printf("\n");
  fflush(stdout);
}

static hr_status bench_size(bench_rank *r, int64_t bytes, hr_error *error)
{
  bench_call calls[BENCH_WAYS];
  HR_TRY(prepare(r, bytes, calls, error));
  for (int round = 0; round < ROUNDS; round++) {
    for (int way = 0; way < BENCH_WAYS; way++) {
      if (r->graphs[way])
        HR_TRY(time_graph(r, (bench_way)way, &r->times_us[way][round], error));
    }
  }
  if (r->rank == 0)
    print_row(r, bytes);
  const hr_cuda *cuda = r->device->state;
  for (int way = 0; way < BENCH_WAYS; way++) {
    if (r->graphs[way])
      cuda->driver.cuGraphExecDestroy(r->graphs[way]);
  }
  hr_plan_free(r->norm);
  return HR_OK;
}

/* ---- all ---- */

static hr_status bench_all(bench_rank *r, hr_error *error)
{
  const hr_cuda *cuda = r->device->state;
  const hr_cuda_ranks *ranks = r->communicator->state;
  if (ranks->slabs[0] == 0)
    return hr_fail(error, HR_ERROR_UNAVAILABLE, "%s", ranks->no_peers.message);
  HR_TRY(hr_cuda_enter(cuda, error));
  for (int i = 0; i < 6; i++) {
    HR_TRY(hr_buffer_create(r->device, (size_t)MOST_BYTES, &r->buffers[i], error));
    HR_TRY(hr_buffer_fill_uniform(r->buffers[i], r->dtype, (uint64_t)i + 1, error));
  }
  for (int64_t bytes = 512; bytes <= MOST_BYTES; bytes *= bytes < 1 << 20 ? 2 : 4)
    HR_TRY(bench_size(r, bytes, error));
  hr_cuda_leave(cuda);
  for (int i = 0; i < 6; i++)
    hr_buffer_free(r->buffers[i]);
  return HR_OK;
}

static void *rank_main(void *argument)
{
  bench_rank *r = argument;
  hr_error error = {.message = ""};
  must(bench_all(r, &error), &error);
  return NULL;
}

static void print_head(void)
{
  printf("gpus,bytes,nccl_us,one_shot_us,two_shot_us,blocks_us,norm_us,apart_us,one_shot/nccl,two_shot/nccl,blocks/"
         "nccl,norm/apart\n");
}

static hr_device *open_gpu(int64_t number)
{
  char name[32];
  hr_device *device;
  hr_error error = {.message = ""};
  snprintf(name, sizeof name, "cuda:%d", (int)number);
  must(hr_device_open(name, 0, &device, &error), &error);
  return device;
}

static void run_threads(int size, hr_dtype dtype)
{
  bench_rank *ranks = calloc(GPUS_MAX, sizeof *ranks);
  hr_device *devices[GPUS_MAX];
  hr_communicator *communicators[GPUS_MAX];
  pthread_t threads[GPUS_MAX];
  hr_error error = {.message = ""};
  if (!ranks)
    _exit(1);
  for (int i = 0; i < size; i++)
    devices[i] = open_gpu(i);
  must(hr_communicators_create(devices, size, NULL, communicators, &error), &error);
  print_head();
  for (int i = 0; i < size; i++) {
    ranks[i] =
        (bench_rank){.device = devices[i], .communicator = communicators[i], .rank = i, .size = size, .dtype = dtype};
    pthread_create(&threads[i], NULL, rank_main, &ranks[i]);
  }
  for (int i = 0; i < size; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < size; i++)
    hr_communicator_free(communicators[i]);
  for (int i = 0; i < size; i++)
    hr_device_close(devices[i]);
  free(ranks);
}

static void run_process(const hr_communicator_options *options, hr_dtype dtype)
{
  static bench_rank rank;
  hr_error error = {.message = ""};
  rank = (bench_rank){
      .device = open_gpu(options->local_rank), .rank = options->rank, .size = options->size, .dtype = dtype};
  must(hr_communicator_join(rank.device, options, &rank.communicator, &error), &error);
  if (rank.rank == 0)
    print_head();
  rank_main(&rank);
  hr_communicator_free(rank.communicator);
  hr_device_close(rank.device);
}

int main(int count, char **arguments)
{
  const int size = count > 1 ? atoi(arguments[1]) : 2;
  const hr_dtype dtype = count > 2 && strcmp(arguments[2], "fp32") == 0 ? HR_FP32 : HR_BF16;
  hr_communicator_options options = hr_communicator_options_default();
  hr_error error = {.message = ""};
  const hr_status launched = hr_communicator_environment(&options, &error);
  if (launched != HR_ERROR_NOT_FOUND)
    must(launched, &error);
  if (size < 2 || size > GPUS_MAX || (options.size > 1 && options.size != size))
    return 2;
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  if (options.size > 1)
    run_process(&options, dtype);
  else
    run_threads(size, dtype);
  return 0;
}
