/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over long sequences, and tensors of more than 2^31 elements: operands that are too large for a second copy
 * are filled on the device and compared in parts. */
#include "attention_truth.h"
#include "shape/number.h"

#include <inttypes.h>
#include <stdio.h>

typedef enum attention_outcome {
  ATTENTION_COMPARED,
  ATTENTION_REFUSED,  /* the kernel does not support the problem */
  ATTENTION_NO_MEMORY /* not enough device memory for operands or workspace */
} attention_outcome;

#define PART_ELEMENTS 1024 /* of O; enough for a meaningful largest error */

enum { BUFFER_WORK = ARRAY_COUNT, BUFFER_COUNT };

typedef struct large {
  hr_device *device;
  const hr_attention *a;
  uint64_t seed;
  hr_buffer *buffers[BUFFER_COUNT]; /* of arrays, and of the workspace */
} large;

static int64_t length_of(const hr_attention *a, int which)
{
  return which == ARRAY_Q || which == ARRAY_O ? a->q_len : a->kv_len;
}

/* ---- creating and running ---- */

static bool make(large *l, int which, size_t bytes)
{
  hr_error error;
  hr_status status = hr_buffer_create(l->device, bytes, &l->buffers[which], &error);
  if (status == HR_ERROR_OUT_OF_MEMORY) {
    print_message("%s\n", error.message);
    return false;
  }
  assert_ok(status, error);
  return true;
}

static bool make_operands(large *l)
{
  const hr_attention *a = l->a;
  hr_error error;
  for (int which = ARRAY_Q; which <= ARRAY_O; which++) {
    int64_t elements = a->batch * length_of(a, which) * attention_heads_of(a, which) * attention_dim_of(a, which);
    if (!make(l, which, (size_t)elements * hr_dtype_bytes(which == ARRAY_O ? hr_attention_output_dtype(a) : a->dtype)))
      return false;
    if (which < ARRAY_O)
      assert_ok(hr_buffer_fill_uniform(l->buffers[which], a->dtype, l->seed + (uint64_t)which, &error), error);
  }
  return make(l, ARRAY_LSE, (size_t)(a->batch * a->q_heads * a->q_len) * sizeof(float));
}

static void run(const large *l, const hr_plan *plan)
{
  hr_error error;
  hr_attention_arguments arguments = hr_attention_arguments_default();
  arguments.q = hr_buffer_data(l->buffers[ARRAY_Q]);
  arguments.k = hr_buffer_data(l->buffers[ARRAY_K]);
  arguments.v = hr_buffer_data(l->buffers[ARRAY_V]);
  arguments.o = hr_buffer_data(l->buffers[ARRAY_O]);
  arguments.lse = hr_buffer_data(l->buffers[ARRAY_LSE]);
  hr_buffer *work = l->buffers[BUFFER_WORK];
  assert_ok(hr_buffer_poison(l->buffers[ARRAY_O], hr_attention_output_dtype(l->a), &error), error);
  assert_ok(hr_buffer_poison(l->buffers[ARRAY_LSE], HR_FP32, &error), error);
  if (work)
    assert_ok(hr_buffer_poison(work, HR_FP32, &error), error);
  assert_ok(hr_plan_run_attention(plan, &arguments, work ? hr_buffer_data(work) : NULL, NULL, &error), error);
}

/* ---- parts ---- */

/* Runs rows from `first` on of one head as a separate call. */
static double *values_of(const large *l, int which, int64_t batch, int64_t head, int64_t first, int64_t rows)
{
  const hr_attention *a = l->a;
  size_t dim = (size_t)attention_dim_of(a, which);
  double *values = malloc((size_t)rows * dim * sizeof *values), packed[256];
  assert_true(values && dim <= sizeof packed / sizeof *packed);
  for (int64_t row = 0; row < rows; row++) {
    int64_t at = ((batch * length_of(a, which) + first + row) * attention_heads_of(a, which) + head) * (int64_t)dim;
    hr_numbers_uniform(a->dtype, l->seed + (uint64_t)which, (size_t)at, dim, packed);
    hr_numbers_load(a->dtype, packed, 0, dim, values + (size_t)row * dim);
  }
  return values;
}

static void fetch(const large *l, int which, int64_t from, size_t element, size_t count, char *to)
{
  hr_error error;
  const char *at = (const char *)hr_buffer_data(l->buffers[which]) + (size_t)from * element;
  assert_ok(l->device->backend->read(l->device, to, at, count * element, &error), error);
}

static void fetch_results(const large *l, attention_call *c, int64_t batch, int64_t head, int64_t first)
{
  const hr_attention *a = l->a;
  size_t element = hr_dtype_bytes(hr_attention_output_dtype(a)), dim = (size_t)a->v_dim, rows = (size_t)c->a.q_len;
  c->arrays[ARRAY_O].host = malloc(rows * dim * element);
  c->arrays[ARRAY_LSE].host = malloc(rows * sizeof(float));
  assert_true(c->arrays[ARRAY_O].host && c->arrays[ARRAY_LSE].host);
  for (int64_t row = 0; row < c->a.q_len; row++)
    fetch(l, ARRAY_O, ((batch * a->q_len + first + row) * a->q_heads + head) * a->v_dim, element, dim,
          c->arrays[ARRAY_O].host + (size_t)row * dim * element);
  fetch(l, ARRAY_LSE, (batch * a->q_heads + head) * a->q_len + first, sizeof(float), rows, c->arrays[ARRAY_LSE].host);
  c->arguments.lse = hr_buffer_data(l->buffers[ARRAY_LSE]);
}

/* With a causal mask the part ends with the last key that its last row sees. */
static void compare_part(const large *l, const char *kernel, int64_t batch, int64_t head, int64_t first)
{
  const hr_attention *a = l->a;
  attention_call c = {.device = l->device, .a = *a, .setup.seed = l->seed};
  char whole[512], part[640];
  c.setup.a = *a;
  attention_words(&c, whole);
  snprintf(part, sizeof part, "rows from %" PRId64 " of head %" PRId64 " of sequence %" PRId64 " of: %s", first, head,
           batch, whole);
  c.setup.part_of = part;
  c.a.batch = c.a.q_heads = c.a.k_heads = c.a.v_heads = 1;
  c.a.q_len = (PART_ELEMENTS - 1) / a->v_dim + 1;
  if (c.a.q_len > a->q_len - first)
    c.a.q_len = a->q_len - first;
  if (a->mask == HR_MASK_CAUSAL)
    c.a.kv_len = a->kv_len - (a->q_len - first - c.a.q_len);
  assert_true(c.a.kv_len > 0);
  c.q = values_of(l, ARRAY_Q, batch, head, first, c.a.q_len);
  c.k = values_of(l, ARRAY_K, batch, head / (a->q_heads / a->k_heads), 0, c.a.kv_len);
  c.v = values_of(l, ARRAY_V, batch, head / (a->q_heads / a->v_heads), 0, c.a.kv_len);
  fetch_results(l, &c, batch, head, first);
  attention_compare(&c, kernel, INT64_MAX);
  free(c.arrays[ARRAY_O].host);
  free(c.arrays[ARRAY_LSE].host);
  free(c.q);
  free(c.k);
  free(c.v);
}

static void compare_parts(const large *l, const char *kernel, int parts)
{
  const hr_attention *a = l->a;
  uint64_t random = l->seed;
  int64_t rows = a->batch * a->q_len, middle = ((int64_t)1 << 31) / (a->q_heads * a->v_dim);
  int64_t part_rows = (PART_ELEMENTS - 1) / a->v_dim + 1, last_start = a->q_len > part_rows ? a->q_len - part_rows : 0;
  compare_part(l, kernel, 0, 0, 0);
  compare_part(l, kernel, a->batch - 1, a->q_heads - 1, last_start);
  for (int part = 2; part < parts; part++) {
    int64_t row = part == 2 && middle < rows ? middle : (int64_t)(next_random(&random) % (uint64_t)rows);
    int64_t head = (int64_t)(next_random(&random) % (uint64_t)a->q_heads), first = row % a->q_len;
    compare_part(l, kernel, row / a->q_len, head, first < last_start ? first : last_start);
  }
}

static attention_outcome try_opened(large *l, const char *kernel, const hr_plan *plan, int parts)
{
  size_t work = hr_plan_workspace_bytes(plan);
  if (!make_operands(l) || (work > 0 && !make(l, BUFFER_WORK, work)))
    return ATTENTION_NO_MEMORY;
  run(l, plan);
  compare_parts(l, kernel, parts);
  return ATTENTION_COMPARED;
}

/* Runs a packed problem of one length on values generated on the device; results and workspace are NaN before.
 * Compares `parts` ranges of rows of one head with the formula (attention_compare()), among them the first, the last
 * and those at element 2^31 of O. Fails the test with the first wrong part. */
static attention_outcome try_large(hr_device *device, const char *kernel, const hr_attention *attention, uint64_t seed,
                                   int parts)
{
  hr_attention a = *attention;
  a.output = a.dtype == HR_FP8_E4M3 ? HR_OUTPUT_BF16 : HR_OUTPUT_AS_OPERANDS;
  large l = {.device = device, .a = &a, .seed = seed};
  hr_plan *plan = NULL;
  hr_error error;
  hr_status status = hr_plan_attention(device, &a, kernel, &plan, &error);
  if (status == HR_ERROR_UNSUPPORTED)
    return ATTENTION_REFUSED;
  assert_ok(status, error);
  attention_outcome outcome = try_opened(&l, kernel, plan, parts);
  for (int which = 0; which < BUFFER_COUNT; which++)
    hr_buffer_free(l.buffers[which]);
  hr_plan_free(plan);
  return outcome;
}

/* ---- shapes ---- */

#define PARTS 6

typedef struct shape {
  int64_t q_len, kv_len, heads, k_heads, v_heads, dim;
} shape;

static hr_attention attention_of(const shape *s, hr_dtype dtype, bool causal)
{
  hr_attention a = hr_attention_default();
  a.dtype = dtype;
  a.mask = causal ? HR_MASK_CAUSAL : HR_MASK_NONE;
  a.q_len = s->q_len, a.kv_len = s->kv_len;
  a.q_heads = s->heads, a.k_heads = s->k_heads, a.v_heads = s->v_heads;
  a.qk_dim = a.v_dim = s->dim;
  return a;
}

/* ---- long sequences ---- */

static const shape long_shapes[] = {
    {1023, 1024, 2, 1, 2, 64}, {1024, 1023, 2, 2, 1, 128}, {4096, 4096, 1, 1, 1, 64}, {4224, 4224, 2, 1, 1, 128}};

/* The combinations of masks and shapes are distributed over a kernel's formats; with HEADROOM_TEST=thorough each format
 * gets all. */
static void check_long(hr_device *device, const char *kernel, hr_dtype dtype)
{
  int turns, turn = turn_of(kernel, dtype, &turns);
  for (int i = 0; i < LENGTH(long_shapes); i++)
    for (int causal = 0; causal < 2; causal++) {
      hr_attention a = attention_of(&long_shapes[i], dtype, causal);
      bool has_a_turn = i % turns == turn && (i / 2 + i) % 2 == causal;
      if ((has_a_turn || test_asks_for("thorough")) && test_takes(i + causal) && !attention_takes_long(kernel, &a))
        assert_true(try_large(device, kernel, &a, (uint64_t)(i * 8 + causal * 4), PARTS) != ATTENTION_NO_MEMORY);
    }
}

/* ---- more than 2^31 elements ---- */

/* More than 2^31 elements of Q and O; of K and V; of the scores, where a kernel stores them. Addresses are computed
 * alike in all formats, so each kernel is tested in one, and in fp8, whose V it may transpose. */
static const shape huge_shapes[] = {
    {16500, 77, 1024, 1024, 1024, 128}, {77, 16500, 1024, 1024, 1024, 128}, {5900, 5900, 64, 8, 16, 64}};

static void check_huge(hr_device *device, const char *kernel, hr_dtype dtype)
{
  if (!test_asks_for("thorough")) /* needs gigabytes of a GPU */
    return;
  static const char *const outcomes[] = {"compared", "refused", "not enough memory"};
  int turns, turn = turn_of(kernel, dtype, &turns);
  if (turn != turns / 2 && dtype != HR_FP8_E4M3)
    return;
  for (int i = 0; i < LENGTH(huge_shapes) && device->backend->own_memory; i++) {
    const shape *s = &huge_shapes[i];
    assert_true(s->heads * (s->q_len + s->kv_len) * s->dim > INT32_MAX || s->heads * s->q_len * s->kv_len > INT32_MAX);
    hr_attention a = attention_of(s, dtype, i == 2);
    attention_outcome outcome = try_large(device, kernel, &a, (uint64_t)i * 4, PARTS);
    print_message("%s %s, %d x %d, %d heads of %d: %s\n", kernel, hr_dtype_name(dtype), (int)s->q_len, (int)s->kv_len,
                  (int)s->heads, (int)s->dim, outcomes[outcome]);
  }
}

static const fact facts[] = {
    FACT(long_sequences_give_what_the_formula_gives, check_long),
    FACT(tensors_of_more_than_2_to_the_31_elements_give_what_the_formula_gives, check_huge),
};
const fact_group attention_large_facts = {
    .name = "attention_large", .operation = "attention", .facts = facts, .count = LENGTH(facts)};
