/* Attention calls as the kernel tests make them: fresh values, gaps, guard pages, poison. */
#ifndef HR_TEST_ATTENTION_CALL_H
#define HR_TEST_ATTENTION_CALL_H

#include "test.h"

#include "runtime/device/device.h"

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
  bool at_start; /* arrays begin at the guard page rather than end there */
  bool no_lse;
  const int32_t *q_offsets, *kv_offsets; /* with variable lengths */
  uint64_t seed;
} attention_asked;

typedef struct attention_call {
  hr_device *device;
  hr_attention a;
  attention_asked asked;
  double *q, *k, *v; /* [row][head][dim] without gaps: the values as stored */
  float *slopes;
  attention_array arrays[9];
  hr_attention_arguments arguments;
} attention_call;

enum { ARRAY_Q, ARRAY_K, ARRAY_V, ARRAY_O, ARRAY_LSE, ARRAY_SLOPES, ARRAY_Q_OFFSETS, ARRAY_KV_OFFSETS, ARRAY_WORK };

/** Makes everything but the workspace. Close in any case. */
void attention_open(hr_device *device, const attention_asked *asked, attention_call *call);
void attention_close(attention_call *call);

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

/** Calls `check` for every attention kernel of the table that this machine can run, and each of its formats. */
void attention_each_kernel(void (*check)(hr_device *device, const char *kernel, hr_dtype dtype));

/** A number of SplitMix64, which steps on. */
uint64_t attention_random(uint64_t *state);

#endif
