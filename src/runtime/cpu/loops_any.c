/* loops_body.h for any processor's four floats. */
#define LOOP(name) hr_##name##_any
#include "runtime/cpu/loops_body.h" /* NOLINT(bugprone-suspicious-include) */
