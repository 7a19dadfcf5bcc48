/* SPDX-License-Identifier: Apache-2.0 */
/* Timing kernels: fresh random data, cold caches, a check against the reference, medians with confidence intervals.
 *
 * docs/measuring.md specifies every number. Thread safety: one measurement at a time per device. */
#ifndef HEADROOM_EXPERIMENTAL_MEASURE_H
#define HEADROOM_EXPERIMENTAL_MEASURE_H

#include <headroom/attention.h>
#include <headroom/decode.h>
#include <headroom/device.h>
#include <headroom/experimental/attention_backward.h>
#include <headroom/gemm.h>
#include <headroom/rowwise.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_measure_options {
  size_t struct_size;   /* sizeof(hr_measure_options), set by hr_measure_options_default() */
  double time_limit_ns; /* for the sampling of one configuration. Default 2 s */
  double precision;     /* relative half-width of the median's 95% interval at which sampling stops. Default 0.005 */
  int64_t samples_min;  /* default 10 */
  int64_t samples_max;  /* default 1000 */
  bool warm;            /* every run uses the same buffers; default false: cold caches, sets of buffers rotate */
  bool check;           /* compare sampled rows with the reference first; default true */
  uint64_t seed;        /* of the data. Default 1 */
  const char *kernel;   /* as in hr_plan_gemm(); NULL: the best */
  int64_t autotune;     /* for one problem: time this many of the configurations that the kernel estimates best,
                           interleaved, and measure the fastest. Default 0: the first configuration */
  int decode_part; /* of a decode kernel of two launches, times 1: the splits alone, 2: their combination alone, without
                      rates. Default 0: whole runs. A kernel of one launch is then HR_ERROR_UNSUPPORTED */
  int64_t memory_limit_bytes;      /* for one set of operands and the workspace; 0: no limit but the free memory */
  int (*cancelled)(void *context); /* polled between samples; nonzero ends with HR_ERROR_INTERRUPTED. May be NULL */
  void *context;
  bool
      energy; /* for one problem: also run it alone for over a second and measure its power and energy, where the device
                  counts them (NVIDIA GPUs). Default false */
} hr_measure_options;

/** The defaults above. */
HR_API void hr_measure_options_init(hr_measure_options *options, size_t size);
HR_DEFAULT(hr_measure_options)

/** A measurement. Times are in ns; times, rates and errors are NAN where unknown. */
typedef struct hr_measurement {
  hr_status status; /* HR_OK, or why there is no time; HR_ERROR_NOISY: the time is doubtful */
  char reason[160]; /* the detail if status is not HR_OK */
  char kernel[64];
  char configuration[128]; /* hr_plan_configuration() */
  int64_t choice, choices; /* autotuned: number `choice`, from 1, of `choices` configurations; 0: not autotuned */
  double choice_speedup; /* time of the first choice over that of the chosen one, interleaved, in samples that were not
                            used to choose; NAN if not autotuned or if the first failed */
  hr_conditions conditions; /* of the device, right after the last sample */
  int64_t samples;
  int64_t discarded; /* samples ignored since other processes had the cores meanwhile */
  double min_ns, p10_ns, median_ns, mean_ns, p90_ns, max_ns, stddev_ns; /* stddev_ns is NAN for one sample */
  double median_low_ns, median_high_ns; /* 95% confidence interval of the median, by order statistics; with fewer
                                           than 6 samples the smallest and the largest */
  double latency_ns; /* of one run on an idle device, from the call to its end by the host's clock, median of 100;
                        only for runs timed in groups, NAN for others and for pairs */
  double flops_per_s, bytes_per_s; /* from the median; bytes are those of hr_gemm_bytes() */
  bool warm;
  int64_t buffer_sets;    /* how many sets of operands rotated */
  double workspace_bytes; /* of the plan; NAN if there is no plan */
  double peak_bytes;      /* memory of the first run in addition to the operands, workspace included: the rise of the
                             process's resident memory, or the fall of a GPU's free memory. NAN if unknown and if
                             nothing was checked */
  double max_error;       /* largest |result − reference| over the checked rows */
  int64_t rows_checked;
  double selection_error; /* of a decode call with top_k: how far that moves O from the result of all keys, on the
                             measured data; norm of the difference over norm, of the checked rows in float64 */
  double energy_j;     /* of one run, of the whole board, among runs one after the other for so long that the clock has
                             settled at the power cap; NAN if not asked for or not counted. So are the next three */
  double sustained_ns; /* mean time of a run then */
  double sustained_power_w, sustained_clock_hz; /* then */
} hr_measurement;

/** Times one GEMM. `options` NULL: the defaults. Returns HR_OK if *measurement is filled, whatever its status; other
 *  values mean that nothing was measured (HR_ERROR_INVALID, HR_ERROR_OVERFLOW, HR_ERROR_INTERRUPTED). */
HR_API hr_status hr_measure_gemm(hr_device *device, const hr_gemm *gemm, const hr_measure_options *options,
                                 hr_measurement *measurement, hr_error *error);

/** Times one attention call; returns as hr_measure_gemm() does. Calls with variable lengths, and without queries or
 *  keys, have the status HR_ERROR_UNSUPPORTED. */
HR_API hr_status hr_measure_attention(hr_device *device, const hr_attention *attention,
                                      const hr_measure_options *options, hr_measurement *measurement, hr_error *error);

/** Times the gradients of one attention call; `backward` NULL: its default. Returns as hr_measure_attention(), with the
 *  same calls unsupported, and with the errors of hr_attention_backward_check(). */
HR_API hr_status hr_measure_attention_backward(hr_device *device, const hr_attention *forward,
                                               const hr_attention_backward *backward, const hr_measure_options *options,
                                               hr_measurement *measurement, hr_error *error);

/** Times one decode call, all of whose sequences have kv_len tokens, on pages in random order; returns as
 *  hr_measure_gemm() does. A call without keys has the status HR_ERROR_UNSUPPORTED. */
HR_API hr_status hr_measure_decode(hr_device *device, const hr_decode *decode, const hr_measure_options *options,
                                   hr_measurement *measurement, hr_error *error);

/** Times one row-wise operation; returns as hr_measure_gemm() does, with flops_per_s NAN. */
HR_API hr_status hr_measure_rowwise(hr_device *device, const hr_rowwise *rows, const hr_measure_options *options,
                                    hr_measurement *measurement, hr_error *error);

/** Two GEMMs compared. Their samples are interleaved (A B A B) and the ratio is computed per pair. */
typedef struct hr_comparison {
  hr_measurement before, after;
  double ratio;                 /* median of (time before / time after) */
  double ratio_low, ratio_high; /* its 95% confidence interval */
} hr_comparison;

/** Times two GEMMs interleaved. Errors as hr_measure_gemm(). The ratio is NAN unless both have times. */
HR_API hr_status hr_measure_gemm_pair(hr_device *device, const hr_gemm *before, const hr_gemm *after,
                                      const hr_measure_options *options, hr_comparison *comparison, hr_error *error);

/** Order statistics of `count` samples (at least 1), which are sorted in place. Fills every time of *measurement but
 *  latency_ns. */
HR_API void hr_statistics(double *samples_ns, int64_t count, hr_measurement *measurement);

#ifdef __cplusplus
}
#endif
#endif
