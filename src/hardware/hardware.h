/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a device, of which figures.inc is the table. */
#ifndef HR_HARDWARE_HARDWARE_H
#define HR_HARDWARE_HARDWARE_H

#include "hardware/costs.h"

#include <headroom/experimental/collective.h>
#include <headroom/experimental/hardware.h>
#include <headroom/quantization.h>

#define HR_ALIGNMENTS_MAX 10
#define HR_TILES_MAX 24
#define HR_ATTENTION_SHARES_MAX 10
#define HR_CEILINGS_MAX 16
#define HR_COLLECTIVE_RATES_MAX 96
#define HR_INTERVALS_MAX 192

#define HR_TMA_BYTES 16    /* of which rows are multiples, or TMA cannot load them; the widest load */
#define HR_SECTOR_BYTES 32 /* that memory writes at once: it bounds the small results of batched GEMMs */

/** The rate of a loop over one instruction: an upper bound for kernels built on it. */
#define HR_CEILING_ROWS(X, list, count)                                                                       \
  X(list, count, hr_ceiling_kind, kind, OWN(NEEDED), CEILING_KINDS)                                           \
  X(list, count, hr_dtype, dtype, OTHERWISE(HR_FP32), NUMBER_FORMATS) /* of HR_CEILING_GEMM */                \
  X(list, count, double, per_s, OWN(NEEDED), RATE)                    /* of all multiprocessors or cores */   \
  X(list, count, double, core_per_s, OPTIONAL, RATE) /* of one core alone; 0: not measured, as on a GPU */    \
  X(list, count, double, clock_hz, OPTIONAL, CLOCK)  /* of the multiprocessors during the loop; 0: unknown */ \
  X(list, count, double, power_w, OPTIONAL, POWER)   /* of the board, once the power cap has settled; 0: not measured */
typedef struct hr_ceiling {
  HR_CEILING_ROWS(HR_ROW_MEMBER, , )
  char instruction[32]; /* "wgmma", "vfmadd213ps zmm"; of an exponential on a CPU also its polynomial */
} hr_ceiling;

/** Time of a library's collective between so many devices of one node: with τ = bytes × hr_collective_bus_share() /
 *  bus_bytes_per_s it is α + τ + ramp · √(α·τ). The last term is that of small and middle messages, whose transfer is
 *  cut into pieces: √(α·τ) is what the best number of pieces costs. Several rows of the same library, kind and devices
 *  are its ways, of which the fastest counts. Rows of several nodes are of DeepEP, and the whole time. */
#define HR_COLLECTIVE_RATE_ROWS(X, list, count)                                                                   \
  X(list, count, hr_collective_kind, kind, OWN(NEEDED), COLLECTIVES)                                              \
  X(list, count, int64_t, devices, OWN(NEEDED), SEVERAL_DEVICES)                                                  \
  X(list, count, double, latency_ns, FIT(COLLECTIVES, GIVEN), TIME)            /* α */                           \
  X(list, count, double, bus_bytes_per_s, FIT(COLLECTIVES, NEEDED), BANDWIDTH) /* as nccl-tests defines it */     \
  X(list, count, double, ramp, FIT_SHARE(COLLECTIVES, OPTIONAL), RAMP) /* 0: α + τ alone; 2: the best pieces */ \
  X(list, count, double, error_band, GIVEN, BAND)   /* relative, of the time, as hr_hardware.error_band */        \
  X(list, count, int64_t, nodes, OPTIONAL, DEVICES) /* 0: one */                                                  \
  X(list, count, hr_collective_library, library, OTHERWISE(HR_LIBRARY_NCCL), LIBRARIES)
typedef struct hr_collective_rate {
  HR_COLLECTIVE_RATE_ROWS(HR_ROW_MEMBER, , )
} hr_collective_rate;

/** Where nine of ten measured times lie: low … high times the predicted one. `below_ns` is of predicted times below
 *  this, and not below the row before of the same kind and dtype. `dtype`: of GEMMs of this format alone;
 *  HR_DTYPE_COUNT: of every format without rows of its own. */
#define HR_INTERVAL_ROWS(X, list, count)                                      \
  X(list, count, hr_interval_kind, kind, OWN(NEEDED), INTERVAL_KINDS)         \
  X(list, count, hr_dtype, dtype, OTHERWISE(HR_DTYPE_COUNT), FORMATS_OR_NONE) \
  X(list, count, double, below_ns, OWN(OTHERWISE(1e18)), BELOW)               \
  X(list, count, double, low, NEEDED, LOW)                                    \
  X(list, count, double, high, NEEDED, HIGH)
typedef struct hr_interval {
  HR_INTERVAL_ROWS(HR_ROW_MEMBER, , )
} hr_interval;

/* src/hardware/figures.inc has the numbers, with what they mean. */
struct hr_hardware {
  hr_hardware_about about;
#define HR_NUMBER(member, presence, bounds) double member;
#define HR_COUNT(member, presence, bounds) int64_t member;
#define HR_WORD(field, member, words)
#define HR_FORMATS(member, presence, bounds) double member[HR_DTYPE_COUNT];
#define HR_OBJECT(type, member, numbers, rows) type member;
#define HR_LIST(type, member, count, most, rows) \
  size_t count;                                  \
  type member[most];
#define HR_FORMER(field, member)
#include "hardware/figures.inc"
  bool simt_formats[HR_DTYPE_COUNT]; /* kernels load single elements: alignment costs nothing */
  int64_t numa_nodes;                /* of this machine's CPU: NUMA nodes of the usable cores; 0: unknown */
  char placement[192]; /* of this machine's CPU, a phrase: placement of its threads and memory; "": unknown */
};

/** Whether the costs of all families of GEMM kernels are known, so that no GEMM runs in `tiles`. */
bool hr_hardware_has_families(const hr_hardware *hardware);

/** The smallest alignment at which plain (or batched) GEMMs reach a share of full speed, up to 1; 1: at any. */
int64_t hr_hardware_fast_bytes(const hr_hardware *hardware, double share, bool batched);

/** Below 0: *a comes before *b in the list of a device; 0: they are ways of one collective. */
int64_t hr_collective_rate_order(const hr_collective_rate *a, const hr_collective_rate *b);

/** Whether a device multiplies fp8 or fp4 activations, and their weights, in the number format of others, since it has
 *  no units for them; without units for int8 it multiplies none. */
static inline bool hr_hardware_widens(const hr_hardware *hardware, hr_activations activations)
{
  return (activations == HR_ACTIVATIONS_FP8 && !(hardware->dense_flops_per_s[HR_FP8_E4M3] > 0)) ||
         (activations == HR_ACTIVATIONS_FP4 && !(hardware->fp4_flops_per_s > 0));
}

/** An empty device. */
static inline hr_hardware hr_hardware_default(void)
{
  return (hr_hardware){.error_band = 0};
}

#endif
