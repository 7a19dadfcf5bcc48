/* What attention with its scores in memory begins with: Q and K one head after the other, and S = Q Kᵀ block by block,
 * in fp32, unscaled. Masked scores are computed, too. */
#ifndef HR_RUNTIME_CUDA_ATTENTION_SCORES_H
#define HR_RUNTIME_CUDA_ATTENTION_SCORES_H

#include "runtime/cuda/attention/attention.h"
#include "runtime/cuda/gemm/batched.h"

#define HR_CUDA_SCORES_STEP \
  16 /* elements that rows of copies and of scores are a multiple of: products like 32 bytes */

/** How scores are cut into blocks, and S = Q Kᵀ for one of them: [head][row][pitch]. Blocks are as large as each other;
 *  the last ones begin earlier instead, so that some scores are computed twice. */
typedef struct hr_cuda_scores {
  const hr_cuda *cuda;
  hr_attention a;
  hr_cuda_attention call;
  int64_t heads, rows; /* of a block; fewer rows than a head has only where heads is 1 */
  int64_t qk, pitch;
  size_t q, k, scores, end; /* parts of the workspace, in bytes from its beginning */
  hr_batched product;
  cu_function pack;
} hr_cuda_scores;

/** hr_kernel_functions.supports. */
bool hr_cuda_scores_supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size);

/** The problem of a plan as one block of all scores; heads and rows may be lowered until hr_cuda_scores_prepare(). */
hr_cuda_scores hr_cuda_scores_describe(const hr_cuda *cuda, const hr_attention *attention);

/** `heads` or the next number below it that a block may have: K heads are not shared between blocks. */
int64_t hr_cuda_scores_heads(const hr_attention *attention, int64_t heads);

/** Lays out the workspace and finds the product. Free in any case. */
hr_status hr_cuda_scores_prepare(hr_cuda_scores *scores, hr_error *error);
void hr_cuda_scores_free(hr_cuda_scores *scores);

/** `bytes`, rounded up so that what follows is aligned for products. */
size_t hr_cuda_scores_round(int64_t elements, size_t element_bytes);

/** The workspace's beginning, aligned; a plan asks for HR_CUDA_SCORES_ALIGNMENT bytes more than it uses. */
#define HR_CUDA_SCORES_ALIGNMENT 256
cu_address hr_cuda_scores_base(const void *workspace);

/** Launches of `threads` threads a block; in the device's context, as all that follows. */
hr_status hr_cuda_scores_launch(const hr_cuda *cuda, cu_function function, int64_t blocks, unsigned threads,
                                void **parameters, hr_error *error);

/** Copies `heads` heads of each sequence of an operand to [sequence][head][row][width]. */
hr_status hr_cuda_scores_pack(const hr_cuda_scores *scores, const void *from, hr_strides at, int64_t heads,
                              int64_t length, int64_t dim, int64_t width, cu_address to, hr_error *error);

/** Blocks for a copy of so many elements. */
int64_t hr_cuda_scores_copy_blocks(int64_t elements);

/** Packs Q and K. */
hr_status hr_cuda_scores_begin(const hr_cuda_scores *scores, const hr_attention_arguments *arguments, cu_address base,
                               hr_error *error);

/** The scores of the block that begins with a head, counted over all sequences, and a row. `products`: the library's
 *  own workspace. */
hr_status hr_cuda_scores_multiply(const hr_cuda_scores *scores, cu_address base, int64_t head, int64_t row,
                                  cu_address products, hr_error *error);

#endif
