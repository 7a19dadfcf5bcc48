/* SPDX-License-Identifier: Apache-2.0 */
/* Row-wise operations: lengths around those that a pack, a thread, a warp, a block and a cluster hold, addresses,
 * special values, exponentials. */
#include "call.h"

#include "runtime/measure/error_bounds.h"
#include "runtime/reference/reference.h"
#include "shape/number.h"
#include "shape/rowwise_operands.h"

#include <math.h>

static hr_problem plain(hr_dtype dtype)
{
  hr_rowwise r = hr_rowwise_default();
  r.dtype = dtype;
  return hr_rowwise_problem(&r);
}

static bool is_rotary(int operation)
{
  return operation == HR_ROWWISE_ROTARY || operation == HR_ROWWISE_ROTARY_BACKWARD;
}

static bool is_softmax(int operation)
{
  return operation == HR_ROWWISE_SOFTMAX || operation == HR_ROWWISE_SOFTMAX_BACKWARD;
}

static bool has_table(int operation)
{
  return operation == HR_ROWWISE_GATHER || operation == HR_ROWWISE_COMBINE || operation == HR_ROWWISE_GATHER_BACKWARD ||
         operation == HR_ROWWISE_GATHER_SUM || operation == HR_ROWWISE_COMBINE_BACKWARD;
}

static bool adds_terms(int operation)
{
  return operation == HR_ROWWISE_COMBINE || operation == HR_ROWWISE_GATHER_SUM;
}

static hr_rowwise with_adamw(hr_rowwise r, double max_norm)
{
  r.learning_rate = 0.01, r.beta1 = 0.9, r.beta2 = 0.999, r.weight_decay = 0.1;
  r.max_norm = max_norm;
  r.step = 3;
  return r;
}

static bool is_norm(int operation)
{
  return operation == HR_ROWWISE_LAYER_NORM || operation == HR_ROWWISE_RMS_NORM ||
         operation == HR_ROWWISE_LAYER_NORM_BACKWARD || operation == HR_ROWWISE_RMS_NORM_BACKWARD ||
         hr_rowwise_adds_before_norm((hr_rowwise_operation)operation);
}

/* Columns that are an odd number apart. */
static hr_rowwise with_join(hr_rowwise r)
{
  r.rotated = hr_max64(2, r.columns / 4 * 2);
  r.columns = hr_max64(r.columns, r.rotated + 1);
  r.group = r.rows % 2 ? 1 : 2, r.period = 7;
  r.x_row = r.columns + 3;
  r.z_row = r.columns + 2;
  return r;
}

static hr_rowwise rows_of(int operation, hr_dtype dtype, int64_t rows, int64_t columns)
{
  hr_rowwise r = hr_rowwise_default();
  r.operation = (hr_rowwise_operation)operation;
  r.dtype = dtype;
  r.rows = rows, r.columns = columns;
  if (operation == HR_ROWWISE_DROPOUT)
    r.rate = 0.3, r.seed = 0x123456789ABCDEFu;
  if (operation == HR_ROWWISE_CROSS_ENTROPY_BACKWARD)
    r.scale = 0.25;
  if (operation == HR_ROWWISE_ADAMW)
    r = with_adamw(r, rows % 2 ? 0 : 1.5);
  if (is_rotary(operation))
    r.columns += columns % 2, r.period = 7, r.group = 3;
  if (has_table(operation))
    r.period = 11, r.group = adds_terms(operation) ? 1 + columns % 7 : 1;
  if (operation == HR_ROWWISE_SINK)
    r.group = rows % 2 ? 1 : 2, r.period = rows % 4 ? rows / r.group : rows / 4;
  if (operation == HR_ROWWISE_ROTARY_JOIN)
    r = with_join(r);
  if (operation == HR_ROWWISE_COPY || operation == HR_ROWWISE_BIAS)
    r.x_stride = columns + 5;
  if (operation == HR_ROWWISE_COPY && columns % 3)
    r.y_stride = columns + 2;
  if (is_norm(operation))
    r.epsilon = 0.125;
  r.factor = operation == HR_ROWWISE_GATHER_BACKWARD ? (double)(columns / 2 % 2) : 0.7;
  return r;
}

#define FUSED_COLUMNS_MAX 16384 /* on a GPU */

/* ---- a case ---- */

/* The row of an output at `scratch` behind the reference's own. */
static void compare_row(const call *c, hr_rowwise_output_row at, const void *const *inputs, double *scratch)
{
  const hr_rowwise *r = &c->problem.rows;
  const int64_t length = hr_rowwise_output_length(r, at.output);
  double *expected = scratch + hr_reference_rowwise_scratch(r), *norm = expected + r->columns;
  hr_reference_rowwise(r, inputs, at, scratch, expected, norm);
  for (int64_t i = 0; i < length; i++) {
    double found = call_element(c, c->operands.inputs + (size_t)at.output,
                                (size_t)(hr_rowwise_output_at(r, at.output, at.row) + i));
    double bound = hr_rowwise_error_bound(r, at.output, expected[i], norm[i]);
    if (!is_near(found, expected[i], bound))
      fail_msg("%s %s %s, %d rows of %d, period %d, output %d: [%d, %d] is %g, exactly %g, allowed ±%g", c->kernel,
               hr_rowwise_operation_name(r->operation), hr_dtype_name(r->dtype), (int)r->rows, (int)r->columns,
               (int)r->period, at.output, (int)at.row, (int)i, found, expected[i], bound);
  }
}

/* `inputs`: copies of those that results have replaced, NULL for the others. */
static void compare_with(const call *c, const void *const *copies)
{
  const hr_rowwise *r = &c->problem.rows;
  const void *inputs[HR_OPERANDS_MAX] = {NULL};
  for (size_t i = 0; i < c->operands.inputs; i++)
    inputs[i] = copies && copies[i] ? copies[i] : c->places[i].host;
  double *scratch = calloc(hr_reference_rowwise_scratch(r) + 2 * (size_t)r->columns, sizeof *scratch);
  const double clip = r->operation == HR_ROWWISE_ADAMW ? hr_reference_clip(r, inputs, scratch) : 0;
  for (size_t output = 0; output < c->operands.count - c->operands.inputs; output++)
    for (int64_t row = 0; row < hr_rowwise_output_rows(r, (int)output); row++)
      compare_row(c, (hr_rowwise_output_row){(int)output, row, clip, 0}, inputs, scratch);
  free(scratch);
}

/* Puts a NaN, infinities and a row of −∞ among the values; needs at least four rows and two columns. The first input of
 * a gradient is dy, of the others x. */
static void put_specials(const call *c, size_t input)
{
  const hr_rowwise *r = &c->problem.rows;
  size_t columns = (size_t)r->columns;
  void *x = c->places[input].host;
  hr_number_store(r->dtype, x, 1, (double)NAN);
  hr_number_store(r->dtype, x, columns + 1, (double)INFINITY);
  hr_number_store(r->dtype, x, 2 * columns + 1, -(double)INFINITY);
  for (size_t i = 0; i < columns; i++)
    hr_number_store(r->dtype, x, 3 * columns + i, -(double)INFINITY);
}

/* The kernels of a GPU are three programs. */
static bool is_refused(const char *kernel, const hr_rowwise *r)
{
  const bool trains = hr_rowwise_trains(r->operation), fused = hr_rowwise_adds_before_norm(r->operation);
  if (strcmp(kernel, "rowwise_fused_cuda") == 0)
    return !fused || r->columns > FUSED_COLUMNS_MAX;
  return (fused && strcmp(kernel, "rowwise_cuda") == 0) ||
         (trains && (r->dtype == HR_FP8_E4M3 || strcmp(kernel, "rowwise_cuda") == 0)) ||
         (!trains && strcmp(kernel, "rowwise_backward_cuda") == 0);
}

static void check_one(hr_device *device, const char *kernel, const hr_rowwise *r, const size_t *shifts, bool special)
{
  call c;
  hr_rowwise rows = *r;
  rows.alignment = shifts ? (int64_t)hr_dtype_bytes(r->dtype) : 0;
  if (is_refused(kernel, r))
    return;
  const hr_problem problem = hr_rowwise_problem(&rows);
  call_open(device, kernel, &problem, shifts, 7, &c);
  if (special)
    put_specials(&c, has_table((int)rows.operation) ? 1 : 0);
  if (special && rows.rows == 6 && c.operands.inputs > 1 && c.operands.bytes[1] == c.operands.bytes[0])
    put_specials(&c, 1);
  assert_true(call_run(&c, NULL));
  compare_with(&c, NULL);
  call_close(&c);
}

/* ---- every kernel ---- */

/* Lengths around those that a pack, a thread, part of a warp, a warp, a block and a cluster hold, aligned and not. */
static const int64_t sizes[][2] = {{1, 1},     {1, 2},      {3, 64},     {5, 98},     {7, 99},     {70, 128},
                                   {17, 513},  {17, 1000},  {6, 1025},   {4, 2048},   {5, 2055},   {3, 4099},
                                   {2, 8192},  {3, 8202},   {2, 16384},  {2, 16386},  {2, 32768},  {3, 32769},
                                   {2, 50257}, {2, 50258},  {3, 131072}, {2, 131073}, {1, 262145}, {700, 16},
                                   {1100, 3},  {40, 33001}, {270, 2056}, {300, 600}};

/* Large tensors are distributed over the formats; with HEADROOM_TEST=thorough each format gets all. */
#define LARGE 4096          /* elements */
#define LONG_ON_A_CPU 20000 /* longer rows take no other path on a CPU */

typedef struct subject {
  hr_device *device;
  const char *kernel;
  hr_dtype dtype;
  int turn, turns;
  int cases, seen;
} subject;

static bool has_a_turn(subject *s, int64_t rows, int64_t columns)
{
  bool cpu = strncmp(hr_device_name(s->device), "cuda", 4) != 0;
  if (test_asks_for("thorough"))
    return !cpu || columns <= 60000;
  if (cpu && columns > LONG_ON_A_CPU)
    return false;
  return rows * columns <= LARGE || s->cases++ % s->turns == s->turn;
}

static void check_case(subject *s, const hr_rowwise *r, const size_t *shifts, bool special)
{
  if (test_takes(s->seen++) && has_a_turn(s, r->rows, r->columns))
    check_one(s->device, s->kernel, r, shifts, special);
}

static void try_sizes(subject *s, int operation)
{
  for (int64_t i = 0; i < LENGTH(sizes); i++) {
    hr_rowwise r = rows_of(operation, s->dtype, sizes[i][0], sizes[i][1]);
    check_case(s, &r, NULL, false);
    if (!is_softmax(operation))
      continue;
    r.period = r.rows > r.columns ? r.rows : 2; /* the first rows may see no key */
    check_case(s, &r, NULL, false);
    r.period = r.columns; /* the first row sees one key */
    check_case(s, &r, NULL, false);
  }
}

/* Addresses aligned to one element only: all operands alike, each with its own shift, and the result alone. The lengths
 * are for a part of a warp, a block and a cluster. */
static void try_addresses(subject *s, int operation)
{
  static const size_t shifts[][HR_OPERANDS_MAX] = {
      {1, 1, 1, 1, 1, 1, 1, 1}, {1, 2, 3, 7, 1, 5}, {5, 4, 6, 3, 0, 2, 1, 3}, {0, 0, 0, 1, 1}, {3, 0, 0, 0}};
  static const int64_t lengths[] = {24, 512, 1021, 4096, 33000};
  for (int64_t i = 0; i < LENGTH(shifts); i++)
    for (int64_t j = 0; j < LENGTH(lengths); j++) {
      hr_rowwise r = rows_of(operation, s->dtype, 3, lengths[j]);
      check_case(s, &r, shifts[i], false);
    }
}

static void try_specials(subject *s, int operation)
{
  static const int64_t lengths[] = {32, 100, 2049, 16400, 40001};
  for (int64_t i = 0; i < LENGTH(lengths) && s->dtype != HR_FP8_E4M3; i++) {
    for (int64_t rows = 5; rows <= (hr_rowwise_trains((hr_rowwise_operation)operation) ? 6 : 5); rows++) {
      hr_rowwise r = rows_of(operation, s->dtype, rows, lengths[i]);
      check_case(s, &r, NULL, true);
    }
  }
}

/* On a CPU twice: results larger than the caches use streaming stores. */
static void check_all(hr_device *device, const char *kernel, hr_dtype dtype, void (*try)(subject *s, int operation))
{
  subject s = {.device = device, .kernel = kernel, .dtype = dtype};
  s.turn = turn_of(kernel, dtype, &s.turns);
  const size_t cache_bytes = device->cache_bytes;
  for (int pass = 0; pass < (device->backend->own_memory ? 1 : 2); pass++) {
    device->cache_bytes = pass == 0 ? cache_bytes : 0;
    s.cases = 0;
    for (int operation = 0; operation < HR_ROWWISE_COUNT; operation++)
      try(&s, operation);
  }
  device->cache_bytes = cache_bytes;
}

static void check_sizes(hr_device *device, const char *kernel, hr_dtype dtype)
{
  check_all(device, kernel, dtype, try_sizes);
}

static void check_addresses(hr_device *device, const char *kernel, hr_dtype dtype)
{
  check_all(device, kernel, dtype, try_addresses);
}

static void check_specials(hr_device *device, const char *kernel, hr_dtype dtype)
{
  check_all(device, kernel, dtype, try_specials);
}

/* ---- sums and replaced inputs ---- */

/* The bits of all results, one behind the other. */
static char *results_of(const call *c, size_t *bytes)
{
  char *all = NULL;
  *bytes = 0;
  for (size_t i = c->operands.inputs; i < c->operands.count; i++) {
    all = realloc(all, *bytes + c->operands.bytes[i]);
    memcpy(all + *bytes, c->places[i].host, c->operands.bytes[i]);
    *bytes += c->operands.bytes[i];
  }
  return all;
}

static void check_repeats(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int64_t lengths[] = {96, 1000, 4104};
  for (int operation = 0; operation < HR_ROWWISE_COUNT; operation++)
    for (int64_t i = 0; i < LENGTH(lengths); i++) {
      const hr_rowwise r = rows_of(operation, dtype, 150, lengths[i]);
      const hr_problem problem = hr_rowwise_problem(&r);
      call c;
      size_t bytes, again_bytes;
      if (is_refused(kernel, &r) || !hr_rowwise_trains(r.operation))
        continue;
      call_open(device, kernel, &problem, NULL, 11, &c);
      assert_true(call_run(&c, NULL));
      char *first = results_of(&c, &bytes);
      assert_true(call_run(&c, NULL));
      char *again = results_of(&c, &again_bytes);
      if (memcmp(first, again, bytes) != 0)
        fail_msg("%s %s: two runs differ", kernel, hr_rowwise_operation_name(r.operation));
      free(first);
      free(again);
      call_close(&c);
    }
}

/* Runs with the results at the addresses of the inputs that they replace; `copies` are of these inputs. */
static void run_in_place(call *c, const void **copies)
{
  const size_t inputs = c->operands.inputs;
  hr_plan *plan = NULL;
  hr_error error = {.message = ""};
  for (size_t i = inputs; i < c->operands.count; i++) {
    if (c->operands.replaces[i] == 0)
      continue;
    place *input = &c->places[c->operands.replaces[i] - 1];
    void *copy = malloc(input->bytes);
    memcpy(copy, input->host, input->bytes);
    memcpy(c->places[i].host, copy, input->bytes);
    copies[c->operands.replaces[i] - 1] = copy;
    place_free(input);
    *input = c->places[i];
  }
  assert_ok(hr_plan_create(c->device, &c->problem, c->kernel, &plan, &error), error);
  call_run_plan(c, plan, NULL);
  hr_plan_free(plan);
}

static bool replaces_any(const hr_problem *problem)
{
  const hr_operands of = hr_problem_operands(problem);
  bool any = false;
  for (size_t i = of.inputs; i < of.count; i++)
    any = any || of.replaces[i] > 0;
  return any;
}

static void check_in_place(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int64_t lengths[] = {64, 99, 1000, 5000, 50257};
  for (int operation = 0; operation < HR_ROWWISE_COUNT; operation++)
    for (int64_t i = 0; i < LENGTH(lengths); i++) {
      const hr_rowwise r = rows_of(operation, dtype, 4, lengths[i]);
      const hr_problem problem = hr_rowwise_problem(&r);
      const void *copies[HR_OPERANDS_MAX] = {NULL};
      call c;
      if (is_refused(kernel, &r) || !replaces_any(&problem))
        continue;
      call_open(device, kernel, &problem, NULL, 13, &c);
      run_in_place(&c, copies);
      compare_with(&c, copies);
      for (size_t j = 0; j < HR_OPERANDS_MAX; j++) {
        free((void *)(uintptr_t)copies[j]);
        if (j < c.operands.inputs && copies[j])
          c.places[j] = (place){.data = NULL}; /* the place of a result */
      }
      call_close(&c);
    }
}

/* Heads of which a part is rotated, in both orders of pairs, side by side with other heads. */
static void try_rotary(subject *s, int operation)
{
  static const int64_t parts[][2] = {{8, 4}, {64, 16}, {80, 32}, {80, 20}, {96, 96}, {128, 0}, {100, 30}};
  for (int64_t i = 0; i < 4 * LENGTH(parts) && operation == HR_ROWWISE_ROTARY; i++) {
    hr_rowwise r = rows_of(operation, s->dtype, 15, parts[i / 4][0]);
    r.rotated = parts[i / 4][1];
    r.interleaved = i % 2 != 0;
    r.x_stride = i % 4 < 2 ? 0 : 5 * r.columns + i / 4 % 2;
    r.y_stride = i % 8 < 6 ? 0 : 4 * r.columns + i / 8 % 2;
    check_case(s, &r, NULL, false);
  }
}

/* Heads behind columns of their own, and one vector that all heads of a token share or one for each. */
static void try_join(subject *s, int operation)
{
  static const int64_t parts[][4] = {{24, 8, 4, 0},     {192, 64, 16, 0}, {576, 64, 1, 0},  {192, 64, 3, 192},
                                     {576, 64, 5, 192}, {100, 30, 7, 30}, {130, 66, 2, 67}, {96, 32, 4, 160}};
  for (int64_t i = 0; i < 2 * LENGTH(parts) && operation == HR_ROWWISE_ROTARY_JOIN; i++) {
    const int64_t *size = parts[i / 2];
    hr_rowwise r = rows_of(operation, s->dtype, 3 * size[2], size[0]);
    r.rotated = size[1], r.group = size[2], r.z_row = size[3];
    r.x_row = i / 2 % 2 ? size[0] : 0;
    r.z_stride = size[3] == 0 ? size[0] : 0;
    r.interleaved = i % 2 != 0;
    check_case(s, &r, NULL, false);
  }
}

static void check_join(hr_device *device, const char *kernel, hr_dtype dtype)
{
  check_all(device, kernel, dtype, try_join);
}

static void check_rotary(hr_device *device, const char *kernel, hr_dtype dtype)
{
  check_all(device, kernel, dtype, try_rotary);
}

/* ---- exponentials of CPUs ---- */

/* The second softmax value of two columns 0 and −x is e^-x / (1 + e^-x), from 1/2 down to the denormal numbers, so
 * errors of the exponential are visible. fp32: three roundings and its own error of 3 · 2^-24 make 6, and one step of
 * denormal numbers. Values rounded to 16 bits may have a relative error of 5e-8 for every unit of x before the
 * rounding. */
static double lost(hr_dtype dtype, double x, double exact)
{
  double before = exact * 6 * 0x1p-24;
  return dtype == HR_FP32 ? before + 0x1p-149 : before + exact * 5e-8 * fabs(x) + hr_dtype_rounding_error(dtype, exact);
}

static void check_exponentials(hr_device *device, const char *kernel, hr_dtype dtype)
{
  enum { rows = 20000 };
  if (device->backend->own_memory || strcmp(kernel, "rowwise_reference") == 0)
    return;
  call c;
  const hr_rowwise r = rows_of(HR_ROWWISE_SOFTMAX, dtype, rows, 2);
  const hr_problem problem = hr_rowwise_problem(&r);
  call_open(device, kernel, &problem, NULL, 1, &c);
  for (size_t i = 0; i < rows; i++) {
    hr_number_store(dtype, c.places[0].host, 2 * i, 0.0);
    hr_number_store(dtype, c.places[0].host, 2 * i + 1, -104.5 * (double)i / rows);
  }
  assert_true(call_run(&c, NULL));
  for (size_t i = 0; i < rows; i++) {
    double of = call_element(&c, 0, 2 * i + 1), e = exp(of), exact = e / (1 + e);
    double found = call_element(&c, 1, 2 * i + 1);
    if (!(fabs(found - exact) <= lost(dtype, of, exact)))
      fail_msg("%s %s: softmax of 0 and %g: %g, exactly %g", kernel, hr_dtype_name(dtype), of, found, exact);
  }
  call_close(&c);
}

static const fact facts[] = {
    FACT(rows_of_any_length_are_those_of_the_reference, check_sizes),
    FACT(rows_may_begin_at_any_element, check_addresses),
    FACT(nan_and_infinities_reach_what_the_formula_says, check_specials),
    FACT(sums_have_the_same_bits_in_each_run, check_repeats),
    FACT(results_may_replace_the_inputs_that_the_list_names, check_in_place),
    FACT(a_part_of_a_head_is_rotated_in_either_order_of_pairs, check_rotary),
    FACT(a_rotated_part_joins_columns_of_its_own_or_shared, check_join),
    FACT(exponentials_are_accurate_down_to_denormal_numbers, check_exponentials),
};
const fact_group rowwise_facts = {.name = "rowwise", .operation = "rowwise", .facts = facts, .count = LENGTH(facts)};

/* ---- shapes ---- */

static void small(hr_dtype dtype, problem_taker *take, void *context)
{
  static const int64_t columns[] = {2, 6, 30, 34, 62, 66, 126, 130, 1002};
  for (int operation = 0; operation < HR_ROWWISE_COUNT; operation++)
    for (int64_t i = 0; i < LENGTH(columns); i++) {
      hr_rowwise r = hr_rowwise_default();
      r.operation = (hr_rowwise_operation)operation;
      r.columns = columns[i] - (!is_rotary(operation) && i % 2); /* odd, too, where they may be */
      r.rows = 1 + i % 4;
      r.dtype = dtype;
      if (operation == HR_ROWWISE_ROTARY_JOIN)
        r.rotated = 2, r.columns += r.columns < 3 ? 1 : 0;
      r.period = is_rotary(operation) || has_table(operation) || operation == HR_ROWWISE_ROTARY_JOIN ? 2
                 : operation == HR_ROWWISE_SINK || (is_softmax(operation) && i % 3 == 0)             ? r.rows
                                                                                                     : 0;
      if (hr_rowwise_trains(r.operation) && dtype == HR_FP8_E4M3)
        continue;
      const hr_problem problem = hr_rowwise_problem(&r);
      take(&problem, context);
    }
}

static bool set_word(hr_problem *problem, const char *name, const char *value)
{
  hr_rowwise *r = &problem->rows;
  for (int i = 0; strcmp(name, "operation") == 0 && i < HR_ROWWISE_COUNT; i++)
    if (strcmp(value, hr_rowwise_operation_name((hr_rowwise_operation)i)) == 0) {
      r->operation = (hr_rowwise_operation)i;
      r->rotated = i == HR_ROWWISE_ROTARY_JOIN ? 64 : 0;
      r->period = is_rotary(i) || has_table(i) || i == HR_ROWWISE_ROTARY_JOIN ? 2048 : i == HR_ROWWISE_SINK ? 1 : 0;
      r->group = is_rotary(i) ? 32 : 1;
      r->rate = i == HR_ROWWISE_DROPOUT ? 0.1 : 0;
      *r = i == HR_ROWWISE_ADAMW ? with_adamw(*r, 1) : *r;
      return true;
    }
  return false;
}

static hr_status check_problem(const hr_problem *problem, hr_error *error)
{
  return hr_rowwise_check(&problem->rows, error);
}

static const shape_member members[] = {{"rows", COUNT_MEMBER, offsetof(hr_problem, rows.rows)},
                                       {"columns", COUNT_MEMBER, offsetof(hr_problem, rows.columns)},
                                       {"period", COUNT_MEMBER, offsetof(hr_problem, rows.period)},
                                       {"group", COUNT_MEMBER, offsetof(hr_problem, rows.group)}};
static const char *const shapes[] = {"operation=softmax,rows=8192,columns=4096",
                                     "operation=layer_norm,rows=8192,columns=4096",
                                     "operation=rms_norm,rows=8192,columns=4096",
                                     "operation=rotary,rows=262144,columns=128",
                                     "operation=gelu,rows=8192,columns=4096",
                                     "operation=swiglu,rows=8192,columns=4096",
                                     "operation=residual,rows=8192,columns=4096",
                                     "operation=dropout,rows=8192,columns=4096",
                                     "operation=softmax,rows=668,columns=50257",
                                     "operation=softmax_backward,rows=8192,columns=4096",
                                     "operation=layer_norm_backward,rows=8192,columns=4096",
                                     "operation=rms_norm_backward,rows=8192,columns=4096",
                                     "operation=rotary_backward,rows=262144,columns=128",
                                     "operation=gelu_backward,rows=8192,columns=4096",
                                     "operation=swiglu_backward,rows=8192,columns=4096",
                                     "operation=bias_backward,rows=8192,columns=4096",
                                     "operation=cross_entropy,rows=668,columns=50257",
                                     "operation=cross_entropy_backward,rows=668,columns=50257",
                                     "operation=cross_entropy_backward,rows=512,columns=128256",
                                     "operation=adamw,rows=4096,columns=4096",
                                     NULL};
const operation_cases rowwise_cases = {.plain = plain,
                                       .members = members,
                                       .member_count = LENGTH(members),
                                       .set = set_word,
                                       .check = check_problem,
                                       .shapes = shapes,
                                       .small = small};
