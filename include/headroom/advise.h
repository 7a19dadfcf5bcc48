/* SPDX-License-Identifier: Apache-2.0 */
/* Suggestions to change a shape, with their gains. Thread safety: an hr_advice belongs to one caller. */
#ifndef HEADROOM_ADVISE_H
#define HEADROOM_ADVISE_H

#include <headroom/parallel_layouts.h>
#include <headroom/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hr_severity {
  HR_SEVERITY_NONE,   /* the rule is satisfied, or not applicable to this device */
  HR_SEVERITY_LOW,    /* the step gains less than 2%, or only what its removed parameters explain */
  HR_SEVERITY_MEDIUM, /* 2% to 10% */
  HR_SEVERITY_HIGH    /* 10% and more, or the shape cannot run as requested */
} hr_severity;

/** One finding of a rule. */
typedef struct hr_finding {
  const char *rule;   /* "vocabulary_alignment"; static storage */
  const char *source; /* source of the rule; static storage */
  hr_severity severity;
  bool void_on_device;        /* the rule is not applicable to the device; `why` gives the reason */
  char operators[128];        /* operators concerned that the step has, separated by spaces; main ones first */
  uint64_t main_operators[2]; /* bit i % 64 of i / 64: number i of hr_operator_id is a main operator, of the step or of
                                 the suggestion */
  char why[384];              /* one sentence with the numbers */
  char current[96];           /* "vocabulary 50257" */
  char suggested[192];        /* "vocabulary 50304 (pad by 47)"; empty: nothing to change */
  bool has_change;            /* `model` and `workload` are the suggested shape */
  hr_model model;
  hr_workload workload;
  double parameter_change;        /* new / old − 1 */
  double predicted_operator_gain; /* time before / time after − 1 of the main operators together, per token */
  double predicted_gain;          /* the same of the whole step; if gain_per_device, per token and device */
  bool gain_per_device;           /* the change is of the number of devices: the step may take longer */
  double predicted_time_ns;       /* of the suggested step; 0: has_change is false */
  double measured_gain;           /* of the whole step, set by hr_confirm(); NAN: not measured */
  double measured_operator_gain;  /* of the main operators; NAN: not measured */
} hr_finding;

#define HR_FINDINGS_MAX 48

typedef struct hr_advice {
  hr_hardware hardware;
  hr_model model;
  hr_workload workload;
  hr_step step;                /* the original one */
  hr_parallel_layouts layouts; /* on the nodes that the workload takes up; hr_compare_parallel_layouts() has others */
  size_t finding_count;
  hr_finding findings[HR_FINDINGS_MAX]; /* most severe first, then highest gain */
  bool has_combined; /* `combined` merges two or more suggestions that keep batch, devices and kind of layer */
  hr_finding combined;
} hr_advice;

/** Applies every rule to the shape. On HR_OK the caller owns *advice and frees it with hr_advice_free(). Errors of
 *  hr_predict_step() and HR_ERROR_OUT_OF_MEMORY; *advice is then untouched. Deterministic. */
HR_API hr_status hr_advise(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                           hr_advice **advice, hr_error *error);

/** Frees an advice; NULL is allowed. */
HR_API void hr_advice_free(hr_advice *advice);

/** "none", "low", "medium", "high". Static storage. */
HR_API const char *hr_severity_name(hr_severity severity);

/** One row of the rule table. Static storage throughout. */
typedef struct hr_rule {
  const char *name, *summary, *source;
} hr_rule;

/** The rules in the order of application; *count is their number. Static storage. */
HR_API const hr_rule *hr_rules(size_t *count);

#ifdef __cplusplus
}
#endif
#endif
