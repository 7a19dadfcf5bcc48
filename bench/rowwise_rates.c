/* SPDX-License-Identifier: Apache-2.0 */
/* Not in tests/kernels/harness: the peer is a copy, no kernel, and the lines are the rows of data/results.
 *
 * How close row-wise operations come to the rate of a copy: one line per operation and row length, in GB/s and as a
 * share.
 *   rowwise_rates [--csv] [DEVICE] [DTYPES] [OPERATIONS] [LENGTHS] [KERNEL]
 *   rowwise_rates cuda:0 "bf16 fp32" "softmax rotary" "4096 50257"
 * --csv prints the rows that data/results has: docs/rowwise.md is made from them.
 * The operation and a copy of the same number of bytes are interleaved; the median of the ratios is reported. On a GPU
 * times are measured on the device, tensors take 512 MiB, far more than the L2, and sampled rows are first compared
 * with the reference. On a CPU, where other programs use cores and memory for seconds at a time, one thread processes
 * an eighth of the bytes, still more than the caches, and its CPU time is used. */
#include "base/error.h"
#include "runtime/cuda/driver/context.h"
#include "runtime/cuda/driver/timing.h"
#include "runtime/measure/statistics.h"
#include "shape/rowwise_operands.h"

#include "runtime/device/plan.h"
#include <headroom/experimental/headroom.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TENSOR_BYTES ((int64_t)512 << 20)
#define FEWER_ON_CPU 8
#define PAIRS 15
#define CHECK_NS 5e6

static const int64_t lengths_gpu[] = {128,   129,   1023,  1024,  4096,  4099,   5120,   16384,  16387,
                                      32768, 33001, 50257, 50304, 65536, 128256, 131075, 262144, 0};
static const int64_t lengths_cpu[] = {128, 1024, 4096, 16384, 50257, 0};

typedef struct turns {
  hr_device *device;
  hr_plan *plan;
  bool gpu, csv;
  hr_buffer *inputs[HR_ROWWISE_INPUTS_MAX], *outputs[HR_ROWWISE_OUTPUTS_MAX], *workspace;
  hr_buffer *from, *to; /* of the copy */
  size_t copied;
  void *recordings[2]; /* graphs of the operation and of the copy */
} turns;

/* The requested operations, lengths and kernel, as words; NULL: all. */
typedef struct asked {
  const char *operations, *lengths, *kernel;
  bool csv;
} asked;

static int fail(const hr_error *error)
{
  fprintf(stderr, "rowwise_rates: %s\n", error->message);
  return 1;
}

/* The address of a buffer that some operations do not have. */
static void *data(hr_buffer *buffer)
{
  return buffer ? hr_buffer_data(buffer) : NULL;
}

static hr_status run_operation(void *context, hr_error *error)
{
  const turns *t = context;
  const hr_rowwise_arguments x = {.struct_size = sizeof x,
                                  .inputs = {data(t->inputs[0]), data(t->inputs[1]), data(t->inputs[2])},
                                  .output = data(t->outputs[0]),
                                  .more_inputs = {data(t->inputs[3])},
                                  .more_outputs = {data(t->outputs[1]), data(t->outputs[2]), data(t->outputs[3])}};
  return hr_plan_run_rowwise(t->plan, &x, data(t->workspace), NULL, error);
}

static hr_status run_copy(void *context, hr_error *error)
{
  const turns *t = context;
  void *to = hr_buffer_data(t->to), *from = hr_buffer_data(t->from);
  if (!t->gpu) {
    memcpy(to, from, t->copied);
    ((char *)from)[0] = ((char *)to)[1]; /* uses the result, so that the compiler keeps the copy */
    return HR_OK;
  }
  const hr_cuda *cuda = t->device->state;
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = HR_CU(&cuda->driver, cuMemcpyDtoDAsync_v2,
                           ((cu_address)(uintptr_t)to, (cu_address)(uintptr_t)from, t->copied, cuda->stream), error);
  hr_cuda_leave(cuda);
  return status;
}

static double thread_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static hr_status time_run(turns *t, hr_run_fn run, void **recording, double *time_ns, hr_error *error)
{
  if (t->gpu)
    return t->device->backend->time_runs(t->device, run, t, 1, recording, time_ns, error);
  double start = thread_ns();
  HR_TRY(run(t, error));
  *time_ns = thread_ns() - start;
  return HR_OK;
}

static hr_status take_turns(turns *t, double *times, double *ratios, hr_error *error)
{
  double operation_ns = 0, copy_ns = 0;
  for (int i = -1; i < PAIRS; i++) { /* the first pair is a warm-up */
    HR_TRY(time_run(t, run_operation, &t->recordings[0], &operation_ns, error));
    HR_TRY(time_run(t, run_copy, &t->recordings[1], &copy_ns, error));
    if (i >= 0) {
      times[i] = operation_ns;
      ratios[i] = copy_ns / operation_ns;
    }
  }
  return HR_OK;
}

static hr_status make_operand(const turns *t, const hr_rowwise *rows, const hr_rowwise_operand *of, hr_buffer **to,
                              hr_error *error)
{
  const size_t bytes = (size_t)hr_rowwise_elements(rows, of).value * (size_t)hr_rowwise_element_bytes(rows, of);
  const bool targets = of->content == HR_CONTENT_TARGETS;
  HR_TRY(hr_buffer_create(t->device, bytes, to, error));
  if (!targets)
    return hr_buffer_fill_uniform(*to, of->content == HR_CONTENT_NUMBERS ? rows->dtype : HR_FP32, 1, error);
  void *zeros = calloc(1, bytes);
  hr_status status = zeros ? hr_buffer_write(*to, zeros, bytes, error)
                           : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for targets");
  free(zeros);
  return status;
}

static hr_status make(turns *t, const hr_rowwise *rows, const char *kernel, hr_error *error)
{
  const hr_rowwise_operands of = hr_rowwise_operands_of(rows);
  HR_TRY(hr_plan_rowwise(t->device, rows, kernel, &t->plan, error));
  for (int i = 0; i < of.inputs; i++)
    HR_TRY(make_operand(t, rows, &of.input[i], &t->inputs[i], error));
  for (int i = 0; i < of.outputs; i++)
    HR_TRY(make_operand(t, rows, &of.output[i], &t->outputs[i], error));
  HR_TRY(hr_buffer_create(t->device, hr_plan_workspace_bytes(t->plan) + 64, &t->workspace, error));
  HR_TRY(hr_buffer_create(t->device, t->copied, &t->from, error));
  HR_TRY(hr_buffer_fill_uniform(t->from, rows->dtype, 9, error));
  return hr_buffer_create(t->device, t->copied, &t->to, error);
}

static void release(turns *t)
{
  for (int i = 0; i < 2 && t->gpu; i++)
    t->device->backend->forget(t->device, t->recordings[i]);
  for (int i = 0; i < HR_ROWWISE_INPUTS_MAX; i++)
    hr_buffer_free(t->inputs[i]);
  for (int i = 0; i < HR_ROWWISE_OUTPUTS_MAX; i++)
    hr_buffer_free(t->outputs[i]);
  hr_buffer_free(t->workspace);
  hr_buffer_free(t->from);
  hr_buffer_free(t->to);
  hr_plan_free(t->plan);
}

static void print_csv(const turns *t, const hr_rowwise *rows, int64_t bytes, double ns, double ratio, double low,
                      double high)
{
  printf("%s,%s,%lld,%lld,%.1f,%.1f,%.4f,%.4f,%.4f,%s,\"%s\"\n", hr_rowwise_operation_name(rows->operation),
         hr_dtype_name(rows->dtype), (long long)rows->rows, (long long)rows->columns, ns, (double)bytes / ns * 1e9,
         ratio, low, high, hr_plan_kernel(t->plan), hr_plan_configuration(t->plan));
}

static void print(const turns *t, const hr_rowwise *rows, int64_t bytes, double *times, double *ratios)
{
  double ns = hr_median_of(times, PAIRS).value, ratio = hr_median_of(ratios, PAIRS).value; /* also sorts them */
  if (t->csv)
    print_csv(t, rows, bytes, ns, ratio, ratios[0], ratios[PAIRS - 1]);
  else
    printf("%-22s %-4s %8lld x %-6lld %9.1f us %7.1f GB/s %5.1f%% of a copy (%.1f to %.1f)  %s %s\n",
           hr_rowwise_operation_name(rows->operation), hr_dtype_name(rows->dtype), (long long)rows->rows,
           (long long)rows->columns, ns * 1e-3, (double)bytes / ns, 100 * ratio, 100 * ratios[0],
           100 * ratios[PAIRS - 1], hr_plan_kernel(t->plan), hr_plan_configuration(t->plan));
  fflush(stdout);
}

/* A wrong result may be fast too; the same program computes a sixty-fourth of the rows for the comparison. */
static hr_status check(hr_device *device, const hr_rowwise *all, const char *kernel, hr_error *error)
{
  hr_rowwise fewer = *all, *rows = &fewer;
  fewer.rows = (all->rows + 63) / 64;
  hr_measure_options options = hr_measure_options_default();
  options.kernel = kernel;
  options.time_limit_ns = CHECK_NS;
  hr_measurement m;
  HR_TRY(hr_measure_rowwise(device, rows, &options, &m, error));
  if (m.status == HR_OK || m.status == HR_ERROR_NOISY)
    return HR_OK;
  return hr_fail(error, m.status, "%s of %lld: %s", hr_rowwise_operation_name(rows->operation),
                 (long long)rows->columns, m.reason);
}

static int compare(hr_device *device, bool gpu, const hr_rowwise *rows, const asked *what)
{
  hr_error error = {.message = ""};
  int64_t bytes = 0;
  const char *kernel = what->kernel;
  turns t = {.device = device, .gpu = gpu, .csv = what->csv};
  double times[PAIRS], ratios[PAIRS];
  hr_status status = hr_rowwise_bytes(rows, &bytes);
  t.copied = (size_t)bytes / 2;
  if (status == HR_OK && gpu)
    status = check(device, rows, kernel, &error);
  if (status == HR_OK)
    status = make(&t, rows, kernel, &error);
  if (status == HR_OK)
    status = take_turns(&t, times, ratios, &error);
  if (status == HR_OK)
    print(&t, rows, bytes, times, ratios);
  release(&t);
  return status == HR_OK ? 0 : fail(&error);
}

static bool asks_for(const char *words, const char *word)
{
  return !words || hr_has_word(words, word);
}

static bool asks_for_length(const asked *what, int64_t length)
{
  char text[24];
  snprintf(text, sizeof text, "%lld", (long long)length);
  return asks_for(what->lengths, text);
}

static int compare_lengths(hr_device *device, bool gpu, hr_dtype dtype, const asked *what)
{
  hr_error error;
  hr_rowwise rows = hr_rowwise_default();
  int64_t elements = TENSOR_BYTES / (gpu ? 1 : FEWER_ON_CPU) / (int64_t)hr_dtype_bytes(dtype);
  int code = 0;
  for (int operation = 0; code == 0 && operation < HR_ROWWISE_COUNT; operation++) {
    for (const int64_t *length = gpu ? lengths_gpu : lengths_cpu; code == 0 && *length; length++) {
      rows.operation = (hr_rowwise_operation)operation;
      rows.dtype = dtype;
      rows.rows = elements / *length;
      rows.columns = *length;
      rows.period = operation == HR_ROWWISE_ROTARY || operation == HR_ROWWISE_ROTARY_BACKWARD ? 2048 : 0;
      rows.group = 32;
      rows.rate = 0.1;
      rows.beta1 = 0.9, rows.beta2 = 0.999, rows.max_norm = 1;
      if (asks_for(what->operations, hr_rowwise_operation_name(rows.operation)) && asks_for_length(what, *length) &&
          hr_rowwise_check(&rows, &error) == HR_OK) /* excludes rotary of an odd length */
        code = compare(device, gpu, &rows, what);
    }
  }
  return code;
}

int main(int argc, char **argv)
{
  hr_device *device;
  hr_error error;
  bool csv = argc > 1 && strcmp(argv[1], "--csv") == 0;
  argc -= csv;
  argv += csv;
  const char *name = argc > 1 ? argv[1] : "cuda:0", *dtypes = argc > 2 ? argv[2] : "bf16";
  asked what = {.operations = argc > 3 ? argv[3] : NULL,
                .lengths = argc > 4 ? argv[4] : NULL,
                .kernel = argc > 5 ? argv[5] : NULL,
                .csv = csv};
  bool gpu = strncmp(name, "cuda", 4) == 0;
  if (hr_device_open(name, gpu ? 0 : 1, &device, &error) != HR_OK)
    return fail(&error);
  int code = 0;
  if (csv)
    puts("operation,dtype,rows,columns,median_ns,bytes_per_s,copy_share,copy_share_least,copy_share_most,kernel,"
         "configuration");
  for (int dtype = 0; code == 0 && dtype < HR_DTYPE_COUNT; dtype++) {
    if (hr_has_word(dtypes, hr_dtype_name((hr_dtype)dtype)))
      code = compare_lengths(device, gpu, (hr_dtype)dtype, &what);
  }
  hr_device_close(device);
  return code;
}
