/* Honest timing: fresh random data, cold caches, a check against the reference, medians with confidence intervals.
 *
 * docs/measuring.md is the specification of every number. Thread safety: one measurement at a time for a device. */
#ifndef HEADROOM_MEASURE_H
#define HEADROOM_MEASURE_H

#include <headroom/attention.h>
#include <headroom/device.h>
#include <headroom/gemm.h>
#include <headroom/rowwise.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_measure_options {
  size_t struct_size;   /* sizeof(hr_measure_options), set by hr_measure_options_default() */
  double time_limit_ns; /* of the sampling of one configuration. Default 2 s */
  double precision;     /* stop when the 95% interval of the median is within ± this. Default 0.005 */
  int64_t samples_min;  /* default 10 */
  int64_t samples_max;  /* default 1000 */
  bool warm;            /* one buffer set again and again; default false: cold, sets rotate */
  bool check;           /* compare sampled rows with the reference first; default true */
  uint64_t seed;        /* of the data. Default 1 */
  const char *kernel;   /* as hr_plan_gemm()'s; NULL: the best */
  int64_t autotune;     /* of one product: time so many of the configurations that the kernel thinks best, by turns, and
                       measure the fastest. Default 0: the first */
  int64_t memory_limit_bytes;      /* that one set of operands and the workspace may take; 0: what there is */
  int (*cancelled)(void *context); /* polled between samples; not 0 ends with HR_ERROR_INTERRUPTED. May be NULL */
  void *context;
} hr_measure_options;

/** The defaults above. */
HR_API hr_measure_options hr_measure_options_default(void);

/** What was measured. Times in ns; they, the rates and max_error are NAN where there is none. */
typedef struct hr_measurement {
  hr_status status; /* HR_OK, or why there is no time (or a doubtful one: HR_ERROR_NOISY) */
  char reason[160]; /* the detail when status is not HR_OK */
  char kernel[64];
  char configuration[128]; /* hr_plan_configuration() */
  int64_t choice, choices; /* autotuned: the choice-th, from 1, of `choices` configurations; 0: the first was taken */
  double
      choice_speedup; /* time of the first choice over that of the chosen one, by turns, in samples that the choice was
                            not made by; NAN where it was not autotuned, or the first failed */
  hr_conditions conditions; /* of the device, right after the last sample */
  int64_t samples;
  int64_t discarded; /* samples left out as other processes had the cores while they were taken */
  double min_ns, p10_ns, median_ns, mean_ns, p90_ns, max_ns, stddev_ns; /* stddev_ns NAN of one sample */
  double median_low_ns, median_high_ns; /* 95% confidence interval of the median, by order statistics; of fewer
                                           than 6 samples the least and the largest */
  double latency_ns; /* of a run alone, from the call until it is over, by the host's clock: the median of 100; NAN
                        where runs were not timed in groups, and in pairs */
  double flops_per_s, bytes_per_s; /* from the median; bytes as hr_gemm_bytes() */
  bool warm;
  int64_t buffer_sets;    /* how many sets of inputs rotated */
  double workspace_bytes; /* that the kernel asks for; NAN where it came to no plan */
  double peak_bytes;      /* that the first run took beyond its operands, workspace included: how much the process's
                             resident memory rose, or a GPU's free memory fell. NAN where the system does not tell, and
                             where nothing was checked */
  double max_error;       /* largest |result − reference| over the checked rows */
  int64_t rows_checked;
} hr_measurement;

/** Times one product. `options` NULL: the defaults. Returns HR_OK whenever *measurement was filled, whatever its
 *  status; other errors mean that nothing could be tried (HR_ERROR_INVALID, HR_ERROR_INTERRUPTED). */
HR_API hr_status hr_measure_gemm(hr_device *device, const hr_gemm *gemm, const hr_measure_options *options,
                                 hr_measurement *measurement, hr_error *error);

/** Times one attention call; returns as hr_measure_gemm() does. Variable lengths, and calls without
 *  queries or keys, have the status HR_ERROR_UNSUPPORTED. */
HR_API hr_status hr_measure_attention(hr_device *device, const hr_attention *attention,
                                      const hr_measure_options *options, hr_measurement *measurement, hr_error *error);

/** Times one operation on rows; returns as hr_measure_gemm() does, with flops_per_s NAN. */
HR_API hr_status hr_measure_rowwise(hr_device *device, const hr_rowwise *rows, const hr_measure_options *options,
                                    hr_measurement *measurement, hr_error *error);

/** Two products compared, A B A B: the ratio is formed pair by pair. */
typedef struct hr_comparison {
  hr_measurement before, after;
  double ratio;                 /* median of time before / time after */
  double ratio_low, ratio_high; /* its 95% confidence interval */
} hr_comparison;

/** Times two products interleaved. Errors as hr_measure_gemm(). The ratio is NAN unless both have times. */
HR_API hr_status hr_measure_gemm_pair(hr_device *device, const hr_gemm *before, const hr_gemm *after,
                                      const hr_measure_options *options, hr_comparison *comparison, hr_error *error);

/** Order statistics of `count` samples (at least 1), which are sorted in place: fills every time of *measurement. */
HR_API void hr_statistics(double *samples_ns, int64_t count, hr_measurement *measurement);

#ifdef __cplusplus
}
#endif
#endif
