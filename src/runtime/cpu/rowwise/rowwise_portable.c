/* rows_body.h for any processor's four floats. */
#define ROWWISE_TABLE hr_rowwise_portable
#include "runtime/cpu/rowwise/rowwise_body.h" /* NOLINT(bugprone-suspicious-include) */
