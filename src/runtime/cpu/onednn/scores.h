/* SPDX-License-Identifier: Apache-2.0 */
/* Attention around oneDNN's two GEMMs: operands in a format and layout that oneDNN supports, and softmax over rows of
 * scores in memory. */
#ifndef HR_RUNTIME_CPU_ONEDNN_SCORES_H
#define HR_RUNTIME_CPU_ONEDNN_SCORES_H

#include "runtime/cpu/host/isa.h"
#include "runtime/device/plan.h"
#include "runtime/operation/attention_sequences.h"

typedef struct hr_scores_version hr_scores_version;

/** A problem, and how its operands are passed to the GEMMs. */
typedef struct hr_scores {
  hr_attention attention;
  float scale;
  bool packed;      /* operands are copied by hr_scores_pack(), and O is written by hr_scores_write() */
  hr_dtype factors; /* format of the GEMMs' A and B, weights too: HR_FP32 or HR_BF16 */
  const hr_scores_version *version;
} hr_scores;

/** Chooses the version for the instruction set. Not packed; factors in the operands' format. */
hr_scores hr_scores_make(const hr_attention *attention, const hr_isa *isa);

/** Finds the first way in which oneDNN accepts the operands: in place; copied, for any strides and lengths; copied to
 *  fp32. `make` prepares the GEMMs of scores->packed and scores->factors after it has freed earlier ones; when it
 *  returns HR_ERROR_UNSUPPORTED the next way is tried. */
hr_status hr_scores_choose_operands(hr_scores *scores, hr_status (*make)(void *kernel, hr_error *error), void *kernel,
                                    hr_error *error);

/** The way found: "operands copied to fp32". Static storage. */
const char *hr_scores_describe_operands(const hr_scores *scores);

/** Copies `rows` rows of `dim` elements, `stride` elements apart, to contiguous rows in the format of the factors, and
 *  appends rows of zeros up to `all` rows. */
void hr_scores_pack(const hr_scores *scores, const void *from, int64_t stride, int64_t dim, int64_t rows, int64_t all,
                    void *to);

/** Replaces the `columns` products q · k in `row` by weights exp(s − max), 0 for masked keys; all divided by their sum
 *  if `normalise`, otherwise multiplied by a power of 2 so that they add up to 1 at most, but in fp16. Weights of 16
 *  bits are stored from the row's start. Writes the log-sum-exp if the caller asked for it. Returns 1 / sum, 0 if all
 *  keys are masked. */
float hr_scores_softmax(const hr_scores *scores, const hr_attention_arguments *arguments, const hr_sequence *sequence,
                        int64_t head, int64_t query, float *row, int64_t columns, bool normalise);

/** Writes a row of O: from[i] · factor; zeros where the factor is 0, whatever `from` has. */
void hr_scores_write(const hr_scores *scores, const hr_sequence *sequence, int64_t head, int64_t query,
                     const float *from, float factor);

/** Writes O and the log-sum-exp of a query whose keys are all masked. */
void hr_scores_write_masked(const hr_scores *scores, const hr_sequence *sequence, int64_t head, int64_t query);

/** The address of a row of an operand in a sequence. */
const void *hr_scores_row(const hr_scores *scores, hr_attention_operand operand, const hr_sequence *sequence,
                          int64_t head, int64_t row);

/* ---- versions: scores_body.h ---- */

/** Parameters of one row. */
typedef struct hr_score_row {
  hr_key_range seen; /* visible keys; the other weights are 0 */
  float scale, softcap;
  float slope;      /* of ALiBi, 0 without */
  int64_t position; /* of the query among the keys */
  int top;          /* the largest weight is 2^top; 0 or less */
} hr_score_row;

/** Sum of a row's weights 2^top exp(s − max). */
typedef struct hr_score_sum {
  float sum, lse; /* 0 and −inf if all keys are masked; lse is the natural logarithm of Σ exp(s) */
} hr_score_sum;

struct hr_scores_version {
  /** The weights of hr_scores_softmax(), in fp32. */
  hr_score_sum (*softmax)(const hr_score_row *how, float *row, int64_t columns, bool normalise);
  /** row[i] = 2^top exp(row[i] − largest); returns their sum. */
  float (*exponentials)(float *row, int64_t count, float largest, int top);
  void (*widen)(hr_dtype dtype, const void *from, int64_t count, float *to);
  /** from[i] · factor, rounded to nearest, ties to even. `to` may be `from`. */
  void (*narrow)(hr_dtype dtype, const float *from, float factor, int64_t count, void *to);
};

/** One for each instruction set; the processor must have it. */
extern const hr_scores_version hr_scores_portable, hr_scores_neon, hr_scores_avx2, hr_scores_avx512;

#endif
