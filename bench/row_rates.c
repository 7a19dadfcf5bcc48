/* How near the operations on rows come to the copy of a device: a row an operation and a size, in GB/s and as a share.
 * On a processor there are fewer rows, still beyond its caches. Its copy is the best of a few, which others disturb; so it
 * is taken again before each operation, and held against the operation's best run.
 *   row_rates [DEVICE] [DTYPE] [KERNEL] */
#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>

#define FEWER_ON_CPU 8

static const int64_t sizes[][2] = {{2097152, 128}, {262144, 1024}, {65536, 4096}, {52428, 5120}, {16384, 16384}, {8192, 32768}, {5341, 50257}, {5336, 50304}, {2093, 128256}};

static int fail(const hr_error *error)
{
  fprintf(stderr, "row_rates: %s\n", error->message);
  return 1;
}

static int measure(hr_device *device, const hr_rows *rows, const char *kernel, bool best, double copy)
{
  hr_measure_options options = hr_measure_options_default();
  double rate;
  options.kernel = kernel;
  hr_error error;
  hr_measurement m;
  if (hr_rows_check(rows, &error) != HR_OK)
    return 0; /* rotary of an odd length */
  if (hr_measure_rows(device, rows, &options, &m, &error) != HR_OK)
    return fail(&error);
  rate = best ? m.bytes_per_s * m.median_ns / m.min_ns : m.bytes_per_s;
  printf("%-10s %8lld x %-6lld %9.1f us %7.0f GB/s %5.1f%% of a copy  %-6s %s %s\n",
         hr_rows_operation_name(rows->operation), (long long)rows->rows, (long long)rows->columns,
         (best ? m.min_ns : m.median_ns) * 1e-3, rate * 1e-9, 100 * rate / copy, hr_status_name(m.status),
         m.configuration, m.reason);
  return 0;
}

static int read_copy(hr_device *device, double *copy)
{
  hr_error error;
  hr_hardware hardware;
  if (hr_device_probe(device, &hardware, &error) != HR_OK)
    return fail(&error);
  *copy = hardware.bandwidth_bytes_per_s * hardware.bandwidth_share;
  return 0;
}

int main(int argc, char **argv)
{
  hr_device *device;
  hr_error error;
  hr_rows rows = hr_rows_default();
  double copy;
  const char *name = argc > 1 ? argv[1] : "cuda:0";
  if (argc > 2 && hr_dtype_parse(argv[2], &rows.dtype) != HR_OK)
    return 2;
  if (hr_device_open(name, 0, &device, &error) != HR_OK)
    return fail(&error);
  bool gpu = strncmp(name, "cuda", 4) == 0;
  int code = read_copy(device, &copy);
  for (int operation = 0; code == 0 && operation < HR_ROWS_COUNT; operation++) {
    if (!gpu)
      code = read_copy(device, &copy);
    for (size_t i = 0; code == 0 && i < sizeof sizes / sizeof *sizes; i++) {
      rows.operation = (hr_rows_operation)operation;
      rows.rows = sizes[i][0] / (gpu ? 1 : FEWER_ON_CPU);
      rows.columns = sizes[i][1];
      rows.period = operation == HR_ROWS_ROTARY ? 2048 : 0;
      rows.group = 32;
      code = measure(device, &rows, argc > 3 ? argv[3] : NULL, !gpu, copy);
    }
  }
  hr_device_close(device);
  return code;
}
