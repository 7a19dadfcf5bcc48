/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/hardware.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_HARDWARE_H
#define HEADROOM_EXPERIMENTAL_HARDWARE_H

#include <headroom/hardware.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif
