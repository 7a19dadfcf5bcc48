/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/advise/context.h"

#include "model/layers/split.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/workload.h>
#include <math.h>

int64_t hr_tokens_per_microbatch(const hr_workload *workload)
{
  return workload->phase == HR_PHASE_DECODE ? workload->batch : workload->batch * workload->sequence;
}

int64_t hr_tokens_per_step(const hr_workload *workload)
{
  return hr_tokens_per_microbatch(workload) * hr_workload_microbatches(workload);
}

const hr_layer_group *hr_unsplit_layer(const hr_model *model, int64_t tensor_parallel)
{
  const hr_layer_group *main = hr_model_main_group(model);
  if (!hr_layer_heads_split(main, tensor_parallel))
    return main;
  for (size_t i = 0; i < model->group_count; i++) {
    if (!hr_layer_heads_split(&model->groups[i], tensor_parallel))
      return &model->groups[i];
  }
  return NULL;
}

bool hr_heads_split(const hr_model *model, int64_t tensor_parallel)
{
  return !hr_unsplit_layer(model, tensor_parallel);
}

double hr_device_time_per_token(double time_ns, const hr_workload *workload)
{
  double devices = (double)workload->tensor_parallel * (double)workload->context_parallel;
  return time_ns * devices / (double)hr_tokens_per_microbatch(workload);
}

double hr_padding_of(const hr_step *step)
{
  double sum = 0;
  for (size_t i = 0; i < step->operators.count; i++)
    sum += (double)step->operators.items[i].count * step->predictions[i].padding_ns;
  return sum;
}

/* The gain is that of the whole step, with the bubble, what it waits for, and the host. */
static double gain_between(const hr_step *before, const hr_step *after)
{
  return after->about.tokens_per_s_per_device / before->about.tokens_per_s_per_device - 1;
}

static double net_of(double gain, const hr_trial *trial)
{
  return (1 + gain) * (1 + fmin(trial->parameter_change, 0)) - 1;
}

/* torch.compile hides part of a misalignment by padding, which eager mode, Megatron-LM and others do not. */
static double eager_gain(hr_advice_context *context, const hr_trial *trial)
{
  const hr_advice *advice = context->advice;
  double padding_ns = hr_padding_of(&advice->step);
  if (padding_ns <= 0 || hr_padding_of(&context->after) >= padding_ns)
    return NAN;
  hr_workload before = advice->workload, after = trial->workload;
  before.framework = after.framework = HR_FRAMEWORK_EAGER;
  if (hr_fill_step(&advice->hardware, &advice->model, &before, &context->eager, NULL) != HR_OK ||
      hr_fill_step(&advice->hardware, &trial->model, &after, &context->eager_after, NULL) != HR_OK)
    return NAN;
  return gain_between(&context->eager, &context->eager_after);
}

bool hr_evaluate(hr_advice_context *context, const hr_model *model, const hr_workload *workload, hr_trial *trial)
{
  const hr_advice *advice = context->advice;
  hr_trial result = {.model = model ? *model : advice->model, .workload = workload ? *workload : advice->workload};
  hr_parameters parameters;
  if (hr_model_parameters(&result.model, &parameters, NULL) != HR_OK)
    return false;
  if (hr_fill_step(&advice->hardware, &result.model, &result.workload, &context->after, NULL) != HR_OK)
    return false;
  result.parameters = parameters.total;
  result.parameter_change = (double)parameters.total / (double)context->parameters - 1;
  result.time_ns = context->after.about.time_ns;
  result.gain = gain_between(&advice->step, &context->after);
  result.net_gain = net_of(result.gain, &result);
  result.eager_gain = eager_gain(context, &result);
  result.eager_net_gain = net_of(result.eager_gain, &result);
  if (!isfinite(result.gain))
    return false;
  *trial = result;
  return true;
}

void hr_keep_better(hr_advice_context *context, const hr_model *model, const hr_workload *workload, hr_trial *best)
{
  hr_trial trial;
  if (hr_evaluate(context, model, workload, &trial) && (best->time_ns == 0 || trial.net_gain > best->net_gain + 1e-4))
    *best = trial;
}

bool hr_is_worthwhile(const hr_trial *trial)
{
  bool gains = trial->gain >= HR_GAIN_MIN && trial->net_gain >= HR_GAIN_MIN;
  bool eager = trial->eager_gain >= HR_GAIN_MIN && trial->eager_net_gain >= HR_GAIN_MIN;
  return trial->time_ns > 0 && (gains || eager);
}
