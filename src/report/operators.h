/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of a step in reports. */
#ifndef HR_REPORT_OPERATORS_H
#define HR_REPORT_OPERATORS_H

#include "report/table.h"

/** The operators of a step. `step` may be NULL: then there are no predictions. `brief` leaves out operators that only
 *  move memory. The arguments must outlive the table. */
hr_table *hr_operator_table(const hr_operators *operators, const hr_step *step, const hr_model *model,
                            const hr_workload *workload, bool brief);

/** The terms of the operators' times, of one execution; without those that only move memory. */
hr_table *hr_term_table(const hr_step *step);

/** What of a step has FLOPs: "GEMMs and attention", "GEMMs, attention and scans", … Static storage. */
const char *hr_words_of_work(const hr_operators *operators);

/** What a brief table of operators shows: "GEMMs and attention", "GEMMs, attention and communication", … Static
 *  storage. */
const char *hr_words_of_operators(const hr_operators *operators);

/** "8192×7680×2560 ×128" (the batch only if it is not 1); of an operator without a GEMM its bytes. */
void hr_write_operator_size(char *to, size_t size, const hr_operator *op);

/** A GEMM or a fused attention as the store names it ("gemm m=…"); empty for other operators. */
void hr_write_operator_problem(char *to, size_t size, const hr_operator *op);

/** Values for columns; the member is an hr_operator. m, n, k and batch of a fused attention are queries, keys, head
 *  size of Q and K, and heads of all sequences; operators without a GEMM have none. */
void hr_operator_name_cell(const void *op, hr_cell *cell);
void hr_operator_size_cell(const void *op, hr_cell *cell);
void hr_operator_problem_cell(const void *op, hr_cell *cell);
void hr_operator_m_cell(const void *member, hr_cell *cell);
void hr_operator_n_cell(const void *member, hr_cell *cell);
void hr_operator_k_cell(const void *member, hr_cell *cell);
void hr_operator_batch_cell(const void *member, hr_cell *cell);

#endif
