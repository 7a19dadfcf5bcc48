/* SPDX-License-Identifier: Apache-2.0 */
/* Attention calls of the kernel tests: new random values, gaps, guard pages, poison. */
#ifndef HR_HARNESS_ATTENTION_CALL_H
#define HR_HARNESS_ATTENTION_CALL_H

#include "place.h"

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
  ARRAY_FIRST_KEYS,
  ARRAY_COUNT
};

typedef struct attention_call {
  hr_device *device;
  hr_attention a;
  attention_setup setup;
  double *q, *k, *v; /* [row][head][dim] without gaps: the values as stored */
  float *slopes;
  float *scales[3]; /* of the heads of Q, K and V, 1 without `head_scales`; NULL: 1 */
  place arrays[ARRAY_COUNT];
  hr_attention_arguments arguments;
} attention_call;

/** Creates all arrays. Call attention_close() also after a failure. */
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

/** Heads and head size of ARRAY_Q, _K, _V or _O. */
int64_t attention_heads_of(const hr_attention *attention, int which);
int64_t attention_dim_of(const hr_attention *attention, int which);

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

#endif
