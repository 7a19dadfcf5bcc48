/* Softmax over rows of scores that lie in memory: what stands between the two products of attention. */
#ifndef HR_RUNTIME_CPU_SCORES_H
#define HR_RUNTIME_CPU_SCORES_H

#include "runtime/cpu/isa.h"
#include "runtime/device/attention.h"

/** What becomes of one row. */
typedef struct hr_score_row {
  hr_key_range seen; /* within the row; the other weights are 0 */
  float slope;       /* of ALiBi, 0 without */
  int64_t position;  /* of the query among the keys */
} hr_score_row;

/** Of a row's weights exp(s − largest). */
typedef struct hr_score_sum {
  float sum, lse; /* 0 and −inf where nothing is seen; lse is the natural logarithm of Σ exp(s) */
} hr_score_sum;

/** Works on rows of one problem. */
typedef struct hr_scores {
  float scale, softcap;
  hr_dtype weights; /* format that weights are left in: HR_FP32 in place, HR_BF16 from the row's beginning on */
  void (*exponentials)(float *row, int64_t count, float largest, float *sum);
} hr_scores;

/** Chooses the version for the instruction set. */
hr_scores hr_scores_make(const hr_attention *attention, const hr_isa *isa);

/** Turns `columns` products q · k in `row` into weights exp(s − largest), all divided by their sum if `normalise`. */
hr_score_sum hr_scores_softmax(const hr_scores *scores, const hr_score_row *how, float *row, int64_t columns,
                               bool normalise);

/** Writes from[i] · factor in the format of the weights; zeros where the factor is 0, whatever `from` has. */
void hr_scores_write(const hr_scores *scores, const float *from, float factor, int64_t count, void *to);

#endif
