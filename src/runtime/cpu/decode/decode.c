/* SPDX-License-Identifier: Apache-2.0 */
/* Decode attention on the CPU: plans, and the distribution of tasks over the thread pool.
 *
 *   unit:   the query heads that share K or V heads, so that a thread reads each row of the cache once
 *   group:  units whose heads of a token are neighbours in memory
 *   split:  HR_SPLIT_KEYS keys, whose sums (base, total, O) begin at 0
 *   block:  32 keys of a split, or up to 128 with tiles: products with all K heads, softmax, then all V heads
 *
 * A row of the result has the same bits for any batch, lengths of other sequences and number of threads: splits and
 * blocks begin at multiples of their size, and sums of splits are added in order (cut.h). */
#include "base/error.h"
#include "runtime/cpu/decode/plan.h"
#include "runtime/cpu/host/denormals.h"
#include "runtime/cpu/host/host.h"
#include "runtime/device/plan.h"

#include <headroom/experimental/decode.h>
#include <inttypes.h>
#include <stdio.h>

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  return !hr_decode_cannot_select(&problem->decode, why, why_size);
}

/* Fewer query rows a head leave most of a tile empty. */
#define TILE_ROWS_MIN 4

static bool supports_tiles(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  const hr_decode *d = &problem->decode;
  if (d->cache_format != HR_KV_UNQUANTIZED) {
    snprintf(why, why_size, "the cache is quantized");
    return false;
  }
  if (d->alibi) {
    snprintf(why, why_size, "has no ALiBi");
    return false;
  }
  int64_t rows = d->q_heads / d->k_heads * d->q_len;
  if (rows < TILE_ROWS_MIN) {
    snprintf(why, why_size, "%" PRId64 " query rows share a K head; it takes %d", rows, TILE_ROWS_MIN);
    return false;
  }
  return supports(device, problem, why, why_size);
}

hr_status hr_split_prepare(hr_device *device, const hr_problem *problem, const hr_split_version *version, void *state,
                           size_t *workspace_bytes, hr_error *error)
{
  const hr_decode *d = &problem->decode;
  hr_split_plan *p = state;
  HR_TRY(hr_cpu_thread_pool(device, &p->pool, error));
  HR_TRY(hr_split_cut_make(d, version->tiles, device->threads, &p->cut, error));
  HR_TRY(hr_split_bytes_max(d, version->tiles, device->threads, workspace_bytes, error));
  p->threads = device->threads;
  p->version = version;
  p->scores = hr_split_score_rules(d);
  p->q = hr_decode_q_strides(d);
  p->o = hr_decode_o_strides(d);
  p->k = hr_decode_k_strides(d);
  p->v = hr_decode_v_strides(d);
  p->k_scales = hr_decode_k_scale_strides(d);
  p->v_scales = hr_decode_v_scale_strides(d);
  p->quantized = d->cache_format != HR_KV_UNQUANTIZED;
  p->format = hr_split_format(d);
  return HR_OK;
}

static void work(void *context, int thread)
{
  hr_split_run *run = context;
  const hr_split_version *version = run->plan->version;
  unsigned before = hr_cpu_flush_denormals();
  if (version->enter)
    version->enter();
  for (int64_t i, tasks = hr_split_tasks(run);
       (i = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed)) < tasks;)
    hr_split_task(run, i, thread);
  if (version->leave)
    version->leave();
  hr_cpu_restore_denormals(before);
}

hr_status hr_split_run_plan(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  hr_split_plan p = *(const hr_split_plan *)plan->state;
  const hr_decode *d = &run->problem->decode;
  if (run->problem != &plan->problem)
    HR_TRY(hr_split_cut_make(d, p.version->tiles, p.threads, &p.cut, error));
  hr_split_run split = {.plan = &p, .problem = d, .arguments = run->arguments, .workspace = run->workspace};
  hr_split_begin(&split);
  hr_thread_pool_run(p.pool, work, &split);
  return HR_OK;
}

static void describe(const void *state, char *text, size_t size)
{
  const hr_split_cut *c = &((const hr_split_plan *)state)->cut;
  snprintf(text, size, "%" PRId64 " query heads at a time, %s of %d keys", c->group_units * c->unit.q_heads,
           c->splits > 1 ? "tasks" : "splits", HR_SPLIT_KEYS);
}

#if !defined(__x86_64__) /* never called: `needs` in kernels.inc excludes them */
#define hr_split_amx hr_split_portable
#define hr_split_avx512 hr_split_portable
#define hr_split_avx2 hr_split_portable
#endif
#if !defined(__aarch64__)
#define hr_split_neon hr_split_portable
#endif

#define DECODE_KERNEL(name, version, takes)                                                                           \
  static hr_status prepare_##name(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes, \
                                  hr_error *error)                                                                    \
  {                                                                                                                   \
    return hr_split_prepare(device, problem, &hr_##version, state, workspace_bytes, error);                           \
  }                                                                                                                   \
  const hr_kernel_functions hr_kernel_decode_##name = {.state_bytes = sizeof(hr_split_plan),                          \
                                                       .supports = takes,                                             \
                                                       .prepare = prepare_##name,                                     \
                                                       .run = hr_split_run_plan,                                      \
                                                       .describe = describe};

DECODE_KERNEL(split_amx, split_amx, supports_tiles)
DECODE_KERNEL(split_avx512, split_avx512, supports)
DECODE_KERNEL(split_avx2, split_avx2, supports)
DECODE_KERNEL(split_neon, split_neon, supports)
DECODE_KERNEL(split_portable, split_portable, supports)
