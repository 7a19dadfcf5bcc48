/* SPDX-License-Identifier: Apache-2.0 */
/* Not in tests/kernels/harness: it times parts of a kernel.
 *
 * Where the time of CPU flash attention goes: each phase of an item alone, and all of them as the kernel runs them,
 * beside the rates of the ceiling loops of its GEMMs and exponentials. CSV, a line per phase.
 *   attention_phases KERNEL [DIM] [KEYS] [ROW_ELEMENTS]
 * ROW_ELEMENTS is the distance between rows of Q, K, V and O: DIM is [batch, heads, length, dim], 16 · DIM interleaves
 * 16 heads. One thread, no mask; the item is the one that the kernel would take for 16 heads of KEYS queries. Phases
 * are interleaved, times are of the processor, medians; a share is formed with the rates of the loops beside it. */
#include "attention_phases.h"

#include "base/error.h"
#include "runtime/cpu/ceilings/ceilings.h"
#include "runtime/cpu/flash/blocks.h"
#include "runtime/cpu/flash/plan.h"
#include "runtime/cpu/host/denormals.h"
#include "runtime/cpu/host/host.h"
#include "runtime/measure/statistics.h"

#include <headroom/experimental/headroom.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)

#define TURNS 31
#define LOOP_STEPS 20000
#define HEADS 16

typedef enum phase { PACK_Q, PACK_K, PACK_V, SCORES, WEIGHTS, VALUES, FINISH, STEPS, ALL, PHASES } phase;

static const char *const names[PHASES] = {"pack Q", "pack K",     "pack V",       "scores", "weights",
                                          "P V",    "O finished", "steps as run", "all"};

typedef struct bench {
  const phase_set *set;
  const hr_cpu_loop *gemm, *exp;
  hr_flash_blocks blocks;
  hr_flash_scores rules;
  int64_t dim, keys, rows, stride; /* stride in bytes */
  char *slot, *q, *k, *v, *o;
  int32_t first[HR_FLASH_TILE_ROWS_MAX], end[HR_FLASH_TILE_ROWS_MAX];
  float factor[HR_FLASH_TILE_ROWS_MAX], shift[HR_FLASH_TILE_ROWS_MAX];
} bench;

static double processor_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static hr_flash_step make_step(bench *b, int64_t row, int at, int64_t chunk)
{
  const hr_flash_version *version = b->set->version;
  const hr_flash_blocks *s = &b->blocks;
  int keys = at + version->step < version->chunk ? version->step : version->chunk - at;
  return (hr_flash_step){.scores = &b->rules,
                         .rows = (int)(b->rows - row < version->tile_rows ? b->rows - row : version->tile_rows),
                         .first_key = at,
                         .keys = keys,
                         .depth = s->depth,
                         .values = s->values,
                         .q = b->slot + s->q + 4 * row * s->depth,
                         .k = b->slot + s->k,
                         .v = b->slot + s->v,
                         .first = b->first,
                         .end = b->end,
                         .s = (float *)(void *)(b->slot + s->s),
                         .p = b->slot + s->p,
                         .factor = b->factor,
                         .shift = b->shift,
                         .base = (float *)(void *)(b->slot + s->row) + row,
                         .total = (float *)(void *)(b->slot + s->total) + row * HR_FLASH_LANES_MAX,
                         .o = (float *)(void *)(b->slot + s->o) + row * s->values,
                         .fresh = chunk == 0 && at == 0};
}

static void pack_queries(bench *b)
{
  for (int64_t row = 0; row < b->rows; row++)
    b->set->version->pack_q(b->set->dtype, b->q + row * b->stride, b->dim, false,
                            b->slot + b->blocks.q + 4 * row * b->blocks.depth, b->blocks.depth);
}

static void begin_rows(bench *b)
{
  memset(b->slot + b->blocks.total, 0, (size_t)(4 * b->rows * HR_FLASH_LANES_MAX));
  for (int64_t row = 0; row < b->rows; row++)
    ((float *)(void *)(b->slot + b->blocks.row))[row] = -(float)INFINITY;
}

static void pack_chunk(bench *b, phase what, int64_t chunk)
{
  const hr_flash_version *version = b->set->version;
  if (what == PACK_K || what == ALL)
    version->pack_k(b->set->dtype, b->k + chunk * b->stride, b->stride, version->chunk, b->dim, b->slot + b->blocks.k,
                    b->blocks.depth);
  if (what == PACK_V || what == ALL)
    version->pack_v(b->set->dtype, b->v + chunk * b->stride, b->stride, version->chunk, b->dim, b->slot + b->blocks.v);
}

/* A step runs when its successor is known, as in flash.c. */
static void run_steps(bench *b, int64_t chunk)
{
  const hr_flash_version *version = b->set->version;
  hr_flash_step steps[2];
  int made = 0, waiting = -1;
  for (int64_t row = 0; row < b->rows; row += version->tile_rows)
    for (int at = 0; at < version->chunk; at += version->step, made = !made) {
      steps[made] = make_step(b, row, at, chunk);
      if (waiting >= 0)
        version->run_step(&steps[waiting], &steps[made]);
      else if (version->begin_step)
        version->begin_step(&steps[made]);
      waiting = made;
    }
  version->run_step(&steps[waiting], NULL);
}

static void run_phase(bench *b, phase what, int64_t chunk)
{
  const phase_set *set = b->set;
  for (int64_t row = 0; row < b->rows; row += set->version->tile_rows)
    for (int at = 0; at < set->version->chunk; at += set->version->step) {
      hr_flash_step step = make_step(b, row, at, chunk);
      if (what == SCORES)
        set->scores(&step);
      else if (what == WEIGHTS)
        set->weights(&step);
      else
        set->values(&step);
    }
}

static void finish_rows(bench *b)
{
  for (int64_t row = 0; row < b->rows; row++)
    b->set->version->finish((const float *)(const void *)(b->slot + b->blocks.o) + row * b->blocks.values,
                            (const float *)(const void *)(b->slot + b->blocks.total) + row * HR_FLASH_LANES_MAX, b->dim,
                            b->set->dtype, b->o + row * b->stride);
}

static void run(bench *b, phase what)
{
  if (what == PACK_Q || what == ALL)
    pack_queries(b);
  if (what == ALL || what == STEPS)
    begin_rows(b);
  for (int64_t chunk = 0; chunk < b->keys; chunk += b->set->version->chunk) {
    pack_chunk(b, what, chunk);
    if (what == ALL || what == STEPS)
      run_steps(b, chunk);
    else if (what == SCORES || what == WEIGHTS || what == VALUES)
      run_phase(b, what, chunk);
  }
  if (what == FINISH || what == ALL)
    finish_rows(b);
}

/* The bound of a phase in ns, from the rates of the loops; 0: none. */
static double bound(const bench *b, phase what, double gemm_ns, double exp_ns)
{
  double scores = (double)b->rows * (double)b->keys, half = 2.0 * scores * (double)b->dim * gemm_ns;
  double exponentials = scores * exp_ns;
  const double of[PHASES] = {[SCORES] = half,
                             [WEIGHTS] = exponentials,
                             [VALUES] = half,
                             [STEPS] = 2 * half + exponentials,
                             [ALL] = 2 * half + exponentials};
  return of[what];
}

static void measure(bench *b)
{
  static double ns[PHASES][TURNS], share[PHASES][TURNS], rates[2][TURNS];
  float sink = 0;
  if (b->set->version->enter)
    b->set->version->enter();
  for (int i = 0; i < PHASES; i++)
    run(b, ALL);
  for (int turn = 0; turn < TURNS; turn++) {
    double start = processor_ns();
    sink += b->gemm->run(LOOP_STEPS);
    double middle = processor_ns();
    sink += b->exp->run(LOOP_STEPS);
    double end = processor_ns();
    if (b->set->version->enter)
      b->set->version->enter(); /* the loop had tiles of its own */
    double gemm_ns = (middle - start) / (b->gemm->count * LOOP_STEPS),
           exp_ns = (end - middle) / (b->exp->count * LOOP_STEPS);
    rates[0][turn] = 1 / gemm_ns;
    rates[1][turn] = 1 / exp_ns;
    for (phase i = 0; i < PHASES; i++) {
      start = processor_ns();
      run(b, i);
      ns[i][turn] = processor_ns() - start;
      share[i][turn] = bound(b, i, gemm_ns, exp_ns) / ns[i][turn];
    }
  }
  double gemm = hr_median_of(rates[0], TURNS).value, exps = hr_median_of(rates[1], TURNS).value;
  if (isnan(sink))
    printf("# the loops' results are NaN\n");
  for (phase i = 0; i < PHASES; i++) {
    hr_median time = hr_median_of(ns[i], TURNS), part = hr_median_of(share[i], TURNS);
    double scores = (double)b->rows * (double)b->keys;
    printf("%s,%s,%lld,%lld,%lld,%lld,%s,%.5f,%.5f,%.5f,%.2f,%.3f,%.4f\n", b->set->kernel, hr_dtype_name(b->set->dtype),
           (long long)b->dim, (long long)b->keys, (long long)b->rows,
           (long long)(b->stride / (int64_t)hr_dtype_bytes(b->set->dtype)), names[i], time.value / scores,
           time.low / scores, time.high / scores, gemm, exps, part.value);
  }
}

static const hr_cpu_loop *find_loop(hr_ceiling_kind kind, hr_dtype dtype, const char *needs)
{
  size_t count;
  const hr_cpu_loop *loops = hr_cpu_loops(&count);
  for (size_t i = 0; i < count; i++) {
    if (loops[i].kind == kind && loops[i].dtype == dtype && loops[i].needs && strcmp(loops[i].needs, needs) == 0)
      return &loops[i];
  }
  return NULL;
}

/* Uniform numbers of [−1, 1). */
static char *operand(hr_dtype dtype, int64_t elements, uint32_t seed)
{
  char *to = aligned_alloc(64, (size_t)elements * hr_dtype_bytes(dtype));
  for (int64_t i = 0; to && i < elements; i++) {
    seed = seed * 1664525u + 1013904223u;
    float x = (float)(seed >> 8) / 8388608.0F - 1;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (dtype == HR_FP32)
      memcpy(to + 4 * i, &bits, 4);
    else
      memcpy(to + 2 * i, (const char *)&bits + 2, 2);
  }
  return to;
}

static int prepare(bench *b)
{
  hr_attention a = hr_attention_default();
  a.batch = 1;
  a.q_len = a.kv_len = b->keys;
  a.q_heads = a.k_heads = a.v_heads = HEADS;
  a.qk_dim = a.v_dim = b->dim;
  a.dtype = b->set->dtype;
  b->blocks = hr_flash_cut(&a, b->set->version, 1, (int64_t)2 << 20);
  b->rows = b->blocks.item_heads * b->blocks.item_queries;
  b->rules = hr_flash_score_rules(&a, (float)(1 / sqrt((double)b->dim)));
  for (int i = 0; i < HR_FLASH_TILE_ROWS_MAX; i++)
    b->end[i] = b->set->version->chunk;
  int64_t element = (int64_t)hr_dtype_bytes(b->set->dtype),
          elements = b->stride / element * (b->rows > b->keys ? b->rows : b->keys);
  b->q = operand(b->set->dtype, elements, 1);
  b->k = operand(b->set->dtype, elements, 2);
  b->v = operand(b->set->dtype, elements, 3);
  b->o = operand(b->set->dtype, elements, 4);
  b->slot = aligned_alloc(64, (b->blocks.slot_bytes + 63) / 64 * 64);
  return b->q && b->k && b->v && b->o && b->slot ? 0 : 1;
}

int main(int argc, char **argv)
{
  const phase_set *const sets[] = {&phases_amx, &phases_avx512, &phases_avx2};
  bench b = {.dim = argc > 2 ? atoi(argv[2]) : 128, .keys = argc > 3 ? atoi(argv[3]) : 1024};
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
    if (argc > 1 && strcmp(sets[i]->kernel, argv[1]) == 0)
      b.set = sets[i];
  }
  hr_device *device;
  hr_error error;
  if (!b.set || b.dim < 16 || b.dim % 16 != 0 || b.keys < b.set->version->chunk ||
      b.keys % b.set->version->chunk != 0) {
    fprintf(stderr, "attention_phases: attention_flash_amx, _avx512 or _avx2; DIM in 16s; KEYS in whole chunks\n");
    return 1;
  }
  if (hr_device_open("cpu", 1, &device, &error) != HR_OK) {
    fprintf(stderr, "attention_phases: %s\n", error.message);
    return 1;
  }
  b.stride = (int64_t)hr_dtype_bytes(b.set->dtype) * (argc > 4 ? atoi(argv[4]) : b.dim);
  b.gemm = find_loop(HR_CEILING_GEMM, b.set->dtype, b.set->gemm_needs);
  b.exp = find_loop(HR_CEILING_EXP, HR_FP32, b.set->exp_needs);
  int code = 1;
  if (!hr_isa_has(&hr_cpu_of(device)->isa, b.set->gemm_needs) || !b.gemm || !b.exp) {
    fprintf(stderr, "attention_phases: this processor lacks %s\n", b.set->gemm_needs);
  } else if (prepare(&b) == 0) {
    printf("kernel,dtype,head_dim,kv_len,rows,row_elements,phase,ns_per_score,low,high,"
           "gflops_of_loop,exponentials_of_loop,of_bound\n");
    unsigned before = hr_cpu_flush_denormals();
    measure(&b);
    hr_cpu_restore_denormals(before);
    code = 0;
  }
  hr_device_close(device);
  free(b.q), free(b.k), free(b.v), free(b.o), free(b.slot);
  return code;
}

#else

int main(void)
{
  fprintf(stderr, "attention_phases: for x86-64\n");
  return 1;
}

#endif
