/* SPDX-License-Identifier: Apache-2.0 */
/* Decode against a paged KV cache: a step is captured in a CUDA graph once, and the graph is launched for every token
 * as the sequences grow. Memory and the stream are the program's own.
 *
 *   c++ -std=c++17 graph.cpp -I$CUDA/include $(pkg-config --cflags --libs headroom) -L$CUDA/lib64 -lcudart */
#include "cuda.hpp"
#include <headroom/kv_cache.h>

constexpr int SEQUENCES = 2, STEPS = 20, Q_HEADS = 8, KV_HEADS = 2, DIM = 64;
constexpr int64_t PROMPTS[SEQUENCES] = {30, 7};
constexpr size_t Q_NUMBERS = SEQUENCES * Q_HEADS * DIM, KV_NUMBERS = SEQUENCES * KV_HEADS * DIM; /* of a step */

using cache_handle = owned<hr_kv_cache, hr_kv_cache_free>;
using graph_handle = owned<CUgraphExec_st, cudaGraphExecDestroy>;

struct step {
  memory q = make_numbers(Q_NUMBERS), k = make_numbers(KV_NUMBERS), v = make_numbers(KV_NUMBERS);
  memory o = make_numbers(Q_NUMBERS);
};

struct decoder {
  device_handle device = open_device();
  stream_handle own = make_stream();
  cache_handle cache;
  plan_handle plan;
  memory workspace;
  step now; /* addresses that the graph keeps */
  int64_t slots[SEQUENCES];
  hr_decode_arguments arguments = hr_decode_arguments_default();
  hr_kv_append tokens = hr_kv_append_default();
};

static void make_cache(decoder &d)
{
  hr_kv_cache_options o = hr_kv_cache_options_default(); /* bf16, heads of 64, pages of 16 tokens */
  hr_kv_cache *made;
  o.k_heads = o.v_heads = KV_HEADS;
  o.slots = SEQUENCES;
  check(hr_kv_cache_create(d.device.get(), &o, &made, &error));
  d.cache.reset(made);
  for (int64_t &slot : d.slots)
    check(hr_kv_cache_add(made, &slot, &error));
  d.tokens.count = SEQUENCES, d.tokens.slots = d.slots; /* one new token of each */
  d.tokens.k = d.now.k.get(), d.tokens.v = d.now.v.get();
}

static void append_prompts(decoder &d)
{
  memory rows = make_numbers((PROMPTS[0] + PROMPTS[1]) * KV_HEADS * DIM);
  hr_kv_append prompts = d.tokens;
  prompts.tokens = PROMPTS;
  prompts.k = prompts.v = rows.get();
  check(hr_kv_cache_append(d.cache.get(), &prompts, d.own.get(), &error));
  check(cudaStreamSynchronize(d.own.get())); /* before `rows` is freed */
}

static void make_plan(decoder &d)
{
  hr_decode problem = hr_decode_default();
  hr_plan *made;
  check(hr_kv_cache_decode(d.cache.get(), SEQUENCES, &problem, &d.arguments, &error));
  problem.q_heads = Q_HEADS;
  d.arguments.q = d.now.q.get(), d.arguments.o = d.now.o.get();
  check(hr_plan_decode(d.device.get(), &problem, nullptr, &made, &error));
  d.plan.reset(made);
  d.workspace = make_workspace(d.device.get(), d.plan, d.own.get());
}

/* Before each launch: room for the new tokens, and which sequences are decoded. */
static void grow(decoder &d)
{
  check(hr_kv_cache_grow(d.cache.get(), &d.tokens, d.own.get(), &error));
  check(hr_kv_cache_select(d.cache.get(), SEQUENCES, d.slots, d.own.get(), &error));
}

static void start_decode(decoder &d)
{
  check(hr_plan_run_decode(d.plan.get(), &d.arguments, d.workspace.get(), d.own.get(), &error));
}

static graph_handle capture(decoder &d)
{
  cudaGraph_t graph;
  cudaGraphExec_t made;
  check(cudaStreamBeginCapture(d.own.get(), cudaStreamCaptureModeGlobal));
  check(hr_kv_cache_write(d.cache.get(), &d.tokens, d.own.get(), &error));
  start_decode(d);
  check(cudaStreamEndCapture(d.own.get(), &graph));
  check(cudaGraphInstantiateWithFlags(&made, graph, 0));
  check(cudaGraphDestroy(graph));
  return graph_handle(made);
}

/* The model's part: the numbers of a step, at the addresses of the graph. */
static void put(const decoder &d, const step &s)
{
  check(cudaMemcpyAsync(d.now.q.get(), s.q.get(), Q_NUMBERS * 2, cudaMemcpyDeviceToDevice, d.own.get()));
  check(cudaMemcpyAsync(d.now.k.get(), s.k.get(), KV_NUMBERS * 2, cudaMemcpyDeviceToDevice, d.own.get()));
  check(cudaMemcpyAsync(d.now.v.get(), s.v.get(), KV_NUMBERS * 2, cudaMemcpyDeviceToDevice, d.own.get()));
}

static bool run()
{
  decoder d;
  make_cache(d);
  append_prompts(d);
  make_plan(d);
  step steps[STEPS];
  graph_handle graph;
  int same = 0;
  for (const step &s : steps) {
    put(d, s);
    grow(d);
    if (!graph)
      graph = capture(d);
    check(cudaGraphLaunch(graph.get(), d.own.get()));
    check(cudaStreamSynchronize(d.own.get()));
    std::vector<uint16_t> replayed = read_numbers(d.now.o, Q_NUMBERS);
    start_decode(d); /* the same without the graph */
    check(cudaStreamSynchronize(d.own.get()));
    same += read_numbers(d.now.o, Q_NUMBERS) == replayed;
  }
  printf("%s: %d of %d steps of the graph are as direct ones\n", hr_plan_kernel(d.plan.get()), same, STEPS);
  return same == STEPS;
}

int main()
{
  return status_of(run);
}
