/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in q8_0 on the CPU, distributed over the thread pool by rows. */
#include "runtime/cpu/gemv/q8.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cpu/host/host.h"

#include <stdatomic.h>

#define THREAD_BYTES ((int64_t)64 << 10) /* of W; less is not worth waking a thread for */
#define PART_BYTES ((int64_t)128 << 10)  /* of W; with each part memory begins to stream anew */
#define PARTS_PER_THREAD 16              /* at most, so that a late or slow thread gets less of the work */

#if !defined(__x86_64__)
#define hr_q8_avx512 hr_q8_portable
#define hr_q8_avx2 hr_q8_portable
#endif
#if !defined(__aarch64__)
#define hr_q8_neon hr_q8_portable
#endif

static const hr_q8_functions *functions_of(const hr_device *device)
{
  const hr_isa *isa = &hr_cpu_of(device)->isa;
  /* NOLINTNEXTLINE(bugprone-branch-clone,misc-redundant-expression): the portable one stands for absent ones */
  return isa->avx512 ? &hr_q8_avx512 : isa->avx2 ? &hr_q8_avx2 : isa->neon ? &hr_q8_neon : &hr_q8_portable;
}

/* Shared by the threads of a run: rows in groups, groups in parts. */
typedef struct q8_run {
  const hr_q8_functions *functions;
  const hr_q8_arguments *arguments;
  int64_t rows, each; /* rows of a part, whole groups */
  atomic_int_fast64_t next;
} q8_run;

static void multiply(void *context, int member)
{
  (void)member;
  q8_run *run = context;
  const hr_q8_arguments *a = run->arguments;
  for (int64_t part = run->next++; part * run->each < run->rows; part = run->next++) {
    const int64_t end = hr_min64((part + 1) * run->each, run->rows);
    for (int64_t row = part * run->each; row < end; row += HR_Q8_GROUP)
      run->functions->multiply[a->tokens - 1](a, row, hr_min64(row + HR_Q8_GROUP, end));
  }
}

static void widen(void *context, int member)
{
  (void)member;
  q8_run *run = context;
  const hr_q8_arguments *a = run->arguments;
  for (int64_t part = run->next++; part * run->each < run->rows; part = run->next++) {
    for (int64_t row = part * run->each; row < hr_min64((part + 1) * run->each, run->rows); row++)
      run->functions->widen(a, a->numbers ? a->numbers[row] : a->first + row, row);
  }
}

static hr_status run_parts(hr_device *device, hr_thread_pool_fn work, q8_run *run, hr_error *error)
{
  hr_thread_pool *pool;
  HR_TRY(hr_cpu_thread_pool(device, &pool, error));
  const int64_t groups = hr_ceil_div(run->rows, HR_Q8_GROUP);
  const int64_t bytes = run->rows * hr_q8_blocks(run->arguments->w.columns) * (HR_Q8_BLOCK + 2);
  const int64_t threads = hr_min64(hr_min64(device->threads, groups), hr_ceil_div(bytes, THREAD_BYTES));
  const int64_t parts = hr_max64(1, hr_min64(bytes / threads / PART_BYTES, PARTS_PER_THREAD));
  run->each = hr_ceil_div(groups, parts * threads) * HR_Q8_GROUP;
  if (threads == 1)
    work(run, 0);
  else
    hr_thread_pool_run(pool, work, run);
  return HR_OK;
}

hr_status hr_cpu_multiply_q8(hr_device *device, const hr_q8_arguments *arguments, hr_error *error)
{
  q8_run run = {.functions = functions_of(device), .arguments = arguments, .rows = arguments->w.rows};
  run.functions->widen_x(arguments);
  return run_parts(device, multiply, &run, error);
}

hr_status hr_cpu_widen_q8(hr_device *device, const hr_q8_arguments *arguments, hr_error *error)
{
  q8_run run = {.functions = functions_of(device), .arguments = arguments, .rows = arguments->tokens};
  return run_parts(device, widen, &run, error);
}
