/* SPDX-License-Identifier: Apache-2.0 */
#include "properties.h"

#include "expect.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/operators.h>
#include <jansson.h>
#include <string.h>

void expect_printable(const char *text)
{
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    EXPECT(*c >= ' ' && *c != 0x7f);
    EXPECT(c[0] != 0xC2 || c[1] >= 0xA0); /* U+0080 to U+009F */
  }
  json_t *string = json_string(text); /* NULL unless it is UTF-8 */
  EXPECT(string);
  json_decref(string);
}

void expect_clear_failure(hr_status status, const hr_error *error)
{
  EXPECT(status > HR_OK && status < HR_STATUS_COUNT);
  EXPECT(error->status == status);
  EXPECT(error->message[0] != '\0');
  EXPECT(memchr(error->message, '\0', sizeof error->message));
  expect_printable(error->message);
}

/* An error struct whose content a function must have replaced. */
static hr_error untouched(void)
{
  return (hr_error){.status = HR_OK};
}

static void expect_parameters(const hr_model *model)
{
  hr_parameters parameters;
  hr_error error = untouched();
  hr_status status = hr_model_parameters(model, &parameters, &error);
  if (status != HR_OK) {
    expect_clear_failure(status, &error);
    return;
  }
  EXPECT(hr_model_check(model, NULL) == HR_OK);
  EXPECT(parameters.embedding > 0 && parameters.attention >= 0 && parameters.mlp >= 0 && parameters.experts >= 0);
  EXPECT(parameters.attention + parameters.scan + parameters.mlp + parameters.experts > 0);
  EXPECT(parameters.active <= parameters.total && parameters.active >= parameters.total - parameters.experts);
  EXPECT(parameters.position >= 0 && parameters.norm >= 0 && parameters.logit >= 0);
  EXPECT(parameters.excluding_embeddings ==
         parameters.attention + parameters.scan + parameters.mlp + parameters.experts + parameters.norm);
  EXPECT(parameters.total ==
         parameters.excluding_embeddings + parameters.embedding + parameters.position + parameters.logit);
}

static bool attends_twice(const hr_model *model)
{
  bool found = false;
  for (size_t i = 0; i < model->group_count; i++)
    found = found || model->groups[i].compressed.q_heads > 0;
  return found;
}

static void expect_operator(const hr_operator *op, const hr_model *model)
{
  char name[48];
  hr_operator_name(op, name, sizeof name);
  EXPECT(strlen(name) > 0 && strstr(name, "unknown") == NULL);
  const bool attends =
      op->id >= HR_OP_ATTENTION_SCORE && op->id <= HR_OP_ATTENTION; /* to tokens and to entries, or with two mixers */
  const bool norms = op->id == HR_OP_MLP_NORM || op->id == HR_OP_MLP_POST_NORM; /* of networks beside each other */
  const bool repeats = norms || (attends && attends_twice(model));
  EXPECT(op->count >= 1 && op->count <= (repeats ? 3 : 1) * hr_model_layers(model));
  EXPECT(op->flops >= 0 && op->bytes >= 0);
  bool product = op->kind == HR_KIND_GEMM || op->kind == HR_KIND_BMM || op->kind == HR_KIND_GROUPED_GEMM;
  EXPECT((op->flops > 0) == (product || op->kind == HR_KIND_ATTENTION || op->kind == HR_KIND_SCAN));
  if (product) {
    int64_t flops = 0;
    bool grouped = op->kind == HR_KIND_GROUPED_GEMM; /* its rows are a mean, rounded up */
    hr_status status = hr_gemm_flops(&op->gemm, &flops);
    EXPECT(status == HR_OK ? (grouped ? flops >= op->flops : flops == op->flops) : grouped);
    int64_t each = op->pass == HR_PASS_WGRAD ? op->gemm.k : op->gemm.m;
    EXPECT(!grouped || (op->rows <= each * op->gemm.batch && op->rows > (each - 1) * op->gemm.batch));
    status = hr_gemm_check(&op->gemm, NULL); /* its bytes count shared heads for each product */
    EXPECT(status == HR_OK || (status == HR_ERROR_OVERFLOW && op->kind != HR_KIND_GEMM));
  }
  if (op->kind == HR_KIND_ATTENTION)
    EXPECT(hr_attention_check(&op->attention, NULL) == HR_OK);
}

static void expect_operators(const hr_model *model, const hr_workload *workload)
{
  static hr_operators operators;
  hr_error error = untouched();
  hr_status status = hr_operators_list(model, workload, &operators, &error);
  if (status != HR_OK) {
    expect_clear_failure(status, &error);
    return;
  }
  EXPECT(operators.count > 0 && operators.count <= HR_OPERATORS_MAX);
  int64_t flops = 0, bytes = 0;
  for (size_t i = 0; i < operators.count; i++) {
    const hr_operator *op = &operators.items[i];
    expect_operator(op, model);
    EXPECT(op->pass == HR_PASS_FORWARD || workload->phase == HR_PHASE_TRAIN);
    EXPECT(op->kind != HR_KIND_COMMUNICATION || workload->tensor_parallel > 1 || workload->expert_parallel > 1 ||
           workload->pipeline_stages > 1 || workload->context_parallel > 1 || workload->data_parallel > 1);
    EXPECT(op->pass != HR_PASS_RECOMPUTE || workload->recompute != HR_RECOMPUTE_NONE);
    flops += op->count * op->flops;
    bytes += op->kind == HR_KIND_COMMUNICATION || op->id == HR_OP_OPTIMIZER ? 0 : op->count * op->bytes;
  }
  EXPECT(operators.flops == flops && operators.bytes == bytes);
  EXPECT((hr_operators_find(&operators, HR_OP_LOGIT, HR_PASS_FORWARD) != NULL) == (model->head != HR_HEAD_NONE));
}

/* Whether the first token is in a cache. */
static bool has_cache(const hr_model *model)
{
  bool found = false;
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_mixer_attention *attention = &model->groups[i].attention;
    found = found || (attention->q_heads > 0 && !attention->shared_kv);
    found = found || model->groups[i].latent.q_heads > 0 || model->groups[i].compressed.q_heads > 0;
  }
  return found;
}

static void expect_memory(const hr_model *model, const hr_workload *workload)
{
  hr_memory memory;
  hr_error error = untouched();
  hr_status status = hr_memory_estimate(model, workload, &memory, &error);
  if (status != HR_OK) {
    expect_clear_failure(status, &error);
    return;
  }
  EXPECT(memory.weight_bytes > 0 && memory.activation_bytes > 0);
  EXPECT(memory.kv_cache_bytes_per_token >= 0 && (memory.kv_cache_bytes_per_token > 0) == has_cache(model));
  EXPECT(memory.kv_cache_bytes_of_next_token >= 0 &&
         memory.kv_cache_bytes_of_next_token / (workload->page_size > 0 ? workload->page_size : 1) <=
             memory.kv_cache_bytes_per_token);
  EXPECT(memory.gradient_bytes >= 0 && memory.optimizer_bytes >= 0 && memory.kv_cache_bytes >= 0);
  EXPECT(memory.total_bytes == memory.weight_bytes + memory.gradient_bytes + memory.optimizer_bytes +
                                   memory.activation_bytes + memory.kv_cache_bytes + memory.state_bytes +
                                   memory.gathered_bytes);
  EXPECT(memory.state_bytes >= 0 && memory.state_bytes_per_sequence >= 0);
  int64_t batch = -1;
  EXPECT(hr_memory_largest_batch(model, workload, memory.total_bytes, &batch, NULL) == HR_OK);
  EXPECT(batch >= workload->batch);
  EXPECT(hr_memory_largest_batch(model, workload, memory.weight_bytes, &batch, NULL) == HR_OK);
  EXPECT(batch == 0); /* activations take something */
}

void expect_describable(const hr_model *model, const hr_workload *workload)
{
  expect_parameters(model);
  expect_operators(model, workload);
  expect_memory(model, workload);
}
