/* SPDX-License-Identifier: Apache-2.0 */
/* The input of a rule, and the trial of a changed shape. docs/rules.md explains how to write a rule. */
#ifndef HR_ANALYSIS_ADVISE_CONTEXT_H
#define HR_ANALYSIS_ADVISE_CONTEXT_H

#include "analysis/advise/advice.h"

#include <headroom/experimental/advise.h>

/** A suggestion has to gain at least this share of the step. */
#define HR_GAIN_MIN 0.002
/** Gains of at least this are MEDIUM, and HIGH. */
#define HR_GAIN_MEDIUM 0.02
#define HR_GAIN_HIGH 0.10

/** The input of a rule. advice->hardware, model, workload and step describe the original shape, advice->findings are
 *  those of earlier rules. A rule reads these and adds findings (analysis/advise/findings.h). */
typedef struct hr_advice_context {
  hr_advice *advice;
  const struct hr_rule_row *rule; /* the current rule */
  int64_t parameters;             /* of the original model */
  hr_step after;                  /* step of the latest hr_evaluate() */
  hr_step eager, eager_after;     /* the same two by HR_FRAMEWORK_EAGER, for shapes whose GEMMs torch.compile pads */
} hr_advice_context;

/** A rule. It adds at least one finding, so that the output shows that the rule was applied. */
typedef void (*hr_rule_function)(hr_advice_context *context);

/** A row of advise_rules.inc. */
typedef struct hr_rule_row {
  hr_rule rule;
  hr_rule_function apply;
  bool combines; /* enters the combined suggestions: the change keeps the model's capacity about the same */
} hr_rule_row;

/** A changed shape and its prediction. Gains are of tokens per second and device, after / before − 1, in the whole
 *  step: with the pipeline's bubble, exposed communication and the host. */
typedef struct hr_trial {
  hr_model model;
  hr_workload workload;
  int64_t parameters;
  double parameter_change;
  double time_ns; /* of the changed step */
  double gain;    /* of the step */
  double
      net_gain; /* the gain without the part that the removed parameters explain, as a smaller model is faster anyway:
                      (1 + gain) · (1 + parameter_change) − 1 if parameters fall, else the gain */
  double eager_gain, eager_net_gain; /* the same by HR_FRAMEWORK_EAGER, where a compiled step pads GEMMs less after the
                                        change; NAN elsewhere */
} hr_trial;

/** Predicts a changed model or workload (NULL: the original) into *trial and context->after. Returns false if the shape
 *  is invalid or cannot be predicted; the rule then tries its next idea. */
bool hr_evaluate(hr_advice_context *context, const hr_model *model, const hr_workload *workload, hr_trial *trial);

/** Time of a microbatch's copies into padded operands; 0: no GEMM of the step is padded. */
double hr_padding_of(const hr_step *step);

/** Evaluates a change and keeps it in *best if its net gain is higher by more than 0.0001 (so the first of equals
 *  stays). *best starts zeroed. */
void hr_keep_better(hr_advice_context *context, const hr_model *model, const hr_workload *workload, hr_trial *best);

/** Whether the trial gains enough to be suggested. */
bool hr_is_worthwhile(const hr_trial *trial);

/** Whether the heads of every layer split evenly over t devices. K and V heads may also be fewer than t and
 *  replicated. */
bool hr_heads_split(const hr_model *model, int64_t tensor_parallel);

/** A group of layers whose heads do not split, the main group if they do not; NULL if all split. Points into *model. */
const hr_layer_group *hr_unsplit_layer(const hr_model *model, int64_t tensor_parallel);

/** Tokens of a microbatch: batch · sequence, in decode batch; and of all microbatches of a step. */
int64_t hr_tokens_per_microbatch(const hr_workload *workload);
int64_t hr_tokens_per_step(const hr_workload *workload); /* see hr_tokens_per_microbatch() */

/** Device time per token of operators that take `time_ns` of a microbatch in all pipeline stages, on all t · cp
 *  devices. */
double hr_device_time_per_token(double time_ns, const hr_workload *workload);

#endif
