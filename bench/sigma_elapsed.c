/* SPDX-License-Identifier: Apache-2.0 */
/* What sweeps do not time of SIGMA's figures 3 to 6 (arXiv 2501.13629): the handling of the KV cache for a new token,
 * and whole outputs, token by token, with which scripts/sigma_elapsed.py compares its sums.
 *   sigma_elapsed [DEVICE [BATCH [PREFIX OUTPUT]]]      cuda:0 1 16384 4096
 * Prints CSV: what, model, batch, prefix, output, ns. Of one layer and token are "cache" (the append of K and V with
 * rotary embedding, and the tables of the decode call), "q", "attention" and "step" (Q, the write of K and V,
 * attention), each of all layers in a row. "run" is all layers and tokens, "waiting" the part of it in which the host
 * waited for the device at the end: without it, launches took all of the time. On a GPU a step is one CUDA graph, but
 * for the tables of the cache. */
#include "sigma_decoder.h"

#include "runtime/device/clock.h"
#include "runtime/measure/statistics.h"

#include <inttypes.h>
#include <stdio.h>

#define SAMPLES 21
#define GROUP 8

static const sigma_model models[] = {{"STD", 16, 0}, {"SIGMA", 4, AUGMENTED}};

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
    must(hr_kv_cache_write(l->cache, &a, NULL, &error), &error);
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
    must(hr_kv_cache_grow(l->cache, &a, NULL, &error), &error);
    must(hr_kv_cache_select(l->cache, d->batch, l->slots, NULL, &error), &error);
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
    must(hr_kv_cache_select(d.layers[i].cache, batch, d.layers[i].slots, NULL, &error), &error);
    must(hr_kv_cache_decode(d.layers[i].cache, batch, &d.layers[i].decode, &d.layers[i].arguments, &error), &error);
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
  if (batch < 1 || batch > BATCH_MAX || prefix < 1 || output < 1) {
    fprintf(stderr, "sigma_elapsed: expected a batch of 1 to %d, and a prefix and an output of at least 1\n",
            BATCH_MAX);
    return 2;
  }
  must(hr_device_open(argc > 1 ? argv[1] : "cpu", 0, &device, &error), &error);
  printf("what,model,batch,prefix,output,ns\n");
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    measure_model(device, &models[i], batch, prefix, output);
  hr_device_close(device);
  return 0;
}
