/* SPDX-License-Identifier: Apache-2.0 */
/* Selective V on the CPU: exact scores, the k largest of each query row, and V of these alone.
 *
 *   pass 1  tasks of some K heads and keys: products Q·K of all query rows, into the workspace, K read once
 *   pass 2  tasks of one query row: which products are the k largest (topk_choose.c), their softmax, P·V of gathered V
 *
 * A product does not depend on how keys are divided, and a row is computed by one task in the order of its keys.
 * Results therefore have the same bits for any batch and number of threads. The steps are those of decode_body.h. */
#include "runtime/cpu/decode/topk.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cpu/host/denormals.h"
#include "runtime/cpu/host/host.h"
#include "runtime/device/plan.h"

#include <headroom/experimental/decode.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define TASKS_PER_THREAD 4             /* at least, so that a late thread gets less of the work */
#define KEYS_MAX 2048                  /* of a task */
#define KEYS_MIN 128                   /* below which loading Q takes as long */
#define GROUP_BYTES ((int64_t)1 << 18) /* Q of a task, which stays in a core's cache */

/* ---- division ---- */

/* Heads of a token that are neighbours in memory are read together. */
static void divide(const hr_decode *d, int threads, hr_topk_cut *c)
{
  hr_kv_strides k = hr_decode_k_strides(d);
  int64_t head_bytes = c->k_rows * c->q_pitch * (int64_t)sizeof(float), wanted = (int64_t)TASKS_PER_THREAD * threads;
  c->heads = k.head < k.token ? hr_max64(1, hr_min64(d->k_heads, GROUP_BYTES / head_bytes)) : 1;
  c->groups = hr_ceil_div(d->k_heads, c->heads);
  int64_t keys = hr_decode_keys_max(d), each = keys / hr_max64(1, wanted / hr_max64(1, d->batch * c->groups));
  c->keys = hr_min64(KEYS_MAX, hr_max64(KEYS_MIN, each)) / HR_SPLIT_BLOCK * HR_SPLIT_BLOCK;
  c->splits = hr_max64(1, hr_ceil_div(keys, c->keys));
}

static hr_checked64 floats(int64_t a, int64_t b)
{
  return hr_times(hr_times(hr_checked(a), b), sizeof(float));
}

/* Both passes use a thread's slot, one after the other. */
static hr_checked64 place_slot(hr_topk_cut *c)
{
  hr_checked64 first = hr_checked(0), second = hr_checked(0);
  hr_checked64 scratch = hr_larger(floats(HR_SPLIT_SCRATCH_KEYS, c->q_pitch), floats(HR_SPLIT_SCRATCH_VALUES, 1));
  c->scratch = hr_place(&first, scratch);
  second = first;
  c->q = hr_place(&first, floats(c->heads * c->k_rows, c->q_pitch));
  c->s = hr_place(&first, floats(c->k_rows, HR_SPLIT_BLOCK));
  c->places = hr_place(&second, floats(c->pitch, 1));
  c->keys_at = hr_place(&second, floats(c->pitch, 1));
  c->bits = hr_place(&second, hr_checked(c->pitch / 8));
  c->p = hr_place(&second, floats(HR_SPLIT_BLOCK, 1));
  c->o = hr_place(&second, floats(c->o_pitch, 1));
  hr_checked64 end = hr_larger(first, second);
  c->slot_bytes = hr_place(&end, hr_checked(0));
  return end;
}

hr_status hr_topk_cut_make(const hr_decode *d, int threads, hr_topk_cut *cut, hr_error *error)
{
  hr_topk_cut c = {.k_rows = d->q_heads / d->k_heads * d->q_len};
  c.q_pitch = hr_round_up(d->qk_dim, HR_SPLIT_PAD);
  c.o_pitch = hr_round_up(d->v_dim, HR_SPLIT_PAD);
  c.pitch = hr_round_up(hr_decode_keys_max(d), 64) + 64; /* a row begins anywhere, and whole words of 64 are read */
  if (hr_times(floats(c.k_rows, c.q_pitch + c.o_pitch), 4 * d->k_heads).overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the workspace exceeds 63 bits");
  divide(d, threads, &c);
  hr_checked64 end = hr_times(place_slot(&c), threads);
  int64_t bytes;
  c.scores = hr_place(&end, hr_times(hr_times(floats(c.pitch, d->q_heads), d->q_len), d->batch));
  if (hr_checked_take(end, &bytes) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the workspace exceeds 63 bits");
  c.bytes = (size_t)bytes;
  *cut = c;
  return HR_OK;
}

/* ---- the plan ---- */

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  if (hr_decode_selects(&problem->decode))
    return true;
  snprintf(why, why_size, "has nothing to select without a top_k that is smaller than the number of keys");
  return false;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, const hr_split_version *version, void *state,
                         size_t *workspace_bytes, hr_error *error)
{
  const hr_decode *d = &problem->decode;
  hr_topk_plan *p = state;
  HR_TRY(hr_cpu_thread_pool(device, &p->pool, error));
  HR_TRY(hr_topk_cut_make(d, device->threads, &p->cut, error));
  p->threads = device->threads;
  p->version = version;
  p->negated = hr_decode_scale(d) < 0;
  p->scores = hr_split_score_rules(d);
  p->scores.scale = fabsf(p->scores.scale);
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
  hr_topk_run *run = context;
  unsigned before = hr_cpu_flush_denormals();
  for (int64_t i; (i = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed)) < run->tasks;)
    run->task(run, i, thread);
  hr_cpu_restore_denormals(before);
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  hr_topk_plan bounded = *(const hr_topk_plan *)plan->state, *p = &bounded;
  const hr_decode *d = &run->problem->decode;
  if (run->problem != &plan->problem) /* the workspace grows with the batch */
    HR_TRY(hr_topk_cut_make(d, p->threads, &p->cut, error));
  hr_topk_run scoring = {.plan = p, .problem = d, .arguments = run->arguments, .workspace = run->workspace};
  scoring.tasks = d->batch * p->cut.groups * p->cut.splits, scoring.task = hr_topk_score;
  hr_thread_pool_run(p->pool, work, &scoring);
  hr_topk_run gathering = {.plan = p, .problem = d, .arguments = run->arguments, .workspace = run->workspace};
  gathering.tasks = d->batch * d->q_heads * d->q_len, gathering.task = hr_topk_gather;
  hr_thread_pool_run(p->pool, work, &gathering);
  return HR_OK;
}

static void describe(const void *state, char *text, size_t size)
{
  const hr_topk_cut *c = &((const hr_topk_plan *)state)->cut;
  snprintf(text, size, "scores by %" PRId64 " K heads and %" PRId64 " keys, then V row by row", c->heads, c->keys);
}

#if !defined(__x86_64__) /* never called: `needs` in kernels.inc excludes them */
#define hr_split_avx512 hr_split_portable
#define hr_split_avx2 hr_split_portable
#endif
#if !defined(__aarch64__)
#define hr_split_neon hr_split_portable
#endif

#define TOPK_KERNEL(name)                                                                                             \
  static hr_status prepare_##name(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes, \
                                  hr_error *error)                                                                    \
  {                                                                                                                   \
    return prepare(device, problem, &hr_split_##name, state, workspace_bytes, error);                                 \
  }                                                                                                                   \
  const hr_kernel_functions hr_kernel_decode_topk_##name = {.state_bytes = sizeof(hr_topk_plan),                      \
                                                            .supports = supports,                                     \
                                                            .prepare = prepare_##name,                                \
                                                            .run = run,                                               \
                                                            .describe = describe};

TOPK_KERNEL(avx512)
TOPK_KERNEL(avx2)
TOPK_KERNEL(neon)
TOPK_KERNEL(portable)
