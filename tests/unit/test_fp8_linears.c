/* SPDX-License-Identifier: Apache-2.0 */
/* Training steps whose linear layers multiply in fp8. */
#include "test.h"

#include "devices.h"

#include <headroom/experimental/operators.h>
#include <headroom/experimental/predict.h>
#include <headroom/experimental/quantization.h>
#include <string.h>

#define ROWS 2048 /* one sequence */

static hr_operators wide, narrow; /* of the step in bf16, and in fp8 */

static hr_workload training(const hr_model *model, bool fp8)
{
  hr_workload workload = hr_workload_default(model);
  workload.phase = HR_PHASE_TRAIN, workload.dtype = HR_BF16;
  workload.batch = 1, workload.sequence = ROWS, workload.fp8_linears = fp8;
  return workload;
}

static void list_both(const hr_model *model)
{
  hr_error error;
  hr_workload workload = training(model, false);
  assert_ok(hr_operators_list(model, &workload, &wide, &error), error);
  workload.fp8_linears = true;
  assert_ok(hr_operators_list(model, &workload, &narrow, &error), error);
  assert_int_equal(wide.count, narrow.count);
}

static const hr_operator *find(const hr_operators *operators, hr_operator_id id, hr_pass pass)
{
  size_t i = 0;
  while (i < operators->count && (operators->items[i].id != id || operators->items[i].pass != pass))
    i++;
  assert_true(i < operators->count);
  return &operators->items[i];
}

static void only_linear_layers_inside_layers_change(void **state)
{
  (void)state;
  static const hr_operator_id linears[] = {HR_OP_QKV_TRANSFORM, HR_OP_LINEAR_PROJECTION, HR_OP_EXPERT_UP,
                                           HR_OP_EXPERT_GATE, HR_OP_EXPERT_DOWN};
  const hr_model model = shipped_model("qwen3-30b-a3b");
  size_t changed = 0;
  list_both(&model);
  for (size_t i = 0; i < narrow.count; i++) {
    const hr_operator *before = &wide.items[i], *after = &narrow.items[i];
    bool linear = false;
    for (size_t l = 0; l < sizeof linears / sizeof *linears; l++)
      linear = linear || after->id == linears[l];
    assert_int_equal(after->rounds_twice, linear && after->gemm.m > 0);
    assert_int_equal(after->activations, after->rounds_twice ? HR_ACTIVATIONS_FP8 : HR_ACTIVATIONS_UNQUANTIZED);
    assert_int_equal(after->flops, before->flops);
    assert_true(after->rounds_twice ? after->bytes < before->bytes : after->bytes == before->bytes);
    changed += after->rounds_twice;
  }
  assert_int_equal(changed, 3 * sizeof linears / sizeof *linears);
  assert_false(find(&narrow, HR_OP_ROUTER, HR_PASS_FORWARD)->rounds_twice);
  assert_false(find(&narrow, HR_OP_LOGIT, HR_PASS_FORWARD)->rounds_twice);
}

/* 4096 inputs, 14336 outputs: 8 bits for both operands, 16 for the result. */
static void operands_have_a_byte_and_results_two(void **state)
{
  (void)state;
  const int64_t x = ROWS * 4096L, y = ROWS * 14336L, w = 4096L * 14336L;
  const hr_model model = shipped_model("llama-3-8b");
  list_both(&model);
  assert_int_equal(find(&narrow, HR_OP_MLP_UP, HR_PASS_FORWARD)->bytes, x + w + 2 * y);
  assert_int_equal(find(&narrow, HR_OP_MLP_UP, HR_PASS_DGRAD)->bytes, y + w + 2 * x);
  assert_int_equal(find(&narrow, HR_OP_MLP_UP, HR_PASS_WGRAD)->bytes, y + x + 2 * w);
}

/* 128 experts of 768 over 2048 inputs; each token is a row of 8 of them. */
static void experts_have_their_rows(void **state)
{
  (void)state;
  const int64_t rows = 8L * ROWS, x = rows * 2048, y = rows * 768, w = 128L * 768 * 2048;
  const hr_model model = shipped_model("qwen3-30b-a3b");
  list_both(&model);
  assert_int_equal(find(&narrow, HR_OP_EXPERT_UP, HR_PASS_FORWARD)->bytes, x + w + 2 * y);
  assert_int_equal(find(&narrow, HR_OP_EXPERT_UP, HR_PASS_DGRAD)->bytes, y + w + 2 * x);
  assert_int_equal(find(&narrow, HR_OP_EXPERT_UP, HR_PASS_WGRAD)->bytes, y + x + 2 * w);
}

static double rounding_of(const hr_hardware *hardware, hr_operator_id id, hr_pass pass)
{
  hr_prediction p;
  hr_error error;
  assert_ok(hr_predict_operator(hardware, find(&narrow, id, pass), &p, &error), error);
  return p.rounding_ns;
}

/* Six bytes an element: read for its largest, read again, written twice. */
static void each_operand_is_rounded_once(void **state)
{
  (void)state;
  const hr_hardware hardware = device("h100-sxm");
  const hr_model model = shipped_model("llama-3-8b");
  list_both(&model);
  const double floor_ns = 6.0 * ROWS * 4096 / hardware.bandwidth_bytes_per_s * 1e9;
  const double up = rounding_of(&hardware, HR_OP_MLP_UP, HR_PASS_FORWARD);
  const double down = rounding_of(&hardware, HR_OP_MLP_DOWN, HR_PASS_FORWARD);
  assert_true(up > floor_ns && up < 2 * floor_ns + 3 * hardware.launch_ns);
  assert_true(down > 3 * (up - 2 * hardware.launch_ns)); /* 14336 columns */
  assert_true(rounding_of(&hardware, HR_OP_MLP_GATE, HR_PASS_FORWARD) == 0);
  assert_true(rounding_of(&hardware, HR_OP_MLP_GATE, HR_PASS_DGRAD) ==
              rounding_of(&hardware, HR_OP_MLP_UP, HR_PASS_DGRAD));
  assert_true(rounding_of(&hardware, HR_OP_MLP_UP, HR_PASS_DGRAD) > up);
  assert_true(rounding_of(&hardware, HR_OP_MLP_UP, HR_PASS_WGRAD) == 0);
}

static double step_of(const hr_hardware *hardware, const hr_model *model, hr_framework framework, bool fp8)
{
  hr_workload workload = training(model, fp8);
  workload.framework = framework;
  hr_step *step = NULL;
  hr_error error;
  assert_ok(hr_predict_step(hardware, model, &workload, &step, &error), error);
  const double time_ns = hr_step_describe(step)->time_ns;
  hr_step_free(step);
  return time_ns;
}

static void a_step_is_faster_in_every_framework(void **state)
{
  (void)state;
  static const hr_framework frameworks[] = {HR_FRAMEWORK_COMPILED, HR_FRAMEWORK_EAGER};
  const hr_hardware hardware = device("h100-sxm");
  const hr_model model = shipped_model("llama-3-8b");
  for (size_t i = 0; i < sizeof frameworks / sizeof *frameworks; i++) {
    const double before = step_of(&hardware, &model, frameworks[i], false);
    const double after = step_of(&hardware, &model, frameworks[i], true);
    assert_true(after < 0.9 * before && after > 0.5 * before);
  }
}

static void it_needs_training_and_a_device_that_multiplies_fp8(void **state)
{
  (void)state;
  const hr_model model = shipped_model("llama-3-8b");
  hr_workload workload = training(&model, true);
  const hr_hardware hardware = device("a100-sxm4-80gb");
  hr_error error;
  hr_step *step = NULL;
  assert_int_equal(hr_predict_step(&hardware, &model, &workload, &step, &error), HR_ERROR_UNSUPPORTED);
  assert_non_null(strstr(error.message, "no matrix rate for fp8"));
  assert_null(step);
  workload.phase = HR_PHASE_FORWARD;
  assert_int_equal(hr_workload_check(&workload, &model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "fp8_linears: needs the phase train");
  workload.phase = HR_PHASE_TRAIN, workload.framework = HR_FRAMEWORK_HEADROOM;
  assert_int_equal(hr_workload_check(&workload, &model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "fp8_linears: headroom trains in 16 bits");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_linear_layers_inside_layers_change),
      cmocka_unit_test(operands_have_a_byte_and_results_two),
      cmocka_unit_test(experts_have_their_rows),
      cmocka_unit_test(each_operand_is_rounded_once),
      cmocka_unit_test(a_step_is_faster_in_every_framework),
      cmocka_unit_test(it_needs_training_and_a_device_that_multiplies_fp8),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
