/* SPDX-License-Identifier: Apache-2.0 */
/* Which algorithm cuBLASLt's heuristic chooses for a GEMM, and how long its first choices take.
 *
 *   gemm_choices ask DEVICE SECONDS SEED COUNT FORMAT [odd|even] > FILE.csv     chooses, without running anything
 *   gemm_choices time DEVICE SECONDS SEED COUNT EVERY [odd|even] > FILE.csv     runs the first choice of each point
 *
 * `ask` draws three of four problems as `headroom validate` does (hr_points_draw), the others as a linear layer's: m
 * from 1, n and k multiples of 64. `time` draws as validate does and measures the first algorithm of each point at the
 * settled clock with cold caches, of every EVERY-th point the first CHOICES. With `odd`, only problems none of whose
 * sizes is a multiple of 8 are asked or timed; with `even`, those whose operands and result are aligned to 4 or 8 bytes
 * in all. An algorithm is written
 * id:tile:stages:splits:reduction:swizzle:option:inner:cluster, with the numbers of cublasLtMatmulAlgoConfigAttributes.
 * scripts/learn_choices.py reads the files. */
#include "base/error.h"
#include "hardware/hardware.h"
#include "runtime/cuda/driver/context.h"
#include "runtime/device/clock.h"
#include "runtime/device/device.h"
#include "runtime/measure/runner.h"
#include "runtime/measure/settle.h"
#include "runtime/measure/statistics.h"

#include <headroom/experimental/headroom.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHOICES 5
#define WORKSPACE_BYTES ((size_t)32 << 20) /* as runtime/cuda/gemm/gemm.c asks */
#define HOT_FLOPS_PER_S 150e12             /* above, a GPU's clock falls with the power */
#define HOT_WARM_UP_NS 110e6
#define WARM_UP_NS 25e6
#define SAMPLES_NS 12e6
#define SAMPLES_MAX 60
#define SAMPLES_MIN 10
#define DEVICE_BYTES ((size_t)16 << 30) /* of all buffers of a point */

/* ---- the heuristic ---- */

typedef struct asked {
  lt_description description;
  lt_layout first, second, result;
} asked;

static int type_of(hr_dtype dtype)
{
  static const int types[HR_DTYPE_COUNT] = {
      [HR_FP32] = LT_R_32F, [HR_TF32] = LT_R_32F, [HR_FP16] = LT_R_16F, [HR_BF16] = LT_R_16BF};
  return types[dtype];
}

static hr_status make_layout(const hr_cublaslt *lt, int type, const hr_matrix *matrix, int64_t batch, lt_layout *layout,
                             hr_error *error)
{
  int32_t count = (int32_t)batch;
  int64_t stride = matrix->batch_stride;
  HR_TRY(HR_LT(lt, cublasLtMatrixLayoutCreate,
               (layout, type, (uint64_t)matrix->columns, (uint64_t)matrix->rows, matrix->leading_dimension), error));
  if (batch == 1)
    return HR_OK;
  HR_TRY(HR_LT(lt, cublasLtMatrixLayoutSetAttribute, (*layout, LT_LAYOUT_BATCH_COUNT, &count, sizeof count), error));
  return HR_LT(lt, cublasLtMatrixLayoutSetAttribute, (*layout, LT_LAYOUT_BATCH_STRIDE, &stride, sizeof stride), error);
}

static hr_status describe(const hr_cublaslt *lt, const hr_gemm *g, asked *q, hr_error *error)
{
  const hr_matrix a = hr_gemm_a(g), b = hr_gemm_b(g), c = hr_gemm_c(g);
  int32_t first = g->transpose_b ? LT_OP_T : LT_OP_N, second = g->transpose_a ? LT_OP_T : LT_OP_N;
  int compute = g->dtype == HR_TF32 ? LT_COMPUTE_32F_FAST_TF32 : LT_COMPUTE_32F, type = type_of(g->dtype);
  HR_TRY(HR_LT(lt, cublasLtMatmulDescCreate, (&q->description, compute, LT_R_32F), error));
  HR_TRY(
      HR_LT(lt, cublasLtMatmulDescSetAttribute, (q->description, LT_DESCRIPTION_TRANSA, &first, sizeof first), error));
  HR_TRY(HR_LT(lt, cublasLtMatmulDescSetAttribute, (q->description, LT_DESCRIPTION_TRANSB, &second, sizeof second),
               error));
  HR_TRY(make_layout(lt, type, &b, g->batch, &q->first, error));
  HR_TRY(make_layout(lt, type, &a, g->batch, &q->second, error));
  return make_layout(lt, type, &c, g->batch, &q->result, error);
}

static hr_status set_preference(const hr_cublaslt *lt, const hr_gemm *g, lt_preference preference, hr_error *error)
{
  const hr_matrix operands[] = {hr_gemm_b(g), hr_gemm_a(g), hr_gemm_c(g), hr_gemm_c(g)};
  const int64_t element = (int64_t)hr_dtype_bytes(g->dtype);
  size_t workspace = WORKSPACE_BYTES;
  HR_TRY(HR_LT(lt, cublasLtMatmulPreferenceSetAttribute,
               (preference, LT_PREFERENCE_WORKSPACE_BYTES, &workspace, sizeof workspace), error));
  for (int i = 0; i < 4 && g->batch > 1; i++) {
    int64_t stride = operands[i].batch_stride * element, row = operands[i].leading_dimension * element;
    uint32_t bytes = 1;
    while (bytes < 256 && stride % (bytes * 2) == 0)
      bytes *= 2;
    if (stride == 0 || bytes == 256 || row % (bytes * 2) != 0)
      continue;
    HR_TRY(HR_LT(lt, cublasLtMatmulPreferenceSetAttribute,
                 (preference, LT_PREFERENCE_ALIGNMENT_A + i, &bytes, sizeof bytes), error));
  }
  return HR_OK;
}

static hr_status ask(const hr_cuda *cuda, const hr_gemm *g, int wanted, lt_heuristic *found, int *count,
                     hr_error *error)
{
  const hr_cublaslt *lt = &cuda->cublaslt;
  asked q = {NULL, NULL, NULL, NULL};
  lt_preference preference = NULL;
  *count = 0;
  hr_status status = HR_LT(lt, cublasLtMatmulPreferenceCreate, (&preference), error);
  if (status == HR_OK)
    status = describe(lt, g, &q, error);
  if (status == HR_OK)
    status = set_preference(lt, g, preference, error);
  if (status == HR_OK)
    status = HR_LT(lt, cublasLtMatmulAlgoGetHeuristic,
                   (cuda->lt, q.description, q.first, q.second, q.result, q.result, preference, wanted, found, count),
                   error);
  lt_layout layouts[] = {q.first, q.second, q.result};
  for (int i = 0; i < 3; i++) {
    if (layouts[i])
      lt->cublasLtMatrixLayoutDestroy(layouts[i]);
  }
  if (q.description)
    lt->cublasLtMatmulDescDestroy(q.description);
  if (preference)
    lt->cublasLtMatmulPreferenceDestroy(preference);
  return status;
}

/* The attributes of 4 and 2 bytes, in the order in which they are written. */
static void write_algorithm(const hr_cublaslt *lt, const lt_heuristic *h, char text[128])
{
  static const struct {
    int attribute;
    size_t bytes;
  } fields[] = {{LT_CONFIG_ID, 4},
                {LT_CONFIG_TILE, 4},
                {LT_CONFIG_STAGES, 4},
                {LT_CONFIG_SPLIT_K, 4},
                {LT_CONFIG_REDUCTION, 4},
                {4, 4},
                {5, 4},
                {7, 2},
                {LT_CONFIG_CLUSTER, 2}};
  int used = 0;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    uint32_t wide = 0;
    uint16_t narrow = 0;
    size_t written;
    void *value = fields[i].bytes == 4 ? (void *)&wide : (void *)&narrow;
    if (lt->cublasLtMatmulAlgoConfigGetAttribute(&h->algorithm, fields[i].attribute, value, fields[i].bytes,
                                                 &written) != LT_SUCCESS)
      wide = 0, narrow = 0;
    uint32_t number = fields[i].bytes == 4 ? wide : narrow;
    used += snprintf(text + used, 128 - (size_t)used, i == 0 ? "%" PRId32 : ":%" PRId32, (int32_t)number);
  }
}

/* ---- the problems ---- */

static uint64_t next_number(uint64_t *state)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u; /* Knuth's linear congruential generator */
  return *state >> 33;
}

static int64_t log_uniform(uint64_t *state, double least, double most)
{
  double u = (double)next_number(state) / 2147483648.0;
  return (int64_t)floor(least * exp(u * log(most / least)));
}

static hr_gemm linear_layer(uint64_t *state, hr_dtype dtype)
{
  hr_gemm g = hr_gemm_default();
  uint64_t pass = next_number(state) % 4;
  g.dtype = dtype;
  g.m = log_uniform(state, 1, 32768);
  g.n = log_uniform(state, 1, 1024) * 64;
  g.k = log_uniform(state, 1, 512) * 64;
  g.transpose_b = pass < 3;
  return g;
}

static bool is_odd(const hr_gemm *g)
{
  return g->m % 8 != 0 && g->n % 8 != 0 && g->k % 8 != 0;
}

/* Rows of operands and result begin at even multiples of an element, but not at multiples of 8. */
static bool is_even(const hr_gemm *g)
{
  int64_t a = g->transpose_a ? g->m : g->k, b = g->transpose_b ? g->k : g->n;
  return a % 2 == 0 && b % 2 == 0 && g->n % 2 == 0 && (a % 8 != 0 || b % 8 != 0 || g->n % 8 != 0);
}

/* Moves the problems that are wanted to the front and returns their number. */
static size_t keep(hr_point *points, size_t count, bool (*wanted)(const hr_gemm *g))
{
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    if (wanted(&points[i].gemm))
      points[kept++] = points[i];
  }
  return kept;
}

/* ---- asking ---- */

static void print_problem(const hr_gemm *g)
{
  printf("%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%d%d", g->m, g->n, g->k, g->batch, g->transpose_a,
         g->transpose_b);
}

static void ask_all(const hr_cuda *cuda, const hr_point *points, size_t count, uint64_t seed, hr_dtype dtype, bool some,
                    double limit_ns)
{
  double begin = hr_clock_ns();
  uint64_t state = seed;
  printf("m,n,k,batch,transposes,algorithm\n");
  for (size_t i = 0; i < count && hr_clock_ns() - begin < limit_ns; i++) {
    hr_gemm g = i % 4 == 3 && !some ? linear_layer(&state, dtype) : points[i].gemm;
    lt_heuristic found;
    int answers;
    hr_error error = {.status = HR_OK};
    char text[128] = "none";
    if (ask(cuda, &g, 1, &found, &answers, &error) == HR_OK && answers > 0)
      write_algorithm(&cuda->cublaslt, &found, text);
    print_problem(&g);
    printf(",%s\n", text);
  }
  fprintf(stderr, "gemm_choices: %.1f s\n", (hr_clock_ns() - begin) * 1e-9);
}

/* ---- timing ---- */

static hr_status sample_for(hr_runner *runner, double limit_ns, int64_t least, double *samples, int64_t most,
                            int64_t *count, hr_error *error)
{
  double start = hr_clock_ns(), one;
  *count = 0;
  while (*count < least || (hr_clock_ns() - start < limit_ns && (!samples || *count < most))) {
    HR_TRY(hr_runner_sample(runner, &one, error));
    if (samples)
      samples[*count] = one;
    ++*count;
  }
  return HR_OK;
}

static hr_status time_choice(hr_runner *runner, const hr_gemm *g, hr_median *median, int64_t *count, hr_error *error)
{
  double samples[SAMPLES_MAX], first_ns;
  hr_runner_regroup(runner, 1); /* forgets the recording of the choice before */
  runner->group = 1;            /* until hr_runner_choose_group() */
  HR_TRY(hr_runner_sample(runner, &first_ns, error));
  HR_TRY(hr_runner_sample(runner, &first_ns, error));
  HR_TRY(hr_runner_choose_group(runner, first_ns, error));
  HR_TRY(hr_runner_sample(runner, &first_ns, error));
  double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k * (double)g->batch;
  bool hot = flops / first_ns * 1e9 > HOT_FLOPS_PER_S;
  HR_TRY(sample_for(runner, hot ? HOT_WARM_UP_NS : WARM_UP_NS, 1, NULL, 0, count, error));
  HR_TRY(sample_for(runner, SAMPLES_NS, SAMPLES_MIN, samples, SAMPLES_MAX, count, error));
  *median = hr_median_of(samples, *count);
  return HR_OK;
}

static hr_status time_point(hr_device *device, const hr_gemm *g, int choices, size_t index, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  lt_heuristic found[CHOICES];
  hr_runner runner = {.device = NULL};
  hr_problem problem = hr_gemm_problem(g);
  hr_measure_options options = hr_measure_options_default();
  int answers = 0;
  options.memory_limit_bytes = (int64_t)DEVICE_BYTES;
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = ask(cuda, g, choices, found, &answers, error);
  hr_cuda_leave(cuda);
  HR_TRY(status);
  status = hr_runner_open(device, &problem, &options, &runner, error);
  if (status == HR_OK) {
    hr_buffer_free(runner.workspace);
    runner.workspace = NULL;
    status = hr_buffer_create(device, WORKSPACE_BYTES, &runner.workspace, error);
  }
  for (int i = 0; i < answers && status == HR_OK; i++) {
    char text[128];
    hr_median median;
    hr_conditions now;
    int64_t count;
    status = hr_plan_choose(runner.plan, i, choices, error);
    if (status == HR_OK)
      status = time_choice(&runner, g, &median, &count, error);
    if (status != HR_OK)
      break;
    hr_device_conditions(device, &now);
    write_algorithm(&cuda->cublaslt, &found[i], text);
    printf("%zu,", index);
    print_problem(g);
    printf(",%d,%d,%s,%.3f,%.1f,%.1f,%.1f,%" PRId64 ",%" PRId64 ",%.0f,%.0f,\"%s\"\n", i, answers, text,
           (double)found[i].waves, median.value, median.low, median.high, count, runner.sets, now.clock_hz * 1e-6,
           now.power_w, hr_plan_configuration(runner.plan));
    fflush(stdout);
  }
  hr_runner_close(&runner);
  return status;
}

static void time_all(hr_device *device, const hr_point *points, size_t count, size_t every, double limit_ns)
{
  double begin = hr_clock_ns();
  printf("index,m,n,k,batch,transposes,choice,choices,algorithm,waves,time_ns,low_ns,high_ns,samples,sets,clock_mhz,"
         "power_w,configuration\n");
  for (size_t i = 0; i < count && hr_clock_ns() - begin < limit_ns; i++) {
    hr_error error = {.status = HR_OK};
    if (time_point(device, &points[i].gemm, every > 0 && i % every == 0 ? CHOICES : 1, i, &error) != HR_OK)
      fprintf(stderr, "gemm_choices: point %zu: %s\n", i, error.message);
  }
  fprintf(stderr, "gemm_choices: %.1f s\n", (hr_clock_ns() - begin) * 1e-9);
}

static hr_dtype dtype_of(const char *name)
{
  for (int i = 0; i < HR_DTYPE_COUNT; i++) {
    if (strcmp(hr_dtype_name((hr_dtype)i), name) == 0)
      return (hr_dtype)i;
  }
  return HR_BF16;
}

int main(int count, char **texts)
{
  hr_device *device;
  hr_hardware hardware;
  hr_point *points;
  size_t drawn;
  hr_error error = {.status = HR_OK};
  bool odd = count == 8 && strcmp(texts[7], "odd") == 0, even = count == 8 && strcmp(texts[7], "even") == 0;
  bool right = count == 7 || odd || even;
  bool times = right && strcmp(texts[1], "time") == 0;
  if (!right || (!times && strcmp(texts[1], "ask") != 0))
    return fprintf(stderr, "gemm_choices ask|time DEVICE SECONDS SEED COUNT FORMAT|EVERY [odd|even]\n"), 2;
  double limit_ns = strtod(texts[3], NULL) * 1e9;
  hr_points_draw_options options = hr_points_draw_options_default();
  hr_measure_options measure = hr_measure_options_default();
  options.seed = (uint64_t)strtoull(texts[4], NULL, 10);
  options.count = strtoll(texts[5], NULL, 10);
  options.kinds = 1u << HR_INTERVAL_GEMM | 1u << HR_INTERVAL_BMM;
  options.dtype = times ? HR_BF16 : dtype_of(texts[6]);
  if (hr_resolve_hardware("h200", &hardware, &error) != HR_OK ||
      hr_points_draw(&hardware, &options, &points, &drawn, &error) != HR_OK ||
      hr_device_open(texts[2], 0, &device, &error) != HR_OK)
    return fprintf(stderr, "gemm_choices: %s\n", error.message), 1;
  if (times && hr_device_settle(device, &measure, &error) != HR_OK)
    return fprintf(stderr, "gemm_choices: %s\n", error.message), 1;
  if (odd || even)
    drawn = keep(points, drawn, odd ? is_odd : is_even);
  const hr_cuda *cuda = device->state;
  char version[32];
  hr_cublaslt_version(&cuda->cublaslt, version, sizeof version);
  if (hr_device_detect(device, &hardware, &error) == HR_OK)
    printf("# %s, cuBLASLt %s, seed %" PRIu64 "\n", hardware.about.product, version, options.seed);
  if (times) {
    time_all(device, points, drawn, (size_t)strtoull(texts[6], NULL, 10), limit_ns);
  } else if (hr_cuda_enter(cuda, &error) == HR_OK) {
    ask_all(cuda, points, drawn, options.seed, options.dtype, odd || even, limit_ns);
    hr_cuda_leave(cuda);
  }
  free(points);
  hr_device_close(device);
  return 0;
}
