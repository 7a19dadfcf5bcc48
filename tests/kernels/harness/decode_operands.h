/* SPDX-License-Identifier: Apache-2.0 */
/* The operands of a decode call, on the host. */
#ifndef HR_HARNESS_DECODE_OPERANDS_H
#define HR_HARNESS_DECODE_OPERANDS_H

#include "decode_call.h"

#include "place.h"

/* A call's operands. `tokens`: K and V of each sequence in order, packed, as numbers without scales. */
typedef struct decode_operands {
  const decode_setup *setup;
  hr_operands operands;
  place places[HR_OPERANDS_MAX];
  size_t o;                    /* index of O */
  double *queries;             /* [batch][q_len][q_heads][qk_dim] */
  double *k_tokens, *v_tokens; /* [batch][kv_len][heads][dim] */
  int32_t *pages;
  const float *sinks, *slopes;
  place lse, lengths, page_table, page_starts;
} decode_operands;

/** Tokens of a sequence. */
int64_t decode_length_of(const decode_setup *setup, int64_t sequence);

/** Whether a special number is set as the scale of a token rather than as an element. */
bool decode_special_is_a_scale(const hr_decode *decode);

/** Makes all operands of c->setup, on the host. */
void decode_make_operands(hr_device *device, decode_operands *c);
void decode_free_operands(decode_operands *c);

#endif
