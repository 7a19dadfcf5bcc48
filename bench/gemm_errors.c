/* SPDX-License-Identifier: Apache-2.0 */
/* Not in tests/kernels/harness: it times nothing and fails nothing, but describes errors.
 *
 * Measures the errors of GEMMs over k, to compare them with the bound of the check (hr_gemm_error_bound).
 *   gemm_errors [DEVICE] [M N]
 *
 * One row per format and k. Errors are in units of 2⁻²⁴ · ‖terms‖₂:
 *   max, rms   of elements spread over the result; with fp16, bf16 and fp8 mostly the rounding of the result
 *   rms~0      of the elements nearest to 0 of 16 rows, where that rounding is small: the accumulation's own error
 *   drift      least-squares factor of the exact value in the error of the spread elements, in 2⁻²⁴: below 0 where
 *              accumulators are truncated rather than rounded
 *   bound      the largest share of the bound over all elements: above 1 the check would report wrong_result */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/device/plan.h"
#include "runtime/measure/error_bounds.h"
#include "runtime/reference/reference.h"
#include "shape/number.h"

#include <headroom/buffer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define K_MIN ((int64_t)1 << 8)
#define K_MAX ((int64_t)1 << 20)
#define ROWS 16
#define SPREAD 256 /* elements over the result */
#define SMALL 128  /* elements nearest to 0 */
#define UNIT 0x1p-24

typedef struct gemm_run {
  hr_device *device;
  hr_gemm gemm;
  hr_plan *plan;
  hr_buffer *a, *b, *c, *workspace;
  void *a_row, *b_row, *c_row; /* on the host */
  double *scratch;
} gemm_run;

typedef struct errors {
  double max, squares, with_exact, exact_squares, share;
  int count;
} errors;

typedef struct element {
  int64_t row, column;
  double found;
} element;

static hr_status make_gemm(gemm_run *p, hr_error *error)
{
  hr_device *device = p->device;
  hr_gemm *g = &p->gemm;
  size_t bytes = hr_dtype_bytes(g->dtype), workspace;
  HR_TRY(hr_plan_gemm(device, g, NULL, &p->plan, error));
  HR_TRY(hr_buffer_create(device, (size_t)(g->m * g->k) * bytes, &p->a, error));
  HR_TRY(hr_buffer_create(device, (size_t)(g->n * g->k) * bytes, &p->b, error));
  HR_TRY(hr_buffer_create(device, (size_t)(g->m * g->n) * bytes, &p->c, error));
  HR_TRY(hr_buffer_fill_uniform(p->a, g->dtype, 1, error));
  HR_TRY(hr_buffer_fill_uniform(p->b, g->dtype, 2, error));
  HR_TRY(hr_buffer_poison(p->c, g->dtype, error));
  workspace = hr_plan_workspace_bytes(p->plan);
  if (workspace > 0)
    HR_TRY(hr_buffer_create(device, workspace, &p->workspace, error));
  return hr_plan_run_gemm(p->plan,
                          &(hr_gemm_arguments){sizeof(hr_gemm_arguments), hr_buffer_data(p->a), hr_buffer_data(p->b),
                                               hr_buffer_data(p->c), NULL},
                          p->workspace ? hr_buffer_data(p->workspace) : NULL, NULL, error);
}

static void free_gemm(gemm_run *p)
{
  hr_plan_free(p->plan);
  hr_buffer_free(p->a);
  hr_buffer_free(p->b);
  hr_buffer_free(p->c);
  hr_buffer_free(p->workspace);
}

/* Copies row `row` of a buffer whose rows have `length` elements. */
static hr_status fetch_row(const gemm_run *p, const hr_buffer *from, int64_t row, int64_t length, void *to,
                           hr_error *error)
{
  size_t bytes = (size_t)length * hr_dtype_bytes(p->gemm.dtype);
  return p->device->backend->read(p->device, to, (const char *)hr_buffer_data(from) + (size_t)row * bytes, bytes,
                                  error);
}

/* Adds the error of one element; its row of A is already in p->a_row. */
static hr_status add_element(const gemm_run *p, const element *e, errors *sum, hr_error *error)
{
  double exact, norm;
  hr_gemm one = p->gemm;
  one.m = one.n = 1;
  HR_TRY(fetch_row(p, p->b, e->column, p->gemm.k, p->b_row, error));
  hr_reference_gemm_row(&one, p->a_row, p->b_row, 0, 0, p->scratch, &exact, &norm);
  double bound = hr_gemm_error_bound(p->gemm.dtype, p->gemm.k, &p->plan->summation, exact, norm);
  exact = hr_dtype_saturate(p->gemm.dtype, exact);
  double off = isnan(e->found) ? INFINITY : e->found - exact;
  sum->share = fmax(sum->share, fabs(off) / bound);
  off /= norm, exact /= norm;
  sum->max = fmax(sum->max, fabs(off));
  sum->squares += off * off;
  sum->with_exact += off * exact;
  sum->exact_squares += exact * exact;
  sum->count++;
  return HR_OK;
}

static int by_size(const void *a, const void *b)
{
  double x = fabs(((const element *)a)->found), y = fabs(((const element *)b)->found);
  return (x > y) - (x < y);
}

/* Adds `spread` equidistant elements of one row, and as many of those nearest to 0. */
static hr_status add_row(const gemm_run *p, int64_t row, int64_t spread, int64_t small, errors *at_large,
                         errors *near_zero, hr_error *error)
{
  const hr_gemm *g = &p->gemm;
  element *elements = malloc((size_t)g->n * sizeof *elements);
  hr_status status = elements ? fetch_row(p, p->a, row, g->k, p->a_row, error) : HR_ERROR_OUT_OF_MEMORY;
  if (status == HR_OK)
    status = fetch_row(p, p->c, row, g->n, p->c_row, error);
  for (int64_t j = 0; j < g->n && status == HR_OK; j++)
    elements[j] = (element){row, j, hr_number_load(g->dtype, p->c_row, (size_t)j)};
  for (int64_t i = 0; i < spread && status == HR_OK; i++)
    status = add_element(p, &elements[i * g->n / spread], at_large, error);
  if (status == HR_OK)
    qsort(elements, (size_t)g->n, sizeof *elements, by_size);
  for (int64_t i = 0; i < small && status == HR_OK; i++)
    status = add_element(p, &elements[i], near_zero, error);
  free(elements);
  return status;
}

static hr_status show_gemm(gemm_run *p, hr_error *error)
{
  errors at_large = {0}, near_zero = {0};
  int64_t rows = hr_min64(ROWS, p->gemm.m), share = hr_max64(1, p->gemm.k >> 19); /* a large k takes long on the host */
  HR_TRY(make_gemm(p, error));
  for (int64_t i = 0; i < rows; i++)
    HR_TRY(add_row(p, i * p->gemm.m / rows, hr_min64(SPREAD / rows / share, p->gemm.n),
                   hr_min64(SMALL / rows / share, p->gemm.n), &at_large, &near_zero, error));
  printf("%-5s %8lld %10.1f %9.1f %9.1f %10.1f %7.3f  %s\n", hr_dtype_name(p->gemm.dtype), (long long)p->gemm.k,
         at_large.max / UNIT, sqrt(at_large.squares / at_large.count) / UNIT,
         sqrt(near_zero.squares / near_zero.count) / UNIT, at_large.with_exact / at_large.exact_squares / UNIT,
         fmax(at_large.share, near_zero.share), hr_plan_configuration(p->plan));
  fflush(stdout);
  return HR_OK;
}

static hr_status show_dtype(gemm_run *p, hr_dtype dtype, hr_error *error)
{
  hr_status status = HR_OK;
  for (int64_t k = K_MIN; k <= K_MAX && status == HR_OK; k *= 2) {
    p->gemm.dtype = dtype;
    p->gemm.k = k;
    p->plan = NULL;
    p->a = p->b = p->c = p->workspace = NULL;
    status = show_gemm(p, error);
    free_gemm(p);
  }
  return status == HR_ERROR_UNSUPPORTED ? HR_OK : status;
}

static int run(hr_device *device, int64_t m, int64_t n)
{
  static const hr_dtype dtypes[] = {HR_BF16, HR_FP16, HR_TF32, HR_FP32, HR_FP8_E4M3};
  gemm_run p = {.device = device, .gemm = hr_gemm_default()};
  hr_error error = {.message = "no memory"};
  p.gemm.m = m, p.gemm.n = n, p.gemm.transpose_b = true;
  p.a_row = malloc((size_t)K_MAX * sizeof(float));
  p.b_row = malloc((size_t)K_MAX * sizeof(float));
  p.c_row = malloc((size_t)n * sizeof(float));
  p.scratch = malloc(2 * (size_t)K_MAX * sizeof(double));
  hr_status status = p.a_row && p.b_row && p.c_row && p.scratch ? HR_OK : HR_ERROR_OUT_OF_MEMORY;
  printf("%lld x %lld on %s, errors in 2^-24 norms\n%-5s %8s %10s %9s %9s %10s %7s  configuration\n", (long long)m,
         (long long)n, hr_device_name(device), "dtype", "k", "max", "rms", "rms~0", "drift", "bound");
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes && status == HR_OK; i++)
    status = show_dtype(&p, dtypes[i], &error);
  if (status != HR_OK)
    fprintf(stderr, "gemm_errors: %s\n", error.message);
  free(p.a_row);
  free(p.b_row);
  free(p.c_row);
  free(p.scratch);
  return status != HR_OK;
}

int main(int argc, char **argv)
{
  hr_device *device;
  hr_error error;
  int64_t m = argc > 3 ? strtoll(argv[2], NULL, 10) : 2048, n = argc > 3 ? strtoll(argv[3], NULL, 10) : 2048;
  if (m < 1 || n < 1 || m > 1 << 20 || n > 1 << 20)
    return 2;
  if (hr_device_open(argc > 1 ? argv[1] : "cuda:0", 0, &device, &error) != HR_OK) {
    fprintf(stderr, "gemm_errors: %s\n", error.message);
    return 1;
  }
  int code = run(device, m, n);
  hr_device_close(device);
  return code;
}
