/* SPDX-License-Identifier: Apache-2.0 */
/* Finds an element of an array by its name in constant time. Each element begins with its name. */
#ifndef HR_FIGURE_NAME_INDEX_H
#define HR_FIGURE_NAME_INDEX_H

#include <stdbool.h>
#include <stddef.h>

/** A hash table with linear probing. Begins as zeros; free(slots) ends it. */
typedef struct hr_name_index {
  size_t *slots; /* positions in the array from 1; 0: free */
  size_t capacity, count;
} hr_name_index;

/** The elements that an index is of. */
typedef struct hr_named {
  const void *items;
  size_t size; /* of an element */
} hr_named;

/** The position of the first element of this name that was added; SIZE_MAX: none. */
size_t hr_name_index_find(const hr_name_index *index, hr_named named, const char *name);

/** Adds the element at `position`. False if memory ran out. */
bool hr_name_index_add(hr_name_index *index, hr_named named, size_t position);

#endif
