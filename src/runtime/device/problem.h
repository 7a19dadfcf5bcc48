/* SPDX-License-Identifier: Apache-2.0 */
/* One problem of any operation, and its operands. */
#ifndef HR_RUNTIME_DEVICE_PROBLEM_H
#define HR_RUNTIME_DEVICE_PROBLEM_H

#include <headroom/attention.h>
#include <headroom/decode.h>
#include <headroom/gemm.h>
#include <headroom/rowwise.h>

typedef enum hr_operation {
  HR_OPERATION_GEMM,
  HR_OPERATION_ATTENTION,
  HR_OPERATION_ROWWISE,
  HR_OPERATION_DECODE,
  HR_OPERATION_COUNT
} hr_operation;

/** "gemm", "attention", "rowwise", "decode", as in hr_kernel_info.operation; "unknown" outside the list. */
const char *hr_operation_name(hr_operation operation);

/** `operation` says which of the last four members is valid. */
typedef struct hr_problem {
  hr_operation operation;
  hr_dtype dtype;
  hr_gemm gemm;
  hr_attention attention;
  hr_rowwise rows;
  hr_decode decode;
} hr_problem;

hr_problem hr_gemm_problem(const hr_gemm *gemm);
hr_problem hr_attention_problem(const hr_attention *attention);
hr_problem hr_rowwise_problem(const hr_rowwise *rows);
hr_problem hr_decode_problem(const hr_decode *decode);

/** The format of the output. */
hr_dtype hr_problem_output_dtype(const hr_problem *problem);

#define HR_OPERANDS_MAX 8

/** What an operand holds. */
typedef enum hr_operand_kind {
  HR_OPERAND_NUMBERS,  /* of the problem's dtype */
  HR_OPERAND_SLOPES,   /* of ALiBi, fp32 */
  HR_OPERAND_SINKS,    /* fp32 */
  HR_OPERAND_PAGES,    /* a page table, int32 */
  HR_OPERAND_CACHE,    /* elements of a quantized cache */
  HR_OPERAND_Q_SCALES, /* fp32, as the next two */
  HR_OPERAND_K_SCALES,
  HR_OPERAND_V_SCALES
} hr_operand_kind;

/** Inputs first, output last: A, B, C of a GEMM; Q, K, V, slopes (with ALiBi), scales of Q, K and V (if set), O of
 *  attention; inputs and output of a row-wise operation; Q, K, V (not of latent attention), scales of K and of V (of a
 *  quantized cache), page table (where a sequence has several pages), sinks (if set), O of decode. `bytes` is from the
 *  first element to the end of the last, gaps between strides included. The problem has been checked, so that the
 *  sizes fit. Offsets of variable lengths and the lengths of a decode call are not among the operands. */
typedef struct hr_operands {
  size_t count;
  size_t bytes[HR_OPERANDS_MAX];
  hr_operand_kind kinds[HR_OPERANDS_MAX];
} hr_operands;
hr_operands hr_problem_operands(const hr_problem *problem);

#endif
