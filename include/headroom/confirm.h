/* Predicted gains against measured ones. Thread safety: one confirmation at a time for a device. */
#ifndef HEADROOM_CONFIRM_H
#define HEADROOM_CONFIRM_H

#include <headroom/advise.h>
#include <headroom/measure.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_CONFIRMATION_REPLACED_MAX 3

/** One operator as a finding suggests it, and what the model has in its place. Times are of one execution. */
typedef struct hr_confirmation_row {
  size_t finding;      /* index into advice->findings; SIZE_MAX: the combined suggestion */
  size_t before_count; /* 1; where fused attention replaces unfused 3: score, softmax and over-value, run as one */
  hr_operator before[HR_CONFIRMATION_REPLACED_MAX], after;
  double predicted_before_ns, predicted_after_ns; /* at the measured size */
  double token_ratio; /* tokens a device, after over before: what makes a ratio of times one a token */
  hr_comparison comparison;
} hr_confirmation_row;

/** A finding with both of its gains at the size that was measured. (hr_finding.predicted_gain is at the size that was
 *  asked for; where that was too large to measure, the two differ.) Gains are as hr_finding has them; NAN: none. */
typedef struct hr_confirmed {
  size_t finding; /* index into advice->findings; SIZE_MAX: the combined suggestion */
  double predicted_gain, predicted_operator_gain;
  double measured_gain, measured_operator_gain;
  double measured_gain_low,
      measured_gain_high; /* with every ratio at the end of its interval that is worse or better */
  hr_status status;       /* HR_OK, or why there is no measured gain */
  char reason[224];       /* the detail when status is not HR_OK; otherwise what the gain leaves out, mostly nothing */
} hr_confirmed;

typedef struct hr_confirmation {
  int64_t batch, sequence; /* the sizes measured at; for decode `sequence` is the context */
  bool reduced;            /* smaller than asked for, because of memory or time */
  char note[256];          /* says so in a sentence; empty when nothing was reduced */
  bool complete;           /* false: stopped by the caller */
  size_t count;
  hr_confirmation_row *rows; /* owned by the confirmation */
  size_t finding_count;      /* findings that have a change, the combined suggestion included */
  hr_confirmed *findings;    /* owned by the confirmation; in the order of advice->findings */
} hr_confirmation;

/** Measures every product, softmax and forward call of fused attention that a finding changes, as it is and as
 *  suggested, interleaved, on `device`, and sets measured_gain and measured_operator_gain of the findings. A pair is
 *  measured once for all findings that have it; the time as suggested is the time as it is over the ratio of the pair,
 *  so that a drift of the machine cancels out. Fused attention runs in the best kernel that keeps the scores on the
 *  chip ("attention_flash"); where it replaces score, softmax and over-value, these are its other half, run as one.
 *  What no finding changes of all these is measured alone. Other operators without a product (norms, residuals),
 *  all-reduces, and the backward passes of softmax and fused attention, which no kernel computes, enter with their
 *  predicted time, and so does an unchanged softmax or fused attention that the device has no kernel for. There is no
 *  measured gain, and a reason, where nothing that is measured changes, where the backward pass of a fused attention
 *  does, and where something has no time.
 *
 *  `device` is the one that advice->hardware describes. `budget_ns`: about how long it may take in all; 0: one minute.
 *  Where the asked size is too large for that or for the memory that is free, batch and then sequence are halved.
 *  `progress` may be NULL; when it stops the work, the function returns HR_OK with complete = false. The caller owns
 *  *confirmation and gives it back with hr_confirmation_free(). Errors of hr_predict_step() and
 *  HR_ERROR_OUT_OF_MEMORY; what goes wrong with one operator is in its row. */
HR_API hr_status hr_confirm(hr_device *device, hr_advice *advice, double budget_ns, hr_progress_fn progress,
                            void *context, hr_confirmation **confirmation, hr_error *error);

/** Frees a confirmation; NULL is allowed. */
HR_API void hr_confirmation_free(hr_confirmation *confirmation);

#ifdef __cplusplus
}
#endif
#endif
