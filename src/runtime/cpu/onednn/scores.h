/* Attention around the two products that oneDNN makes: operands in a form that it multiplies, and softmax over rows of
 * scores that lie in memory. */
#ifndef HR_RUNTIME_CPU_ONEDNN_SCORES_H
#define HR_RUNTIME_CPU_ONEDNN_SCORES_H

#include "runtime/cpu/host/isa.h"
#include "runtime/device/attention.h"

typedef struct hr_scores_version hr_scores_version;

/** One problem, and how its operands come to the products. */
typedef struct hr_scores {
  hr_attention attention;
  float scale;
  bool packed;      /* operands are copied by hr_scores_pack(), and O is written by hr_scores_write() */
  hr_dtype factors; /* format of what is multiplied, weights too: HR_FP32 or HR_BF16 */
  const hr_scores_version *version;
} hr_scores;

/** Chooses the version for the instruction set. Not packed, factors as they are. */
hr_scores hr_scores_make(const hr_attention *attention, const hr_isa *isa);

/** Finds the first way in which oneDNN takes the operands: where they lie; copied, which all strides and lengths can
 *  be; copied to fp32. `make` prepares the products of scores->packed and scores->factors, and has let go of those that
 *  it made before; HR_ERROR_UNSUPPORTED from it leads to the next way. */
hr_status hr_scores_find_way(hr_scores *scores, hr_status (*make)(void *kernel, hr_error *error), void *kernel,
                             hr_error *error);

/** What was found: "operands copied to fp32". Static storage. */
const char *hr_scores_way(const hr_scores *scores);

/** Copies `rows` rows of `dim` elements that lie `stride` elements apart, in the format of the factors and without
 *  gaps, and zeros behind them until there are `all` rows. */
void hr_scores_pack(const hr_scores *scores, const void *from, int64_t stride, int64_t dim, int64_t rows, int64_t all,
                    void *to);

/** Turns products q · k, `columns` of them in `row`, into weights exp(s − largest), 0 where the query does not see the
 *  key; all divided by their sum if `normalise`. Weights that are not fp32 lie from the row's beginning on. Writes the
 *  log-sum-exp if it is wanted. Returns 1 / sum, 0 where nothing is seen. */
float hr_scores_weigh(const hr_scores *scores, const hr_attention_arguments *arguments, const hr_sequence *sequence,
                      int64_t head, int64_t query, float *row, int64_t columns, bool normalise);

/** Writes a row of O: from[i] · factor; zeros where the factor is 0, whatever `from` has. */
void hr_scores_write(const hr_scores *scores, const hr_sequence *sequence, int64_t head, int64_t query,
                     const float *from, float factor);

/** O and the log-sum-exp of a query that sees nothing. */
void hr_scores_write_nothing(const hr_scores *scores, const hr_sequence *sequence, int64_t head, int64_t query);

/** The address of a row of an operand in a sequence. */
const void *hr_scores_row(const hr_scores *scores, hr_attention_operand operand, const hr_sequence *sequence,
                          int64_t head, int64_t row);

/* ---- versions: scores_body.h ---- */

/** What becomes of one row. */
typedef struct hr_score_row {
  hr_key_range seen; /* within the row; the other weights are 0 */
  float scale, softcap;
  float slope;      /* of ALiBi, 0 without */
  int64_t position; /* of the query among the keys */
} hr_score_row;

/** Of a row's weights exp(s − largest). */
typedef struct hr_score_sum {
  float sum, lse; /* 0 and −inf where nothing is seen; lse is the natural logarithm of Σ exp(s) */
} hr_score_sum;

struct hr_scores_version {
  /** Weights as hr_scores_weigh() makes them, in fp32. */
  hr_score_sum (*softmax)(const hr_score_row *how, float *row, int64_t columns, bool normalise);
  /** row[i] = exp(row[i] − largest); returns their sum. */
  float (*exponentials)(float *row, int64_t count, float largest);
  void (*widen)(hr_dtype dtype, const void *from, int64_t count, float *to);
  /** from[i] · factor, rounded to nearest, ties to even. `to` may be `from`. */
  void (*narrow)(hr_dtype dtype, const float *from, float factor, int64_t count, void *to);
};

/** One for each width of simd.h. Only what the processor has may be called. */
extern const hr_scores_version hr_scores_portable, hr_scores_avx2, hr_scores_avx512;

#endif
