/* SPDX-License-Identifier: Apache-2.0 */
/* The first steps of attention with scores in memory: Q and K packed head by head, and S = Q Kᵀ by cuBLASLt, block by
 * block, in fp32, unscaled. Masked scores are computed, too. */
#ifndef HR_RUNTIME_CUDA_ATTENTION_SCORES_H
#define HR_RUNTIME_CUDA_ATTENTION_SCORES_H

#include "runtime/cuda/attention/attention.h"
#include "runtime/cuda/gemm/batched.h"

#define HR_CUDA_SCORES_PADDING 16 /* rows of packed operands and of scores are multiples of it: GEMMs prefer 32 bytes */

/** How scores are divided into blocks [head][row][pitch], and the GEMM S = Q Kᵀ of one block. All blocks have one size;
 *  the last ones begin earlier instead, so that some scores are computed twice. */
typedef struct hr_cuda_scores {
  const hr_cuda *cuda;
  hr_attention a;
  hr_attention_call call;
  int64_t heads, rows; /* of a block; fewer rows than a head has only if heads is 1 */
  int64_t qk, pitch;
  size_t q, k, scores, end; /* offsets in the workspace, in bytes */
  hr_batched gemm;
  cu_function pack;
} hr_cuda_scores;

/** hr_kernel_functions.supports. */
bool hr_cuda_scores_supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size);

/** One block with all scores of a problem; the caller may lower heads and rows before hr_cuda_scores_prepare(). */
hr_cuda_scores hr_cuda_scores_describe(const hr_cuda *cuda, const hr_attention *attention);

/** The largest number of heads up to `heads` that a block may have: blocks do not share K heads. */
int64_t hr_cuda_scores_heads(const hr_attention *attention, int64_t heads);

/** Lays out the workspace and prepares the GEMM. Free it also after an error. */
hr_status hr_cuda_scores_prepare(hr_cuda_scores *scores, hr_error *error);
void hr_cuda_scores_free(hr_cuda_scores *scores);

/** Bytes of an array, rounded up so that the next array is aligned for GEMMs. */
size_t hr_cuda_scores_round(int64_t elements, size_t element_bytes);

/** The aligned start of the workspace; a plan asks for HR_CUDA_SCORES_ALIGNMENT bytes more than it uses. */
#define HR_CUDA_SCORES_ALIGNMENT 256
cu_address hr_cuda_scores_base(const void *workspace);

/** Copies `heads` heads of each sequence of an operand to [sequence][head][row][width]. In the device's context, as the
 *  functions that follow. */
hr_status hr_cuda_scores_pack(const hr_cuda_scores *scores, const hr_cuda_queue *queue, const void *from, hr_strides at,
                              int64_t heads, int64_t length, int64_t dim, int64_t width, cu_address to,
                              hr_error *error);

/** Thread blocks for a copy of `elements`. */
int64_t hr_cuda_scores_copy_blocks(int64_t elements);

/** Packs Q and K. */
hr_status hr_cuda_scores_pack_qk(const hr_cuda_scores *s, const hr_cuda_queue *queue, const hr_attention_arguments *x,
                                 cu_address base, hr_error *error);

/** The scores of the block that begins with a head, counted over all sequences, and a row. `gemm_workspace`:
 *  cuBLASLt's. */
hr_status hr_cuda_scores_gemm(const hr_cuda_scores *scores, const hr_cuda_queue *queue, cu_address base, int64_t head,
                              int64_t row, cu_address gemm_workspace, hr_error *error);

#endif
