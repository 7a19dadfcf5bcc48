/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of mixers and feed-forward networks in reports, a row each. */
#ifndef HR_REPORT_LAYER_KIND_REPORTS_H
#define HR_REPORT_LAYER_KIND_REPORTS_H

#include "model/layers/layer_kinds.h"
#include "report/table.h"

typedef struct hr_layer_kind_report {
  const hr_layer_kind *kind;
  const char *key; /* of its object in the JSON, null where a group has none */
  size_t offset;   /* of its struct in hr_layer_group, which the functions are given */
  const hr_column *fields;
  size_t field_count;
  void (*sizes)(char *to, size_t size, const void *member);   /* appends items: "MLP 14336" */
  void (*details)(char *to, size_t size, const void *member); /* and "gated" */
} hr_layer_kind_report;

#define HR_LAYER_KIND_REPORTS 6
extern const hr_layer_kind_report hr_layer_kind_reports[HR_LAYER_KIND_REPORTS];

/** Value for a column: the member is an hr_qk_norm. */
void hr_qk_norm_cell(const void *qk_norm, hr_cell *cell);

#endif
