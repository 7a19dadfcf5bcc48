/* SPDX-License-Identifier: Apache-2.0 */
/* The problem of a record, by its kind. */
#include "analysis/validate/rows.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/predict.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define POWER_LAW "power_law_"
#define POWER_MAX 4.0 /* from which on one expert has all rows */

/* HR_ERROR_INVALID: the field is missing, or none of the names from `first` to before `end`. */
static hr_status fail_names(const hr_csv_record *record, const char *column, const char *(*name)(int), int first,
                            int end)
{
  char expected[256] = "";
  size_t length = 0;
  for (int i = first; i < end && length < sizeof expected; i++) {
    const char *separator = i == first ? "" : i + 1 < end ? ", " : " or ";
    length += (size_t)snprintf(expected + length, sizeof expected - length, "%s%s", separator, name(i));
  }
  return hr_csv_fail(record, column, expected);
}

/* A column of integers from `least` on; `fallback` as of hr_csv_integer(). */
typedef struct integer_column {
  const char *name;
  int64_t least, fallback, *to;
} integer_column;

static hr_status read_integers(const hr_csv_record *record, const integer_column *columns, size_t count)
{
  for (size_t i = 0; i < count; i++)
    HR_TRY(hr_csv_integer(record, columns[i].name, columns[i].least, columns[i].fallback, columns[i].to));
  return HR_OK;
}

static hr_status read_gemm(const hr_csv_record *record, hr_validated_row *row)
{
  hr_gemm *gemm = &row->gemm;
  int64_t a, b, rounded;
  const integer_column columns[] = {{"m", 1, 0, &gemm->m},         {"n", 1, 0, &gemm->n},     {"k", 1, 0, &gemm->k},
                                    {"batch", 1, 1, &gemm->batch}, {"transpose_a", 0, 0, &a}, {"transpose_b", 0, 0, &b},
                                    {"rounding", 0, 0, &rounded}};
  HR_TRY(read_integers(record, columns, sizeof columns / sizeof *columns));
  row->kind = HR_INTERVAL_GEMM, row->rounded = rounded != 0 && hr_dtype_bytes(gemm->dtype) == 1;
  gemm->transpose_a = a != 0, gemm->transpose_b = b != 0;
  return hr_gemm_check(gemm, record->error);
}

/* `either` or `other` of two columns that mean the same; the first is needed if `fallback` is 0. */
static hr_status read_either(const hr_csv_record *record, const char *either, const char *other, int64_t fallback,
                             int64_t *value)
{
  const char *column = !hr_csv_field(record, either) && hr_csv_field(record, other) ? other : either;
  return hr_csv_integer(record, column, 1, fallback, value);
}

static hr_status read_call(const hr_csv_record *record, bool decode, bool causal_default, hr_attention *a)
{
  int64_t causal;
  HR_TRY(hr_csv_integer(record, "n", 1, 0, &a->kv_len));
  HR_TRY(hr_csv_integer(record, "m", 1, decode ? 1 : a->kv_len, &a->q_len));
  HR_TRY(hr_csv_integer(record, "batch", 1, 1, &a->batch));
  HR_TRY(hr_csv_integer(record, "q_heads", 1, 0, &a->q_heads));
  HR_TRY(hr_csv_integer(record, "causal", 0, causal_default, &causal));
  HR_TRY(hr_csv_integer(record, "window", 0, 0, &a->window));
  a->mask = causal || decode ? HR_MASK_CAUSAL : HR_MASK_NONE;
  return HR_OK;
}

static bool is_kind(const hr_csv_record *record, const char *kind)
{
  return strcmp(hr_csv_field(record, "kind"), kind) == 0;
}

static hr_status read_attention(const hr_csv_record *record, hr_validated_row *row)
{
  const bool decode = is_kind(record, "decode");
  hr_attention *a = &row->attention;
  row->kind = decode ? HR_INTERVAL_DECODE : HR_INTERVAL_ATTENTION;
  HR_TRY(read_call(record, decode, !is_kind(record, "attention_full"), a));
  HR_TRY(read_either(record, "kv_heads", "k_heads", a->q_heads, &a->k_heads));
  HR_TRY(read_either(record, "head_dim", "k", 0, &a->qk_dim));
  HR_TRY(hr_csv_integer(record, "v_heads", 1, a->k_heads, &a->v_heads));
  HR_TRY(hr_csv_integer(record, "v_dim", 1, a->qk_dim, &a->v_dim));
  return hr_attention_check(a, record->error);
}

/* Sizes that the row does not have are those of DeepSeek-V2 (arXiv 2405.04434): heads of 128 and of 64 that are
 * rotated, latents of 512. */
static hr_status read_latent(const hr_csv_record *record, hr_validated_row *row)
{
  const bool decode = is_kind(record, "latent");
  hr_attention *a = &row->attention;
  row->kind = decode ? HR_INTERVAL_LATENT : HR_INTERVAL_LATENT_PREFILL;
  HR_TRY(read_call(record, decode, true, a));
  HR_TRY(hr_csv_integer(record, "qk_dim", 1, decode ? 512 + 64 : 128 + 64, &a->qk_dim));
  HR_TRY(hr_csv_integer(record, "v_dim", 1, decode ? 512 : 128, &a->v_dim));
  a->k_heads = a->v_heads = decode ? 1 : a->q_heads;
  return hr_attention_check(a, record->error);
}

/* Column "routing": "power_law_" and the exponent of the loads' power law; else loads are equal. */
static hr_status read_loads(const hr_csv_record *record, hr_expert_loads *loads, hr_expert_call *call)
{
  const char *routing = hr_csv_field(record, "routing");
  char *end;
  if (!routing || strncmp(routing, POWER_LAW, strlen(POWER_LAW)) != 0)
    return HR_OK;
  loads->exponent = hr_read_number(routing + strlen(POWER_LAW), &end);
  if (*end != '\0' || !(loads->exponent > 1 && loads->exponent <= POWER_MAX))
    return hr_csv_fail(record, "routing", POWER_LAW " and an exponent above 1, at most 4");
  hr_expert_loads_take(loads, call);
  return HR_OK;
}

/* Each device has experts / ep of the experts, and as large a part of the tokens' copies where loads are equal. */
static hr_status read_experts(const hr_csv_record *record, hr_validated_row *row)
{
  hr_expert_call *call = &row->experts;
  int64_t experts, width, top_k, tp, ep, gated;
  const integer_column columns[] = {
      {"m", 1, 0, &call->tokens},  {"hidden", 1, 0, &call->hidden}, {"intermediate", 1, 0, &width},
      {"experts", 1, 0, &experts}, {"top_k", 1, 0, &top_k},         {"tp", 1, 1, &tp},
      {"ep", 1, 1, &ep},           {"gated", 0, 1, &gated}};
  const char *kernel = hr_csv_field(record, "kernel");
  if (kernel && strcmp(kernel, "cutlass") == 0)
    call->kernels = HR_EXPERTS_CUTLASS;
  if (kernel && strcmp(kernel, "triton") == 0)
    call->kernels = HR_EXPERTS_TRITON;
  row->kind = HR_INTERVAL_EXPERTS;
  HR_TRY(read_integers(record, columns, sizeof columns / sizeof *columns));
  if (top_k > experts)
    return hr_csv_fail(record, "top_k", "at most the experts");
  hr_checked64 copies = hr_times(hr_checked(call->tokens), top_k);
  call->top_k = top_k;
  if (hr_checked_take(copies, &call->rows) != HR_OK)
    return hr_fail(record->error, HR_ERROR_OVERFLOW, "%s: line %" PRId64 ": m times top_k is too large", record->name,
                   record->line);
  call->rows = hr_ceil_div(call->rows, ep), call->width = hr_ceil_div(width, tp);
  call->experts = hr_ceil_div(experts, ep), call->gated = gated != 0;
  hr_expert_loads loads = {.tokens = call->tokens, .top_k = top_k, .experts = experts, .devices = ep};
  HR_TRY(read_loads(record, &loads, call));
  return HR_OK;
}

/* Names of libraries' kernels for recurrences that have a name of their own here. */
static const struct {
  const char *name;
  hr_recurrence recurrence;
} kernel_names[] = {
    {"selective", HR_RECURRENCE_SELECTIVE}, {"ssd", HR_RECURRENCE_SSD}, {"delta", HR_RECURRENCE_GATED_DELTA}};

#define RECURRENCE_FIRST (HR_RECURRENCE_NONE + 1)
#define RECURRENCE_END (HR_RECURRENCE_KIMI_DELTA + 1)

static const char *recurrence_name(int recurrence)
{
  return hr_recurrence_name((hr_recurrence)recurrence);
}

/* HR_RECURRENCE_NONE: another word. */
static hr_recurrence recurrence_of(const char *name)
{
  for (size_t i = 0; i < sizeof kernel_names / sizeof *kernel_names; i++) {
    if (strcmp(name, kernel_names[i].name) == 0)
      return kernel_names[i].recurrence;
  }
  for (int i = RECURRENCE_FIRST; i < RECURRENCE_END; i++) {
    if (strcmp(name, recurrence_name(i)) == 0)
      return (hr_recurrence)i;
  }
  return HR_RECURRENCE_NONE;
}

static hr_status read_scan(const hr_csv_record *record, hr_validated_row *row)
{
  hr_scan_call *call = &row->scan;
  const char *kind = hr_csv_field(record, "kind"), *recurrence = hr_csv_field(record, "recurrence");
  const char *phase = hr_csv_field(record, "phase");
  row->kind = HR_INTERVAL_SCAN;
  call->recurrence = recurrence_of(recurrence ? recurrence : kind);
  if (call->recurrence == HR_RECURRENCE_NONE)
    return fail_names(record, "recurrence", recurrence_name, RECURRENCE_FIRST, RECURRENCE_END);
  call->updates = phase && strcmp(phase, "decode") == 0;
  if (phase && !call->updates && strcmp(phase, "prefill") != 0)
    return hr_csv_fail(record, "phase", "prefill or decode");
  const integer_column columns[] = {{"batch", 1, 1, &call->batch}, {"seq", 1, call->updates, &call->tokens},
                                    {"heads", 1, 0, &call->heads}, {"head_dim", 1, 1, &call->head_dim},
                                    {"state", 1, 0, &call->state}, {"groups", 0, 0, &call->groups},
                                    {"chunk", 0, 0, &call->chunk}};
  return read_integers(record, columns, sizeof columns / sizeof *columns);
}

#define COLLECTIVE "collective" /* the kind of rows whose column of that name says which it is */

/* Libraries whose name is part of a source, such as "aic-nccl-2.29.2". */
static hr_collective_library library_of_source(const char *source)
{
  static const hr_collective_library named[] = {HR_LIBRARY_NCCL, HR_LIBRARY_TRTLLM, HR_LIBRARY_VLLM, HR_LIBRARY_SGLANG};
  for (size_t i = 0; source && i < sizeof named / sizeof *named; i++) {
    if (strstr(source, hr_collective_library_name(named[i])))
      return named[i];
  }
  return HR_LIBRARY_COUNT;
}

static const char *collective_name(int kind)
{
  return hr_collective_name((hr_collective_kind)kind);
}

static const char *library_name(int library)
{
  return hr_collective_library_name((hr_collective_library)library);
}

static bool parse_collective(const char *name, hr_collective_kind *kind)
{
  *kind = HR_POINT_TO_POINT;
  return strcmp(name, "p2p") == 0 || hr_collective_parse(name, kind) == HR_OK;
}

static hr_status read_collective(const hr_csv_record *record, hr_validated_row *row)
{
  hr_collective *c = &row->collective;
  const char *kind = hr_csv_field(record, "kind"), *library = hr_csv_field(record, "library");
  const char *name = strcmp(kind, COLLECTIVE) == 0 ? hr_csv_field(record, COLLECTIVE) : kind;
  row->kind = HR_INTERVAL_COLLECTIVE;
  if (!name || !parse_collective(name, &c->kind))
    return fail_names(record, COLLECTIVE, collective_name, 0, HR_COLLECTIVE_COUNT);
  c->library = library_of_source(hr_csv_field(record, "source"));
  if (library && hr_collective_library_parse(library, &c->library) != HR_OK)
    return fail_names(record, "library", library_name, 0, HR_LIBRARY_COUNT);
  HR_TRY(read_either(record, "gpus", "devices", 0, &c->devices));
  HR_TRY(hr_csv_integer(record, "nodes", 1, 1, &row->nodes));
  HR_TRY(hr_csv_integer(record, "bytes", 0, -1, &c->bytes));
  HR_TRY(hr_csv_integer(record, "copies", 0, 0, &c->copies));
  return c->devices % row->nodes == 0 ? HR_OK : hr_csv_fail(record, "nodes", "a divisor of the gpus");
}

/* "collective all_reduce bytes=512 gpus=2 library=nccl dtype=bf16": a row of a sweep. */
static hr_status read_collective_problem(const hr_csv_record *record, hr_validated_row *row)
{
  hr_collective *c = &row->collective;
  char kind[32], library[32];
  const char *problem = hr_csv_field(record, "problem");
  row->kind = HR_INTERVAL_COLLECTIVE;
  const int found = sscanf(problem, "collective %31s bytes=%" SCNd64 " gpus=%" SCNd64 " library=%31s", kind, &c->bytes,
                           &c->devices, library);
  if (found != 4 || hr_collective_parse(kind, &c->kind) != HR_OK ||
      hr_collective_library_parse(library, &c->library) != HR_OK)
    return hr_csv_fail(record, "problem", "collective NAME bytes=N gpus=N library=NAME");
  return HR_OK;
}

hr_read_problem_fn hr_problem_reader(const hr_csv_record *record)
{
  static const char sweep[] = "collective ";
  static const struct {
    const char *kind;
    hr_read_problem_fn read;
  } readers[] = {{"gemm_misaligned", read_gemm},
                 {"gemm_narrow", read_gemm}, /* the former name */
                 {"bmm_misaligned", read_gemm},
                 {"bmm_narrow", read_gemm},
                 {"gemm_8bit", read_gemm},
                 {"gemm", read_gemm},
                 {"bmm", read_gemm},
                 {"attention", read_attention},
                 {"prefill", read_attention},
                 {"attention_full", read_attention},
                 {"decode", read_attention},
                 {"latent", read_latent},
                 {"latent_prefill", read_latent},
                 {"experts", read_experts},
                 {"scan", read_scan},
                 {COLLECTIVE, read_collective}};
  const char *kind = hr_csv_field(record, "kind"), *problem = hr_csv_field(record, "problem");
  hr_collective_kind collective;
  if (!kind)
    return problem && strncmp(problem, sweep, sizeof sweep - 1) == 0 ? read_collective_problem : NULL;
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
    if (strcmp(kind, readers[i].kind) == 0)
      return readers[i].read;
  }
  if (parse_collective(kind, &collective))
    return read_collective;
  return recurrence_of(kind) == HR_RECURRENCE_NONE ? NULL : read_scan;
}
