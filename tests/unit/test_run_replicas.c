/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas that train a model together: losses and weights are those of one device that trains on the batches of all;
 * with the optimizer's state divided they are the same bits; what replicas have different is named. */
#include "ranks.h"

#include "run/program.h"
#include "runtime/device/buffer.h"
#include "shape/number.h"
#include "training/buckets.h"

#include <math.h>
#include <stdlib.h>

#define TOKENS 6
#define BATCH 2 /* of a replica, in as many microbatches or one */
#define STEPS 3
#define IDS (TEST_RANKS_MAX * 3 * TOKENS)
#define RATE 1e-3

#define SIZES "\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_size\":61,"
#define LLAMA SIZES "\"num_key_value_heads\":2,\"intermediate_size\":48,\"max_position_embeddings\":64"

static const struct {
  const char *name, *config;
  int64_t replicas;
} models[] = {
    {"llama", "{\"model_type\":\"llama\"," LLAMA "}", 2},
    {"tied", "{\"model_type\":\"llama\"," LLAMA ",\"tie_word_embeddings\":true}", 3},
    {"qwen2, biases", "{\"model_type\":\"qwen2\"," LLAMA "}", 4},
    {"gpt2", "{\"model_type\":\"gpt2\",\"n_embd\":32,\"n_layer\":2,\"n_head\":4,\"vocab_size\":61,\"n_positions\":64}",
     2},
    {"gemma2", "{\"model_type\":\"gemma2\"," LLAMA ",\"head_dim\":8,\"sliding_window\":4,\"query_pre_attn_scalar\":8}",
     2},
    {"qwen3_moe, experts",
     "{\"model_type\":\"qwen3_moe\"," LLAMA ",\"head_dim\":16,\"num_experts\":8,"
     "\"num_experts_per_tok\":2,\"moe_intermediate_size\":12,\"norm_topk_prob\":true}",
     4},
    {"deepseek_v3, latent, experts",
     "{\"model_type\":\"deepseek_v3\"," LLAMA ",\"q_lora_rank\":16,\"kv_lora_rank\":16,\"qk_nope_head_dim\":8,"
     "\"qk_rope_head_dim\":4,\"v_head_dim\":8,\"first_k_dense_replace\":1,\"n_routed_experts\":4,"
     "\"num_experts_per_tok\":2,\"moe_intermediate_size\":8,\"n_group\":1,\"topk_group\":1,\"n_shared_experts\":1}",
     2},
};

/* ---- replicas ---- */

/* How a model trains. */
typedef struct course {
  const hr_model *model;
  hr_executor_options options;
  int64_t batch, microbatches; /* of one replica */
  uint64_t seed;
} course;

#define MESSAGES_MAX 128

typedef struct message {
  int64_t first, count; /* weights */
  int behind;           /* launches that are not messages */
  int beside;
  unsigned awaits;
  hr_call_part part;
  int64_t place;
} message;

typedef struct replica {
  test_rank at;
  course course;
  const int32_t *ids;
  float losses[STEPS][IDS];
  float *weights, *gradients; /* after all steps; after the first */
  size_t count;
  int64_t bytes;
  size_t state_bytes; /* of one state */
  int buckets;
  message messages[MESSAGES_MAX];                  /* of the last microbatch, before the optimizer */
  int message_count, launch_count, early_messages; /* launches without messages; messages of other microbatches */
  int64_t first_of_layers;                         /* weight */
} replica;

static int64_t weight_at(const hr_executor *x, const hr_buffer *memory, const void *address)
{
  return ((const char *)address - (const char *)hr_buffer_data(memory)) / (int64_t)hr_dtype_bytes(x->options.dtype);
}

/* The numbers of all weights, or of their gradients, which are as far apart; 0 between them, where nothing is. */
static hr_status read_numbers(replica *r, const hr_executor *x, const hr_buffer *of, float **to)
{
  const hr_dtype dtype = r->course.options.dtype;
  const size_t bytes = hr_buffer_bytes(of);
  char *read = malloc(bytes);
  *to = calloc(r->count, sizeof **to);
  const hr_status status = hr_buffer_read(of, read, bytes, &r->at.error);
  for (int64_t i = 0; i < (x->layers + 1) * HR_WEIGHT_ROLE_COUNT && status == HR_OK; i++) {
    const hr_buffer *weight = x->weights.of[i];
    const size_t count = weight ? hr_buffer_bytes(weight) / hr_dtype_bytes(dtype) : 0;
    const size_t first = weight ? (size_t)weight_at(x, x->weights.memory, hr_buffer_data(weight)) : 0;
    for (size_t k = first; k < first + count; k++)
      (*to)[k] = (float)hr_number_load(dtype, read, k);
  }
  free(read);
  return status;
}

static void look_at_program(replica *r, const hr_executor *x, const hr_run_program *p)
{
  int others = 0;
  for (int i = 0; i < p->optimizer; i++) {
    const hr_launch *launch = &p->launches[i];
    const hr_collective_call *call = &launch->collective;
    if (launch->run != hr_launch_between_replicas)
      others++;
    else if (!p->shape.reduces)
      r->early_messages++;
    else if (r->message_count < MESSAGES_MAX)
      r->messages[r->message_count++] = (message){weight_at(x, x->gradients, call->send),
                                                  call->count,
                                                  others,
                                                  launch->beside,
                                                  launch->awaits,
                                                  call->part,
                                                  call->place};
  }
  r->launch_count = p->shape.reduces ? others : r->launch_count;
}

static void look_at_messages(replica *r, const hr_executor *x)
{
  const hr_buffer *of_layer = x->weights.of[HR_WEIGHT_ROLE_COUNT + HR_WEIGHT_ATTENTION_NORM];
  r->first_of_layers = weight_at(x, x->weights.memory, hr_buffer_data(of_layer));
  for (int i = 0; i < HR_RUN_PROGRAMS && x->programs[i]; i++)
    look_at_program(r, x, x->programs[i]);
}

static hr_status train(replica *r, hr_executor *x)
{
  hr_executor_input input = hr_executor_input_default();
  input.phase = HR_PHASE_TRAIN;
  input.batch = r->course.batch, input.tokens = TOKENS;
  input.microbatches = r->course.microbatches;
  input.ids = r->ids;
  HR_TRY(hr_executor_load(x, NULL, r->course.seed, NULL, NULL, &r->at.error));
  r->count = hr_buffer_bytes(x->weights.memory) / hr_dtype_bytes(r->course.options.dtype);
  r->buckets = x->bucket_count;
  r->bytes = hr_executor_bytes(x);
  r->state_bytes = hr_buffer_bytes(x->means);
  for (int step = 0; step < STEPS; step++) {
    HR_TRY(hr_executor_step(x, &input, r->losses[step], &r->at.error));
    if (step == 0)
      HR_TRY(read_numbers(r, x, x->gradients, &r->gradients));
  }
  look_at_messages(r, x);
  return read_numbers(r, x, x->weights.memory, &r->weights);
}

static hr_status train_replica(void *rank)
{
  replica *r = rank;
  hr_executor *x = NULL;
  r->course.options.replicas = r->at.communicator;
  HR_TRY(hr_executor_open(r->at.device, r->course.model, &r->course.options, &x, &r->at.error));
  const hr_status status = train(r, x);
  hr_executor_close(x);
  return status;
}

static int32_t all_ids[IDS];

static void make_ids(int64_t vocabulary)
{
  for (int i = 0; i < IDS; i++)
    all_ids[i] = (int32_t)(((unsigned)i * 2654435761u >> 7) % (unsigned)vocabulary);
}

/* courses[i] is that of replica i; each gets the next ids. */
static void run_replicas(const course *courses, int64_t count, replica *replicas)
{
  make_ids(courses[0].model->vocabulary);
  for (int64_t i = 0; i < count; i++)
    replicas[i] = (replica){.course = courses[i], .ids = all_ids + i * BATCH * TOKENS};
  test_run_ranks(replicas, sizeof *replicas, count, train_replica);
}

static void free_replicas(replica *replicas, int64_t count)
{
  for (int64_t i = 0; i < count; i++) {
    free(replicas[i].weights);
    free(replicas[i].gradients);
  }
}

static course course_of(const hr_model *model, hr_dtype dtype, int64_t zero_stage)
{
  course c = {.model = model, .options = hr_executor_options_default(), .batch = BATCH, .microbatches = 1, .seed = 3};
  c.options.tokens = 64;
  c.options.dtype = dtype;
  c.options.trains = true;
  c.options.learning_rate = RATE;
  c.options.zero_stage = zero_stage;
  c.options.bucket_bytes = 20000; /* so that there are several */
  return c;
}

/* All replicas alike; they must succeed. */
static void train_alike(const course *c, int64_t count, replica *replicas)
{
  course courses[TEST_RANKS_MAX];
  for (int64_t i = 0; i < count; i++)
    courses[i] = *c;
  run_replicas(courses, count, replicas);
  for (int64_t i = 0; i < count; i++)
    assert_ok(replicas[i].at.status, replicas[i].at.error);
}

/* ---- one device on all batches ---- */

static void assert_same_losses(const char *name, const replica *replicas, int64_t count, const replica *one,
                               float share)
{
  for (int64_t i = 0; i < count * BATCH * TOKENS * STEPS; i++) {
    const int64_t step = i % STEPS, token = i / STEPS, of = BATCH * TOKENS;
    const float found = replicas[token / of].losses[step][token % of], expected = one->losses[step][token];
    if (!(fabsf(found - expected) <= share * (1 + expected)))
      fail_msg("%s: step %d, token %d has the loss %g, expected %g", name, (int)step, (int)token, (double)found,
               (double)expected);
  }
}

/* Gradients within `share` of the largest one. Weights that AdamW moves by about the rate go the same way but where a
 * gradient is all rounding. */
static void assert_same_training(const char *name, const replica *r, const replica *one, float share)
{
  float most = 0;
  int apart = 0;
  for (size_t i = 0; i < one->count; i++)
    most = fmaxf(most, fabsf(one->gradients[i]));
  assert_true(most > 0 && r->count >= one->count);
  for (size_t i = 0; i < one->count; i++) {
    const float change = fabsf(r->weights[i] - one->weights[i]);
    if (r->course.options.zero_stage == 0 && !(fabsf(r->gradients[i] - one->gradients[i]) <= share * most))
      fail_msg("%s: gradient %zu is %g, expected %g ± %g", name, i, (double)r->gradients[i], (double)one->gradients[i],
               (double)(share * most));
    if (!(change <= (float)(2.1 * RATE * STEPS)))
      fail_msg("%s: weight %zu is %g, expected %g", name, i, (double)r->weights[i], (double)one->weights[i]);
    apart += change > (float)(0.01 * RATE);
  }
  if (apart > (int)one->count / (r->course.options.dtype == HR_FP32 ? 100 : 20)) /* of 16 bits: by their rounding */
    fail_msg("%s: %d of %zu weights are apart", name, apart, one->count);
}

/* NCCL adds up in an order of its own, which differs between messages of all and of parts. So do norms. */
static void assert_same_weights(const replica *replicas, int64_t count, const replica *plain, const replica *one)
{
  for (int64_t i = 1; i < count; i++)
    assert_memory_equal(replicas[i].weights, replicas[0].weights, replicas[0].count * sizeof(float));
  if (!test_asks_for("gpu") && plain->course.options.max_norm == 0)
    assert_memory_equal(replicas[0].weights, plain->weights, one->count * sizeof(float));
}

/* Without and with divided states, against one device. */
static void check_course(const char *name, course c, int64_t count, float losses, float gradients)
{
  replica one, plain[TEST_RANKS_MAX], divided[TEST_RANKS_MAX];
  course alone = c;
  alone.batch = BATCH * count, alone.microbatches = 1;
  train_alike(&alone, 1, &one);
  train_alike(&c, count, plain);
  c.options.zero_stage = 1;
  train_alike(&c, count, divided);
  assert_true(plain[0].buckets > 2 && divided[0].buckets > 1);
  assert_true(divided[0].bytes < plain[0].bytes && divided[0].state_bytes * 10 < plain[0].state_bytes * 9);
  assert_same_losses(name, plain, count, &one, losses);
  assert_same_losses(name, divided, count, &one, losses);
  assert_same_training(name, &plain[0], &one, gradients);
  assert_same_training(name, &divided[0], &one, gradients);
  assert_same_weights(plain, count, &plain[0], &one);
  assert_same_weights(divided, count, &plain[0], &one);
  free_replicas(&one, 1);
  free_replicas(plain, count);
  free_replicas(divided, count);
}

static void replicas_train_as_one_device_on_all_batches(void **state)
{
  (void)state;
  const int64_t most = test_ranks();
  if (most < 2)
    skip();
  for (int m = 0; m < (int)(sizeof models / sizeof *models); m++) {
    if (!test_takes(m))
      continue;
    const hr_model model = test_model(models[m].name, models[m].config);
    const int64_t count = models[m].replicas < most ? models[m].replicas : most;
    check_course(models[m].name, course_of(&model, HR_FP32, 0), count, 1e-5f, 1e-5f);
  }
}

static void microbatches_are_added_up_before_replicas_are(void **state)
{
  (void)state;
  if (test_ranks() < 2)
    skip();
  for (int m = 0; m < (int)(sizeof models / sizeof *models); m += 5) {
    if (!test_takes(m / 5))
      continue;
    const hr_model model = test_model(models[m].name, models[m].config);
    course c = course_of(&model, HR_FP32, 0);
    c.batch = 1, c.microbatches = BATCH;
    check_course(models[m].name, c, 2, 1e-5f, 1e-5f);
  }
}

static void check_whole_messages(const replica *r)
{
  int64_t sent = 0, before = INT64_MAX;
  assert_int_equal(r->message_count, r->buckets);
  for (int i = 0; i < r->message_count; i++) {
    const message *m = &r->messages[i];
    const bool last = i + 1 == r->message_count;
    assert_true(last ? m->behind == r->launch_count
                     : m->behind < r->messages[i + 1].behind || m->first < r->first_of_layers);
    assert_true(last ? m->first == 0 && m->beside == 0 && m->awaits == 1 : m->beside == 1 && m->awaits == 0);
    if (m->first >= r->first_of_layers) {
      assert_true(m->first + m->count <= before);
      before = m->first;
    }
    sent += m->count;
  }
  assert_int_equal(sent, r->count);
  assert_true(r->messages[0].first < r->first_of_layers && r->messages[0].behind < r->launch_count * 3 / 4);
}

/* Every gradient is begun once, and ends behind that, before its place is taken again; the first end of several waits
 * for what is beside. */
static void check_parts(const replica *r)
{
  int64_t begun[HR_CALLS_UNDER_WAY], begun_count = 0, sent = 0;
  for (int i = 0; i < HR_CALLS_UNDER_WAY; i++)
    begun[i] = -1;
  for (int i = 0; i < r->message_count; i++) {
    const message *m = &r->messages[i];
    const bool begins = m->part == HR_CALL_BEGIN;
    assert_true(begins || m->part == HR_CALL_END);
    assert_true(m->count * 4 <= r->course.options.bucket_bytes);
    assert_true(begun[m->place] == (begins ? -1 : m->first));
    assert_int_equal(m->beside, begins);
    assert_int_equal(m->awaits, !begins && m->place == 0);
    assert_true(i == 0 || m->behind >= r->messages[i - 1].behind);
    begun[m->place] = begins ? m->first : -1;
    begun_count += begins ? 1 : -1;
    sent += begins ? m->count : 0;
  }
  assert_int_equal(begun_count, 0);
  assert_int_equal(sent, r->count);
  assert_true(r->messages[0].behind < r->launch_count * 3 / 4);
}

/* Each bucket once, as soon as the last of its gradients is launched: those of layers from the last one on, the head's
 * among the first, the embedding's at the end, where it waits for the others. */
static void buckets_are_sent_as_the_backward_pass_completes_them(void **state)
{
  (void)state;
  replica replicas[TEST_RANKS_MAX];
  if (test_ranks() < 2)
    skip();
  const hr_model model = test_model(models[0].name, models[0].config);
  course c = course_of(&model, HR_FP32, 0);
  c.batch = 1, c.microbatches = 3;
  c.options.bucket_bytes = 4000;
  train_alike(&c, 1, replicas);
  assert_int_equal(replicas[0].message_count, 0);
  free_replicas(replicas, 1);
  train_alike(&c, 2, replicas);
  const replica *r = &replicas[0];
  assert_true(r->message_count > 5 && r->message_count < MESSAGES_MAX && r->early_messages == 0);
  if (r->messages[0].part == HR_CALL_WHOLE)
    check_whole_messages(r);
  else
    check_parts(r);
  free_replicas(replicas, 2);
}

static void narrow_weights_are_trained_within_their_rounding(void **state)
{
  (void)state;
  hr_device *device = test_rank_device(0);
  const bool narrow = multiplies(device, HR_BF16);
  hr_device_close(device);
  if (test_ranks() < 2 || !narrow)
    skip();
  const hr_model model = test_model(models[0].name, models[0].config);
  check_course("bf16", course_of(&model, HR_BF16, 0), 2, 0.02f, 0.02f);
}

/* Gradients that are clipped to about the optimizer's epsilon move weights by what their norm says. */
static void clipping_is_by_the_norm_of_all_gradients(void **state)
{
  (void)state;
  const int64_t most = test_ranks();
  if (most < 2)
    skip();
  const hr_model model = test_model(models[0].name, models[0].config);
  course c = course_of(&model, HR_FP32, 0);
  c.options.max_norm = 1e-6;
  check_course("clipped", c, most < 3 ? most : 3, 1e-5f, 1e-5f);
}

/* Each layer is computed again, too. */
static void steps_give_the_same_bits_each_time(void **state)
{
  (void)state;
  replica first[TEST_RANKS_MAX], second[TEST_RANKS_MAX];
  if (test_ranks() < 2)
    skip();
  const hr_model model = test_model(models[0].name, models[0].config);
  course c = course_of(&model, HR_FP32, 1);
  c.options.recompute = HR_RECOMPUTE_FULL;
  train_alike(&c, 2, first);
  train_alike(&c, 2, second);
  for (int i = 0; i < 2; i++) {
    assert_memory_equal(first[i].losses, second[i].losses, sizeof first[i].losses);
    assert_memory_equal(first[i].weights, second[i].weights, first[i].count * sizeof(float));
  }
  free_replicas(first, 2);
  free_replicas(second, 2);
}

/* ---- what differs, what is refused ---- */

static void assert_says(const replica *r, hr_status status, const char *part)
{
  if (r->at.status != status || !strstr(r->at.error.message, part))
    fail_msg("status %d, '%s' does not say '%s'", (int)r->at.status, r->at.error.message, part);
}

/* Two replicas, of which the second has something else. */
static void expect_difference(const course *first, const course *second, const char *line)
{
  replica replicas[TEST_RANKS_MAX];
  run_replicas((course[]){*first, *second}, 2, replicas);
  for (int i = 0; i < 2; i++)
    assert_says(&replicas[i], HR_ERROR_INVALID, line);
  free_replicas(replicas, 2);
}

static void what_replicas_have_different_is_named(void **state)
{
  (void)state;
  if (test_ranks() < 2)
    skip();
  const hr_model model = test_model(models[0].name, models[0].config),
                 wide = test_model(models[3].name, models[3].config);
  const course usual = course_of(&model, HR_FP32, 0);
  course other = usual;
  other.options.zero_stage = 1;
  expect_difference(&usual, &other, "zero_stage: replica 1 has 1, replica 0 has 0");
  other = usual, other.options.bucket_bytes = 4000;
  expect_difference(&usual, &other, "bucket_bytes: replica 1 has 4000, replica 0 has 20000");
  other = usual, other.options.learning_rate = 0.5;
  expect_difference(&usual, &other, "learning_rate: replica 1 has 0.5, replica 0 has 0.001");
  other = usual, other.model = &wide;
  expect_difference(&usual, &other, "the bytes of all weights: replica 1 has ");
  other = usual, other.seed = 4;
  expect_difference(&usual, &other, "seed: replica 1 has 4, replica 0 has 3");
  other = usual, other.batch = 1;
  expect_difference(&usual, &other, "batch: replica 1 has 1, replica 0 has 2");
  other = usual, other.batch = 1, other.microbatches = 2;
  course one_sequence = usual;
  one_sequence.batch = 1;
  expect_difference(&one_sequence, &other, "microbatches: replica 1 has 2, replica 0 has 1");
}

static void expect_refused(course c, hr_status status, const char *line)
{
  replica replicas[TEST_RANKS_MAX];
  run_replicas((course[]){c, c}, 2, replicas);
  assert_true(replicas[0].at.status == status || replicas[1].at.status == status);
  assert_says(&replicas[replicas[0].at.status == status ? 0 : 1], status, line);
  free_replicas(replicas, 2);
}

static void options_that_replicas_do_not_take_are_refused(void **state)
{
  (void)state;
  if (test_ranks() < 2)
    skip();
  const hr_model model = test_model(models[0].name, models[0].config);
  course c = course_of(&model, HR_FP32, 2);
  expect_refused(c, HR_ERROR_UNSUPPORTED, "zero_stage: 2 cannot be run yet, 0 and 1 can");
  c.options.zero_stage = -1;
  expect_refused(c, HR_ERROR_INVALID, "zero_stage: expected 0 or 1, found -1");
  c = course_of(&model, HR_FP32, 0);
  c.options.bucket_bytes = -1;
  expect_refused(c, HR_ERROR_INVALID, "bucket_bytes: expected 0 or more, found -1");
  c = course_of(&model, HR_FP32, 0);
  c.options.trains = false;
  expect_refused(c, HR_ERROR_INVALID, "replicas: they share what trains a model, and this one does not train");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(replicas_train_as_one_device_on_all_batches),
      cmocka_unit_test(microbatches_are_added_up_before_replicas_are),
      cmocka_unit_test(buckets_are_sent_as_the_backward_pass_completes_them),
      cmocka_unit_test(narrow_weights_are_trained_within_their_rounding),
      cmocka_unit_test(clipping_is_by_the_norm_of_all_gradients),
      cmocka_unit_test(steps_give_the_same_bits_each_time),
      cmocka_unit_test(what_replicas_have_different_is_named),
      cmocka_unit_test(options_that_replicas_do_not_take_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
