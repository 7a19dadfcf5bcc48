/* SPDX-License-Identifier: Apache-2.0 */
/* Decode attention on the CPU: plans, and the distribution of tasks over the thread pool.
 *
 *   unit:   the query heads that share K or V heads, so that a thread reads each row of the cache once
 *   group:  units whose heads of a token are neighbours in memory
 *   split:  HR_SPLIT_KEYS keys, whose sums (base, total, O) begin at 0
 *   block:  HR_SPLIT_BLOCK keys of a split: products with all K heads, softmax, then all V heads
 *
 * A row of the result has the same bits for any batch, lengths of other sequences and number of threads: splits and
 * blocks begin at multiples of their size, and sums of splits are added in order (cut.h). */
#include "base/error.h"
#include "runtime/cpu/decode/task.h"
#include "runtime/cpu/host/denormals.h"
#include "runtime/cpu/host/host.h"
#include "runtime/device/plan.h"

#include <inttypes.h>
#include <stdio.h>

#define LOG2_E 1.4426950408889634

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  return !hr_decode_cannot_select(&problem->decode, why, why_size);
}

static hr_split_scores score_rules(const hr_decode *d)
{
  double scale = hr_decode_scale(d), softcap = (double)d->softcap;
  if (softcap > 0)
    return (hr_split_scores){(float)(scale / softcap), (float)(softcap * LOG2_E)};
  return (hr_split_scores){(float)(scale * LOG2_E), 0};
}

static hr_status prepare(hr_device *device, const hr_problem *problem, const hr_split_version *version, void *state,
                         size_t *workspace_bytes, hr_error *error)
{
  const hr_decode *d = &problem->decode;
  hr_split_plan *p = state;
  HR_TRY(hr_cpu_thread_pool(device, &p->pool, error));
  HR_TRY(hr_split_cut_make(d, device->threads, &p->cut, error));
  p->version = version;
  p->scores = score_rules(d);
  p->q = hr_decode_q_strides(d);
  p->o = hr_decode_o_strides(d);
  p->k = hr_decode_k_strides(d);
  p->v = hr_decode_v_strides(d);
  p->k_scales = hr_decode_k_scale_strides(d);
  p->v_scales = hr_decode_v_scale_strides(d);
  p->quantized = d->cache_format != HR_KV_UNQUANTIZED;
  p->format = hr_split_format(d);
  *workspace_bytes = p->cut.bytes;
  return HR_OK;
}

static void work(void *context, int thread)
{
  hr_split_run *run = context;
  unsigned before = hr_cpu_flush_denormals();
  for (int64_t i, tasks = hr_split_tasks(run);
       (i = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed)) < tasks;)
    hr_split_task(run, i, thread);
  hr_cpu_restore_denormals(before);
}

static hr_status run(const hr_plan *plan, const hr_decode_arguments *arguments, void *workspace, hr_error *error)
{
  (void)error;
  const hr_split_plan *p = plan->state;
  hr_split_run run = {.plan = p, .problem = &plan->problem.decode, .arguments = arguments, .workspace = workspace};
  hr_split_begin(&run);
  hr_thread_pool_run(p->pool, work, &run);
  return HR_OK;
}

static void describe(const void *state, char *text, size_t size)
{
  const hr_split_cut *c = &((const hr_split_plan *)state)->cut;
  snprintf(text, size, "%" PRId64 " query heads at a time, %s of %d keys", c->group_units * c->unit.q_heads,
           c->splits > 1 ? "tasks" : "splits", HR_SPLIT_KEYS);
}

#if !defined(__x86_64__) /* never called: `needs` in kernels.inc excludes them */
#define hr_split_avx512 hr_split_portable
#define hr_split_avx2 hr_split_portable
#endif
#if !defined(__aarch64__)
#define hr_split_neon hr_split_portable
#endif

#define DECODE_KERNEL(name, version)                                                                                  \
  static hr_status prepare_##name(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes, \
                                  hr_error *error)                                                                    \
  {                                                                                                                   \
    return prepare(device, problem, &hr_##version, state, workspace_bytes, error);                                    \
  }                                                                                                                   \
  const hr_kernel_functions hr_kernel_decode_##name = {.state_bytes = sizeof(hr_split_plan),                          \
                                                       .supports = supports,                                          \
                                                       .prepare = prepare_##name,                                     \
                                                       .run_decode = run,                                             \
                                                       .describe = describe};

DECODE_KERNEL(split_avx512, split_avx512)
DECODE_KERNEL(split_avx2, split_avx2)
DECODE_KERNEL(split_neon, split_neon)
DECODE_KERNEL(split_portable, split_portable)
