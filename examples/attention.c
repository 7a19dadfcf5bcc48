/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, then the same rows again as decode steps against a KV cache; on the CPU, and on a GPU where there is one.
 *
 *   cc -std=c17 attention.c $(pkg-config --cflags --libs headroom) -o attention */
#include <headroom/buffer.h>
#include <headroom/kv_cache.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Leaves the function with the status of a call that failed; its line is in *error. */
#define TRY(call)              \
  do {                         \
    hr_status status = (call); \
    if (status != HR_OK)       \
      return status;           \
  } while (0)

enum { TOKENS = 40, PROMPT = 32, Q_HEADS = 8, KV_HEADS = 2, DIM = 64 };
enum { Q_ROW = Q_HEADS * DIM, KV_ROW = KV_HEADS * DIM }; /* elements of a token */

typedef struct example {
  hr_device *device;
  hr_plan *attention, *decode;
  hr_buffer *q, *k, *v, *o, *workspace[2]; /* [TOKENS, heads, DIM] in bf16; a workspace for each plan */
  hr_kv_cache *cache;
  int64_t slot;
  uint16_t expected[TOKENS * Q_ROW], found[TOKENS * Q_ROW];
} example;

static hr_status make_operand(hr_device *device, int elements, uint64_t seed, hr_buffer **buffer, hr_error *error)
{
  TRY(hr_buffer_create(device, (size_t)elements * sizeof(uint16_t), buffer, error));
  return hr_buffer_fill_uniform(*buffer, HR_BF16, seed, error);
}

static hr_status attend(example *e, hr_error *error)
{
  hr_attention a = hr_attention_default(); /* bf16, causal */
  a.q_len = a.kv_len = TOKENS;
  a.q_heads = Q_HEADS, a.k_heads = a.v_heads = KV_HEADS;
  a.qk_dim = a.v_dim = DIM;
  TRY(hr_plan_attention(e->device, &a, NULL, &e->attention, error)); /* NULL: the best kernel */
  TRY(hr_buffer_create(e->device, hr_plan_workspace_bytes(e->attention) + 1, &e->workspace[0], error)); /* not 0 */
  hr_attention_arguments x = hr_attention_arguments_default();
  x.q = hr_buffer_data(e->q), x.k = hr_buffer_data(e->k), x.v = hr_buffer_data(e->v), x.o = hr_buffer_data(e->o);
  TRY(hr_plan_run_attention(e->attention, &x, hr_buffer_data(e->workspace[0]), hr_device_stream(e->device), error));
  return hr_buffer_read(e->o, e->expected, sizeof e->expected, error); /* after the run */
}

/* Appends `tokens` tokens from number `first` on. */
static hr_status append(example *e, int64_t first, int64_t tokens, hr_error *error)
{
  hr_kv_append a = hr_kv_append_default();
  a.count = 1, a.slots = &e->slot, a.tokens = &tokens;
  a.k = (uint16_t *)hr_buffer_data(e->k) + first * KV_ROW;
  a.v = (uint16_t *)hr_buffer_data(e->v) + first * KV_ROW;
  return hr_kv_cache_append(e->cache, &a, hr_device_stream(e->device), error);
}

static hr_status decode(example *e, hr_error *error)
{
  hr_kv_cache_options o = hr_kv_cache_options_default(); /* pages of 16 tokens, one sequence */
  hr_decode d = hr_decode_default();
  hr_decode_arguments x = hr_decode_arguments_default();
  o.k_heads = o.v_heads = KV_HEADS;
  TRY(hr_kv_cache_create(e->device, &o, &e->cache, error));
  TRY(hr_kv_cache_add(e->cache, &e->slot, error));
  TRY(hr_kv_cache_decode(e->cache, 1, &d, &x, error)); /* one plan for all steps */
  d.q_heads = Q_HEADS;
  TRY(hr_plan_decode(e->device, &d, NULL, &e->decode, error));
  TRY(hr_buffer_create(e->device, hr_plan_workspace_bytes(e->decode) + 1, &e->workspace[1], error));
  TRY(append(e, 0, PROMPT, error));
  for (int64_t token = PROMPT; token < TOKENS; token++) {
    TRY(append(e, token, 1, error));
    TRY(hr_kv_cache_select(e->cache, 1, &e->slot, hr_device_stream(e->device), error));
    x.q = (uint16_t *)hr_buffer_data(e->q) + token * Q_ROW;
    x.o = (uint16_t *)hr_buffer_data(e->o) + token * Q_ROW;
    TRY(hr_plan_run_decode(e->decode, &x, hr_buffer_data(e->workspace[1]), hr_device_stream(e->device), error));
  }
  return hr_buffer_read(e->o, e->found, sizeof e->found, error);
}

static float number(uint16_t bf16)
{
  uint32_t bits = (uint32_t)bf16 << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static hr_status run(example *e, const char *name, int *wrong, hr_error *error)
{
  TRY(hr_device_open(name, 0, &e->device, error));
  TRY(make_operand(e->device, TOKENS * Q_ROW, 1, &e->q, error));
  TRY(make_operand(e->device, TOKENS * KV_ROW, 2, &e->k, error));
  TRY(make_operand(e->device, TOKENS * KV_ROW, 3, &e->v, error));
  TRY(make_operand(e->device, TOKENS * Q_ROW, 4, &e->o, error));
  TRY(attend(e, error));
  TRY(hr_buffer_poison(e->o, HR_BF16, error)); /* NaN, which the steps replace */
  TRY(decode(e, error));
  for (int i = PROMPT * Q_ROW; i < TOKENS * Q_ROW; i++)
    *wrong += !(fabsf(number(e->found[i]) - number(e->expected[i])) <= 0.01f);
  printf("%s: %s, %d steps by %s, %d elements differ\n", name, hr_plan_kernel(e->attention), TOKENS - PROMPT,
         hr_plan_kernel(e->decode), *wrong);
  return HR_OK;
}

static void release(const example *e)
{
  hr_buffer *const buffers[] = {e->q, e->k, e->v, e->o, e->workspace[0], e->workspace[1]};
  hr_kv_cache_free(e->cache);
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    hr_buffer_free(buffers[i]);
  hr_plan_free(e->attention);
  hr_plan_free(e->decode);
  hr_device_close(e->device);
}

int main(void)
{
  static const char *const names[] = {"cpu", "cuda:0"};
  int wrong = 0;
  for (int i = 0; i < 2; i++) {
    static example e;
    hr_error error;
    e = (example){.device = NULL};
    hr_status status = run(&e, names[i], &wrong, &error);
    release(&e);
    if (status != HR_OK)
      fprintf(stderr, "%s\n", error.message);
    if (status != HR_OK && status != HR_ERROR_UNAVAILABLE) /* a machine without a GPU is no failure */
      return 1;
  }
  return wrong > 0;
}
