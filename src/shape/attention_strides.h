/* SPDX-License-Identifier: Apache-2.0 */
/* Memory layout of attention's operands. */
#ifndef HR_SHAPE_ATTENTION_STRIDES_H
#define HR_SHAPE_ATTENTION_STRIDES_H

#include <headroom/attention.h>

/** Dimensions of one operand; with variable lengths those of one long sequence. */
typedef struct hr_attention_sizes {
  const char *name; /* "q" */
  int64_t batch, rows, heads, dim;
  hr_strides strides; /* as given, which may be all 0 */
} hr_attention_sizes;

hr_attention_sizes hr_attention_operand_sizes(const hr_attention *attention, hr_attention_operand which);

/** HR_OK if the strides of an operand, called `name` in messages, are not negative, its bytes fit 63 bits and, where it
 *  is written, no two of its elements overlap; otherwise HR_ERROR_INVALID or HR_ERROR_OVERFLOW. The sizes have been
 *  checked. */
hr_status hr_attention_check_operand(const hr_attention *attention, hr_attention_operand which, const char *name,
                                     bool written, hr_error *error);

/** HR_OK if strides are not negative, the bytes of every operand fit 63 bits and no two elements of O overlap;
 *  otherwise HR_ERROR_INVALID or HR_ERROR_OVERFLOW. The sizes have been checked. */
hr_status hr_attention_check_strides(const hr_attention *attention, hr_error *error);

#endif
