/* SPDX-License-Identifier: Apache-2.0 */
/* Not in tests/kernels/harness: it times plans, not runs.
 *
 * Start-up time of the first attention call of a shape: NVRTC, and from then on the cache on disk.
 *   attention_compile [ARCHITECTURE]     sm_90a if none is named; needs NVRTC
 * One row per kernel and problem, in ms: compiling with an empty cache, reading the result from the cache, and with a
 * GPU a whole plan with a full cache: reading, loading onto the GPU, cuBLASLt's heuristic. The last two are medians of
 * 5. */
#include "runtime/cuda/attention/attention.h"
#include "runtime/cuda/driver/cache.h"
#include "runtime/cuda/driver/program.h"
#include "runtime/device/clock.h"
#include "runtime/measure/statistics.h"

#include <dirent.h>
#include <headroom/experimental/headroom.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHARED_MAX ((size_t)227 << 10) /* bytes of a block on compute capability 9.0 */
#define CACHED 5
#define COMPILE_MS_MAX 3000
#define CACHED_MS_MAX 20

typedef struct shape {
  int64_t qk_dim, v_dim;
  bool causal, score_mod;
} shape;

static const shape shapes[] = {{64, 64, false, false},  {64, 64, true, false},   {128, 128, false, false},
                               {128, 128, true, false}, {192, 128, true, false}, {256, 256, false, false},
                               {256, 256, true, false}, {128, 128, true, true}};

static hr_attention attention_of(const shape *s, hr_dtype dtype)
{
  hr_attention a = hr_attention_default();
  a.dtype = dtype;
  a.q_len = a.kv_len = 4096;
  a.q_heads = a.k_heads = a.v_heads = 16;
  a.qk_dim = s->qk_dim, a.v_dim = s->v_dim;
  a.mask = s->causal ? HR_MASK_CAUSAL : HR_MASK_NONE;
  a.softcap = s->score_mod ? 30 : 0;
  return a;
}

/* ---- the program of a kernel ---- */

static void define_sm90(const hr_attention *a, char text[HR_DEFINES_SIZE])
{
  hr_flash_sm90 tiles = hr_flash_sm90_choose(a);
  hr_flash_sm90_defines(&tiles, text);
}

static void define_sm80(const hr_attention *a, char text[HR_DEFINES_SIZE])
{
  hr_flash_sm80 tiles = hr_flash_sm80_choose(a, SHARED_MAX);
  hr_flash_sm80_defines(&tiles, hr_cuda_attention_score_defines(a), true, text);
}

static void define_fp32(const hr_attention *a, char text[HR_DEFINES_SIZE])
{
  hr_flash_fp32 tiles = hr_flash_fp32_choose(a, SHARED_MAX);
  hr_flash_fp32_defines(&tiles, hr_cuda_attention_score_defines(a), true, text);
}

static void define_blocked(const hr_attention *a, char text[HR_DEFINES_SIZE])
{
  hr_blocked tiles = hr_blocked_choose(a, SHARED_MAX);
  hr_blocked_defines(&tiles, a->dtype, hr_cuda_attention_score_defines(a), true, text);
}

static void define_materialized(const hr_attention *a, char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE, "%s", hr_cuda_attention_score_defines(a));
}

typedef struct kernel {
  const char *name, *source;
  hr_dtype dtype;
  void (*define)(const hr_attention *attention, char text[HR_DEFINES_SIZE]);
} kernel;

static const kernel kernels[] = {
    {"attention_flash_sm90", "attention_flash_sm90", HR_BF16, define_sm90},
    {"attention_flash_sm80", "attention_flash_sm80", HR_BF16, define_sm80},
    {"attention_flash_fp32", "attention_flash_fp32", HR_FP32, define_fp32},
    {"attention_blocked_cublaslt", "attention_blocked", HR_BF16, define_blocked},
    {"attention_materialized_cublaslt", "attention_materialized", HR_BF16, define_materialized},
    {"attention_naive_cuda", "attention_naive", HR_BF16, hr_naive_cuda_defines},
};

/* ---- times ---- */

static void empty_folder(const char *folder)
{
  char path[HR_CACHE_PATH_SIZE + 300];
  DIR *entries = opendir(folder);
  for (struct dirent *entry; entries && (entry = readdir(entries));) {
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (entry->d_name[0] != '.')
      unlink(path);
  }
  if (entries)
    closedir(entries);
}

typedef struct bench {
  hr_nvrtc nvrtc;
  const char *architecture, *folder;
  hr_device *kept; /* keeps the context alive; NULL: no GPU */
  hr_error error;
} bench;

static double build_ms(bench *b, const kernel *k, const hr_attention *a)
{
  char defines[HR_DEFINES_SIZE], *image = NULL;
  size_t bytes = 0;
  hr_program program = {.source = k->source, .dtype = k->dtype, .defines = defines};
  snprintf(program.architecture, sizeof program.architecture, "%s", b->architecture);
  k->define(a, defines);
  /* With a driver NVRTC has its own cache, by source and options: ask for options that it cannot have. */
  snprintf(defines + strlen(defines), sizeof defines - strlen(defines), " HR_RUN_%ld", (long)getpid());
  double start_ns = hr_clock_ns();
  hr_status status = hr_program_build(&b->nvrtc, &program, b->folder, &image, &bytes, &b->error);
  free(image);
  return status == HR_OK ? (hr_clock_ns() - start_ns) * 1e-6 : (double)NAN;
}

/* On a device without a loaded module. */
static double plan_ms(bench *b, const kernel *k, const hr_attention *a)
{
  hr_device *device = NULL;
  hr_plan *plan = NULL;
  double time = (double)NAN;
  if (hr_device_open("cuda:0", 0, &device, &b->error) != HR_OK)
    return time;
  double start_ns = hr_clock_ns();
  if (hr_plan_attention(device, a, k->name, &plan, &b->error) == HR_OK)
    time = (hr_clock_ns() - start_ns) * 1e-6;
  hr_plan_free(plan);
  hr_device_close(device);
  return time;
}

/* The cache stays as it is. */
static double median(bench *b, const kernel *k, const hr_attention *a,
                     double (*time_ms)(bench *, const kernel *, const hr_attention *))
{
  double times[CACHED];
  for (int i = 0; i < CACHED; i++) {
    times[i] = time_ms(b, k, a);
    if (isnan(times[i]))
      return times[i];
  }
  return hr_median_of(times, CACHED).value;
}

static bool measure(bench *b, const kernel *k, const shape *s)
{
  hr_attention a = attention_of(s, k->dtype);
  empty_folder(b->folder);
  double compiled = build_ms(b, k, &a), cached = median(b, k, &a, build_ms), planned = 0;
  printf("%-32s %-5s %3d %3d %-6s %-7s %9.0f %8.2f", k->name, hr_dtype_name(k->dtype), (int)s->qk_dim, (int)s->v_dim,
         s->causal ? "causal" : "", s->score_mod ? "softcap" : "", compiled, cached);
  if (b->kept) {
    plan_ms(b, k, &a);
    planned = median(b, k, &a, plan_ms);
    printf(" %8.2f", planned);
  }
  bool right = !isnan(compiled) && !isnan(cached) && !isnan(planned);
  printf("  %s\n", right ? "" : b->error.message);
  fflush(stdout);
  return right && compiled <= COMPILE_MS_MAX && cached <= CACHED_MS_MAX && planned <= CACHED_MS_MAX;
}

static bool open_bench(bench *b, const char *base)
{
  char folder[HR_CACHE_PATH_SIZE];
  setenv("XDG_CACHE_HOME", base, 1); /* used by this program only, and deleted at the end */
  hr_cache_folder(folder);
  b->folder = strdup(folder);
  if (!b->folder || hr_nvrtc_open(&b->nvrtc, &b->error) != HR_OK)
    return false;
  if (hr_device_open("cuda:0", 0, &b->kept, &b->error) != HR_OK)
    b->kept = NULL;
  printf("# NVRTC %d.%d for %s, %s\n", b->nvrtc.major, b->nvrtc.minor, b->architecture,
         b->kept ? hr_device_name(b->kept) : "no GPU here");
  return true;
}

int main(int argc, char **argv)
{
  char base[] = "/tmp/headroom-compile-XXXXXX";
  bench b = {.architecture = argc > 1 ? argv[1] : "sm_90a"};
  if (!mkdtemp(base) || !open_bench(&b, base)) {
    fprintf(stderr, "attention_compile: %s\n", b.error.message);
    return 1;
  }
  bool within = true;
  printf("%-32s %-5s %3s %3s %-6s %-7s %9s %8s %8s\n", "kernel", "dtype", "qk", "v", "mask", "", "compile", "cached",
         b.kept ? "plan" : "");
  for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      within = measure(&b, &kernels[k], &shapes[s]) && within;
  empty_folder(b.folder);
  rmdir(b.folder);
  rmdir(base);
  hr_device_close(b.kept);
  hr_nvrtc_close(&b.nvrtc);
  printf("%s: compiling within %d ms, the cache within %d ms\n", within ? "all" : "NOT all", COMPILE_MS_MAX,
         CACHED_MS_MAX);
  return within ? 0 : 1;
}
