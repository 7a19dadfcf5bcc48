/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on two streams at once: one plan, memory and streams of the program's own, a workspace for each stream.
 *
 *   c++ -std=c++17 streams.cpp -I$CUDA/include $(pkg-config --cflags --libs headroom) -L$CUDA/lib64 -lcudart */
#include "cuda.hpp"

constexpr int STREAMS = 2, TOKENS = 300, Q_HEADS = 8, KV_HEADS = 2, DIM = 64;
constexpr size_t Q_NUMBERS = TOKENS * Q_HEADS * DIM, KV_NUMBERS = TOKENS * KV_HEADS * DIM;

/* The operands of one sequence, [TOKENS, heads, DIM]. */
struct sequence {
  memory q = make_numbers(Q_NUMBERS), k = make_numbers(KV_NUMBERS), v = make_numbers(KV_NUMBERS);
  memory o = make_numbers(Q_NUMBERS);
};

static plan_handle make_plan(hr_device *device)
{
  hr_attention a = hr_attention_default(); /* bf16, causal */
  hr_plan *made;
  a.q_len = a.kv_len = TOKENS;
  a.q_heads = Q_HEADS, a.k_heads = a.v_heads = KV_HEADS;
  a.qk_dim = a.v_dim = DIM;
  check(hr_plan_attention(device, &a, nullptr, &made, &error)); /* nullptr: the best kernel */
  return plan_handle(made);
}

/* Puts a run on the stream and returns. */
static void start(const plan_handle &plan, const sequence &s, const memory &workspace, cudaStream_t stream)
{
  hr_attention_arguments x = hr_attention_arguments_default();
  x.q = s.q.get(), x.k = s.k.get(), x.v = s.v.get(), x.o = s.o.get();
  check(hr_plan_run_attention(plan.get(), &x, workspace.get(), stream, &error));
}

static bool run()
{
  device_handle device = open_device();
  plan_handle plan = make_plan(device.get());
  sequence sequences[STREAMS];
  stream_handle streams[STREAMS];
  memory workspaces[STREAMS];
  bool same = true;
  for (int i = 0; i < STREAMS; i++) {
    streams[i] = make_stream();
    workspaces[i] = make_workspace(device.get(), plan, streams[i].get());
  }
  for (int i = 0; i < STREAMS; i++)
    start(plan, sequences[i], workspaces[i], streams[i].get());
  for (const stream_handle &s : streams)
    check(cudaStreamSynchronize(s.get()));
  for (int i = 0; i < STREAMS; i++) { /* the same again, one after the other on the default stream */
    std::vector<uint16_t> at_once = read_numbers(sequences[i].o, Q_NUMBERS);
    check(cudaMemset(sequences[i].o.get(), 0xFF, Q_NUMBERS * sizeof(uint16_t)));
    start(plan, sequences[i], workspaces[0], nullptr);
    same = same && read_numbers(sequences[i].o, Q_NUMBERS) == at_once;
  }
  printf("%s on %d streams at once and one after the other: results %s\n", hr_plan_kernel(plan.get()), STREAMS,
         same ? "are the same" : "differ");
  return same;
}

int main()
{
  return status_of(run);
}
