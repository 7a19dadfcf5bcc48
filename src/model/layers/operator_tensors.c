/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layers/operator_tensors.h"

#include "model/layers/weight_shapes.h"

#include <string.h>

#define BIT(tensor) ((uint64_t)1 << (tensor))

/* What an operator works on if the layer has all of it. */
typedef struct operator_tensors {
  uint8_t reads[HR_OPERATOR_READS_MAX], writes[HR_OPERATOR_WRITES_MAX], weights[HR_OPERATOR_WEIGHTS_MAX];
  bool takes; /* what it reads is not read again: terms of a sum */
} operator_tensors;

#define TERMS HR_TENSOR_ATTENTION, HR_TENSOR_SCAN, HR_TENSOR_MLP
/* A parallel block has the sum of both branches reduced, which the residual then reads. */
#define SUM(y)              \
  {                         \
    {TERMS}, {y}, {0}, true \
  }
#define NORM(x, y, role)                 \
  {                                      \
    {x}, {y}, {role, role##_BIAS}, false \
  }

static const operator_tensors rows[HR_OPERATOR_ID_COUNT] = {
    [HR_OP_EMBEDDING] = {{HR_TENSOR_TOKENS, HR_TENSOR_POSITIONS},
                         {HR_TENSOR_HIDDEN},
                         {HR_WEIGHT_TOKEN_EMBEDDING, HR_WEIGHT_POSITION_EMBEDDING}},
    [HR_OP_EMBEDDING_ALL_REDUCE] = {{HR_TENSOR_HIDDEN}, {HR_TENSOR_HIDDEN}},
    [HR_OP_EMBEDDING_REDUCE_SCATTER] = {{HR_TENSOR_HIDDEN}, {HR_TENSOR_HIDDEN}},
    [HR_OP_EMBEDDING_NORM] = NORM(HR_TENSOR_HIDDEN, HR_TENSOR_HIDDEN, HR_WEIGHT_EMBEDDING_NORM),
    [HR_OP_EMBEDDING_DROPOUT] = {{HR_TENSOR_HIDDEN}, {HR_TENSOR_HIDDEN}},
    [HR_OP_EMBEDDING_PROJECTION_IN] = {{HR_TENSOR_HIDDEN}, {HR_TENSOR_HIDDEN}, {HR_WEIGHT_EMBEDDING_PROJECTION_IN}},
    [HR_OP_ATTENTION_HC_WEIGHTS] = {{HR_TENSOR_HIDDEN},
                                    {HR_TENSOR_HC_WEIGHTS},
                                    {HR_WEIGHT_ATTENTION_HC, HR_WEIGHT_ATTENTION_HC_BIAS,
                                     HR_WEIGHT_ATTENTION_HC_SCALES}},
    [HR_OP_ATTENTION_HC_PRE] = {{HR_TENSOR_HIDDEN, HR_TENSOR_HC_WEIGHTS}, {HR_TENSOR_COLLAPSED}},
    [HR_OP_ATTENTION_NORM] = NORM(HR_TENSOR_HIDDEN, HR_TENSOR_NORMED, HR_WEIGHT_ATTENTION_NORM),
    [HR_OP_ATTENTION_ALL_GATHER] = {{HR_TENSOR_NORMED}, {HR_TENSOR_NORMED}},
    [HR_OP_QKV_TRANSFORM] = {{HR_TENSOR_NORMED},
                             {HR_TENSOR_Q, HR_TENSOR_K, HR_TENSOR_V, HR_TENSOR_GATE},
                             {HR_WEIGHT_Q, HR_WEIGHT_K, HR_WEIGHT_V, HR_WEIGHT_Q_BIAS, HR_WEIGHT_K_BIAS,
                              HR_WEIGHT_V_BIAS}},
    [HR_OP_Q_TRANSFORM] = {{HR_TENSOR_NORMED}, {HR_TENSOR_Q}, {HR_WEIGHT_Q, HR_WEIGHT_Q_BIAS}},
    [HR_OP_Q_DOWN] = {{HR_TENSOR_NORMED}, {HR_TENSOR_Q_LOW}, {HR_WEIGHT_Q_DOWN, HR_WEIGHT_Q_DOWN_BIAS}},
    [HR_OP_KV_DOWN] = {{HR_TENSOR_NORMED}, {HR_TENSOR_KV_LOW}, {HR_WEIGHT_KV_DOWN, HR_WEIGHT_KV_DOWN_BIAS}},
    [HR_OP_Q_UP] = {{HR_TENSOR_Q_LOW}, {HR_TENSOR_Q, HR_TENSOR_GATE}, {HR_WEIGHT_Q, HR_WEIGHT_Q_BIAS}},
    [HR_OP_KV_UP] = {{HR_TENSOR_KV_LOW}, {HR_TENSOR_K, HR_TENSOR_V}, {HR_WEIGHT_KV_UP}},
    [HR_OP_K_TRANSFORM] = {{HR_TENSOR_NORMED}, {HR_TENSOR_K}, {HR_WEIGHT_K, HR_WEIGHT_K_BIAS}},
    [HR_OP_V_TRANSFORM] = {{HR_TENSOR_NORMED}, {HR_TENSOR_V}, {HR_WEIGHT_V, HR_WEIGHT_V_BIAS}},
    [HR_OP_QK_NORM] = {{HR_TENSOR_Q, HR_TENSOR_K},
                       {HR_TENSOR_Q, HR_TENSOR_K},
                       {HR_WEIGHT_Q_NORM, HR_WEIGHT_K_NORM, HR_WEIGHT_Q_NORM_BIAS, HR_WEIGHT_K_NORM_BIAS}},
    [HR_OP_ROTARY] = {{HR_TENSOR_Q, HR_TENSOR_K, HR_TENSOR_KV_LOW, HR_TENSOR_POSITIONS}, {HR_TENSOR_Q, HR_TENSOR_K}},
    [HR_OP_K_ROTARY_COPY] = {{HR_TENSOR_KV_LOW}, {HR_TENSOR_K}},
    [HR_OP_COMPRESS_IN] = {{HR_TENSOR_NORMED}, {HR_TENSOR_COMPRESSED}, {HR_WEIGHT_COMPRESS, HR_WEIGHT_COMPRESS_GATE}},
    [HR_OP_COMPRESS] = {{HR_TENSOR_COMPRESSED},
                        {HR_TENSOR_KV_LOW},
                        {HR_WEIGHT_COMPRESS_POSITIONS, HR_WEIGHT_COMPRESS_NORM}},
    [HR_OP_INDEX_Q] = {{HR_TENSOR_Q_LOW}, {HR_TENSOR_INDEX_Q}, {HR_WEIGHT_INDEX_Q}},
    [HR_OP_INDEX_K] = {{HR_TENSOR_NORMED}, {HR_TENSOR_INDEX_K}, {HR_WEIGHT_INDEX_K, HR_WEIGHT_INDEX_K_GATE}},
    [HR_OP_INDEX_COMPRESS] = {{HR_TENSOR_INDEX_K}, {HR_TENSOR_INDEX_K}, {HR_WEIGHT_INDEX_POSITIONS}},
    [HR_OP_INDEX_NORM] = {{HR_TENSOR_INDEX_Q, HR_TENSOR_INDEX_K},
                          {HR_TENSOR_INDEX_K},
                          {HR_WEIGHT_INDEX_Q_NORM, HR_WEIGHT_INDEX_K_NORM, HR_WEIGHT_INDEX_K_NORM_BIAS}},
    [HR_OP_INDEX_WEIGHTS] = {{HR_TENSOR_NORMED}, {HR_TENSOR_INDEX_WEIGHTS}, {HR_WEIGHT_INDEX_WEIGHTS}},
    [HR_OP_INDEX_ROTARY] = {{HR_TENSOR_INDEX_Q, HR_TENSOR_INDEX_K, HR_TENSOR_POSITIONS},
                            {HR_TENSOR_INDEX_Q, HR_TENSOR_INDEX_K}},
    [HR_OP_INDEX_SCORE] = {{HR_TENSOR_INDEX_Q, HR_TENSOR_INDEX_K, HR_TENSOR_INDEX_WEIGHTS}, {HR_TENSOR_INDEX_SCORES}},
    [HR_OP_INDEX_TOP_K] = {{HR_TENSOR_INDEX_SCORES}, {HR_TENSOR_CHOSEN_KEYS}},
    [HR_OP_Q_ABSORB] = {{HR_TENSOR_Q}, {HR_TENSOR_Q}, {HR_WEIGHT_KV_UP}},
    [HR_OP_ATTENTION_SCORE] = {{HR_TENSOR_Q, HR_TENSOR_K, HR_TENSOR_KV_LOW, HR_TENSOR_CHOSEN_KEYS}, {HR_TENSOR_SCORES}},
    [HR_OP_SOFTMAX] = {{HR_TENSOR_SCORES}, {HR_TENSOR_SCORES}, {HR_WEIGHT_SINKS}},
    [HR_OP_SOFTMAX_DROPOUT] = {{HR_TENSOR_SCORES}, {HR_TENSOR_SCORES}},
    [HR_OP_ATTENTION_OVER_VALUE] = {{HR_TENSOR_SCORES, HR_TENSOR_V, HR_TENSOR_KV_LOW, HR_TENSOR_CHOSEN_KEYS},
                                    {HR_TENSOR_HEADS}},
    [HR_OP_ATTENTION] = {{HR_TENSOR_Q, HR_TENSOR_K, HR_TENSOR_V, HR_TENSOR_KV_LOW, HR_TENSOR_CHOSEN_KEYS},
                         {HR_TENSOR_HEADS},
                         {HR_WEIGHT_SINKS}},
    [HR_OP_O_ABSORB] = {{HR_TENSOR_HEADS}, {HR_TENSOR_HEADS}, {HR_WEIGHT_KV_UP}},
    [HR_OP_O_ROTARY] = {{HR_TENSOR_HEADS, HR_TENSOR_POSITIONS}, {HR_TENSOR_HEADS}},
    [HR_OP_O_DOWN] = {{HR_TENSOR_HEADS}, {HR_TENSOR_HEADS}, {HR_WEIGHT_O_DOWN}},
    [HR_OP_ATTENTION_GATE] = {{HR_TENSOR_HEADS, HR_TENSOR_GATE}, {HR_TENSOR_HEADS}},
    [HR_OP_LINEAR_PROJECTION] = {{HR_TENSOR_HEADS}, {HR_TENSOR_ATTENTION}, {HR_WEIGHT_O, HR_WEIGHT_O_BIAS}},
    [HR_OP_IN_PROJ] = {{HR_TENSOR_NORMED}, {HR_TENSOR_SCAN_INPUT}},
    [HR_OP_CONVOLUTION] = {{HR_TENSOR_SCAN_INPUT}, {HR_TENSOR_SCAN_INPUT}},
    [HR_OP_X_PROJ] = {{HR_TENSOR_SCAN_INPUT}, {HR_TENSOR_SCAN_STEPS}},
    [HR_OP_X_NORM] = {{HR_TENSOR_SCAN_STEPS}, {HR_TENSOR_SCAN_STEPS}},
    [HR_OP_DT_PROJ] = {{HR_TENSOR_SCAN_STEPS}, {HR_TENSOR_SCAN_STEPS}},
    [HR_OP_RECURRENCE_GATES] = {{HR_TENSOR_SCAN_INPUT}, {HR_TENSOR_SCAN_STEPS}},
    [HR_OP_SCAN_DECAY_UP] = {{HR_TENSOR_SCAN_INPUT}, {HR_TENSOR_SCAN_STEPS}},
    [HR_OP_SCAN_GATE_UP] = {{HR_TENSOR_SCAN_INPUT}, {HR_TENSOR_SCAN_INPUT}},
    [HR_OP_SCAN] = {{HR_TENSOR_SCAN_INPUT, HR_TENSOR_SCAN_STEPS}, {HR_TENSOR_SCAN_HEADS}},
    [HR_OP_SCAN_GATE] = {{HR_TENSOR_SCAN_HEADS, HR_TENSOR_SCAN_INPUT}, {HR_TENSOR_SCAN_HEADS}},
    [HR_OP_OUT_PROJ] = {{HR_TENSOR_SCAN_HEADS}, {HR_TENSOR_SCAN}},
    [HR_OP_ATTENTION_ALL_REDUCE] = SUM(HR_TENSOR_ATTENTION),
    [HR_OP_ATTENTION_REDUCE_SCATTER] = SUM(HR_TENSOR_ATTENTION),
    [HR_OP_ATTENTION_POST_NORM] = NORM(HR_TENSOR_ATTENTION, HR_TENSOR_ATTENTION, HR_WEIGHT_ATTENTION_POST_NORM),
    [HR_OP_ATTENTION_DROPOUT] = {{HR_TENSOR_ATTENTION}, {HR_TENSOR_ATTENTION}},
    [HR_OP_ATTENTION_RESIDUAL] = {{HR_TENSOR_HIDDEN, TERMS}, {HR_TENSOR_HIDDEN}, .takes = true},
    [HR_OP_MLP_HC_WEIGHTS] = {{HR_TENSOR_HIDDEN},
                              {HR_TENSOR_HC_WEIGHTS},
                              {HR_WEIGHT_MLP_HC, HR_WEIGHT_MLP_HC_BIAS, HR_WEIGHT_MLP_HC_SCALES}},
    [HR_OP_MLP_HC_PRE] = {{HR_TENSOR_HIDDEN, HR_TENSOR_HC_WEIGHTS}, {HR_TENSOR_COLLAPSED}},
    [HR_OP_MLP_NORM] = NORM(HR_TENSOR_HIDDEN, HR_TENSOR_NORMED, HR_WEIGHT_MLP_NORM),
    [HR_OP_MLP_ALL_GATHER] = {{HR_TENSOR_NORMED}, {HR_TENSOR_NORMED}},
    [HR_OP_ROUTER] = {{HR_TENSOR_NORMED}, {HR_TENSOR_ROUTER_LOGITS}, {HR_WEIGHT_ROUTER, HR_WEIGHT_ROUTER_BIAS}},
    [HR_OP_ROUTER_TOP_K] = {{HR_TENSOR_ROUTER_LOGITS}, {HR_TENSOR_ROUTES}},
    [HR_OP_EXPERT_LATENT_DOWN] = {{HR_TENSOR_NORMED},
                                  {HR_TENSOR_EXPERT_LATENT},
                                  {HR_WEIGHT_EXPERT_LATENT_DOWN, HR_WEIGHT_EXPERT_LATENT_DOWN_BIAS}},
    [HR_OP_DISPATCH] = {{HR_TENSOR_NORMED, HR_TENSOR_ROUTES}, {HR_TENSOR_DISPATCHED}},
    [HR_OP_EXPERT_UP] = {{HR_TENSOR_DISPATCHED},
                         {HR_TENSOR_EXPERT_UP},
                         {HR_WEIGHT_EXPERT_UP, HR_WEIGHT_EXPERT_UP_BIAS}},
    [HR_OP_EXPERT_GATE] = {{HR_TENSOR_DISPATCHED},
                           {HR_TENSOR_EXPERT_GATE},
                           {HR_WEIGHT_EXPERT_GATE, HR_WEIGHT_EXPERT_GATE_BIAS}},
    [HR_OP_EXPERT_ACTIVATION] = {{HR_TENSOR_EXPERT_GATE, HR_TENSOR_EXPERT_UP}, {HR_TENSOR_EXPERT_ACTIVATED}},
    [HR_OP_EXPERT_DOWN] = {{HR_TENSOR_EXPERT_ACTIVATED},
                           {HR_TENSOR_EXPERTS},
                           {HR_WEIGHT_EXPERT_DOWN, HR_WEIGHT_EXPERT_DOWN_BIAS}},
    [HR_OP_SHARED_UP] = {{HR_TENSOR_NORMED}, {HR_TENSOR_SHARED_UP}, {HR_WEIGHT_SHARED_UP, HR_WEIGHT_SHARED_UP_BIAS}},
    [HR_OP_SHARED_GATE] = {{HR_TENSOR_NORMED},
                           {HR_TENSOR_SHARED_GATE},
                           {HR_WEIGHT_SHARED_GATE, HR_WEIGHT_SHARED_GATE_BIAS}},
    [HR_OP_SHARED_ACTIVATION] = {{HR_TENSOR_SHARED_GATE, HR_TENSOR_SHARED_UP}, {HR_TENSOR_SHARED_ACTIVATED}},
    [HR_OP_SHARED_DOWN] = {{HR_TENSOR_SHARED_ACTIVATED},
                           {HR_TENSOR_SHARED},
                           {HR_WEIGHT_SHARED_DOWN, HR_WEIGHT_SHARED_DOWN_BIAS}},
    [HR_OP_SHARED_OUTPUT_GATE] = {{HR_TENSOR_SHARED, HR_TENSOR_NORMED},
                                  {HR_TENSOR_SHARED},
                                  {HR_WEIGHT_SHARED_OUTPUT_GATE}},
    [HR_OP_COMBINE] = {{HR_TENSOR_EXPERTS, HR_TENSOR_ROUTES, HR_TENSOR_SHARED}, {HR_TENSOR_MLP}},
    [HR_OP_EXPERT_LATENT_UP] = {{HR_TENSOR_EXPERT_LATENT},
                                {HR_TENSOR_MLP},
                                {HR_WEIGHT_EXPERT_LATENT_UP, HR_WEIGHT_EXPERT_LATENT_UP_BIAS}},
    [HR_OP_SHARED_ADD] = {{HR_TENSOR_MLP, HR_TENSOR_SHARED}, {HR_TENSOR_MLP}},
    [HR_OP_MLP_UP] = {{HR_TENSOR_NORMED}, {HR_TENSOR_MLP_UP}, {HR_WEIGHT_UP, HR_WEIGHT_UP_BIAS}},
    [HR_OP_MLP_GATE] = {{HR_TENSOR_NORMED}, {HR_TENSOR_MLP_GATE}, {HR_WEIGHT_GATE, HR_WEIGHT_GATE_BIAS}},
    [HR_OP_ACTIVATION] = {{HR_TENSOR_MLP_GATE, HR_TENSOR_MLP_UP}, {HR_TENSOR_MLP_ACTIVATED}, {HR_WEIGHT_ACTIVATION}},
    [HR_OP_MLP_DOWN] = {{HR_TENSOR_MLP_ACTIVATED}, {HR_TENSOR_MLP}, {HR_WEIGHT_DOWN, HR_WEIGHT_DOWN_BIAS}},
    [HR_OP_MLP_ALL_REDUCE] = SUM(HR_TENSOR_MLP),
    [HR_OP_MLP_REDUCE_SCATTER] = SUM(HR_TENSOR_MLP),
    [HR_OP_MLP_POST_NORM] = NORM(HR_TENSOR_MLP, HR_TENSOR_MLP, HR_WEIGHT_MLP_POST_NORM),
    [HR_OP_MLP_DROPOUT] = {{HR_TENSOR_MLP}, {HR_TENSOR_MLP}},
    [HR_OP_MLP_RESIDUAL] = {{HR_TENSOR_HIDDEN, TERMS}, {HR_TENSOR_HIDDEN}, .takes = true},
    [HR_OP_FINAL_HC_WEIGHTS] = {{HR_TENSOR_HIDDEN},
                                {HR_TENSOR_HC_WEIGHTS},
                                {HR_WEIGHT_FINAL_HC, HR_WEIGHT_FINAL_HC_BIAS, HR_WEIGHT_FINAL_HC_SCALES}},
    [HR_OP_FINAL_HC_PRE] = {{HR_TENSOR_HIDDEN, HR_TENSOR_HC_WEIGHTS}, {HR_TENSOR_COLLAPSED}},
    [HR_OP_FINAL_NORM] = NORM(HR_TENSOR_HIDDEN, HR_TENSOR_NORMED, HR_WEIGHT_FINAL_NORM),
    [HR_OP_LOGIT_ALL_GATHER] = {{HR_TENSOR_NORMED}, {HR_TENSOR_NORMED}},
    [HR_OP_EMBEDDING_PROJECTION_OUT] = {{HR_TENSOR_NORMED}, {HR_TENSOR_NORMED}, {HR_WEIGHT_EMBEDDING_PROJECTION_OUT}},
    [HR_OP_LOGIT] = {{HR_TENSOR_NORMED}, {HR_TENSOR_LOGITS}, {HR_WEIGHT_LOGIT, HR_WEIGHT_LOGIT_BIAS}},
};

static const uint64_t inputs_of_step = BIT(HR_TENSOR_TOKENS) | BIT(HR_TENSOR_POSITIONS);

_Static_assert(HR_WEIGHT_ROLE_COUNT <= 128, "the bits of hr_operator_builder.weights");

void hr_begin_tensors(hr_operator_builder *builder)
{
  hr_weight_shapes shapes;
  hr_list_weights(builder->model, builder->layer, &shapes);
  builder->weights[0] = builder->weights[1] = 0;
  for (int role = 1; role < HR_WEIGHT_ROLE_COUNT; role++)
    builder->weights[role / 64] |= (uint64_t)hr_has_weight(&shapes, role) << role % 64;
  builder->written = BIT(HR_TENSOR_HIDDEN);
}

/* Experts with a latent size have their inputs and their sum in it; shared ones are added behind the map out of it. */
static uint8_t of_experts(const hr_operator_builder *builder, const hr_operator *op, uint8_t tensor)
{
  bool latent = builder->layer && builder->layer->experts.latent > 0;
  if (!latent || (op->id != HR_OP_DISPATCH && op->id != HR_OP_COMBINE))
    return tensor;
  if (tensor == HR_TENSOR_NORMED || tensor == HR_TENSOR_MLP)
    return HR_TENSOR_EXPERT_LATENT;
  return tensor == HR_TENSOR_SHARED ? HR_TENSOR_NONE : tensor;
}

static bool is_norm_of_stream(hr_operator_id id)
{
  return id == HR_OP_ATTENTION_NORM || id == HR_OP_MLP_NORM || id == HR_OP_FINAL_NORM;
}

/* The tensor that is read in the place of `tensor`: without a norm the stream itself, of several streams their sum;
 * HR_TENSOR_NONE if the layer does not have it. */
static uint8_t tensor_read(const hr_operator_builder *builder, const hr_operator *op, uint8_t tensor)
{
  if (tensor == HR_TENSOR_POSITIONS && op->id == HR_OP_EMBEDDING && builder->model->position_rows == 0)
    return HR_TENSOR_NONE;
  if (tensor == HR_TENSOR_Q_LOW && op->id == HR_OP_INDEX_Q && !(builder->written & BIT(tensor)))
    return HR_TENSOR_NORMED; /* of attention without a rank of Q */
  if (tensor == HR_TENSOR_HIDDEN && is_norm_of_stream(op->id) && builder->written & BIT(HR_TENSOR_COLLAPSED))
    return HR_TENSOR_COLLAPSED;
  if (tensor == HR_TENSOR_NORMED && !(builder->written & BIT(tensor)))
    return HR_TENSOR_HIDDEN;
  return (builder->written | inputs_of_step) & BIT(tensor) ? tensor : HR_TENSOR_NONE;
}

/* What is read after `taken` was changed; its norm is of the past, too. */
static uint64_t without(uint64_t written, uint8_t taken)
{
  uint64_t norm = taken == HR_TENSOR_HIDDEN ? BIT(HR_TENSOR_NORMED) : 0;
  return written & ~(BIT(taken) | norm);
}

static void name_reads(hr_operator_builder *builder, hr_operator *op, const operator_tensors *row)
{
  size_t count = 0;
  for (size_t i = 0; i < HR_OPERATOR_READS_MAX && row->reads[i]; i++) {
    uint8_t tensor = tensor_read(builder, op, of_experts(builder, op, row->reads[i]));
    if (tensor != HR_TENSOR_NONE)
      op->reads[count++] = tensor;
    if (row->takes)
      builder->written = without(builder->written, row->reads[i]);
  }
}

/* The GEMM of Q also computes a gate of attention's result if the layer has one. */
static bool is_written(const hr_operator_builder *builder, uint8_t tensor)
{
  const hr_layer_group *layer = builder->layer;
  bool of_others = (tensor == HR_TENSOR_K || tensor == HR_TENSOR_V) && layer->attention.shared_kv;
  return !of_others && (tensor != HR_TENSOR_GATE || layer->attention.output_gate);
}

static void name_writes(hr_operator_builder *builder, hr_operator *op, const operator_tensors *row)
{
  size_t count = 0;
  for (size_t i = 0; i < HR_OPERATOR_WRITES_MAX && row->writes[i]; i++) {
    const uint8_t tensor = of_experts(builder, op, row->writes[i]);
    if (!is_written(builder, tensor))
      continue;
    op->writes[count++] = tensor;
    builder->written |= BIT(tensor);
  }
}

/* Tied logits multiply by the token embedding. */
static uint8_t weight_read(const hr_model *model, uint8_t role)
{
  bool tied = role == HR_WEIGHT_LOGIT && model->tied_embeddings && model->head == HR_HEAD_LANGUAGE;
  return tied ? HR_WEIGHT_TOKEN_EMBEDDING : role;
}

static void name_weights(const hr_operator_builder *builder, hr_operator *op, const operator_tensors *row)
{
  size_t count = 0;
  for (size_t i = 0; i < HR_OPERATOR_WEIGHTS_MAX && row->weights[i]; i++) {
    uint8_t role = weight_read(builder->model, row->weights[i]);
    if (builder->weights[role / 64] >> role % 64 & 1)
      op->weights[count++] = role;
  }
}

static void name(hr_operator_builder *builder, hr_operator *op, const operator_tensors *row)
{
  name_reads(builder, op, row);
  name_writes(builder, op, row);
  name_weights(builder, op, row);
}

void hr_name_tensors(hr_operator_builder *builder, hr_operator *op)
{
  name(builder, op, &rows[op->id]);
}

void hr_name_norm(hr_operator_builder *builder, hr_step_tensor tensor, int role, int bias)
{
  const operator_tensors row = {{(uint8_t)tensor}, {(uint8_t)tensor}, {(uint8_t)role, (uint8_t)bias}, false};
  hr_operator *op = &builder->to->items[builder->to->count - 1];
  memset(op->weights, 0, sizeof op->weights);
  name(builder, op, &row);
}

bool hr_same_tensors(const hr_operator *a, const hr_operator *b)
{
  return memcmp(a->reads, b->reads, sizeof a->reads) == 0 && memcmp(a->writes, b->writes, sizeof a->writes) == 0 &&
         memcmp(a->weights, b->weights, sizeof a->weights) == 0;
}
