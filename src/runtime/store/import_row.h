/* SPDX-License-Identifier: Apache-2.0 */
/* Importing rows from text: what the two formats share. */
#ifndef HR_RUNTIME_STORE_IMPORT_ROW_H
#define HR_RUNTIME_STORE_IMPORT_ROW_H

#include "runtime/store/database.h"

/** Most bytes of a line of the input, and of one CSV record: far more than a row of full texts. */
#define HR_RECORD_MAX ((size_t)1 << 20)

typedef struct hr_import {
  hr_store *store;
  FILE *in;
  const char *name; /* of the input, for messages */
  int64_t line;     /* of the input, from 1: the first line of the current record */
  bool continues;   /* the record continues on the next line */
  hr_store_change change;
  hr_error *error;
} hr_import;

/** Fails with "<input>: line 7: <message>", HR_ERROR_UNREADABLE. */
hr_status hr_import_fail(const hr_import *import, const char *format, ...) HR_PRINTF(2, 3);

/** Fails with HR_ERROR_OUT_OF_MEMORY and the input's name. */
hr_status hr_import_no_memory(const hr_import *import);

/** Fails with HR_ERROR_INTERRUPTED and the input's name. */
hr_status hr_import_stopped(const hr_import *import);

/** The next byte, or EOF. A signal that interrupts the read does not end it unless the caller wants to stop. */
int hr_import_byte(const hr_import *import);

/** Takes one line, which has no line end but may contain any byte; `context` is of the format. */
typedef hr_status (*hr_import_line_fn)(hr_import *import, void *context, const char *line, size_t length);

/** Passes every line of the input to `take`. */
hr_status hr_import_lines(hr_import *import, hr_import_line_fn take, void *context);

/** Adds a row of these values; HR_VALUE_NONE where the input has none. */
hr_status hr_import_row(hr_import *import, const hr_value values[HR_FIELDS]);

#endif
