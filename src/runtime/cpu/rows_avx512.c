/* rows_body.h for AVX-512: F, BW, DQ, VL. */
#define ROWS_TABLE hr_rows_avx512
#include "runtime/cpu/rows_body.h" /* NOLINT(bugprone-suspicious-include) */
