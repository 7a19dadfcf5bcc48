/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of attention; registers as in flash_avx512_bf16.c. */
#define VERSION hr_gradients_avx512_bf16
#define PANEL 4
#define PAIR 2
#define WEIGHT_EXP2 simd_exp2_weight_for_bf16
#define REGISTER_ROWS 6
#include "runtime/cpu/flash/gradients_body.h"
