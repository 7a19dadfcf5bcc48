/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config/quantization/module_patterns.h"

#include "base/error.h"
#include "model/config/quantization/module_expression.h"

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
    {HR_LINEAR_INDEX_Q, "self_attn.indexer.wq_b"},
    {HR_LINEAR_INDEX_K, "self_attn.indexer.wk"},
    {HR_LINEAR_Q_DOWN, "attn.wq_a"},
    {HR_LINEAR_Q_UP, "attn.wq_b"},
    {HR_LINEAR_KV_DOWN, "attn.wkv"},
    {HR_LINEAR_O_DOWN, "attn.wo_a"},
    {HR_LINEAR_O, "attn.wo_b"},
    {HR_LINEAR_INDEX_Q, "attn.indexer.wq_b"},
    {HR_LINEAR_O_DOWN, "self_attn.o_a_proj"},
    {HR_LINEAR_O, "self_attn.o_b_proj"},
    {HR_LINEAR_INDEX_Q, "self_attn.index_q_proj"},
    {HR_LINEAR_INDEX_K, "self_attn.index_k_proj"},
    {HR_LINEAR_INDEX_Q, "self_attn.indexer.q_proj"},
    {HR_LINEAR_INDEX_K, "self_attn.indexer.k_proj"},
    {HR_LINEAR_Q, "mixer.q_proj"},
    {HR_LINEAR_K, "mixer.k_proj"},
    {HR_LINEAR_V, "mixer.v_proj"},
    {HR_LINEAR_O, "mixer.o_proj"},
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
    {HR_LINEAR_UP, "mixer.up_proj"},
    {HR_LINEAR_DOWN, "mixer.down_proj"},
    {HR_LINEAR_EXPERT_LATENT_DOWN, "mixer.fc1_latent_proj"},
    {HR_LINEAR_EXPERT_LATENT_UP, "mixer.fc2_latent_proj"},
    {HR_LINEAR_EXPERT_UP, "mixer.experts.0.up_proj"},
    {HR_LINEAR_EXPERT_DOWN, "mixer.experts.0.down_proj"},
    {HR_LINEAR_SHARED_UP, "mixer.shared_experts.up_proj"},
    {HR_LINEAR_SHARED_DOWN, "mixer.shared_experts.down_proj"},
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
    {HR_LINEAR_SHARED_GATE, "block_sparse_moe.shared_experts.gate_proj"},
    {HR_LINEAR_SHARED_UP, "block_sparse_moe.shared_experts.up_proj"},
    {HR_LINEAR_SHARED_DOWN, "block_sparse_moe.shared_experts.down_proj"},
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

#define PREFIX_COUNT (sizeof prefixes / sizeof *prefixes)
#define MODULE_COUNT (sizeof modules / sizeof *modules)

static const char *const logits[] = {"lm_head", "model.lm_head", "language_model.lm_head", "output"};
#define LOGIT_COUNT (sizeof logits / sizeof *logits)

static bool is_expression(const char *pattern)
{
  return strncmp(pattern, "re:", 3) == 0;
}

static hr_linear_set bit_of(size_t module)
{
  return (hr_linear_set)1 << modules[module].id;
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

static bool names_all(const char *pattern)
{
  return strcmp(pattern, "model") == 0 || strcmp(pattern, "layers") == 0 || strcmp(pattern, "model.layers") == 0;
}

/* `rest` is behind a layer's number. */
static bool begins_with_modules(const char *path, const char *rest)
{
  size_t length = strlen(rest);
  return length == 0 || (strncmp(path, rest, length) == 0 && strchr(".", path[length]));
}

/* The linear layers of a name: of one layer, or the same of all. */
static void name_plain(const char *pattern, hr_named_modules *named)
{
  int64_t first = 0, count = named->layers;
  const char *rest = NULL;
  hr_linear_set set = 0;
  if (split_layer(pattern, &first, &rest))
    count = first >= 0 && first < named->layers ? 1 : 0;
  for (size_t i = 0; i < MODULE_COUNT; i++) {
    const char *path = modules[i].path;
    if (rest ? begins_with_modules(path, rest) : has_modules(path, pattern) || names_all(pattern))
      set |= bit_of(i);
  }
  for (int64_t i = 0; i < count; i++)
    named->linears[first + i] |= set;
  for (size_t i = 0; i < LOGIT_COUNT; i++)
    named->logit = named->logit || has_modules(pattern, logits[i]);
  named->work += (int64_t)MODULE_COUNT + count;
}

/* ---- expressions and wildcards ---- */

static bool is_literal(char c)
{
  char lower = (char)(c | 32);
  return c == '_' || c == '-' || (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
}

/* A name with wildcards as an expression, which is at most twice as long. */
static void write_wildcards(const char *pattern, char *text)
{
  for (const char *at = pattern; *at; at++) {
    if (!is_literal(*at))
      *text++ = *at == '*' ? '.' : '\\';
    *text++ = *at;
  }
  *text = '\0';
}

/* The linear layers of one layer whose names begin as those that `before` has read. */
static hr_linear_set matching_linears(const hr_matching *before, const char *number)
{
  hr_matching layer;
  hr_linear_set set = 0;
  hr_matching_copy(&layer, before);
  hr_matching_read(&layer, number);
  if (layer.count == 0 && !layer.found)
    return 0;
  for (size_t i = 0; i < MODULE_COUNT && *layer.work <= HR_MODULE_WORK_MAX; i++) {
    ++*layer.work;
    if (!(set & bit_of(i)) && hr_matching_ends(&layer, modules[i].path))
      set |= bit_of(i);
  }
  return set;
}

/* Reads the names up to the layer's number. Returns how many differ for the expression. */
static size_t read_prefixes(const hr_module_expression *expression, hr_matching begun[PREFIX_COUNT], int64_t *work)
{
  size_t count = 0;
  for (size_t i = 0; i < PREFIX_COUNT; i++) {
    hr_matching *last = &begun[count];
    bool known = false;
    hr_matching_begin(last, expression, work);
    hr_matching_read(last, prefixes[i]);
    hr_matching_read(last, "layers.");
    for (size_t k = 0; k < count; k++)
      known = known || hr_matching_equals(&begun[k], last);
    count += !known;
  }
  return count;
}

static void name_matching(const hr_module_expression *expression, hr_named_modules *named)
{
  hr_matching begun[PREFIX_COUNT], name;
  size_t count = read_prefixes(expression, begun, &named->work);
  for (int64_t layer = 0; layer < named->layers && named->work <= HR_MODULE_WORK_MAX; layer++) {
    char number[24];
    snprintf(number, sizeof number, "%" PRId64 ".", layer);
    for (size_t i = 0; i < count; i++)
      named->linears[layer] |= matching_linears(&begun[i], number);
    named->work += (int64_t)count;
  }
  for (size_t i = 0; i < LOGIT_COUNT; i++) {
    hr_matching_begin(&name, expression, &named->work);
    named->logit = hr_matching_ends(&name, logits[i]) || named->logit;
  }
}

static hr_status check_work(const hr_named_modules *named, const char *pattern, hr_error *error)
{
  if (named->work <= HR_MODULE_WORK_MAX)
    return HR_OK;
  return hr_fail(error, HR_ERROR_UNSUPPORTED,
                 "comparing the patterns up to \"%.60s\" with the modules of %" PRId64
                 " layers takes more than %d steps, Headroom's limit",
                 pattern, named->layers, HR_MODULE_WORK_MAX);
}

hr_status hr_name_modules(const char *pattern, hr_named_modules *named, hr_error *error)
{
  bool regular = is_expression(pattern);
  char text[2 * HR_MODULE_PATTERN_MAX + 1];
  hr_module_expression expression;
  if (strlen(pattern) > HR_MODULE_PATTERN_MAX)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "a pattern of more than %d characters", HR_MODULE_PATTERN_MAX);
  if (!regular && !strchr(pattern, '*')) {
    name_plain(pattern, named);
    return check_work(named, pattern, error);
  }
  if (!regular)
    write_wildcards(pattern, text);
  if (!hr_compile_expression(regular ? pattern + 3 : text, regular ? HR_ENDS_ANYWHERE : HR_ENDS_AT_MODULES,
                             &expression))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "the expression \"%.100s\" is not supported", pattern);
  name_matching(&expression, named);
  return check_work(named, pattern, error);
}
