/* SPDX-License-Identifier: Apache-2.0 */
/* The strides of a GEMM as text. */
#ifndef HR_SHAPE_GEMM_STRIDES_H
#define HR_SHAPE_GEMM_STRIDES_H

#include <headroom/gemm.h>
#include <stddef.h>

/** Writes the strides that are not packed, each after a space: " lda=4104 broadcast_b=1"; "" if all are. Equal memory
 *  layouts have equal texts: a stride that equals its default is omitted, and so is one that is never stepped over. */
void hr_gemm_format_strides(const hr_gemm *gemm, char *to, size_t size);

#endif
