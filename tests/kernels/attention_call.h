/* SPDX-License-Identifier: Apache-2.0 */
/* Attention calls of the kernel tests: new random values, gaps, guard pages, poison. */
#ifndef HR_TEST_ATTENTION_CALL_H
#define HR_TEST_ATTENTION_CALL_H

#include "test.h"

#include "runtime/device/plan.h"

#include <headroom/buffer.h>

/** An array on the device. Where the host can access device memory, the array starts or ends at a guard page; elsewhere
 *  it is between margins that are compared afterwards. */
typedef struct attention_array {
  void *data; /* on the device; NULL for none */
  char *host; /* copy on the host: the values written, and after attention_run() the values found */
  size_t bytes;
  void *map;
  size_t map_bytes;
  hr_buffer *buffer;
  size_t margin;
} attention_array;

/** Options of a test in addition to the problem. */
typedef struct attention_setup {
  hr_attention a; /* strides of 0; attention_open() sets them, and of fp8 `output` and `head_scales` by the seed */
  int64_t gap;    /* elements added to every minimal stride */
  hr_layout layout;
  bool at_start;     /* true: arrays begin at the guard page, false: they end there; without guard pages: aligned */
  const int *shifts; /* offset of Q, K, V and O in elements from a multiple of 256 bytes; NULL: as at_start says */
  bool no_lse;
  const int32_t *q_offsets, *kv_offsets; /* with variable lengths */
  uint64_t seed;
  const char *part_of; /* for messages: the problem that this call is a part of; NULL: none */
} attention_setup;

enum {
  ARRAY_Q,
  ARRAY_K,
  ARRAY_V,
  ARRAY_O,
  ARRAY_LSE,
  ARRAY_SLOPES,
  ARRAY_Q_OFFSETS,
  ARRAY_KV_OFFSETS,
  ARRAY_Q_SCALES,
  ARRAY_K_SCALES,
  ARRAY_V_SCALES,
  ARRAY_WORK,
  ARRAY_COUNT
};

typedef struct attention_call {
  hr_device *device;
  hr_attention a;
  attention_setup setup;
  double *q, *k, *v; /* [row][head][dim] without gaps: the values as stored */
  float *slopes;
  float *scales[3]; /* of the heads of Q, K and V, 1 without `head_scales`; NULL: 1 */
  attention_array arrays[ARRAY_COUNT];
  hr_attention_arguments arguments;
} attention_call;

/** Creates all arrays but the workspace. Call attention_close() also after a failure. */
void attention_open(hr_device *device, const attention_setup *setup, attention_call *call);
void attention_close(attention_call *call);

/** Moves every array to newly allocated memory, if possible at another address, with the same values. `random` decides
 *  where and is advanced. Alignment modulo 16 bytes is kept. */
void attention_move(attention_call *call, uint64_t *random);

/** Replaces the value at [row][head][d] of ARRAY_Q, _K or _V. */
void attention_set(attention_call *call, int which, int64_t row, int64_t head, int64_t d, double value);

/** Poisons O and the log-sum-exp, plans and runs. Returns false if the kernel refuses the problem with a reason. Fails
 *  the test on any other error, or if a byte of a gap or margin has changed. */
bool attention_run(attention_call *call, const char *kernel);

/** Rows of Q or K; with variable lengths the sum over all sequences. */
int64_t attention_rows(const attention_call *call, int which);

/** First rows and lengths of a sequence. */
typedef struct attention_place {
  int64_t q_row, q_len, kv_row, kv_len;
} attention_place;
attention_place attention_place_of(const attention_call *call, int64_t batch);

/** O[row][head][d] and the log-sum-exp of query `query` of sequence `batch`, after the run. */
double attention_result(const attention_call *call, int64_t row, int64_t head, int64_t d);
double attention_lse(const attention_call *call, int64_t batch, int64_t query, int64_t head);

/** O[row][head], v_dim values. */
void attention_results(const attention_call *call, int64_t row, int64_t head, double *values);

/** Describes the call, for messages. */
const char *attention_words(const attention_call *call, char text[512]);

/** Whether the kernel is plain C in float64 (the reference, under either name) and the problem takes it too long. */
bool attention_takes_long(const char *kernel, const hr_attention *attention);

/** Index of the format among the formats of the kernel, for tests that distribute work over formats; *turns is their
 *  number. */
int attention_turn(const char *kernel, hr_dtype dtype, int *turns);

/** Calls `check` for every attention kernel of the table that this machine can run, in each of its formats.
 *  HEADROOM_TEST=gpu selects GPU kernels, HEADROOM_TEST_KERNEL one kernel. */
void attention_each_kernel(void (*check)(hr_device *device, const char *kernel, hr_dtype dtype));

/** The next number of SplitMix64; advances the state. */
uint64_t attention_random(uint64_t *state);

#endif
