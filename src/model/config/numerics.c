/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config/numerics.h"

#include "model/layers/layer_kinds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A number of the configuration: its field (NULL: it has none), and its value if it is missing. */
typedef struct number_field {
  const char *field;
  double value;
} number_field;

/* A flag that can be run with one value only, that of a missing field. */
typedef struct flag_field {
  const char *field;
  bool value;
} flag_field;

#define EXPECTS_MAX 2

typedef struct numerics_row {
  const char *family;
  number_field epsilon, theta; /* no field and 0: see numerics.inc */
  bool interleaved, gelu_tanh;
  bool root_embedding_scale; /* the embedding times sqrt(hidden) */
  bool unit_attention_scale; /* scores are not scaled */
  bool alibi_scaled;
  bool yarn_scales_scores; /* by the square of what mscale_all_dim says (DeepSeek-V2 and later) */
  number_field embedding_scale, attention_scale, residual_scale, logit_scale, logit_divisor;
  number_field score_scalar; /* scores are divided by its root */
  number_field attention_softcap, logit_softcap;
  number_field window_theta; /* of layers with a window, if it is another */
  hr_router router;          /* but for what the next two say */
  flag_field router_normalized;
  number_field router_scale;
  number_field swiglu_limit;
  number_field query_growth, query_floor;
  const char *query_grows; /* the flag without which queries do not */
  flag_field expects[EXPECTS_MAX];
} numerics_row;

static const numerics_row rows[] = {
#define HR_NUMERICS(name, ...) {.family = name, ##__VA_ARGS__},
#include "model/config/numerics.inc"
#undef HR_NUMERICS
};

static const numerics_row *row_of(const char *family)
{
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (strcmp(rows[i].family, family) == 0)
      return &rows[i];
  }
  return NULL;
}

static void refuse(hr_numerics *to, const char *field)
{
  if (to->refusal[0] == '\0')
    snprintf(to->refusal, sizeof to->refusal, "%s", field);
}

static hr_status read_number(const hr_json_reader *json, const number_field *field, double *value)
{
  *value = field->value;
  return field->field ? hr_json_number_or(json, field->field, -1e30, 1e30, field->value, value) : HR_OK;
}

/* ---- rotary positions ---- */

static hr_json_reader inner_object(const hr_config *config, const char *field)
{
  hr_json_reader inner = config->json;
  inner.object = json_object_get(config->json.object, field);
  inner.path = field;
  return inner;
}

static hr_status read_llama3(const hr_json_reader *scaling, hr_numerics *to)
{
  HR_TRY(hr_json_number_or(scaling, "low_freq_factor", 1e-6, 1e9, 1, &to->rotary_low));
  HR_TRY(hr_json_number_or(scaling, "high_freq_factor", 1e-6, 1e9, 4, &to->rotary_high));
  return hr_json_number_or(scaling, "original_max_position_embeddings", 1, 1e12, 8192, &to->rotary_positions);
}

/* YaRN lets scores grow with a context that is `factor` times as long: Peng et al., section 3.4. */
static double yarn_growth(double factor, double weight)
{
  return factor <= 1 ? 1 : 0.1 * weight * log(factor) + 1;
}

static hr_status read_yarn(const hr_json_reader *scaling, hr_numerics *to)
{
  double over, under, amplitude;
  HR_TRY(hr_json_number_or(scaling, "beta_slow", 1e-6, 1e9, 1, &to->rotary_low));
  HR_TRY(hr_json_number_or(scaling, "beta_fast", 1e-6, 1e9, 32, &to->rotary_high));
  HR_TRY(hr_json_number_or(scaling, "original_max_position_embeddings", 1, 1e12, 4096, &to->rotary_positions));
  HR_TRY(hr_json_number_or(scaling, "mscale", 0, 1e6, 0, &over));
  HR_TRY(hr_json_number_or(scaling, "mscale_all_dim", 0, 1e6, 0, &under));
  HR_TRY(hr_json_boolean_or(scaling, "truncate", true, &to->rotary_truncated));
  amplitude = over > 0 && under > 0 ? yarn_growth(to->rotary_factor, over) / yarn_growth(to->rotary_factor, under)
                                    : yarn_growth(to->rotary_factor, 1);
  return hr_json_number_or(scaling, "attention_factor", 1e-6, 1e6, amplitude, &to->rotary_amplitude);
}

static hr_rotary_scaling scaling_named(const char *kind)
{
  static const char *const names[] = {
      [HR_ROTARY_LINEAR] = "linear", [HR_ROTARY_LLAMA3] = "llama3", [HR_ROTARY_YARN] = "yarn"};
  int found = HR_ROTARY_LINEAR;
  while (found < HR_ROTARY_OTHER && strcmp(kind, names[found]) != 0)
    found++;
  return (hr_rotary_scaling)found;
}

static hr_status read_scaling(const hr_json_reader *scaling, hr_numerics *to)
{
  const char *kind = json_string_value(json_object_get(scaling->object, "rope_type"));
  if (!kind)
    kind = json_string_value(json_object_get(scaling->object, "type"));
  if (!kind || strcmp(kind, "default") == 0)
    return HR_OK;
  to->rotary_scaling = scaling_named(kind);
  if (to->rotary_scaling == HR_ROTARY_OTHER) {
    char text[sizeof to->refusal];
    snprintf(text, sizeof text, "rotary scaling %.60s", kind);
    refuse(to, text);
    return HR_OK;
  }
  HR_TRY(hr_json_number_or(scaling, "factor", 1e-6, 1e9, 1, &to->rotary_factor));
  if (to->rotary_scaling == HR_ROTARY_YARN)
    return read_yarn(scaling, to);
  return to->rotary_scaling == HR_ROTARY_LLAMA3 ? read_llama3(scaling, to) : HR_OK;
}

/* Newer configurations have an object for each kind of layers, older ones a field for those with a window. */
static hr_status read_window_theta(const hr_config *config, const numerics_row *row, hr_json_reader *parameters,
                                   hr_numerics *to)
{
  static const char window[] = "sliding_attention", full[] = "full_attention";
  if (!row->window_theta.field)
    return HR_OK;
  HR_TRY(read_number(&config->json, &row->window_theta, &to->rotary_window_base));
  hr_json_reader inner = *parameters;
  inner.object = json_object_get(parameters->object, window);
  inner.path = "rope_parameters.sliding_attention";
  HR_TRY(hr_json_number_or(&inner, "rope_theta", 1e-6, 1e12, to->rotary_window_base, &to->rotary_window_base));
  if (json_is_object(json_object_get(parameters->object, full)))
    parameters->object = json_object_get(parameters->object, full);
  return HR_OK;
}

/* Older configurations have "rope_theta" and "rope_scaling", newer ones both in "rope_parameters". */
static hr_status read_rotary(const hr_config *config, const numerics_row *row, hr_numerics *to)
{
  hr_json_reader parameters = inner_object(config, "rope_parameters");
  const hr_json_reader scaling = inner_object(config, "rope_scaling");
  const char *field = row->theta.field ? row->theta.field : "rope_theta";
  double usual = row->theta.value > 0 ? row->theta.value : 10000;
  HR_TRY(read_window_theta(config, row, &parameters, to));
  if (json_is_object(json_object_get(parameters.object, "full_attention")))
    refuse(to, "rope_parameters of several kinds of layers");
  HR_TRY(hr_json_number_or(&config->json, field, 1e-6, 1e12, usual, &usual));
  HR_TRY(hr_json_number_or(&parameters, "rope_theta", 1e-6, 1e12, usual, &to->rotary_base));
  to->rotary_interleaved = row->interleaved;
  to->gelu_tanh = row->gelu_tanh;
  return read_scaling(json_is_object(parameters.object) ? &parameters : &scaling, to);
}

/* DeepSeek-V2 and later multiply scores by the square of YaRN's growth instead: modeling_deepseek.py,
 * softmax_scale. */
static hr_status read_growth(const hr_config *config, const numerics_row *row, const hr_model *model, hr_numerics *to)
{
  const hr_json_reader parameters = inner_object(config, "rope_parameters"),
                       scaling = inner_object(config, "rope_scaling");
  const double dim = (double)hr_heads_of(&model->groups[0]).qk_dim;
  double weight;
  if (!row->yarn_scales_scores || to->rotary_scaling != HR_ROTARY_YARN)
    return HR_OK;
  HR_TRY(hr_json_number_or(json_is_object(parameters.object) ? &parameters : &scaling, "mscale_all_dim", 0, 1e6, 0,
                           &weight));
  const double growth = yarn_growth(to->rotary_factor, weight);
  to->attention_scale = growth * growth / sqrt(dim);
  return HR_OK;
}

/* ---- the rest ---- */

static hr_status read_scales(const hr_config *config, const numerics_row *row, const hr_model *model, hr_numerics *to)
{
  double divisor = 0, scalar = 0;
  HR_TRY(read_number(&config->json, &row->embedding_scale, &to->embedding_scale));
  HR_TRY(read_number(&config->json, &row->attention_scale, &to->attention_scale));
  HR_TRY(read_number(&config->json, &row->residual_scale, &to->residual_scale));
  HR_TRY(read_number(&config->json, &row->logit_scale, &to->logit_scale));
  HR_TRY(read_number(&config->json, &row->attention_softcap, &to->attention_softcap));
  HR_TRY(read_number(&config->json, &row->logit_softcap, &to->logit_softcap));
  HR_TRY(read_number(&config->json, &row->logit_divisor, &divisor));
  HR_TRY(read_number(&config->json, &row->score_scalar, &scalar));
  if (scalar > 0)
    to->attention_scale = 1 / sqrt(scalar);
  if (divisor != 0)
    to->logit_scale = 1 / divisor;
  if (row->root_embedding_scale)
    to->embedding_scale = sqrt((double)model->hidden);
  to->alibi_scaled = row->alibi_scaled;
  if (row->unit_attention_scale)
    to->attention_scale = 1;
  return HR_OK;
}

static hr_status read_router(const hr_config *config, const numerics_row *row, hr_numerics *to)
{
  const flag_field *normalized = &row->router_normalized;
  to->router = row->router;
  HR_TRY(read_number(&config->json, &row->swiglu_limit, &to->swiglu_limit));
  HR_TRY(read_number(&config->json, &row->router_scale, &to->router.scale));
  if (!normalized->field)
    return HR_OK;
  return hr_json_boolean_or(&config->json, normalized->field, normalized->value, &to->router.normalized);
}

static hr_status read_query_growth(const hr_config *config, const numerics_row *row, hr_numerics *to)
{
  if (!row->query_grows)
    return HR_OK;
  const json_t *flag = json_object_get(config->json.object, row->query_grows); /* the first configurations have 4 */
  const bool grows = !flag || json_is_null(flag) || json_is_true(flag) || json_number_value(flag) != 0;
  HR_TRY(read_number(&config->json, &row->query_growth, &to->query_growth));
  to->query_growth = grows ? to->query_growth : 0;
  return hr_json_number_or(&config->json, row->query_floor.field, 1e-6, 1e12, row->query_floor.value, &to->query_floor);
}

static hr_status read_flags(const hr_config *config, const numerics_row *row, hr_numerics *to)
{
  for (size_t i = 0; i < EXPECTS_MAX && row->expects[i].field; i++) {
    bool value;
    HR_TRY(hr_json_boolean_or(&config->json, row->expects[i].field, row->expects[i].value, &value));
    if (value != row->expects[i].value)
      refuse(to, row->expects[i].field);
  }
  if (hr_json_has(&config->json, "clip_qkv"))
    refuse(to, "clip_qkv");
  return HR_OK;
}

hr_status hr_read_numerics(hr_config *config, hr_model *model)
{
  const numerics_row *row = row_of(model->family);
  hr_numerics read = {.known = row != NULL};
  if (row) {
    const number_field usual = {"rms_norm_eps", 1e-6}, *epsilon = row->epsilon.value > 0 ? &row->epsilon : &usual;
    HR_TRY(read_number(&config->json, epsilon, &read.norm_epsilon));
    HR_TRY(read_rotary(config, row, &read));
    HR_TRY(read_scales(config, row, model, &read));
    HR_TRY(read_growth(config, row, model, &read));
    HR_TRY(read_router(config, row, &read));
    HR_TRY(read_query_growth(config, row, &read));
    HR_TRY(read_flags(config, row, &read));
  }
  model->numerics = read;
  return HR_OK;
}
