/* How near the operations on rows come to the copy of a device: a row an operation and a size, in GB/s and as a share.
 *   row_rates [DEVICE] [DTYPE] [KERNEL]
 * On a GPU against the copy of a probe. On a processor, where others take cores and memory for seconds at a time, one
 * thread runs operation and memcpy by turns, in fewer rows that still lie beyond the caches; what counts is the time that
 * the thread had a core, and the median of the ratios. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FEWER_ON_CPU 8
#define PAIRS 15

static const int64_t sizes[][2] = {{65536, 4096}, {262144, 1024}, {1048576, 128}, {16384, 16384}, {8192, 50257}};

static int fail(const hr_error *error)
{
  fprintf(stderr, "row_rates: %s\n", error->message);
  return 1;
}

static void print(const hr_rows *rows, double time_ns, double bytes_per_s, double share, const char *rest)
{
  printf("%-10s %8lld x %-6lld %9.1f us %7.1f GB/s %5.1f%% of a copy  %s\n", hr_rows_operation_name(rows->operation),
         (long long)rows->rows, (long long)rows->columns, time_ns * 1e-3, bytes_per_s * 1e-9, 100 * share, rest);
}

/* ---- a GPU ---- */

static int measure(hr_device *device, const hr_rows *rows, const char *kernel, double copy)
{
  hr_measure_options options = hr_measure_options_default();
  options.kernel = kernel;
  options.time_limit_ns = 0.2e9; /* hundreds of runs */
  hr_error error;
  hr_measurement m;
  char rest[400];
  if (hr_measure_rows(device, rows, &options, &m, &error) != HR_OK)
    return fail(&error);
  snprintf(rest, sizeof rest, "%-6s %s %s", hr_status_name(m.status), m.configuration, m.reason);
  print(rows, m.median_ns, m.bytes_per_s, m.bytes_per_s / copy, rest);
  return 0;
}

static int read_copy(hr_device *device, double *copy)
{
  hr_error error;
  hr_hardware hardware;
  if (hr_device_probe(device, NULL, NULL, &hardware, &error) != HR_OK)
    return fail(&error);
  *copy = hardware.bandwidth_bytes_per_s * hardware.bandwidth_share;
  return 0;
}

/* ---- a processor ---- */

static double thread_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct turns {
  hr_plan *plan;
  hr_buffer *operands[5]; /* inputs, result, workspace */
  char *from, *to;
  size_t copied;
} turns;

static hr_status take_turns(turns *t, double *times, double *ratios, hr_error *error)
{
  const void *inputs[3];
  for (int i = 0; i < 3; i++)
    inputs[i] = hr_buffer_data(t->operands[i]);
  for (int i = -1; i < PAIRS; i++) { /* the first brings the pages in */
    double start = thread_ns();
    hr_status status =
        hr_plan_run_rows(t->plan, inputs, hr_buffer_data(t->operands[3]), hr_buffer_data(t->operands[4]), error);
    double between = thread_ns();
    memcpy(t->to, t->from, t->copied);
    double end = thread_ns();
    if (status != HR_OK)
      return status;
    t->from[i + 1] = t->to[i + 2]; /* the copy is used, so that it is made */
    if (i >= 0) {
      times[i] = between - start;
      ratios[i] = (end - between) / (between - start);
    }
  }
  return HR_OK;
}

static hr_status make(hr_device *device, const hr_rows *rows, const char *kernel, size_t bytes, turns *t,
                      hr_error *error)
{
  hr_status status = hr_plan_rows(device, rows, kernel, &t->plan, error);
  size_t tensor = (size_t)(rows->rows * rows->columns) * hr_dtype_bytes(rows->dtype);
  for (int i = 0; i < 4 && status == HR_OK; i++) {
    status = hr_buffer_create(device, tensor, &t->operands[i], error);
    if (status == HR_OK)
      status = hr_buffer_fill_uniform(t->operands[i], rows->dtype, (uint64_t)i + 1, error);
  }
  if (status == HR_OK)
    status = hr_buffer_create(device, hr_plan_workspace_bytes(t->plan) + 64, &t->operands[4], error);
  t->copied = bytes / 2;
  t->from = calloc(t->copied, 1);
  t->to = calloc(t->copied, 1);
  if (status == HR_OK && (!t->from || !t->to))
    status = HR_ERROR_OUT_OF_MEMORY;
  return status;
}

static int compare(hr_device *device, const hr_rows *rows, const char *kernel)
{
  hr_error error = {.message = "out of memory"};
  int64_t bytes = 0;
  turns t = {.plan = NULL};
  double times[PAIRS], ratios[PAIRS];
  hr_status status = hr_rows_bytes(rows, &bytes);
  if (status == HR_OK)
    status = make(device, rows, kernel, (size_t)bytes, &t, &error);
  if (status == HR_OK)
    status = take_turns(&t, times, ratios, &error);
  if (status == HR_OK) {
    qsort(times, PAIRS, sizeof *times, by_size);
    qsort(ratios, PAIRS, sizeof *ratios, by_size);
    print(rows, times[PAIRS / 2], (double)bytes / times[PAIRS / 2] * 1e9, ratios[PAIRS / 2], hr_plan_kernel(t.plan));
  }
  for (int i = 0; i < 5; i++)
    hr_buffer_free(t.operands[i]);
  free(t.from);
  free(t.to);
  hr_plan_free(t.plan);
  return status == HR_OK ? 0 : fail(&error);
}

int main(int argc, char **argv)
{
  hr_device *device;
  hr_error error;
  hr_rows rows = hr_rows_default();
  double copy = 0;
  const char *name = argc > 1 ? argv[1] : "cuda:0", *kernel = argc > 3 ? argv[3] : NULL;
  bool gpu = strncmp(name, "cuda", 4) == 0;
  if (argc > 2 && hr_dtype_parse(argv[2], &rows.dtype) != HR_OK)
    return 2;
  if (hr_device_open(name, gpu ? 0 : 1, &device, &error) != HR_OK)
    return fail(&error);
  int code = gpu ? read_copy(device, &copy) : 0;
  for (int operation = 0; code == 0 && operation < HR_ROWS_COUNT; operation++) {
    for (size_t i = 0; code == 0 && i < sizeof sizes / sizeof *sizes; i++) {
      rows.operation = (hr_rows_operation)operation;
      rows.rows = sizes[i][0] / (gpu ? 1 : FEWER_ON_CPU);
      rows.columns = sizes[i][1];
      rows.period = operation == HR_ROWS_ROTARY ? 2048 : 0;
      rows.group = 32;
      if (hr_rows_check(&rows, &error) == HR_OK) /* no rotary of an odd length */
        code = gpu ? measure(device, &rows, kernel, copy) : compare(device, &rows, kernel);
    }
  }
  hr_device_close(device);
  return code;
}
