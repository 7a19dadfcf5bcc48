/* SPDX-License-Identifier: Apache-2.0 */
/* Times the loops of kernels/ceilings.cu, each until the clock has settled under its load. */
#include "runtime/cuda/ceilings/ceilings.h"
#include "base/error.h"
#include "base/names.h"
#include "base/sort.h"
#include "hardware/hardware.h"
#include "runtime/cuda/driver/graph.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/driver/timing.h"
#include "runtime/cuda/kernels/ceilings_layout.h"
#include "runtime/device/clock.h"
#include "runtime/device/energy_meter.h"

#include <headroom/buffer.h>

#include <math.h>
#include <stdlib.h>

#define THREADS HR_CEILINGS_THREADS
#define CHUNK_NS 10e6
#define CHUNKS 25 /* a quarter of a second: a power cap acts within the first tenth; the second half counts */
#define STREAM_BYTES ((size_t)1 << 30)
#define STREAM_ROUNDS 12
#define STREAM_BLOCKS 16 /* per multiprocessor */
#define STREAM_GRAPH 32  /* runs without a pause between them, for power: 8 ms */
#define BLOCKS_MAX 8     /* of a loop below */

/* A row is used from `capability` on, up to that of the next row with the same entry point and dtype. */
typedef struct loop {
  int capability;
  const char *entry;
  hr_dtype dtype;
  hr_ceiling_kind kind;
  const char *instruction;
  int blocks;   /* per multiprocessor */
  double count; /* operations of a block in one step of its loop: 2 per multiply-add, 1 per exponential */
} loop;

#define WGMMA \
  (4 * 2.0 * 2 * 64 * 256 * 32)         /* 4 instructions of 2 warpgroups over 32 bytes of k; / bytes of an element */
#define MMA (8 * 2.0 * 8 * 16 * 8 * 32) /* 8 instructions of 8 warps, the same */

/* Most used dtypes first. Architectures: 8.0 Ampere, 8.9 Ada, 9.0 Hopper, 10.0 Blackwell, where
 * mma.sync is not the fastest instruction, but there is no loop with tcgen05, 12.0 Blackwell without tcgen05. */
static const loop loops[] = {
    {80, "gemm_loop", HR_BF16, HR_CEILING_GEMM, "mma.sync m16n8k16", 2, MMA / 2},
    {90, "gemm_loop", HR_BF16, HR_CEILING_GEMM, "wgmma m64n256k16", 1, WGMMA / 2},
    {100, "gemm_loop", HR_BF16, HR_CEILING_GEMM, "mma.sync, not tcgen05", 2, MMA / 2},
    {80, "gemm_loop", HR_FP16, HR_CEILING_GEMM, "mma.sync m16n8k16", 2, MMA / 2},
    {90, "gemm_loop", HR_FP16, HR_CEILING_GEMM, "wgmma m64n256k16", 1, WGMMA / 2},
    {100, "gemm_loop", HR_FP16, HR_CEILING_GEMM, "mma.sync, not tcgen05", 2, MMA / 2},
    {80, "gemm_loop", HR_TF32, HR_CEILING_GEMM, "mma.sync m16n8k8", 2, MMA / 4},
    {90, "gemm_loop", HR_TF32, HR_CEILING_GEMM, "wgmma m64n256k8", 1, WGMMA / 4},
    {100, "gemm_loop", HR_TF32, HR_CEILING_GEMM, "mma.sync, not tcgen05", 2, MMA / 4},
    {89, "gemm_loop", HR_FP8_E4M3, HR_CEILING_GEMM, "mma.sync m16n8k32", 2, MMA},
    {90, "gemm_loop", HR_FP8_E4M3, HR_CEILING_GEMM, "wgmma m64n256k32", 1, WGMMA},
    {100, "gemm_loop", HR_FP8_E4M3, HR_CEILING_GEMM, "mma.sync, not tcgen05", 2, MMA},
    {120, "gemm_loop", HR_BF16, HR_CEILING_GEMM, "mma.sync m16n8k16", 2, MMA / 2},
    {120, "gemm_loop", HR_FP16, HR_CEILING_GEMM, "mma.sync m16n8k16", 2, MMA / 2},
    {120, "gemm_loop", HR_TF32, HR_CEILING_GEMM, "mma.sync m16n8k8", 2, MMA / 4},
    {120, "gemm_loop", HR_FP8_E4M3, HR_CEILING_GEMM, "mma.sync m16n8k32", 2, MMA},
    {0, "gemm_loop", HR_FP32, HR_CEILING_GEMM, "fma", 4, 2.0 * 2 * HR_CEILINGS_FMA_CHAINS *THREADS},
    {0, "exponentials", HR_FP32, HR_CEILING_EXP, "ex2.approx", 8, (double)HR_CEILINGS_EXP_CHAINS *THREADS},
};

#define LOOP_COUNT (sizeof loops / sizeof *loops)

/* Whether a later row, of a newer architecture, has the same entry point and dtype. */
static bool is_superseded(size_t index, int capability)
{
  for (size_t i = index + 1; i < LOOP_COUNT; i++) {
    if (loops[i].dtype == loops[index].dtype && loops[i].kind == loops[index].kind && loops[i].capability <= capability)
      return true;
  }
  return loops[index].capability > capability;
}

typedef struct job {
  const hr_cuda *cuda;
  const hr_progress_range *range;
  double done; /* of all loops and streams */
  const char *what;
  cu_function function;
  unsigned blocks;
  cu_address results, took;
  long long steps;
  cu_address from, to; /* of streams */
} job;

static hr_status launch(const job *j, void **arguments, hr_error *error)
{
  return HR_CU(&j->cuda->driver, cuLaunchKernel,
               (j->function, j->blocks, 1, 1, THREADS, 1, 1, 0, j->cuda->stream, arguments, NULL), error);
}

static hr_status launch_loop(void *context, hr_error *error)
{
  job *j = context;
  void *arguments[] = {&j->steps, &j->results, &j->took};
  return launch(j, arguments, error);
}

static hr_status launch_stream(void *context, hr_error *error)
{
  job *j = context;
  void *arguments[] = {&j->from, &j->steps, &j->to, &j->took};
  return launch(j, arguments, error);
}

/* The clock of the last run, from the cycles and nanoseconds of its first block. */
static hr_status read_clock(hr_device *device, const job *j, double *clock_hz, hr_error *error)
{
  unsigned long long took[2] = {0, 0};
  HR_TRY(device->backend->read(device, took, (const void *)(uintptr_t)j->took, sizeof took, error));
  *clock_hz = took[1] > 0 ? (double)took[0] / (double)took[1] * 1e9 : 0;
  return HR_OK;
}

/* `steps` are set so that a chunk takes CHUNK_NS; the result is the median of the second half of the chunks. */
static hr_status time_loop(hr_device *device, job *j, double *step_ns, hr_error *error)
{
  double times[CHUNKS], time_ns = 0;
  void *kept = NULL;
  j->steps = 1024;
  hr_status status = hr_cuda_time_runs(device, launch_loop, j, 1, &kept, &time_ns, error);
  if (status == HR_OK && time_ns > 0)
    j->steps = (long long)fmin(fmax(1024 * CHUNK_NS / time_ns, 1024), 1e9);
  for (int i = 0; i < CHUNKS && status == HR_OK; i++) {
    status = hr_progress_range_report(j->range, j->done, j->what, error);
    if (status == HR_OK)
      status = hr_cuda_time_runs(device, launch_loop, j, 1, &kept, &times[i], error);
  }
  hr_cuda_forget(device, kept);
  HR_TRY(status);
  qsort(times + CHUNKS / 2, CHUNKS - CHUNKS / 2, sizeof *times, hr_compare_numbers);
  *step_ns = times[CHUNKS / 2 + (CHUNKS - CHUNKS / 2) / 2] / (double)j->steps;
  return HR_OK;
}

/* Repeats a loop that has settled for as long as the energy counter needs; *power_w is 0 without one. */
static hr_status measure_power(hr_device *device, job *j, hr_run_fn launch_one, int64_t count, double *power_w,
                               hr_error *error)
{
  hr_energy_meter *meter = NULL;
  void *kept = NULL;
  *power_w = 0;
  if (hr_energy_meter_start(device, &meter, NULL) != HR_OK)
    return HR_OK;
  double start = hr_clock_ns(), time_ns = 0, limit_ns = HR_ENERGY_STEPS * device->backend->energy_step_ns;
  hr_status status = HR_OK;
  while (status == HR_OK && hr_clock_ns() - start < limit_ns) {
    status = hr_progress_range_report(j->range, j->done, j->what, error);
    if (status == HR_OK)
      status = hr_cuda_time_runs(device, launch_one, j, count, &kept, &time_ns, error);
  }
  hr_energy_meter_stop(meter, power_w, NULL);
  hr_cuda_forget(device, kept);
  if (isnan(*power_w))
    *power_w = 0;
  return status;
}

static hr_status measure_loop(hr_device *device, const loop *l, int64_t multiprocessors, job *j, hr_ceiling *ceiling,
                              hr_error *error)
{
  double step_ns = 0;
  HR_TRY(hr_cuda_function(j->cuda, "ceilings", l->dtype, NULL, l->entry, &j->function, error));
  j->blocks = (unsigned)(multiprocessors * l->blocks);
  HR_TRY(time_loop(device, j, &step_ns, error));
  *ceiling = (hr_ceiling){.kind = l->kind, .dtype = l->dtype, .per_s = l->count * j->blocks / step_ns * 1e9};
  hr_copy_text(ceiling->instruction, sizeof ceiling->instruction, l->instruction);
  if (l->kind == HR_CEILING_GEMM && l->dtype == HR_BF16)
    HR_TRY(measure_power(device, j, launch_loop, 1, &ceiling->power_w, error));
  return read_clock(device, j, &ceiling->clock_hz, error);
}

static hr_status measure_stream(hr_device *device, const char *entry, hr_ceiling_kind kind, size_t bytes, job *j,
                                hr_ceiling *ceiling, hr_error *error)
{
  double best_ns = INFINITY, time_ns = 0;
  void *kept = NULL;
  hr_status status = hr_cuda_function(j->cuda, "ceilings", HR_FP32, NULL, entry, &j->function, error);
  for (int round = 0; round < STREAM_ROUNDS && status == HR_OK; round++) {
    status = hr_cuda_time_runs(device, launch_stream, j, 1, &kept, &time_ns, error);
    best_ns = fmin(best_ns, time_ns);
  }
  hr_cuda_forget(device, kept);
  HR_TRY(status);
  *ceiling = (hr_ceiling){.kind = kind, .dtype = HR_FP32, .per_s = (double)bytes / best_ns * 1e9};
  hr_copy_text(ceiling->instruction, sizeof ceiling->instruction, "16 byte accesses");
  if (kind == HR_CEILING_READ)
    HR_TRY(measure_power(device, j, launch_stream, STREAM_GRAPH, &ceiling->power_w, error));
  return kind == HR_CEILING_READ ? read_clock(device, j, &ceiling->clock_hz, error) : HR_OK;
}

static hr_status measure_streams(hr_device *device, int64_t multiprocessors, job *j, hr_ceiling *ceilings,
                                 size_t *count, hr_error *error)
{
  size_t quarter = hr_device_memory_available(device) / 4;
  size_t bytes = (quarter < STREAM_BYTES ? quarter : STREAM_BYTES) / 16 * 16;
  hr_buffer *from = NULL, *to = NULL;
  HR_TRY(hr_buffer_create(device, bytes, &from, error));
  hr_status status = hr_buffer_create(device, bytes, &to, error);
  if (status == HR_OK)
    status = hr_buffer_fill_uniform(from, HR_FP32, 1, error);
  j->blocks = (unsigned)(multiprocessors * STREAM_BLOCKS);
  j->steps = (long long)(bytes / 16);
  if (status == HR_OK) {
    j->from = (cu_address)(uintptr_t)hr_buffer_data(from);
    j->to = (cu_address)(uintptr_t)hr_buffer_data(to);
    status = measure_stream(device, "stream_read", HR_CEILING_READ, bytes, j, &ceilings[*count], error);
  }
  j->blocks = (unsigned)((bytes / 16 + THREADS - 1) / THREADS);
  if (status == HR_OK)
    status = measure_stream(device, "stream_copy", HR_CEILING_COPY, 2 * bytes, j, &ceilings[*count + 1], error);
  if (status == HR_OK)
    *count += 2;
  hr_buffer_free(from);
  hr_buffer_free(to);
  return status;
}

static hr_status measure_all(hr_device *device, int64_t multiprocessors, job *j, hr_ceiling *ceilings, size_t *count,
                             hr_error *error)
{
  const size_t steps = LOOP_COUNT + 1; /* the streams count as one */
  for (size_t i = 0; i < LOOP_COUNT; i++) {
    if (is_superseded(i, j->cuda->capability))
      continue;
    j->done = (double)i / (double)steps;
    j->what = loops[i].instruction;
    HR_TRY(hr_progress_range_report(j->range, j->done, j->what, error)); /* before a program is compiled */
    HR_TRY(measure_loop(device, &loops[i], multiprocessors, j, &ceilings[*count], error));
    ++*count;
  }
  HR_TRY(hr_progress_range_report(j->range, (double)(steps - 1) / (double)steps, "streams", error));
  return measure_streams(device, multiprocessors, j, ceilings, count, error);
}

hr_status hr_cuda_measure_ceilings(hr_device *device, const hr_progress_range *range, hr_ceiling *ceilings,
                                   size_t *count, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  job j = {.cuda = cuda, .range = range};
  int64_t multiprocessors = 0;
  hr_buffer *results = NULL, *took = NULL;
  HR_TRY(hr_cuda_attribute(cuda, CU_MULTIPROCESSORS, &multiprocessors, error));
  size_t threads = (size_t)multiprocessors * THREADS * BLOCKS_MAX;
  HR_TRY(hr_buffer_create(device, threads * sizeof(float), &results, error));
  hr_status status = hr_buffer_create(device, 2 * sizeof(unsigned long long), &took, error);
  if (status == HR_OK) {
    j.results = (cu_address)(uintptr_t)hr_buffer_data(results);
    j.took = (cu_address)(uintptr_t)hr_buffer_data(took);
    status = measure_all(device, multiprocessors, &j, ceilings, count, error);
  }
  hr_buffer_free(results);
  hr_buffer_free(took);
  return status;
}
