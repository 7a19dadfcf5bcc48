/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a decode step as instructions of kernels/persistent.cu. */
#ifndef HR_RUNTIME_CUDA_PERSISTENT_INSTRUCTIONS_H
#define HR_RUNTIME_CUDA_PERSISTENT_INSTRUCTIONS_H

#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/driver/tensor_boxes.h"
#include "runtime/cuda/persistent/parts.h"

#define HR_PART_MAPS_BYTES (2 * sizeof(cu_tensor_map))
#define HR_PART_SOURCES 3 /* at most, of a part */
#define HR_NO_PART SIZE_MAX

/** The parts, and where they post: a set has the results of all but the last one. */
typedef struct hr_instruction_list {
  const hr_cuda *cuda;
  const hr_persistent_part *parts;
  size_t count;
  int64_t blocks;
  uint64_t maps, posted, partial; /* addresses */
  size_t partial_bytes;           /* of one of two places, which parts with attention take in turn */
  hr_persistent_instruction *to, *ordered;
  size_t *positions;                  /* of parts in `ordered`; HR_NO_PART: not yet */
  size_t (*sources)[HR_PART_SOURCES]; /* parts that a part reads from, HR_NO_PART: no more */
  char *maps_to; /* HR_PART_MAPS_BYTES a part: tensor maps of the caches of K and V, where it attends */
} hr_instruction_list;

/** Where a part posts, or behind the last one where all have. */
uint64_t hr_posted_by(const hr_instruction_list *list, size_t part);

/** Writes list->to and the tensor maps. HR_ERROR_UNSUPPORTED for parts that read what is not all of one result, or
 *  experts without their router. */
hr_status hr_write_instructions(const hr_instruction_list *list, hr_error *error);

/** Writes list->ordered, in which parts stand that wait for nothing before those that wait. */
void hr_order_instructions(const hr_instruction_list *list);

#endif
