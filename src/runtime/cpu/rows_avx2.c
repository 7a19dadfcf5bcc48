/* rows_body.h for AVX2, FMA and F16C. */
#define ROWS_TABLE hr_rows_avx2
#include "runtime/cpu/rows_body.h" /* NOLINT(bugprone-suspicious-include) */
