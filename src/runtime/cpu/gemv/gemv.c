/* SPDX-License-Identifier: Apache-2.0 */
/* GEMMs with few rows of A on the CPU, distributed over the thread pool by rows of B, which are those of W. */
#include "runtime/cpu/gemv/gemv.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cpu/host/host.h"
#include "runtime/device/plan.h"

#include <stdatomic.h>
#include <stdio.h>

#define THREAD_BYTES ((int64_t)64 << 10) /* of W; less is not worth waking a thread for */
#define PART_BYTES ((int64_t)128 << 10)  /* of W; with each part memory begins to stream anew */
#define PARTS_PER_THREAD 16              /* at most, so that a late or slow thread gets less of the work */

typedef struct gemv_plan {
  hr_gemv_fn work;
  hr_thread_pool *pool;
  int threads;
  int64_t groups; /* of rows of W, of a batch */
  int64_t each;   /* groups of a part, of all batches in turn */
  hr_gemm gemm;
} gemv_plan;

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  return hr_gemm_has_few_rows(&problem->gemm, why, why_size);
}

static hr_status prepare(hr_gemv_table *table, hr_device *device, const hr_problem *problem, void *state,
                         hr_error *error)
{
  const hr_gemm *g = &problem->gemm;
  gemv_plan *p = state;
  HR_TRY(hr_cpu_thread_pool(device, &p->pool, error));
  p->gemm = *g;
  p->work = (*table)[g->dtype][g->m - 1];
  p->groups = hr_ceil_div(g->n, HR_GEMV_GROUP);
  const int64_t all = p->groups * g->batch, bytes = g->batch * g->n * g->k * (int64_t)hr_dtype_bytes(g->dtype);
  p->threads = (int)hr_min64(hr_min64(device->threads, all), hr_ceil_div(bytes, THREAD_BYTES));
  const int64_t parts = hr_max64(1, hr_min64(bytes / p->threads / PART_BYTES, PARTS_PER_THREAD));
  p->each = hr_ceil_div(all, parts * p->threads);
  return HR_OK;
}

/* Shared by the threads of a run. */
typedef struct gemv_run {
  const gemv_plan *plan;
  const hr_gemm_arguments *arguments;
  hr_matrix a, b, c;
  atomic_int_fast64_t next; /* part */
} gemv_run;

static hr_gemv_job job_of(const gemv_run *run, int64_t batch)
{
  const hr_gemm *g = &run->plan->gemm;
  const hr_gemm_arguments *x = run->arguments;
  const int64_t bytes = (int64_t)hr_dtype_bytes(g->dtype);
  return (hr_gemv_job){.x = (const char *)x->a + batch * run->a.batch_stride * bytes,
                       .w = (const char *)x->b + batch * run->b.batch_stride * bytes,
                       .bias = g->bias ? x->bias : NULL,
                       .y = (char *)x->c + batch * run->c.batch_stride * bytes,
                       .x_row = run->a.leading_dimension,
                       .w_row = run->b.leading_dimension,
                       .y_row = run->c.leading_dimension,
                       .k = g->k,
                       .tokens = (int)g->m};
}

static void work(void *context, int member)
{
  (void)member;
  gemv_run *run = context;
  const gemv_plan *p = run->plan;
  const int64_t all = p->groups * p->gemm.batch;
  for (int64_t part = run->next++; part * p->each < all; part = run->next++) {
    for (int64_t group = part * p->each; group < hr_min64((part + 1) * p->each, all); group++) {
      const hr_gemv_job job = job_of(run, group / p->groups);
      const int64_t first = group % p->groups * HR_GEMV_GROUP;
      p->work(&job, first, hr_min64(first + HR_GEMV_GROUP, p->gemm.n));
    }
  }
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  (void)error;
  const gemv_plan *p = plan->state;
  const hr_gemm *g = &p->gemm;
  gemv_run of = {.plan = p, .arguments = run->arguments, .a = hr_gemm_a(g), .b = hr_gemm_b(g), .c = hr_gemm_c(g)};
  if (p->threads == 1)
    work(&of, 0);
  else
    hr_thread_pool_run(p->pool, work, &of);
  return HR_OK;
}

static void describe(const void *state, char *text, size_t size)
{
  const gemv_plan *p = state;
  snprintf(text, size, "%d thread%s", p->threads, p->threads == 1 ? "" : "s");
}

#if !defined(__x86_64__) /* never called: `needs` in kernels.inc excludes them */
#define hr_gemv_avx512_bf16 hr_gemv_portable
#define hr_gemv_avx512 hr_gemv_portable
#define hr_gemv_avx2 hr_gemv_portable
#endif
#if !defined(__aarch64__)
#define hr_gemv_neon hr_gemv_portable
#endif

#define GEMV_KERNEL(name)                                                                                             \
  static hr_status prepare_##name(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes, \
                                  hr_error *error)                                                                    \
  {                                                                                                                   \
    (void)workspace_bytes;                                                                                            \
    return prepare(&hr_##name, device, problem, state, error);                                                        \
  }                                                                                                                   \
  const hr_kernel_functions hr_kernel_##name = {.state_bytes = sizeof(gemv_plan),                                     \
                                                .supports = supports,                                                 \
                                                .prepare = prepare_##name,                                            \
                                                .run = run,                                                           \
                                                .describe = describe};

GEMV_KERNEL(gemv_avx512_bf16)
GEMV_KERNEL(gemv_avx512)
GEMV_KERNEL(gemv_avx2)
GEMV_KERNEL(gemv_neon)
GEMV_KERNEL(gemv_portable)
