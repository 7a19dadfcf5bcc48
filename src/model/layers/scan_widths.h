/* SPDX-License-Identifier: Apache-2.0 */
/* Widths of a recurrent mixer, in elements per token unless the comment says otherwise. Pure functions. */
#ifndef HR_MODEL_LAYERS_SCAN_WIDTHS_H
#define HR_MODEL_LAYERS_SCAN_WIDTHS_H

#include "base/checked.h"
#include <headroom/model.h>

/** Channels of all heads. */
hr_checked64 hr_scan_channels(const hr_mixer_scan *m);

/** Elements of all keys (B), as many as of all queries (C). */
hr_checked64 hr_scan_keys(const hr_mixer_scan *m);

/** Columns of the projection into the mixer. */
hr_checked64 hr_scan_projected(const hr_mixer_scan *m);

/** Channels of the convolution; 0 if there is none. */
hr_checked64 hr_scan_convolved(const hr_mixer_scan *m);

/** Mamba-1: columns of x_proj, the step size's rank and B and C; otherwise 0. */
hr_checked64 hr_scan_selected(const hr_mixer_scan *m);

/** Elements of a sequence's recurrent state, and their bytes. */
hr_checked64 hr_scan_state(const hr_mixer_scan *m);
hr_checked64 hr_scan_state_bytes(const hr_mixer_scan *m); /* see hr_scan_state() */

/** Whether an operator of its own multiplies the scan's output by the gate, after its norm if it has one. */
bool hr_scan_has_gate(const hr_mixer_scan *m);

#endif
