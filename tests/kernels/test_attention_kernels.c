/* Every attention kernel of the table against attention written out in another way: all scores first, softmax without
 * the shift by the largest, K and V heads picked by counting. */
#include "test.h"

#include "runtime/device/device.h"
#include "runtime/device/number.h"
#include "runtime/measure/subject.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct call {
  hr_attention a;
  hr_buffer *q, *k, *v, *o;
} call;

static hr_buffer *make_values(hr_device *device, const hr_attention *a, int64_t length, int64_t heads, int64_t dim,
                              uint64_t seed)
{
  hr_error error;
  hr_buffer *buffer = NULL;
  size_t count = (size_t)(a->batch * length * heads * dim);
  assert_ok(hr_buffer_create(device, count * hr_dtype_bytes(a->dtype), &buffer, &error), error);
  if (seed)
    assert_ok(hr_buffer_fill_uniform(buffer, a->dtype, seed, &error), error);
  else
    assert_ok(hr_buffer_poison(buffer, a->dtype, &error), error);
  return buffer;
}

static call make_call(hr_device *device, const hr_attention *a, uint64_t seed)
{
  return (call){.a = *a,
                .q = make_values(device, a, a->q_len, a->q_heads, a->qk_dim, seed),
                .k = make_values(device, a, a->kv_len, a->k_heads, a->qk_dim, seed + 1),
                .v = make_values(device, a, a->kv_len, a->v_heads, a->v_dim, seed + 2),
                .o = make_values(device, a, a->q_len, a->q_heads, a->v_dim, 0)};
}

static void free_call(call *c)
{
  hr_buffer_free(c->q);
  hr_buffer_free(c->k);
  hr_buffer_free(c->v);
  hr_buffer_free(c->o);
}

static bool run_call(hr_device *device, const char *kernel, call *c)
{
  hr_plan *plan = NULL;
  hr_buffer *workspace = NULL;
  hr_error error = {.message = ""};
  hr_status status = hr_plan_attention(device, &c->a, kernel, &plan, &error);
  if (status == HR_ERROR_UNSUPPORTED)
    return false;
  if (status != HR_OK)
    fail_msg("%s: %s", kernel, error.message);
  if (hr_plan_workspace_bytes(plan) > 0)
    assert_ok(hr_buffer_create(device, hr_plan_workspace_bytes(plan), &workspace, &error), error);
  assert_ok(hr_plan_run_attention(plan, hr_buffer_data(c->q), hr_buffer_data(c->k), hr_buffer_data(c->v),
                                  hr_buffer_data(c->o), workspace ? hr_buffer_data(workspace) : NULL, &error),
            error);
  hr_plan_free(plan);
  hr_buffer_free(workspace);
  return true;
}

static double at(const call *c, const hr_buffer *buffer, int64_t length, int64_t heads, int64_t dim, int64_t batch,
                 int64_t position, int64_t head, int64_t d)
{
  return hr_number_load(c->a.dtype, hr_buffer_data(buffer),
                        (size_t)(((batch * length + position) * heads + head) * dim + d));
}

static bool sees(const hr_attention *a, int64_t query, int64_t key)
{
  if (a->mask == HR_MASK_NONE)
    return true;
  int64_t from_the_end_query = a->q_len - 1 - query, from_the_end_key = a->kv_len - 1 - key;
  int64_t back = from_the_end_key - from_the_end_query; /* 0: its own position */
  return back >= 0 && (a->window == 0 || back < a->window);
}

/* Which K (or V) head a query head reads: heads are dealt out in runs of q_heads / heads. */
static int64_t dealt(int64_t q_heads, int64_t heads, int64_t head)
{
  int64_t owner = 0;
  for (int64_t h = 1; h <= head; h++)
    owner += h % (q_heads / heads) == 0;
  return owner;
}

/* One element of O and what a right kernel may be off by. */
static double expected(const call *c, int64_t batch, int64_t query, int64_t head, int64_t d, double *bound)
{
  const hr_attention *a = &c->a;
  double numerator = 0, denominator = 0, magnitude = 0;
  double scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->qk_dim);
  for (int64_t key = 0; key < a->kv_len; key++) {
    if (!sees(a, query, key))
      continue;
    double score = 0;
    for (int64_t i = 0; i < a->qk_dim; i++)
      score += at(c, c->q, a->q_len, a->q_heads, a->qk_dim, batch, query, head, i) *
               at(c, c->k, a->kv_len, a->k_heads, a->qk_dim, batch, key, dealt(a->q_heads, a->k_heads, head), i);
    double weight = exp(scale * score);
    double value = at(c, c->v, a->kv_len, a->v_heads, a->v_dim, batch, key, dealt(a->q_heads, a->v_heads, head), d);
    numerator += weight * value;
    magnitude += weight * fabs(value);
    denominator += weight;
  }
  double result = denominator == 0 ? 0 : numerator / denominator;
  *bound = hr_attention_error_bound(a->dtype, result, denominator == 0 ? 0 : magnitude / denominator);
  return result;
}

static void assert_call(const char *kernel, const call *c)
{
  const hr_attention *a = &c->a;
  for (int64_t batch = 0; batch < a->batch; batch++)
    for (int64_t query = 0; query < a->q_len; query++)
      for (int64_t head = 0; head < a->q_heads; head++)
        for (int64_t d = 0; d < a->v_dim; d++) {
          double bound, exact = expected(c, batch, query, head, d, &bound);
          double found = at(c, c->o, a->q_len, a->q_heads, a->v_dim, batch, query, head, d);
          if (!(fabs(found - exact) <= bound))
            fail_msg("%s %s heads %d %d %d q %d kv %d: [%d, %d, %d, %d] is %g, exactly %g, allowed ±%g", kernel,
                     hr_dtype_name(a->dtype), (int)a->q_heads, (int)a->k_heads, (int)a->v_heads, (int)a->q_len,
                     (int)a->kv_len, (int)batch, (int)query, (int)head, (int)d, found, exact, bound);
        }
}

static void each_kernel(void (*check)(hr_device *device, const char *kernel, hr_dtype dtype))
{
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(kernels[i].operation, "attention") != 0)
      continue;
    hr_device *device = NULL;
    hr_error error;
    char why[160];
    assert_ok(hr_device_open(kernels[i].device, 0, &device, &error), error);
    if (hr_kernel_runs(device, kernels[i].name, why, sizeof why)) {
      for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++)
        if (hr_has_word(kernels[i].dtypes, hr_dtype_name((hr_dtype)dtype)))
          check(device, kernels[i].name, (hr_dtype)dtype);
    }
    hr_device_close(device);
  }
}

/* q_heads, k_heads, v_heads, qk_dim, v_dim: multi-head, grouped, multi-query, and K and V heads that differ. */
static const int64_t heads[][5] = {{2, 2, 2, 16, 16}, {4, 2, 2, 16, 16}, {4, 1, 1, 8, 8},  {32, 4, 16, 8, 8},
                                   {12, 3, 6, 8, 5},  {8, 1, 1, 24, 16}, {6, 6, 2, 7, 19}, {6, 1, 3, 1, 1}};
static const int64_t lengths[][2] = {{1, 1}, {1, 13}, {5, 5}, {3, 11}, {9, 4}};

static void check_all_forms(hr_device *device, const char *kernel, hr_dtype dtype)
{
  uint64_t seed = 1;
  int ran = 0;
  for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
      for (int form = 0; form < 4; form++) {
        hr_attention a = hr_attention_default();
        a.batch = 2, a.dtype = dtype;
        a.q_heads = heads[h][0], a.k_heads = heads[h][1], a.v_heads = heads[h][2];
        a.qk_dim = heads[h][3], a.v_dim = heads[h][4];
        a.q_len = lengths[l][0], a.kv_len = lengths[l][1];
        a.mask = form == 0 ? HR_MASK_NONE : HR_MASK_CAUSAL;
        a.window = form == 2 ? 1 : form == 3 ? 3 : 0;
        a.scale = form == 1 ? 0.3F : 0;
        call c = make_call(device, &a, seed += 3);
        if (run_call(device, kernel, &c)) {
          assert_call(kernel, &c);
          ran++;
        }
        free_call(&c);
      }
  assert_true(ran > 0);
}

static void every_kernel_agrees_with_the_formula_written_out(void **state)
{
  (void)state;
  each_kernel(check_all_forms);
}

/* q_len 5, kv_len 2, causal to the bottom right: the first three queries see nothing. */
static void check_masked_rows(hr_device *device, const char *kernel, hr_dtype dtype)
{
  hr_attention a = hr_attention_default();
  a.q_len = 5, a.kv_len = 2, a.qk_dim = a.v_dim = 8, a.dtype = dtype;
  call c = make_call(device, &a, 40);
  if (run_call(device, kernel, &c)) {
    for (int64_t i = 0; i < 3 * 8; i++)
      assert_true(hr_number_load(dtype, hr_buffer_data(c.o), (size_t)i) == 0);
    for (int64_t i = 3 * 8; i < 5 * 8; i++)
      assert_true(isfinite(hr_number_load(dtype, hr_buffer_data(c.o), (size_t)i)));
  }
  free_call(&c);
}

static void a_query_that_sees_no_key_gives_zeros(void **state)
{
  (void)state;
  each_kernel(check_masked_rows);
}

static void check_nan(hr_device *device, const char *kernel, hr_dtype dtype)
{
  hr_attention a = hr_attention_default();
  a.q_len = a.kv_len = 6, a.qk_dim = a.v_dim = 8, a.dtype = dtype;
  call c = make_call(device, &a, 50);
  hr_number_store(dtype, hr_buffer_data(c.v), 4 * 8 + 2, (double)NAN); /* value 4, element 2 */
  if (run_call(device, kernel, &c)) {
    for (int64_t query = 0; query < 6; query++)
      for (int64_t d = 0; d < 8; d++) {
        double found = hr_number_load(dtype, hr_buffer_data(c.o), (size_t)(query * 8 + d));
        assert_true((query >= 4 && d == 2) == (isnan(found) != 0));
      }
  }
  free_call(&c);
}

static void a_nan_reaches_the_queries_that_see_it_and_no_others(void **state)
{
  (void)state;
  each_kernel(check_nan);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kernel_agrees_with_the_formula_written_out),
      cmocka_unit_test(a_query_that_sees_no_key_gives_zeros),
      cmocka_unit_test(a_nan_reaches_the_queries_that_see_it_and_no_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
