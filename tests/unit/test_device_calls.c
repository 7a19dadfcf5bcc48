/* SPDX-License-Identifier: Apache-2.0 */
/* What plans and runs ask of the driver, and what a run refuses before anything is launched. */
#include "cuda_program.h"
#include "kernel_calls.h"

#include "runtime/cuda/driver/context.h"

/* ---- a driver whose entries refuse ---- */

#define REFUSED 999 /* CUDA_ERROR_UNKNOWN */

static const char *refused; /* the entry that was called last */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define REFUSER(name, parameters)           \
  static cu_result refuse_##name parameters \
  {                                         \
    refused = #name;                        \
    return REFUSED;                         \
  }
HR_DRIVER_LIST(REFUSER)
HR_DRIVER_NEWER_LIST(REFUSER)
#undef REFUSER
#pragma GCC diagnostic pop

/* Makes the device's entries refuse that `refuses` names. Returns the driver as it was. */
static hr_driver refuse(hr_device *device, bool (*refuses)(const char *name, const char *parameters))
{
  hr_cuda *cuda = device->state;
  hr_driver before = cuda->driver;
#define PUT(name, parameters)      \
  if (refuses(#name, #parameters)) \
    cuda->driver.name = refuse_##name;
  HR_DRIVER_LIST(PUT)
  HR_DRIVER_NEWER_LIST(PUT)
#undef PUT
  refused = NULL;
  return before;
}

static void restore(hr_device *device, const hr_driver *before)
{
  hr_cuda *cuda = device->state;
  cuda->driver = *before;
}

static bool is_one_of(const char *name, const char *const *list)
{
  while (*list && strcmp(*list, name) != 0)
    list++;
  return *list != NULL;
}

static bool takes_a_stream(const char *name, const char *parameters)
{
  return strstr(parameters, "stream") || strstr(name, "cuLaunch") || strstr(name, "Synchronize");
}

static bool is_no_part_of_a_run(const char *name, const char *parameters)
{
  (void)parameters;
  static const char *const parts[] = {"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuTensorMapEncodeTiled",
                                      "cuLaunchKernel",      "cuLaunchKernelEx",   NULL};
  return !is_one_of(name, parts);
}

static bool is_any(const char *name, const char *parameters)
{
  (void)name, (void)parameters;
  return true;
}

/* ---- plans and runs ---- */

static void making_a_plan_touches_no_stream(void **state)
{
  (void)state;
  hr_device *device = open_gpu();
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  hr_driver before = refuse(device, takes_a_stream);
  for (size_t i = 0; i < count; i++) {
    hr_problem p = problem_for(&kernels[i]);
    hr_plan *plan = NULL;
    hr_error error = {.message = ""};
    if (strcmp(kernels[i].device, "cuda") == 0 &&
        plan_problem(device, &p, kernels[i].name, &plan, &error) == HR_ERROR_BACKEND)
      fail_msg("%s: %s", kernels[i].name, error.message);
    hr_plan_free(plan);
    if (refused)
      fail_msg("%s: making a plan calls %s", kernels[i].name, refused);
  }
  restore(device, &before);
  hr_device_close(device);
}

static void run_with_launches_alone(const kernel_call *c)
{
  hr_error error;
  hr_arguments x = arguments_to(c, output_of(c));
  hr_driver before = refuse(c->device, is_no_part_of_a_run);
  for (int i = 0; i < 2; i++) /* the first run, too */
    assert_ok(run_arguments(c->plan, &x, c->workspace, hr_device_stream(c->device), &error), error);
  restore(c->device, &before);
  if (refused)
    fail_msg("%s: a run calls %s", hr_plan_kernel(c->plan), refused);
}

static void a_run_calls_the_driver_for_nothing_but_launches(void **state)
{
  (void)state;
  hr_device *device = open_gpu();
  assert_true(each_kernel_of(device, run_with_launches_alone) > 0);
  hr_device_close(device);
}

/* ---- misaligned addresses ---- */

static int64_t *alignment_of(hr_problem *p)
{
  switch (p->operation) {
  case HR_OPERATION_ATTENTION: return &p->attention.alignment;
  case HR_OPERATION_ATTENTION_BACKWARD: return &p->backward.forward.alignment;
  case HR_OPERATION_DECODE: return &p->decode.alignment;
  case HR_OPERATION_GEMM: return &p->gemm.alignment;
  default: return &p->rows.alignment;
  }
}

static void expect_refused(const kernel_call *c, size_t which, size_t bytes)
{
  static char before[CALL_BYTES_MAX], after[CALL_BYTES_MAX];
  hr_error error = {.message = ""};
  hr_arguments x = arguments_behind(c, output_of(c), which, bytes);
  assert_ok(hr_buffer_read(output_of(c), before, output_bytes(c), &error), error);
  hr_status status = run_arguments(c->plan, &x, c->workspace, hr_device_stream(c->device), &error);
  if (status != HR_ERROR_INVALID || !strstr(error.message, "is not a multiple of 16"))
    fail_msg("%s, operand %zu: %s", hr_plan_kernel(c->plan), which, error.message);
  assert_ok(hr_buffer_read(output_of(c), after, output_bytes(c), &error), error);
  assert_memory_equal(before, after, output_bytes(c));
}

static void launch_nothing(const kernel_call *c, size_t which, size_t bytes)
{
  hr_error error;
  hr_arguments x = arguments_behind(c, output_of(c), which, bytes);
  hr_driver before = refuse(c->device, is_any);
  hr_status status = run_arguments(c->plan, &x, c->workspace, hr_device_stream(c->device), &error);
  restore(c->device, &before);
  assert_int_equal(status, HR_ERROR_INVALID);
  if (refused)
    fail_msg("%s, operand %zu: %s before the address is refused", hr_plan_kernel(c->plan), which, refused);
}

/* Moves the first input behind its buffer's first byte. */
static void move_input(const kernel_call *c, size_t bytes)
{
  static char values[CALL_BYTES_MAX + SLACK_BYTES];
  hr_error error;
  size_t size = c->operands.bytes[0];
  assert_true(size + bytes <= sizeof values);
  assert_ok(hr_buffer_read(c->buffers[0], values + bytes, size, &error), error);
  assert_ok(hr_buffer_write(c->buffers[0], values, size + bytes, &error), error);
}

/* The best kernel of the problem with `alignment` lowered has the same result at both addresses. */
static void expect_run_with_less(const kernel_call *aligned, size_t bytes)
{
  static char expected[CALL_BYTES_MAX], found[CALL_BYTES_MAX];
  kernel_call c = *aligned;
  hr_error error;
  *alignment_of(&c.problem) = (int64_t)bytes;
  assert_ok(plan_problem(c.device, &c.problem, NULL, &c.plan, &error), error);
  c.workspace = make_workspace(&c);
  run_alone(&c, expected);
  move_input(&c, bytes);
  hr_arguments x = arguments_behind(&c, output_of(&c), 0, bytes);
  assert_ok(run_arguments(c.plan, &x, c.workspace, hr_device_stream(c.device), &error), error);
  assert_ok(hr_buffer_read(output_of(&c), found, output_bytes(&c), &error), error);
  if (memcmp(found, expected, output_bytes(&c)) != 0)
    fail_msg("%s: another result at a less aligned address", hr_plan_kernel(c.plan));
  hr_buffer_free(c.workspace);
  hr_plan_free(c.plan);
}

static void misalign(const kernel_call *c)
{
  size_t element = hr_dtype_bytes(c->problem.dtype);
  for (size_t i = 0; i < c->operands.count; i++) {
    if (c->operands.kinds[i] != HR_OPERAND_NUMBERS)
      continue;
    expect_refused(c, i, element);
    if (strcmp(c->device->backend->name, "cuda") == 0)
      launch_nothing(c, i, element);
  }
  expect_run_with_less(c, element);
}

static void a_misaligned_address_is_refused_unless_the_problem_allows_it(hr_device *device)
{
  assert_true(each_kernel_of(device, misalign) > 0);
}

static void a_misaligned_address_is_refused_on_a_cpu(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open("cpu", 2, &device, &error), error);
  a_misaligned_address_is_refused_unless_the_problem_allows_it(device);
  hr_device_close(device);
}

static void a_misaligned_address_is_refused_on_a_gpu(void **state)
{
  (void)state;
  hr_device *device = open_gpu();
  a_misaligned_address_is_refused_unless_the_problem_allows_it(device);
  hr_device_close(device);
}

/* ---- fewer sequences than the plan's ---- */

static int64_t *batch_of(hr_arguments *x, hr_operation operation)
{
  return operation == HR_OPERATION_DECODE               ? &x->decode.batch
         : operation == HR_OPERATION_ATTENTION_BACKWARD ? &x->backward.batch
                                                        : &x->attention.batch;
}

static void expect_batch_refused(const kernel_call *c, int64_t batch, hr_status expected)
{
  hr_error error = {.message = ""};
  hr_arguments x = arguments_to(c, output_of(c));
  *batch_of(&x, c->problem.operation) = batch;
  if (run_arguments(c->plan, &x, c->workspace, hr_device_stream(c->device), &error) != expected)
    fail_msg("%s, batch %d: %s", hr_plan_kernel(c->plan), (int)batch, error.message);
}

/* The first half of each output is written, the second keeps its poison. */
static void expect_halves(const kernel_call *c, const char *poison, const char *found)
{
  for (size_t i = c->operands.inputs; i < c->operands.count; i++) {
    const size_t at = output_at(c, i), half = c->operands.bytes[i] / 2;
    for (size_t k = at; k < at + half; k += 8)
      assert_true(memcmp(found + k, poison + k, 8) != 0);
    if (memcmp(found + at + half, poison + at + half, half) != 0)
      fail_msg("%s writes rows of a sequence that is not of the run", hr_plan_kernel(c->plan));
  }
}

/* One of two sequences. */
static void run_one_sequence(const kernel_call *c)
{
  static char poison[CALL_BYTES_MAX], found[CALL_BYTES_MAX];
  hr_error error;
  size_t bytes = output_bytes(c);
  assert_ok(hr_buffer_poison(output_of(c), HR_BF16, &error), error);
  assert_ok(hr_buffer_read(output_of(c), poison, bytes, &error), error);
  hr_arguments x = arguments_to(c, output_of(c));
  *batch_of(&x, c->problem.operation) = 1;
  assert_ok(run_arguments(c->plan, &x, c->workspace, hr_device_stream(c->device), &error), error);
  assert_ok(hr_buffer_read(output_of(c), found, bytes, &error), error);
  expect_halves(c, poison, found);
}

static void run_fewer(const kernel_call *c)
{
  if (c->problem.operation == HR_OPERATION_GEMM || c->problem.operation == HR_OPERATION_ROWWISE)
    return;
  expect_batch_refused(c, 3, HR_ERROR_INVALID);
  expect_batch_refused(c, -1, HR_ERROR_INVALID);
  if (strstr(hr_plan_kernel(c->plan), "attention_blocked") || strstr(hr_plan_kernel(c->plan), "materialized"))
    expect_batch_refused(c, 1, HR_ERROR_UNSUPPORTED);
  else
    run_one_sequence(c);
}

static void a_run_of_fewer_sequences_touches_no_row_of_others(void **state)
{
  (void)state;
  static const char *const names[] = {"cpu", "reference", "cuda:0"};
  for (size_t i = test_asks_for("gpu") ? 2 : 0; i < sizeof names / sizeof *names; i++) {
    hr_device *device = NULL;
    hr_error error;
    if (hr_device_open(names[i], 0, &device, &error) != HR_OK) {
      print_message("%s\n", error.message);
      continue;
    }
    assert_true(each_kernel_of(device, run_fewer) > 0);
    hr_device_close(device);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(making_a_plan_touches_no_stream),
      cmocka_unit_test(a_run_calls_the_driver_for_nothing_but_launches),
      cmocka_unit_test(a_misaligned_address_is_refused_on_a_cpu),
      cmocka_unit_test(a_misaligned_address_is_refused_on_a_gpu),
      cmocka_unit_test(a_run_of_fewer_sequences_touches_no_row_of_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
