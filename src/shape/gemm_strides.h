/* The strides of a product as text. */
#ifndef HR_SHAPE_GEMM_STRIDES_H
#define HR_SHAPE_GEMM_STRIDES_H

#include <headroom/gemm.h>
#include <stddef.h>

/** Writes what is not packed, each with a space before it: " lda=4104 broadcast_b=1"; "" for a packed product. Products
 *  that lie in memory alike have the same text: a stride that is given as what 0 means is not written, nor one that
 *  nothing follows. */
void hr_gemm_format_strides(const hr_gemm *gemm, char *to, size_t size);

#endif
