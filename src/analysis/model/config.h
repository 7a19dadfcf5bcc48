/* Reading a configuration field by field: what the families have in common.
 *
 * Each function reads one field or a group of them, remembers that they were read (whatever nobody reads is noted in
 * the end), and fails with "<input>: <field>: …". A null field counts as missing unless it says otherwise. */
#ifndef HR_ANALYSIS_MODEL_CONFIG_H
#define HR_ANALYSIS_MODEL_CONFIG_H

#include "base/error.h"
#include "base/json.h"
#include <headroom/model.h>

#define HR_CONFIG_FIELDS_MAX 128

typedef struct hr_config {
  hr_json_reader json;
  hr_note_fn note;
  void *note_context;
  const char *read[HR_CONFIG_FIELDS_MAX]; /* names that were asked for, all literals */
  size_t read_count;
} hr_config;

/** Remembers that a field means something to this family. */
void hr_config_mark(hr_config *config, const char *field);

/** Tells the caller's note function "<input>: <message>". */
void hr_config_note(const hr_config *config, const char *format, ...) HR_PRINTF(2, 3);

/** Notes every field that nobody read, but for names that begin with "_" and names known not to matter. */
void hr_config_note_unknown_fields(const hr_config *config);

/** Whether the field is there, null or not. */
bool hr_config_present(const hr_config *config, const char *field);

/** A size that must be there. `other`, if not NULL, is a second name of the same field. */
hr_status hr_config_size(hr_config *config, const char *field, const char *other, int64_t *value);

/** A size whose default the family's documentation gives: where it is taken, the caller hears a note. */
hr_status hr_config_size_or(hr_config *config, const char *field, int64_t fallback, int64_t *value);

/** A size that follows from others when it is missing; no note. */
hr_status hr_config_size_derived(hr_config *config, const char *field, int64_t derived, int64_t *value);

hr_status hr_config_flag(hr_config *config, const char *field, bool fallback, bool *value);
hr_status hr_config_text(hr_config *config, const char *field, const char *fallback, const char **value);

/** How a family calls the sizes that all have; the names of Hugging Face's base class are understood besides. */
typedef struct hr_config_names {
  const char *layers, *hidden, *heads, *positions;
} hr_config_names;

extern const hr_config_names hr_config_standard_names;

/** Reads layers, hidden, q_heads, vocabulary and max_positions (`default_positions` where it is missing). */
hr_status hr_config_sizes(hr_config *config, const hr_config_names *names, int64_t default_positions, hr_model *model);

/** K and V heads. `field` NULL: as many as query heads. `fallback` stands for a missing field (0: as many as query
 *  heads, without a note); a null field always means as many as query heads. */
hr_status hr_config_kv_heads(hr_config *config, const hr_config_names *names, const char *field, int64_t fallback,
                             hr_model *model);

/** The size of a head. `field` NULL: always hidden / q_heads, which must divide. Otherwise a missing field is
 *  `fallback`, or hidden / q_heads where that is 0. */
hr_status hr_config_head_dim(hr_config *config, const hr_config_names *names, const char *field, int64_t fallback,
                             hr_model *model);

/** Rotary positions over `field` (a fraction; NULL: all) of each head. */
hr_status hr_config_rotary(hr_config *config, const char *field, double fallback, hr_model *model);

/** Learned positions, `extra` rows more than max_positions. */
void hr_config_learned(hr_model *model, int64_t extra);

/** The MLP's width (`derived` where it is missing; 0: it must be there) and activation. */
hr_status hr_config_mlp(hr_config *config, const char *width_field, int64_t derived, const char *activation_field,
                        const char *activation_default, hr_model *model);

/** RMS norms: no bias. */
void hr_config_rms_norm(hr_model *model);

/** Biases of the attention's maps: of Q, K and V, and of the output. */
void hr_config_attention_bias(hr_model *model, bool qkv, bool output);

hr_status hr_config_tied(hr_config *config, bool fallback, hr_model *model);

/** The sliding window's size; a missing field is `missing_default` (0: none), null is none. Applies to all layers. */
hr_status hr_config_window(hr_config *config, const char *field, int64_t missing_default, hr_model *model);

/** "layer_types", a list with one kind a layer: counts "sliding_attention" into window_layers; *found is false and the
 *  model untouched where the field is missing. Any other kind than full attention is refused. */
hr_status hr_config_layer_types(hr_config *config, hr_model *model, bool *found);

#endif
