/* Predicted gains against measured ones. Thread safety: one confirmation at a time for a device. */
#ifndef HEADROOM_CONFIRM_H
#define HEADROOM_CONFIRM_H

#include <headroom/advise.h>
#include <headroom/measure.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One product of the model as it is and as a finding suggests. Times are of one execution. */
typedef struct hr_confirmation_row {
  size_t finding;     /* index into advice->findings; SIZE_MAX: the combined suggestion */
  hr_operator before, after;
  double predicted_before_ns, predicted_after_ns; /* at the measured size */
  hr_comparison comparison;
} hr_confirmation_row;

typedef struct hr_confirmation {
  int64_t batch, sequence;   /* the sizes measured at */
  bool reduced;              /* smaller than asked for, because of memory or time */
  char note[256];            /* says so in a sentence; empty when nothing was reduced */
  bool complete;             /* false: stopped by the caller */
  size_t count;
  hr_confirmation_row *rows; /* owned by the confirmation */
} hr_confirmation;

/** Measures every operator that a finding changes, as it is and as suggested, interleaved, on `device`, and fills
 *  measured_gain and measured_operator_gain of the findings. Operators that a finding leaves alone are measured once
 *  and enter both sums; what cannot be measured there (norms, softmax) enters with its predicted time. `budget_ns`:
 *  about how long it may take in all; 0: one minute. `progress` may be NULL; when it stops the work, the function
 *  returns HR_OK with complete = false. The caller owns *confirmation and gives it back with
 *  hr_confirmation_free(). */
HR_API hr_status hr_confirm(hr_device *device, hr_advice *advice, double budget_ns, hr_progress_fn progress,
                            void *context, hr_confirmation **confirmation, hr_error *error);

/** Frees a confirmation; NULL is allowed. */
HR_API void hr_confirmation_free(hr_confirmation *confirmation);

#ifdef __cplusplus
}
#endif
#endif
