/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks have parts of equal size: the first rows or columns are rank 0's. Where all parts together are more than the
 * whole, as of K heads that are fewer than ranks, neighbours have the same one. */
#include "weights/weights.h"

#include "base/checked.h"

#include <string.h>

static int64_t first_of(int64_t whole, int64_t part, int64_t rank, int64_t ranks)
{
  const int64_t parts = part > 0 ? hr_ceil_div(whole, part) : 1;
  return rank / hr_max64(1, ranks / parts) * part;
}

/* A matrix of which each rank has columns makes a part of a sum. */
static bool is_added_once(const hr_weight_shapes *parts, const hr_weight_shapes *wholes, int role)
{
  return hr_weight_is_bias(role) && parts->of[role - 1].columns < wholes->of[role - 1].columns;
}

hr_weight_slice hr_weight_slice_of(const hr_placed_weights *w, const hr_weight_block *block, size_t index)
{
  const int role = block->roles[index];
  const hr_weight_shape *part = &block->shapes[index];
  const hr_layer_group *group = block->group ? &w->whole->groups[block->group - w->model->groups] : NULL;
  hr_weight_shapes parts, wholes;
  hr_list_weights(w->model, block->group, &parts);
  hr_list_weights(w->whole, group, &wholes);
  const hr_weight_shape *whole = &wholes.of[role];
  return (hr_weight_slice){.group = group,
                           .whole = *whole,
                           .first_matrix = first_of(whole->count, part->count, w->rank, w->ranks),
                           .first_row = first_of(whole->rows, part->rows, w->rank, w->ranks),
                           .first_column = first_of(whole->columns, part->columns, w->rank, w->ranks),
                           .zeros = w->rank > 0 && is_added_once(&parts, &wholes, role)};
}
