/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about the vocabulary and the logits. */
#include "analysis/advise/rules.h"
#include "base/checked.h"

#include <inttypes.h>
#include <math.h>

/* Suggests the padding for a compiled step whose logits torch.compile pads. context->eager and after are those of the
 * trial. */
static void suggest_padded(hr_advice_context *context, const hr_trial *best, const char *current, const char *suggested)
{
  const hr_advice *advice = context->advice;
  const hr_operator_set logit = HR_OPERATOR_BIT(HR_OP_LOGIT);
  int64_t vocabulary = advice->model.vocabulary, stages = advice->workload.pipeline_stages;
  double compiled_ns = hr_time_of(&advice->step, &advice->model, stages, logit);
  double eager_ns = hr_time_of(&context->eager, &advice->model, stages, logit);
  double after_ns = hr_time_of(&context->after, &best->model, stages, logit);
  hr_add_suggestion(context, best, logit, 0, current, suggested,
                    "the logits take %s in eager mode, because %" PRId64 " is %s; torch.compile pads them with a copy "
                    "in each step: %s; padded to %" PRId64 " they run at %s (%s)",
                    hr_format_time(eager_ns).text, vocabulary,
                    vocabulary % 64 ? hr_format_divisibility(vocabulary).text : "not a multiple of 64 on each device",
                    hr_format_time(compiled_ns).text, best->model.vocabulary,
                    hr_format_rate(&context->after, logit).text, hr_format_time(after_ns).text);
}

/* Each device's part has to be a multiple of 64, so the granule grows with t, as in Megatron's padding. */
void hr_rule_vocabulary_alignment(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_operator_set logit = HR_OPERATOR_BIT(HR_OP_LOGIT);
  int64_t vocabulary = advice->model.vocabulary, t = advice->workload.tensor_parallel;
  double before_ns = hr_time_of(&advice->step, &advice->model, advice->workload.pipeline_stages, logit);
  hr_text192 current = hr_format_text("vocabulary %" PRId64, vocabulary);
  if (vocabulary % (64 * t) == 0) {
    hr_add_satisfied(context, logit, current.text,
                     "the vocabulary %" PRId64 " is a multiple of 64%s and the logits run at %s", vocabulary,
                     t > 1 ? " on each device" : "", hr_format_rate(&advice->step, logit).text);
    return;
  }
  hr_trial best = {.time_ns = 0};
  for (int64_t multiple = 64; multiple <= 128; multiple *= 2) {
    hr_model padded = advice->model;
    padded.vocabulary = hr_round_up(vocabulary, multiple * t);
    hr_keep_better(context, &padded, NULL, &best);
  }
  hr_trial shown; /* restores the best step in context->after */
  if (best.time_ns <= 0 || !hr_evaluate(context, &best.model, NULL, &shown))
    return;
  double after_ns = hr_time_of(&context->after, &best.model, best.workload.pipeline_stages, logit);
  if (!hr_is_worthwhile(&best)) {
    hr_text192 reason =
        hr_explain_no_loss(&advice->hardware, hr_ceil_div(vocabulary, t), advice->workload.dtype, false);
    hr_add_not_applicable(context, logit, current.text,
                          "%" PRId64 " is not a multiple of 64%s, but %s: the logits take %s, and %s with %" PRId64
                          " (%s of the step)",
                          vocabulary, t > 1 ? " on each device" : "", reason.text, hr_format_time(before_ns).text,
                          hr_format_time(after_ns).text, best.model.vocabulary, hr_format_gain(best.gain).text);
    return;
  }
  hr_text192 suggested = hr_format_text("vocabulary %" PRId64 " (pad by %" PRId64 ")", best.model.vocabulary,
                                        best.model.vocabulary - vocabulary);
  if (isfinite(best.eager_gain)) {
    suggest_padded(context, &best, current.text, suggested.text);
    return;
  }
  hr_add_suggestion(context, &best, logit, 0, current.text, suggested.text,
                    "the logits run at %s (%s) because %" PRId64 " is %s%s; padded to %" PRId64 " they run at %s (%s)",
                    hr_format_rate(&advice->step, logit).text, hr_format_time(before_ns).text, vocabulary,
                    vocabulary % 64 ? hr_format_divisibility(vocabulary).text : "not a multiple of 64",
                    t > 1 && vocabulary % 64 == 0 ? " on each device" : "", best.model.vocabulary,
                    hr_format_rate(&context->after, logit).text, hr_format_time(after_ns).text);
}
