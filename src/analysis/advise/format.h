/* Sizes, times and rates as findings say them. */
#ifndef HR_ANALYSIS_ADVISE_FORMAT_H
#define HR_ANALYSIS_ADVISE_FORMAT_H

#include <headroom/predict.h>

/** A set of operators, as bits of their ids. */
typedef uint64_t hr_operator_set;
#define HR_OPERATOR_BIT(id) ((hr_operator_set)1 << (id))
_Static_assert(HR_OPERATOR_ID_COUNT <= 64, "hr_operator_set has a bit for each operator");

typedef struct hr_text32 {
  char text[32];
} hr_text32;
hr_text32 hr_format_time(double time_ns);                                 /* "3.05 ms" */
hr_text32 hr_format_bytes(double bytes);                                  /* "1.20 GiB" */
hr_text32 hr_format_gain(double gain);                                    /* "+0.04%" */
hr_text32 hr_format_rate(const hr_step *step, hr_operator_set operators); /* of a set's products: "718 TFLOP/s" */

/** What a size lacks: "odd", "divisible by 16 but not 32"; for sizes that 64 does not divide. */
hr_text32 hr_format_divisibility(int64_t size);

/** Text into a fixed array, for `current` and `suggested`. */
typedef struct hr_text192 {
  char text[192];
} hr_text192;
hr_text192 hr_format_text(const char *format, ...) HR_PRINTF(1, 2);

/** "32 heads of 64"; where K and V have fewer, "32 heads of 64, 8 KV heads" or "…, 4 K and 16 V heads". */
hr_text192 hr_format_heads(const hr_model *model);

#endif
