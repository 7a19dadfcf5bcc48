/* SPDX-License-Identifier: Apache-2.0 */
/* A CSV table in memory, read record by record. */
#ifndef HR_CSV_H
#define HR_CSV_H

#include <headroom/status.h>
#include <stddef.h>
#include <stdint.h>

#define HR_CSV_COLUMNS_MAX 128

/** A record. Fields end with NUL and live as long as the call that gets them. */
typedef struct hr_csv_record {
  const char *name; /* of the input */
  int64_t line;     /* on which the record begins, from 1 */
  size_t count;
  const char *const *heads;
  const char *const *fields; /* as many as heads */
  hr_error *error;
} hr_csv_record;

typedef hr_status (*hr_csv_record_fn)(void *context, const hr_csv_record *record);

/** Calls `take` for each record behind the head until it fails. Lines that begin with # and empty ones are skipped.
 *  HR_ERROR_INVALID, with the line, for a head with too many or repeated columns and a record with another number of
 *  fields; HR_ERROR_UNREADABLE for an input without a head; HR_ERROR_OUT_OF_MEMORY; errors of `take`. */
hr_status hr_csv_read(const char *text, size_t length, const char *name, hr_csv_record_fn take, void *context,
                      hr_error *error);

/** The field of a column; NULL if there is no such column or it is empty. */
const char *hr_csv_field(const hr_csv_record *record, const char *column);

/** HR_ERROR_INVALID: the field is missing, or not what is expected. */
hr_status hr_csv_fail(const hr_csv_record *record, const char *column, const char *expected);

/** An integer from `least` on; a missing one is `fallback`, which below `least` means that it is needed. */
hr_status hr_csv_integer(const hr_csv_record *record, const char *column, int64_t least, int64_t fallback,
                         int64_t *value);

/** A finite number above 0. */
hr_status hr_csv_positive(const hr_csv_record *record, const char *column, double *value);

#endif
