/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about the attention heads: their size, their number, and the K and V heads that they share. */
#include "analysis/advise/rules.h"
#include "base/checked.h"
#include "model/config/families.h"
#include "model/reshape/reshape.h"

#include <headroom/memory.h>
#include <inttypes.h>
#include <stdlib.h>

/* Fused kernels are hardly faster with larger heads (PyTorch 2.11 on an H200, 2026-11-21: rates at 192 and 256 within
 * 7% of that at 128), which few models have; such a model may keep them. */
#define HEAD_DIM_LARGEST 128

/* SIGMA's smallest K heads (arXiv 2501.13629, tables 2 and 6: half of 64). */
#define HEAD_DIM_LEAST 32

/* Head sizes that every library has kernels for, the most usual first: they win among sizes that are equally fast. */
static const int64_t usual_head_dims[] = {128, 64, 256};

/* Predictions are no finer. */
#define EQUALLY_FAST 0.005

/* A size that libraries have few kernels for has to gain more. */
#define HARDLY_USED 0.02

/* Puts so many query heads into `width`; K and V heads in their ratio, else as many as before. False unless all of them
 * split over t. */
static bool with_heads(const hr_advice *advice, hr_width_ratio width, int64_t q_heads, hr_model *changed)
{
  const hr_model *model = &advice->model;
  static const hr_kv_follow follows[] = {HR_KV_RATIO, HR_KV_COUNT};
  for (size_t i = 0; i < sizeof follows / sizeof *follows; i++) {
    if (hr_reshape_attention(model, model->hidden, width, q_heads, follows[i], changed) &&
        hr_heads_split(changed, advice->workload.tensor_parallel))
      return true;
  }
  return false;
}

/* The model with heads of `dim` that together are as wide as before; false if none split over t. */
static bool with_head_dim(const hr_advice *advice, int64_t dim, hr_model *changed)
{
  const hr_mixer_attention *own = hr_main_attention(&advice->model);
  int64_t width = own->q_heads * own->qk_dim;
  return width % dim == 0 && with_heads(advice, (hr_width_ratio){1, 1}, width / dim, changed);
}

/* The model with as many heads of `dim`, where its configuration can say so; false if they do not split over t. */
static bool with_head_size(const hr_advice *advice, int64_t dim, hr_model *changed)
{
  const hr_mixer_attention *own = hr_main_attention(&advice->model);
  return hr_head_dim_is_free(&advice->model) &&
         with_heads(advice, (hr_width_ratio){dim, own->qk_dim}, own->q_heads, changed);
}

static bool is_usual_dim(int64_t dim)
{
  bool usual = false;
  for (size_t i = 0; i < sizeof usual_head_dims / sizeof *usual_head_dims; i++)
    usual = usual || dim == usual_head_dims[i];
  return usual;
}

static void keep_better_heads(hr_advice_context *context, const hr_model *changed, hr_trial *best)
{
  hr_trial trial;
  double more = is_usual_dim(hr_main_attention(changed)->qk_dim) ? EQUALLY_FAST : HARDLY_USED;
  if (hr_evaluate(context, changed, NULL, &trial) && (best->time_ns <= 0 || trial.net_gain > best->net_gain + more))
    *best = trial;
}

static void try_equal_width(hr_advice_context *context, int64_t dim, hr_trial *best)
{
  hr_model changed;
  if (dim != hr_main_attention(&context->advice->model)->qk_dim && with_head_dim(context->advice, dim, &changed))
    keep_better_heads(context, &changed, best);
}

static void try_equal_number(hr_advice_context *context, int64_t dim, hr_trial *best)
{
  hr_model changed;
  if (dim != hr_main_attention(&context->advice->model)->qk_dim && with_head_size(context->advice, dim, &changed))
    keep_better_heads(context, &changed, best);
}

/* The usual size that is fewest times larger or smaller. */
static int64_t nearest_usual_dim(int64_t dim)
{
  int64_t nearest = usual_head_dims[0];
  for (size_t i = 1; i < sizeof usual_head_dims / sizeof *usual_head_dims; i++) {
    const int64_t usual = usual_head_dims[i];
    if (hr_max64(usual, dim) * hr_min64(nearest, dim) < hr_max64(nearest, dim) * hr_min64(usual, dim))
      nearest = usual;
  }
  return nearest;
}

/* The nearest usual size of as many heads comes first: they keep the hidden size and split as before. Sizes that are
 * further away would be another model. */
static hr_trial best_head_dim(hr_advice_context *context, int64_t least, int64_t most, int64_t step)
{
  const int64_t own = hr_main_attention(&context->advice->model)->qk_dim;
  hr_trial best = {.time_ns = 0};
  try_equal_number(context, nearest_usual_dim(own), &best);
  for (size_t i = 0; i < sizeof usual_head_dims / sizeof *usual_head_dims; i++) {
    if (usual_head_dims[i] <= most)
      try_equal_width(context, usual_head_dims[i], &best);
  }
  for (int64_t dim = least; dim <= most; dim += step) {
    try_equal_width(context, dim, &best);
    if (llabs(dim - own) * 2 <= step)
      try_equal_number(context, dim, &best);
  }
  return best;
}

/* Suggests the trial, or reports that the rule is not applicable. */
static void report_heads(hr_advice_context *context, const hr_trial *best, const char *reason)
{
  const hr_advice *advice = context->advice;
  const hr_operator_set matmuls = hr_attention_matmuls(&advice->step);
  int64_t stages = advice->workload.pipeline_stages;
  const hr_mixer_attention *heads = hr_main_attention(&best->model);
  hr_text192 current = hr_format_heads(&advice->model), suggested = hr_format_heads(&best->model);
  hr_trial shown;
  if (!hr_evaluate(context, &best->model, NULL, &shown))
    return;
  hr_text32 before = hr_format_time(hr_time_of(&advice->step, &advice->model, stages, matmuls));
  hr_text32 after = hr_format_time(hr_time_of(&context->after, &best->model, stages, matmuls));
  hr_text32 rate = hr_format_rate(&advice->step, matmuls), new_rate = hr_format_rate(&context->after, matmuls);
  bool fused = advice->workload.attention == HR_ATTENTION_FUSED;
  if (!hr_is_worthwhile(best)) {
    hr_add_not_applicable(context, matmuls, current.text, "%s, but attention%s %s, and %s with %s (%s of the step)",
                          reason, fused ? " takes" : "'s GEMMs take", before.text, after.text, suggested.text,
                          hr_format_gain(best->gain).text);
    return;
  }
  hr_add_suggestion(context, best, matmuls, HR_OPERATOR_BIT(HR_OP_SOFTMAX), current.text, suggested.text,
                    "%s: attention%s at %s (%s), with %" PRId64 " heads of %" PRId64 " at %s (%s)", reason,
                    fused ? " runs" : "'s GEMMs run", rate.text, before.text, heads->q_heads, heads->qk_dim,
                    new_rate.text, after.text);
}

static bool is_even(const hr_mixer_attention *heads)
{
  return heads->qk_dim % 64 == 0 && heads->v_dim % 64 == 0;
}

/* The heads whose size is not a multiple of 64, of the main layers if theirs is not; NULL if all are. */
static const hr_mixer_attention *uneven_heads(const hr_model *model)
{
  if (!is_even(hr_main_attention(model)))
    return hr_main_attention(model);
  for (size_t i = 0; i < model->group_count; i++) {
    if (!is_even(&model->groups[i].attention))
      return &model->groups[i].attention;
  }
  return NULL;
}

static hr_text192 format_uneven(const hr_model *model, const hr_mixer_attention *heads)
{
  const char *name = heads->qk_dim % 64 ? "h/a =" : "of V,", *end = heads->qk_dim % 64 ? "" : ",";
  int64_t size = heads->qk_dim % 64 ? heads->qk_dim : heads->v_dim;
  return hr_format_text("the head size %s %" PRId64 "%s%s is %s", name, size,
                        hr_format_layers_with_heads(model, heads).text, end, hr_format_divisibility(size).text);
}

void hr_rule_head_size(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_model *model = &advice->model;
  const hr_mixer_attention *main = hr_main_attention(model), *uneven = uneven_heads(model);
  const hr_operator_set matmuls = hr_attention_matmuls(&advice->step);
  if (hr_lacks_heads(context))
    return;
  if (!uneven) {
    hr_add_satisfied(context, matmuls, hr_format_heads(model).text, "the head size %" PRId64 " is a multiple of 64",
                     main->qk_dim);
    return;
  }
  int64_t most = hr_max64(HEAD_DIM_LARGEST, hr_round_up(hr_min64(main->qk_dim, 1024), 64));
  hr_trial best = best_head_dim(context, 64, most, 64);
  if (best.time_ns <= 0)
    best = best_head_dim(context, 48, most, 8);
  hr_text192 reason = format_uneven(model, uneven);
  if (best.time_ns <= 0) {
    int64_t t = advice->workload.tensor_parallel;
    hr_text192 sharing = t > 1 ? hr_format_text(" that %" PRId64 " devices can split", t) : hr_format_text("%s", "");
    hr_add_satisfied(context, matmuls, hr_format_heads(model).text,
                     "%s, but no other heads%s divide h = %" PRId64 " better: the hidden size would have to change",
                     reason.text, sharing.text, model->hidden);
    return;
  }
  report_heads(context, &best, reason.text);
}

void hr_rule_fewer_heads(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_mixer_attention *main = hr_main_attention(&advice->model);
  const hr_operator_set matmuls = hr_attention_matmuls(&advice->step);
  hr_text192 current = hr_format_heads(&advice->model);
  if (hr_lacks_heads(context))
    return;
  if (main->qk_dim >= HEAD_DIM_LARGEST) {
    hr_add_satisfied(context, matmuls, current.text, "a head size of %" PRId64 " already suits fused kernels",
                     main->qk_dim);
    return;
  }
  if (main->qk_dim % 64 != 0) {
    hr_add_satisfied(context, matmuls, current.text, "the head size %" PRId64 " is not a multiple of 64: see head_size",
                     main->qk_dim);
    return;
  }
  hr_model changed;
  hr_trial trial;
  if (!with_head_dim(advice, HEAD_DIM_LARGEST, &changed) || !hr_evaluate(context, &changed, NULL, &trial)) {
    hr_add_satisfied(context, matmuls, current.text,
                     "%" PRId64 " heads of %" PRId64 " do not make heads of 128 that %" PRId64 " devices can split",
                     main->q_heads, main->qk_dim, advice->workload.tensor_parallel);
    return;
  }
  int64_t fewer = hr_main_attention(&changed)->q_heads;
  hr_text192 reason = hr_format_text("%" PRId64 " heads compute %" PRId64 " score matrices, %" PRId64
                                     " larger heads would compute %" PRId64,
                                     main->q_heads, main->q_heads, fewer, fewer);
  report_heads(context, &trial, reason.text);
}

static int64_t cache_bytes_per_token(const hr_advice *advice, const hr_model *model)
{
  hr_memory memory;
  return hr_memory_estimate(model, &advice->workload, &memory, NULL) == HR_OK ? memory.kv_cache_bytes_per_token : 0;
}

/* Gain of a decode step with a context as long as the sequence (in decode: the requested context). */
static double decode_gain(hr_advice_context *context, const hr_model *changed)
{
  const hr_advice *advice = context->advice;
  hr_workload decode = advice->workload;
  hr_trial before, after;
  if (decode.phase != HR_PHASE_DECODE)
    decode.context = decode.sequence;
  decode.phase = HR_PHASE_DECODE;
  if (!hr_evaluate(context, NULL, &decode, &before) || !hr_evaluate(context, changed, &decode, &after))
    return 0;
  return before.time_ns / after.time_ns - 1;
}

/* "4 K and 8 V heads for 32 query heads", with their sizes where K has another one. */
static hr_text192 format_kv_heads(const hr_mixer_attention *heads)
{
  if (heads->qk_dim == heads->v_dim)
    return hr_format_text("%" PRId64 " K and %" PRId64 " V heads for %" PRId64 " query heads", heads->k_heads,
                          heads->v_heads, heads->q_heads);
  return hr_format_text("%" PRId64 " K heads of %" PRId64 " and %" PRId64 " V heads of %" PRId64 " for %" PRId64
                        " query heads",
                        heads->k_heads, heads->qk_dim, heads->v_heads, heads->v_dim, heads->q_heads);
}

static void suggest_kv_heads(hr_advice_context *context, const hr_model *changed, const char *reason)
{
  const hr_advice *advice = context->advice;
  const hr_model *model = &advice->model;
  const hr_mixer_attention *old = hr_main_attention(model), *new = hr_main_attention(changed);
  hr_operator_set main = advice->workload.phase == HR_PHASE_DECODE
                             ? hr_attention_matmuls(&advice->step)
                             : HR_OPERATOR_BIT(HR_OP_QKV_TRANSFORM) | HR_OPERATOR_BIT(HR_OP_K_TRANSFORM) |
                                   HR_OPERATOR_BIT(HR_OP_V_TRANSFORM);
  hr_text192 current = hr_format_text("%" PRId64 " K and %" PRId64 " V heads%s", old->k_heads, old->v_heads,
                                      hr_format_layers_with_heads(model, old).text);
  hr_text192 suggested = format_kv_heads(new);
  double gain = decode_gain(context, changed);
  int64_t before = cache_bytes_per_token(advice, model), after = cache_bytes_per_token(advice, changed);
  hr_trial trial;
  if (hr_evaluate(context, changed, NULL, &trial) && trial.gain >= HR_GAIN_MIN)
    hr_add_suggestion(context, &trial, main, hr_attention_matmuls(&advice->step), current.text, suggested.text,
                      "%s: the KV cache shrinks from %" PRId64 " to %" PRId64
                      " bytes per token and a decode step gains %.1f%%",
                      reason, before, after, 100 * gain);
  else
    hr_add_not_applicable(context, main, current.text,
                          "%s: the KV cache would shrink from %" PRId64 " to %" PRId64
                          " bytes per token (a decode step gains %.1f%%), but this step gains nothing",
                          reason, before, after, 100 * gain);
}

static bool have_equal_sharing(const hr_model *model)
{
  const hr_mixer_attention *main = hr_main_attention(model);
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_mixer_attention *heads = &model->groups[i].attention;
    if (heads->q_heads > 0 && (heads->q_heads / heads->k_heads != main->q_heads / main->k_heads ||
                               heads->q_heads / heads->v_heads != main->q_heads / main->v_heads))
      return false;
  }
  return true;
}

static bool with_kv_heads(const hr_advice *advice, int64_t k_heads, int64_t v_heads, hr_model *changed)
{
  *changed = advice->model;
  return hr_set_kv_heads(changed, k_heads, v_heads) && hr_heads_split(changed, advice->workload.tensor_parallel);
}

/* Four query heads per K/V head, as in Llama 3 8B and Mistral 7B; other ratios where 4 does not divide. False if no
 * ratio is possible. */
static bool share_kv_heads(hr_advice_context *context)
{
  static const int64_t ratios[] = {4, 2, 8, 3, 5, 6, 7};
  int64_t q_heads = hr_main_attention(&context->advice->model)->q_heads;
  hr_model changed;
  for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++) {
    int64_t kv_heads = q_heads / ratios[i];
    if (q_heads % ratios[i] == 0 && with_kv_heads(context->advice, kv_heads, kv_heads, &changed)) {
      suggest_kv_heads(context, &changed, "each query head has its own K and V head; with fewer");
      return true;
    }
  }
  return false;
}

/* DiffQKV: half as many K heads, and K heads of half the size, as SIGMA compared them. A cache of equal K and V is
 * where both are known. False if neither is possible. */
static bool differ_k_and_v(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_mixer_attention *heads = hr_main_attention(&advice->model);
  hr_model fewer, smaller = advice->model;
  if (advice->workload.phase != HR_PHASE_DECODE || heads->k_heads != heads->v_heads)
    return false;
  bool halves = heads->k_heads % 2 == 0 && with_kv_heads(advice, heads->k_heads / 2, heads->v_heads, &fewer);
  bool shrinks = heads->qk_dim == heads->v_dim && heads->qk_dim / 2 >= HEAD_DIM_LEAST && hr_halve_k_heads(&smaller);
  if (halves)
    suggest_kv_heads(context, &fewer, "K can have fewer heads than V (DiffQKV); with half as many");
  if (shrinks)
    suggest_kv_heads(context, &smaller, "K heads can be smaller than V heads (DiffQKV); with half the size");
  return halves || shrinks;
}

void hr_rule_kv_heads(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_model *model = &advice->model;
  const hr_mixer_attention *heads = hr_main_attention(model);
  if (hr_lacks_heads(context))
    return;
  int64_t q = heads->q_heads, k = heads->k_heads, v = heads->v_heads;
  hr_text192 current =
      hr_format_text("%" PRId64 " K and %" PRId64 " V heads%s", k, v, hr_format_layers_with_heads(model, heads).text);
  if (!have_equal_sharing(model)) {
    hr_add_satisfied(
        context, hr_attention_matmuls(&advice->step), current.text,
        "the layers differ in how many query heads share a K or V head, so no single change is tried: the KV "
        "cache takes %" PRId64 " bytes per token",
        cache_bytes_per_token(advice, model));
    return;
  }
  bool shared = k == q && v == q && q > 1 && share_kv_heads(context);
  if (shared || differ_k_and_v(context))
    return;
  hr_add_satisfied(context, hr_attention_matmuls(&advice->step), current.text,
                   "%" PRId64 " query heads use %" PRId64 " K and %" PRId64 " V heads: the KV cache takes %" PRId64
                   " bytes per token",
                   q, k, v, cache_bytes_per_token(advice, model));
}
