/* SPDX-License-Identifier: Apache-2.0 */
/* The attention of a decoder of SIGMA (arXiv 2501.13629), all layers: Q, the KV cache, attention; for sigma_elapsed. */
#ifndef HEADROOM_BENCH_SIGMA_DECODER_H
#define HEADROOM_BENCH_SIGMA_DECODER_H
#include "runtime/cuda/driver/context.h"
#include "runtime/device/device.h"

#include <headroom/experimental/headroom.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 26
#define HIDDEN 2048
#define HEADS 32
#define V_HEADS 16
#define DIM 64
#define AUGMENTED 3072
#define BATCH_MAX 64
#define BUCKET 1024 /* tokens for which a plan of the decode call is kept */

typedef struct sigma_model {
  const char *name;
  int64_t k_heads, augmented; /* augmented 0: one GEMM makes Q */
} sigma_model;

typedef struct layer {
  hr_kv_cache *cache;
  hr_buffer *weights[2];
  int64_t slots[BATCH_MAX];
  hr_decode decode;
  hr_decode_arguments arguments;
} layer;

typedef struct decoder {
  hr_device *device;
  const hr_cuda *cuda; /* NULL: a CPU */
  const sigma_model *model;
  int64_t batch;
  layer layers[LAYERS];
  hr_buffer *hidden, *augmented, *q, *k, *v, *o, *angles, *workspace;
  size_t workspace_bytes;
  hr_plan *gemms[2], *attend;
} decoder;

static inline void must(hr_status status, const hr_error *error)
{
  if (status == HR_OK)
    return;
  fprintf(stderr, "sigma_elapsed: %s\n", error->message);
  exit(1);
}

static inline hr_buffer *filled(hr_device *device, int64_t elements, hr_dtype dtype)
{
  hr_buffer *buffer = NULL;
  hr_error error;
  must(hr_buffer_create(device, (size_t)elements * hr_dtype_bytes(dtype), &buffer, &error), &error);
  must(hr_buffer_fill_uniform(buffer, dtype, 1, &error), &error);
  return buffer;
}

static inline hr_kv_append new_tokens(const decoder *d, const layer *l, const int64_t *tokens)
{
  hr_kv_append a = hr_kv_append_default();
  a.count = d->batch, a.slots = l->slots, a.tokens = tokens;
  a.k = hr_buffer_data(d->k), a.v = hr_buffer_data(d->v);
  a.cos = a.sin = hr_buffer_data(d->angles);
  a.positions = l->decode.kv_len;
  a.rotary_dim = DIM;
  return a;
}

static inline hr_plan *gemm_plan(const decoder *d, int64_t from, int64_t to)
{
  hr_gemm gemm = hr_gemm_default();
  hr_plan *plan = NULL;
  hr_error error;
  gemm.m = d->batch, gemm.n = to, gemm.k = from;
  gemm.transpose_b = true;
  must(hr_plan_gemm(d->device, &gemm, NULL, &plan, &error), &error);
  return plan;
}

static inline void grow_workspace(decoder *d, const hr_plan *plan)
{
  size_t needed = hr_plan_workspace_bytes(plan);
  hr_error error;
  if (d->workspace && needed <= d->workspace_bytes)
    return;
  hr_buffer_free(d->workspace);
  d->workspace_bytes = needed + 1;
  must(hr_buffer_create(d->device, d->workspace_bytes, &d->workspace, &error), &error);
}

/* ---- one model ---- */

static inline void open_layer(const decoder *d, layer *l, int64_t tokens)
{
  hr_error error;
  hr_kv_cache_options o = hr_kv_cache_options_default();
  const sigma_model *m = d->model;
  o.k_heads = m->k_heads, o.v_heads = V_HEADS;
  o.qk_dim = DIM, o.v_dim = DIM;
  o.slots = d->batch, o.tokens = tokens;
  must(hr_kv_cache_create(d->device, &o, &l->cache, &error), &error);
  for (int64_t i = 0; i < d->batch; i++)
    must(hr_kv_cache_add(l->cache, &l->slots[i], &error), &error);
  l->weights[0] = filled(d->device, HIDDEN * (m->augmented > 0 ? m->augmented : HEADS * DIM), HR_BF16);
  l->weights[1] = m->augmented > 0 ? filled(d->device, m->augmented * HEADS * DIM, HR_BF16) : NULL;
  l->decode = hr_decode_default();
  l->decode.q_heads = HEADS;
  l->decode.kv_len = tokens;
  l->arguments = hr_decode_arguments_default();
}

/* The prefix is written in pieces, whose rows are random. */
static inline void fill_prefix(const decoder *d, layer *l, int64_t prefix)
{
  hr_error error;
  int64_t tokens[BATCH_MAX];
  for (int64_t done = 0, piece; done < prefix; done += piece) {
    piece = prefix - done < BUCKET ? prefix - done : BUCKET;
    for (int64_t i = 0; i < d->batch; i++)
      tokens[i] = piece;
    hr_kv_append a = new_tokens(d, l, tokens);
    must(hr_kv_cache_append(l->cache, &a, NULL, &error), &error);
  }
}

static inline void open_decoder(decoder *d, hr_device *device, const sigma_model *m, int64_t batch, int64_t tokens)
{
  *d = (decoder){.device = device, .model = m, .batch = batch};
  d->cuda = strcmp(device->backend->name, "cuda") == 0 ? device->state : NULL;
  d->hidden = filled(device, batch * HIDDEN, HR_BF16);
  d->augmented = filled(device, batch * AUGMENTED, HR_BF16);
  d->q = filled(device, batch * HEADS * DIM, HR_BF16);
  d->o = filled(device, batch * HEADS * DIM, HR_BF16);
  d->k = filled(device, batch * BUCKET * m->k_heads * DIM, HR_BF16);
  d->v = filled(device, batch * BUCKET * V_HEADS * DIM, HR_BF16);
  d->angles = filled(device, tokens * DIM / 2, HR_FP32);
  int64_t width = HEADS * DIM;
  d->gemms[0] = gemm_plan(d, HIDDEN, m->augmented > 0 ? m->augmented : width);
  d->gemms[1] = m->augmented > 0 ? gemm_plan(d, m->augmented, width) : NULL;
  for (int i = 0; i < 2 && d->gemms[i]; i++)
    grow_workspace(d, d->gemms[i]);
  for (int i = 0; i < LAYERS; i++)
    open_layer(d, &d->layers[i], tokens);
}

static inline void close_decoder(decoder *d)
{
  hr_buffer *const buffers[] = {d->hidden, d->augmented, d->q, d->k, d->v, d->o, d->angles, d->workspace};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    hr_buffer_free(buffers[i]);
  for (int i = 0; i < LAYERS; i++) {
    hr_kv_cache_free(d->layers[i].cache);
    hr_buffer_free(d->layers[i].weights[0]);
    hr_buffer_free(d->layers[i].weights[1]);
  }
  hr_plan_free(d->gemms[0]);
  hr_plan_free(d->gemms[1]);
  hr_plan_free(d->attend);
}

/* ---- the parts of a step ---- */

static inline hr_status handle_cache(const decoder *d, layer *l, hr_error *error)
{
  hr_kv_append a = new_tokens(d, l, NULL);
  hr_status status = hr_kv_cache_append(l->cache, &a, NULL, error);
  if (status == HR_OK)
    status = hr_kv_cache_select(l->cache, d->batch, l->slots, NULL, error);
  return status == HR_OK ? hr_kv_cache_decode(l->cache, d->batch, &l->decode, &l->arguments, error) : status;
}

static inline void make_q(const decoder *d, const layer *l)
{
  hr_error error;
  void *workspace = hr_buffer_data(d->workspace), *q = hr_buffer_data(d->q), *middle = hr_buffer_data(d->augmented);
  const void *hidden = hr_buffer_data(d->hidden), *weights = hr_buffer_data(l->weights[0]);
  hr_gemm_arguments x = {sizeof x, hidden, weights, d->gemms[1] ? middle : q, NULL};
  must(hr_plan_run_gemm(d->gemms[0], &x, workspace, NULL, &error), &error);
  x = (hr_gemm_arguments){sizeof x, middle, hr_buffer_data(l->weights[1]), q, NULL};
  if (d->gemms[1])
    must(hr_plan_run_gemm(d->gemms[1], &x, workspace, NULL, &error), &error);
}

static inline void wait_for(const decoder *d)
{
  char byte;
  hr_error error;
  must(hr_buffer_read(d->o, &byte, 1, &error), &error);
}

/* A plan for up to `length` tokens. */
static inline void plan_attention(decoder *d, int64_t length)
{
  hr_error error;
  hr_decode decode = d->layers[0].decode;
  decode.kv_len = length;
  if (d->attend)
    wait_for(d);
  hr_plan_free(d->attend);
  must(hr_plan_decode(d->device, &decode, NULL, &d->attend, &error), &error);
  grow_workspace(d, d->attend);
}

static inline void attend(const decoder *d, layer *l)
{
  hr_error error;
  l->arguments.q = hr_buffer_data(d->q);
  l->arguments.o = hr_buffer_data(d->o);
  must(hr_plan_run_decode(d->attend, &l->arguments, hr_buffer_data(d->workspace), NULL, &error), &error);
}

#endif
