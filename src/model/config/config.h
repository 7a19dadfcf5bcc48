/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of config.json fields that the families share.
 *
 * Each function reads one field or a group of fields, marks them as read (unread fields are reported at the end), and
 * fails with "<input>: <field>: …". A null field counts as missing unless the comment says otherwise. */
#ifndef HR_MODEL_CONFIG_CONFIG_H
#define HR_MODEL_CONFIG_CONFIG_H

#include "base/error.h"
#include "json/json.h"
#include <headroom/model.h>

/** Most fields that one reading marks, twice as many as that of any family: hr_model_from_json() fails beyond. */
#define HR_CONFIG_FIELDS_MAX 256

typedef struct hr_config {
  hr_json_reader json;
  hr_note_fn note;
  void *note_context;
  const json_t *outer; /* the object that wraps `json.object`; NULL: none */
  bool parts_left_out; /* the object also has parts for images and the like, which a note has named */
  const char *read[HR_CONFIG_FIELDS_MAX]; /* names of the fields read, all literals */
  size_t read_count;
  const json_t *windows; /* a list of windows that the layers repeat, and its field; NULL: none */
  const char *windows_field;
  bool marks_lost; /* there was no place for one of them */
} hr_config;

/** Marks a field as read; again, it does nothing. */
void hr_config_mark(hr_config *config, const char *field);

/** Calls the caller's note function with "<input>: <message>": a detail of how the input was read. */
void hr_config_note(const hr_config *config, const char *format, ...) HR_PRINTF(2, 3);

/** The same for something of the input that is not in the model, which users see without asking. */
void hr_config_note_left_out(const hr_config *config, const char *format, ...) HR_PRINTF(2, 3);

/** Names all unread fields in one note, except names that begin with "_", null values, and fields that never affect the
 *  shape. */
void hr_config_note_unknown_fields(const hr_config *config);

/** Whether a reader has marked the field as read. */
bool hr_config_was_read(const hr_config *config, const char *field);

/** Whether the field is present, null or not. */
bool hr_config_present(const hr_config *config, const char *field);

/** A required size. `other`, if not NULL, is a second name of the same field. */
hr_status hr_config_size(hr_config *config, const char *field, const char *other, int64_t *value);

/** A size with a documented default; using the default is noted. */
hr_status hr_config_size_or(hr_config *config, const char *field, int64_t fallback, int64_t *value);

/** A size that follows from other sizes when it is missing; no note. */
hr_status hr_config_size_derived(hr_config *config, const char *field, int64_t derived, int64_t *value);

hr_status hr_config_flag(hr_config *config, const char *field, bool fallback, bool *value);
/** A flag of which only one value, also that of a missing field, is covered. */
hr_status hr_config_expect(hr_config *config, const char *field, bool covered);

hr_status hr_config_text(hr_config *config, const char *field, const char *fallback, const char **value);

/** A family's names of the sizes that every family has. The names of Hugging Face's base class are also accepted. */
typedef struct hr_config_names {
  const char *layers, *hidden, *heads, *positions;
} hr_config_names;

extern const hr_config_names hr_config_standard_names;

/** Reads layers, hidden, q_heads, vocabulary and max_positions (`default_positions` if missing). */
hr_status hr_config_sizes(hr_config *config, const hr_config_names *names, int64_t default_positions, hr_model *model);

/** K and V heads. `field` NULL: as many as query heads. `fallback` replaces a missing field (0: as many as query heads,
 *  without a note); a null field always means as many as query heads. */
hr_status hr_config_kv_heads(hr_config *config, const hr_config_names *names, const char *field, int64_t fallback,
                             hr_model *model);

/** The head size. `field` NULL, or a null field: hidden / q_heads, which must be whole. Otherwise `fallback` replaces a
 *  missing field, or hidden / q_heads if `fallback` is 0. */
hr_status hr_config_head_dim(hr_config *config, const hr_config_names *names, const char *field, int64_t fallback,
                             hr_model *model);

/** Rotary positions on the fraction of each head that `field` gives (NULL: the whole head). */
hr_status hr_config_rotary(hr_config *config, const char *field, double fallback, hr_model *model);

/** Learned positions: a table of max_positions + `extra` rows. */
void hr_config_learned(hr_model *model, int64_t extra);

/** The MLP's width (`derived` if missing; 0: required) and activation. */
hr_status hr_config_mlp(hr_config *config, const char *width_field, int64_t derived, const char *activation_field,
                        const char *activation_default, hr_model *model);

/** The activation alone. */
hr_status hr_config_activation(hr_config *config, const char *field, const char *fallback, hr_model *model);

/** RMS norms without bias. */
void hr_config_rms_norm(hr_model *model);

/** Biases of the attention's linear layers: of Q, K and V, and of the output. */
void hr_config_attention_bias(hr_model *model, bool qkv, bool output);

hr_status hr_config_tied(hr_config *config, bool fallback, hr_model *model);

/** The sliding window's size, for all layers (for some of them: model/config/config_layers.h). `missing_default`
 *  replaces a missing field (0: no window). */
hr_status hr_config_window(hr_config *config, const char *field, int64_t missing_default, hr_model *model);

#endif
