/* SPDX-License-Identifier: Apache-2.0 */
/* What sweeps do not time of SIGMA's figures 3 to 6 (arXiv 2501.13629): the handling of the KV cache for a new token,
 * and whole outputs, token by token, with which scripts/sigma_elapsed.py compares its sums.
 *   sigma_elapsed [DEVICE [BATCH [PREFIX OUTPUT]]]      cuda:0 1 16384 4096
 * Prints CSV: what, model, batch, prefix, output, ns. Of one layer and token are "cache" (the append of K and V with
 * rotary embedding, and the tables of the decode call), "q", "attention" and "step" (Q, the write of K and V,
 * attention), each of all layers in a row. "run" is all layers and tokens, "waiting" the part of it in which the host
 * waited for the device at the end: without it, launches took all of the time. On a GPU a step is one CUDA graph, but
 * for the tables of the cache. */
#include "runtime/cuda/driver/context.h"
#include "runtime/device/clock.h"
#include "runtime/device/device.h"
#include "runtime/measure/statistics.h"

#include <headroom/headroom.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 26
#define HIDDEN 2048
#define HEADS 32
#define V_HEADS 16
#define DIM 64
#define AUGMENTED 3072
#define BATCH_MOST 64
#define BUCKET 1024 /* tokens for which a plan of the decode call is kept */
#define SAMPLES 21
#define GROUP 8

typedef struct sigma_model {
  const char *name;
  int64_t k_heads, augmented; /* augmented 0: one GEMM makes Q */
} sigma_model;

static const sigma_model models[] = {{"STD", 16, 0}, {"SIGMA", 4, AUGMENTED}};

typedef struct layer {
  hr_kv_cache *cache;
  hr_buffer *weights[2];
  int64_t slots[BATCH_MOST];
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

static void must(hr_status status, const hr_error *error)
{
  if (status == HR_OK)
    return;
  fprintf(stderr, "sigma_elapsed: %s\n", error->message);
  exit(1);
}

static hr_buffer *filled(hr_device *device, int64_t elements, hr_dtype dtype)
{
  hr_buffer *buffer = NULL;
  hr_error error;
  must(hr_buffer_create(device, (size_t)elements * hr_dtype_bytes(dtype), &buffer, &error), &error);
  must(hr_buffer_fill_uniform(buffer, dtype, 1, &error), &error);
  return buffer;
}

static hr_kv_append new_tokens(const decoder *d, const layer *l, const int64_t *tokens)
{
  hr_kv_append a = hr_kv_append_default();
  a.count = d->batch, a.slots = l->slots, a.tokens = tokens;
  a.k = hr_buffer_data(d->k), a.v = hr_buffer_data(d->v);
  a.cos = a.sin = hr_buffer_data(d->angles);
  a.positions = l->decode.kv_len;
  a.rotary_dim = DIM;
  return a;
}

static hr_plan *gemm_plan(const decoder *d, int64_t from, int64_t to)
{
  hr_gemm gemm = hr_gemm_default();
  hr_plan *plan = NULL;
  hr_error error;
  gemm.m = d->batch, gemm.n = to, gemm.k = from;
  gemm.transpose_b = true;
  must(hr_plan_gemm(d->device, &gemm, NULL, &plan, &error), &error);
  return plan;
}

static void grow_workspace(decoder *d, const hr_plan *plan)
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

static void open_layer(const decoder *d, layer *l, int64_t tokens)
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
static void fill_prefix(const decoder *d, layer *l, int64_t prefix)
{
  hr_error error;
  int64_t tokens[BATCH_MOST];
  for (int64_t done = 0, piece; done < prefix; done += piece) {
    piece = prefix - done < BUCKET ? prefix - done : BUCKET;
    for (int64_t i = 0; i < d->batch; i++)
      tokens[i] = piece;
    hr_kv_append a = new_tokens(d, l, tokens);
    must(hr_kv_cache_append(l->cache, &a, &error), &error);
  }
}

static void open_decoder(decoder *d, hr_device *device, const sigma_model *m, int64_t batch, int64_t tokens)
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

static void close_decoder(decoder *d)
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

static hr_status handle_cache(const decoder *d, layer *l, hr_error *error)
{
  hr_kv_append a = new_tokens(d, l, NULL);
  hr_status status = hr_kv_cache_append(l->cache, &a, error);
  return status == HR_OK ? hr_kv_cache_decode(l->cache, d->batch, l->slots, &l->decode, &l->arguments, error) : status;
}

static void make_q(const decoder *d, const layer *l)
{
  hr_error error;
  void *workspace = hr_buffer_data(d->workspace), *q = hr_buffer_data(d->q), *middle = hr_buffer_data(d->augmented);
  const void *hidden = hr_buffer_data(d->hidden), *weights = hr_buffer_data(l->weights[0]);
  must(hr_plan_run_gemm(d->gemms[0], hidden, weights, d->gemms[1] ? middle : q, workspace, &error), &error);
  if (d->gemms[1])
    must(hr_plan_run_gemm(d->gemms[1], middle, hr_buffer_data(l->weights[1]), q, workspace, &error), &error);
}

static void wait_for(const decoder *d)
{
  char byte;
  hr_error error;
  must(hr_buffer_read(d->o, &byte, 1, &error), &error);
}

/* A plan for up to `length` tokens. */
static void plan_attention(decoder *d, int64_t length)
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

static void attend(const decoder *d, layer *l)
{
  hr_error error;
  l->arguments.q = hr_buffer_data(d->q);
  l->arguments.o = hr_buffer_data(d->o);
  must(hr_plan_run_decode(d->attend, &l->arguments, hr_buffer_data(d->workspace), &error), &error);
}

/* ---- what is printed ---- */

static void print_row(const decoder *d, const char *what, int64_t prefix, int64_t output, double time_ns)
{
  printf("%s,%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%.1f\n", what, d->model->name, d->batch, prefix, output, time_ns);
  fflush(stdout);
}

/* All layers' caches, for the same token again and again. */
static hr_status handle_caches(void *context, hr_error *error)
{
  decoder *d = context;
  for (int i = 0; i < LAYERS; i++) {
    layer *l = &d->layers[i];
    int64_t length = 0;
    for (int64_t s = 0; s < d->batch; s++) {
      must(hr_kv_cache_length(l->cache, l->slots[s], &length, error), error);
      must(hr_kv_cache_truncate(l->cache, l->slots[s], length - 1, error), error);
    }
    must(handle_cache(d, l, error), error);
  }
  return HR_OK;
}

static hr_status make_all_q(void *context, hr_error *error)
{
  const decoder *d = context;
  (void)error;
  for (int i = 0; i < LAYERS; i++)
    make_q(d, &d->layers[i]);
  return HR_OK;
}

static hr_status attend_all(void *context, hr_error *error)
{
  decoder *d = context;
  (void)error;
  for (int i = 0; i < LAYERS; i++)
    attend(d, &d->layers[i]);
  return HR_OK;
}

/* Median time of one layer's part; on a GPU all layers' launches are in one graph. */
static double time_part(decoder *d, hr_run_fn part)
{
  double times[SAMPLES];
  void *recording = NULL;
  hr_error error;
  const hr_backend *backend = d->device->backend;
  for (int i = 0; i < SAMPLES; i++) {
    double start = hr_clock_ns();
    if (backend->time_runs) {
      must(backend->time_runs(d->device, part, d, GROUP, &recording, &times[i], &error), &error);
      continue;
    }
    must(part(d, &error), &error);
    times[i] = hr_clock_ns() - start;
  }
  if (backend->forget)
    backend->forget(d->device, recording);
  return hr_median_of(times, SAMPLES).value / LAYERS;
}

/* ---- whole outputs ---- */

/* What of a step does not depend on the host's state, so that a graph of it serves every step. */
static void start_step(decoder *d)
{
  hr_error error;
  for (int i = 0; i < LAYERS; i++) {
    layer *l = &d->layers[i];
    hr_kv_append a = new_tokens(d, l, NULL);
    make_q(d, l);
    must(hr_kv_cache_write(l->cache, &a, &error), &error);
    attend(d, l);
  }
}

static hr_status whole_steps(void *context, hr_error *error)
{
  (void)error;
  start_step(context);
  return HR_OK;
}

static void make_room(decoder *d)
{
  hr_error error;
  for (int i = 0; i < LAYERS; i++) {
    layer *l = &d->layers[i];
    hr_kv_append a = new_tokens(d, l, NULL);
    must(hr_kv_cache_grow(l->cache, &a, &error), &error);
    must(hr_kv_cache_decode(l->cache, d->batch, l->slots, &l->decode, &l->arguments, &error), &error);
  }
}

/* A captured step replaces the one before; on a CPU there is none. */
static void capture_step(decoder *d, cu_graph_exec *step)
{
  hr_error error;
  cu_graph graph = NULL;
  if (!d->cuda)
    return;
  const hr_driver *driver = &d->cuda->driver;
  must(hr_cuda_enter(d->cuda, &error), &error);
  must(HR_CU(driver, cuStreamBeginCapture_v2, (d->cuda->stream, CU_CAPTURE_THREAD_LOCAL), &error), &error);
  start_step(d);
  must(HR_CU(driver, cuStreamEndCapture, (d->cuda->stream, &graph), &error), &error);
  if (*step)
    driver->cuGraphExecDestroy(*step);
  must(HR_CU(driver, cuGraphInstantiateWithFlags, (step, graph, 0), &error), &error);
  driver->cuGraphDestroy(graph);
  hr_cuda_leave(d->cuda);
}

static void run_step(decoder *d, cu_graph_exec step)
{
  hr_error error;
  if (!step) {
    start_step(d);
    return;
  }
  must(hr_cuda_enter(d->cuda, &error), &error);
  must(HR_CU(&d->cuda->driver, cuGraphLaunch, (step, d->cuda->stream), &error), &error);
  hr_cuda_leave(d->cuda);
}

/* Generates `output` tokens; *waiting_ns is the time that the host waited for the device at the end. */
static double generate(decoder *d, int64_t prefix, int64_t output, double *waiting_ns)
{
  cu_graph_exec step = NULL;
  double start = hr_clock_ns();
  for (int64_t token = 0; token < output; token++) {
    bool first = token % BUCKET == 0;
    if (first)
      plan_attention(d, prefix + (output - token < BUCKET ? output : token + BUCKET));
    make_room(d);
    if (first)
      capture_step(d, &step);
    run_step(d, step);
  }
  double launched = hr_clock_ns();
  wait_for(d);
  *waiting_ns = hr_clock_ns() - launched;
  double elapsed_ns = hr_clock_ns() - start;
  if (step)
    d->cuda->driver.cuGraphExecDestroy(step);
  return elapsed_ns;
}

static void measure_model(hr_device *device, const sigma_model *m, int64_t batch, int64_t prefix, int64_t output)
{
  decoder d;
  hr_error error;
  double waiting_ns;
  open_decoder(&d, device, m, batch, prefix + output);
  for (int i = 0; i < LAYERS; i++) {
    fill_prefix(&d, &d.layers[i], prefix);
    must(hr_kv_cache_decode(d.layers[i].cache, batch, d.layers[i].slots, &d.layers[i].decode, &d.layers[i].arguments,
                            &error),
         &error);
  }
  print_row(&d, "cache", prefix, 1, time_part(&d, handle_caches));
  plan_attention(&d, prefix);
  make_q(&d, &d.layers[0]); /* what is compiled or loaded at the first run */
  attend(&d, &d.layers[0]);
  wait_for(&d);
  print_row(&d, "q", prefix, 1, time_part(&d, make_all_q));
  print_row(&d, "attention", prefix, 1, time_part(&d, attend_all));
  print_row(&d, "step", prefix, 1, time_part(&d, whole_steps));
  if (output > 1) {
    double time_ns = generate(&d, prefix, output, &waiting_ns);
    print_row(&d, "run", prefix, output, time_ns);
    print_row(&d, "waiting", prefix, output, waiting_ns);
  }
  close_decoder(&d);
}

int main(int argc, char **argv)
{
  hr_device *device = NULL;
  hr_error error;
  int64_t batch = argc > 2 ? strtoll(argv[2], NULL, 10) : 1, prefix = argc > 3 ? strtoll(argv[3], NULL, 10) : 2048;
  int64_t output = argc > 4 ? strtoll(argv[4], NULL, 10) : 64;
  if (batch < 1 || batch > BATCH_MOST || prefix < 1 || output < 1) {
    fprintf(stderr, "sigma_elapsed: expected a batch of 1 to %d, and a prefix and an output of at least 1\n",
            BATCH_MOST);
    return 2;
  }
  must(hr_device_open(argc > 1 ? argv[1] : "cpu", 0, &device, &error), &error);
  printf("what,model,batch,prefix,output,ns\n");
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    measure_model(device, &models[i], batch, prefix, output);
  hr_device_close(device);
  return 0;
}
