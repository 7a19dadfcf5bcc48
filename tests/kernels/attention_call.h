/* Attention calls as the kernel tests make them: fresh values, gaps, guard pages, poison. */
#ifndef HR_TEST_ATTENTION_CALL_H
#define HR_TEST_ATTENTION_CALL_H

#include "test.h"

#include "runtime/device/plan.h"

#include <headroom/buffer.h>

/** An array on the device. Where the host can read the device's memory it lies against a page that nobody may touch, at
 *  its end or at its beginning; elsewhere between margins that are looked at afterwards. */
typedef struct attention_array {
  void *data; /* on the device; NULL for none */
  char *host; /* the same bytes here: what was written, and after attention_run() what is there */
  size_t bytes;
  void *map;
  size_t map_bytes;
  hr_buffer *buffer;
  size_t margin;
} attention_array;

/** What a test asks for beside the problem. */
typedef struct attention_asked {
  hr_attention a; /* strides of 0; attention_open() sets them */
  int64_t gap;    /* elements that every stride is longer than it must be */
  hr_layout layout;
  bool at_start;     /* arrays begin at the guard page rather than end there; without guard pages: are aligned */
  const int *shifts; /* elements that Q, K, V and O begin behind a multiple of 256 bytes; NULL: as at_start says */
  bool no_lse;
  const int32_t *q_offsets, *kv_offsets; /* with variable lengths */
  uint64_t seed;
  const char *part_of; /* what this is part of, for messages; NULL: it is whole */
} attention_asked;

enum {
  ARRAY_Q,
  ARRAY_K,
  ARRAY_V,
  ARRAY_O,
  ARRAY_LSE,
  ARRAY_SLOPES,
  ARRAY_Q_OFFSETS,
  ARRAY_KV_OFFSETS,
  ARRAY_WORK,
  ARRAY_COUNT
};

typedef struct attention_call {
  hr_device *device;
  hr_attention a;
  attention_asked asked;
  double *q, *k, *v; /* [row][head][dim] without gaps: the values as stored */
  float *slopes;
  attention_array arrays[ARRAY_COUNT];
  hr_attention_arguments arguments;
} attention_call;

/** Makes everything but the workspace. Close in any case. */
void attention_open(hr_device *device, const attention_asked *asked, attention_call *call);
void attention_close(attention_call *call);

/** Takes other memory for every array, at another place where there is one, with the same values in it. `random`
 *  decides where, and steps on. Rows stay as aligned as they were to 16 bytes. */
void attention_move(attention_call *call, uint64_t *random);

/** Replaces the value at [row][head][d] of ARRAY_Q, _K or _V. */
void attention_set(attention_call *call, int which, int64_t row, int64_t head, int64_t d, double value);

/** Poisons O and the log-sum-exp, plans and runs. False where the kernel refuses the problem, with its sentence. Fails
 *  the test if anything else goes wrong, or if a byte of a gap or margin has changed. */
bool attention_run(attention_call *call, const char *kernel);

/** Rows of Q and K: with variable lengths of all sequences. */
int64_t attention_rows(const attention_call *call, int which);

/** Where a sequence begins, and its lengths. */
typedef struct attention_place {
  int64_t q_row, q_len, kv_row, kv_len;
} attention_place;
attention_place attention_place_of(const attention_call *call, int64_t batch);

/** O[row][head][d] and the log-sum-exp of query `query` of sequence `batch`, after the run. */
double attention_result(const attention_call *call, int64_t row, int64_t head, int64_t d);
double attention_lse(const attention_call *call, int64_t batch, int64_t query, int64_t head);

/** The call in words, for messages. */
const char *attention_words(const attention_call *call, char text[512]);

/** Whether the kernel is plain C in float64, the reference by one of its two names, and the problem too much for it. */
bool attention_takes_long(const char *kernel, const hr_attention *attention);

/** Which of a kernel's formats this is, from 0, for those that take turns; *turns is how many there are. */
int attention_turn(const char *kernel, hr_dtype dtype, int *turns);

/** Calls `check` for every attention kernel of the table that this machine can run, and each of its formats. With
 *  HEADROOM_TEST=gpu for those of GPUs alone, with HEADROOM_TEST_KERNEL for one of them. */
void attention_each_kernel(void (*check)(hr_device *device, const char *kernel, hr_dtype dtype));

/** A number of SplitMix64, which steps on. */
uint64_t attention_random(uint64_t *state);

#endif
