/* SPDX-License-Identifier: Apache-2.0 */
/* Row-wise operations on the CPU, distributed over the thread pool by rows, or by elements where rows do not matter. */
#include "runtime/cpu/rowwise/rowwise.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cpu/host/host.h"
#include "runtime/device/plan.h"

#include <stdatomic.h>
#include <stdio.h>

#define PART_BYTES ((int64_t)64 << 10) /* a smaller part is not worth waking a thread for */
#define PARTS_PER_THREAD 8             /* so that a late or slow thread gets less of the work */
#define LINE 64

typedef struct rowwise_plan {
  hr_rowwise_fn work;
  hr_thread_pool *pool;
  int threads;
  int64_t parts, count, grain; /* rows or elements; a part is a multiple of `grain` of them */
  int64_t scratch_floats;      /* of a thread */
  bool stream;
} rowwise_plan;

static int64_t bytes_of(const hr_problem *problem)
{
  hr_operands operands = hr_problem_operands(problem);
  size_t bytes = 0;
  for (size_t i = 0; i < operands.count; i++)
    bytes += operands.bytes[i];
  return (int64_t)bytes;
}

static hr_status prepare(hr_rowwise_table *table, hr_device *device, const hr_problem *problem, void *state,
                         size_t *workspace_bytes, hr_error *error)
{
  const hr_rowwise *r = &problem->rows;
  const bool by_element = hr_rowwise_by_element(r->operation);
  rowwise_plan *p = state;
  HR_TRY(hr_cpu_thread_pool(device, &p->pool, error));
  int64_t bytes = bytes_of(problem);
  p->work = (*table)[r->operation][r->dtype];
  p->count = by_element ? r->rows * r->columns : r->rows;
  p->grain = by_element ? LINE : 1;
  int64_t most = hr_min64(p->count / p->grain, bytes / PART_BYTES);
  p->parts = hr_max64(1, hr_min64(PARTS_PER_THREAD * device->threads, most));
  p->threads = (int)hr_min64(device->threads, p->parts);
  p->scratch_floats = by_element ? 0 : hr_round_up(r->columns + HR_ROWWISE_SCRATCH_MORE, LINE / 4);
  p->stream = bytes > (int64_t)device->cache_bytes;
  *workspace_bytes = (size_t)(device->threads * p->scratch_floats) * sizeof(float);
  return HR_OK;
}

/* Shared by the threads of a run. */
typedef struct rowwise_run {
  const rowwise_plan *plan;
  hr_rowwise_job job;
  float *scratch;
  atomic_int_fast64_t next; /* part */
} rowwise_run;

static void work(void *context, int member)
{
  rowwise_run *run = context;
  const rowwise_plan *p = run->plan;
  int64_t each = hr_round_up(hr_ceil_div(p->count, p->parts), p->grain);
  float *scratch = p->scratch_floats > 0 ? run->scratch + member * p->scratch_floats : NULL;
  for (int64_t part = run->next++; part * each < p->count; part = run->next++)
    p->work(&run->job, part * each, hr_min64((part + 1) * each, p->count), scratch);
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  (void)error;
  const rowwise_plan *p = plan->state;
  const hr_rowwise *r = &plan->problem.rows;
  const hr_rowwise_arguments *x = run->arguments;
  rowwise_run rows = {
      .plan = p, .job = {.rows = r, .output = x->output, .stream = p->stream}, .scratch = run->workspace};
  for (int i = 0; i < hr_rowwise_inputs(r->operation); i++)
    rows.job.inputs[i] = x->inputs[i];
  if (p->threads == 1)
    work(&rows, 0);
  else
    hr_thread_pool_run(p->pool, work, &rows);
  return HR_OK;
}

static void describe(const void *state, char *text, size_t size)
{
  const rowwise_plan *p = state;
  snprintf(text, size, "%d thread%s%s", p->threads, p->threads == 1 ? "" : "s", p->stream ? ", streaming stores" : "");
}

#if !defined(__x86_64__) /* never called: `needs` in kernels.inc excludes them */
#define hr_rowwise_avx512 hr_rowwise_portable
#define hr_rowwise_avx2 hr_rowwise_portable
#endif
#if !defined(__aarch64__)
#define hr_rowwise_neon hr_rowwise_portable
#endif

#define ROWWISE_KERNEL(name, table)                                                                                   \
  static hr_status prepare_##name(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes, \
                                  hr_error *error)                                                                    \
  {                                                                                                                   \
    return prepare(&hr_##table, device, problem, state, workspace_bytes, error);                                      \
  }                                                                                                                   \
  const hr_kernel_functions hr_kernel_##name = {                                                                      \
      .state_bytes = sizeof(rowwise_plan), .prepare = prepare_##name, .run = run, .describe = describe};

ROWWISE_KERNEL(rowwise_cpu_avx512, rowwise_avx512)
ROWWISE_KERNEL(rowwise_cpu_avx2, rowwise_avx2)
ROWWISE_KERNEL(rowwise_cpu_neon, rowwise_neon)
ROWWISE_KERNEL(rowwise_cpu, rowwise_portable)
