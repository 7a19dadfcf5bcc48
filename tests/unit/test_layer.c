/* SPDX-License-Identifier: Apache-2.0 */
/* One layer, operator by operator: the problem of each operator, and the run of the measurement on the reference
 * device. No measured time is compared. */
#include "devices.h"
#include "hardware/hardware.h"
#include "models.h"

#include "experiment/operator_problem.h"
#include "runtime/measure/problem_list.h"

#include <headroom/experimental/operators.h>
#include <headroom/experimental/report.h>
#include <math.h>
#include <stdlib.h>

/* ---- operators as problems ---- */

static hr_status problem_of(const hr_model *model, const hr_workload *workload, hr_operator_id id, hr_pass pass,
                            hr_problem *problem, hr_error *error)
{
  static hr_operators operators;
  assert_ok(hr_operators_list(model, workload, &operators, error), *error);
  const hr_operator *op = hr_operators_find(&operators, id, pass);
  assert_non_null(op);
  return hr_operator_problem(model, workload, op, problem, error);
}

static void assert_rows(const hr_model *model, const hr_workload *workload, hr_operator_id id,
                        hr_rowwise_operation operation, int64_t rows, int64_t columns)
{
  hr_problem problem;
  hr_error error;
  int64_t bytes;
  assert_ok(problem_of(model, workload, id, HR_PASS_FORWARD, &problem, &error), error);
  assert_int_equal(problem.operation, HR_OPERATION_ROWWISE);
  assert_int_equal(problem.rows.operation, operation);
  assert_int_equal(problem.rows.rows, rows);
  assert_int_equal(problem.rows.columns, columns);
  assert_int_equal(problem.rows.dtype, workload->dtype);
  assert_int_equal(hr_rowwise_check(&problem.rows, &error), HR_OK);
  assert_int_equal(hr_rowwise_bytes(&problem.rows, &bytes), HR_OK);
}

static hr_workload small_workload(const hr_model *model)
{
  hr_workload workload = unfused_workload(model);
  workload.batch = 2;
  workload.sequence = 128;
  return workload;
}

static void every_operator_without_gemms_is_its_rowwise_operation(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-2-7b"); /* h 4096, 32 heads of 128, MLP 11008, RMS norms, rotary, gated */
  hr_workload w = small_workload(&model);       /* 2 · 128 = 256 tokens */
  assert_rows(&model, &w, HR_OP_ATTENTION_NORM, HR_ROWWISE_RMS_NORM, 256, 4096);
  assert_rows(&model, &w, HR_OP_ROTARY, HR_ROWWISE_ROTARY, 16384, 128);  /* 256 · (32 + 32) heads */
  assert_rows(&model, &w, HR_OP_SOFTMAX, HR_ROWWISE_SOFTMAX, 8192, 128); /* 2 · 32 · 128 queries over 128 keys */
  assert_rows(&model, &w, HR_OP_ATTENTION_RESIDUAL, HR_ROWWISE_RESIDUAL, 256, 4096);
  assert_rows(&model, &w, HR_OP_ACTIVATION, HR_ROWWISE_SWIGLU, 256, 11008);
  w.tensor_parallel = 2;
  assert_rows(&model, &w, HR_OP_ROTARY, HR_ROWWISE_ROTARY, 8192, 128);
  assert_rows(&model, &w, HR_OP_SOFTMAX, HR_ROWWISE_SOFTMAX, 4096, 128);
  assert_rows(&model, &w, HR_OP_ACTIVATION, HR_ROWWISE_SWIGLU, 256, 5504);
  model = shipped_model("gpt2"); /* h 768, MLP 3072 */
  w = small_workload(&model);
  assert_rows(&model, &w, HR_OP_MLP_NORM, HR_ROWWISE_LAYER_NORM, 256, 768);
  assert_rows(&model, &w, HR_OP_ACTIVATION, HR_ROWWISE_GELU, 256, 3072);
  w.dropout = HR_DROPOUT_FORWARD;
  assert_rows(&model, &w, HR_OP_MLP_DROPOUT, HR_ROWWISE_DROPOUT, 256, 768);
  assert_rows(&model, &w, HR_OP_SOFTMAX_DROPOUT, HR_ROWWISE_DROPOUT, 3072, 128); /* 2 · 12 · 128 queries */
  model = shipped_model("qwen3-8b"); /* 32 query and 8 key heads of 128, normed alike */
  w = small_workload(&model);
  assert_rows(&model, &w, HR_OP_QK_NORM, HR_ROWWISE_RMS_NORM, 10240, 128); /* 256 · (32 + 8) */
  model = shipped_model("olmo-2-7b");                                      /* 32 and 32 heads of 128, normed together */
  w = small_workload(&model);
  assert_rows(&model, &w, HR_OP_QK_NORM, HR_ROWWISE_RMS_NORM, 256, 8192);
  model.groups[0].attention.k_heads = model.groups[0].attention.v_heads = 8;
  assert_rows(&model, &w, HR_OP_QK_NORM, HR_ROWWISE_RMS_NORM, 256, 5120); /* (32 + 8) · 128 */
}

static void masks_and_angles_follow_the_positions(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-2-7b");
  hr_workload w = small_workload(&model);
  hr_problem problem;
  hr_error error;
  assert_ok(problem_of(&model, &w, HR_OP_SOFTMAX, HR_PASS_FORWARD, &problem, &error), error);
  assert_int_equal(problem.rows.period, 128); /* row r is query r % 128 */
  assert_ok(problem_of(&model, &w, HR_OP_ROTARY, HR_PASS_FORWARD, &problem, &error), error);
  assert_int_equal(problem.rows.period, 128);
  assert_int_equal(problem.rows.group, 64); /* 32 + 32 heads are rotated by the same angles */
  model.groups[0].attention.window = 64;
  model.groups[0].attention.window_kind = HR_WINDOW_CHUNKED;
  assert_rows(&model, &w, HR_OP_SOFTMAX, HR_ROWWISE_SOFTMAX, 8192, 64); /* 2 · 2 chunks · 32 heads · 64 queries */
  assert_ok(problem_of(&model, &w, HR_OP_SOFTMAX, HR_PASS_FORWARD, &problem, &error), error);
  assert_int_equal(problem.rows.period, 64);
  model.groups[0].attention.window = 0;
  w.phase = HR_PHASE_DECODE;
  w.context = 1000;
  assert_rows(&model, &w, HR_OP_SOFTMAX, HR_ROWWISE_SOFTMAX, 64, 1000); /* 2 · 32 heads, one query each */
  assert_ok(problem_of(&model, &w, HR_OP_SOFTMAX, HR_PASS_FORWARD, &problem, &error), error);
  assert_int_equal(problem.rows.period, 1); /* which sees all keys */
  assert_rows(&model, &w, HR_OP_ATTENTION_NORM, HR_ROWWISE_RMS_NORM, 2, 4096);
}

static bool takes_decode(const char *name, const hr_workload *workload, hr_problem *problem)
{
  hr_device *device;
  hr_error error;
  assert_ok(hr_device_open(name, 1, &device, &error), error);
  bool taken = hr_operator_take_decode(device, workload, problem);
  hr_device_close(device);
  return taken;
}

static void fused_attention_of_a_decode_step_is_a_decode_call_where_a_kernel_takes_it(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-2-70b"); /* 64 query heads, 8 K and V heads of 128 */
  hr_workload w = small_workload(&model);
  hr_problem problem;
  hr_error error;
  w.attention = HR_ATTENTION_FUSED;
  assert_ok(problem_of(&model, &w, HR_OP_ATTENTION, HR_PASS_FORWARD, &problem, &error), error);
  assert_false(takes_decode("cpu", &w, &problem)); /* not a decode step */
  w.phase = HR_PHASE_DECODE;
  w.context = 1000;
  assert_ok(problem_of(&model, &w, HR_OP_ATTENTION, HR_PASS_FORWARD, &problem, &error), error);
  assert_false(takes_decode("reference", &w, &problem)); /* which has no such kernel */
  assert_int_equal(problem.operation, HR_OPERATION_ATTENTION);
  assert_true(takes_decode("cpu", &w, &problem));
  assert_int_equal(problem.operation, HR_OPERATION_DECODE);
  assert_ok(hr_decode_check(&problem.decode, &error), error);
  assert_int_equal(problem.decode.batch, 2);
  assert_int_equal(problem.decode.kv_len, 1000);
  assert_int_equal(problem.decode.q_heads, 64);
  assert_int_equal(problem.decode.v_heads, 8);
  assert_int_equal(problem.decode.table_pitch, 63);
}

static void an_operator_without_a_kernel_says_so(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-2-7b");
  hr_workload w = small_workload(&model);
  hr_problem problem;
  hr_error error;
  w.tensor_parallel = 2;
  assert_int_equal(problem_of(&model, &w, HR_OP_MLP_ALL_REDUCE, HR_PASS_FORWARD, &problem, &error),
                   HR_ERROR_UNSUPPORTED);
  w = small_workload(&model);
  w.phase = HR_PHASE_TRAIN;
  assert_int_equal(problem_of(&model, &w, HR_OP_EMBEDDING, HR_PASS_DGRAD, &problem, &error), HR_ERROR_UNSUPPORTED);
  assert_non_null(strstr(error.message, "no kernel"));
  assert_ok(problem_of(&model, &w, HR_OP_MLP_UP, HR_PASS_WGRAD, &problem, &error), error);
  assert_int_equal(problem.operation, HR_OPERATION_GEMM);
  model =
      shipped_model("falcon-7b"); /* attention and MLP are added to the residual in one operation with three inputs */
  w = small_workload(&model);
  assert_int_equal(problem_of(&model, &w, HR_OP_MLP_RESIDUAL, HR_PASS_FORWARD, &problem, &error), HR_ERROR_UNSUPPORTED);
}

static void the_backward_pass_of_fused_attention_is_its_gradients(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-2-70b"); /* 64 query heads, 8 K and V heads of 128 */
  hr_workload w = small_workload(&model);
  hr_problem problem;
  hr_error error;
  w.phase = HR_PHASE_TRAIN;
  w.attention = HR_ATTENTION_FUSED;
  assert_ok(problem_of(&model, &w, HR_OP_ATTENTION, HR_PASS_DGRAD, &problem, &error), error);
  assert_int_equal(problem.operation, HR_OPERATION_ATTENTION_BACKWARD);
  const hr_attention *a = &problem.backward.forward;
  assert_true(a->batch == 2 && a->q_len == 128 && a->kv_len == 128 && a->mask == HR_MASK_CAUSAL);
  assert_true(a->q_heads == 64 && a->k_heads == 8 && a->v_heads == 8 && a->qk_dim == 128 && a->v_dim == 128);
  assert_int_equal(a->dtype, w.dtype);
  assert_ok(hr_attention_backward_check(a, &problem.backward.options, &error), error);
}

/* ---- a run ---- */

/* h = 64 with 4 heads of 16, MLP 256: small enough for the reference. */
static const char small_model[] = "{\"h\":64,\"a\":4,\"L\":2,\"v\":100,\"s\":32,\"b\":1,\"t\":2,\"mlp\":\"gelu\"}";

typedef struct course {
  hr_device *device;
  hr_hardware hardware;
  hr_model model;
  hr_workload workload;
  hr_layer *layer;
} course;

static course measure_as(const char *text, int64_t tensor_parallel, hr_phase phase, hr_progress_fn progress)
{
  course c = {.hardware = device("xeon-sapphire-rapids")};
  hr_error error;
  assert_ok(hr_device_open("reference", 0, &c.device, &error), error);
  assert_ok(hr_model_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "test"}, NULL, NULL, &c.model,
                               &error),
            error);
  c.workload = unfused_workload(&c.model);
  c.workload.dtype = HR_FP32;
  c.workload.tensor_parallel = tensor_parallel;
  c.workload.phase = phase;
  if (phase == HR_PHASE_TRAIN)
    c.workload.attention = HR_ATTENTION_FUSED;
  hr_layer_options options = hr_layer_options_default();
  options.budget_ns = 2e9;
  options.progress = progress;
  assert_ok(hr_layer_measure(c.device,
                             &(hr_subject){.hardware = &c.hardware, .model = &c.model, .workload = &c.workload},
                             &options, &c.layer, &error),
            error);
  return c;
}

static course measure(const char *text, int64_t tensor_parallel, hr_progress_fn progress)
{
  return measure_as(text, tensor_parallel, HR_PHASE_PREFILL, progress);
}

static void end(course *c)
{
  hr_layer_free(c->layer);
  hr_device_close(c->device);
}

static void shares_add_up_and_operators_without_a_kernel_keep_their_predicted_time(void **state)
{
  (void)state;
  course c = measure(small_model, 2, NULL);
  const hr_layer *layer = c.layer;
  double shares = 0, times = 0, parts = 0, measured = 0;
  int64_t count = 0;
  for (size_t i = 0; i < layer->count; i++) {
    const hr_layer_row *row = &layer->rows[i];
    bool exchange = row->op.kind == HR_KIND_COMMUNICATION;
    assert_true(row->op.in_layer);
    assert_int_equal(row->measured, !exchange);
    assert_int_equal(row->tried, !exchange);
    assert_true(row->time_ns > 0);
    if (exchange) {
      assert_int_equal(row->measurement.status, HR_ERROR_UNSUPPORTED);
      assert_true(isnan(row->measurement.workspace_bytes) && isnan(row->measurement.choice_speedup));
      assert_true(isnan(row->measurement.median_ns));
      assert_true(row->time_ns == row->prediction.time_ns);
    } else {
      assert_true(row->time_ns == row->measurement.median_ns);
      assert_true(row->measurement.rows_checked > 0);
      measured += row->time_ns;
      count++;
    }
    shares += row->share;
    times += row->time_ns;
  }
  for (int part = 0; part < HR_PART_COUNT; part++)
    parts += layer->part_ns[part];
  assert_true(fabs(shares - 1) < 1e-9);
  assert_true(fabs(parts / times - 1) < 1e-9);
  assert_true(layer->sum_ns == times && layer->measured_ns == measured);
  assert_int_equal(layer->measured_count, count);
  assert_int_equal(count, layer->count - 2); /* all but two all-reduces */
  assert_true(layer->whole.samples > 0 && layer->whole.median_ns > 0);
  assert_true(layer->complete && !layer->reduced);
  end(&c);
}

/* The forward and backward passes are one sequence: whole.samples counts runs of all. */
static void a_training_layer_runs_all_its_gradients(void **state)
{
  (void)state;
  course c = measure_as(small_model, 1, HR_PHASE_TRAIN, NULL);
  int64_t gradients = 0;
  for (size_t i = 0; i < c.layer->count; i++) {
    const hr_layer_row *row = &c.layer->rows[i];
    assert_true(row->measured && row->measurement.rows_checked > 0);
    gradients += row->op.pass != HR_PASS_FORWARD && row->op.kind == HR_KIND_ATTENTION;
  }
  assert_int_equal(gradients, 1);
  assert_int_equal(c.layer->measured_count, c.layer->count);
  assert_true(c.layer->whole.samples > 0);
  end(&c);
}

/* Parameters of a layer of 64: QKV 64 · 192 + 192, projection 64 · 64 + 64, MLP 64 · 256 + 256 and 256 · 64 + 64, two
 * norms of 2 · 64; each is 30 bytes of AdamW in bf16, 32 in fp32. */
static void loss_and_optimizer_are_measured_beside_the_layer(void **state)
{
  (void)state;
  course c = measure_as(small_model, 1, HR_PHASE_TRAIN, NULL);
  assert_int_equal(c.layer->beside_count, 3);
  const hr_layer_row *rows = c.layer->beside;
  assert_true(rows[0].op.id == HR_OP_LOSS && rows[0].rows.operation == HR_ROWWISE_CROSS_ENTROPY);
  assert_true(rows[1].op.id == HR_OP_LOSS && rows[1].rows.operation == HR_ROWWISE_CROSS_ENTROPY_BACKWARD);
  assert_true(rows[2].op.id == HR_OP_OPTIMIZER && rows[2].rows.operation == HR_ROWWISE_ADAMW);
  const int64_t element = (int64_t)hr_dtype_bytes(c.layer->workload.dtype);
  assert_int_equal(rows[2].op.columns, 12480 + 4160 + 16640 + 16448 + 256);
  assert_int_equal(rows[2].op.bytes, rows[2].op.columns * (2 * element + 24 + (element < 4 ? element : 0)));
  for (size_t i = 0; i < 3; i++) {
    assert_true(rows[i].measured && rows[i].measurement.rows_checked > 0 && rows[i].prediction.time_ns > 0);
    assert_true(isnan(rows[i].share));
  }
  end(&c);
  c = measure(small_model, 1, NULL);
  assert_int_equal(c.layer->beside_count, 0);
  end(&c);
}

/* The backward pass of each operation, by the bytes that the list of operators counts. */
static void gradients_move_the_bytes_of_their_operators(void **state)
{
  (void)state;
  static const struct {
    const char *model;
    hr_operator_id id;
    hr_rowwise_operation operation;
    int64_t weights; /* elements of weights and tables, which the list leaves out: read and written */
  } cases[] = {{"llama-2-7b", HR_OP_ATTENTION_NORM, HR_ROWWISE_RMS_NORM_BACKWARD, 2 * 4096},
               {"llama-2-7b", HR_OP_ROTARY, HR_ROWWISE_ROTARY_BACKWARD, 128 * 128},
               {"llama-2-7b", HR_OP_SOFTMAX, HR_ROWWISE_SOFTMAX_BACKWARD, 0},
               {"llama-2-7b", HR_OP_ACTIVATION, HR_ROWWISE_SWIGLU_BACKWARD, 0},
               {"gpt2", HR_OP_MLP_NORM, HR_ROWWISE_LAYER_NORM_BACKWARD, 3 * 768},
               {"gpt2", HR_OP_ACTIVATION, HR_ROWWISE_GELU_BACKWARD, 0},
               {"gpt2", HR_OP_MLP_DROPOUT, HR_ROWWISE_DROPOUT, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    static hr_operators operators;
    hr_model model = shipped_model(cases[i].model);
    hr_workload w = small_workload(&model);
    hr_problem problem;
    hr_error error;
    int64_t bytes = 0;
    w.phase = HR_PHASE_TRAIN;
    assert_ok(problem_of(&model, &w, cases[i].id, HR_PASS_DGRAD, &problem, &error), error);
    assert_int_equal(problem.rows.operation, cases[i].operation);
    assert_ok(hr_operators_list(&model, &w, &operators, &error), error);
    assert_int_equal(hr_rowwise_bytes(&problem.rows, &bytes), HR_OK);
    assert_int_equal(bytes, hr_operators_find(&operators, cases[i].id, HR_PASS_DGRAD)->bytes + 2 * cases[i].weights);
  }
}

static int stop(void *context, double done, const char *what)
{
  (void)context;
  (void)done;
  (void)what;
  return 1;
}

static void a_stopped_layer_differs_from_a_measured_one(void **state)
{
  (void)state;
  course c = measure(small_model, 1, stop);
  assert_false(c.layer->complete);
  assert_int_equal(c.layer->measured_count, 0);
  for (size_t i = 0; i < c.layer->count; i++) {
    assert_int_equal(c.layer->rows[i].measurement.status, HR_ERROR_INTERRUPTED);
    assert_false(c.layer->rows[i].tried);
  }
  assert_int_equal(c.layer->whole.samples, 0);
  assert_true(c.layer->sum_ns == c.layer->predicted_ns);
  end(&c);
}

static void an_operator_that_failed_has_no_time(void **state)
{
  (void)state;
  /* MLP 2^39: up and down have 2^39 · 64 weights of 4 bytes, 128 TiB; the activation moves 4 TiB per token */
  course c = measure("{\"h\":64,\"a\":4,\"L\":1,\"v\":100,\"s\":1,\"b\":1,\"d_ff\":549755813888}", 1, NULL);
  int64_t tried = 0;
  for (size_t i = 0; i < c.layer->count; i++) {
    const hr_layer_row *row = &c.layer->rows[i];
    if (row->measurement.status != HR_ERROR_OUT_OF_MEMORY)
      continue;
    tried++;
    assert_true(row->tried && !row->measured);
    assert_true(isnan(row->measurement.median_ns) && isnan(row->measurement.peak_bytes));
  }
  assert_int_equal(tried, 3); /* up, activation, down */
  end(&c);
}

static void a_layer_too_large_for_the_time_is_measured_at_fewer_tokens(void **state)
{
  (void)state;
  course c = measure("{\"h\":16384,\"a\":128,\"L\":2,\"v\":100,\"s\":2048,\"b\":4}", 1, stop);
  assert_true(c.layer->reduced);
  assert_int_equal(c.layer->workload.batch, 1);
  assert_true(c.layer->workload.sequence < 2048);
  assert_non_null(strstr(c.layer->note, "instead of b = 4, s = 2048"));
  end(&c);
}

static void a_layer_that_must_be_whole_fails_at_its_first_operator_without_a_time(void **state)
{
  (void)state;
  course c = {.hardware = device("xeon-sapphire-rapids")};
  hr_error error;
  assert_ok(hr_device_open("reference", 0, &c.device, &error), error);
  assert_ok(hr_model_from_json(&(hr_input){.text = small_model, .length = sizeof small_model - 1, .name = "test"}, NULL,
                               NULL, &c.model, &error),
            error);
  c.workload = unfused_workload(&c.model);
  hr_layer_options options = hr_layer_options_default();
  options.whole_only = true;
  options.budget_ns = 1; /* time is no reason to measure fewer tokens */
  assert_ok(hr_layer_measure(c.device,
                             &(hr_subject){.hardware = &c.hardware, .model = &c.model, .workload = &c.workload},
                             &options, &c.layer, &error),
            error);
  bool missing = false;
  for (size_t i = 0; i < c.layer->count;
       i++) { /* t = 2: the first all-reduce has no time, nor have the operators after it */
    const hr_layer_row *row = &c.layer->rows[i];
    missing = missing || row->op.kind == HR_KIND_COMMUNICATION;
    assert_int_equal(row->measured, !missing);
    assert_int_equal(row->measurement.samples, missing ? 0 : 1);
    assert_true(missing || row->measurement.rows_checked > 0);
  }
  assert_true(missing && c.layer->complete && !c.layer->reduced);
  assert_int_equal(c.layer->whole.status, HR_ERROR_UNSUPPORTED);
  assert_int_equal(c.layer->whole.samples, 0);
  end(&c);
}

static void a_whole_layer_may_also_have_the_time_of_each_operator(void **state)
{
  (void)state;
  course c = {.hardware = device("xeon-sapphire-rapids")};
  hr_error error;
  assert_ok(hr_device_open("reference", 0, &c.device, &error), error);
  assert_ok(hr_model_from_json(&(hr_input){.text = small_model, .length = sizeof small_model - 1, .name = "test"}, NULL,
                               NULL, &c.model, &error),
            error);
  c.workload = unfused_workload(&c.model);
  hr_layer_options options = hr_layer_options_default();
  options.whole_only = options.operator_times = true;
  options.budget_ns = 1e8;
  assert_ok(hr_layer_measure(c.device,
                             &(hr_subject){.hardware = &c.hardware, .model = &c.model, .workload = &c.workload},
                             &options, &c.layer, &error),
            error);
  for (size_t i = 0; i < c.layer->count && c.layer->rows[i].measured; i++)
    assert_true(c.layer->rows[i].measurement.samples > 1);
  assert_true(c.layer->rows[0].measured && !c.layer->reduced);
  end(&c);
}

/* Gemma 2: 13 of 26 layers see 4096 tokens; here 20, of another width. */
static hr_model model_of_two_groups(size_t *windowed)
{
  hr_model model = shipped_model("gemma-2-2b");
  assert_int_equal(model.group_count, 2);
  *windowed = model.groups[0].attention.window > 0 ? 0 : 1;
  model.groups[*windowed].count = 20;
  model.groups[*windowed].dense.width = 512;
  model.groups[1 - *windowed].count = 6;
  return model;
}

static hr_status measure_group(course *c, size_t group, hr_error *error)
{
  hr_layer_options options = hr_layer_options_default();
  options.budget_ns = 1e15;
  options.progress = stop;
  options.group = group;
  return hr_layer_measure(c->device,
                          &(hr_subject){.hardware = &c->hardware, .model = &c->model, .workload = &c->workload},
                          &options, &c->layer, error);
}

static void assert_layer_of(const hr_layer *layer, int64_t keys, int64_t width)
{
  int scores = 0, ups = 0, norms = 0;
  for (size_t i = 0; i < layer->count; i++) {
    const hr_layer_row *row = &layer->rows[i];
    norms += row->op.id == HR_OP_MLP_POST_NORM;
    if (row->op.id == HR_OP_ATTENTION_SCORE && ++scores)
      assert_int_equal(row->op.gemm.n, keys);
    if (row->op.id == HR_OP_SOFTMAX)
      assert_int_equal(row->rows.columns, keys);
    if (row->op.id == HR_OP_MLP_UP && ++ups)
      assert_int_equal(row->op.gemm.n, width);
  }
  assert_true(scores == 1 && ups == 1 && norms == 1);
}

static void a_layer_is_of_the_main_group_or_of_the_one_that_is_named(void **state)
{
  (void)state;
  size_t windowed;
  course c = {.hardware = device("xeon-sapphire-rapids"), .model = model_of_two_groups(&windowed)};
  hr_error error;
  assert_ok(hr_device_open("reference", 0, &c.device, &error), error);
  c.workload = unfused_workload(&c.model);
  c.workload.phase = HR_PHASE_DECODE;
  c.workload.batch = 1;
  c.workload.context = 8192;
  c.workload.pipeline_stages = 26; /* one for each layer of the model, more than a group has */
  const size_t groups[] = {HR_LAYER_MAIN_GROUP, windowed, 1 - windowed};
  for (size_t i = 0; i < 3; i++) {
    assert_ok(measure_group(&c, groups[i], &error), error);
    assert_int_equal(c.layer->group, i < 2 ? windowed : 1 - windowed);
    assert_layer_of(c.layer, i < 2 ? 4096 : 8192, i < 2 ? 512 : 9216);
    hr_layer_free(c.layer);
  }
  c.layer = NULL;
  assert_int_equal(measure_group(&c, 2, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "group: expected 0 to 1, found 2");
  assert_null(c.layer);
  end(&c);
}

static void a_sequence_is_timed_as_one_run_with_all_its_work(void **state)
{
  (void)state;
  hr_device *device;
  hr_measurement m;
  hr_error error;
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  hr_gemm gemm = hr_gemm_default();
  gemm.m = gemm.n = gemm.k = 16; /* 2 · 16³ = 8192 FLOP */
  hr_rowwise rows = hr_rowwise_default();
  rows.rows = rows.columns = 16;
  const hr_problem problems[] = {hr_gemm_problem(&gemm), hr_rowwise_problem(&rows), hr_gemm_problem(&gemm)};
  const hr_problem_list all = {.problems = problems, .count = 3}, first = {.problems = problems, .count = 1};
  hr_measure_options options = hr_measure_options_default();
  options.time_limit_ns = 1e8;
  assert_ok(hr_measure_list(device, &all, &options, &m, &error), error);
  assert_true(m.samples > 0);
  assert_true(fabs(m.flops_per_s * m.median_ns * 1e-9 / 16384 - 1) < 1e-9);
  assert_true(fabs(m.bytes_per_s * m.median_ns * 1e-9 / (2 * 3 * 512 + 2 * 512) - 1) < 1e-9); /* 16² · 2 = 512 */
  assert_string_equal(m.kernel, "");
  assert_ok(hr_measure_list(device, &first, &options, &m, &error), error);
  assert_string_equal(m.kernel, "gemm_reference");
  assert_true(m.rows_checked > 0);
  hr_device_close(device);
}

/* ---- the report ---- */

static char *report(const course *c, hr_format format)
{
  char *text = NULL;
  size_t size;
  hr_error error;
  FILE *out = open_memstream(&text, &size);
  assert_non_null(out);
  hr_report_options options = hr_report_options_default();
  options.format = format;
  assert_ok(hr_report_layer(out, &options, &c->model, &c->hardware, c->layer, &error), error);
  fclose(out);
  return text;
}

static void assert_says(const char *text, const char *words)
{
  if (!strstr(text, words))
    fail_msg("\"%s\" is not in:\n%s", words, text);
}

static void reports_mark_predicted_times(void **state)
{
  (void)state;
  course c = measure(small_model, 2, NULL);
  hr_layer *layer = c.layer;
  for (size_t i = 0; i < layer->count; i++) { /* fixed times, so that the report can be compared */
    layer->rows[i].measurement.status = layer->rows[i].measured ? HR_OK : HR_ERROR_UNSUPPORTED;
    layer->rows[i].share = 1.0 / (double)layer->count;
  }
  layer->sum_ns = 4e6;
  layer->measured_ns = 3e6;
  layer->whole = (hr_measurement){.status = HR_OK, .samples = 10, .median_ns = 2.7e6};
  char *text = report(&c, HR_FORMAT_TABLE);
  assert_says(text, "sum           4.00 ms, of which 1.00 ms is predicted");
  assert_says(text, "whole         2.70 ms run one after another; 0.900 of the sum of these");
  assert_says(text, "unsupported   attention_all_reduce, mlp_all_reduce: one device does not communicate");
  free(text);
  text = report(&c, HR_FORMAT_CSV);
  assert_says(text, "name,part,pass,problem,flops,bytes,predicted_ns,measured_ns,");
  assert_says(text, "attention_all_reduce,communication,forward,,0,");
  assert_says(text, ",predicted,,,,0,,,unsupported,");
  assert_says(text, "softmax,softmax,forward,rows softmax rows=64 columns=32 dtype=fp32 period=32 group=1,0,");
  free(text);
  text = report(&c, HR_FORMAT_JSON);
  assert_says(text, "\"schema\": \"headroom.layer/2\"");
  assert_says(text, "\"over_sum\": 0.9");
  free(text);
  end(&c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_operator_without_gemms_is_its_rowwise_operation),
      cmocka_unit_test(masks_and_angles_follow_the_positions),
      cmocka_unit_test(fused_attention_of_a_decode_step_is_a_decode_call_where_a_kernel_takes_it),
      cmocka_unit_test(the_backward_pass_of_fused_attention_is_its_gradients),
      cmocka_unit_test(an_operator_without_a_kernel_says_so),
      cmocka_unit_test(a_training_layer_runs_all_its_gradients),
      cmocka_unit_test(loss_and_optimizer_are_measured_beside_the_layer),
      cmocka_unit_test(gradients_move_the_bytes_of_their_operators),
      cmocka_unit_test(shares_add_up_and_operators_without_a_kernel_keep_their_predicted_time),
      cmocka_unit_test(a_stopped_layer_differs_from_a_measured_one),
      cmocka_unit_test(an_operator_that_failed_has_no_time),
      cmocka_unit_test(a_layer_too_large_for_the_time_is_measured_at_fewer_tokens),
      cmocka_unit_test(a_layer_that_must_be_whole_fails_at_its_first_operator_without_a_time),
      cmocka_unit_test(a_whole_layer_may_also_have_the_time_of_each_operator),
      cmocka_unit_test(a_layer_is_of_the_main_group_or_of_the_one_that_is_named),
      cmocka_unit_test(a_sequence_is_timed_as_one_run_with_all_its_work),
      cmocka_unit_test(reports_mark_predicted_times),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
