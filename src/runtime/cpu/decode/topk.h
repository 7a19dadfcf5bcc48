/* SPDX-License-Identifier: Apache-2.0 */
/* Selective V on the CPU: plans, runs, and the layout of the workspace. */
#ifndef HR_RUNTIME_CPU_DECODE_TOPK_H
#define HR_RUNTIME_CPU_DECODE_TOPK_H

#include "runtime/cpu/decode/version.h"
#include "runtime/cpu/host/thread_pool.h"
#include "runtime/device/plan.h"
#include "runtime/operation/decode_sequences.h"

#include <stdatomic.h>

/** Tasks of the first pass: a sequence, some K heads, some keys. Those of the second: a query of a head. */
typedef struct hr_topk_cut {
  int64_t heads, groups;              /* K heads of a task; tasks that have all K heads */
  int64_t keys, splits;               /* keys of a task; tasks that have all keys of the longest sequence */
  int64_t k_rows;                     /* query rows of a K head */
  int64_t q_pitch, o_pitch;           /* floats */
  int64_t pitch;                      /* floats of a query row's scores */
  size_t q, s, scratch;               /* first pass: of a thread, from its slot's start */
  size_t places, keys_at, bits, p, o; /* second pass */
  size_t slot_bytes;
  size_t scores; /* [sequence][head][query][pitch], behind the slots */
  size_t bytes;
} hr_topk_cut;

/** HR_ERROR_OVERFLOW if the workspace exceeds 63 bits. */
hr_status hr_topk_cut_make(const hr_decode *decode, int threads, hr_topk_cut *cut, hr_error *error);

typedef struct hr_topk_plan {
  const hr_split_version *version;
  hr_topk_cut cut;
  hr_split_scores scores; /* of products with Q or, if the scale is negative, with −Q */
  bool negated;
  hr_strides q, o;
  hr_kv_strides k, v, k_scales, v_scales;
  bool quantized;
  hr_dtype format; /* of K and V, or HR_SPLIT_INT8 */
  hr_thread_pool *pool;
  int threads;
} hr_topk_plan;

typedef struct hr_topk_run {
  const hr_topk_plan *plan;
  const hr_decode *problem;
  const hr_decode_arguments *arguments;
  char *workspace;
  int64_t tasks;
  void (*task)(const struct hr_topk_run *run, int64_t index, int thread);
  atomic_llong next;
} hr_topk_run;

/** Task `index` of batch · groups · splits: products of Q and K, into the workspace. */
void hr_topk_score(const hr_topk_run *run, int64_t index, int thread);

/** Task `index` of batch · q_heads · q_len: the choice of a query row, and its softmax and P·V over the chosen keys. */
void hr_topk_gather(const hr_topk_run *run, int64_t index, int thread);

#endif
