/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about the number of tokens per step. */
#include "analysis/advise/memory_remedy.h"
#include "analysis/advise/rules.h"
#include "base/checked.h"

#include <headroom/experimental/hardware.h>
#include <headroom/experimental/workload.h>
#include <headroom/memory.h>
#include <inttypes.h>

void hr_rule_tokens_alignment(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_workload *workload = &advice->workload;
  const hr_operator_set matmuls = hr_attention_matmuls(&advice->step);
  int64_t s = workload->sequence, tokens = hr_tokens_per_microbatch(workload);
  if (workload->phase == HR_PHASE_DECODE) {
    hr_add_satisfied(context, matmuls, hr_format_text("%" PRId64 " tokens per step", tokens).text,
                     "a decode step computes one token for each of %" PRId64 " sequences: "
                     "there is no sequence length to choose",
                     tokens);
    return;
  }
  hr_text192 current = hr_format_text("b·s = %" PRId64 " · %" PRId64, workload->batch, s);
  if (s % 64 == 0) {
    hr_add_satisfied(context, matmuls, current.text, "b·s = %" PRId64 " and s = %" PRId64 " are multiples of 64",
                     tokens, s);
    return;
  }
  hr_workload changed = *workload;
  int64_t up = hr_round_up(s, 64), down = s / 64 * 64;
  bool fits = advice->model.max_positions == 0 || up <= advice->model.max_positions;
  changed.sequence = fits || down == 0 ? up : down;
  hr_trial trial;
  if (!hr_evaluate(context, NULL, &changed, &trial))
    return;
  if (!hr_is_worthwhile(&trial)) {
    hr_add_not_applicable(context, matmuls, current.text,
                          "s = %" PRId64 " is not a multiple of 64, but %s: a token takes %s, and %s with s = %" PRId64,
                          s, hr_explain_no_loss(&advice->hardware, s, workload->dtype, true).text,
                          hr_format_time(advice->step.about.time_ns / (double)hr_tokens_per_step(workload)).text,
                          hr_format_time(trial.time_ns / (double)hr_tokens_per_step(&changed)).text, changed.sequence);
    return;
  }
  hr_add_suggestion(context, &trial, matmuls, 0, current.text, hr_format_text("s = %" PRId64, changed.sequence).text,
                    "s = %" PRId64 " is %s: a token takes %s, with s = %" PRId64 " %s", s,
                    workload->attention == HR_ATTENTION_FUSED ? "not a multiple of 64" : hr_format_divisibility(s).text,
                    hr_format_time(advice->step.about.time_ns / (double)hr_tokens_per_step(workload)).text,
                    changed.sequence, hr_format_time(trial.time_ns / (double)hr_tokens_per_step(&changed)).text);
}

/* Whether there are replicas that could share, and how many. */
static hr_text192 format_tried(const hr_workload *workload)
{
  if (workload->phase != HR_PHASE_TRAIN)
    return hr_format_text("not with all t of a node and more stages either");
  return hr_format_text("not with recomputation, ZeRO over %" PRId64
                        " replica%s, all t of a node and more stages either",
                        workload->data_parallel, workload->data_parallel == 1 ? "" : "s");
}

static void report_does_not_fit(hr_advice_context *context, int64_t largest, int64_t capacity)
{
  const hr_advice *advice = context->advice;
  const hr_operator_set gemms = hr_weight_gemms(&advice->step);
  hr_text192 current =
      hr_format_text("b = %" PRId64 ", t = %" PRId64, advice->workload.batch, advice->workload.tensor_parallel);
  hr_memory memory;
  if (hr_memory_estimate(&advice->model, &advice->workload, &memory, NULL) != HR_OK)
    return;
  hr_memory_remedy remedy = hr_find_memory_remedy(context, largest, capacity);
  hr_text32 needed = hr_format_bytes((double)memory.total_bytes), usable = hr_format_bytes((double)capacity);
  if (remedy.trial.time_ns == 0) {
    hr_add_infeasible(context, NULL, HR_CHANGED_TENSOR_PARALLEL, gemms, current.text, "more devices",
                      "the step does not fit: it needs %s per device, %s are usable; %s", needed.text, usable.text,
                      format_tried(&advice->workload).text);
    return;
  }
  const hr_workload *changed = &remedy.trial.workload;
  hr_add_infeasible(
      context, &remedy.trial, HR_CHANGED_OTHER, gemms, current.text, remedy.changes.text,
      "the step does not fit: it needs %s per device, %s are usable; with %s it needs %s and takes %s for %" PRId64
      " tokens",
      needed.text, usable.text, remedy.changes.text, hr_format_bytes((double)remedy.bytes).text,
      hr_format_time(remedy.trial.time_ns).text, hr_tokens_per_step(changed));
}

/* The smallest batch whose gain is within half a percent of the best, up to the largest that fits. */
static hr_trial useful_batch(hr_advice_context *context, int64_t largest)
{
  hr_trial best = {.time_ns = 0}, chosen = {.time_ns = 0};
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t batch = context->advice->workload.batch; batch < largest;) {
      batch = batch > largest / 2 ? largest : batch * 2;
      hr_workload changed = context->advice->workload;
      hr_trial trial;
      changed.batch = batch;
      if (!hr_evaluate(context, NULL, &changed, &trial))
        break;
      if (pass == 0 && trial.gain > best.gain)
        best = trial;
      if (pass == 1 && chosen.time_ns == 0 && trial.gain >= best.gain - 0.005)
        chosen = trial;
    }
  }
  return chosen;
}

/* ---- training with stages ---- */

/* The same sequences of a step in microbatches of b; false if they do not divide, or do not fit. */
static bool split_of(const hr_advice *advice, int64_t b, hr_workload *changed)
{
  const hr_workload *own = &advice->workload;
  hr_memory memory;
  int64_t sequences;
  if (hr_checked_take(hr_times(hr_checked(own->batch), hr_workload_microbatches(own)), &sequences) != HR_OK ||
      sequences % b != 0)
    return false;
  *changed = *own;
  changed->batch = b, changed->microbatches = sequences / b;
  return hr_memory_estimate(&advice->model, changed, &memory, NULL) == HR_OK &&
         memory.total_bytes <= hr_hardware_usable_memory_bytes(&advice->hardware);
}

/* The split with the most tokens per second: smaller microbatches leave a smaller bubble, larger ones have faster
 * GEMMs. */
static hr_trial best_split(hr_advice_context *context, double *bubble)
{
  const hr_advice *advice = context->advice;
  hr_trial best = {.time_ns = 0}, trial;
  hr_workload changed;
  int64_t smallest = advice->workload.batch;
  while (smallest % 2 == 0)
    smallest /= 2;
  for (int64_t b = smallest; split_of(advice, b, &changed); b *= 2) {
    if (b == advice->workload.batch || !hr_evaluate(context, NULL, &changed, &trial))
      continue;
    if (best.time_ns == 0 || trial.gain > best.gain) {
      best = trial;
      *bubble = context->after.about.bubble;
    }
  }
  return best;
}

static void advise_split(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_operator_set gemms = hr_weight_gemms(&advice->step);
  int64_t b = advice->workload.batch, m = hr_workload_microbatches(&advice->workload);
  hr_text192 current = hr_format_text("b = %" PRId64 ", %" PRId64 " microbatches", b, m);
  double own = 100 * advice->step.about.bubble, bubble = 0;
  hr_trial trial = best_split(context, &bubble);
  if (!hr_is_worthwhile(&trial)) {
    hr_add_satisfied(context, gemms, current.text,
                     "%.0f%% of the step is bubble, and other microbatches of the same %" PRId64
                     " sequences gain nothing; more sequences in a step make it smaller",
                     own, b * m);
    return;
  }
  int64_t other = trial.workload.batch, count = trial.workload.microbatches;
  hr_add_suggestion(context, &trial, gemms, HR_OPERATOR_BIT(HR_OP_PIPELINE_SEND), current.text,
                    hr_format_text("b = %" PRId64 ", %" PRId64 " microbatches", other, count).text,
                    "the %" PRId64 " sequences of a step take %s in %" PRId64
                    " microbatches, of which %.0f%% is bubble, "
                    "and %s in %" PRId64 ", of which %.0f%% is",
                    b * m, hr_format_time(advice->step.about.time_ns).text, m, own, hr_format_time(trial.time_ns).text,
                    count, 100 * bubble);
}

void hr_rule_microbatch(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_workload *workload = &advice->workload;
  const hr_operator_set gemms = hr_weight_gemms(&advice->step);
  int64_t capacity = hr_hardware_usable_memory_bytes(&advice->hardware);
  int64_t largest = 0;
  hr_text192 current = hr_format_text("b = %" PRId64, workload->batch);
  if (capacity <= 0 || hr_memory_largest_batch(&advice->model, workload, capacity, &largest, NULL) != HR_OK) {
    hr_add_satisfied(context, gemms, current.text,
                     "the device's memory is unknown, so the largest batch that fits is unknown");
    return;
  }
  if (largest < workload->batch) {
    report_does_not_fit(context, largest, capacity);
    return;
  }
  if (workload->phase == HR_PHASE_TRAIN && workload->pipeline_stages > 1) {
    advise_split(context);
    return;
  }
  hr_trial trial = useful_batch(context, largest);
  if (!hr_is_worthwhile(&trial)) {
    hr_add_satisfied(context, gemms, current.text,
                     "up to b = %" PRId64 " fits, but batches above b = %" PRId64 " gain nothing per token", largest,
                     workload->batch);
    return;
  }
  hr_text192 latency = hr_format_text("%s", "");
  if (workload->phase == HR_PHASE_DECODE)
    latency = hr_format_text("; a sequence then waits %s for its next token instead of %s",
                             hr_format_time(trial.time_ns).text, hr_format_time(advice->step.about.time_ns).text);
  hr_add_suggestion(context, &trial, gemms, 0, current.text, hr_format_text("b = %" PRId64, trial.workload.batch).text,
                    "up to b = %" PRId64 " fits into %s; a token takes %s at b = %" PRId64 " and %s at b = %" PRId64
                    "%s",
                    largest, hr_format_bytes((double)capacity).text,
                    hr_format_time(advice->step.about.time_ns / (double)hr_tokens_per_step(workload)).text,
                    workload->batch, hr_format_time(trial.time_ns / (double)hr_tokens_per_step(&trial.workload)).text,
                    trial.workload.batch, latency.text);
}
