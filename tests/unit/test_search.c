/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "analysis/predict/step.h"
#include "analysis/search/candidates.h"
#include "analysis/search/step_time.h"
#include "devices.h"
#include "hardware/hardware.h"
#include "models.h"
#include "searches.h"

#include <headroom/experimental/model.h>
#include <headroom/search.h>
#include <math.h>
#include <stdlib.h>

static hr_search_result *search_with(const char *name, const hr_model *model, const hr_workload *workload,
                                     const hr_search_options *options)
{
  hr_hardware hardware = device(name);
  hr_search_result *result;
  hr_error error;
  assert_ok(hr_search(&hardware, model, workload, options, &result, &error), error);
  return result;
}

static hr_search_result *search(const char *name, const hr_model *model, const hr_search_options *options)
{
  hr_workload workload = hr_workload_default(model);
  return search_with(name, model, &workload, options);
}

static double step_ns(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload)
{
  static hr_step step;
  hr_error error;
  assert_ok(hr_fill_step(hardware, model, workload, &step, &error), error);
  return step.about.time_ns;
}

static int64_t parameters_of(const hr_model *model)
{
  hr_parameters parameters;
  hr_error error;
  assert_ok(hr_model_parameters(model, &parameters, &error), error);
  return parameters.total;
}

static void gpt3_2_7b_finds_faster_shapes_with_heads_of_128(void **state)
{
  (void)state;
  const char *const devices[] = {"a100-sxm4-40gb", "h200"};
  for (size_t i = 0; i < 2; i++) {
    hr_model model = gpt3_2_7b();
    hr_search_options options = paper_search();
    hr_workload workload = hr_workload_default(&model);
    workload.framework = HR_FRAMEWORK_EAGER; /* torch.compile pads the odd vocabulary */
    hr_search_result *result = search_with(devices[i], &model, &workload, &options);
    assert_true(result->complete);
    assert_int_equal(result->base_parameters, parameters_of(&model));
    assert_true(result->count > 0 && result->count <= 20);
    assert_int_equal(result->shapes[0].model.groups[0].attention.qk_dim, 128);
    assert_int_equal(result->shapes[0].model.vocabulary, 50304);
    assert_true(result->shapes[0].predicted_gain > 0.15);
    hr_search_result_free(result);
  }
}

static void reported_shapes_have_the_predictors_times(void **state)
{
  (void)state;
  const char *const models[] = {"llama-3-8b", "gemma-2-9b", "sigma-1.5b", "gpt-neo-1.3b", "qwen3-8b"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    hr_model model = shipped_model(models[i]);
    hr_hardware hardware = device("h200");
    hr_workload workload = hr_workload_default(&model);
    hr_search_options options = paper_search();
    workload.phase = (hr_phase)(i % 4);
    hr_search_result *result = search_with("h200", &model, &workload, &options);
    double base = step_ns(&hardware, &model, &workload);
    assert_true(result->base_time_ns == base);
    for (size_t j = 0; j < result->count; j++) {
      const hr_search_shape *shape = &result->shapes[j];
      assert_true(shape->step_time_ns == step_ns(&hardware, &shape->model, &workload));
      assert_int_equal(shape->parameters, parameters_of(&shape->model));
      assert_true(fabs(shape->predicted_gain - (base / shape->step_time_ns - 1)) < 1e-12);
      assert_true(fabs(shape->parameter_change) <= 0.02);
      assert_true(j == 0 || result->shapes[j - 1].step_time_ns <= shape->step_time_ns);
    }
    hr_search_result_free(result);
  }
}

/* The fast sum of parts in the search equals the predicted time of the step, for every model, phase and split. */
/* The optimizer is apart, as it depends on the whole model. */
static void three_parts_sum_to_the_step(void **state)
{
  (void)state;
  size_t count;
  const hr_catalog_entry *entries = hr_catalog_models(&count);
  hr_hardware hardware = device("h200");
  for (size_t i = 0; i < count; i++) {
    hr_model model = shipped_model(entries[i].name);
    hr_workload workload = hr_workload_default(&model);
    workload.phase = (hr_phase)(i % 4);
    workload.attention = i % 3 == 0 ? HR_ATTENTION_FUSED : HR_ATTENTION_UNFUSED;
    workload.tensor_parallel = 1 + (int64_t)(i % 5);
    workload.pipeline_stages = 1 + (int64_t)(i % 3);
    workload.microbatches = 1 + (int64_t)(i % 7);
    int64_t p = workload.pipeline_stages;
    static hr_search_predictor predictor;
    predictor.hardware = &hardware;
    predictor.workload = &workload;
    double layer_ns = hr_search_part_ns(&predictor, &model, HR_SEARCH_PART_ATTENTION) +
                      hr_search_part_ns(&predictor, &model, HR_SEARCH_PART_MLP);
    double layers = hr_search_layer_runs(&workload) * (double)((hr_model_layers(&model) + p - 1) / p * p);
    double sum_ns = layers * layer_ns + hr_search_part_ns(&predictor, &model, HR_SEARCH_PART_OUTSIDE);
    static hr_step step;
    assert_int_equal(hr_fill_step(&hardware, &model, &workload, &step, NULL), HR_OK);
    assert_true(fabs(sum_ns / (step.about.time_ns - step.about.optimizer_ns) - 1) < 1e-12);
  }
}

/* Each part ignores the sizes that it does not depend on. */
static void a_part_depends_only_on_its_own_sizes(void **state)
{
  (void)state;
  hr_hardware hardware = device("h200");
  hr_model model = sigma_1_5b(), other = model;
  hr_workload workload = hr_workload_default(&model);
  workload.phase = HR_PHASE_TRAIN;
  static hr_search_predictor predictor;
  predictor.hardware = &hardware;
  predictor.workload = &workload;
  hr_layer_group *layer = &other.groups[0];
  layer->dense.width = 1000;
  other.vocabulary = 1000;
  assert_true(hr_search_part_ns(&predictor, &model, HR_SEARCH_PART_ATTENTION) ==
              hr_search_part_ns(&predictor, &other, HR_SEARCH_PART_ATTENTION));
  layer->dense.width = model.groups[0].dense.width;
  layer->attention.q_heads = layer->attention.k_heads = layer->attention.v_heads = 16;
  layer->attention.qk_dim = layer->attention.v_dim = layer->attention.rotary_dim = 128;
  assert_true(hr_search_part_ns(&predictor, &model, HR_SEARCH_PART_MLP) ==
              hr_search_part_ns(&predictor, &other, HR_SEARCH_PART_MLP));
  other.vocabulary = model.vocabulary;
  layer->dense.width = 1000;
  assert_true(hr_search_part_ns(&predictor, &model, HR_SEARCH_PART_OUTSIDE) ==
              hr_search_part_ns(&predictor, &other, HR_SEARCH_PART_OUTSIDE));
}

static void a_search_fixed_to_the_model_finds_the_model(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  model.groups[0].dense.width = 14330; /* on no grid of 64 or 8 */
  hr_search_options options = paper_search();
  options.hidden_min = options.hidden_max = 4096;
  options.layers_min = options.layers_max = 32;
  options.heads_min = options.heads_max = 32;
  options.head_dim_min = options.head_dim_max = 128;
  options.mlp_width_min = options.mlp_width_max = 14330;
  options.keep_vocabulary = true;
  hr_search_result *result = search("h200", &model, &options);
  assert_int_equal(result->evaluated, 1);
  assert_int_equal(result->count, 1);
  assert_int_equal(result->shapes[0].model.groups[0].dense.width, 14330);
  assert_int_equal(result->shapes[0].model.hidden, 4096);
  assert_true(result->shapes[0].predicted_gain == 0);
  assert_true(result->shapes[0].pareto);
  hr_search_result_free(result);
}

static void as_many_heads_of_another_size_are_tried(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_search_options options = paper_search();
  options.hidden_min = options.hidden_max = 4096;
  options.layers_min = options.layers_max = 32;
  options.heads_min = options.heads_max = 32;
  options.head_dim_min = options.head_dim_max = 64;
  options.parameter_band = 0.05;
  hr_search_result *result = search("h200", &model, &options);
  assert_true(result->count > 0);
  const hr_mixer_attention *heads = &result->shapes[0].model.groups[0].attention;
  assert_true(heads->q_heads == 32 && heads->k_heads == 8 && heads->qk_dim == 64 && heads->v_dim == 64);
  hr_search_result_free(result);
}

/* All shapes of a small space one by one, through the public functions only. */
typedef struct brute {
  uint64_t count;
  double fastest_ns;
} brute;

static brute try_all(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload)
{
  brute result = {0, INFINITY};
  int64_t base = parameters_of(model);
  for (int64_t hidden = 2432; hidden <= 2688; hidden += 64)
    for (int64_t dim = 64; dim <= 128; dim += 8)
      for (int64_t layers = 30; layers <= 34; layers += 2)
        for (int64_t width = 9600; width <= 11008; width += 64) {
          hr_model shape = *model;
          hr_mixer_attention *heads = &shape.groups[0].attention;
          if (hidden % dim != 0)
            continue;
          shape.hidden = hidden;
          heads->q_heads = heads->k_heads = heads->v_heads = hidden / dim;
          heads->qk_dim = heads->v_dim = dim;
          shape.groups[0].count = layers;
          shape.groups[0].dense.width = width;
          shape.vocabulary = 50304;
          if (llabs(parameters_of(&shape) - base) > (int64_t)(0.02 * (double)base) || heads->q_heads % 2 != 0)
            continue;
          result.count++;
          result.fastest_ns = fmin(result.fastest_ns, step_ns(hardware, &shape, workload));
        }
  return result;
}

static void a_small_search_agrees_with_exhaustive_search(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("a100-sxm4-40gb");
  hr_workload workload = hr_workload_default(&model);
  workload.tensor_parallel = 2; /* heads in pairs, and all-reduces */
  workload.pipeline_stages = 2; /* even layers */
  hr_search_options options = paper_search();
  options.hidden_min = 2432;
  options.hidden_max = 2688;
  options.hidden_step = 64;
  options.layers_min = 30;
  options.layers_max = 34;
  options.mlp_width_min = 9600;
  options.mlp_width_max = 11008;
  options.mlp_step = 64;
  options.vocabulary_multiple = 64;
  hr_search_result *result = search_with("a100-sxm4-40gb", &model, &workload, &options);
  brute all = try_all(&hardware, &model, &workload);
  assert_true(all.count > 50);
  assert_int_equal(result->evaluated, all.count);
  assert_true(fabs(result->shapes[0].step_time_ns / all.fastest_ns - 1) < 1e-12);
  hr_search_result_free(result);
}

/* The workload of a run: stages, replicas with a ZeRO stage, and eager mode, whose times are no sum of parts. */
static hr_workload some_workload(const hr_model *model, size_t number)
{
  hr_workload workload = hr_workload_default(model);
  workload.phase = number % 3 == 0 ? HR_PHASE_PREFILL : number % 3 == 1 ? HR_PHASE_TRAIN : HR_PHASE_DECODE;
  workload.pipeline_stages = (int64_t)1 << number % 4;
  workload.framework = number % 5 == 0 ? HR_FRAMEWORK_EAGER : HR_FRAMEWORK_COMPILED;
  if (workload.phase == HR_PHASE_TRAIN) {
    workload.data_parallel = number % 2 ? 8 : 1;
    workload.zero_stage = workload.data_parallel > 1 ? (int64_t)(number % 4) : 0;
  }
  return workload;
}

static void no_reported_shape_is_slower_than_the_model(void **state)
{
  (void)state;
  const char *const models[] = {"llama-3.1-8b", "gpt2", "qwen2.5-7b", "gemma-2-9b", "phi-2"};
  for (size_t i = 0; i < 30; i++) {
    hr_model model = shipped_model(models[i % 5]);
    hr_workload workload = some_workload(&model, i);
    hr_search_options options = hr_search_options_default();
    options.serve_on_count = 1;
    options.serve_on[0] = 1;
    hr_search_result *result = search_with("h200", &model, &workload, &options);
    for (size_t j = 0; j < result->count; j++)
      assert_true(result->shapes[j].step_time_ns <= result->base_time_ns);
    hr_search_result_free(result);
  }
}

static void constraints_hold_for_every_shape(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  workload.tensor_parallel = 4;
  workload.pipeline_stages = 3; /* 32 layers do not divide: the model itself is not allowed */
  hr_search_options options = paper_search();
  options.parameter_band = 0.01;
  options.query_heads_per_kv = 2;
  options.head_dim_min = 128;
  options.head_dim_max = 128;
  options.vocabulary_multiple = 1000;
  options.limit = 50;
  hr_search_result *result = search_with("h200", &model, &workload, &options);
  assert_true(result->count > 0);
  for (size_t i = 0; i < result->count; i++) {
    const hr_model *shape = &result->shapes[i].model;
    assert_true(fabs(result->shapes[i].parameter_change) <= 0.01);
    const hr_mixer_attention *heads = &shape->groups[0].attention;
    assert_int_equal(heads->q_heads, 2 * heads->k_heads);
    assert_int_equal(heads->qk_dim, 128);
    assert_int_equal(heads->q_heads % 4, 0);
    assert_int_equal(shape->hidden % 4, 0);
    assert_int_equal(shape->groups[0].dense.width % 4, 0);
    assert_int_equal(shape->groups[0].count % 3, 0);
    assert_int_equal(shape->vocabulary, 129000);
  }
  hr_search_result_free(result);
}

/* Parameters without the padding rows of the vocabulary. */
static int64_t useful(const hr_search_shape *shape, const hr_model *base)
{
  hr_model unpadded = shape->model;
  unpadded.vocabulary = base->vocabulary;
  return parameters_of(&unpadded);
}

static void no_pareto_shape_is_dominated(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_search_options options = paper_search();
  options.limit = 200;
  hr_search_result *result = search("h200", &model, &options);
  size_t marked = 0;
  for (size_t i = 0; i < result->count; i++) {
    marked += result->shapes[i].pareto;
    for (size_t j = 0; result->shapes[i].pareto && j < result->count; j++)
      assert_false(result->shapes[j].step_time_ns < result->shapes[i].step_time_ns * (1 - 1e-9) &&
                   useful(&result->shapes[j], &model) >= useful(&result->shapes[i], &model));
  }
  assert_true(result->shapes[0].pareto && marked > 1);
  hr_search_result_free(result);
}

static bool is_alike(const hr_model *a, const hr_model *b)
{
  return a->hidden == b->hidden && hr_model_layers(a) == hr_model_layers(b) &&
         a->groups[0].attention.q_heads == b->groups[0].attention.q_heads;
}

static void the_list_has_different_shapes(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_search_options options = paper_search();
  hr_search_result *result = search("h200", &model, &options);
  for (size_t i = 0; i < result->count; i++) {
    size_t alike = 0;
    for (size_t j = 0; j < result->count; j++)
      alike += is_alike(&result->shapes[i].model, &result->shapes[j].model);
    assert_true(alike <= 2);
  }
  hr_search_result_free(result);
}

static void the_same_search_gives_the_same_shapes(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_search_options options = paper_search();
  hr_search_result *first = search("h200", &model, &options), *second = search("h200", &model, &options);
  assert_int_equal(first->evaluated, second->evaluated);
  assert_int_equal(first->count, second->count);
  assert_memory_equal(first->shapes, second->shapes, first->count * sizeof *first->shapes);
  hr_search_result_free(first);
  hr_search_result_free(second);
}

static int stop_at_half(void *context, double done, const char *what)
{
  double *last = context;
  assert_non_null(what);
  assert_true(done >= *last && done <= 1);
  *last = done;
  return done >= 0.5;
}

static void a_stopped_search_keeps_its_results_so_far(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("h200");
  hr_workload workload = hr_workload_default(&model);
  hr_search_options options = paper_search();
  hr_search_result *result;
  hr_error error;
  double last = 0;
  options.progress = stop_at_half, options.context = &last;
  assert_ok(hr_search(&hardware, &model, &workload, &options, &result, &error), error);
  assert_false(result->complete);
  assert_true(result->count > 0);
  hr_search_result_free(result);
}

static void a_search_stops_at_its_limit_of_shapes(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_search_options options = paper_search();
  options.evaluations_max = 100;
  hr_search_result *result = search("h200", &model, &options);
  assert_int_equal(result->evaluated, 100);
  assert_false(result->complete);
  hr_search_result_free(result);
}

static void an_enormous_space_ends(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_search_options options = paper_search();
  options.parameter_band = 1;
  options.hidden_min = 64;
  options.hidden_max = 64 * 4000;
  options.hidden_step = 64;
  options.layers_min = 1;
  options.layers_max = (int64_t)1 << 40;
  options.head_dim_min = 1;
  options.head_dim_max = (int64_t)1 << 40;
  options.mlp_width_min = 1;
  options.mlp_width_max = (int64_t)1 << 40;
  options.mlp_step = 1;
  options.evaluations_max = 20000;
  hr_search_result *result = search("h200", &model, &options);
  assert_false(result->complete);
  hr_search_result_free(result);
}

static void impossible_options_are_refused_by_name(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("h200");
  hr_workload workload = hr_workload_default(&model);
  hr_search_options cases[11];
  for (size_t i = 0; i < 11; i++)
    cases[i] = paper_search();
  cases[0].parameter_band = NAN;
  cases[1].hidden_min = 3000, cases[1].hidden_max = 2000;
  cases[2].limit = 0;
  cases[3].mlp_step = -1;
  cases[4].hidden_min = 1, cases[4].hidden_max = 100000, cases[4].hidden_step = 1;
  cases[5].head_dim_max = -5;
  cases[6].limit = SIZE_MAX;
  cases[7].head_size_count = HR_SEARCH_HEAD_SIZES_MAX + 1;
  cases[8].head_sizes[0] = 0;
  cases[9].serve_on_count = 2, cases[9].serve_on[0] = 999983, cases[9].serve_on[1] = 999979 * 2;
  cases[10] = hr_search_options_default(), cases[10].vary = HR_SEARCH_MLP;
  cases[10].serve_on_count = 1, cases[10].serve_on[0] = 6; /* 32 heads */
  const char *const named[] = {"parameter_band", "hidden_min", "limit",      "mlp_step", "hidden_step", "head_dim_max",
                               "limit",          "head_sizes", "head_sizes", "serve_on", "serve_on"};
  for (size_t i = 0; i < 11; i++) {
    hr_search_result *result = NULL;
    hr_error error;
    assert_int_equal(hr_search(&hardware, &model, &workload, &cases[i], &result, &error), HR_ERROR_INVALID);
    assert_non_null(strstr(error.message, named[i]));
    assert_null(result);
  }
}

static hr_search_point point(double time_ns, int64_t parameters)
{
  return (hr_search_point){.time_ns = time_ns, .parameters = parameters, .useful = parameters, .hidden = parameters};
}

static void a_front_keeps_only_points_that_nothing_dominates(void **state)
{
  (void)state;
  static hr_search_front front;
  const hr_search_point points[] = {point(5, 10), point(4, 8),  point(6, 9), point(5, 12),
                                    point(3, 8),  point(7, 12), point(2, 1), point(8, 20)};
  front.count = 0;
  for (size_t i = 0; i < sizeof points / sizeof *points; i++)
    hr_search_front_add(&front, &points[i]);
  const double times[] = {2, 3, 5, 8};
  const int64_t parameters[] = {1, 8, 12, 20};
  assert_int_equal(front.count, 4);
  for (size_t i = 0; i < 4; i++) {
    assert_true(front.points[i].time_ns == times[i]);
    assert_int_equal(front.points[i].useful, parameters[i]);
  }
}

static void a_full_pool_keeps_the_fastest(void **state)
{
  (void)state;
  static hr_search_pool pool;
  pool.count = 0;
  for (int64_t i = 0; i < 3 * HR_SEARCH_POOL_MAX; i++) {
    hr_search_point added = point((double)(i * 7919 % (3 * HR_SEARCH_POOL_MAX)), 1); /* 7919 is prime: all once */
    hr_search_pool_add(&pool, &added);
  }
  hr_search_sort(pool.points, pool.count);
  assert_int_equal(pool.count, HR_SEARCH_POOL_MAX);
  for (size_t i = 0; i < pool.count; i++)
    assert_true(pool.points[i].time_ns == (double)i);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gpt3_2_7b_finds_faster_shapes_with_heads_of_128),
      cmocka_unit_test(reported_shapes_have_the_predictors_times),
      cmocka_unit_test(three_parts_sum_to_the_step),
      cmocka_unit_test(a_part_depends_only_on_its_own_sizes),
      cmocka_unit_test(a_search_fixed_to_the_model_finds_the_model),
      cmocka_unit_test(as_many_heads_of_another_size_are_tried),
      cmocka_unit_test(a_small_search_agrees_with_exhaustive_search),
      cmocka_unit_test(no_reported_shape_is_slower_than_the_model),
      cmocka_unit_test(constraints_hold_for_every_shape),
      cmocka_unit_test(no_pareto_shape_is_dominated),
      cmocka_unit_test(the_list_has_different_shapes),
      cmocka_unit_test(the_same_search_gives_the_same_shapes),
      cmocka_unit_test(a_stopped_search_keeps_its_results_so_far),
      cmocka_unit_test(a_search_stops_at_its_limit_of_shapes),
      cmocka_unit_test(an_enormous_space_ends),
      cmocka_unit_test(impossible_options_are_refused_by_name),
      cmocka_unit_test(a_front_keeps_only_points_that_nothing_dominates),
      cmocka_unit_test(a_full_pool_keeps_the_fastest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
