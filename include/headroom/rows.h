/* Operations on rows: what a layer does beside its products. Thread safety: hr_rows is a value, the functions are
 * pure. */
#ifndef HEADROOM_ROWS_H
#define HEADROOM_ROWS_H

#include <headroom/dtype.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One row an operation: enumerator, name, number of inputs, what it is. x, y are [rows, columns], row-major, packed. */
#define HR_ROWS_LIST(ROW)                                                                                          \
  ROW(HR_ROWS_SOFTMAX, "softmax", 1, "y = exp(x) / sum of exp(x) over the row")                                    \
  ROW(HR_ROWS_LAYER_NORM, "layer_norm", 3, "y = (x - mean) / sqrt(variance + 1e-5) weight + bias, [columns] each") \
  ROW(HR_ROWS_RMS_NORM, "rms_norm", 2, "y = x / sqrt(mean of squares + 1e-5) weight, [columns]")                   \
  ROW(HR_ROWS_ROTARY, "rotary", 2, "columns i and i + columns/2 turned by an angle of a table [period, columns]")  \
  ROW(HR_ROWS_GELU, "gelu", 1, "y = x (1 + erf(x / sqrt(2))) / 2")                                                 \
  ROW(HR_ROWS_SWIGLU, "swiglu", 2, "y = gate / (1 + exp(-gate)) up")                                               \
  ROW(HR_ROWS_RESIDUAL, "residual", 2, "y = x + z")

typedef enum hr_rows_operation {
#define HR_ROWS_ENUM(enumerator, name, inputs, sentence) enumerator,
  HR_ROWS_LIST(HR_ROWS_ENUM)
#undef HR_ROWS_ENUM
      HR_ROWS_COUNT
} hr_rows_operation;

/** One call. Arithmetic is in fp32, inputs and the result are of one format. */
typedef struct hr_rows {
  size_t struct_size; /* sizeof(hr_rows), set by hr_rows_default() */
  hr_rows_operation operation;
  int64_t rows, columns;
  hr_dtype dtype;
  int64_t period; /* softmax: row r sees the first r % period + columns - period + 1 columns, the others are 0 (a causal
                     mask over `period` queries); 0: all. rotary: rows of the table, at least 1 */
  int64_t group;  /* rotary: row r is turned by row (r / group) % period of the table (heads share it); at least 1.
                     The first half of a row of the table holds cosines, the second sines */
} hr_rows;

/** A softmax of one row of one column in bf16. */
HR_API hr_rows hr_rows_default(void);

/** HR_OK when sizes are positive, rotary has an even number of columns and all counts fit 63 bits; HR_ERROR_INVALID or
 *  HR_ERROR_OVERFLOW with the field in `error`. */
HR_API hr_status hr_rows_check(const hr_rows *rows, hr_error *error);

/** Bytes that must move at least once: every input and the result. HR_ERROR_OVERFLOW if they do not fit. */
HR_API hr_status hr_rows_bytes(const hr_rows *rows, int64_t *bytes);

/** "softmax"; "unknown" outside the list. Static storage. */
HR_API const char *hr_rows_operation_name(hr_rows_operation operation);

/** How many inputs it has, 1 to 3; 0 outside the list. */
HR_API int hr_rows_inputs(hr_rows_operation operation);

#ifdef __cplusplus
}
#endif
#endif
