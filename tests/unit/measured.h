/* SPDX-License-Identifier: Apache-2.0 */
/* Measured times of GEMMs, attention and pointwise kernels, and the prediction for each. Read from the CSV files in
 * data/results, whose first lines say how they were measured; used by a test and by bench/. */
#ifndef HEADROOM_TEST_MEASURED_H
#define HEADROOM_TEST_MEASURED_H
#include "hardware/hardware.h"

#include <headroom/device_file.h>
#include <headroom/experimental/catalog.h>
#include <headroom/experimental/predict.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct measured {
  char kind[24];
  int64_t m, n, k, batch, q_heads, k_heads;
  bool transpose_a, transpose_b;
  double time_ns;
  size_t row; /* in its file, from 0 */
} measured;

#define MEASURED_MAX 1024

typedef struct measured_columns {
  int kind, m, n, k, batch, transpose_a, transpose_b, time, q_heads, k_heads;
} measured_columns;

/* Splits a line at commas in place; returns how many fields. */
static inline int measured_split(char *line, char **fields, int most)
{
  int count = 0;
  line[strcspn(line, "\r\n")] = '\0';
  for (char *next = line; next && count < most;) {
    fields[count++] = next;
    next = strchr(next, ',');
    if (next)
      *next++ = '\0';
  }
  return count;
}

static inline int measured_column(char **fields, int count, const char *name)
{
  for (int i = 0; i < count; i++) {
    if (strcmp(fields[i], name) == 0)
      return i;
  }
  return -1;
}

static inline int64_t measured_integer(char **fields, int count, int column)
{
  return column >= 0 && column < count ? strtoll(fields[column], NULL, 10) : 0;
}

/** Reads at most MEASURED_MAX rows of a file; the count, or 0 if it cannot be read. */
static inline size_t measured_read(const char *path, measured *rows)
{
  FILE *file = fopen(path, "r");
  size_t count = 0;
  bool headed = false;
  char line[512], *fields[24];
  measured_columns c = {0};
  while (file && count < MEASURED_MAX && fgets(line, sizeof line, file)) {
    if (line[0] == '#')
      continue;
    int found = measured_split(line, fields, 24);
    if (!headed) {
      c = (measured_columns){
          measured_column(fields, found, "kind"),        measured_column(fields, found, "m"),
          measured_column(fields, found, "n"),           measured_column(fields, found, "k"),
          measured_column(fields, found, "batch"),       measured_column(fields, found, "transpose_a"),
          measured_column(fields, found, "transpose_b"), measured_column(fields, found, "median_ns"),
          measured_column(fields, found, "q_heads"),     measured_column(fields, found, "k_heads")};
      headed = c.kind == 0;
      continue;
    }
    measured *r = &rows[count];
    snprintf(r->kind, sizeof r->kind, "%s", fields[0]);
    r->m = measured_integer(fields, found, c.m);
    r->n = measured_integer(fields, found, c.n);
    r->k = measured_integer(fields, found, c.k);
    r->batch = measured_integer(fields, found, c.batch);
    r->q_heads = measured_integer(fields, found, c.q_heads);
    r->k_heads = measured_integer(fields, found, c.k_heads);
    r->transpose_a = measured_integer(fields, found, c.transpose_a) != 0;
    r->transpose_b = measured_integer(fields, found, c.transpose_b) != 0;
    r->time_ns = (double)measured_integer(fields, found, c.time);
    r->row = count++;
  }
  if (file)
    fclose(file);
  return count;
}

/** The shipped device called `name`; one without a name if there is none. */
static inline hr_hardware measured_hardware(const char *name)
{
  size_t count = 0;
  const hr_catalog_entry *entries = hr_catalog_hardware(&count);
  hr_hardware hardware = hr_hardware_default();
  for (size_t i = 0; i < count; i++) {
    if (strcmp(entries[i].name, name) == 0)
      hr_hardware_from_json(&(hr_input){.text = entries[i].text, .length = entries[i].length, .name = name}, &hardware,
                            NULL);
  }
  return hardware;
}

static inline double measured_product_ns(const hr_hardware *hardware, const measured *r)
{
  hr_gemm gemm = hr_gemm_default();
  gemm.m = r->m, gemm.n = r->n, gemm.k = r->k, gemm.batch = r->batch;
  gemm.transpose_a = r->transpose_a, gemm.transpose_b = r->transpose_b;
  hr_prediction p;
  return hr_predict_gemm(hardware, &gemm, &p, NULL) == HR_OK ? p.time_ns : NAN;
}

/* Causal calls of data/results/h200/products.csv have 2048 / k heads, folded into the batch. */
static inline double measured_attention_ns(const hr_hardware *hardware, const measured *r)
{
  hr_operator op = {.id = HR_OP_ATTENTION, .kind = HR_KIND_ATTENTION, .count = 1, .attention = hr_attention_default()};
  hr_attention *a = &op.attention;
  int64_t heads = r->q_heads ? r->q_heads : 2048 / r->k;
  a->q_heads = heads;
  a->k_heads = a->v_heads = r->k_heads ? r->k_heads : heads;
  a->batch = r->q_heads ? r->batch : r->batch / heads;
  a->q_len = r->m, a->kv_len = r->n, a->qk_dim = a->v_dim = r->k;
  a->mask = strncmp(r->kind, "attention_full", 14) == 0 ? HR_MASK_NONE : HR_MASK_CAUSAL;
  hr_prediction p;
  if (strstr(r->kind, "_backward")) {
    op.pass = HR_PASS_DGRAD;
    if (hr_attention_flops(a, &op.flops) != HR_OK || hr_attention_bytes(a, &op.bytes) != HR_OK)
      return NAN;
    op.flops = op.flops / 2 * 5; /* five GEMMs for the forward pass's two */
    op.bytes *= 2;
  }
  hr_status status = op.pass == HR_PASS_FORWARD ? hr_predict_attention(hardware, a, &p, NULL)
                                                : hr_predict_operator(hardware, &op, &p, NULL);
  return status == HR_OK ? p.time_ns : NAN;
}

static inline double measured_pointwise_ns(const hr_hardware *hardware, const measured *r)
{
  static const struct {
    const char *kind;
    hr_operator_id id;
    int64_t tensors; /* read and written */
  } kernels[] = {{"softmax", HR_OP_SOFTMAX, 2},
                 {"layer_norm", HR_OP_ATTENTION_NORM, 2},
                 {"rms_norm", HR_OP_MLP_NORM, 2},
                 {"gelu", HR_OP_ACTIVATION, 2},
                 {"residual", HR_OP_MLP_RESIDUAL, 3}};
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    hr_operator op = {
        .id = kernels[i].id, .kind = HR_KIND_MEMORY, .count = 1, .bytes = kernels[i].tensors * r->m * r->n * 2};
    hr_prediction p;
    if (strcmp(kernels[i].kind, r->kind) == 0)
      return hr_predict_operator(hardware, &op, &p, NULL) == HR_OK ? p.time_ns : NAN;
  }
  return NAN;
}

/** Predicted time of a row in ns; NAN for an unknown kind. */
static inline double measured_predicted_ns(const hr_hardware *hardware, const measured *r)
{
  if (strcmp(r->kind, "gemm") == 0 || strcmp(r->kind, "bmm") == 0)
    return measured_product_ns(hardware, r);
  if (strncmp(r->kind, "attention", 9) == 0 || strcmp(r->kind, "decode") == 0)
    return measured_attention_ns(hardware, r);
  return measured_pointwise_ns(hardware, r);
}

/** Rows of even number fitted the constants of h200.json; the others were held out. The files' order is shuffled. */
static inline bool measured_held_out(const measured *r)
{
  return r->row % 2 == 1;
}

/** Errors as factors of at least 1: predicted / measured or its inverse. */
typedef struct measured_errors {
  size_t count;
  double logs[MEASURED_MAX], bias; /* Σ of signed logarithms */
} measured_errors;

static inline void measured_add(measured_errors *errors, const hr_hardware *hardware, const measured *r)
{
  double log_ratio = log(measured_predicted_ns(hardware, r) / r->time_ns);
  errors->bias += log_ratio;
  errors->logs[errors->count++] = fabs(log_ratio);
}

static inline int measured_compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/** Geometric mean of the factors, less 1. */
static inline double measured_mean(const measured_errors *errors)
{
  double sum = 0;
  for (size_t i = 0; i < errors->count; i++)
    sum += errors->logs[i];
  return errors->count ? exp(sum / (double)errors->count) - 1 : 0;
}

/** The error that a share of the rows does not exceed; 1: the maximum. Sorts the factors. */
static inline double measured_within(measured_errors *errors, double share)
{
  if (errors->count == 0)
    return 0;
  qsort(errors->logs, errors->count, sizeof *errors->logs, measured_compare);
  size_t index = (size_t)ceil(share * (double)errors->count);
  return exp(errors->logs[index > 0 ? index - 1 : 0]) - 1;
}

#endif
