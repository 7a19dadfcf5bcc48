/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates of the CPU's rates without measuring: instruction set × cores × clock, and a guess of bandwidth by the
 * number of cores. hr_device_probe() replaces both by measurements. */
#include "base/names.h"
#include "base/text.h"
#include "hardware/hardware.h"
#include "runtime/cpu/cpu.h"
#include "runtime/device/host.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CLOCK_UNKNOWN_HZ 2.5e9
/* Memory bandwidth of one core alone, and of a socket: typical of DDR4 and DDR5 servers. */
#define CORE_BANDWIDTH 12e9
#define SOCKET_BANDWIDTH 200e9
/* Share of the peak that a GEMM library reaches: Debian 12's oneDNN 2.6 reached 0.4 to 0.7 in fp32 and 0.1 to 0.5 in
 * bf16 on the machines tried. */
#define LIBRARY_SHARE_FP32 0.6
#define LIBRARY_SHARE_BF16 0.4
/* Expected error of a predicted time: a factor of three, as clock, memory channels and library share are guesses. */
#define ERROR_BAND 2.0

static double read_khz(const char *path)
{
  FILE *file = fopen(path, "re");
  uint64_t khz = 0;
  if (file && fscanf(file, "%" SCNu64, &khz) != 1)
    khz = 0;
  if (file)
    fclose(file);
  return (double)khz;
}

/* The highest clock by the kernel, or else the present one, which in a virtual machine is the time stamp counter's. */
static double clock_hz(void)
{
  double khz = read_khz("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  if (khz > 0)
    return khz * 1e3;
  double mhz = 0;
  FILE *file = fopen("/proc/cpuinfo", "re");
  char line[256];
  while (file && mhz <= 0 && fgets(line, sizeof line, file)) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "cpu MHz", 7) == 0 && colon)
      mhz = hr_read_number(colon + 1, NULL);
  }
  if (file)
    fclose(file);
  return mhz > 0 ? mhz * 1e6 : CLOCK_UNKNOWN_HZ;
}

/* How oneDNN's GEMMs slow down where a dimension is short. Rows: packed B is reused by each row of A, so few
 * rows must pay for the packing. Columns: its kernels are 64 wide and cost little more at the edge, down to 16. Shares
 * are from GEMMs of 512 × n × 512 and m × 512 × 512, fp32 and bf16, one thread of an AMD EPYC (Zen 5), oneDNN 2.6,
 * November 2026; other processors are assumed alike. */
static const hr_tile tiles[] = {{512, 64, 1.0},  {256, 64, 0.95}, {128, 64, 0.89}, {64, 64, 0.77}, {48, 64, 0.70},
                                {32, 64, 0.56},  {16, 64, 0.39},  {8, 64, 0.26},   {4, 64, 0.15},  {1, 64, 0.04},
                                {512, 16, 0.92}, {128, 16, 0.82}, {64, 16, 0.71},  {16, 16, 0.36}};

/* Rows that do not start at a cache line: the library packs its operands, and GEMMs of 1024 × 50257 × 768 and
 * 1024 × 4097 × 4096 took at most 1% longer than with 50304 and 4096 (bf16, both cores of the same processor). */
static const hr_alignment_class alignments[] = {{1, 0.99, 0.99, 0.99}, {64, 1, 1, 1}};

static void set_rates(const hr_device *device, const hr_isa *isa, hr_hardware *hardware)
{
  for (int i = 0; i < HR_DTYPE_COUNT; i++)
    hardware->dense_flops_per_s[i] = isa->flops_per_cycle[i] * hardware->clock_hz * device->threads;
  hardware->library_share[HR_FP32] = LIBRARY_SHARE_FP32;
  hardware->library_share[HR_BF16] = LIBRARY_SHARE_BF16;
}

static int64_t memory_bytes(const hr_topology *topology)
{
  size_t available = hr_host_memory_available();
  return available < (size_t)topology->memory_bytes ? (int64_t)available : topology->memory_bytes;
}

hr_status hr_cpu_detect(const hr_device *device, hr_hardware *hardware, hr_error *error)
{
  (void)error;
  const hr_cpu *cpu = hr_cpu_of(device);
  const hr_topology *topology = &cpu->topology;
  hr_hardware h = {.about.kind = HR_HARDWARE_CPU, .about.calibration = HR_CALIBRATION_ESTIMATED};
  hr_copy_text(h.about.name, sizeof h.about.name, device->name);
  snprintf(h.about.product, sizeof h.about.product, "%.60s, %d core%s", cpu->isa.brand[0] ? cpu->isa.brand : "CPU",
           device->threads, device->threads == 1 ? "" : "s");
  hr_copy_text(h.about.architecture, sizeof h.about.architecture, cpu->isa.architecture);
  h.error_band = ERROR_BAND;
  h.multiprocessors = device->threads;
  h.blocks_per_multiprocessor = 1;
  h.clock_hz = clock_hz();
  set_rates(device, &cpu->isa, &h);
  h.bandwidth_bytes_per_s = fmin(CORE_BANDWIDTH * device->threads, SOCKET_BANDWIDTH * fmax(topology->sockets, 1));
  h.bandwidth_share = 1;
  h.memory_bytes = memory_bytes(topology);
  h.l2_bytes = topology->cache_bytes;
  h.shared_bytes = topology->core_cache_bytes;
  h.launch_ns = 2000; /* a library call that wakes the other threads */
  h.numa_nodes = hr_processors_count(&cpu->affinity.nodes);
  hr_affinity_describe(&cpu->affinity, h.placement, sizeof h.placement);
  h.tile_count = sizeof tiles / sizeof *tiles;
  memcpy(h.tiles, tiles, sizeof tiles);
  h.alignment_count = sizeof alignments / sizeof *alignments;
  memcpy(h.alignments, alignments, sizeof alignments);
  *hardware = h;
  return HR_OK;
}
