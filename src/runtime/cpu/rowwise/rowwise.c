/* SPDX-License-Identifier: Apache-2.0 */
/* Row-wise operations on the CPU, distributed over the thread pool by rows, or by elements where rows do not matter. */
#include "runtime/cpu/rowwise/rowwise.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cpu/host/host.h"
#include "runtime/device/plan.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define PART_BYTES ((int64_t)64 << 10) /* a smaller part is not worth waking a thread for */
#define PARTS_PER_THREAD 8             /* so that a late or slow thread gets less of the work */
#define LINE 64
#define CLIP_EPSILON 1e-6f

typedef struct rowwise_plan {
  hr_rowwise_fn work;
  hr_thread_pool *pool;
  int threads, pool_threads;
  int64_t parts, count, grain; /* rows or elements; a part is a multiple of `grain` of them */
  int64_t scratch_floats;      /* of a thread */
  int vectors;                 /* that are summed over the rows */
  int64_t sums_width;          /* floats of such a vector, or of adamw's squares of the gradient: 1 */
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

static int64_t part_length(const rowwise_plan *p)
{
  return hr_round_up(hr_ceil_div(p->count, p->parts), p->grain);
}

/* Vectors of the last outputs, which have one row. */
static int count_vectors(const hr_rowwise_operands *of)
{
  int vectors = 0;
  for (int i = 0; i < of->outputs; i++)
    vectors += of->output[i].extent == HR_EXTENT_ROW;
  return vectors;
}

/* Room for what each part adds up. */
static void plan_sums(rowwise_plan *p, const hr_rowwise *r)
{
  const hr_rowwise_operands of = hr_rowwise_operands_of(r);
  const bool clips = r->operation == HR_ROWWISE_ADAMW && r->max_norm > 0;
  p->vectors = clips ? 1 : count_vectors(&of);
  p->sums_width = clips ? 1 : p->vectors > 0 ? hr_round_up(r->columns, LINE) : 0;
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
  p->pool_threads = device->threads;
  p->threads = (int)hr_min64(device->threads, p->parts);
  p->scratch_floats = by_element ? 0 : hr_round_up(r->columns + HR_ROWWISE_SCRATCH_MORE, LINE / 4);
  p->stream = bytes > (int64_t)device->cache_bytes;
  plan_sums(p, r);
  *workspace_bytes =
      (size_t)(device->threads * p->scratch_floats + p->parts * p->vectors * p->sums_width) * sizeof(float);
  return HR_OK;
}

/* Shared by the threads of a phase of a run. */
typedef struct rowwise_run {
  const rowwise_plan *plan;
  hr_rowwise_job job;
  float *scratch;
  int64_t count, each;      /* rows, elements or columns; of a part */
  bool apart;               /* each part has its own sums */
  atomic_int_fast64_t next; /* part */
} rowwise_run;

static void work(void *context, int member)
{
  rowwise_run *run = context;
  const rowwise_plan *p = run->plan;
  hr_rowwise_job job = run->job;
  const int64_t floats = p->vectors * p->sums_width;
  float *scratch = p->scratch_floats > 0 ? run->scratch + member * p->scratch_floats : NULL;
  for (int64_t part = run->next++; part * run->each < run->count; part = run->next++) {
    if (run->apart) {
      job.sums = run->job.sums + part * floats;
      /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): the workspace has sums */
      memset(job.sums, 0, (size_t)floats * sizeof(float));
    }
    p->work(&job, part * run->each, hr_min64((part + 1) * run->each, run->count), scratch);
  }
}

static void run_phase(rowwise_run *run, hr_rowwise_phase phase, int64_t count, int64_t each)
{
  const rowwise_plan *p = run->plan;
  run->job.phase = phase;
  run->count = count;
  run->each = each;
  run->next = 0;
  if (p->threads == 1)
    work(run, 0);
  else
    hr_thread_pool_run(p->pool, work, run);
}

/* What AdamW scales gradients by, from the squares of parts: a NaN stays one. */
static float clip_of(const rowwise_run *run, const float *parts, int64_t count)
{
  float squares = 0;
  for (int64_t i = 0; i < count; i++)
    squares += parts[i]; /* NOLINT(clang-analyzer-core.NullDereference): the workspace has sums */
  const float clip = (float)run->job.adamw.max_norm / (sqrtf(squares) + CLIP_EPSILON);
  return clip > 1 ? 1 : clip;
}

static void run_adamw(rowwise_run *run, const hr_rowwise_arguments *x)
{
  const rowwise_plan *p = run->plan;
  run->job.adamw = hr_adamw_of(run->job.rows, x->step);
  run->job.clip = 1;
  run->apart = true;
  if (p->vectors > 0 && x->squares) {
    run->job.clip = clip_of(run, x->squares, x->squares_count);
  } else if (p->vectors > 0) {
    run_phase(run, HR_ROWWISE_SUMS, p->count, part_length(p));
    run->job.clip = clip_of(run, run->job.sums, run->job.parts);
  }
  run->apart = false;
  run_phase(run, HR_ROWWISE_MAIN, p->count, part_length(p));
}

/* Rows or elements of the first rows, where the caller has a number of them. */
static int64_t count_of(const rowwise_run *run, const int32_t *row_count)
{
  const hr_rowwise *r = run->job.rows;
  const int64_t all = run->plan->count;
  return row_count ? hr_min64(all, hr_rowwise_by_element(r->operation) ? *row_count * r->columns : *row_count) : all;
}

static void run_rows(rowwise_run *run, const int32_t *row_count)
{
  const rowwise_plan *p = run->plan;
  const int64_t columns = run->job.rows->columns;
  run->apart = p->vectors > 0;
  run_phase(run, HR_ROWWISE_MAIN, count_of(run, row_count), part_length(p));
  run->apart = false;
  if (p->vectors > 0)
    run_phase(run, HR_ROWWISE_SUMS, columns, hr_round_up(hr_ceil_div(columns, p->threads), LINE));
}

static void run_table(rowwise_run *run)
{
  const int64_t table_rows = run->job.rows->period;
  run->apart = false;
  run_phase(run, HR_ROWWISE_SUMS, table_rows, hr_ceil_div(table_rows, run->plan->threads));
  run_phase(run, HR_ROWWISE_MAIN, run->plan->count, part_length(run->plan));
}

/* Whether the first result is where an input is: its lines are in the cache then, so that stores past it cost more. */
static bool replaces_input(const hr_rowwise_operands *of, const void *const *inputs, void *const *outputs)
{
  return of->output[0].replaces > 0 && inputs[of->output[0].replaces - 1] == outputs[0];
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  (void)error;
  const rowwise_plan *p = plan->state;
  const hr_rowwise *r = &plan->problem.rows;
  const hr_rowwise_arguments *x = run->arguments;
  const hr_rowwise_operands of = hr_rowwise_operands_of(r);
  const void *inputs[] = {x->inputs[0], x->inputs[1], x->inputs[2], x->more_inputs[0]};
  void *outputs[] = {x->output, x->more_outputs[0], x->more_outputs[1], x->more_outputs[2]};
  rowwise_run rows = {.plan = p,
                      .job = {.rows = r, .stream = p->stream && !replaces_input(&of, inputs, outputs)},
                      .scratch = run->workspace};
  for (int i = 0; i < of.inputs; i++)
    rows.job.inputs[i] = inputs[i];
  for (int i = 0; i < of.outputs; i++)
    rows.job.outputs[i] = outputs[i];
  rows.job.sums = rows.scratch ? rows.scratch + p->pool_threads * p->scratch_floats : NULL;
  rows.job.parts = hr_ceil_div(p->count, part_length(p));
  rows.job.sums_width = p->sums_width;
  rows.job.vectors = p->vectors;
  rows.job.first_vector = of.outputs - p->vectors;
  if (r->operation == HR_ROWWISE_ADAMW)
    run_adamw(&rows, x);
  else if (r->operation == HR_ROWWISE_GATHER_BACKWARD)
    run_table(&rows);
  else
    run_rows(&rows, x->row_count);
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
