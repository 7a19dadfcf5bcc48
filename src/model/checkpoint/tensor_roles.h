/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of tensor_roles.inc say which tensor of a checkpoint has the weight of a role, and in what form. Thread
 * safety: pure functions. */
#ifndef HR_MODEL_CHECKPOINT_TENSOR_ROLES_H
#define HR_MODEL_CHECKPOINT_TENSOR_ROLES_H

#include "model/checkpoint/weights.h"
#include "model/layers/weight_roles.h"

#include <headroom/model.h>

typedef enum hr_tensor_join {
  HR_JOIN_NONE,
  HR_JOIN_QKV,                 /* all rows of Q, then K, then V */
  HR_JOIN_GROUPED_QKV,         /* for each K head the query heads that read it, then K and V */
  HR_JOIN_CODEGEN_QKV,         /* four times a quarter of Q, of V and of K */
  HR_JOIN_GATE_UP,             /* all rows of the gate, then up */
  HR_JOIN_GATE_UP_INTERLEAVED, /* a row of the gate, a row of up, … */
} hr_tensor_join;

/** How a tensor holds the [outputs, inputs] of a role. */
typedef struct hr_tensor_form {
  hr_tensor_join join;
  bool transposed; /* [inputs, outputs] */
  float added;     /* to its elements */
} hr_tensor_form;

typedef struct hr_tensor_row {
  hr_weight_role role;
  hr_tensor_form form;
  const char *name; /* as in tensor_roles.inc */
  bool bias;        /* the name is that of the matrix */
} hr_tensor_row;

/** "q_bias". Static storage. */
const char *hr_role_name(hr_weight_role role);

#define HR_TENSOR_ROWS_MAX 4

/** The rows of a role in a family, in the order in which they are tried. Returns their number; 0 if the family's
 *  checkpoints do not have the role, or the family is unknown. */
size_t hr_tensor_rows(const char *family, hr_weight_role role, hr_tensor_row rows[HR_TENSOR_ROWS_MAX]);

#define HR_TENSOR_NAME_SIZE 256

/** Writes the name of the tensor of layer `layer` and expert or head `item`, truncated if it does not fit. */
void hr_write_tensor_name(const hr_tensor_row *row, const char *prefix, int64_t layer, int64_t item,
                          char name[HR_TENSOR_NAME_SIZE]);

/** Where a row of a role is in a tensor that joins several; `rows`: those of the role. */
int64_t hr_joined_row(hr_tensor_join join, hr_weight_role role, const hr_layer_group *group, int64_t rows, int64_t row);

/** The rows of the tensor that has the `rows` of the role. */
int64_t hr_joined_rows(hr_tensor_join join, const hr_layer_group *group, int64_t rows);

#endif
