/* SPDX-License-Identifier: Apache-2.0 */
/* Suggestions to change a shape, with their gains. Thread safety: an hr_advice belongs to one caller. */
#ifndef HEADROOM_ADVISE_H
#define HEADROOM_ADVISE_H

#include <headroom/change.h>
#include <headroom/parallel_layouts.h>
#include <headroom/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hr_severity {
  HR_SEVERITY_NONE,   /* the rule is satisfied, or not applicable to this device */
  HR_SEVERITY_LOW,    /* the step gains less than 2%, or only what its removed parameters explain */
  HR_SEVERITY_MEDIUM, /* 2% to 10% */
  HR_SEVERITY_HIGH    /* 10% and more, or the shape cannot run as requested; both of the larger of predicted_gain and
                         eager_gain */
} hr_severity;

/** One finding of a rule. */
typedef struct hr_finding {
  const char *rule;   /* "vocabulary_alignment"; static storage */
  const char *source; /* source of the rule; static storage */
  hr_severity severity;
  hr_severity own_severity;     /* by predicted_gain alone: in the framework whose step is predicted */
  hr_change_class change_class; /* of the suggested change; without one, of the costliest that the rule suggests */
  const char *cost;             /* what the change takes (hr_change_cost); "" without one; static storage */
  const char *cost_source;      /* source of `cost`; "" if it needs none; static storage */
  bool not_applicable;          /* the rule is not applicable to the device; `why` gives the reason */
  bool cannot_run;              /* the shape cannot run as it is: severity high, listed first */
  char operators[128];          /* operators concerned that the step has, separated by spaces; main ones first */
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
  double predicted_gain;          /* of the whole step with the bubble: tokens/s per device after / before − 1 */
  double eager_gain;    /* the same of both steps by HR_FRAMEWORK_EAGER, where a compiled step copies less into padded
                            operands after the change, so that its own gain is another; NAN elsewhere */
  bool gain_per_device; /* the change is of the number of devices: the step may take longer */
  double predicted_time_ns;      /* of the suggested step; 0: has_change is false */
  double measured_gain;          /* of the whole step, set by hr_confirm(); NAN: not measured */
  double measured_operator_gain; /* of the main operators; NAN: not measured */
} hr_finding;

#define HR_FINDINGS_MAX 48
#define HR_COMBINED_MAX 2

typedef struct hr_advise_options {
  size_t struct_size;       /* sizeof(hr_advise_options), set by hr_advise_options_default() */
  bool design;              /* order findings by gain alone although trained weights exist (hr_model.origin) */
  bool trained;             /* trained weights exist although nothing says so; not with `design` */
  unsigned without_classes; /* bit i: leave out findings of class i */
  uint64_t without_rules;   /* bit i: leave out findings of rule i of hr_rules() */
  int64_t nodes;            /* on which parallel layouts are compared; 0: those that the workload takes up */
} hr_advise_options;

/** Nothing is left out; changes that need new weights come last if trained weights exist. */
HR_API void hr_advise_options_init(hr_advise_options *options, size_t size);
HR_DEFAULT(hr_advise_options)

typedef struct hr_advice hr_advice;

/** What an advice is of, and how much it has. The library returns pointers to its own, which later releases may end
 *  with further members; what it points to lives as long as the advice. */
typedef struct hr_advice_about {
  const hr_hardware *hardware;
  const hr_model *model;
  const hr_workload *workload;
  const hr_step *step; /* the original one */
  const hr_parallel_layouts *layouts;
  size_t finding_count;           /* of hr_advice_finding(), without the merged ones */
  size_t combined_count;          /* merged suggestions, behind them */
  size_t left_out, left_out_high; /* findings of any severity but none that the options leave out; of severity high */
  bool retrain_last;              /* trained weights exist, and the caller did not ask for a design */
} hr_advice_about;

/** Applies every rule to the shape. On HR_OK the caller owns *advice and frees it with hr_advice_free(). Errors of
 *  hr_predict_step() and HR_ERROR_OUT_OF_MEMORY; *advice is then untouched. Deterministic. */
HR_API hr_status hr_advise(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                           hr_advice **advice, hr_error *error);

/** The same with options. Rules see each other's findings before any are left out, so that leaving out some does not
 *  change the others. Also HR_ERROR_INVALID for options of another version. */
HR_API hr_status hr_advise_with(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                                const hr_advise_options *options, hr_advice **advice, hr_error *error);

/** Frees an advice; NULL is allowed. */
HR_API void hr_advice_free(hr_advice *advice);

/** What an advice is of. Never NULL; valid as long as the advice. */
HR_API const hr_advice_about *hr_advice_describe(const hr_advice *advice);

/** A finding, valid as long as the advice. Below finding_count: most severe first, then highest gain; those of
 *  HR_CHANGE_RETRAIN after the others if retrain_last; those of severity none at the end. From there on combined_count
 *  merged suggestions: "combined_free" of all free ones; "combined_retrain" of these and all others that keep devices,
 *  the kind of layer and about the parameters. Each if it merges at least two and gains as much as each of its class by
 *  itself, the second one if one of them needs new weights. NULL beyond. */
HR_API const hr_finding *hr_advice_finding(const hr_advice *advice, size_t index);

/** "none", "low", "medium", "high". Static storage. */
HR_API const char *hr_severity_name(hr_severity severity);

#ifdef __cplusplus
}
#endif
#endif
