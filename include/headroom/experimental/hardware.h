/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/hardware.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_HARDWARE_H
#define HEADROOM_EXPERIMENTAL_HARDWARE_H

#include <headroom/hardware.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a device is. The library returns pointers to its own, which later releases may end with further members. */
typedef struct hr_hardware_about {
  char name[48];         /* as typed: "h200" */
  char product[96];      /* "NVIDIA H200 SXM 141GB" */
  char architecture[32]; /* "hopper", "cdna3", "sapphire-rapids" */
  hr_hardware_kind kind;
  hr_calibration calibration;
  char calibrated[96]; /* what `headroom calibrate` fitted the figures to: "2026-01-31, 438 rows, 5.1% off"; "":
                          nothing */
  hr_clock clock;      /* what a prediction is for; no device file has these two */
  hr_cache cache;
} hr_hardware_about;

/** What a device is. Never NULL; valid as long as the device, and changed by whatever fills or changes that. */
HR_API const hr_hardware_about *hr_hardware_describe(const hr_hardware *hardware);

/** What predictions for the device are for. By default the settled clock and a cold cache. */
HR_API void hr_hardware_set_conditions(hr_hardware *hardware, hr_clock clock, hr_cache cache);

/** A figure by its place in a device file (docs/hardware.md), in the file's unit: "bandwidth_bytes_per_s",
 *  "library_share.bf16", "tma.row_ns", "tiles[2].share". 0 where the device has none. HR_ERROR_NOT_FOUND for another
 *  name or a row beyond the list; *value is then untouched. */
HR_API hr_status hr_hardware_number(const hr_hardware *hardware, const char *figure, double *value, hr_error *error);

/** Changes a figure. HR_ERROR_NOT_FOUND as above, HR_ERROR_INVALID for a value outside its bounds, with figure, value
 *  and bounds; the device is then untouched. */
HR_API hr_status hr_hardware_set_number(hr_hardware *hardware, const char *figure, double value, hr_error *error);

/** The default number format of a device: bf16 if it has a matrix rate for bf16, else fp16, else fp32. Use it wherever
 *  the user names no format; the headroom command does. */
HR_API hr_dtype hr_hardware_usual_dtype(const hr_hardware *hardware);

/** Whether libraries have fused attention for the device with operands of `dtype`, so that it is the default: yes,
 *  except for fp64 on a GPU. Sources: PyTorch at 001f694a, aten/src/ATen/native/transformers: memory-efficient
 *  attention in fp32, fp16 and bf16 on AMD's GPUs and NVIDIA's of compute capability 5.0 and above (cuda/sdp_utils),
 *  flash attention in fp64, fp32, fp16 and bf16 on CPUs (sdp_utils_cpp). Attention in fp8 is always fused
 *  (FlashAttention-3, arXiv 2407.08608). */
HR_API bool hr_hardware_has_fused_attention(const hr_hardware *hardware, hr_dtype dtype);

/** The format in which GEMMs and attention with operands of `dtype` are computed, whose rate bounds them. It is
 *  `dtype`, except for fp16 and bf16 on a CPU without instructions for them: operands are stored in 16 bits, widened on
 *  load and computed in fp32. */
HR_API hr_dtype hr_hardware_compute_dtype(const hr_hardware *hardware, hr_dtype dtype);

/** Memory of the device that a step may use: nine tenths, as inference servers reserve by default (vLLM 0.14:
 *  gpu_memory_utilization 0.9); the rest is for the driver's context, workspaces and fragmentation. 0: unknown. */
HR_API int64_t hr_hardware_usable_memory_bytes(const hr_hardware *hardware);

/** Rate of the library's best GEMM with operands of `dtype`, in FLOP/s: dense rate × library share of the format that
 *  it is computed in (hr_hardware_compute_dtype()). 0 if the device cannot compute in it. */
HR_API double hr_hardware_library_flops_per_s(const hr_hardware *hardware, hr_dtype dtype);

/** The instruction ceiling of a kind (docs/measuring.md): the fastest of its loops; 0 if none was measured. `dtype`
 *  applies to HR_CEILING_GEMM only. */
HR_API double hr_hardware_ceiling(const hr_hardware *hardware, hr_ceiling_kind kind, hr_dtype dtype);

/** Share of the instruction ceiling that a GEMM of `flops_per_s` reaches; NAN if not measured. If the library's best
 *  GEMM is faster than the loop, as on a machine that other programs use, it is the ceiling. */
HR_API double hr_hardware_ceiling_share(const hr_hardware *hardware, hr_dtype dtype, double flops_per_s);

/** "gemm", "exp", "read", "copy". Static storage. */
HR_API const char *hr_ceiling_kind_name(hr_ceiling_kind kind);

/** "gemm", "gemm_misaligned", "bmm", "attention", "decode", "latent", "latent_prefill", "experts", "gemm_8bit",
 *  "bmm_misaligned", "own_attention", "own_decode", "scan". Static storage. */
HR_API const char *hr_interval_kind_name(hr_interval_kind kind);

/** "estimated", "datasheet", "published", "measured". Static storage. */
HR_API const char *hr_calibration_name(hr_calibration calibration);

/** "settled", "burst". Static storage. */
HR_API const char *hr_clock_name(hr_clock clock);

/** "cold", "warm". Static storage. */
HR_API const char *hr_cache_name(hr_cache cache);

/** HR_ERROR_NOT_FOUND, with *clock untouched, for another name than those of hr_clock_name(). */
HR_API hr_status hr_clock_parse(const char *name, hr_clock *clock);

/** HR_ERROR_NOT_FOUND, with *cache untouched, for another name than those of hr_cache_name(). */
HR_API hr_status hr_cache_parse(const char *name, hr_cache *cache);

/** Sets the figures devices_per_node, network_bytes_per_s and network_latency_ns; devices and a rate of 0 and a
 *  negative latency leave the device's own. HR_ERROR_INVALID for a rate or a latency without what it needs: devices of
 *  a node, a rate; *hardware is then untouched. */
HR_API hr_status hr_hardware_set_network(hr_hardware *hardware, int64_t devices_per_node, double bytes_per_s,
                                         double latency_ns, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
