/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/hardware.h>

#include "analysis/hardware/costs.h"
#include "analysis/hardware/enumerator_names.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/names.h"

#include <inttypes.h>
#include <math.h>

/* For a device whose library nobody has measured: large bf16 GEMMs reach 0.72 to 0.87 of the datasheet on A100,
 * H100 and H200 (mamf-finder, ml-engineering book, 2024-2025, and data/results/published). */
#define LIBRARY_SHARE_UNKNOWN 0.75
#define LIBRARY_SHARE_MOST \
  100 /* a CPU's dense rate is computed from the clock that the system reports, which may be wrong */

hr_hardware hr_hardware_default(void)
{
  return (hr_hardware){.struct_size = sizeof(hr_hardware)};
}

hr_dtype hr_hardware_usual_dtype(const hr_hardware *hardware)
{
  if (hardware->dense_flops_per_s[HR_BF16] > 0)
    return HR_BF16;
  return hardware->dense_flops_per_s[HR_FP16] > 0 ? HR_FP16 : HR_FP32;
}

bool hr_hardware_has_fused_attention(const hr_hardware *hardware, hr_dtype dtype)
{
  return dtype != HR_FP64 || hardware->kind == HR_HARDWARE_CPU;
}

hr_dtype hr_hardware_compute_dtype(const hr_hardware *hardware, hr_dtype dtype)
{
  bool short_float = dtype == HR_FP16 || dtype == HR_BF16;
  bool widened = short_float && hardware->kind == HR_HARDWARE_CPU && !(hardware->dense_flops_per_s[dtype] > 0);
  return widened ? HR_FP32 : dtype;
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
    if (c->kind == kind && (kind != HR_CEILING_PRODUCT || c->dtype == dtype))
      best = fmax(best, c->per_s);
  }
  return best;
}

double hr_hardware_ceiling_share(const hr_hardware *hardware, hr_dtype dtype, double flops_per_s)
{
  if ((unsigned)dtype >= HR_DTYPE_COUNT)
    return (double)NAN;
  dtype = hr_hardware_compute_dtype(hardware, dtype);
  double loop = hr_hardware_ceiling(hardware, HR_CEILING_PRODUCT, dtype);
  if (!(loop > 0))
    return (double)NAN;
  bool known = hardware->library_share[dtype] > 0 && hardware->calibration >= HR_CALIBRATION_PUBLISHED;
  return flops_per_s / fmax(loop, known ? hr_hardware_library_flops_per_s(hardware, dtype) : 0);
}

const char *hr_interval_kind_name(hr_interval_kind kind)
{
  return hr_name_of(hr_interval_names, HR_INTERVAL_KIND_COUNT, (int)kind);
}

const char *hr_ceiling_kind_name(hr_ceiling_kind kind)
{
  return hr_name_of(hr_ceiling_names, HR_CEILING_KIND_COUNT, (int)kind);
}

const char *hr_calibration_name(hr_calibration calibration)
{
  return hr_name_of(hr_calibration_names, HR_CALIBRATION_COUNT, (int)calibration);
}

static const char *const clock_names[] = {"settled", "burst"};
static const char *const cache_names[] = {"cold", "warm"};

const char *hr_clock_name(hr_clock clock)
{
  return hr_name_of(clock_names, 2, (int)clock);
}

const char *hr_cache_name(hr_cache cache)
{
  return hr_name_of(cache_names, 2, (int)cache);
}

hr_status hr_clock_parse(const char *name, hr_clock *clock)
{
  HR_NEED(NULL, name, clock);
  int value;
  HR_TRY(hr_name_find(clock_names, 2, name, &value));
  *clock = (hr_clock)value;
  return HR_OK;
}

hr_status hr_cache_parse(const char *name, hr_cache *cache)
{
  HR_NEED(NULL, name, cache);
  int value;
  HR_TRY(hr_name_find(cache_names, 2, name, &value));
  *cache = (hr_cache)value;
  return HR_OK;
}

static hr_status out_of_range(hr_error *error, const char *member, double value, double least, double most)
{
  return hr_fail(error, HR_ERROR_INVALID, "%s: expected %g to %g, found %g", member, least, most, value);
}

/* `!(a && b)` instead of `a || b`, so that NaN is refused. */
static hr_status check_range(const char *member, double value, double least, double most, hr_error *error)
{
  return !(value >= least && value <= most) ? out_of_range(error, member, value, least, most) : HR_OK;
}

/* 0 means not given. Other values must be large enough to divide by, so that every time is finite. */
static hr_status check_optional(const char *member, double value, double least, double most, hr_error *error)
{
  return value == 0 ? HR_OK : check_range(member, value, least, most, error);
}

static hr_status check_rates(const hr_hardware *hardware, hr_error *error)
{
  for (int i = 0; i < HR_DTYPE_COUNT; i++) {
    HR_TRY(check_optional("dense_flops_per_s", hardware->dense_flops_per_s[i], 1e3, 1e21, error));
    HR_TRY(check_optional("library_share", hardware->library_share[i], 0.001, LIBRARY_SHARE_MOST, error));
  }
  return HR_OK;
}

static hr_status check_alignments(const hr_hardware *hardware, hr_error *error)
{
  HR_TRY(check_range("alignments (count)", (double)hardware->alignment_count, 0, HR_ALIGNMENTS_MAX, error));
  hr_alignment_class before = {0, 0, 0, 0};
  for (size_t i = 0; i < hardware->alignment_count; i++) {
    hr_alignment_class class = hardware->alignments[i];
    if (class.bytes <= before.bytes || hr_power_of_two_in(class.bytes, class.bytes) != class.bytes)
      return hr_fail(error, HR_ERROR_INVALID, "alignments: %" PRId64 " bytes: expected ascending powers of two",
                     class.bytes);
    HR_TRY(check_range("alignments: gemm_share", class.gemm_share, 0.001, 1, error));
    HR_TRY(check_range("alignments: bmm_share", class.bmm_share, 0.001, 1, error));
    HR_TRY(check_range("alignments: result_share", class.result_share, 0, 1, error));
    if (class.gemm_share < before.gemm_share || class.bmm_share < before.bmm_share ||
        class.result_share < before.result_share)
      return hr_fail(error, HR_ERROR_INVALID, "alignments: %" PRId64 " bytes is slower than %" PRId64 " bytes",
                     class.bytes, before.bytes);
    before = class;
  }
  return HR_OK;
}

static hr_status check_tile_list(const hr_tile *tiles, size_t count, size_t least, hr_error *error)
{
  HR_TRY(check_range("tiles (count)", (double)count, (double)least, HR_TILES_MAX, error));
  for (size_t i = 0; i < count; i++) {
    HR_TRY(check_range("tiles: m", (double)tiles[i].m, 1, 65536, error));
    HR_TRY(check_range("tiles: n", (double)tiles[i].n, 1, 65536, error));
    HR_TRY(check_range("tiles: share", tiles[i].share, 0.001, 1, error));
  }
  return HR_OK;
}

static hr_status check_blocks(const int64_t *blocks, hr_error *error)
{
  for (size_t i = 0; i < HR_TILES_MAX; i++)
    HR_TRY(check_range("tiles: blocks", (double)blocks[i], 0, 64, error));
  return HR_OK;
}

static hr_status check_latencies(const double *latencies_ns, hr_error *error)
{
  for (size_t i = 0; i < HR_TILES_MAX; i++)
    HR_TRY(check_range("tiles: latency_ns", latencies_ns[i], 0, 1e6, error));
  return HR_OK;
}

static hr_status check_attentions(const hr_hardware *hardware, hr_error *error)
{
  HR_TRY(check_range("attentions (count)", (double)hardware->attention_count, 0, HR_ATTENTION_SHARES_MAX, error));
  int64_t before = 0;
  for (size_t i = 0; i < hardware->attention_count; i++) {
    hr_attention_share share = hardware->attentions[i];
    if (share.head_dim <= before)
      return hr_fail(error, HR_ERROR_INVALID, "attentions: head_dim %" PRId64 ": expected ascending sizes",
                     share.head_dim);
    HR_TRY(check_range("attentions: forward_share", share.forward_share, 0.001, 2, error));
    HR_TRY(check_range("attentions: backward_share", share.backward_share, 0.001, 2, error));
    HR_TRY(check_optional("attentions: headroom_share", share.headroom_share, 0.001, 2, error));
    HR_TRY(check_optional("attentions: short_share", share.short_share, 0.001, 2, error));
    before = share.head_dim;
  }
  return HR_OK;
}

static hr_status check_ceilings(const hr_hardware *hardware, hr_error *error)
{
  HR_TRY(check_range("ceilings (count)", (double)hardware->ceiling_count, 0, HR_CEILINGS_MAX, error));
  for (size_t i = 0; i < hardware->ceiling_count; i++) {
    const hr_ceiling *c = &hardware->ceilings[i];
    if ((unsigned)c->kind >= HR_CEILING_KIND_COUNT || (unsigned)c->dtype >= HR_DTYPE_COUNT)
      return hr_fail(error, HR_ERROR_INVALID, "ceilings: row %zu has an unknown kind or format", i);
    HR_TRY(check_range("ceilings: per_s", c->per_s, 1e3, 1e21, error));
    HR_TRY(check_optional("ceilings: core_per_s", c->core_per_s, 1e3, 1e21, error));
    HR_TRY(check_optional("ceilings: clock_hz", c->clock_hz, 1e6, 1e12, error));
    HR_TRY(check_optional("ceilings: power_w", c->power_w, 1e-3, 1e6, error));
  }
  return HR_OK;
}

static hr_status check_collective(const hr_collective_rate *rate, hr_error *error)
{
  if ((unsigned)rate->kind >= HR_COLLECTIVE_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "collectives: %d is not a collective", (int)rate->kind);
  HR_TRY(check_range("collectives: devices", (double)rate->devices, 2, 1e6, error));
  HR_TRY(check_range("collectives: error_band", rate->error_band, 0, 100, error));
  HR_TRY(check_range("collectives: latency_ns", rate->latency_ns, 0, 1e9, error));
  HR_TRY(check_range("collectives: bus_bytes_per_s", rate->bus_bytes_per_s, 1e3, 1e18, error));
  return check_range("collectives: ramp", rate->ramp, 0, 100, error);
}

static hr_status check_collectives(const hr_hardware *hardware, hr_error *error)
{
  HR_TRY(check_range("collectives (count)", (double)hardware->collective_count, 0, HR_COLLECTIVE_RATES_MAX, error));
  for (size_t i = 0; i < hardware->collective_count; i++) {
    const hr_collective_rate *rate = &hardware->collectives[i], *before = i ? rate - 1 : NULL;
    HR_TRY(check_collective(rate, error));
    if (before && (rate->kind < before->kind || (rate->kind == before->kind && rate->devices <= before->devices)))
      return hr_fail(error, HR_ERROR_INVALID,
                     "collectives: %s of %" PRId64 " devices: expected an order by kind, then "
                     "ascending devices",
                     hr_collective_name(rate->kind), rate->devices);
  }
  return HR_OK;
}

/* By kind, then number format, then time. */
static bool intervals_ascend(const hr_interval *before, const hr_interval *interval)
{
  if (before->kind != interval->kind)
    return before->kind < interval->kind;
  if (before->dtype != interval->dtype)
    return before->dtype < interval->dtype;
  return before->below_ns < interval->below_ns;
}

static hr_status check_intervals(const hr_hardware *hardware, hr_error *error)
{
  HR_TRY(check_range("intervals (count)", (double)hardware->interval_count, 0, HR_INTERVALS_MAX, error));
  for (size_t i = 0; i < hardware->interval_count; i++) {
    const hr_interval *interval = &hardware->intervals[i];
    if ((unsigned)interval->kind >= HR_INTERVAL_KIND_COUNT)
      return hr_fail(error, HR_ERROR_INVALID, "intervals: %d is not a kind", (int)interval->kind);
    if ((unsigned)interval->dtype > HR_DTYPE_COUNT)
      return hr_fail(error, HR_ERROR_INVALID, "intervals: %d is not a number format", (int)interval->dtype);
    HR_TRY(check_range("intervals: below_ns", interval->below_ns, 1, 1e18, error));
    HR_TRY(check_range("intervals: low", interval->low, 0.001, 1, error));
    HR_TRY(check_range("intervals: high", interval->high, 1, 1000, error));
    if (i > 0 && !intervals_ascend(interval - 1, interval))
      return hr_fail(error, HR_ERROR_INVALID,
                     "intervals: %s below %g ns: expected an order by kind, number format and time",
                     hr_interval_kind_name(interval->kind), interval->below_ns);
  }
  return HR_OK;
}

hr_status hr_hardware_check(const hr_hardware *hardware, hr_error *error)
{
  HR_NEED(error, hardware);
  HR_TRY(hr_check_struct_size("hr_hardware", hardware->struct_size, sizeof(hr_hardware), error));
  const struct {
    const char *member;
    double value, least, most;
  } ranges[] = {
      {"error_band", hardware->error_band, 0, 100},
      {"multiprocessors", (double)hardware->multiprocessors, 1, 1e6},
      {"blocks_per_multiprocessor", (double)hardware->blocks_per_multiprocessor, 1, 64},
      {"clock_hz", hardware->clock_hz, 0, 1e12},
      {"bandwidth_bytes_per_s", hardware->bandwidth_bytes_per_s, 1, 1e18},
      {"bandwidth_share", hardware->bandwidth_share, 0.001, 1},
      {"softmax_share", hardware->softmax_share, 0, 1},
      {"norm_share", hardware->norm_share, 0, 1},
      {"activation_share", hardware->activation_share, 0, 1},
      {"store_exposed", hardware->store_exposed, 0, 1},
      {"boost", hardware->boost, 0, 4},
      {"memory_bytes", (double)hardware->memory_bytes, 0, 1e18},
      {"l2_bytes", (double)hardware->l2_bytes, 0, 1e15},
      {"shared_bytes", (double)hardware->shared_bytes, 0, 1e15},
      {"split_ns", hardware->split_ns, 0, 1e9},
      {"row_share", hardware->row_share, 0, 1},
      {"small_tile_share", hardware->small_tile_share, 0, 1},
      {"narrow_k_bytes", (double)hardware->narrow_k_bytes, 0, 1e6},
      {"narrow_split_bytes", (double)hardware->narrow_split_bytes, 0, 1e9},
      {"odd_split_bytes", (double)hardware->odd_split_bytes, 0, 1e9},
      {"split_k_bytes", (double)hardware->split_k_bytes, 0, 1e9},
      {"split_products", (double)hardware->split_products, 0, 1e15},
      {"vector_batched_tiles", (double)hardware->vector_batched_tiles, 0, HR_TILES_MAX},
      {"long_row_bytes", (double)hardware->long_row_bytes, 0, 1e15},
      {"clock (condition)", (double)hardware->clock, HR_CLOCK_SETTLED, HR_CLOCK_BURST},
      {"cache (condition)", (double)hardware->cache, HR_CACHE_COLD, HR_CACHE_WARM},
      {"launch_ns", hardware->launch_ns, 0, 1e9},
      {"product_launch_ns", hardware->product_launch_ns, 0, 1e9},
      {"product_busy_ns", hardware->product_busy_ns, 0, 1e9},
      {"product_step_ns", hardware->product_step_ns, 0, 1e9},
      {"narrow_store", hardware->narrow_store, 0, 1000},
      {"attention_block_ns", hardware->attention_block_ns, 0, 1e9},
      {"prefill_launch_ns", hardware->prefill_launch_ns, 0, 1e9},
      {"tile_k_bytes", (double)hardware->tile_k_bytes, 0, 1e6},
      {"devices_per_node", (double)hardware->devices_per_node, 0, 1e6},
      {"interconnect_latency_ns", hardware->interconnect_latency_ns, 0, 1e9},
      {"network_latency_ns", hardware->network_latency_ns, 0, 1e9},
  };
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    HR_TRY(check_range(ranges[i].member, ranges[i].value, ranges[i].least, ranges[i].most, error));
  HR_TRY(check_optional("int8_ops_per_s", hardware->int8_ops_per_s, 1e3, 1e21, error));
  HR_TRY(check_optional("power_limit_w", hardware->power_limit_w, 1e-3, 1e6, error));
  HR_TRY(check_optional("load_share", hardware->load_share, 0.001, 1, error));
  HR_TRY(check_optional("store_share", hardware->store_share, 0.001, 1, error));
  HR_TRY(check_optional("sector_store_share", hardware->sector_store_share, 0.001, 1, error));
  HR_TRY(check_optional("interconnect_bytes_per_s", hardware->interconnect_bytes_per_s, 1, 1e18, error));
  HR_TRY(check_optional("network_bytes_per_s", hardware->network_bytes_per_s, 1, 1e18, error));
  HR_TRY(check_optional("cache_bytes_per_s", hardware->cache_bytes_per_s, 1, 1e18, error));
  HR_TRY(check_optional("reach", hardware->reach, 0.1, 1e6, error));
  HR_TRY(check_optional("burst", hardware->burst, 1, 4, error));
  HR_TRY(check_rates(hardware, error));
  HR_TRY(check_alignments(hardware, error));
  HR_TRY(check_tile_list(hardware->tiles, hardware->tile_count, 1, error));
  HR_TRY(check_tile_list(hardware->narrow_tiles, hardware->narrow_tile_count, 0, error));
  HR_TRY(check_tile_list(hardware->odd_tiles, hardware->odd_tile_count, 0, error));
  HR_TRY(check_blocks(hardware->narrow_blocks, error));
  HR_TRY(check_blocks(hardware->odd_blocks, error));
  HR_TRY(check_latencies(hardware->narrow_latency_ns, error));
  HR_TRY(check_latencies(hardware->odd_latency_ns, error));
  HR_TRY(check_tile_list(hardware->vector_tiles, hardware->vector_tile_count, 0, error));
  HR_TRY(check_blocks(hardware->vector_blocks, error));
  HR_TRY(check_latencies(hardware->vector_latency_ns, error));
  HR_TRY(check_ceilings(hardware, error));
  HR_TRY(check_collectives(hardware, error));
  HR_TRY(check_intervals(hardware, error));
  HR_TRY(hr_hardware_check_costs(hardware, error));
  return check_attentions(hardware, error);
}
