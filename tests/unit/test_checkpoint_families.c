/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of tests/data/checkpoints, which transformers has saved: a model's weights are found by role, and
 * nothing else is in the files. scripts/make_checkpoints.py makes them. */
#include "test.h"

#include "model/checkpoint/weight_reader.h"
#include "model/layers/weight_shapes.h"

#include <dirent.h>
#include <headroom/experimental/operators.h>
#include <headroom/experimental/resolve.h>
#include <headroom/experimental/workload.h>
#include <math.h>
#include <stdio.h>

static hr_error error;

static int64_t read_role(hr_weight_reader *reader, const hr_weight_shape *shape, int role, int64_t layer,
                         const hr_layer_group *group)
{
  hr_weight_request request = {(hr_weight_role)role, layer,          group,   shape->count,
                               shape->rows,          shape->columns, HR_FP32, NULL};
  int64_t elements = shape->count * shape->rows * shape->columns;
  float *values = malloc((size_t)elements * sizeof *values), sum = 0;
  assert_non_null(values);
  assert_ok(hr_weight_read(reader, &request, values, &error), error);
  for (int64_t i = 0; i < elements; i++)
    sum += values[i] * values[i];
  assert_true(isfinite(sum) && sum > 0);
  free(values);
  return elements;
}

/* A bias that only chooses experts is no parameter where checkpoints keep it as a buffer. */
static bool is_buffer(int role, const hr_layer_group *layer)
{
  return role == HR_WEIGHT_ROUTER_BIAS && !layer->experts.router_bias;
}

/* Each role that operators name, once. `layer` is -1 outside of layers. */
static int64_t read_group(hr_weight_reader *reader, const hr_operators *operators, int64_t layer, size_t group)
{
  hr_weight_shapes shapes;
  bool done[HR_WEIGHT_ROLE_COUNT] = {false};
  const hr_layer_group *of = layer < 0 ? NULL : &reader->model->groups[group];
  int64_t elements = 0;
  hr_list_weights(reader->model, of, &shapes);
  for (size_t i = 0; i < operators->count; i++) {
    const hr_operator *op = &operators->items[i];
    if (of ? !(op->groups >> group & 1) : op->in_layer)
      continue;
    for (size_t w = 0; w < HR_OPERATOR_WEIGHTS_MAX && op->weights[w]; w++) {
      int role = op->weights[w];
      const int64_t found = done[role] ? 0 : read_role(reader, &shapes.of[role], role, layer, of);
      elements += is_buffer(role, of) ? 0 : found;
      done[role] = true;
    }
  }
  return elements;
}

/* The checkpoints have two layers, each the first of its group, or both in one. */
static void read_all(const char *folder)
{
  hr_model model;
  hr_weights *weights;
  hr_weight_reader reader;
  hr_parameters parameters;
  hr_operators *operators = malloc(sizeof *operators);
  assert_non_null(operators);
  assert_ok(hr_resolve_model(folder, NULL, NULL, &model, &error), error);
  hr_workload workload = hr_workload_default(&model);
  assert_ok(hr_operators_list(&model, &workload, operators, &error), error);
  assert_ok(hr_model_parameters(&model, &parameters, &error), error);
  assert_ok(hr_weights_open(folder, &weights, &error), error);
  assert_ok(hr_weight_reader_begin(&reader, weights, &model, &error), error);
  int64_t elements = read_group(&reader, operators, -1, 0);
  for (int64_t layer = 0; layer < 2; layer++)
    elements += read_group(&reader, operators, layer, (size_t)layer < model.group_count ? (size_t)layer : 0);
  assert_ok(hr_weight_reader_end(&reader, &error), error);
  assert_int_equal(elements, parameters.total);
  hr_weight_reader_free(&reader);
  hr_weights_close(weights);
  free(operators);
}

static void every_weight_of_a_family_is_read_by_role_and_no_tensor_is_left(void **state)
{
  (void)state;
  int read = 0;
  const char *other = getenv("HEADROOM_TEST_CHECKPOINTS");
  const char *place = other ? other : HEADROOM_SOURCE_DIR "/tests/data/checkpoints";
  DIR *folder = opendir(place);
  assert_non_null(folder);
  for (const struct dirent *entry; (entry = readdir(folder));) {
    char path[512];
    if (entry->d_name[0] == '.')
      continue;
    snprintf(path, sizeof path, "%s/%s", place, entry->d_name);
    read_all(path);
    read++;
  }
  closedir(folder);
  assert_true(read > 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_weight_of_a_family_is_read_by_role_and_no_tensor_is_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
