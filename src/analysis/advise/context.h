/* What a rule sees, how it tries a change, and how it answers. docs/rules.md says how to write a rule with these. */
#ifndef HR_ANALYSIS_ADVISE_CONTEXT_H
#define HR_ANALYSIS_ADVISE_CONTEXT_H

#include "analysis/advise/format.h"

#include <headroom/advise.h>

/** A suggestion has to gain at least this share of the step; less is no reason to touch a shape. */
#define HR_GAIN_LEAST 0.002
/** From here on a gain is worth a MEDIUM and a HIGH. */
#define HR_GAIN_MEDIUM 0.02
#define HR_GAIN_HIGH 0.10

/** What a rule works on: advice->hardware, model, workload and step are the shape as it is, advice->findings what
 *  earlier rules found. A rule reads these and answers through the functions below. */
typedef struct hr_advice_context {
  hr_advice *advice;
  const struct hr_rule_row *rule; /* the rule at work */
  int64_t parameters;             /* of the model as it is */
  hr_step after;                  /* step of the latest hr_evaluate() */
} hr_advice_context;

/** A rule: looks, and leaves at least one finding, so that nobody wonders whether it was applied. */
typedef void (*hr_rule_function)(hr_advice_context *context);

/** A row of advise_rules.inc. */
typedef struct hr_rule_row {
  hr_rule rule;
  hr_rule_function apply;
  bool combines; /* its change keeps what the model can learn about the same, so it enters the combined suggestion */
} hr_rule_row;

/** A change that was predicted. Gains are per token, and where t changes per token and device:
 *  time · t / tokens before over the same after, − 1. */
typedef struct hr_trial {
  hr_model model;
  hr_workload workload;
  int64_t parameters;
  double parameter_change;
  double time_ns;  /* of the changed step */
  double gain;     /* of the step */
  double net_gain; /* the gain less what the parameters removed would bring by themselves: a smaller model is faster
                      anyway. (1 + gain) · (1 + parameter_change) − 1 where parameters fall, else the gain */
} hr_trial;

/** Predicts the model as `model` under `workload` (NULL: as it is). False, without a reason, where such a shape cannot
 *  be or cannot be predicted: the rule then goes on to its next idea. Leaves the step in context->after. */
bool hr_evaluate(hr_advice_context *context, const hr_model *model, const hr_workload *workload, hr_trial *trial);

/** Tries a change and keeps it in *best if it has the higher net gain (by more than a ten-thousandth, so that of equal
 *  ones the first stays). *best starts zeroed. */
void hr_keep_better(hr_advice_context *context, const hr_model *model, const hr_workload *workload, hr_trial *best);

/** Whether the trial gains enough to be suggested. */
bool hr_is_worthwhile(const hr_trial *trial);

/** Time of the operators of a set in a step, all executions and passes, ns. */
double hr_time_of(const hr_step *step, const hr_model *model, int64_t pipeline_stages, hr_operator_set operators);

/** The device sees nothing to change: severity none. `operators` may be 0 (none concerned). */
void hr_add_satisfied(hr_advice_context *context, hr_operator_set operators, const char *current, const char *why, ...)
    HR_PRINTF(4, 5);

/** The rule is broken by the shape, but this device's numbers say that it does not matter. */
void hr_add_not_applicable(hr_advice_context *context, hr_operator_set operators, const char *current, const char *why,
                           ...) HR_PRINTF(4, 5);

/** Suggests the trial. The gain of `main` operators (together) is the operator gain; `others` are concerned too. The
 *  severity follows from the net gain. Returns the finding for the caller to adjust, NULL if no more fit. */
hr_finding *hr_add_suggestion(hr_advice_context *context, const hr_trial *trial, hr_operator_set main,
                              hr_operator_set others, const char *current, const char *suggested, const char *why, ...)
    HR_PRINTF(7, 8);

/** The shape cannot run as asked: HIGH. `trial` (may be NULL) is what can. */
hr_finding *hr_add_infeasible(hr_advice_context *context, const hr_trial *trial, hr_operator_set main,
                              const char *current, const char *suggested, const char *why, ...) HR_PRINTF(6, 7);

/** Whether an earlier finding already suggests another vocabulary, MLP width or batch where the trial does. */
bool hr_already_suggested(const hr_advice_context *context, const hr_trial *trial);

/** The operators of a set that the step has. */
hr_operator_set hr_operators_present(const hr_step *step, hr_operator_set operators);

/** The products with weights: all, which more rows speed up, and those of the layers, which t and p divide. */
hr_operator_set hr_weight_gemms(const hr_step *step);
hr_operator_set hr_layer_gemms(const hr_step *step);

/** The products of attention that this step runs: score and over-value, or the fused one. */
hr_operator_set hr_attention_matmuls(const hr_step *step);

/** Why a size that is not a multiple of 64 costs next to nothing: the device runs plain (batched: `batched`) products
 *  of its alignment at nine tenths of full speed, or else the step has little of them. */
hr_text192 hr_explain_no_loss(const hr_hardware *hardware, int64_t size, hr_dtype dtype, bool batched);

/** Whether `heads` split over t devices, or each device holds a whole copy of one (K and V heads fewer than t). */
bool hr_heads_split(const hr_model *model, int64_t tensor_parallel);

/** Memory of the device that a step may take, bytes: nine tenths, the rest being the driver's context, workspaces and
 *  fragments. 0: not known. */
int64_t hr_usable_memory_bytes(const hr_hardware *hardware);

/** Tokens that a step works on: batch · sequence, in decode batch. */
int64_t hr_tokens_per_step(const hr_workload *workload);

#endif
