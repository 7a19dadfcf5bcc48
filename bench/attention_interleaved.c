/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two attention kernels, interleaved on the same operands: one line per call, with both times and the ratio of
 * the second to the first.
 *   attention_interleaved KERNEL KERNEL [DTYPES [LENGTHS [DEVICE]]]      "bf16 tf32", "2048 16384", …
 * Times are measured on the device; the median of the ratios is reported. Sampled rows of both are first compared with
 * the float64 reference. */
#include "base/error.h"
#include "base/names.h"
#include "runtime/device/plan.h"
#include "runtime/measure/statistics.h"

#include <headroom/headroom.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PAIRS 9

typedef struct shape {
  int64_t batch, heads, k_heads, v_heads, dim;
  bool causal;
} shape;

static const shape shapes[] = {{4, 12, 12, 12, 64, false}, {1, 32, 32, 32, 128, false}, {1, 32, 8, 8, 128, false},
                               {1, 32, 4, 16, 64, false},  {1, 8, 8, 8, 256, false},    {1, 32, 32, 32, 128, true}};

typedef struct contender {
  hr_plan *plan;
  hr_buffer *workspace;
  hr_attention_arguments arguments;
  void *recording;
} contender;

typedef struct turns {
  hr_device *device;
  contender of[2];
  hr_buffer *operands[4];
} turns;

static hr_status run(void *context, hr_error *error)
{
  const contender *c = context;
  return hr_plan_run_attention(c->plan, &c->arguments, c->workspace ? hr_buffer_data(c->workspace) : NULL, NULL, error);
}

static hr_status check(hr_device *device, const hr_attention *a, const char *kernel, hr_error *error)
{
  hr_measurement m;
  hr_measure_options options = hr_measure_options_default();
  options.kernel = kernel;
  options.samples_min = options.samples_max = 1;
  HR_TRY(hr_measure_attention(device, a, &options, &m, error));
  if (m.status == HR_OK || m.status == HR_ERROR_NOISY)
    return HR_OK;
  return hr_fail(error, m.status, "%s: %s", kernel, m.reason);
}

static hr_status make_operands(turns *t, const hr_attention *a, hr_error *error)
{
  int64_t elements[4] = {a->batch * a->q_len * a->q_heads * a->qk_dim, a->batch * a->kv_len * a->k_heads * a->qk_dim,
                         a->batch * a->kv_len * a->v_heads * a->v_dim, a->batch * a->q_len * a->q_heads * a->v_dim};
  for (int i = 0; i < 4; i++) {
    HR_TRY(hr_buffer_create(t->device, (size_t)elements[i] * hr_dtype_bytes(a->dtype), &t->operands[i], error));
    HR_TRY(hr_buffer_fill_uniform(t->operands[i], a->dtype, (uint64_t)i + 1, error));
  }
  return HR_OK;
}

static hr_status make(turns *t, const hr_attention *a, char **kernels, hr_error *error)
{
  HR_TRY(make_operands(t, a, error));
  for (int i = 0; i < 2; i++) {
    contender *c = &t->of[i];
    HR_TRY(hr_plan_attention(t->device, a, kernels[i], &c->plan, error));
    size_t bytes = hr_plan_workspace_bytes(c->plan);
    if (bytes > 0)
      HR_TRY(hr_buffer_create(t->device, bytes, &c->workspace, error));
    c->arguments = hr_attention_arguments_default();
    c->arguments.q = hr_buffer_data(t->operands[0]), c->arguments.k = hr_buffer_data(t->operands[1]);
    c->arguments.v = hr_buffer_data(t->operands[2]), c->arguments.o = hr_buffer_data(t->operands[3]);
  }
  return HR_OK;
}

static hr_status take_turns(turns *t, double times[2][PAIRS], double *ratios, hr_error *error)
{
  for (int i = -1; i < PAIRS; i++) { /* the first pair is a warm-up */
    double time_ns[2];
    for (int k = 0; k < 2; k++)
      HR_TRY(t->device->backend->time_runs(t->device, run, &t->of[k], 1, &t->of[k].recording, &time_ns[k], error));
    if (i < 0)
      continue;
    times[0][i] = time_ns[0], times[1][i] = time_ns[1];
    ratios[i] = time_ns[1] / time_ns[0];
  }
  return HR_OK;
}

static void release(turns *t)
{
  for (int k = 0; k < 2; k++) {
    t->device->backend->forget(t->device, t->of[k].recording);
    hr_buffer_free(t->of[k].workspace);
    hr_plan_free(t->of[k].plan);
  }
  for (int i = 0; i < 4; i++)
    hr_buffer_free(t->operands[i]);
}

static void print(const turns *t, const hr_attention *a, double times[2][PAIRS], double *ratios)
{
  double ratio = hr_median_of(ratios, PAIRS).value; /* also sorts them */
  printf("%-4s batch %" PRId64 " heads %2" PRId64 "/%2" PRId64 "/%2" PRId64 " d %3" PRId64 " s %5" PRId64 "%s",
         hr_dtype_name(a->dtype), a->batch, a->q_heads, a->k_heads, a->v_heads, a->qk_dim, a->q_len,
         a->mask == HR_MASK_CAUSAL ? " causal" : "       ");
  for (int k = 0; k < 2; k++)
    printf(" %9.3f ms %6zu MiB", hr_median_of(times[k], PAIRS).value * 1e-6,
           hr_plan_workspace_bytes(t->of[k].plan) >> 20);
  printf("  %.2f (%.2f to %.2f)  %s | %s\n", ratio, ratios[0], ratios[PAIRS - 1], hr_plan_configuration(t->of[0].plan),
         hr_plan_configuration(t->of[1].plan));
  fflush(stdout);
}

/* Prints a line also for calls that a kernel does not support or that do not fit into memory. */
static void compare(hr_device *device, const hr_attention *a, char **kernels)
{
  hr_error error = {.message = ""};
  turns t = {.device = device};
  double times[2][PAIRS], ratios[PAIRS];
  hr_status status = HR_OK;
  for (int i = 0; i < 2 && status == HR_OK; i++)
    status = check(device, a, kernels[i], &error);
  if (status == HR_OK)
    status = make(&t, a, kernels, &error);
  if (status == HR_OK)
    status = take_turns(&t, times, ratios, &error);
  if (status == HR_OK)
    print(&t, a, times, ratios);
  else
    printf("%s, %" PRId64 " heads of %" PRId64 ", length %" PRId64 ": %s\n", hr_dtype_name(a->dtype), a->q_heads,
           a->qk_dim, a->q_len, error.message);
  release(&t);
}

static void compare_lengths(hr_device *device, const shape *s, hr_dtype dtype, const char *lengths, char **kernels)
{
  char *after = NULL;
  for (int64_t length = strtoll(lengths, &after, 10); length > 0; length = strtoll(after, &after, 10)) {
    hr_attention a = hr_attention_default();
    a.dtype = dtype;
    a.batch = s->batch;
    a.q_len = a.kv_len = length;
    a.q_heads = s->heads, a.k_heads = s->k_heads, a.v_heads = s->v_heads;
    a.qk_dim = a.v_dim = s->dim;
    a.mask = s->causal ? HR_MASK_CAUSAL : HR_MASK_NONE;
    compare(device, &a, kernels);
  }
}

int main(int argc, char **argv)
{
  hr_device *device;
  hr_error error;
  if (argc < 3) {
    fprintf(stderr, "attention_interleaved KERNEL KERNEL [DTYPES [LENGTHS [DEVICE]]]\n");
    return 2;
  }
  const char *dtypes = argc > 3 ? argv[3] : "bf16", *lengths = argc > 4 ? argv[4] : "2048 4096 8192 16384";
  if (hr_device_open(argc > 5 ? argv[5] : "cuda:0", 0, &device, &error) != HR_OK) {
    fprintf(stderr, "attention_interleaved: %s\n", error.message);
    return 1;
  }
  if (!device->backend->time_runs) {
    fprintf(stderr, "attention_interleaved: %s has no device clock\n", device->name);
    hr_device_close(device);
    return 1;
  }
  for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
      if (hr_has_word(dtypes, hr_dtype_name((hr_dtype)dtype)))
        compare_lengths(device, &shapes[i], (hr_dtype)dtype, lengths, argv + 1);
  hr_device_close(device);
  return 0;
}
