/* SPDX-License-Identifier: Apache-2.0 */
/* Prints how far predictions for a shipped device are from measured times.
 *
 *   prediction_accuracy [DEVICE [FILE.csv …]]      default: h200 and the files of data/results
 *
 * For each file and kind of kernel: the geometric mean of the errors, their bias, the 90th percentile and the worst,
 * with rows that fitted the device's constants and held-out rows apart. */
#include "hardware/hardware.h"
#include "unit/measured.h"

typedef struct group {
  const char *name;
  bool (*has)(const measured *row);
} group;

static bool is_gemm(const measured *r)
{
  return strcmp(r->kind, "gemm") == 0 && r->m > 128;
}
static bool is_few_rows(const measured *r)
{
  return strcmp(r->kind, "gemm") == 0 && r->m <= 128;
}
static bool is_bmm(const measured *r)
{
  return strcmp(r->kind, "bmm") == 0;
}
static bool is_product(const measured *r)
{
  return strcmp(r->kind, "gemm") == 0 || is_bmm(r);
}
static bool is_decode(const measured *r)
{
  return strcmp(r->kind, "decode") == 0;
}
static bool is_backward(const measured *r)
{
  return strstr(r->kind, "_backward") != NULL;
}
static bool is_attention(const measured *r)
{
  return strncmp(r->kind, "attention", 9) == 0 && !is_backward(r);
}
static bool is_pointwise(const measured *r)
{
  return !is_product(r) && !is_decode(r) && strncmp(r->kind, "attention", 9) != 0;
}
static bool is_any(const measured *r)
{
  return r != NULL;
}

static const group groups[] = {
    {"products, m > 128", is_gemm}, {"products, m <= 128", is_few_rows},        {"batched products", is_bmm},
    {"all products", is_product},   {"fused attention", is_attention},          {"  its backward pass", is_backward},
    {"  decoding", is_decode},      {"norm, softmax, pointwise", is_pointwise}, {"all", is_any},
};

static void print_group(const char *label, const hr_hardware *hardware, const measured *rows, size_t count,
                        const group *which, int half)
{
  static measured_errors errors;
  errors = (measured_errors){0};
  for (size_t i = 0; i < count; i++) {
    if (which->has(&rows[i]) && (half < 0 || measured_held_out(&rows[i]) == (half == 1)))
      measured_add(&errors, hardware, &rows[i]);
  }
  if (errors.count == 0)
    return;
  double bias = exp(errors.bias / (double)errors.count) - 1;
  printf("| %-9s | %-24s | %4zu | %5.1f%% | %+6.1f%% | %5.1f%% | %6.1f%% |\n", label, which->name, errors.count,
         100 * measured_mean(&errors), 100 * bias, 100 * measured_within(&errors, 0.9),
         100 * measured_within(&errors, 1));
}

static void print_file(const char *path, const hr_hardware *hardware, bool halves)
{
  static measured rows[MEASURED_MAX];
  size_t count = measured_read(path, rows);
  printf("\n%s: %zu rows\n\n| rows | kind | count | mean error | bias | 90%% within | worst "
         "|\n|---|---|---|---|---|---|---|\n",
         path, count);
  for (int half = halves ? 0 : -1; half <= (halves ? 1 : -1); half++) {
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
      print_group(half < 0 ? "all" : half ? "held out" : "fitted", hardware, rows, count, &groups[g], half);
  }
}

int main(int argc, char **argv)
{
  hr_hardware hardware = measured_hardware(argc > 1 ? argv[1] : "h200");
  if (!hardware.about.name[0]) {
    fprintf(stderr, "prediction_accuracy: %s is not shipped\n", argv[1]);
    return 2;
  }
  for (int i = 2; i < argc; i++)
    print_file(argv[i], &hardware, false);
  if (argc <= 2) {
    print_file(HEADROOM_SOURCE_DIR "/data/results/h200/products.csv", &hardware, true);
    print_file(HEADROOM_SOURCE_DIR "/data/results/published/h200.csv", &hardware, false);
  }
  return 0;
}
