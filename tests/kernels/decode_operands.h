/* SPDX-License-Identifier: Apache-2.0 */
/* The operands of a decode call, on the host. */
#ifndef HR_TEST_DECODE_OPERANDS_H
#define HR_TEST_DECODE_OPERANDS_H

#include "decode_call.h"

#include "runtime/operation/operation.h"

#include <headroom/buffer.h>

#define GUARD 256 /* bytes before and behind O */
#define POISON 0xFF

/* Host copies of a call's operands. `tokens`: K and V of each sequence in order, packed, as numbers without scales. */
typedef struct decode_operands {
  const decode_setup *setup;
  hr_operands operands;
  void *images[HR_OPERANDS_MAX]; /* as on the device */
  size_t o;                      /* index of O */
  double *queries;               /* [batch][q_len][q_heads][qk_dim] */
  double *k_tokens, *v_tokens;   /* [batch][kv_len][heads][dim] */
  int32_t *pages;
  float *sinks, *lse;
  hr_buffer *buffers[HR_OPERANDS_MAX + 4]; /* and log-sum-exp, lengths, pages, page_starts */
} decode_operands;

/** Allocated bytes of POISON. */
void *poisoned(size_t bytes);

/** Tokens of a sequence. */
int64_t length_of(const decode_setup *setup, int64_t sequence);

/** Whether a special number is set as the scale of a token rather than as an element. */
bool special_is_a_scale(const hr_decode *decode);

/** Makes all operands of c->setup; the caller frees images, queries, tokens and pages. */
void make_images(decode_operands *c);

#endif
