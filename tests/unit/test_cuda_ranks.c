/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduces by own kernels, beside sums in float64: one and two shots, with a norm, in graphs, again and again; a
 * rank that does not come. Ranks share a GPU where there are not enough, which then has only these kernels. */
#include "machine.h"

#include "base/error.h"
#include "runtime/communicator/communicator.h"
#include "runtime/cuda/collective/collective.h"
#include "shape/number.h"

#include <headroom/buffer.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 4
#define COUNT_MAX 6000
#define REPEATS (test_asks_for("thorough") ? 1000 : 20)

typedef struct gpu_rank gpu_rank;
struct gpu_rank {
  hr_device *device;
  hr_communicator *communicator;
  int64_t rank, size;
  hr_status (*run)(gpu_rank *r);
  bool loaded[HR_DTYPE_COUNT];
  int64_t calls;         /* in parts */
  hr_buffer *buffers[5]; /* send, receive, residual, sum, weight */
  hr_status status;
  hr_error error;
  unsigned char results[2][COUNT_MAX * 4];
};

static hr_device *open_rank(int64_t rank, hr_error *error)
{
  char name[16];
  hr_device *device = NULL;
  snprintf(name, sizeof name, "cuda:%d", (int)rank);
  if (hr_device_open(name, 0, &device, error) != HR_OK && rank > 0)
    hr_device_open("cuda:0", 0, &device, error);
  return device;
}

static void *main_of(void *argument)
{
  gpu_rank *r = argument;
  for (int i = 0; i < 5 && r->status == HR_OK; i++)
    r->status = hr_buffer_create(r->device, COUNT_MAX * 4 + 64, &r->buffers[i], &r->error);
  if (r->status == HR_OK)
    r->status = r->run(r);
  if (r->status != HR_OK)
    hr_communicator_give_up(r->communicator, r->error.message);
  for (int i = 0; i < 5; i++)
    hr_buffer_free(r->buffers[i]);
  return NULL;
}

/* False: there is no GPU. */
static bool run_ranks(int64_t size, double patience_s, hr_status (*run)(gpu_rank *r), gpu_rank *ranks)
{
  hr_device *devices[RANKS_MAX];
  hr_communicator *communicators[RANKS_MAX];
  pthread_t threads[RANKS_MAX];
  hr_error error;
  hr_communicator_options options = hr_communicator_options_default();
  options.patience_s = patience_s;
  for (int64_t i = 0; i < size; i++) {
    devices[i] = open_rank(i, &error);
    if (!devices[i])
      return false;
  }
  assert_ok(hr_communicators_connect(devices, size, &options, communicators, &error), error);
  for (int64_t i = 0; i < size; i++) {
    memset(&ranks[i], 0, sizeof ranks[i]);
    ranks[i].device = devices[i], ranks[i].communicator = communicators[i];
    ranks[i].rank = i, ranks[i].size = size, ranks[i].run = run;
    assert_int_equal(pthread_create(&threads[i], NULL, main_of, &ranks[i]), 0);
  }
  for (int64_t i = 0; i < size; i++)
    pthread_join(threads[i], NULL);
  for (int64_t i = 0; i < size; i++)
    hr_communicator_free(communicators[i]);
  for (int64_t i = 0; i < size; i++)
    hr_device_close(devices[i]);
  return true;
}

/* ---- numbers ---- */

/* What a rank sends: some of it NaN and infinite. */
static double element(hr_dtype dtype, int64_t rank, int64_t i)
{
  unsigned char bits[8];
  float value;
  hr_numbers_uniform(HR_FP32, 77 + (uint64_t)rank, (size_t)i, 1, &value);
  const double wide = i % 997 == 5 && rank == 1 ? (i % 2 ? INFINITY : NAN) : (double)value * 4;
  hr_number_store(dtype, bits, 0, wide);
  return hr_number_load(dtype, bits, 0);
}

static void fill(hr_buffer *buffer, hr_dtype dtype, int64_t which, size_t offset, int64_t count)
{
  static _Thread_local unsigned char bytes[COUNT_MAX * 4 + 64];
  hr_error error;
  memset(bytes, 0xff, sizeof bytes);
  for (int64_t i = 0; i < count && which >= 0; i++)
    hr_number_store(dtype, bytes + offset, (size_t)i, element(dtype, which, i));
  assert_ok(hr_buffer_write(buffer, bytes, sizeof bytes, &error), error);
}

static double sum_of(hr_dtype dtype, int64_t size, int64_t i, double *most)
{
  double sum = *most = 0;
  for (int64_t r = 0; r < size; r++) {
    const double term = element(dtype, r, i);
    sum += term;
    *most += fabs(term);
  }
  return sum;
}

/* Each addition is rounded to fp32, the sum to the format. */
static hr_status compare(const gpu_rank *r, hr_dtype dtype, int64_t count, const unsigned char *found, hr_error *error)
{
  for (int64_t i = 0; i < count; i++) {
    double most;
    const double sum = sum_of(dtype, r->size, i, &most), is = hr_number_load(dtype, found, (size_t)i);
    const double allowed = most * ((double)r->size * 0x1p-24 + hr_dtype_rounding(dtype)) + 1e-7;
    const bool same = isnan(sum) ? isnan(is) : isinf(sum) ? is == sum : fabs(is - sum) <= allowed;
    if (!same)
      return hr_fail(error, HR_ERROR_INVALID, "rank %d of %d, %s of %d: element %d is wrong", (int)r->rank,
                     (int)r->size, hr_dtype_name(dtype), (int)count, (int)i);
  }
  return HR_OK;
}

/* ---- one call ---- */

typedef struct sum_case {
  hr_all_reduce_way way;
  hr_dtype dtype;
  int64_t count;
  size_t offset; /* bytes, of both addresses */
  bool in_place;
} sum_case;

#define IN_PARTS HR_WAY_COUNT

/* The calls of all places one after another, so that each place is used again. */
static hr_status reduce_in_parts(gpu_rank *r, const hr_collective_call *call, hr_error *error)
{
  hr_collective_call begin = *call, end = *call;
  begin.part = HR_CALL_BEGIN, end.part = HR_CALL_END;
  begin.place = end.place = r->calls++ % HR_CALLS_UNDER_WAY;
  begin.columns = 0;
  if (!hr_communicator_sends_beside(r->communicator, call))
    return hr_fail(error, HR_ERROR_INVALID, "copy engines do not bring it");
  HR_TRY(hr_communicate(r->communicator, &begin, hr_device_stream(r->device), error));
  HR_TRY(hr_communicate(r->communicator, &end, hr_device_stream(r->device), error));
  return hr_communicator_wait(r->communicator, hr_device_stream(r->device), error);
}

static hr_status reduce(gpu_rank *r, const sum_case *s, const hr_collective_call *call, hr_error *error)
{
  const hr_cuda *cuda = r->device->state;
  if (s->way == IN_PARTS)
    return reduce_in_parts(r, call, error);
  HR_TRY(hr_cuda_prepare_call(r->communicator, call, error));
  if (!r->loaded[s->dtype]) /* before a kernel waits on a GPU that ranks share */
    HR_TRY(hr_communicator_meet(r->communicator, error));
  r->loaded[s->dtype] = true;
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = hr_cuda_reduce(r->communicator, call, s->way, cuda->stream, error);
  hr_cuda_leave(cuda);
  return status == HR_OK ? hr_communicator_wait(r->communicator, cuda->stream, error) : status;
}

static hr_status try_sum(gpu_rank *r, const sum_case *s, unsigned char *result)
{
  const size_t bytes = (size_t)s->count * hr_dtype_bytes(s->dtype);
  unsigned char all[COUNT_MAX * 4 + 64];
  hr_collective_call call = hr_collective_call_default();
  hr_buffer *to = r->buffers[s->in_place ? 0 : 1];
  fill(r->buffers[0], s->dtype, r->rank, s->offset, s->count);
  fill(r->buffers[1], s->dtype, -1, 0, 0);
  call.dtype = s->dtype;
  call.count = s->count;
  call.send = (char *)hr_buffer_data(r->buffers[0]) + s->offset;
  call.receive = (char *)hr_buffer_data(to) + s->offset;
  HR_TRY(reduce(r, s, &call, &r->error));
  HR_TRY(hr_buffer_read(to, all, sizeof all, &r->error));
  memcpy(result, all + s->offset, bytes);
  for (size_t i = 0; i < sizeof all; i++) {
    const bool of_result = i >= s->offset && i < s->offset + bytes;
    if (!of_result && all[i] != 0xff)
      return hr_fail(&r->error, HR_ERROR_INVALID, "byte %zu beside the result was written", i);
  }
  return compare(r, s->dtype, s->count, result, &r->error);
}

static hr_status try_sums(gpu_rank *r)
{
  static const hr_dtype dtypes[] = {HR_FP32, HR_BF16, HR_FP16};
  static const int64_t counts[] = {1, 3, 4, 17, 513, 2048, 5999, 24, 5992, 16};
  for (int way = HR_WAY_ONE_SHOT; way <= IN_PARTS; way++) {
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
      for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        if (!test_takes((int64_t)(c + d) + way))
          continue;
        const sum_case s = {.way = (hr_all_reduce_way)way,
                            .dtype = dtypes[d],
                            .count = counts[c],
                            .offset = c % 3 == 1 ? hr_dtype_bytes(dtypes[d]) : 0,
                            .in_place = c % 2 == 1};
        HR_TRY(try_sum(r, &s, r->results[0]));
      }
    }
  }
  return HR_OK;
}

static void sums_are_those_of_float64(void **state)
{
  (void)state;
  static gpu_rank ranks[RANKS_MAX];
  for (int64_t size = 2; size <= RANKS_MAX; size++) {
    if (!run_ranks(size, 10, try_sums, ranks))
      skip();
    for (int64_t i = 0; i < size; i++) {
      assert_ok(ranks[i].status, ranks[i].error);
      assert_memory_equal(ranks[i].results[0], ranks[0].results[0], COUNT_MAX * 2);
    }
  }
}

static hr_status repeat(gpu_rank *r)
{
  for (int i = 0; i < REPEATS; i++) {
    const sum_case s = {
        .way = (hr_all_reduce_way)(HR_WAY_ONE_SHOT + i % 4), .dtype = HR_BF16, .count = 904 + 8 * (i % 7)};
    HR_TRY(try_sum(r, &s, r->results[i > 0]));
    if (i > 0 && memcmp(r->results[0], r->results[1], 904 * 2) != 0)
      return hr_fail(&r->error, HR_ERROR_INVALID, "run %d has other bits than the first", i);
  }
  return HR_OK;
}

static void every_run_has_the_same_bits(void **state)
{
  (void)state;
  static gpu_rank ranks[RANKS_MAX];
  if (!run_ranks(2, 10, repeat, ranks))
    skip();
  for (int i = 0; i < 2; i++)
    assert_ok(ranks[i].status, ranks[i].error);
}

/* ---- with a norm ---- */

static double residual_of(hr_dtype dtype, int64_t i)
{
  return i % 997 == 5 ? 0.5 : element(dtype, 9, i);
}

static hr_status compare_norm(gpu_rank *r, hr_dtype dtype, int64_t rows, int64_t columns)
{
  const double unit = hr_dtype_rounding(dtype);
  for (int64_t row = 0; row < rows; row++) {
    double squares = 0, most, sums[COUNT_MAX];
    unsigned char bits[8];
    for (int64_t i = 0; i < columns; i++) {
      hr_number_store(dtype, bits, 0, sum_of(dtype, r->size, row * columns + i, &most));
      sums[i] = hr_number_load(dtype, bits, 0) + residual_of(dtype, row * columns + i);
      squares += sums[i] * sums[i];
    }
    const double factor = 1 / sqrt(squares / (double)columns + 1e-5);
    for (int64_t i = 0; i < columns; i++) {
      const double weight = element(dtype, 3, i), expected = sums[i] * factor * weight;
      const double sum = hr_number_load(dtype, r->results[0], (size_t)(row * columns + i));
      const double normed = hr_number_load(dtype, r->results[1], (size_t)(row * columns + i));
      const double allowed = (3 * unit + 1e-5) * (fabs(sums[i]) + 32),
                   allowed_norm = allowed * factor * fabs(weight) * 2;
      const bool same = isfinite(sums[i]) ? fabs(sum - sums[i]) <= allowed : isnan(sum) || sum == sums[i];
      if (!same || !(isnan(expected) ? isnan(normed) : fabs(normed - expected) <= allowed_norm + 1e-6))
        return hr_fail(&r->error, HR_ERROR_INVALID, "%s, row %d of %d, column %d: %g is %g, expected %g",
                       hr_dtype_name(dtype), (int)row, (int)columns, (int)i, sum, normed, expected);
    }
  }
  return HR_OK;
}

static hr_status try_norm(gpu_rank *r, hr_dtype dtype, int64_t rows, int64_t columns, bool in_parts)
{
  const int64_t count = rows * columns;
  hr_collective_call call = hr_collective_call_default();
  static _Thread_local unsigned char bytes[COUNT_MAX * 4 + 64];
  fill(r->buffers[0], dtype, r->rank, 0, count);
  fill(r->buffers[1], dtype, -1, 0, 0);
  fill(r->buffers[3], dtype, -1, 0, 0);
  fill(r->buffers[4], dtype, 3, 0, columns);
  for (int64_t i = 0; i < count; i++)
    hr_number_store(dtype, bytes, (size_t)i, residual_of(dtype, i));
  HR_TRY(hr_buffer_write(r->buffers[2], bytes, sizeof bytes, &r->error));
  call.dtype = dtype, call.count = count, call.columns = columns, call.epsilon = 1e-5;
  call.send = hr_buffer_data(r->buffers[0]), call.receive = hr_buffer_data(r->buffers[1]);
  call.residual = hr_buffer_data(r->buffers[2]), call.residual_sum = hr_buffer_data(r->buffers[3]);
  call.norm_weight = hr_buffer_data(r->buffers[4]);
  if (in_parts)
    HR_TRY(reduce_in_parts(r, &call, &r->error));
  else
    HR_TRY(hr_communicate(r->communicator, &call, hr_device_stream(r->device), &r->error));
  HR_TRY(hr_communicator_wait(r->communicator, hr_device_stream(r->device), &r->error));
  HR_TRY(hr_buffer_read(r->buffers[3], r->results[0], (size_t)count * hr_dtype_bytes(dtype), &r->error));
  HR_TRY(hr_buffer_read(r->buffers[1], r->results[1], (size_t)count * hr_dtype_bytes(dtype), &r->error));
  return compare_norm(r, dtype, rows, columns);
}

static hr_status try_norms(gpu_rank *r)
{
  for (int in_parts = 0; in_parts < 2; in_parts++) {
    HR_TRY(try_norm(r, HR_FP32, 3, 8, in_parts));
    HR_TRY(try_norm(r, HR_FP32, 1, 4096, in_parts));
    HR_TRY(try_norm(r, HR_BF16, 5, 1024, in_parts));
    HR_TRY(try_norm(r, HR_FP16, 1, 5120, in_parts));
  }
  HR_TRY(try_norm(r, HR_BF16, 1, 5888, true)); /* the most that fit here, three vectors a thread */
  return try_norm(r, HR_BF16, 2, 2052, false);
}

static void norms_are_those_of_float64(void **state)
{
  (void)state;
  static gpu_rank ranks[RANKS_MAX];
  for (int64_t size = 2; size <= RANKS_MAX; size += 2) {
    if (!run_ranks(size, 10, try_norms, ranks))
      skip();
    for (int64_t i = 0; i < size; i++)
      assert_ok(ranks[i].status, ranks[i].error);
  }
}

/* ---- a rank that does not come ---- */

static hr_status come_alone(gpu_rank *r)
{
  const sum_case s = {.way = HR_WAY_ONE_SHOT, .dtype = HR_FP32, .count = 64};
  HR_TRY(try_sum(r, &s, r->results[0])); /* all are there */
  if (r->rank == 1)
    return HR_OK;
  const hr_status status = try_sum(r, &s, r->results[1]);
  if (status != HR_ERROR_UNAVAILABLE || !strstr(r->error.message, "rank 1 "))
    return HR_ERROR_INVALID;
  return try_sum(r, &s, r->results[1]) == HR_ERROR_UNAVAILABLE ? HR_OK : HR_ERROR_INVALID;
}

static void a_missing_rank_is_named(void **state)
{
  (void)state;
  static gpu_rank ranks[RANKS_MAX];
  if (!run_ranks(2, 0.3, come_alone, ranks))
    skip();
  for (int i = 0; i < 2; i++)
    assert_ok(ranks[i].status, ranks[i].error);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_are_those_of_float64),
      cmocka_unit_test(every_run_has_the_same_bits),
      cmocka_unit_test(norms_are_those_of_float64),
      cmocka_unit_test(a_missing_rank_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
