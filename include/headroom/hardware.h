/* SPDX-License-Identifier: Apache-2.0 */
/* A device as numbers, the input of predictions, from a data file or from a probe.
 *
 * Thread safety: an hr_hardware may be read by several threads as long as none fills or changes it; the functions are
 * pure (no device, no file). */
#ifndef HEADROOM_HARDWARE_H
#define HEADROOM_HARDWARE_H

#include <headroom/collective.h>
#include <headroom/dtype.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hr_hardware_kind { HR_HARDWARE_GPU, HR_HARDWARE_CPU } hr_hardware_kind;

/** The source of the rates, which determines the error of a prediction. */
typedef enum hr_calibration {
  HR_CALIBRATION_ESTIMATED, /* instruction set × cores × clock */
  HR_CALIBRATION_DATASHEET, /* not measured: the vendor's rates */
  HR_CALIBRATION_PUBLISHED, /* library rates and alignment classes from published measurements */
  HR_CALIBRATION_MEASURED   /* measured by Headroom or with the same care on such a device */
} hr_calibration;

/** The clock that a prediction is for. */
typedef enum hr_clock {
  HR_CLOCK_SETTLED, /* the device has been busy for seconds: what its power limit leaves */
  HR_CLOCK_BURST    /* a few short calls after a pause: the clock has not fallen yet */
} hr_clock;

/** What the last-level cache holds at the start of an operator. */
typedef enum hr_cache {
  HR_CACHE_COLD, /* none of its operands */
  HR_CACHE_WARM  /* its operands and its result, if all of them fit */
} hr_cache;

/** What an instruction ceiling counts. */
typedef enum hr_ceiling_kind {
  HR_CEILING_GEMM, /* FLOP/s of a format with operands on the chip */
  HR_CEILING_EXP,  /* fp32 exponentials per second */
  HR_CEILING_READ, /* bytes per second read from memory */
  HR_CEILING_COPY  /* bytes per second, read and written */
} hr_ceiling_kind;

/** Kinds of problems whose predictions have errors of their own. */
typedef enum hr_interval_kind {
  HR_INTERVAL_GEMM,            /* contiguous dimensions of 16 bytes or a multiple */
  HR_INTERVAL_GEMM_MISALIGNED, /* others */
  HR_INTERVAL_BMM,             /* batched, contiguous dimensions of 16 bytes or a multiple */
  HR_INTERVAL_ATTENTION,       /* fused, by frameworks */
  HR_INTERVAL_DECODE,          /* one query per sequence, by frameworks */
  HR_INTERVAL_LATENT,          /* the same of latent attention in its absorbed form */
  HR_INTERVAL_LATENT_PREFILL,  /* of latent attention in its expanded form: V heads smaller than K heads */
  HR_INTERVAL_EXPERTS,         /* routed experts of a layer, by frameworks: routing, grouped GEMMs, activation */
  HR_INTERVAL_GEMM_8BIT,       /* GEMMs of 8 bit operands */
  HR_INTERVAL_BMM_MISALIGNED,  /* other batched GEMMs */
  HR_INTERVAL_OWN_ATTENTION,   /* fused, by Headroom's kernels */
  HR_INTERVAL_OWN_DECODE,      /* one query per sequence, by Headroom's kernels; not latent */
  HR_INTERVAL_SCAN,            /* scans and short convolutions of recurrent mixers, by frameworks */
  HR_INTERVAL_COLLECTIVE,      /* collectives between devices */
  HR_INTERVAL_KIND_COUNT
} hr_interval_kind;

/** A device: docs/hardware.md says what its figures mean. hr_resolve_hardware(), hr_hardware_from_json(),
 *  hr_device_detect() and hr_device_probe() fill one. */
typedef struct hr_hardware hr_hardware;

/** An empty device: all figures are 0, all texts "". The caller frees it with hr_hardware_free(). NULL if there is not
 *  enough memory. */
HR_API hr_hardware *hr_hardware_create(void);

/** Frees a device; NULL is allowed. */
HR_API void hr_hardware_free(hr_hardware *hardware);

/** HR_OK if a prediction can use the figures; otherwise HR_ERROR_INVALID naming the figure. */
HR_API hr_status hr_hardware_check(const hr_hardware *hardware, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
