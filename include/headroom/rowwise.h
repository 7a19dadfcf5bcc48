/* SPDX-License-Identifier: Apache-2.0 */
/* Row-wise operations: softmax, norms, rotary embedding, activations, residual, biases, copies, rows of tables.
 *
 * Thread safety: hr_rowwise is a value, the functions are pure. */
#ifndef HEADROOM_ROWWISE_H
#define HEADROOM_ROWWISE_H

#include <headroom/dtype.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enumerator, name, number of inputs, formula. x and y are [rows, columns], row-major, packed. */
#define HR_ROWWISE_LIST(ROW)                                                                                          \
  ROW(HR_ROWWISE_SOFTMAX, "softmax", 1, "y = exp(x) / sum of exp(x) over the row")                                    \
  ROW(HR_ROWWISE_LAYER_NORM, "layer_norm", 3, "y = (x - mean) / sqrt(variance + 1e-5) weight + bias, [columns] each") \
  ROW(HR_ROWWISE_RMS_NORM, "rms_norm", 2, "y = x / sqrt(mean of squares + 1e-5) weight, [columns]")                   \
  ROW(HR_ROWWISE_ROTARY, "rotary", 2, "columns i and i + columns/2 rotated by an angle of a table [period, columns]") \
  ROW(HR_ROWWISE_GELU, "gelu", 1, "y = x (1 + erf(x / sqrt(2))) / 2")                                                 \
  ROW(HR_ROWWISE_SWIGLU, "swiglu", 2, "y = gate / (1 + exp(-gate)) up")                                               \
  ROW(HR_ROWWISE_RESIDUAL, "residual", 2, "y = x + z")                                                                \
  ROW(HR_ROWWISE_DROPOUT, "dropout", 1, "y = x / (1 - rate) where a random number is at least rate, 0 elsewhere")     \
  ROW(HR_ROWWISE_GELU_TANH, "gelu_tanh", 1, "y = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2")                    \
  ROW(HR_ROWWISE_RELU, "relu", 1, "y = max(x, 0)")                                                                    \
  ROW(HR_ROWWISE_RELU2, "relu2", 1, "y = max(x, 0)^2")                                                                \
  ROW(HR_ROWWISE_GEGLU_TANH, "geglu_tanh", 2, "y = gelu_tanh(gate) up")                                               \
  ROW(HR_ROWWISE_SCALE, "scale", 1, "y = x factor")                                                                   \
  ROW(HR_ROWWISE_COPY, "copy", 1, "y = x")                                                                            \
  ROW(HR_ROWWISE_BIAS, "bias", 2, "y = x + bias, [columns]")                                                          \
  ROW(HR_ROWWISE_GATHER, "gather", 2,                                                                                 \
      "row r is row i of a table [period, columns], i of [rows] in int32, the first input")

typedef enum hr_rowwise_operation {
#define HR_ROWWISE_ENUM(enumerator, name, inputs, sentence) enumerator,
  HR_ROWWISE_LIST(HR_ROWWISE_ENUM)
#undef HR_ROWWISE_ENUM
      HR_ROWWISE_COUNT
} hr_rowwise_operation;

/** One call. Arithmetic is in fp32; inputs and output have the same dtype. */
typedef struct hr_rowwise {
  size_t struct_size; /* sizeof(hr_rowwise), set by hr_rowwise_default() */
  hr_rowwise_operation operation;
  int64_t rows, columns;
  hr_dtype dtype;
  /* softmax: row r sees the first r % period + columns - period + 1 columns, the others become 0 (a causal mask over
   * `period` queries); 0: all columns. rotary, gather: rows of the table, at least 1 */
  int64_t period;
  int64_t group; /* rotary: row r uses row (r / group) % period of the table, which heads share; at least 1. The first
                     half of a row of the table are cosines, the second sines */
  double rate;   /* dropout: share of the elements that become x · 0; 0 … 1 without 1, see hr_rowwise_dropped() */
  uint64_t seed; /* dropout: the same seed drops the same elements, on every device, so that no mask is stored */
  int64_t alignment; /* as in hr_gemm */
  double epsilon;    /* norms: added to the mean of squares; 0: 1e-5 */
  double factor;     /* scale */
  /* copy, bias and rotary: elements from the beginning of `group` rows of x to that of the next group, whose rows are
   * side by side; 0: packed. y is packed. */
  int64_t x_stride;
  int64_t rotated;  /* rotary: the first columns of a row, which are rotated, and the columns of the table; the others
                       are copied. Even; 0: all */
  bool interleaved; /* rotary: columns 2i and 2i + 1 are rotated together, not i and i + rotated/2 */
} hr_rowwise;

/** Softmax of 1 × 1 in bf16. */
HR_API void hr_rowwise_init(hr_rowwise *rowwise, size_t size);
HR_DEFAULT(hr_rowwise)

/** HR_OK if sizes are positive, rotary rotates an even number of columns, rate is at least 0 and below 1, epsilon is
 *  not negative, only operations that may have a stride have one, which covers a group's columns, and all counts fit 63
 *  bits; otherwise HR_ERROR_INVALID or HR_ERROR_OVERFLOW with the field in `error`. */
HR_API hr_status hr_rowwise_check(const hr_rowwise *rows, hr_error *error);

/** Least memory traffic in bytes: every input and the output once. HR_ERROR_OVERFLOW if it does not fit. */
HR_API hr_status hr_rowwise_bytes(const hr_rowwise *rows, int64_t *bytes);

/** Dropout: of the 65536 values of an element's 16 random bits, those below this number drop it; the others are scaled
 *  by 65536 / (65536 − this number), so that the mean stays. `rate` rounded to such a number, 65535 at most; 0 for
 *  other operations.
 *
 *  The bits of element i = row · columns + column are those of Philox4x32-7 (Salmon et al. 2011, "Parallel random
 *  numbers: as easy as 1, 2, 3") with the key `seed` and the counter i / 8: 16 bits for each i % 8, lower halves of
 *  words first. */
HR_API int64_t hr_rowwise_dropped(const hr_rowwise *rows);

/** "softmax"; "unknown" outside the list. Static storage. */
HR_API const char *hr_rowwise_operation_name(hr_rowwise_operation operation);

/** Number of inputs, 1 to 3; 0 outside the list. */
HR_API int hr_rowwise_inputs(hr_rowwise_operation operation);

#ifdef __cplusplus
}
#endif
#endif
