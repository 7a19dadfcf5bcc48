/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: defaults, the problem as text, id and date. */
#include "runtime/store/result.h"

#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "shape/gemm_strides.h"

#include <headroom/version.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

void hr_result_init(hr_result *result, size_t size)
{
  hr_result value = {.struct_size = sizeof(hr_result),
                     .kind = HR_RESULT_GEMM,
                     .gemm = hr_gemm_default(),
                     .attention = hr_attention_default(),
                     .decode = hr_decode_default()};
  const double unknown = (double)NAN;
  hr_measurement *m = &value.measurement;
  double *numbers[] = {&m->min_ns,
                       &m->p10_ns,
                       &m->median_ns,
                       &m->mean_ns,
                       &m->p90_ns,
                       &m->max_ns,
                       &m->stddev_ns,
                       &m->median_low_ns,
                       &m->median_high_ns,
                       &m->latency_ns,
                       &m->flops_per_s,
                       &m->bytes_per_s,
                       &m->workspace_bytes,
                       &m->peak_bytes,
                       &m->max_error,
                       &m->selection_error,
                       &m->choice_speedup,
                       &m->energy_j,
                       &m->sustained_ns,
                       &m->sustained_power_w,
                       &m->sustained_clock_hz,
                       &value.ceiling_share,
                       &value.library_share,
                       &m->conditions.clock_hz,
                       &m->conditions.memory_clock_hz,
                       &m->conditions.power_w,
                       &m->conditions.temperature_c};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    *numbers[i] = unknown;
  hr_result_name_problem(&value);
  HR_INIT(result, size, value);
}

static void name_gemm(const hr_gemm *g, char *to, size_t size)
{
  char strides[160];
  hr_gemm_format_strides(g, strides, sizeof strides);
  snprintf(to, size, "gemm m=%" PRId64 " n=%" PRId64 " k=%" PRId64 " batch=%" PRId64 " dtype=%s ta=%d tb=%d%s", g->m,
           g->n, g->k, g->batch, hr_dtype_name(g->dtype), g->transpose_a, g->transpose_b, strides);
}

/* Appends to a text. */
static void add(char *to, size_t size, const char *format, ...) HR_PRINTF(3, 4);

static void add(char *to, size_t size, const char *format, ...)
{
  size_t length = strlen(to);
  va_list arguments;
  va_start(arguments, format);
  hr_write_text_v(to + length, size - length, format, arguments);
  va_end(arguments);
}

static void add_strides(char *to, size_t size, const char *operand, int64_t outer, int64_t row, int64_t head)
{
  if (outer != 0 || row != 0 || head != 0)
    add(to, size, " %s=%" PRId64 ",%" PRId64 ",%" PRId64, operand, outer, row, head);
}

static void name_attention(const hr_attention *a, bool backward, char *to, size_t size)
{
  snprintf(to, size,
           "attention batch=%" PRId64 " q_len=%" PRId64 " kv_len=%" PRId64 " q_heads=%" PRId64 " k_heads=%" PRId64
           " v_heads=%" PRId64 " qk_dim=%" PRId64 " v_dim=%" PRId64 " dtype=%s mask=%s window=%" PRId64,
           a->batch, a->q_len, a->kv_len, a->q_heads, a->k_heads, a->v_heads, a->qk_dim, a->v_dim,
           hr_dtype_name(a->dtype), a->mask == HR_MASK_CAUSAL ? "causal" : "none", a->window);
  if (a->scale != 0)
    add(to, size, " scale=%a", (double)a->scale);
  if (a->softcap != 0)
    add(to, size, " softcap=%a", (double)a->softcap);
  if (a->alibi)
    add(to, size, " alibi=1");
  if (a->output != HR_OUTPUT_AS_OPERANDS)
    add(to, size, " output=%s", hr_dtype_name(hr_attention_output_dtype(a)));
  if (a->head_scales)
    add(to, size, " head_scales=1");
  if (a->variable_lengths)
    add(to, size, " q_total=%" PRId64 " kv_total=%" PRId64, a->q_total, a->kv_total);
  const hr_strides *const strides[] = {&a->q_strides, &a->k_strides, &a->v_strides, &a->o_strides};
  for (size_t i = 0; i < 4; i++)
    add_strides(to, size, (const char *const[]){"q", "k", "v", "o"}[i], strides[i]->batch, strides[i]->row,
                strides[i]->head);
  if (backward)
    add(to, size, " backward=1");
}

/* Pages in canonical form: "page_size=16", then the rest of the cache if it is not what all sequences fill. */
static void add_pages(const hr_decode *d, char *to, size_t size)
{
  hr_decode filled = *d;
  add(to, size, " page_size=%" PRId64, d->page_size);
  bool same = hr_decode_set_pages(&filled, d->page_size, NULL) == HR_OK && filled.page_count == d->page_count &&
              filled.table_pitch == d->table_pitch;
  if (!same)
    add(to, size, " pages=%" PRId64 " pitch=%" PRId64, d->page_count, d->table_pitch);
}

static void add_cache_format(const hr_decode *d, char *to, size_t size)
{
  if (d->cache_format == HR_KV_UNQUANTIZED)
    return;
  const hr_kv_strides *k = &d->k_scale_strides, *v = &d->v_scale_strides;
  add(to, size, " cache=%s scales=%s", hr_kv_format_name(d->cache_format), hr_kv_scales_name(d->cache_scales));
  add_strides(to, size, "k_scales", k->page, k->token, k->head);
  add_strides(to, size, "v_scales", v->page, v->token, v->head);
}

static void name_decode(const hr_decode *d, int64_t part, char *to, size_t size)
{
  snprintf(to, size,
           "decode batch=%" PRId64 " q_len=%" PRId64 " kv_len=%" PRId64 " q_heads=%" PRId64 " k_heads=%" PRId64
           " v_heads=%" PRId64 " qk_dim=%" PRId64 " v_dim=%" PRId64 " dtype=%s",
           d->batch, d->q_len, d->kv_len, d->q_heads, d->k_heads, d->v_heads, d->qk_dim, d->v_dim,
           hr_dtype_name(d->dtype));
  add_pages(d, to, size);
  if (d->window != 0)
    add(to, size, " window=%" PRId64, d->window);
  if (d->top_k != 0)
    add(to, size, " top_k=%" PRId64, d->top_k);
  add_cache_format(d, to, size);
  if (d->scale != 0)
    add(to, size, " scale=%a", (double)d->scale);
  if (d->softcap != 0)
    add(to, size, " softcap=%a", (double)d->softcap);
  if (d->sinks)
    add(to, size, " sinks=1");
  if (d->alibi)
    add(to, size, " alibi=1");
  if (d->latent)
    add(to, size, " latent=1");
  if (d->batch_invariant)
    add(to, size, " batch_invariant=1");
  if (part != 0)
    add(to, size, " part=%" PRId64, part);
  add_strides(to, size, "q", d->q_strides.batch, d->q_strides.row, d->q_strides.head);
  add_strides(to, size, "k", d->k_strides.page, d->k_strides.token, d->k_strides.head);
  add_strides(to, size, "v", d->v_strides.page, d->v_strides.token, d->v_strides.head);
  add_strides(to, size, "o", d->o_strides.batch, d->o_strides.row, d->o_strides.head);
}

void hr_result_name_problem(hr_result *result)
{
  if (result->kind == HR_RESULT_GEMM)
    name_gemm(&result->gemm, result->problem, sizeof result->problem);
  else if (result->kind == HR_RESULT_ATTENTION)
    name_attention(&result->attention, result->backward, result->problem, sizeof result->problem);
  else if (result->kind == HR_RESULT_DECODE)
    name_decode(&result->decode, result->decode_part, result->problem, sizeof result->problem);
}

void hr_result_set_gemm(hr_result *result, const hr_gemm *gemm)
{
  result->kind = HR_RESULT_GEMM;
  result->gemm = *gemm;
  hr_result_name_problem(result);
}

void hr_result_set_attention(hr_result *result, const hr_attention *attention)
{
  result->kind = HR_RESULT_ATTENTION;
  result->attention = *attention;
  result->backward = false;
  hr_result_name_problem(result);
}

void hr_result_set_attention_backward(hr_result *result, const hr_attention *forward)
{
  result->kind = HR_RESULT_ATTENTION;
  result->attention = *forward;
  result->backward = true;
  hr_result_name_problem(result);
}

void hr_result_set_decode(hr_result *result, const hr_decode *decode)
{
  result->kind = HR_RESULT_DECODE;
  result->decode = *decode;
  hr_result_name_problem(result);
}

void hr_result_set_rowwise(hr_result *result, const hr_rowwise *rows)
{
  result->kind = HR_RESULT_OTHER;
  int length =
      snprintf(result->problem, sizeof result->problem, "rows %s rows=%" PRId64 " columns=%" PRId64 " dtype=%s",
               hr_rowwise_operation_name(rows->operation), rows->rows, rows->columns, hr_dtype_name(rows->dtype));
  if (rows->period > 0 && length > 0)
    snprintf(result->problem + length, sizeof result->problem - (size_t)length, " period=%" PRId64 " group=%" PRId64,
             rows->period, rows->group);
}

static int two_digits(const char *text)
{
  return 10 * (text[0] - '0') + (text[1] - '0');
}

/* Checks the parts of a date that are given. */
static bool is_in_calendar(const char *text, size_t length)
{
  static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int year = 100 * two_digits(text) + two_digits(text + 2), month = length >= 7 ? two_digits(text + 5) : 1;
  bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  if (month < 1 || month > 12)
    return false;
  int day = length >= 10 ? two_digits(text + 8) : 1, last = days[month - 1] - (month == 2 && !leap);
  return day >= 1 && day <= last && (length < 13 || two_digits(text + 11) < 24) &&
         (length < 16 || two_digits(text + 14) < 60) && (length < 19 || two_digits(text + 17) <= 60);
}

bool hr_is_date(const char *text, bool whole)
{
  static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";
  size_t length = strlen(text);
  if (length < 4 || length >= sizeof form || (whole && length + 1 != sizeof form))
    return false;
  for (size_t i = 0; i < length; i++) {
    if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
      return false;
  }
  return is_in_calendar(text, length);
}

static void write_date(char *to, size_t size)
{
  struct timespec now;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  size_t length = strftime(to, size, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(to + length, size - length, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

hr_status hr_result_stamp(hr_result *result, hr_error *error)
{
  HR_NEED(error, result);
  unsigned char bytes[16];
  char reason[HR_REASON_SIZE], host[256] = "";
  ssize_t got;
  do
    got = getrandom(bytes, sizeof bytes, 0);
  while (got < 0 && errno == EINTR);
  if (got != (ssize_t)sizeof bytes)
    return hr_fail(error, HR_ERROR_BACKEND, "getrandom: %s", hr_reason(got < 0 ? errno : EIO, reason));
  for (size_t i = 0; i < sizeof bytes; i++)
    snprintf(result->id + 2 * i, 3, "%02x", bytes[i]);
  write_date(result->date, sizeof result->date);
  gethostname(host, sizeof host - 1);
  hr_copy_text(result->host, sizeof result->host, host);
  snprintf(result->program, sizeof result->program, "%s%s%s", hr_version(), hr_version_commit()[0] ? "+" : "",
           hr_version_commit());
  return HR_OK;
}
