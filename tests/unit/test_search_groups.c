/* SPDX-License-Identifier: Apache-2.0 */
/* Searches near models whose layers differ. */
#include "test.h"

#include "analysis/predict/step.h"
#include "analysis/search/enumerate.h"
#include "base/checked.h"
#include "devices.h"
#include "hardware/hardware.h"
#include "model/reshape/reshape.h"
#include "models.h"
#include "searches.h"

#include <headroom/experimental/model.h>
#include <headroom/search.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* GPT-3 2.7B with three kinds of layers: 20 whole ones, 8 of attention under a window with shared K and V heads, and 4
 * of an MLP alone. */
static hr_model mixture(void)
{
  hr_model model = gpt3_2_7b();
  model.group_count = 3;
  model.groups[1] = model.groups[2] = model.groups[0];
  model.groups[0].count = 20;
  model.groups[1].count = 8;
  model.groups[1].attention.window = 512;
  model.groups[1].attention.k_heads = model.groups[1].attention.v_heads = 8;
  model.groups[1].dense = (hr_ffn_dense){.width = 0};
  model.groups[2].count = 4;
  model.groups[2].attention = (hr_mixer_attention){.q_heads = 0};
  return model;
}

static int64_t parameters_of(const hr_model *model)
{
  hr_parameters parameters;
  hr_error error;
  assert_ok(hr_model_parameters(model, &parameters, &error), error);
  return parameters.total;
}

static double step_ns(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload)
{
  static hr_step step;
  hr_error error;
  assert_ok(hr_fill_step(hardware, model, workload, &step, &error), error);
  return step.about.time_ns;
}

/* What parts of a step sum to: all but the optimizer, which depends on the whole model. */
static double passes_ns(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload)
{
  static hr_step step;
  hr_error error;
  assert_ok(hr_fill_step(hardware, model, workload, &step, &error), error);
  return step.about.time_ns - step.about.optimizer_ns;
}

/* A small space, and all its shapes one by one. */
typedef struct bounds {
  int64_t hidden_min, hidden_max, layers_min, layers_max, width_min, width_max, step;
} bounds;

static hr_search_options options_of(const bounds *b)
{
  hr_search_options options = paper_search();
  options.hidden_min = b->hidden_min;
  options.hidden_max = b->hidden_max;
  options.hidden_step = 64;
  options.layers_min = b->layers_min;
  options.layers_max = b->layers_max;
  options.mlp_width_min = b->width_min;
  options.mlp_width_max = b->width_max;
  options.mlp_step = b->step;
  options.vocabulary_multiple = 64;
  return options;
}

/* The model with this hidden size and heads of `dim`; latent attention keeps its heads. */
static bool with_heads(const hr_model *model, int64_t hidden, int64_t dim, hr_model *shape)
{
  const hr_mixer_latent *latent = &hr_model_main_group(model)->latent;
  if (latent->q_heads == 0)
    return hidden % dim == 0 && hr_reshape_heads(model, hidden, hidden / dim, shape);
  *shape = *model;
  shape->hidden = hidden;
  return dim == latent->nope_dim + latent->rope_dim;
}

typedef struct brute {
  uint64_t count;
  double fastest_ns;
} brute;

static void try_one(const hr_hardware *hardware, const hr_model *shape, const hr_workload *workload, int64_t base,
                    brute *result)
{
  if (llabs(parameters_of(shape) - base) > (int64_t)(0.02 * (double)base))
    return;
  result->count++;
  result->fastest_ns = fmin(result->fastest_ns, step_ns(hardware, shape, workload));
}

static brute try_all(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload, const bounds *b)
{
  brute result = {0, INFINITY};
  for (int64_t hidden = b->hidden_min; hidden <= b->hidden_max; hidden += 64)
    for (int64_t dim = 64; dim <= 128; dim += 8)
      for (int64_t layers = b->layers_min; layers <= b->layers_max; layers++)
        for (int64_t width = b->width_min; width <= b->width_max; width += b->step) {
          hr_model shape;
          if (!with_heads(model, hidden, dim, &shape))
            continue;
          shape = hr_reshape_layers(&shape, layers);
          hr_set_mlp_width(&shape, width, b->step);
          shape.vocabulary = 50304;
          try_one(hardware, &shape, workload, parameters_of(model), &result);
        }
  return result;
}

static void assert_agrees_with_exhaustive_search(const hr_model *model, const bounds *b)
{
  hr_hardware hardware = device("a100-sxm4-40gb");
  hr_workload workload = hr_workload_default(model);
  hr_search_options options = options_of(b);
  hr_search_result *result;
  hr_error error;
  assert_ok(hr_search(&hardware, model, &workload, &options, &result, &error), error);
  brute all = try_all(&hardware, model, &workload, b);
  assert_true(all.count > 50);
  assert_int_equal(result->evaluated, all.count);
  assert_true(fabs(result->shapes[0].step_time_ns / all.fastest_ns - 1) < 1e-12);
  for (size_t i = 0; i < result->count; i++) {
    const hr_search_shape *shape = &result->shapes[i];
    assert_true(shape->step_time_ns == step_ns(&hardware, &shape->model, &workload));
    assert_int_equal(shape->parameters, parameters_of(&shape->model));
    assert_int_equal(shape->model.group_count, model->group_count);
  }
  hr_search_result_free(result);
}

static void a_search_near_unequal_layers_agrees_with_exhaustive_search(void **state)
{
  (void)state;
  hr_model model = mixture();
  assert_agrees_with_exhaustive_search(&model, &(bounds){2432, 2688, 30, 34, 9600, 11008, 128});
}

/* Widths in proportion are rounded to the step: 7168/10240 and 1000/10240 of 9600 are 6720 and 937.5. */
static void a_search_near_several_widths_agrees_with_exhaustive_search(void **state)
{
  (void)state;
  hr_model model = mixture();
  model.groups[1].dense = (hr_ffn_dense){.width = 7168, .bias = true};
  model.groups[2].dense.width = 1000;
  assert_agrees_with_exhaustive_search(&model, &(bounds){2432, 2688, 30, 34, 9600, 11008, 128});
}

/* Two dense layers before 22 of 16 experts, with shared ones. */
static hr_model with_experts(void)
{
  hr_model model = gpt3_2_7b();
  model.group_count = 2;
  model.groups[1] = model.groups[0];
  model.groups[0].count = 2;
  model.groups[0].dense.width = 10944;
  model.groups[1].count = 22;
  model.groups[1].dense.width = 0;
  model.groups[1].experts = (hr_ffn_experts){.experts = 16,
                                             .active = 3,
                                             .width = 1408,
                                             .shared_width = 2816,
                                             .gated = true,
                                             .bias = true,
                                             .router_bias = true,
                                             .shared_gate = true};
  return model;
}

static void a_search_near_experts_agrees_with_exhaustive_search(void **state)
{
  (void)state;
  hr_model model = with_experts();
  assert_agrees_with_exhaustive_search(&model, &(bounds){2432, 2688, 22, 26, 1216, 1600, 32});
}

static hr_model with_latent_experts(void)
{
  hr_model model = with_experts();
  for (size_t i = 0; i < 2; i++) {
    model.groups[i].attention = (hr_mixer_attention){.q_heads = 0};
    model.groups[i].latent =
        (hr_mixer_latent){.q_heads = 24, .q_rank = 768, .kv_rank = 512, .nope_dim = 64, .rope_dim = 32, .v_dim = 64};
  }
  return model;
}

static void a_search_near_latent_attention_agrees_with_exhaustive_search(void **state)
{
  (void)state;
  hr_model model = with_latent_experts();
  assert_agrees_with_exhaustive_search(&model, &(bounds){2304, 2816, 20, 28, 1024, 1792, 32});
}

/* The search's sum of parts is the step that the operators of all groups together take. */
static void assert_parts_sum_to_steps(const hr_model *model, const hr_workload *workload)
{
  hr_hardware hardware = device("h200");
  hr_search_options options = paper_search();
  hr_error error;
  options.hidden_min = options.hidden_max = model->hidden;
  options.mlp_step = hr_max64(hr_main_mlp_width(model) / 40, 32) / 32 * 32;
  hr_search_state *search = calloc(1, sizeof *search);
  assert_non_null(search);
  search->predictor.hardware = &hardware;
  search->predictor.workload = workload;
  search->evaluations_max = 100000;
  assert_ok(hr_search_space_make(&hardware, model, workload, &options, &search->space, &error), error);
  hr_search_enumerate(search);
  assert_false(search->stopped);
  assert_true(search->pool.count > 20);
  for (size_t i = 0; i < search->pool.count; i++) {
    const hr_search_point *point = &search->pool.points[i];
    hr_model shape = hr_search_model(&search->space, point);
    assert_int_equal(hr_model_layers(&shape), point->layers);
    assert_int_equal(parameters_of(&shape), point->parameters);
    assert_true(fabs(point->time_ns / passes_ns(&hardware, &shape, workload) - 1) < 1e-12);
  }
  free(search);
}

/* The kinds of layers are mixed differently at each depth, which changes the mean of a layer. */
static void the_sum_of_parts_is_the_step_at_every_depth(void **state)
{
  (void)state;
  hr_model model = mixture();
  hr_workload workload = hr_workload_default(&model);
  assert_parts_sum_to_steps(&model, &workload);
}

/* A parallel block with two norms gathers two gradients in its backward pass, a sequential layer one. */
static void parallel_layers_keep_their_own_backward_pass(void **state)
{
  (void)state;
  hr_model model = mixture();
  model.groups[1].dense = model.groups[0].dense;
  model.groups[1].parallel_block = true;
  hr_workload workload = hr_workload_default(&model);
  workload.phase = HR_PHASE_TRAIN;
  workload.tensor_parallel = 2;
  assert_parts_sum_to_steps(&model, &workload);
}

/* Experts that are spread are not split, so only the other widths are divided by the 4 devices. */
static void the_sum_of_parts_is_the_step_of_spread_experts(void **state)
{
  (void)state;
  hr_model model = with_experts();
  hr_workload workload = hr_workload_default(&model);
  workload.tensor_parallel = workload.expert_parallel = 4;
  assert_parts_sum_to_steps(&model, &workload);
  workload.phase = HR_PHASE_TRAIN;
  workload.expert_parallel = 1;
  assert_parts_sum_to_steps(&model, &workload);
}

static void layers_with_weights_in_other_formats_have_times_of_their_own(void **state)
{
  (void)state;
  hr_model model = with_experts();
  hr_search_mlp_kinds kinds;
  model.groups[0] = model.groups[1];
  model.groups[0].attention.window = 512;
  hr_search_find_mlp_kinds(&model, &kinds);
  assert_int_equal(kinds.count, 1);
  model.groups[0].formats[0] = 1;
  hr_search_find_mlp_kinds(&model, &kinds);
  assert_int_equal(kinds.count, 2);
}

static void shared_heads_of_all_groups_get_the_ratio_asked_for(void **state)
{
  (void)state;
  hr_model model = mixture();
  hr_hardware hardware = device("h200");
  hr_workload workload = hr_workload_default(&model);
  workload.tensor_parallel = 2;
  hr_search_options options = paper_search();
  options.query_heads_per_kv = 2;
  hr_search_result *result;
  hr_error error;
  assert_ok(hr_search(&hardware, &model, &workload, &options, &result, &error), error);
  assert_true(result->count > 0);
  for (size_t i = 0; i < result->count; i++) {
    for (size_t j = 0; j < 2; j++) {
      const hr_mixer_attention *heads = &result->shapes[i].model.groups[j].attention;
      assert_int_equal(heads->q_heads, 2 * heads->k_heads);
      assert_int_equal(heads->q_heads % 2, 0);
    }
  }
  hr_search_result_free(result);
}

static void layers_that_a_search_cannot_vary_are_refused_by_their_reason(void **state)
{
  (void)state;
  hr_model models[] = {mixture(), mixture()};
  models[0].groups[0].attention = models[0].groups[1].attention = (hr_mixer_attention){.q_heads = 0};
  models[0].groups[1].dense = models[0].groups[0].dense;
  models[1].groups[0].dense.width = 0;
  const char *const reasons[] = {"which no layer of paper has", "which the main layers of paper do not have"};
  hr_hardware hardware = device("h200");
  for (size_t i = 0; i < 2; i++) {
    hr_workload workload = hr_workload_default(&models[i]);
    hr_search_options options = paper_search();
    hr_search_result *result = NULL;
    hr_error error;
    assert_int_equal(hr_search(&hardware, &models[i], &workload, &options, &result, &error), HR_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, reasons[i]));
    assert_null(result);
  }
}

/* Layers of few parameters make room for more of them than 63 bits can count of the others. */
static void an_enormous_space_of_unequal_layers_ends(void **state)
{
  (void)state;
  hr_model model = mixture();
  hr_hardware hardware = device("h200");
  hr_workload workload = hr_workload_default(&model);
  hr_search_options options = paper_search();
  options.parameter_band = 1;
  options.layers_min = 1;
  options.layers_max = (int64_t)1 << 40;
  options.mlp_width_min = 1;
  options.mlp_width_max = (int64_t)1 << 40;
  options.mlp_step = 1;
  options.evaluations_max = 5000;
  hr_search_result *result;
  hr_error error;
  assert_ok(hr_search(&hardware, &model, &workload, &options, &result, &error), error);
  assert_false(result->complete);
  hr_search_result_free(result);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_search_near_unequal_layers_agrees_with_exhaustive_search),
      cmocka_unit_test(a_search_near_several_widths_agrees_with_exhaustive_search),
      cmocka_unit_test(a_search_near_experts_agrees_with_exhaustive_search),
      cmocka_unit_test(a_search_near_latent_attention_agrees_with_exhaustive_search),
      cmocka_unit_test(the_sum_of_parts_is_the_step_of_spread_experts),
      cmocka_unit_test(layers_with_weights_in_other_formats_have_times_of_their_own),
      cmocka_unit_test(the_sum_of_parts_is_the_step_at_every_depth),
      cmocka_unit_test(parallel_layers_keep_their_own_backward_pass),
      cmocka_unit_test(shared_heads_of_all_groups_get_the_ratio_asked_for),
      cmocka_unit_test(layers_that_a_search_cannot_vary_are_refused_by_their_reason),
      cmocka_unit_test(an_enormous_space_of_unequal_layers_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
