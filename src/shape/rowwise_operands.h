/* SPDX-License-Identifier: Apache-2.0 */
/* The operands of row-wise operations: their shapes, what they hold, and which results may replace an input. */
#ifndef HR_SHAPE_ROWWISE_OPERANDS_H
#define HR_SHAPE_ROWWISE_OPERANDS_H

#include "base/checked.h"

#include <headroom/rowwise.h>
#include <stdbool.h>

typedef enum hr_rowwise_extent {
  HR_EXTENT_TENSOR,  /* [rows, columns] */
  HR_EXTENT_STRIDED, /* [rows, columns], groups of rows x_stride apart */
  HR_EXTENT_PART,    /* [rows, rotated columns], as z_row and z_stride say */
  HR_EXTENT_ROW,     /* [columns] */
  HR_EXTENT_ANGLES,  /* [period, rotated columns] */
  HR_EXTENT_RESULT,  /* [rows, columns], groups of rows y_stride apart */
  HR_EXTENT_TABLE,   /* [period, columns], of which `rows` rows are read */
  HR_EXTENT_SUMS,    /* [period, columns] */
  HR_EXTENT_COLUMN,  /* [rows] */
  HR_EXTENT_TERMS,   /* [rows, group] */
  HR_EXTENT_HEADS    /* [group] */
} hr_rowwise_extent;

typedef enum hr_rowwise_content {
  HR_CONTENT_NUMBERS,   /* of the problem's dtype */
  HR_CONTENT_FP32,      /* fp32, whatever the dtype */
  HR_CONTENT_VARIANCES, /* fp32, at least 0 */
  HR_CONTENT_TARGETS,   /* int32 */
  HR_CONTENT_ROWS       /* int32, rows of a table */
} hr_rowwise_content;

typedef struct hr_rowwise_operand {
  hr_rowwise_extent extent;
  hr_rowwise_content content;
  int replaces; /* of an output: 1 + the input whose address it may have; 0: none */
} hr_rowwise_operand;

#define HR_ROWWISE_INPUTS_MAX 4
#define HR_ROWWISE_OUTPUTS_MAX 4

typedef struct hr_rowwise_operands {
  int inputs, outputs;
  hr_rowwise_operand input[HR_ROWWISE_INPUTS_MAX], output[HR_ROWWISE_OUTPUTS_MAX];
} hr_rowwise_operands;

/** The operands of a problem whose operation is in the list. */
hr_rowwise_operands hr_rowwise_operands_of(const hr_rowwise *rows);

/** One of its outputs, below `outputs`. A table's: references ask for it of each number. */
const hr_rowwise_operand *hr_rowwise_output_of(const hr_rowwise *rows, int output);

/** Elements of an operand that a run reads or writes; those from its first to its last; and the bytes of one. */
hr_checked64 hr_rowwise_elements(const hr_rowwise *rows, const hr_rowwise_operand *operand);
hr_checked64 hr_rowwise_span(const hr_rowwise *rows, const hr_rowwise_operand *operand);
int64_t hr_rowwise_element_bytes(const hr_rowwise *rows, const hr_rowwise_operand *operand);

/** Whether only training has the operation: gradients, losses, the optimizer. */
bool hr_rowwise_trains(hr_rowwise_operation operation);

/** Whether the operation is a residual and the norm of its sum. */
bool hr_rowwise_adds_before_norm(hr_rowwise_operation operation);

/** Whether a negative number of a row is none of the table. */
static inline bool hr_rowwise_skips_rows(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_GATHER || operation == HR_ROWWISE_COMBINE || operation == HR_ROWWISE_GATHER_SUM;
}

/** The constants of an AdamW step. */
typedef struct hr_adamw {
  double decay;        /* 1 − learning_rate · weight_decay */
  double beta1, beta2; /* of the mean and the variance */
  double rate;         /* learning_rate / (1 − beta1^step) */
  double root;         /* 1 / sqrt(1 − beta2^step) */
  double epsilon;
  double max_norm; /* 0: gradients are not clipped */
} hr_adamw;

/** `step`: 0 for that of the problem. */
hr_adamw hr_adamw_of(const hr_rowwise *rows, int64_t step);

#endif
