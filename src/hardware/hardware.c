/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/hardware.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/names.h"
#include "hardware/figures.h"

#include <headroom/experimental/collective.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* For a device whose library nobody has measured: large bf16 GEMMs reach 0.72 to 0.87 of the datasheet on A100,
 * H100 and H200 (mamf-finder, ml-engineering book, 2024-2025, and data/results/published). */
#define LIBRARY_SHARE_UNKNOWN 0.75

hr_hardware *hr_hardware_create(void)
{
  return calloc(1, sizeof(hr_hardware));
}

void hr_hardware_free(hr_hardware *hardware)
{
  free(hardware);
}

const hr_hardware_about *hr_hardware_describe(const hr_hardware *hardware)
{
  return &hardware->about;
}

void hr_hardware_set_conditions(hr_hardware *hardware, hr_clock clock, hr_cache cache)
{
  hardware->about.clock = clock;
  hardware->about.cache = cache;
}

hr_dtype hr_hardware_usual_dtype(const hr_hardware *hardware)
{
  if (hardware->dense_flops_per_s[HR_BF16] > 0)
    return HR_BF16;
  return hardware->dense_flops_per_s[HR_FP16] > 0 ? HR_FP16 : HR_FP32;
}

bool hr_hardware_has_fused_attention(const hr_hardware *hardware, hr_dtype dtype)
{
  return dtype != HR_FP64 || hardware->about.kind == HR_HARDWARE_CPU;
}

hr_dtype hr_hardware_compute_dtype(const hr_hardware *hardware, hr_dtype dtype)
{
  bool short_float = dtype == HR_FP16 || dtype == HR_BF16;
  bool widened = short_float && hardware->about.kind == HR_HARDWARE_CPU && !(hardware->dense_flops_per_s[dtype] > 0);
  return widened ? HR_FP32 : dtype;
}

bool hr_hardware_has_families(const hr_hardware *hardware)
{
  return hardware->tma.launch_ns > 0 && hardware->aligned_4.launch_ns > 0 && hardware->aligned_2.launch_ns > 0 &&
         hardware->simt.launch_ns > 0;
}

#define FULL_SPEED 0.995  /* from this share of the best class on a class is as fast; predictions are no finer */
#define TMA_BOX_BYTES 128 /* of a row: a family's step along k */

int64_t hr_hardware_fast_bytes(const hr_hardware *hardware, double share, bool batched)
{
  if (hr_hardware_has_families(hardware))
    return share >= FULL_SPEED ? TMA_BOX_BYTES : batched ? HR_SECTOR_BYTES : HR_TMA_BYTES;
  for (size_t i = 0; i < hardware->alignment_count; i++) {
    const hr_alignment_class *class = &hardware->alignments[i];
    double plain = class->result_share > 0 ? fmin(class->gemm_share, class->result_share) : class->gemm_share;
    if ((batched ? class->bmm_share : plain) >= fmin(share, FULL_SPEED))
      return class->bytes;
  }
  return hardware->alignment_count > 0 ? hardware->alignments[hardware->alignment_count - 1].bytes : 1;
}

int64_t hr_hardware_usable_memory_bytes(const hr_hardware *hardware)
{
  return hardware->memory_bytes / 10 * 9;
}

double hr_hardware_library_flops_per_s(const hr_hardware *hardware, hr_dtype dtype)
{
  if ((unsigned)dtype >= HR_DTYPE_COUNT)
    return 0;
  dtype = hr_hardware_compute_dtype(hardware, dtype);
  double share = hardware->library_share[dtype];
  return hardware->dense_flops_per_s[dtype] * (share > 0 ? share : LIBRARY_SHARE_UNKNOWN);
}

double hr_hardware_ceiling(const hr_hardware *hardware, hr_ceiling_kind kind, hr_dtype dtype)
{
  double best = 0;
  for (size_t i = 0; i < hardware->ceiling_count; i++) {
    const hr_ceiling *c = &hardware->ceilings[i];
    if (c->kind == kind && (kind != HR_CEILING_GEMM || c->dtype == dtype))
      best = fmax(best, c->per_s);
  }
  return best;
}

double hr_hardware_ceiling_share(const hr_hardware *hardware, hr_dtype dtype, double flops_per_s)
{
  if ((unsigned)dtype >= HR_DTYPE_COUNT)
    return (double)NAN;
  dtype = hr_hardware_compute_dtype(hardware, dtype);
  double loop = hr_hardware_ceiling(hardware, HR_CEILING_GEMM, dtype);
  if (!(loop > 0))
    return (double)NAN;
  bool known = hardware->library_share[dtype] > 0 && hardware->about.calibration >= HR_CALIBRATION_PUBLISHED;
  return flops_per_s / fmax(loop, known ? hr_hardware_library_flops_per_s(hardware, dtype) : 0);
}

static const char *const clock_names[] = {"settled", "burst"};
static const char *const cache_names[] = {"cold", "warm"};

HR_DEFINE_NAME(hr_clock_name, hr_clock, clock_names, 2)
HR_DEFINE_NAME(hr_cache_name, hr_cache, cache_names, 2)
HR_DEFINE_PARSE(hr_clock_parse, hr_clock, clock_names, 2)
HR_DEFINE_PARSE(hr_cache_parse, hr_cache, cache_names, 2)

static hr_status check_alignments(const hr_hardware *hardware, hr_error *error)
{
  hr_alignment_class before = {0, 0, 0, 0};
  for (size_t i = 0; i < hardware->alignment_count; i++) {
    hr_alignment_class class = hardware->alignments[i];
    if (class.bytes <= before.bytes || hr_power_of_two_in(class.bytes, class.bytes) != class.bytes)
      return hr_fail(error, HR_ERROR_INVALID, "alignments: %" PRId64 " bytes: expected ascending powers of two",
                     class.bytes);
    if (class.gemm_share < before.gemm_share || class.bmm_share < before.bmm_share ||
        class.result_share < before.result_share)
      return hr_fail(error, HR_ERROR_INVALID, "alignments: %" PRId64 " bytes is slower than %" PRId64 " bytes",
                     class.bytes, before.bytes);
    before = class;
  }
  return HR_OK;
}

static bool attentions_ascend(const hr_hardware *hardware, size_t i)
{
  return hardware->attentions[i - 1].head_dim < hardware->attentions[i].head_dim;
}

int64_t hr_collective_rate_order(const hr_collective_rate *a, const hr_collective_rate *b)
{
  if (a->library != b->library)
    return (int64_t)a->library - (int64_t)b->library;
  return a->kind != b->kind ? (int64_t)a->kind - (int64_t)b->kind : a->devices - b->devices;
}

static bool collectives_ascend(const hr_hardware *hardware, size_t i)
{
  return hr_collective_rate_order(&hardware->collectives[i - 1], &hardware->collectives[i]) <= 0;
}

static bool intervals_ascend(const hr_hardware *hardware, size_t i)
{
  const hr_interval *before = &hardware->intervals[i - 1], *interval = &hardware->intervals[i];
  if (before->kind != interval->kind)
    return before->kind < interval->kind;
  return before->dtype != interval->dtype ? before->dtype < interval->dtype : before->below_ns < interval->below_ns;
}

static hr_status check_orders(const hr_hardware *hardware, hr_error *error)
{
  const struct {
    const char *list, *order;
    size_t count;
    bool (*ascend)(const hr_hardware *hardware, size_t i); /* from row i - 1 to row i */
  } lists[] = {{"attentions", "ascending head sizes", hardware->attention_count, attentions_ascend},
               {"collectives", "an order by library, kind and devices", hardware->collective_count, collectives_ascend},
               {"intervals", "an order by kind, number format and time", hardware->interval_count, intervals_ascend}};
  for (size_t list = 0; list < sizeof lists / sizeof *lists; list++) {
    for (size_t i = 1; i < lists[list].count; i++) {
      if (!lists[list].ascend(hardware, i))
        return hr_fail(error, HR_ERROR_INVALID, "%s[%zu]: expected %s", lists[list].list, i, lists[list].order);
    }
  }
  return HR_OK;
}

static hr_status check_tiles(const hr_hardware *hardware, hr_error *error)
{
  if (hardware->tile_count > 0 || hr_hardware_has_families(hardware))
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID, "tiles (count): expected 1 to %d, found 0", HR_TILES_MAX);
}

static hr_status check_conditions(const hr_hardware *hardware, hr_error *error)
{
  if ((unsigned)hardware->about.clock > HR_CLOCK_BURST)
    return hr_fail(error, HR_ERROR_INVALID, "clock (condition): %d is not in the list", (int)hardware->about.clock);
  if ((unsigned)hardware->about.cache > HR_CACHE_WARM)
    return hr_fail(error, HR_ERROR_INVALID, "cache (condition): %d is not in the list", (int)hardware->about.cache);
  return HR_OK;
}

hr_status hr_hardware_set_network(hr_hardware *hardware, int64_t devices_per_node, double bytes_per_s,
                                  double latency_ns, hr_error *error)
{
  HR_NEED(error, hardware);
  bool network = bytes_per_s > 0 || latency_ns >= 0;
  hr_hardware changed = *hardware;
  if (devices_per_node != 0)
    changed.devices_per_node = devices_per_node;
  if (bytes_per_s != 0)
    changed.network_bytes_per_s = bytes_per_s;
  if (latency_ns >= 0)
    changed.network_latency_ns = latency_ns;
  if (network && changed.devices_per_node < 1)
    return hr_fail(error, HR_ERROR_INVALID, "network: needs devices per node, which %s does not give",
                   hardware->about.name);
  if (network && !(changed.network_bytes_per_s > 0))
    return hr_fail(error, HR_ERROR_INVALID, "network: a latency needs a rate, which %s does not give",
                   hardware->about.name);
  HR_TRY(hr_device_figures_check(&changed, error));
  *hardware = changed;
  return HR_OK;
}

hr_status hr_hardware_check(const hr_hardware *hardware, hr_error *error)
{
  HR_NEED(error, hardware);
  HR_TRY(hr_device_figures_check(hardware, error));
  HR_TRY(check_tiles(hardware, error));
  HR_TRY(check_conditions(hardware, error));
  HR_TRY(check_alignments(hardware, error));
  return check_orders(hardware, error);
}
