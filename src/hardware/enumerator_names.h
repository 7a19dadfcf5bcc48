/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the enumerators of headroom/hardware.h in device files, in enumerator order. */
#ifndef HR_HARDWARE_ENUMERATOR_NAMES_H
#define HR_HARDWARE_ENUMERATOR_NAMES_H

#include <headroom/hardware.h>

static const char *const hr_calibration_names[] = {"estimated", "datasheet", "published", "measured"};

static const char *const hr_ceiling_names[] = {"gemm", "exp", "read", "copy"};

static const char *const hr_interval_names[HR_INTERVAL_KIND_COUNT] = {
    "gemm",      "gemm_misaligned", "bmm",           "attention",  "decode", "latent",    "latent_prefill", "experts",
    "gemm_8bit", "bmm_misaligned",  "own_attention", "own_decode", "scan",   "collective"};

#define HR_CEILING_KIND_COUNT (sizeof hr_ceiling_names / sizeof *hr_ceiling_names)
#define HR_CALIBRATION_COUNT (sizeof hr_calibration_names / sizeof *hr_calibration_names)

#endif
