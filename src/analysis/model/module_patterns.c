/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/model/module_patterns.h"

#include "analysis/model/module_expression.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of the linear layers within a layer; of experts that of the first. Most have several in the families. */
static const struct module_row {
  hr_linear_id id;
  const char *path;
} modules[] = {
    {HR_LINEAR_Q, "self_attn.q_proj"},
    {HR_LINEAR_K, "self_attn.k_proj"},
    {HR_LINEAR_V, "self_attn.v_proj"},
    {HR_LINEAR_O, "self_attn.o_proj"},
    {HR_LINEAR_Q, "self_attn.qkv_proj"},
    {HR_LINEAR_K, "self_attn.qkv_proj"},
    {HR_LINEAR_V, "self_attn.qkv_proj"},
    {HR_LINEAR_Q, "self_attn.W_pack"},
    {HR_LINEAR_K, "self_attn.W_pack"},
    {HR_LINEAR_V, "self_attn.W_pack"},
    {HR_LINEAR_O, "self_attn.dense"},
    {HR_LINEAR_Q, "self_attention.query_key_value"},
    {HR_LINEAR_K, "self_attention.query_key_value"},
    {HR_LINEAR_V, "self_attention.query_key_value"},
    {HR_LINEAR_O, "self_attention.dense"},
    {HR_LINEAR_Q, "attn.c_attn"},
    {HR_LINEAR_K, "attn.c_attn"},
    {HR_LINEAR_V, "attn.c_attn"},
    {HR_LINEAR_O, "attn.c_proj"},
    {HR_LINEAR_Q_DOWN, "self_attn.q_a_proj"},
    {HR_LINEAR_Q_UP, "self_attn.q_b_proj"},
    {HR_LINEAR_KV_DOWN, "self_attn.kv_a_proj_with_mqa"},
    {HR_LINEAR_KV_UP, "self_attn.kv_b_proj"},
    {HR_LINEAR_IN_PROJ, "mixer.in_proj"},
    {HR_LINEAR_OUT_PROJ, "mixer.out_proj"},
    {HR_LINEAR_IN_PROJ, "mamba.in_proj"},
    {HR_LINEAR_OUT_PROJ, "mamba.out_proj"},
    {HR_LINEAR_IN_PROJ, "linear_attn.in_proj_qkvz"},
    {HR_LINEAR_IN_PROJ, "linear_attn.in_proj_qkv"},
    {HR_LINEAR_OUT_PROJ, "linear_attn.out_proj"},
    {HR_LINEAR_IN_PROJ, "conv.in_proj"},
    {HR_LINEAR_OUT_PROJ, "conv.out_proj"},
    {HR_LINEAR_GATE, "mlp.gate_proj"},
    {HR_LINEAR_UP, "mlp.up_proj"},
    {HR_LINEAR_DOWN, "mlp.down_proj"},
    {HR_LINEAR_GATE, "mlp.gate_up_proj"},
    {HR_LINEAR_UP, "mlp.gate_up_proj"},
    {HR_LINEAR_UP, "mlp.fc1"},
    {HR_LINEAR_DOWN, "mlp.fc2"},
    {HR_LINEAR_UP, "mlp.c_fc"},
    {HR_LINEAR_DOWN, "mlp.c_proj"},
    {HR_LINEAR_UP, "mlp.dense_h_to_4h"},
    {HR_LINEAR_DOWN, "mlp.dense_4h_to_h"},
    {HR_LINEAR_GATE, "feed_forward.gate_proj"},
    {HR_LINEAR_UP, "feed_forward.up_proj"},
    {HR_LINEAR_DOWN, "feed_forward.down_proj"},
    {HR_LINEAR_EXPERT_GATE, "mlp.experts.0.gate_proj"},
    {HR_LINEAR_EXPERT_UP, "mlp.experts.0.up_proj"},
    {HR_LINEAR_EXPERT_DOWN, "mlp.experts.0.down_proj"},
    {HR_LINEAR_EXPERT_GATE, "mlp.experts.gate_up_proj"},
    {HR_LINEAR_EXPERT_UP, "mlp.experts.gate_up_proj"},
    {HR_LINEAR_EXPERT_DOWN, "mlp.experts.down_proj"},
    {HR_LINEAR_EXPERT_GATE, "feed_forward.experts.0.gate_proj"},
    {HR_LINEAR_EXPERT_UP, "feed_forward.experts.0.up_proj"},
    {HR_LINEAR_EXPERT_DOWN, "feed_forward.experts.0.down_proj"},
    {HR_LINEAR_EXPERT_GATE, "block_sparse_moe.experts.0.w1"},
    {HR_LINEAR_EXPERT_UP, "block_sparse_moe.experts.0.w3"},
    {HR_LINEAR_EXPERT_DOWN, "block_sparse_moe.experts.0.w2"},
    {HR_LINEAR_SHARED_GATE, "mlp.shared_experts.gate_proj"},
    {HR_LINEAR_SHARED_UP, "mlp.shared_experts.up_proj"},
    {HR_LINEAR_SHARED_DOWN, "mlp.shared_experts.down_proj"},
    {HR_LINEAR_SHARED_GATE, "mlp.shared_expert.gate_proj"},
    {HR_LINEAR_SHARED_UP, "mlp.shared_expert.up_proj"},
    {HR_LINEAR_SHARED_DOWN, "mlp.shared_expert.down_proj"},
    {HR_LINEAR_SHARED_GATE, "feed_forward.shared_expert.gate_proj"},
    {HR_LINEAR_SHARED_UP, "feed_forward.shared_expert.up_proj"},
    {HR_LINEAR_SHARED_DOWN, "feed_forward.shared_expert.down_proj"},
};

static const char *const prefixes[] = {"model.", "model.language_model.", "language_model.model.", ""};

static bool is_expression(const char *pattern)
{
  return strncmp(pattern, "re:", 3) == 0;
}

static bool accept_all(void *context, const char *sequence)
{
  (void)context;
  (void)sequence;
  return false;
}

hr_status hr_check_module_pattern(const char *pattern, hr_error *error)
{
  if (strlen(pattern) > HR_MODULE_PATTERN_MAX / 2)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "a pattern of more than %d characters", HR_MODULE_PATTERN_MAX / 2);
  if (is_expression(pattern) && !hr_expand_expression(pattern + 3, accept_all, NULL))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "the expression \"%.100s\" is not supported", pattern);
  return HR_OK;
}

/* ---- names without expressions ---- */

/* Whether `part` is one or several whole modules within `name`. */
static bool has_modules(const char *name, const char *part)
{
  size_t length = strlen(part);
  for (const char *at = strstr(name, part); at && length > 0; at = strstr(at + 1, part)) {
    bool begins = at == name || at[-1] == '.', ends = at[length] == '\0' || at[length] == '.';
    if (begins && ends)
      return true;
  }
  return false;
}

/* "model.layers.3.mlp": the layer's number and what is behind it; false if the pattern has none. */
static bool split_layer(const char *pattern, int64_t *layer, const char **rest)
{
  static const char *const lists[] = {"layers.", "h.", "blocks."};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    const char *at = strstr(pattern, lists[i]);
    if (!at || (at != pattern && at[-1] != '.'))
      continue;
    at += strlen(lists[i]);
    char *end;
    *layer = strtoll(at, &end, 10);
    if (end == at || (*end != '\0' && *end != '.'))
      continue;
    *rest = *end == '.' ? end + 1 : end;
    return true;
  }
  return false;
}

static bool plain_matches(const char *pattern, int64_t layer, const char *path)
{
  int64_t own;
  const char *rest;
  if (!split_layer(pattern, &own, &rest))
    return has_modules(path, pattern) || strcmp(pattern, "model") == 0 || strcmp(pattern, "layers") == 0 ||
           strcmp(pattern, "model.layers") == 0;
  size_t length = strlen(rest);
  return own == layer && (length == 0 || (strncmp(path, rest, length) == 0 && strchr(".", path[length])));
}

/* ---- expressions and wildcards ---- */

typedef struct trial {
  const char *name;
  bool found;
} trial;

static bool try_sequence(void *context, const char *sequence)
{
  trial *tried = context;
  tried->found = hr_sequence_matches(sequence, tried->name, HR_ENDS_ANYWHERE);
  return tried->found;
}

static bool is_literal(char c)
{
  char lower = (char)(c | 32);
  return c == '_' || c == '-' || (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
}

/* An expression as Python's re.match() takes it, or a name with wildcards. */
static bool expression_matches(const char *pattern, const char *name)
{
  trial tried = {name, false};
  if (is_expression(pattern)) {
    hr_expand_expression(pattern + 3, try_sequence, &tried);
    return tried.found;
  }
  char text[HR_MODULE_PATTERN_MAX + 2]; /* twice as long as the longest pattern */
  size_t used = 0;
  for (const char *at = pattern; *at && used + 2 < sizeof text; at++) {
    if (!is_literal(*at))
      text[used++] = *at == '*' ? '.' : '\\';
    text[used++] = *at;
  }
  text[used] = '\0';
  return hr_sequence_matches(text, name, HR_ENDS_AT_MODULES);
}

static bool row_matches(const char *pattern, int64_t layer, const char *path)
{
  if (!is_expression(pattern) && !strchr(pattern, '*'))
    return plain_matches(pattern, layer, path);
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
    char name[128];
    snprintf(name, sizeof name, "%slayers.%" PRId64 ".%s", prefixes[i], layer, path);
    if (expression_matches(pattern, name))
      return true;
  }
  return false;
}

bool hr_module_matches(const char *pattern, int64_t layer, hr_linear_id id)
{
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
    if (modules[i].id == id && row_matches(pattern, layer, modules[i].path))
      return true;
  }
  return false;
}

bool hr_module_is_logit(const char *pattern)
{
  static const char *const names[] = {"lm_head", "model.lm_head", "language_model.lm_head", "output"};
  bool plain = !is_expression(pattern) && !strchr(pattern, '*');
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (plain ? has_modules(pattern, names[i]) : expression_matches(pattern, names[i]))
      return true;
  }
  return false;
}
