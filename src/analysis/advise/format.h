/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, times and rates as text for findings. */
#ifndef HR_ANALYSIS_ADVISE_FORMAT_H
#define HR_ANALYSIS_ADVISE_FORMAT_H

#include "analysis/advise/operator_set.h"

typedef struct hr_text32 {
  char text[32];
} hr_text32;
hr_text32 hr_format_time(double time_ns);                                 /* "3.05 ms" */
hr_text32 hr_format_bytes(double bytes);                                  /* "1.20 GiB" */
hr_text32 hr_format_gain(double gain);                                    /* "+0.04%" */
hr_text32 hr_format_rate(const hr_step *step, hr_operator_set operators); /* "718 TFLOP/s" */

/** "odd" or "divisible by 16 but not 32", for a size that is not a multiple of 64. */
hr_text32 hr_format_divisibility(int64_t size);

typedef struct hr_text192 {
  char text[192];
} hr_text192;
hr_text192 hr_format_text(const char *format, ...) HR_PRINTF(1, 2);

/** " in 24 of 32 layers"; "" if it is all of them. */
hr_text192 hr_format_share(int64_t layers, int64_t all);

/** The same of the layers whose attention has these heads and head sizes. */
hr_text192 hr_format_layers_with_heads(const hr_model *model, const hr_mixer_attention *heads);

/** Names the heads of the main layers: "32 heads of 64"; with fewer K and V heads "32 heads of 64, 8 KV heads" or "…, 4
 *  K and 16 V heads". Ends with hr_format_layers_with_heads(). */
hr_text192 hr_format_heads(const hr_model *model);

/** "MLP width 14336", of the main layers; followed by " in 24 of 32 layers" if others have another or none. */
hr_text192 hr_format_mlp_width(const hr_model *model);

/** The reason why a size that is not a multiple of 64 costs hardly anything: the device runs plain (or batched) GEMMs
 *  of this alignment at 90% of full speed or more, or else they take too little of the step. */
hr_text192 hr_explain_no_loss(const hr_hardware *hardware, int64_t size, hr_dtype dtype, bool batched);

#endif
