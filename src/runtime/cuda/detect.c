/* SPDX-License-Identifier: Apache-2.0 */
/* hr_hardware of a GPU without measuring: the driver's attributes and the nominal rates of its architecture. */
#include "base/error.h"
#include "base/names.h"
#include "hardware/hardware.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/driver/context.h"

#include <string.h>

/* Dense FLOPs per clock and multiprocessor. Sources: NVIDIA's architecture whitepapers: V100, Turing, A100 (table 2),
 * GA102, Ada, H100 (table 2), Blackwell. fp32 and fp64 run on CUDA cores, fp64 of data-centre parts on Tensor Cores. */
typedef struct architecture {
  int capability;
  const char *name;
  int64_t per_clock[HR_DTYPE_COUNT];
} architecture;

static const architecture architectures[] = {
    {70, "volta", {[HR_FP64] = 64, [HR_FP32] = 128, [HR_FP16] = 1024}},
    {75, "turing", {[HR_FP64] = 4, [HR_FP32] = 128, [HR_FP16] = 1024}},
    {80, "ampere", {[HR_FP64] = 128, [HR_FP32] = 128, [HR_TF32] = 1024, [HR_FP16] = 2048, [HR_BF16] = 2048}},
    {86, "ampere", {[HR_FP64] = 4, [HR_FP32] = 256, [HR_TF32] = 256, [HR_FP16] = 512, [HR_BF16] = 512}},
    {89,
     "ada",
     {[HR_FP64] = 4, [HR_FP32] = 256, [HR_TF32] = 512, [HR_FP16] = 1024, [HR_BF16] = 1024, [HR_FP8_E4M3] = 2048}},
    {90,
     "hopper",
     {[HR_FP64] = 256, [HR_FP32] = 256, [HR_TF32] = 2048, [HR_FP16] = 4096, [HR_BF16] = 4096, [HR_FP8_E4M3] = 8192}},
    {100,
     "blackwell",
     {[HR_FP64] = 128, [HR_FP32] = 256, [HR_TF32] = 4096, [HR_FP16] = 8192, [HR_BF16] = 8192, [HR_FP8_E4M3] = 16384}},
    {120,
     "blackwell",
     {[HR_FP64] = 4, [HR_FP32] = 256, [HR_TF32] = 512, [HR_FP16] = 1024, [HR_BF16] = 1024, [HR_FP8_E4M3] = 2048}},
};

/* Thread block tiles that cuBLAS picks on all of these architectures; the shares of the peak rate are assumptions, as
 * in those files of data/hardware that are known from a data sheet only. */
static const hr_tile tiles[] = {{128, 256, 1.0}, {256, 128, 1.0}, {128, 128, 0.9},
                                {64, 128, 0.7},  {128, 64, 0.7},  {64, 64, 0.5}};

#define ERROR_BAND 0.6 /* as for other devices known from a data sheet only, docs/hardware.md */
#define LAUNCH_NS 2500

/* The newest architecture that is not newer than the device. */
static const architecture *architecture_of(int capability)
{
  const architecture *found = &architectures[0];
  for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
    if (architectures[i].capability <= capability)
      found = &architectures[i];
  }
  return found;
}

/* 0 if the driver does not know the attribute. */
static int64_t attribute(const hr_cuda *cuda, int which)
{
  int64_t value = 0;
  return hr_cuda_attribute(cuda, which, &value, NULL) == HR_OK ? value : 0;
}

/* The power cap that the driver enforces; 0: unknown. */
static double power_limit_w(const hr_cuda *cuda)
{
  unsigned milliwatts = 0;
  if (!cuda->nvml_device || !cuda->nvml.nvmlDeviceGetEnforcedPowerLimit ||
      cuda->nvml.nvmlDeviceGetEnforcedPowerLimit(cuda->nvml_device, &milliwatts) != NVML_SUCCESS)
    return 0;
  return milliwatts * 1e-3;
}

hr_status hr_cuda_detect(const hr_device *device, hr_hardware *hardware, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  const architecture *design = architecture_of(cuda->capability);
  size_t memory = 0;
  hr_hardware h = {.about.kind = HR_HARDWARE_GPU, .about.calibration = HR_CALIBRATION_DATASHEET};
  hr_copy_text(h.about.name, sizeof h.about.name, device->name);
  HR_TRY(HR_CU(&cuda->driver, cuDeviceGetName, (h.about.product, sizeof h.about.product, cuda->device), error));
  HR_TRY(HR_CU(&cuda->driver, cuDeviceTotalMem_v2, (&memory, cuda->device), error));
  hr_copy_text(h.about.architecture, sizeof h.about.architecture, design->name);
  h.error_band = ERROR_BAND;
  h.multiprocessors = attribute(cuda, CU_MULTIPROCESSORS);
  h.blocks_per_multiprocessor = 1;
  h.clock_hz = (double)attribute(cuda, CU_CLOCK_KHZ) * 1e3;
  for (int i = 0; i < HR_DTYPE_COUNT; i++)
    h.dense_flops_per_s[i] = (double)design->per_clock[i] * h.clock_hz * (double)h.multiprocessors;
  /* Double data rate: two transfers per memory clock. */
  h.bandwidth_bytes_per_s =
      2 * (double)attribute(cuda, CU_MEMORY_CLOCK_KHZ) * 1e3 * (double)attribute(cuda, CU_MEMORY_BUS_BITS) / 8;
  h.bandwidth_share = 0.9;
  h.memory_bytes = (int64_t)memory;
  h.l2_bytes = attribute(cuda, CU_L2_BYTES);
  h.shared_bytes = attribute(cuda, CU_SHARED_BYTES);
  h.launch_ns = LAUNCH_NS;
  h.power_limit_w = power_limit_w(cuda);
  h.tile_count = sizeof tiles / sizeof *tiles;
  memcpy(h.tiles, tiles, sizeof tiles);
  *hardware = h;
  return HR_OK;
}
