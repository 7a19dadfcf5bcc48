/* SPDX-License-Identifier: Apache-2.0 */
/* Predictions beside measured times: their errors by kind and size, and the worst of them.
 *
 * Thread safety: pure functions of their arguments; a validation is read-only once made. */
#ifndef HEADROOM_EXPERIMENTAL_VALIDATE_H
#define HEADROOM_EXPERIMENTAL_VALIDATE_H

#include <headroom/experimental/collective.h>
#include <headroom/experimental/predict.h>
#include <headroom/input.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_validate_options {
  size_t struct_size;     /* sizeof(hr_validate_options), set by hr_validate_options_default() */
  hr_framework framework; /* whose attention and decode the rows measure; default compiled */
  bool cache_writes;      /* rows of prefill include the copy of K and V into the KV cache; default false */
} hr_validate_options;

/** See the members. */
HR_API void hr_validate_options_init(hr_validate_options *options, size_t size);
HR_DEFAULT(hr_validate_options)

/** A measured row and its prediction. */
typedef struct hr_validated_row {
  int64_t line; /* of the file, from 1 */
  hr_interval_kind kind;
  hr_gemm gemm;           /* HR_INTERVAL_GEMM, _GEMM_NARROW and _BMM */
  bool rounded;           /* GEMM of 8 bit operands: the time includes rounding A from 16 bits */
  hr_attention attention; /* HR_INTERVAL_ATTENTION, _DECODE, _LATENT and _LATENT_PREFILL */
  hr_expert_call experts; /* HR_INTERVAL_EXPERTS */
  hr_scan_call scan;      /* HR_INTERVAL_SCAN */
  double measured_ns;
  hr_clock clock;         /* that it was measured at */
  hr_cache cache;         /* what the last-level cache held */
  hr_framework framework; /* whose attention or decode it is */
  bool cache_writes;      /* the time of prefill includes the copy of K and V into the KV cache; of latent attention
                             a copy of Q, as RoPE makes one */
  hr_prediction prediction;
  double error;     /* predicted over measured, or its inverse, less 1 */
  const char *term; /* that makes up most of the predicted time (hr_prediction_largest_term()); static storage */
  hr_collective collective; /* HR_INTERVAL_COLLECTIVE; HR_LIBRARY_COUNT becomes the library that `framework`
                               uses */
  int64_t nodes;            /* the same: that its devices are on, equally many on each; 0: one */
} hr_validated_row;

/** `count` rows. */
typedef struct hr_validated_rows {
  hr_validated_row *rows;
  size_t count;
} hr_validated_rows;

/** Errors of the rows of a kind, all or those of a size. Errors are factors less 1, as hr_validated_row.error. */
typedef struct hr_validated_group {
  hr_interval_kind kind;
  double min_ns, max_ns; /* of the predicted time, max_ns excluded; 0 and infinity: all rows of the kind */
  int64_t rows;
  double median, mean, p90; /* of the errors; the mean is the geometric one of the factors */
  double bias;              /* geometric mean of predicted over measured, less 1: above 0 is predicted too slow */
  double coverage;          /* share of the rows within [low_ns, high_ns] of the prediction */
  double rank_correlation;  /* Spearman's, of predicted and measured times; NAN for fewer than 3 rows */
} hr_validated_group;

#define HR_VALIDATED_WORST 10

typedef struct hr_validation {
  size_t row_count;
  hr_validated_row *rows; /* as in the file */
  int64_t skipped;        /* rows of kinds or number formats that have no prediction */
  char skipped_why[160];  /* of the first of them, with its line; "" if there is none */
  size_t group_count;
  hr_validated_group *groups; /* by kind: all rows, then by predicted time, groups with rows only */
  size_t worst_count;
  size_t worst[HR_VALIDATED_WORST]; /* indices of rows, the largest error first */
  int64_t drawn; /* random points that the rows are of, with and without a time, if the caller sets it for the report */
  uint64_t seed; /* theirs */
} hr_validation;

/** Reads measured rows of CSV and predicts each on the device.
 *
 *  Lines that begin with # are skipped, the first other line names the columns, in any order: kind (gemm or
 *  gemm_misaligned, bmm, attention or prefill, attention_full, decode, scan), time_ns,
 *  median_ns or measured_ns, and the sizes.
 *  GEMMs: m, n, k, batch, transpose_a, transpose_b (0 or 1). Attention: n keys, m queries (default n; decode: 1),
 *  batch, q_heads, kv_heads or k_heads, head_dim or k, causal (default 1; attention_full: 0), window (default 0).
 *  Scans: recurrence, a name of hr_recurrence_name(), which may also stand in place of the kind; phase, prefill
 *  (default) or decode; batch, seq (decode: 1), heads, head_dim (default 1), state, groups, chunk (default 0).
 *  Collectives,
 *  whose kind is a name of hr_collective_name(): gpus, bytes, nodes (default 1), copies (default 0), library, a name of
 *  hr_collective_library_name(), by default that whose name is in `source`, else what the framework uses;
 *  also rows of `headroom sweep collectives --format csv`, whose `problem` says this. All:
 *  dtype, default bf16; l2, cold or warm, default hardware->cache; clock, settled or burst, default hardware->clock;
 *  framework, default options->framework. Other columns are ignored, and rows of other kinds counted. Errors:
 *  HR_ERROR_INVALID and HR_ERROR_UNREADABLE with the line and column, HR_ERROR_OUT_OF_MEMORY, those of
 *  hr_hardware_check(). On HR_OK the caller owns *validation and frees it with hr_validation_free(). */
HR_API hr_status hr_validate_csv(const hr_hardware *hardware, const hr_input *input, const hr_validate_options *options,
                                 hr_validation **validation, hr_error *error);

/** The same of a file of at most 16 MiB; "-" is standard input. Also HR_ERROR_NOT_FOUND. */
HR_API hr_status hr_validate_file(const hr_hardware *hardware, const char *path, const hr_validate_options *options,
                                  hr_validation **validation, hr_error *error);

/** Predicts `count` rows on the device, each for its own clock, cache and framework; the members from `prediction` on
 *  are not read. Rows of formats that the device does not have are counted in `skipped`. Errors: HR_ERROR_INVALID for a
 *  problem or a time that is wrong and for no row at all, HR_ERROR_OUT_OF_MEMORY, those of hr_hardware_check(). On
 *  HR_OK the caller owns *validation. */
HR_API hr_status hr_validate_rows(const hr_hardware *hardware, const hr_validated_row *rows, size_t count,
                                  hr_validation **validation, hr_error *error);

/** Frees it; NULL is accepted. */
HR_API void hr_validation_free(hr_validation *validation);

#ifdef __cplusplus
}
#endif
#endif
