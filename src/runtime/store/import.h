/* Reading rows from text: what the two forms share. */
#ifndef HR_RUNTIME_STORE_IMPORT_H
#define HR_RUNTIME_STORE_IMPORT_H

#include "runtime/store/database.h"

/** A line of the input, and a quoted field of CSV, may have this many bytes: far more than a row of full texts. */
#define HR_RECORD_MAX ((size_t)1 << 20)

typedef struct hr_import {
  hr_store *store;
  FILE *in;
  const char *name; /* of the input, for messages */
  int64_t line;     /* where the record that is being read begins, from 1 */
  hr_store_change change;
  hr_error *error;
} hr_import;

/** "<input>: line 7: <message>", HR_ERROR_UNREADABLE. */
hr_status hr_import_fail(const hr_import *import, const char *format, ...) HR_PRINTF(2, 3);

/** Adds a row of these values, HR_VALUE_NONE where the input has none. */
hr_status hr_import_row(hr_import *import, const hr_value values[HR_FIELDS]);

/** Read the whole input in one form; its first byte has not been read yet. */
hr_status hr_import_csv(hr_import *import);
hr_status hr_import_json_lines(hr_import *import);

#endif
