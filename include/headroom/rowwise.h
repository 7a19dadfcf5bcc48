/* SPDX-License-Identifier: Apache-2.0 */
/* Row-wise operations: softmax, norms, rotary embedding, activations, residual, dropout, biases, copies, rows of
 * tables; gradients, the loss and the optimizer. Thread safety: hr_rowwise is a value, the functions are pure. */
#ifndef HEADROOM_ROWWISE_H
#define HEADROOM_ROWWISE_H

#include <headroom/dtype.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_ROWWISE_TERMS_MAX 64

/* Enumerator, name, number of inputs, formula. x and y are [rows, columns], row-major, packed. Dropout and residual are
 * their own gradients: of dy with the same seed, of the sum of two. The result of a residual may replace x.
 *
 * Inputs and outputs of the gradients and the optimizer, in order; all are [rows, columns] of the dtype but where it
 * says otherwise. Row weights and biases and their gradients are [columns]. fp8 is refused for them.
 *
 *   softmax_backward        dy, y                           dx; with `period` 0 in columns that the row does not see
 *   layer_norm_backward     dy, x, weight                   dx, dweight, dbias
 *   rms_norm_backward       dy, x, weight                   dx, dweight
 *   rotary_backward         dy, the table                   dx
 *   gelu_backward           dy, x                           dx
 *   swiglu_backward         dy, gate, up                    dgate, dup
 *   bias_backward           dy                              dbias
 *   gelu_tanh_, relu_,
 *   relu2_, softcap_backward  dy, x                         dx
 *   geglu_, geglu_tanh_backward  dy, gate, up               dgate, dup
 *   gather_backward         int32 [rows], dy, the table     the table [period, columns], which may replace its input
 *   gather_sum              int32 [rows, group], dy [period, columns]   dx
 *   combine_backward        int32 [rows], dy [period, columns], x, w fp32 [rows]   dx; dw fp32 [rows]
 *   gate_backward           dy, x, gate [rows]              dx; dgate [rows]
 *   cross_entropy           logits, targets int32 [rows]    loss fp32 [rows]
 *   cross_entropy_backward  the same                        dlogits, which may replace the logits; loss
 *   adamw                   gradient, and in fp32 weight,   weight, mean and variance in fp32, each of which may
 *                           mean and variance               replace its input; the weight in a dtype below 32 bits
 *
 * A residual and the norm of its sum in one operation move each element 4 times, apart they move it 5 times:
 *
 *   residual_layer_norm     x, z, weight, bias              y; the sum, which may replace x
 *   residual_rms_norm       x, z, weight                    y; the sum, which may replace x
 *
 * Sums over rows are added in an order that the problem and the device determine: the same bits in each run. NaN and
 * infinities propagate as in the formulas. */
#define HR_ROWWISE_LIST(ROW)                                                                                           \
  ROW(HR_ROWWISE_SOFTMAX, "softmax", 1, "y = exp(x) / sum of exp(x) over the row")                                     \
  ROW(HR_ROWWISE_LAYER_NORM, "layer_norm", 3, "y = (x - mean) / sqrt(variance + epsilon) weight + bias, [columns]")    \
  ROW(HR_ROWWISE_RMS_NORM, "rms_norm", 2, "y = x / sqrt(mean of squares + epsilon) weight, [columns]")                 \
  ROW(HR_ROWWISE_ROTARY, "rotary", 2, "columns i and i + rotated/2 rotated by an angle of a table [period, rotated]")  \
  ROW(HR_ROWWISE_GELU, "gelu", 1, "y = x (1 + erf(x / sqrt(2))) / 2")                                                  \
  ROW(HR_ROWWISE_SWIGLU, "swiglu", 2, "y = gate / (1 + exp(-gate)) up")                                                \
  ROW(HR_ROWWISE_RESIDUAL, "residual", 2, "y = x + z")                                                                 \
  ROW(HR_ROWWISE_DROPOUT, "dropout", 1, "y = x / (1 - rate) where a random number is at least rate, 0 elsewhere")      \
  ROW(HR_ROWWISE_SOFTMAX_BACKWARD, "softmax_backward", 2, "dx = y (dy - sum of y dy over the row)")                    \
  ROW(HR_ROWWISE_LAYER_NORM_BACKWARD, "layer_norm_backward", 3,                                                        \
      "dx = s (g - mean of g - h mean of g h), g = dy weight, h = (x - mean) s; dweight, dbias = sums of dy h, dy")    \
  ROW(HR_ROWWISE_RMS_NORM_BACKWARD, "rms_norm_backward", 3,                                                            \
      "dx = s (g - h mean of g h), g = dy weight, h = x s; dweight = sum of dy h over rows")                           \
  ROW(HR_ROWWISE_ROTARY_BACKWARD, "rotary_backward", 2, "columns rotated by the opposite angle")                       \
  ROW(HR_ROWWISE_GELU_BACKWARD, "gelu_backward", 2,                                                                    \
      "dx = dy (P(x) + x exp(-x x / 2) / sqrt(2 pi)), P(x) = gelu(x) / x")                                             \
  ROW(HR_ROWWISE_SWIGLU_BACKWARD, "swiglu_backward", 3,                                                                \
      "dgate = dy up s (1 + gate (1 - s)), dup = dy gate s, s = 1 / (1 + exp(-gate))")                                 \
  ROW(HR_ROWWISE_BIAS_BACKWARD, "bias_backward", 1, "dbias = sum of dy over rows")                                     \
  ROW(HR_ROWWISE_CROSS_ENTROPY, "cross_entropy", 2, "loss = log of sum of exp(x) - x[target], 0 for a target outside") \
  ROW(HR_ROWWISE_CROSS_ENTROPY_BACKWARD, "cross_entropy_backward", 2,                                                  \
      "dx = scale (softmax(x) - 1 at the target), 0 for a target outside the row; loss as cross_entropy")              \
  ROW(HR_ROWWISE_ADAMW, "adamw", 4, "weight = (1 - rate decay) weight - rate mean / (sqrt(variance) + epsilon)")       \
  ROW(HR_ROWWISE_RESIDUAL_LAYER_NORM, "residual_layer_norm", 4, "y = layer_norm(x + z) before the sum is rounded")     \
  ROW(HR_ROWWISE_RESIDUAL_RMS_NORM, "residual_rms_norm", 3, "y = rms_norm(x + z) before the sum is rounded")           \
  ROW(HR_ROWWISE_GELU_TANH, "gelu_tanh", 1, "y = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2")                     \
  ROW(HR_ROWWISE_RELU, "relu", 1, "y = max(x, 0)")                                                                     \
  ROW(HR_ROWWISE_RELU2, "relu2", 1, "y = max(x, 0)^2")                                                                 \
  ROW(HR_ROWWISE_GEGLU_TANH, "geglu_tanh", 2, "y = gelu_tanh(gate) up")                                                \
  ROW(HR_ROWWISE_SCALE, "scale", 1, "y = x factor")                                                                    \
  ROW(HR_ROWWISE_COPY, "copy", 1, "y = x")                                                                             \
  ROW(HR_ROWWISE_BIAS, "bias", 2, "y = x + bias, [columns]")                                                           \
  ROW(HR_ROWWISE_GATHER, "gather", 2,                                                                                  \
      "row r is row i of a table [period, columns], i of [rows] in int32, the first input; 0 for i < 0")               \
  ROW(HR_ROWWISE_SOFTCAP, "softcap", 1, "y = factor tanh(x / factor)")                                                 \
  ROW(HR_ROWWISE_WEIGHT, "weight", 2, "y = x weight, [columns]")                                                       \
  ROW(HR_ROWWISE_GATE, "gate", 2, "y = x / (1 + exp(-gate)), [rows]")                                                  \
  ROW(HR_ROWWISE_SINK, "sink", 3,                                                                                      \
      "y = x / (1 + exp(sink - lse)), heads of attention with its lse, fp32 [rows], and sinks, fp32 [group]")          \
  ROW(HR_ROWWISE_SWIGLU_CLAMPED, "swiglu_clamped", 2,                                                                  \
      "y = g / (1 + exp(-1.702 g)) (u + 1), g = min(gate, factor), u = up within factor")                              \
  ROW(HR_ROWWISE_COMBINE, "combine", 3,                                                                                \
      "row r is the sum of w times row i >= 0 of a table [period, columns], i in int32, w in fp32 of [rows, group]")   \
  ROW(HR_ROWWISE_ROTARY_JOIN, "rotary_join", 3,                                                                        \
      "columns of x before `rotated` of z, which are rotated as rotary does; the table is the third input")            \
  ROW(HR_ROWWISE_GEGLU, "geglu", 2, "y = gelu(gate) up")                                                               \
  ROW(HR_ROWWISE_GELU_TANH_BACKWARD, "gelu_tanh_backward", 2,                                                          \
      "dx = dy (s + 2 x s (1 - s) u'), s = gelu_tanh(x) / x, u' = sqrt(2/pi) (1 + 0.134145 x^2)")                      \
  ROW(HR_ROWWISE_RELU_BACKWARD, "relu_backward", 2, "dx = dy, 0 for x <= 0")                                           \
  ROW(HR_ROWWISE_RELU2_BACKWARD, "relu2_backward", 2, "dx = 2 dy x, 0 for x <= 0")                                     \
  ROW(HR_ROWWISE_SOFTCAP_BACKWARD, "softcap_backward", 2, "dx = dy (1 - tanh(x / factor)^2)")                          \
  ROW(HR_ROWWISE_GEGLU_BACKWARD, "geglu_backward", 3, "dgate = up gelu_backward(dy, gate), dup = dy gelu(gate)")       \
  ROW(HR_ROWWISE_GEGLU_TANH_BACKWARD, "geglu_tanh_backward", 3,                                                        \
      "dgate = up gelu_tanh_backward(dy, gate), dup = dy gelu_tanh(gate)")                                             \
  ROW(HR_ROWWISE_GATHER_BACKWARD, "gather_backward", 3,                                                                \
      "row p of the table gets the sum of the rows of dy whose number, of [rows] in int32, is p")                      \
  ROW(HR_ROWWISE_GATHER_SUM, "gather_sum", 2,                                                                          \
      "row r is the sum of rows i >= 0 of a table [period, columns], i of [rows, group] in int32")                     \
  ROW(HR_ROWWISE_COMBINE_BACKWARD, "combine_backward", 4,                                                              \
      "dx of row r is w times row i of dy [period, columns], i of [rows] in int32; dw = sum of x dy over the row")     \
  ROW(HR_ROWWISE_GATE_BACKWARD, "gate_backward", 3,                                                                    \
      "dx = dy s, dgate = s (1 - s) sum of x dy over the row, s = 1 / (1 + exp(-gate))")

typedef enum hr_rowwise_operation {
#define HR_ROWWISE_ENUM(enumerator, name, inputs, sentence) enumerator,
  HR_ROWWISE_LIST(HR_ROWWISE_ENUM)
#undef HR_ROWWISE_ENUM
      HR_ROWWISE_COUNT
} hr_rowwise_operation;

/** One call. Arithmetic is in fp32; inputs and outputs have the same dtype, but where the list says otherwise. */
typedef struct hr_rowwise {
  size_t struct_size; /* sizeof(hr_rowwise), set by hr_rowwise_default() */
  hr_rowwise_operation operation;
  int64_t rows, columns;
  hr_dtype dtype;
  /* softmax: row r sees the first r % period + columns - period + 1 columns, the others become 0 (a causal mask over
   * `period` queries); 0: all columns. rotary, gather, combine, their gradients: rows of the table, at least 1. sink:
   * queries of a sequence */
  int64_t period;
  int64_t group; /* rotary: row r uses row (r / group) % period of the table, which heads share; at least 1. The first
                     half of a row of the table are cosines, the second sines. sink: heads; row r is head r % group of
                     query r / group % period, whose lse is where attention writes it, [batch, group, period].
                     combine, gather_sum: rows of the table in each sum, at most HR_ROWWISE_TERMS_MAX */
  double rate;   /* dropout: share of the elements that become x · 0; 0 … 1 without 1, see hr_rowwise_dropped() */
  uint64_t seed; /* dropout: the same seed drops the same elements, on every device, so that no mask is stored */
  int64_t alignment; /* as in hr_gemm */
  double scale;      /* cross_entropy_backward: of the gradient, 1 / rows for that of the mean loss; 0 as 1 */
  /* adamw (Loshchilov & Hutter 2019, arXiv 1711.05101): the mean and the variance are divided by 1 − beta^step before
     their use. Gradients are first scaled by max_norm / (norm + 1e-6) if that is below 1, where the norm is that of the
     whole tensor, as torch.nn.utils.clip_grad_norm_ does; then a run reads them twice. max_norm 0: not. epsilon: 0 as
     1e-8; of norms and their gradients: added to the mean of squares, 0 as 1e-5 */
  double learning_rate, beta1, beta2, epsilon, weight_decay, max_norm;
  int64_t step;  /* adamw: from 1; 0 as 1 */
  double factor; /* scale; softcap and swiglu_clamped: 0 as 1. gather_backward: 1 adds to what the table has, 0 to
                    zeros, and the input is not read then */
  /* copy, bias, rotary and rotary_join: elements from the beginning of `group` rows of x to that of the next group,
   * whose rows are side by side; 0: packed. y is packed. */
  int64_t x_stride;
  int64_t rotated;  /* rotary: the first columns of a row, which are rotated, and the columns of the table; the others
                       are copied. Even; 0: all */
  bool interleaved; /* rotary: columns 2i and 2i + 1 are rotated together, not i and i + rotated/2 */
  /* rotary_join, the last columns − rotated … columns of y: x has the columns before. From one row of x to the next in
   * its group; 0: side by side. The same of z, and from one group of z to the next; z_row 0: the rows of a group share
   * one of z */
  int64_t x_row, z_row, z_stride;
  int64_t y_stride; /* copy and rotary: as x_stride, of the result, whose gaps are not written; 0: packed */
} hr_rowwise;

/** Softmax of 1 × 1 in bf16. */
HR_API void hr_rowwise_init(hr_rowwise *rowwise, size_t size);
HR_DEFAULT(hr_rowwise)

/** HR_OK if sizes are positive, rotary rotates an even number of columns, rate and betas are at least 0 and below 1,
 *  epsilon, max_norm and step at least 0, other members finite, only operations that may have a stride have one, which
 *  covers a group's columns, and all counts fit 63 bits; otherwise HR_ERROR_INVALID or HR_ERROR_OVERFLOW with the field
 *  in `error`. */
HR_API hr_status hr_rowwise_check(const hr_rowwise *rows, hr_error *error);

/** Least memory traffic in bytes: every input and output once, gradients that are clipped twice. HR_ERROR_OVERFLOW if
 *  it does not fit. */
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

/** Number of inputs, 1 to 4; 0 outside the list. */
HR_API int hr_rowwise_inputs(hr_rowwise_operation operation);

#ifdef __cplusplus
}
#endif
#endif
