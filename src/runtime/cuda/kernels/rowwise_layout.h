/* SPDX-License-Identifier: Apache-2.0 */
/* Constants that rowwise.c and the row-wise kernels share. C includes this header, and NVRTC compiles it into the
 * kernels. */
#ifndef HR_RUNTIME_CUDA_KERNELS_ROWWISE_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_ROWWISE_LAYOUT_H

enum {
  HR_ROWWISE_PACK_BYTES = 16, /* of one load or store */
  HR_ROWWISE_LINE_BYTES = 128 /* of a cache line */
};

/** HR_ALIGNMENT of a program. */
typedef enum hr_rowwise_alignment {
  HR_ROWS_ALIGNED, /* rows are whole packs at multiples of 16 bytes, in every tensor */
  HR_BASE_ALIGNED, /* x and the result begin at multiples of 16 bytes */
  HR_UNALIGNED     /* addresses are multiples of an element only */
} hr_rowwise_alignment;

/** What a run takes beside addresses; the members of hr_rowwise. */
typedef struct hr_rowwise_call {
  long long rows, columns, period, group;
  unsigned long long seed;
  unsigned dropped; /* dropout: of 65536 values of 16 random bits */
  float number;     /* norms: epsilon; scale, soft cap, clamp: factor; gradients of the loss: scale */
  long long x_stride, rotated;
  long long x_row, z_row, z_stride; /* rotary_join: all but z_row resolved */
  long long y_stride;
  int interleaved;
  unsigned long long row_count; /* elementwise.cu: where the number of rows that are computed is; 0: all */
} hr_rowwise_call;

/** Rows between two rows that a row group processes at a time, so that they have the same offset within a cache
 *  line. */
#define HR_ROWWISE_SPACING(alignment, element_bytes) \
  ((alignment) == HR_ROWS_ALIGNED ? 1 : HR_ROWWISE_LINE_BYTES / (element_bytes))

#endif
