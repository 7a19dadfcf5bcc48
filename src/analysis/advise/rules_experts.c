/* SPDX-License-Identifier: Apache-2.0 */
/* The width of routed experts: its alignment on each device. */
#include "analysis/advise/rules.h"
#include "base/checked.h"

#include <headroom/experimental/model.h>
#include <inttypes.h>

#define EXPERT_GEMMS \
  (HR_OPERATOR_BIT(HR_OP_EXPERT_UP) | HR_OPERATOR_BIT(HR_OP_EXPERT_GATE) | HR_OPERATOR_BIT(HR_OP_EXPERT_DOWN))

/* Experts of this width in all layers have another one. */
static hr_model with_width(const hr_model *model, int64_t own, int64_t width)
{
  hr_model changed = *model;
  for (size_t i = 0; i < changed.group_count; i++) {
    if (changed.groups[i].experts.experts > 0 && changed.groups[i].experts.width == own)
      changed.groups[i].experts.width = width;
  }
  return changed;
}

bool hr_advise_expert_width(hr_advice_context *context)
{
  const hr_advice *advice = context->advice;
  const hr_ffn_experts *experts = &hr_model_main_group(&advice->model)->experts;
  const hr_operator_set gemms = hr_operators_present(&advice->step, EXPERT_GEMMS);
  int64_t width = experts->width;
  int64_t parts = advice->workload.expert_parallel > 1 ? 1 : advice->workload.tensor_parallel, granule = 64 * parts;
  if (experts->experts == 0)
    return false;
  hr_text192 current = hr_format_text("experts of %" PRId64, width);
  if (width % granule == 0) {
    hr_add_satisfied(context, gemms, current.text,
                     "each device's part of an expert's width, %" PRId64 ", is a multiple of 64", width / parts);
    return true;
  }
  hr_model changed = with_width(&advice->model, width, hr_round_up(width, granule));
  hr_trial trial;
  if (!hr_evaluate(context, &changed, NULL, &trial) || !hr_is_worthwhile(&trial)) {
    hr_add_not_applicable(context, gemms, current.text,
                          "an expert's width of %" PRId64 " on each device is not a multiple of 64, but %" PRId64
                          " gains nothing here",
                          hr_ceil_div(width, parts), hr_round_up(width, granule) / parts);
    return true;
  }
  hr_add_suggestion(
      context, &trial, gemms, 0, current.text, hr_format_text("experts of %" PRId64, hr_round_up(width, granule)).text,
      "each device's part of an expert's width, %" PRId64 ", is not a multiple of 64: the experts' GEMMs run "
      "at %s, with %" PRId64 " at %s",
      hr_ceil_div(width, parts), hr_format_rate(&advice->step, gemms).text, hr_round_up(width, granule) / parts,
      hr_format_rate(&context->after, gemms).text);
  return true;
}
