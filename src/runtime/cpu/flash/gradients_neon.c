/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of attention; registers as in flash_neon.c. */
#define VERSION hr_gradients_neon
#define PANEL 2
#define PAIR 1
#define WEIGHT_EXP2 simd_exp2_weight
#define REGISTER_ROWS 8
#define DEPTH_STEP 4
#include "runtime/cpu/flash/gradients_body.h"
