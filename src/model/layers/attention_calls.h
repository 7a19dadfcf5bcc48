/* SPDX-License-Identifier: Apache-2.0 */
/* Scores, softmax and attention over value: what every kind of softmax attention runs. Thread safety: pure
 * functions. */
#ifndef HR_MODEL_LAYERS_ATTENTION_CALLS_H
#define HR_MODEL_LAYERS_ATTENTION_CALLS_H

#include "model/layers/layer_kinds.h"

/** Appends the attention over heads of `m`, one device's: as one kernel or as three, as the workload says. */
void hr_append_attention(hr_operator_builder *builder, const hr_mixer_attention *m);

/** Sequences of equal lengths that attention is computed of; a window of 0: all keys. */
typedef struct hr_attention_sequences {
  int64_t batch, q_len, kv_len, window;
} hr_attention_sequences;

/** The same for these sequences, on a device that has all of them. */
void hr_append_attention_call(hr_operator_builder *builder, const hr_mixer_attention *m,
                              const hr_attention_sequences *call);

/** Bytes of the scores that a microbatch keeps for the backward pass. */
hr_checked64 hr_saved_scores(const hr_layer_context *context, const hr_mixer_attention *m);

/** Bytes of the scores of a layer that are computed again for its backward pass; 0 if they were kept on the chip. */
hr_checked64 hr_recomputed_scores(const hr_layer_context *context, const hr_mixer_attention *m);

/** Elements of the scores that are live at once in the forward pass. */
hr_checked64 hr_live_scores(const hr_layer_context *context, const hr_mixer_attention *m);

#endif
