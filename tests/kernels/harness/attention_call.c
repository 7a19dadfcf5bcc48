/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_call.h"

#include "shape/number.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- arrays ---- */

/* The array is aligned to `alignment` bytes and to no larger power of two. */
static void make_array(attention_call *c, int which, size_t bytes, size_t alignment)
{
  bool shifted = c->setup.shifts && which <= ARRAY_O;
  c->arrays[which] = place_make(c->device, bytes,
                                (placing){.alignment = alignment,
                                          .at_start = shifted || c->setup.at_start,
                                          .shift = shifted ? (size_t)c->setup.shifts[which] * alignment : 0});
}

static void point_at(attention_call *c)
{
  hr_attention_arguments *x = &c->arguments;
  x->q = c->arrays[ARRAY_Q].data;
  x->k = c->arrays[ARRAY_K].data;
  x->v = c->arrays[ARRAY_V].data;
  x->o = c->arrays[ARRAY_O].data;
  x->lse = c->arrays[ARRAY_LSE].data;
  x->alibi_slopes = c->arrays[ARRAY_SLOPES].data;
  x->q_offsets = c->arrays[ARRAY_Q_OFFSETS].data;
  x->kv_offsets = c->arrays[ARRAY_KV_OFFSETS].data;
  x->first_keys = c->arrays[ARRAY_FIRST_KEYS].data;
  x->q_scales = c->arrays[ARRAY_Q_SCALES].data;
  x->k_scales = c->arrays[ARRAY_K_SCALES].data;
  x->v_scales = c->arrays[ARRAY_V_SCALES].data;
}

void attention_move(attention_call *c, uint64_t *random)
{
  hr_buffer *in_the_way[ARRAY_COUNT] = {NULL};
  place old[ARRAY_COUNT];
  memcpy(old, c->arrays, sizeof old);
  for (int which = 0; which < ARRAY_COUNT; which++)
    place_free_on_device(&old[which]);
  for (int which = 0; which < ARRAY_COUNT; which++) {
    c->arrays[which] = (place){.data = NULL};
    if (old[which].data)
      in_the_way[which] = place_again(c->device, &old[which], next_random(random), &c->arrays[which]);
  }
  for (int which = 0; which < ARRAY_COUNT; which++) {
    hr_buffer_free(in_the_way[which]);
    place_free(&old[which]);
  }
  point_at(c);
}

/* ---- operands ---- */

int64_t attention_heads_of(const hr_attention *a, int which)
{
  return which == ARRAY_K ? a->k_heads : which == ARRAY_V ? a->v_heads : a->q_heads;
}

int64_t attention_dim_of(const hr_attention *a, int which)
{
  return which == ARRAY_Q || which == ARRAY_K ? a->qk_dim : a->v_dim;
}

int64_t attention_rows(const attention_call *c, int which)
{
  bool query = which == ARRAY_Q || which == ARRAY_O;
  if (c->a.variable_lengths)
    return query ? c->a.q_total : c->a.kv_total;
  return c->a.batch * (query ? c->a.q_len : c->a.kv_len);
}

/* Index of element [row][head][d], gaps included. Computed here independently of the library. */
static size_t place_in(const attention_call *c, int which, int64_t row, int64_t head, int64_t d)
{
  const hr_attention *a = &c->a;
  const hr_strides *const strides[] = {&a->q_strides, &a->k_strides, &a->v_strides, &a->o_strides};
  const hr_strides *s = strides[which];
  int64_t heads = attention_heads_of(a, which), dim = attention_dim_of(a, which),
          length = which == ARRAY_Q || which == ARRAY_O ? a->q_len : a->kv_len;
  int64_t batch = a->variable_lengths ? 0 : row / length, inside = a->variable_lengths ? row : row % length;
  if (s->batch == 0 && s->row == 0 && s->head == 0)
    return (size_t)((row * heads + head) * dim + d);
  return (size_t)(batch * s->batch + inside * s->row + head * s->head + d);
}

void attention_set(attention_call *c, int which, int64_t row, int64_t head, int64_t d, double value)
{
  double *values = which == ARRAY_Q ? c->q : which == ARRAY_K ? c->k : c->v;
  size_t at = place_in(c, which, row, head, d);
  hr_number_store(c->a.dtype, c->arrays[which].host, at, value);
  values[(row * attention_heads_of(&c->a, which) + head) * attention_dim_of(&c->a, which) + d] =
      hr_number_load(c->a.dtype, c->arrays[which].host, at);
}

static double *make_operand(attention_call *c, int which)
{
  int64_t rows = attention_rows(c, which), heads = attention_heads_of(&c->a, which),
          dim = attention_dim_of(&c->a, which), elements = 0;
  size_t count = (size_t)(rows * heads * dim), element = hr_dtype_bytes(c->a.dtype);
  assert_int_equal(hr_attention_span(&c->a, (hr_attention_operand)which, &elements), HR_OK);
  make_array(c, which, (size_t)elements * element, element);
  char *packed = malloc(count * element + 1);
  double *values = malloc(count * sizeof *values + 1);
  assert_true(packed && values);
  hr_numbers_uniform(c->a.dtype, c->setup.seed * 4 + (uint64_t)which, 0, count, packed);
  hr_numbers_load(c->a.dtype, packed, 0, count, values);
  for (int64_t i = 0; i < rows * heads; i++)
    memcpy(c->arrays[which].host + place_in(c, which, i / heads, i % heads, 0) * element,
           packed + (size_t)(i * dim) * element, (size_t)dim * element);
  free(packed);
  return values;
}

static void make_gaps(hr_attention *a, int64_t gap)
{
  hr_strides *const strides[] = {&a->q_strides, &a->k_strides, &a->v_strides, &a->o_strides};
  for (hr_attention_operand which = HR_OPERAND_Q; gap > 0 && which <= HR_OPERAND_O; which++) {
    int64_t heads = attention_heads_of(a, (int)which), head = attention_dim_of(a, (int)which) + gap,
            row = heads * head + 2 * gap;
    int64_t query = which == HR_OPERAND_Q || which == HR_OPERAND_O;
    *strides[which] = (hr_strides){.head = head, .row = row, .batch = (query ? a->q_len : a->kv_len) * row + 3 * gap};
  }
}

/* 0.5 to 1.5, or 1 without scales. */
static void make_scales(attention_call *c)
{
  uint64_t random = c->setup.seed;
  for (int which = ARRAY_Q; which <= ARRAY_V; which++) {
    int64_t heads = attention_heads_of(&c->a, which);
    float *scales = c->scales[which] = calloc((size_t)heads, sizeof *scales);
    assert_non_null(scales);
    for (int64_t h = 0; h < heads; h++)
      scales[h] = c->a.head_scales ? 0.5F + (float)(next_random(&random) >> 40) * 0x1p-24F : 1;
    if (!c->a.head_scales)
      continue;
    make_array(c, ARRAY_Q_SCALES + which, (size_t)heads * sizeof(float), sizeof(float));
    memcpy(c->arrays[ARRAY_Q_SCALES + which].host, scales, (size_t)heads * sizeof(float));
  }
}

static void make_floats(attention_call *c)
{
  int64_t lse = 0;
  make_scales(c);
  assert_int_equal(hr_attention_lse_elements(&c->a, &lse), HR_OK);
  if (!c->setup.no_lse)
    make_array(c, ARRAY_LSE, (size_t)lse * sizeof(float), sizeof(float));
  if (!c->a.alibi)
    return;
  make_array(c, ARRAY_SLOPES, (size_t)c->a.q_heads * sizeof(float), sizeof(float));
  hr_attention_alibi_slopes(c->a.q_heads, c->slopes);
  memcpy(c->arrays[ARRAY_SLOPES].host, c->slopes, (size_t)c->a.q_heads * sizeof(float));
}

static void make_offsets(attention_call *c)
{
  if (!c->a.variable_lengths)
    return;
  size_t bytes = (size_t)(c->a.batch + 1) * sizeof(int32_t);
  make_array(c, ARRAY_Q_OFFSETS, bytes, sizeof(int32_t));
  make_array(c, ARRAY_KV_OFFSETS, bytes, sizeof(int32_t));
  memcpy(c->arrays[ARRAY_Q_OFFSETS].host, c->setup.q_offsets, bytes);
  memcpy(c->arrays[ARRAY_KV_OFFSETS].host, c->setup.kv_offsets, bytes);
}

/* Documents of random lengths, some of one key; a sequence's first one may begin before its keys, the last behind
 * them. */
static void make_first_keys(attention_call *c)
{
  int64_t rows = attention_rows(c, ARRAY_Q);
  uint64_t random = c->setup.seed + 17;
  if (!c->a.first_keys)
    return;
  make_array(c, ARRAY_FIRST_KEYS, (size_t)rows * sizeof(int32_t), sizeof(int32_t));
  int32_t *first = (int32_t *)(void *)c->arrays[ARRAY_FIRST_KEYS].host;
  for (int64_t i = 0; i < rows; i++)
    first[i] = INT32_MAX; /* of rows of no sequence */
  for (int64_t b = 0; b < c->a.batch; b++) {
    attention_place at = attention_place_of(c, b);
    int32_t key = next_random(&random) % 2 ? 0 : -5;
    for (int64_t i = 0; i < at.q_len; i++) {
      int32_t own = (int32_t)(i + at.kv_len - at.q_len);
      int32_t next = own + (int32_t)(next_random(&random) % 3);
      if (next_random(&random) % 9 == 0 && next > key)
        key = next;
      first[at.q_row + i] = key;
    }
  }
}

void attention_open(hr_device *device, const attention_setup *setup, attention_call *c)
{
  hr_error error;
  *c = (attention_call){.device = device, .a = setup->a, .setup = *setup};
  c->arguments = hr_attention_arguments_default();
  c->slopes = calloc((size_t)c->a.q_heads, sizeof *c->slopes);
  if (c->a.dtype == HR_FP8_E4M3) { /* O in fp8 is what Tensor Cores do not write: seldom */
    c->a.output = setup->seed % 7 == 6 ? HR_OUTPUT_AS_OPERANDS : setup->seed % 2 ? HR_OUTPUT_BF16 : HR_OUTPUT_FP16;
    c->a.head_scales = setup->seed % 3 != 0;
  }
  if (setup->layout != HR_LAYOUT_BSHD)
    assert_ok(hr_attention_set_layout(&c->a, setup->layout, &error), error);
  else
    make_gaps(&c->a, setup->gap);
  assert_ok(hr_attention_check(&c->a, &error), error);
  c->q = make_operand(c, ARRAY_Q);
  c->k = make_operand(c, ARRAY_K);
  c->v = make_operand(c, ARRAY_V);
  int64_t elements = 0;
  assert_int_equal(hr_attention_span(&c->a, HR_OPERAND_O, &elements), HR_OK);
  size_t element = hr_dtype_bytes(hr_attention_output_dtype(&c->a));
  make_array(c, ARRAY_O, (size_t)elements * element, element);
  make_floats(c);
  make_offsets(c);
  make_first_keys(c);
  point_at(c);
}

void attention_close(attention_call *c)
{
  for (int which = 0; which < ARRAY_COUNT; which++)
    place_free(&c->arrays[which]);
  free(c->q);
  free(c->k);
  free(c->v);
  free(c->slopes);
  for (int which = ARRAY_Q; which <= ARRAY_V; which++)
    free(c->scales[which]);
}

/* ---- the run ---- */

static bool in_a_sequence(const attention_call *c, int64_t row)
{
  for (int64_t b = 0; c->a.variable_lengths && b < c->a.batch; b++) {
    if (row >= c->setup.q_offsets[b] && row < c->setup.q_offsets[b + 1])
      return true;
  }
  return !c->a.variable_lengths;
}

static void assert_untouched(const attention_call *c, const char *kernel)
{
  const place *array = &c->arrays[ARRAY_O];
  size_t element = hr_dtype_bytes(hr_attention_output_dtype(&c->a));
  bool *written = calloc(array->bytes / element + 1, sizeof *written);
  char text[512], what[640];
  assert_non_null(written);
  for (int64_t i = 0; i < attention_rows(c, ARRAY_O) * c->a.q_heads; i++) {
    if (in_a_sequence(c, i / c->a.q_heads))
      memset(written + place_in(c, ARRAY_O, i / c->a.q_heads, i % c->a.q_heads, 0), 1, (size_t)c->a.v_dim);
  }
  snprintf(what, sizeof what, "%s %s", kernel, attention_words(c, text));
  place_assert_rest(array, written, element, what);
  free(written);
}

static void run_plan(attention_call *c, const hr_plan *plan)
{
  hr_error error;
  const hr_arguments arguments = {.attention = c->arguments};
  memset(c->arrays[ARRAY_O].host, POISON, c->arrays[ARRAY_O].bytes);
  if (c->arguments.lse)
    memset(c->arrays[ARRAY_LSE].host, POISON, c->arrays[ARRAY_LSE].bytes);
  for (int which = 0; which < ARRAY_COUNT; which++)
    place_send(&c->arrays[which]);
  assert_ok(run_arguments(plan, &arguments, c->setup.at_start, &error), error);
  place_bring(&c->arrays[ARRAY_O]);
  place_bring(&c->arrays[ARRAY_LSE]);
}

/* The largest power of two up to 16 of which the addresses of Q, K, V and O are multiples. */
static int64_t alignment_of(const attention_call *c)
{
  const hr_attention_arguments *x = &c->arguments;
  uintptr_t all = (uintptr_t)x->q | (uintptr_t)x->k | (uintptr_t)x->v | (uintptr_t)x->o | 16;
  return (int64_t)(all & (~all + 1));
}

/* Plans every third call for more sequences and rows than it has. */
static hr_status make_plan(attention_call *c, const char *kernel, hr_plan **plan, hr_error *error)
{
  hr_attention larger = c->a;
  hr_attention_arguments *x = &c->arguments;
  larger.batch += 3;
  if (larger.variable_lengths)
    larger.q_total += 5, larger.kv_total += 7;
  x->batch = x->q_rows = x->kv_rows = 0;
  if (c->setup.seed % 3 != 0 || hr_plan_attention(c->device, &larger, kernel, plan, error) != HR_OK)
    return hr_plan_attention(c->device, &c->a, kernel, plan, error);
  if ((*plan)->kernel->functions->whole) {
    hr_plan_free(*plan);
    return hr_plan_attention(c->device, &c->a, kernel, plan, error);
  }
  x->batch = c->a.batch, x->q_rows = c->a.q_total, x->kv_rows = c->a.kv_total;
  return HR_OK;
}

bool attention_run(attention_call *c, const char *kernel)
{
  c->a.alignment = alignment_of(c);
  hr_plan *plan = NULL;
  hr_error error = {.message = ""};
  char text[512];
  hr_status status = make_plan(c, kernel, &plan, &error);
  if (status == HR_ERROR_UNSUPPORTED && c->device->backend->own_memory) { /* CPU kernels support every problem */
    if (strlen(error.message) < strlen(kernel) + 8)
      fail_msg("%s refuses without a sentence: \"%s\"", kernel, error.message);
    return false;
  }
  if (status != HR_OK)
    fail_msg("%s %s: %s", kernel, attention_words(c, text), error.message);
  run_plan(c, plan);
  hr_plan_free(plan);
  assert_untouched(c, kernel);
  return true;
}

/* ---- results ---- */

attention_place attention_place_of(const attention_call *c, int64_t batch)
{
  const hr_attention *a = &c->a;
  if (!a->variable_lengths)
    return (attention_place){batch * a->q_len, a->q_len, batch * a->kv_len, a->kv_len};
  const int32_t *q = c->setup.q_offsets + batch, *kv = c->setup.kv_offsets + batch;
  return (attention_place){q[0], q[1] - q[0], kv[0], kv[1] - kv[0]};
}

double attention_result(const attention_call *c, int64_t row, int64_t head, int64_t d)
{
  return hr_number_load(hr_attention_output_dtype(&c->a), c->arrays[ARRAY_O].host, place_in(c, ARRAY_O, row, head, d));
}

void attention_results(const attention_call *c, int64_t row, int64_t head, double *values)
{
  hr_numbers_load(hr_attention_output_dtype(&c->a), c->arrays[ARRAY_O].host, place_in(c, ARRAY_O, row, head, 0),
                  (size_t)c->a.v_dim, values);
}

double attention_lse(const attention_call *c, int64_t batch, int64_t query, int64_t head)
{
  const hr_attention *a = &c->a;
  int64_t at = a->variable_lengths ? head * a->q_total + c->setup.q_offsets[batch] + query
                                   : (batch * a->q_heads + head) * a->q_len + query;
  float value;
  memcpy(&value, c->arrays[ARRAY_LSE].host + (size_t)at * sizeof value, sizeof value);
  return (double)value;
}

const char *attention_words(const attention_call *c, char text[512])
{
  const hr_attention *a = &c->a;
  snprintf(text, 512,
           "%s batch %" PRId64 " heads %" PRId64 " %" PRId64 " %" PRId64 " dims %" PRId64 " %" PRId64 " q %" PRId64
           " kv %" PRId64 "%s window %" PRId64 " scale %g softcap %g%s%s%s%s layout %s gap %" PRId64 " seed %" PRIu64
           "%s%s",
           hr_dtype_name(a->dtype), a->batch, a->q_heads, a->k_heads, a->v_heads, a->qk_dim, a->v_dim, a->q_len,
           a->kv_len, a->mask == HR_MASK_CAUSAL ? " causal" : "", a->window, (double)a->scale, (double)a->softcap,
           a->alibi ? " alibi" : "", a->first_keys ? " first keys" : "", a->head_scales ? " scales" : "",
           a->variable_lengths ? " variable lengths" : "", hr_layout_name(c->setup.layout), c->setup.gap, c->setup.seed,
           c->setup.part_of ? ", part of " : "", c->setup.part_of ? c->setup.part_of : "");
  return text;
}

bool attention_takes_long(const char *kernel, const hr_attention *a)
{
  int64_t multiply_adds = a->batch * a->q_heads * a->q_len * a->kv_len * (a->qk_dim + a->v_dim);
  bool slow = strcmp(kernel, "attention_reference") == 0 || strcmp(kernel, "attention_naive") == 0;
  return slow && multiply_adds > 100000;
}
