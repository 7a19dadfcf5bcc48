/* rows_body.h for any processor's four floats. */
#define ROWS_TABLE hr_rows_portable
#include "runtime/cpu/rows_body.h" /* NOLINT(bugprone-suspicious-include) */
