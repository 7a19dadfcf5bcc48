/* SPDX-License-Identifier: Apache-2.0 */
/* Compares predicted gains with measured ones. Thread safety: one confirmation at a time per device. */
#ifndef HEADROOM_EXPERIMENTAL_CONFIRM_H
#define HEADROOM_EXPERIMENTAL_CONFIRM_H

#include <headroom/advise.h>
#include <headroom/experimental/measure.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_CONFIRMATION_REPLACED_MAX 3

/** One operator before and after the suggested change. Times are of one execution. */
typedef struct hr_confirmation_row {
  size_t finding;      /* of hr_advice_finding() */
  size_t before_count; /* 1; 3 where fused attention replaces score, softmax and attention over value, run as one */
  hr_operator before[HR_CONFIRMATION_REPLACED_MAX], after;
  double predicted_before_ns, predicted_after_ns; /* at the measured size */
  double token_ratio; /* tokens per device, after over before: converts a ratio of times to one per token */
  hr_comparison comparison;
} hr_confirmation_row;

/** Predicted and measured gain of a finding at the measured size. (hr_finding.predicted_gain is at the requested size;
 *  if that was too large to measure, the two differ.) Gains as in hr_finding; NAN: none. */
typedef struct hr_confirmed {
  size_t finding; /* of hr_advice_finding() */
  double predicted_gain, predicted_operator_gain;
  double measured_gain, measured_operator_gain;
  double measured_gain_low, measured_gain_high; /* with every ratio at the worse or better end of its interval */
  hr_status status;                             /* HR_OK, or why there is no measured gain */
  char reason[224]; /* the detail if status is not HR_OK; otherwise what the gain omits, or why it is not of steps */
  bool by_steps;    /* the gain is that of whole steps; else a sum of operators */
} hr_confirmed;

typedef struct hr_confirmation {
  int64_t batch, sequence; /* the measured sizes; in decode `sequence` is the context */
  bool reduced;            /* smaller than requested, because of memory or time */
  char note[256];          /* the reduction in a sentence; "" if not reduced */
  bool complete;           /* false: stopped by the caller */
  size_t count;
  hr_confirmation_row *rows; /* owned by the confirmation */
  size_t finding_count;      /* findings that have a change, combined suggestions included */
  hr_confirmed *findings;    /* owned by the confirmation; in the order of hr_advice_finding() */
} hr_confirmation;

typedef struct hr_confirm_options {
  size_t struct_size; /* sizeof(hr_confirm_options), set by hr_confirm_options_default() */
  double budget_ns;   /* approximate total time; 0 (default): one minute */
  hr_progress_fn progress;
  void *context; /* of `progress`, which may be NULL */
} hr_confirm_options;

/** See the members. */
HR_API void hr_confirm_options_init(hr_confirm_options *options, size_t size);
HR_DEFAULT(hr_confirm_options)

/** Measures on `device` what a finding changes, original and suggested shape interleaved, and sets measured_gain and
 *  measured_operator_gain of the findings.
 *
 *  Whole steps are measured, with random weights, where hr_executor_open() takes both models, the workload is one that
 *  it runs (one device, no training, fused attention, HR_FRAMEWORK_HEADROOM), both fit half of the free memory and
 *  filling the weights takes no more than half of the budget; operators then have their times within the step.
 *
 *  Otherwise operators are: GEMMs, softmax and the forward pass of fused attention: as a pair if a finding changes
 *  them, alone otherwise. A pair that several findings share is measured once. The suggested time is the original time
 *  over the ratio of the pair, so that drift of the machine cancels out. Fused attention runs in the best kernel that
 *  keeps the scores on the chip ("attention_flash"; in a decode step "decode_split", against pages of 16 tokens, where
 *  the device has it); if it replaces score, softmax and attention over value, these three run as one.
 *
 *  Enter with their predicted time: other memory-bound operators (norms, residuals), all-reduces, the backward passes
 *  of softmax and fused attention, which no kernel computes, and an unchanged softmax or fused attention without a
 *  kernel. A finding has no measured gain, but a reason, if it changes nothing that is measured, if it changes the
 *  backward pass of fused attention, or if a measurement fails.
 *
 *  `device` is the one that hr_advice_about.hardware describes. If the requested size exceeds the budget or the free
 *  memory, batch and then sequence are halved. If `progress` stops the work, the function returns HR_OK with complete =
 *  false. The caller owns *confirmation and frees it with hr_confirmation_free(). Errors of hr_predict_step() and
 *  HR_ERROR_OUT_OF_MEMORY; errors of one operator are in its row. */
HR_API hr_status hr_confirm(hr_device *device, hr_advice *advice, const hr_confirm_options *options,
                            hr_confirmation **confirmation, hr_error *error);

/** Frees a confirmation; NULL is allowed. */
HR_API void hr_confirmation_free(hr_confirmation *confirmation);

#ifdef __cplusplus
}
#endif
#endif
