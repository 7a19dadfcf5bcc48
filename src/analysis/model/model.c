/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/model.h>

#include "analysis/model/parameters.h"
#include "base/error.h"

#include <inttypes.h>

hr_model hr_model_default(void)
{
  return (hr_model){.struct_size = sizeof(hr_model),
                    .norm = HR_NORM_LAYER,
                    .norm_weight = true,
                    .norm_bias = true,
                    .layer_norms = 2,
                    .final_norm = true};
}

static hr_status check_range(const char *name, int64_t value, int64_t least, hr_error *error)
{
  if (value < least)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected at least %" PRId64 ", found %" PRId64, name, least, value);
  if (value > HR_MODEL_SIZE_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected at most %" PRId64 ", found %" PRId64, name, HR_MODEL_SIZE_MAX,
                   value);
  return HR_OK;
}

static hr_status check_sizes(const hr_model *m, hr_error *error)
{
  const struct {
    const char *name;
    int64_t value, least;
  } sizes[] = {
      {"layers", m->layers, 1},
      {"hidden", m->hidden, 1},
      {"vocabulary", m->vocabulary, 1},
      {"max_positions", m->max_positions, 0},
      {"q_heads", m->q_heads, 1},
      {"k_heads", m->k_heads, 1},
      {"v_heads", m->v_heads, 1},
      {"qk_dim", m->qk_dim, 1},
      {"v_dim", m->v_dim, 1},
      {"q_rank", m->q_rank, 0},
      {"window", m->window, 0},
      {"window_layers", m->window_layers, 0},
      {"mlp_width", m->mlp_width, 1},
      {"position_rows", m->position_rows, 0},
      {"rotary_dim", m->rotary_dim, 0},
      {"layer_norms", m->layer_norms, 0},
      {"embedding_dim", m->embedding_dim, 0},
      {"default_batch", m->default_batch, 0},
      {"default_sequence", m->default_sequence, 0},
      {"default_tensor_parallel", m->default_tensor_parallel, 0},
      {"default_pipeline_stages", m->default_pipeline_stages, 0},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    HR_TRY(check_range(sizes[i].name, sizes[i].value, sizes[i].least, error));
  return HR_OK;
}

static hr_status check_at_most(const char *name, int64_t value, const char *limit_name, int64_t limit, hr_error *error)
{
  if (value <= limit)
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID, "%s: %" PRId64 " is more than %s, %" PRId64, name, value, limit_name, limit);
}

static hr_status check_divides(const char *name, int64_t heads, int64_t q_heads, hr_error *error)
{
  if (q_heads % heads == 0)
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID, "%s: %" PRId64 " does not divide q_heads, %" PRId64, name, heads, q_heads);
}

hr_status hr_model_check(const hr_model *model, hr_error *error)
{
  HR_NEED(error, model);
  HR_TRY(hr_check_struct_size("hr_model", model->struct_size, sizeof(hr_model), error));
  HR_TRY(check_sizes(model, error));
  HR_TRY(check_divides("k_heads", model->k_heads, model->q_heads, error));
  HR_TRY(check_divides("v_heads", model->v_heads, model->q_heads, error));
  HR_TRY(check_at_most("window_layers", model->window_layers, "layers", model->layers, error));
  HR_TRY(check_at_most("rotary_dim", model->rotary_dim, "qk_dim", model->qk_dim, error));
  HR_TRY(check_at_most("layer_norms", model->layer_norms, "the most that a layer can have", 4, error));
  if ((unsigned)model->positions > HR_POSITIONS_ALIBI)
    return hr_fail(error, HR_ERROR_INVALID, "positions: %d is not a kind of positions", (int)model->positions);
  if ((unsigned)model->norm > HR_NORM_RMS)
    return hr_fail(error, HR_ERROR_INVALID, "norm: %d is not a kind of norm", (int)model->norm);
  if ((unsigned)model->qk_norm > HR_QK_NORM_FULL)
    return hr_fail(error, HR_ERROR_INVALID, "qk_norm: %d is not a kind of Q/K norm", (int)model->qk_norm);
  hr_parameters parameters;
  return hr_count_parameters(model, &parameters, error);
}

hr_status hr_model_parameters(const hr_model *model, hr_parameters *parameters, hr_error *error)
{
  HR_NEED(error, model, parameters);
  HR_TRY(hr_model_check(model, error));
  return hr_count_parameters(model, parameters, error);
}
