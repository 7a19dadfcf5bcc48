/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of attention; registers as in flash_portable.c. */
#define VERSION hr_gradients_portable
#define PANEL 2
#define PAIR 1
#define WEIGHT_EXP2 simd_exp2_weight
#define REGISTER_ROWS 4
#include "runtime/cpu/flash/gradients_body.h"
