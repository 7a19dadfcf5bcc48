/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of every kernel of every operation, at its operation's small problems: the reference's results, operands of
 * exactly their size between pages that cannot be accessed, on a CPU, and one plan in several threads at once. Each
 * problem has run once before, with room around its operands. */
#include "place.h"

#include "runtime/measure/check.h"
#include "runtime/measure/runner.h"

#include <headroom/experimental/decode.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct visit {
  hr_device *device;
  const char *kernel;
  void (*check)(hr_runner *runner);
  int64_t tried;
  int checked;
} visit;

static void try_problem(const hr_problem *problem, void *context)
{
  visit *v = context;
  hr_runner runner;
  hr_error error = {.message = ""};
  char text[512];
  if (!test_takes(v->tried++))
    return;
  hr_measure_options options = hr_measure_options_default();
  options.warm = true; /* one set of operands */
  options.kernel = v->kernel;
  options.seed = 19;
  hr_status status = hr_runner_open(v->device, problem, &options, &runner, &error);
  if (status == HR_OK)
    status = hr_runner_run(&runner, &error);
  if (getenv("HEADROOM_TEST_VERBOSE")) /* the last line names the problem of a crash */
    fprintf(stderr, "%s, %s\n", v->kernel, problem_words(problem, text));
  if (status == HR_OK) {
    v->check(&runner);
    v->checked++;
  } else if (status != HR_ERROR_UNSUPPORTED) {
    fail_msg("%s, %s: %s", v->kernel, problem_words(problem, text), error.message);
  }
  hr_runner_close(&runner);
}

static void each_small_problem(hr_device *device, const char *kernel, hr_dtype dtype, void (*check)(hr_runner *r))
{
  size_t count;
  const hr_kernel_info *info = hr_kernels(&count);
  while (strcmp(info->name, kernel) != 0)
    info++;
  visit v = {.device = device, .kernel = kernel, .check = check};
  cases_of(info)->small(dtype, try_problem, &v);
  print_message("%s %s: %d problems\n", kernel, hr_dtype_name(dtype), v.checked);
  /* Some kernels of GPUs take a format in none of these sizes. */
  assert_true(v.checked > 0 || !test_takes(1) || strstr(kernel, "_topk_") || device->backend->own_memory);
}

/* ---- results ---- */

static void compare_with_reference(hr_runner *r)
{
  hr_measurement m;
  hr_error error = {.message = ""};
  char text[512];
  if (hr_runner_check(r, 1, &m, &error) != HR_OK)
    fail_msg("%s, %s: %s", hr_plan_kernel(r->plan), problem_words(&r->problem, text), error.message);
}

static void check_results(hr_device *device, const char *kernel, hr_dtype dtype)
{
  each_small_problem(device, kernel, dtype, compare_with_reference);
}

static const fact result_facts[] = {FACT(small_problems_give_what_the_reference_gives, check_results)};
const fact_group small_facts = {.name = "small", .facts = result_facts, .count = LENGTH(result_facts)};

/* ---- guard pages ---- */

static place make_input(hr_device *device, const void *from, size_t bytes, bool at_start)
{
  place p = place_make(device, bytes, (placing){.alignment = 1, .at_start = at_start});
  memcpy(p.host, from, bytes);
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  assert_int_equal(mprotect((char *)p.map + page, p.map_bytes - 2 * page, PROT_READ), 0); /* cannot be written */
  return p;
}

/* Decode also takes lengths and writes the log-sum-exp, which are not among the operands. */
typedef struct decode_places {
  place lengths, lse;
} decode_places;

static decode_places add_to_decode(const hr_runner *r, bool at_start, hr_decode_arguments *x)
{
  const hr_decode *d = &r->problem.decode;
  int32_t *lengths = malloc((size_t)d->batch * sizeof *lengths);
  assert_non_null(lengths);
  for (int64_t i = 0; i < d->batch; i++)
    lengths[i] = (int32_t)d->kv_len;
  decode_places p = {make_input(r->device, lengths, (size_t)d->batch * sizeof *lengths, at_start),
                     place_make(r->device, (size_t)(d->batch * d->q_heads * d->q_len) * sizeof(float),
                                (placing){.alignment = sizeof(float), .at_start = at_start})};
  free(lengths);
  x->lengths = p.lengths.data, x->lse = p.lse.data;
  return p;
}

static void assert_result(const hr_runner *r, size_t operand, const place *output, bool at_start)
{
  char text[512];
  const char *expected = hr_buffer_data(r->buffers[operand]);
  for (size_t i = 0; i < output->bytes; i++)
    if (output->host[i] != expected[i])
      fail_msg("%s, %s: byte %zu of %zu is another one where operands %s at a guard page", hr_plan_kernel(r->plan),
               problem_words(&r->problem, text), i, output->bytes, at_start ? "begin" : "end");
  place_assert_rest(output, NULL, 1, problem_words(&r->problem, text));
}

/* At a guard page addresses are multiples of an element alone. */
static void allow_any_address(hr_plan *plan)
{
  hr_problem *p = &plan->problem;
  const int64_t element = (int64_t)hr_dtype_bytes(p->dtype);
  switch (p->operation) {
  case HR_OPERATION_GEMM: p->gemm.alignment = element; break;
  case HR_OPERATION_ATTENTION: p->attention.alignment = element; break;
  case HR_OPERATION_ATTENTION_BACKWARD: p->backward.forward.alignment = element; break;
  case HR_OPERATION_ROWWISE: p->rows.alignment = element; break;
  default: p->decode.alignment = (int64_t)hr_decode_cache_bytes(&p->decode);
  }
}

static void check_at(const hr_runner *r, bool at_start)
{
  const void *inputs[HR_OPERANDS_MAX] = {NULL};
  place places[HR_OPERANDS_MAX];
  hr_error error = {.message = ""};
  char text[512];
  void *outputs[HR_OPERANDS_MAX] = {NULL};
  size_t first = r->operands.inputs;
  for (size_t i = 0; i < first; i++) {
    places[i] = make_input(r->device, hr_buffer_data(r->buffers[i]), r->operands.bytes[i], at_start);
    inputs[i] = places[i].data;
  }
  for (size_t i = first; i < r->operands.count; i++) {
    places[i] = place_make(r->device, r->operands.bytes[i], (placing){.alignment = 1, .at_start = at_start});
    outputs[i - first] = places[i].data;
  }
  hr_arguments x = hr_problem_arguments(&r->problem, &r->operands, (hr_operand_addresses){inputs, outputs});
  decode_places more = {{.data = NULL}, {.data = NULL}};
  if (r->problem.operation == HR_OPERATION_DECODE)
    more = add_to_decode(r, at_start, &x.decode);
  allow_any_address(r->plan);
  if (run_arguments(r->plan, &x, at_start, &error) != HR_OK)
    fail_msg("%s, %s: %s", hr_plan_kernel(r->plan), problem_words(&r->problem, text), error.message);
  for (size_t i = first; i < r->operands.count; i++)
    assert_result(r, i, &places[i], at_start);
  for (size_t i = 0; i < r->operands.count; i++)
    place_free(&places[i]);
  place_free(&more.lengths);
  place_free(&more.lse);
}

static void check_bounds(hr_runner *r)
{
  check_at(r, false);
  check_at(r, true);
}

static void check_guard_pages(hr_device *device, const char *kernel, hr_dtype dtype)
{
  if (!device->backend->own_memory)
    each_small_problem(device, kernel, dtype, check_bounds);
}

static const fact guard_facts[] = {FACT(kernels_stay_within_their_operands, check_guard_pages)};
const fact_group guard_pages_facts = {.name = "guard_pages", .facts = guard_facts, .count = LENGTH(guard_facts)};

/* ---- threads ---- */

#define THREADS 3
#define RUNS 3

typedef struct sharer {
  const hr_runner *runner;
  hr_buffer *outputs[HR_OPERANDS_MAX], *workspace; /* outputs from operands.inputs on */
  char *found, *expected;                          /* of the largest output */
  int wrong;
  pthread_t thread;
} sharer;

static void compare_output(sharer *s)
{
  const hr_runner *r = s->runner;
  for (size_t i = r->operands.inputs; i < r->operands.count; i++) {
    size_t bytes = r->operands.bytes[i];
    s->wrong += hr_buffer_read(s->outputs[i], s->found, bytes, NULL) != HR_OK ||
                hr_buffer_read(r->buffers[i], s->expected, bytes, NULL) != HR_OK ||
                memcmp(s->found, s->expected, bytes) != 0;
  }
}

static void *run_beside_others(void *argument)
{
  sharer *s = argument;
  const hr_runner *r = s->runner;
  const void *inputs[HR_OPERANDS_MAX] = {NULL};
  void *outputs[HR_OPERANDS_MAX] = {NULL};
  for (size_t i = 0; i < r->operands.inputs; i++)
    inputs[i] = hr_buffer_data(r->buffers[i]);
  for (size_t i = r->operands.inputs; i < r->operands.count; i++)
    outputs[i - r->operands.inputs] = hr_buffer_data(s->outputs[i]);
  const hr_operand_addresses at = {inputs, outputs};
  for (int i = 0; i < RUNS; i++) {
    s->wrong += hr_plan_run(r->plan, at, s->workspace ? hr_buffer_data(s->workspace) : NULL, 0, NULL) != HR_OK;
    if (!r->device->backend->own_memory) /* else the last run's, after all */
      compare_output(s);
  }
  return NULL;
}

static sharer make_sharer(const hr_runner *r)
{
  sharer s = {.runner = r};
  hr_error error;
  size_t most = 0, work = hr_plan_workspace_bytes(r->plan);
  for (size_t i = r->operands.inputs; i < r->operands.count; i++) {
    size_t bytes = r->operands.bytes[i];
    most = bytes > most ? bytes : most;
    assert_ok(hr_buffer_create(r->device, bytes, &s.outputs[i], &error), error);
    assert_ok(hr_buffer_poison(s.outputs[i], hr_operand_dtype(&r->problem, &r->operands, i), &error), error);
  }
  s.found = malloc(most), s.expected = malloc(most);
  assert_true(s.found && s.expected);
  if (work > 0)
    assert_ok(hr_buffer_create(r->device, work, &s.workspace, &error), error);
  return s;
}

static void check_sharing(hr_runner *r)
{
  sharer sharers[THREADS];
  char text[512];
  for (int i = 0; i < THREADS; i++)
    sharers[i] = make_sharer(r);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&sharers[i].thread, NULL, run_beside_others, &sharers[i]), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(sharers[i].thread, NULL);
  for (int i = 0; i < THREADS; i++) {
    compare_output(&sharers[i]);
    if (sharers[i].wrong)
      fail_msg("%s, %s: %d of %d runs beside others differ", hr_plan_kernel(r->plan), problem_words(&r->problem, text),
               sharers[i].wrong, RUNS);
    for (size_t k = 0; k < HR_OPERANDS_MAX; k++)
      hr_buffer_free(sharers[i].outputs[k]);
    hr_buffer_free(sharers[i].workspace);
    free(sharers[i].found);
    free(sharers[i].expected);
  }
}

static void check_threads(hr_device *device, const char *kernel, hr_dtype dtype)
{
  each_small_problem(device, kernel, dtype, check_sharing);
}

static const fact thread_facts[] = {FACT(threads_share_a_plan, check_threads)};
const fact_group shared_plans_facts = {.name = "shared_plans", .facts = thread_facts, .count = LENGTH(thread_facts)};
