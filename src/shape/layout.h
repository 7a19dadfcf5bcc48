/* Where the operands of attention lie. */
#ifndef HR_SHAPE_LAYOUT_H
#define HR_SHAPE_LAYOUT_H

#include <headroom/attention.h>

/** Strides are not negative, every operand's bytes fit 63 bits, and no two elements of O share a place. The sizes have
 *  been checked. HR_ERROR_INVALID, HR_ERROR_OVERFLOW. */
hr_status hr_attention_check_strides(const hr_attention *attention, hr_error *error);

#endif
