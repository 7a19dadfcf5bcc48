/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/experimental/model.h>

#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/layer_weights.h"
#include "model/layers/parameters.h"
#include "model/layers/sizes.h"

void hr_model_init(hr_model *model, size_t size)
{
  HR_INIT(model, size,
          (hr_model){.norm = HR_NORM_LAYER,
                     .norm_weight = true,
                     .norm_bias = true,
                     .final_norm = true,
                     .group_count = 1,
                     .groups = {{.norms = 2}}});
}

const char *hr_origin_name(hr_origin origin)
{
  static const char *const names[] = {"design", "published", "files"};
  return hr_name_of(names, sizeof names / sizeof *names, (int)origin);
}

int64_t hr_model_layers(const hr_model *model)
{
  int64_t layers = 0;
  for (size_t i = 0; i < model->group_count; i++)
    layers += model->groups[i].count;
  return layers;
}

static bool has_attention(const hr_layer_group *layer)
{
  return layer->attention.q_heads > 0 || layer->latent.q_heads > 0 || layer->compressed.q_heads > 0;
}

const hr_layer_group *hr_model_main_group(const hr_model *model)
{
  const hr_layer_group *main = &model->groups[0];
  for (size_t i = 1; i < model->group_count; i++) {
    const hr_layer_group *other = &model->groups[i];
    bool better = has_attention(other) == has_attention(main) ? other->count > main->count : has_attention(other);
    main = better ? other : main;
  }
  return main;
}

static hr_status check_sizes(const hr_model *m, hr_error *error)
{
  const struct {
    const char *name;
    int64_t value, least;
  } sizes[] = {
      {"hidden", m->hidden, 1},
      {"vocabulary", m->vocabulary, 1},
      {"max_positions", m->max_positions, 0},
      {"position_rows", m->position_rows, 0},
      {"embedding_dim", m->embedding_dim, 0},
      {"residual_streams", m->residual_streams, 0},
      {"classes", m->classes, m->head == HR_HEAD_CLASSES ? 1 : 0},
      {"default_batch", m->default_batch, 0},
      {"default_sequence", m->default_sequence, 0},
      {"default_tensor_parallel", m->default_tensor_parallel, 0},
      {"default_pipeline_stages", m->default_pipeline_stages, 0},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    HR_TRY(hr_check_range(sizes[i].name, sizes[i].value, sizes[i].least, error));
  return hr_check_at_most("residual_streams", m->residual_streams, "the most a model can have", 64, error);
}

static hr_status check_groups(const hr_model *model, hr_error *error)
{
  if (model->group_count < 1 || model->group_count > HR_LAYER_GROUPS_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "group_count: expected 1 to %d, found %zu", HR_LAYER_GROUPS_MAX,
                   model->group_count);
  for (size_t i = 0; i < model->group_count; i++) {
    hr_error problem;
    hr_status status = hr_check_layer(&model->groups[i], &problem);
    if (status != HR_OK)
      return hr_fail(error, status, "groups[%zu]: %s", i, problem.message);
    if (model->residual_streams > 0 && model->groups[i].parallel_block)
      return hr_fail(error, HR_ERROR_INVALID, "groups[%zu].parallel_block: residual_streams are of layers without it",
                     i);
  }
  return hr_check_range("layers", hr_model_layers(model), 1, error);
}

hr_status hr_model_check(const hr_model *model, hr_error *error)
{
  HR_NEED(error, model);
  HR_TAKE(hr_model, model, error);
  HR_TRY(check_sizes(model, error));
  HR_TRY(check_groups(model, error));
  HR_TRY(hr_check_quantization(model, error));
  if ((unsigned)model->positions > HR_POSITIONS_ALIBI)
    return hr_fail(error, HR_ERROR_INVALID, "positions: %d is not a kind of positions", (int)model->positions);
  if ((unsigned)model->norm > HR_NORM_RMS)
    return hr_fail(error, HR_ERROR_INVALID, "norm: %d is not a kind of norm", (int)model->norm);
  if ((unsigned)model->head > HR_HEAD_NONE)
    return hr_fail(error, HR_ERROR_INVALID, "head: %d is not a kind of head", (int)model->head);
  hr_parameters parameters;
  return hr_count_parameters(model, &parameters, error);
}

hr_status hr_model_parameters(const hr_model *model, hr_parameters *parameters, hr_error *error)
{
  HR_NEED(error, model, parameters);
  HR_TAKE(hr_model, model, error);
  HR_TRY(hr_model_check(model, error));
  return hr_count_parameters(model, parameters, error);
}
