/* SPDX-License-Identifier: Apache-2.0 */
/* Published points of the figures, from data/results/published. */
#ifndef HR_PLOT_PUBLISHED_H
#define HR_PLOT_PUBLISHED_H

#include <headroom/status.h>
#include <stdbool.h>
#include <stddef.h>

#define HR_PUBLISHED_COLUMNS_MAX 48

/** One row of a file: the text of every column of its head. Valid during the call. */
typedef struct hr_published_row {
  const char *const *names;
  const char *const *values;
  size_t count;
} hr_published_row;

typedef void (*hr_published_fn)(void *context, const hr_published_row *row);

/** Calls `each` for the rows of a file of data/results/published ("codesign-figures"). HR_ERROR_NOT_FOUND: there is no
 *  such file; HR_ERROR_UNREADABLE: no CSV; HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_published_read(const char *file, hr_published_fn each, void *context, hr_error *error);

/** The same of a text with comments at its beginning; messages call it `name`. */
hr_status hr_published_parse(const char *text, const char *name, hr_published_fn each, void *context, hr_error *error);

/** The text in a column; "" if there is none. */
const char *hr_published_text(const hr_published_row *row, const char *column);

/** The number in a column; NAN if there is none. */
double hr_published_number(const hr_published_row *row, const char *column);

/** How exact a row is, for a legend: "published" for printed numbers; "read off" or "read off, doubtful" for those of a
 *  picture, and *read_off (may be NULL) is true then. */
const char *hr_published_accuracy(const hr_published_row *row, bool *read_off);

#endif
