#include "analysis/advise/context.h"

#include "base/checked.h"
#include "base/names.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int64_t hr_tokens_per_step(const hr_workload *workload)
{
  return workload->phase == HR_PHASE_DECODE ? workload->batch : workload->batch * workload->sequence;
}

static bool splits(int64_t heads, int64_t tensor_parallel)
{
  return heads % tensor_parallel == 0 || tensor_parallel % heads == 0;
}

bool hr_heads_split(const hr_model *model, int64_t tensor_parallel)
{
  return model->q_heads % tensor_parallel == 0 && splits(model->k_heads, tensor_parallel) &&
         splits(model->v_heads, tensor_parallel);
}

int64_t hr_usable_memory_bytes(const hr_hardware *hardware)
{
  return hardware->memory_bytes / 10 * 9;
}

/* Device time that one token costs: all t devices of the group work for the step's time; stages are in its sum. */
static double cost_per_token(double time_ns, const hr_workload *workload)
{
  return time_ns * (double)workload->tensor_parallel / (double)hr_tokens_per_step(workload);
}

bool hr_evaluate(hr_advice_context *context, const hr_model *model, const hr_workload *workload, hr_trial *trial)
{
  const hr_advice *advice = context->advice;
  hr_trial result = {.model = model ? *model : advice->model, .workload = workload ? *workload : advice->workload};
  hr_parameters parameters;
  if (hr_model_parameters(&result.model, &parameters, NULL) != HR_OK)
    return false;
  if (hr_predict_step(&advice->hardware, &result.model, &result.workload, &context->after, NULL) != HR_OK)
    return false;
  result.parameters = parameters.total;
  result.parameter_change = (double)parameters.total / (double)context->parameters - 1;
  result.time_ns = context->after.time_ns;
  result.gain =
      cost_per_token(advice->step.time_ns, &advice->workload) / cost_per_token(result.time_ns, &result.workload) - 1;
  result.net_gain = (1 + result.gain) * (1 + fmin(result.parameter_change, 0)) - 1;
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
  return trial->time_ns > 0 && trial->gain >= HR_GAIN_LEAST && trial->net_gain >= HR_GAIN_LEAST;
}

/* An uneven split makes every stage as long as the fullest one, see hr_step. */
static double layer_factor(const hr_model *model, int64_t stages)
{
  return (double)(stages * hr_ceil_div(model->layers, stages)) / (double)model->layers;
}

double hr_time_of(const hr_step *step, const hr_model *model, int64_t pipeline_stages, hr_operator_set operators)
{
  double time_ns = 0;
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    if (operators & HR_OPERATOR_BIT(op->id))
      time_ns +=
          (double)op->count * step->predictions[i].time_ns * (op->in_layer ? layer_factor(model, pipeline_stages) : 1);
  }
  return time_ns;
}

hr_operator_set hr_operators_present(const hr_step *step, hr_operator_set operators)
{
  hr_operator_set present = 0;
  for (size_t i = 0; i < step->operators.count; i++)
    present |= HR_OPERATOR_BIT(step->operators.items[i].id);
  return present & operators;
}

static hr_operator_set products_with_weights(const hr_step *step, bool in_layers_only)
{
  hr_operator_set set = 0;
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    if (op->kind == HR_KIND_GEMM && (op->in_layer || !in_layers_only))
      set |= HR_OPERATOR_BIT(op->id);
  }
  return set;
}

hr_operator_set hr_weight_gemms(const hr_step *step)
{
  return products_with_weights(step, false);
}

hr_operator_set hr_layer_gemms(const hr_step *step)
{
  return products_with_weights(step, true);
}

hr_operator_set hr_attention_matmuls(const hr_step *step)
{
  return hr_operators_present(step, HR_OPERATOR_BIT(HR_OP_ATTENTION_SCORE) |
                                        HR_OPERATOR_BIT(HR_OP_ATTENTION_OVER_VALUE) | HR_OPERATOR_BIT(HR_OP_ATTENTION));
}

/* The least alignment in bytes from which plain (batched: `batched`) products reach nine tenths of full speed. */
static int64_t near_full_speed_bytes(const hr_hardware *hardware, bool batched)
{
  for (size_t i = 0; i < hardware->alignment_count; i++) {
    const hr_alignment_class *row = &hardware->alignments[i];
    double plain = row->result_share > 0 ? fmin(row->gemm_share, row->result_share) : row->gemm_share;
    if ((batched ? row->bmm_share : plain) >= 0.9)
      return row->bytes;
  }
  return 1;
}

hr_text192 hr_explain_no_loss(const hr_hardware *hardware, int64_t size, hr_dtype dtype, bool batched)
{
  int64_t fast = near_full_speed_bytes(hardware, batched);
  if (hr_power_of_two_in(size, 128) * (int64_t)hr_dtype_bytes(dtype) < fast)
    return hr_format_text("it hardly counts in this step");
  hr_text192 from = fast > 1 ? hr_format_text("from %" PRId64 " bytes on", fast) : hr_format_text("at any alignment");
  return hr_format_text("%s products reach 90%% of full speed %s here", batched ? "batched" : "plain", from.text);
}

static void append_operator(char *text, size_t size, hr_operator_id id)
{
  size_t used = strlen(text);
  const char *name = hr_operator_id_name(id);
  if (used + strlen(name) + 2 <= size)
    snprintf(text + used, size - used, "%s%s", used ? " " : "", name);
}

static void name_operators(char *text, size_t size, hr_operator_set main, hr_operator_set others)
{
  text[0] = '\0';
  for (int id = 0; id < HR_OPERATOR_ID_COUNT; id++) {
    if (main & HR_OPERATOR_BIT(id))
      append_operator(text, size, (hr_operator_id)id);
  }
  for (int id = 0; id < HR_OPERATOR_ID_COUNT; id++) {
    if (others & ~main & HR_OPERATOR_BIT(id))
      append_operator(text, size, (hr_operator_id)id);
  }
}

static hr_finding *add_finding(hr_advice_context *context, hr_operator_set main, hr_operator_set others,
                               const char *current, const char *suggested, const char *why, va_list arguments)
{
  hr_advice *advice = context->advice;
  if (advice->finding_count == HR_FINDINGS_MAX)
    return NULL;
  hr_finding *finding = &advice->findings[advice->finding_count++];
  *finding = (hr_finding){.rule = context->rule->rule.name,
                          .source = context->rule->rule.source,
                          .model = advice->model,
                          .workload = advice->workload,
                          .main_operators = main,
                          .measured_gain = NAN,
                          .measured_operator_gain = NAN};
  name_operators(finding->operators, sizeof finding->operators, hr_operators_present(&advice->step, main),
                 hr_operators_present(&advice->step, others));
  hr_copy_text(finding->current, sizeof finding->current, current);
  hr_copy_text(finding->suggested, sizeof finding->suggested, suggested);
  char sentence[1024];
  vsnprintf(sentence, sizeof sentence, why, arguments);
  hr_copy_text(finding->why, sizeof finding->why, sentence);
  return finding;
}

void hr_add_satisfied(hr_advice_context *context, hr_operator_set operators, const char *current, const char *why, ...)
{
  va_list arguments;
  va_start(arguments, why);
  add_finding(context, operators, 0, current, "", why, arguments);
  va_end(arguments);
}

void hr_add_not_applicable(hr_advice_context *context, hr_operator_set operators, const char *current, const char *why,
                           ...)
{
  va_list arguments;
  va_start(arguments, why);
  hr_finding *finding = add_finding(context, operators, 0, current, "", why, arguments);
  va_end(arguments);
  if (finding)
    finding->void_on_device = true;
}

static hr_severity severity_of(const hr_trial *trial)
{
  if (trial->net_gain >= HR_GAIN_HIGH)
    return HR_SEVERITY_HIGH;
  if (trial->net_gain >= HR_GAIN_MEDIUM)
    return HR_SEVERITY_MEDIUM;
  return trial->gain >= HR_GAIN_LEAST ? HR_SEVERITY_LOW : HR_SEVERITY_NONE;
}

/* The gain of operators is formed like that of the step; an operator that the change removes is not divided by. */
static double operator_gain(hr_advice_context *context, const hr_trial *trial, hr_operator_set operators)
{
  const hr_advice *advice = context->advice;
  hr_trial again;
  if (!hr_evaluate(context, &trial->model, &trial->workload, &again))
    return 0;
  double before = hr_time_of(&advice->step, &advice->model, advice->workload.pipeline_stages, operators);
  double after = hr_time_of(&context->after, &trial->model, trial->workload.pipeline_stages, operators);
  if (before <= 0 || after <= 0)
    return 0;
  return cost_per_token(before, &advice->workload) / cost_per_token(after, &trial->workload) - 1;
}

static void take_trial(hr_advice_context *context, hr_finding *finding, const hr_trial *trial, hr_operator_set main)
{
  finding->has_change = true;
  finding->model = trial->model;
  finding->workload = trial->workload;
  finding->parameter_change = trial->parameter_change;
  finding->predicted_gain = trial->gain;
  finding->predicted_operator_gain = operator_gain(context, trial, main);
  finding->severity = severity_of(trial);
}

hr_finding *hr_add_suggestion(hr_advice_context *context, const hr_trial *trial, hr_operator_set main,
                              hr_operator_set others, const char *current, const char *suggested, const char *why, ...)
{
  va_list arguments;
  va_start(arguments, why);
  hr_finding *finding = add_finding(context, main, others, current, suggested, why, arguments);
  va_end(arguments);
  if (finding)
    take_trial(context, finding, trial, main);
  return finding;
}

hr_finding *hr_add_infeasible(hr_advice_context *context, const hr_trial *trial, hr_operator_set main,
                              const char *current, const char *suggested, const char *why, ...)
{
  va_list arguments;
  va_start(arguments, why);
  hr_finding *finding = add_finding(context, main, 0, current, suggested, why, arguments);
  va_end(arguments);
  if (!finding)
    return NULL;
  if (trial)
    take_trial(context, finding, trial, main);
  finding->severity = HR_SEVERITY_HIGH;
  return finding;
}

bool hr_already_suggested(const hr_advice_context *context, const hr_trial *trial)
{
  const hr_advice *advice = context->advice;
  const hr_model *own = &advice->model;
  for (size_t i = 0; i < advice->finding_count; i++) {
    const hr_finding *finding = &advice->findings[i];
    bool vocabulary = finding->model.vocabulary != own->vocabulary && trial->model.vocabulary != own->vocabulary;
    bool width = finding->model.mlp_width != own->mlp_width && trial->model.mlp_width != own->mlp_width;
    bool batch = finding->workload.batch != advice->workload.batch && trial->workload.batch != advice->workload.batch;
    if (finding->has_change && (vocabulary || width || batch))
      return true;
  }
  return false;
}
