/* SPDX-License-Identifier: Apache-2.0 */
/* A model's groups of layers in reports: in words, as describe's table, and as JSON. A kind of mixer or of feed-forward
 * network is a row of layer_kind_reports.c. */
#ifndef HR_REPORT_LAYER_GROUPS_H
#define HR_REPORT_LAYER_GROUPS_H

#include "report/json.h"

/** A group's mixers, or its feed-forward networks; empty if it has none. */
typedef struct hr_group_words {
  char sizes[160];   /* "32 heads of 128, 8 KV heads"; "MLP 14336" */
  char details[160]; /* "Q rank 3072, sinks"; "gated" */
} hr_group_words;

hr_group_words hr_words_of_group(const hr_layer_group *group, bool mixers);

/** Appends "window 4096" with the words given for the kind of window; nothing without one. */
void hr_append_window(char *to, size_t size, const hr_layer_group *group, const char *sliding, const char *chunked);

/** "13 layers, 8 heads of 256, 4 KV heads, window 4096, MLP 9216, gated". */
void hr_write_group(char *to, size_t size, const hr_layer_group *group);

/** The groups as rows for people. The model must outlive the table. */
hr_table *hr_group_table(const hr_model *model);

/** Adds the list "groups". */
void hr_json_put_groups(hr_json json, const hr_model *model);

/** Adds a column of hr_layer_group if its value is the same in all groups, else null. */
void hr_json_put_common(hr_json json, const hr_column *column, const hr_model *model);

/** "rotary" */
const char *hr_positions_name(hr_positions positions);

#endif
