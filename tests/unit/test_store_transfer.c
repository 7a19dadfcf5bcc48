/* SPDX-License-Identifier: Apache-2.0 */
/* Export, import and merge: the same rows, exactly, and no input that damages them. */
#include "store.h"

#include "runtime/store/fields.h"

#include <float.h>
#include <inttypes.h>
#include <unistd.h>

/* ---- rows to compare ---- */

typedef struct row_array {
  size_t count;
  hr_result rows[256];
} row_array;

static int collect(void *context, const hr_result *result)
{
  row_array *rows = context;
  assert_true(rows->count < 256);
  rows->rows[rows->count++] = *result;
  return 0;
}

static row_array *all_rows(hr_store *store)
{
  row_array *rows = calloc(1, sizeof *rows);
  hr_error error = {.status = HR_OK};
  assert_ok(hr_store_query(store, NULL, collect, rows, &error), error);
  return rows;
}

static bool same_value(const hr_value *a, const hr_value *b)
{
  if (a->type != b->type)
    return false;
  switch (a->type) {
  case HR_VALUE_TEXT: return strcmp(a->text, b->text) == 0;
  case HR_VALUE_NUMBER: return memcmp(&a->number, &b->number, sizeof a->number) == 0; /* every bit */
  case HR_VALUE_NONE: return true;
  default: return a->integer == b->integer;
  }
}

static void assert_same_row(const hr_result *a, const hr_result *b)
{
  for (size_t i = 0; i < HR_FIELDS; i++) {
    hr_value first = hr_field_get(&hr_fields[i], a), second = hr_field_get(&hr_fields[i], b);
    if (!same_value(&first, &second))
      fail_msg("%s of row %s: \"%s\" %.17g %" PRId64 " and \"%s\" %.17g %" PRId64, hr_fields[i].name, a->id,
               first.text ? first.text : "", first.number, first.integer, second.text ? second.text : "", second.number,
               second.integer);
  }
}

/* Rows are in the order of date and then of insertion, which an export keeps. */
static void assert_same_rows(hr_store *a, hr_store *b)
{
  row_array *first = all_rows(a), *second = all_rows(b);
  assert_int_equal(first->count, second->count);
  for (size_t i = 0; i < first->count; i++)
    assert_same_row(&first->rows[i], &second->rows[i]);
  free(first);
  free(second);
}

/* ---- random rows ---- */

/* A small random number generator, for the same rows on every machine. */
static uint64_t next_random(uint64_t *state)
{
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void random_text(uint64_t *state, char *text, size_t size)
{
  static const char *const pieces[] = {"a",  "h/a = 64", ",",  "\n",      "\r\n", "\"", "\"\"", "\t",  " ",   "'",
                                       "\r", "é",        "→",  "😀",       "{",    "}",  "\\",   "|",   "NaN", "-1",
                                       ";",  "\x7f",     "\b", "\\u0000", "null", "=",  "1e3",  "true"};
  text[0] = '\0';
  for (uint64_t count = next_random(state) % 6; count > 0; count--) {
    const char *piece = pieces[next_random(state) % (sizeof pieces / sizeof *pieces)];
    if (strlen(text) + strlen(piece) < size)
      strcat(text, piece);
  }
}

static double random_number(uint64_t *state)
{
  static const double special[] = {0,
                                   1,
                                   -1,
                                   1.0 / 3,
                                   DBL_MAX,
                                   DBL_MIN,
                                   4.9406564584124654e-324,
                                   DBL_EPSILON,
                                   0.1,
                                   1.2345678901234568e17,
                                   1e22,
                                   1e23,
                                   9007199254740993.0};
  uint64_t choice = next_random(state);
  if (choice % 4 == 0)
    return (double)NAN;
  if (choice % 4 == 1)
    return special[(choice >> 8) % (sizeof special / sizeof *special)];
  uint64_t bits = next_random(state);
  double number;
  memcpy(&number, &bits, sizeof number);
  return isfinite(number) ? number : 0.5;
}

static void randomise(const hr_field *field, hr_result *row, uint64_t *state)
{
  void *member = (char *)row + field->offset[row->kind];
  switch (field->kind) {
  case HR_FIELD_TEXT: random_text(state, member, field->size); break;
  case HR_FIELD_COUNT: *(int64_t *)member = (int64_t)(next_random(state) >> (1 + next_random(state) % 63)); break;
  case HR_FIELD_NUMBER: *(double *)member = fabs(random_number(state)); break;
  case HR_FIELD_CELSIUS: *(double *)member = random_number(state); break;
  case HR_FIELD_SINGLE: *(float *)member = (float)(next_random(state) % 1000) / 7.0f; break;
  case HR_FIELD_FLAG: *(bool *)member = next_random(state) % 2; break;
  case HR_FIELD_SEED: *(uint64_t *)member = next_random(state); break;
  case HR_FIELD_KV_FORMAT: *(hr_kv_format *)member = (hr_kv_format)(next_random(state) % HR_KV_READABLE_COUNT); break;
  case HR_FIELD_KV_SCALES: *(hr_kv_scales *)member = (hr_kv_scales)(next_random(state) % HR_KV_SCALES_COUNT); break;
  case HR_FIELD_DTYPE: *(hr_dtype *)member = (hr_dtype)(next_random(state) % HR_DTYPE_COUNT); break;
  case HR_FIELD_MASK: *(hr_mask *)member = (hr_mask)(next_random(state) % 2); break;
  case HR_FIELD_OUTPUT: *(hr_attention_output *)member = (hr_attention_output)(next_random(state) % 3); break;
  case HR_FIELD_STATUS: *(hr_status *)member = (hr_status)(next_random(state) % HR_STATUS_COUNT); break;
  case HR_FIELD_KIND: break;
  }
}

static int descending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

/* Some of the times are unknown; each other time is at least its predecessor. */
static void put_in_order(hr_measurement *m)
{
  double *const places[] = {&m->max_ns,    &m->p90_ns,        &m->median_high_ns, &m->mean_ns,
                            &m->median_ns, &m->median_low_ns, &m->p10_ns,         &m->min_ns};
  enum { PLACES = sizeof places / sizeof *places };
  double times[PLACES];
  size_t known = 0, next = 0;
  for (size_t i = 0; i < PLACES; i++) {
    if (!isnan(*places[i]))
      times[known++] = *places[i];
  }
  qsort(times, known, sizeof *times, descending);
  for (size_t i = 0; i < PLACES; i++) {
    if (!isnan(*places[i]))
      *places[i] = times[next++];
  }
}

static hr_result random_result(uint64_t *state)
{
  hr_result row = hr_result_default(), stamp = row;
  hr_error error = {.status = HR_OK};
  row.kind = (hr_result_kind)(next_random(state) % HR_RESULT_KIND_COUNT);
  for (size_t i = 0; i < HR_FIELDS; i++) {
    if (hr_fields[i].of[row.kind])
      randomise(&hr_fields[i], &row, state);
  }
  put_in_order(&row.measurement);
  assert_ok(hr_result_stamp(&stamp, &error), error);
  strcpy(row.id, stamp.id);
  strcpy(row.date, stamp.date);
  if (row.problem[0] == '\0')
    strcpy(row.problem, "layer");
  return row;
}

static hr_store *random_store(const char *path, int count, uint64_t seed)
{
  hr_store *store = open_store(path, HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  for (int i = 0; i < count; i++) {
    hr_result row = random_result(&seed);
    assert_ok(hr_store_append(store, &row, &error), error);
  }
  return store;
}

/* ---- round trips ---- */

static FILE *exported(hr_store *store, hr_store_format format)
{
  FILE *file = tmpfile();
  hr_error error = {.status = HR_OK};
  assert_non_null(file);
  assert_ok(hr_store_export(store, NULL, format, file, &error), error);
  rewind(file);
  return file;
}

static void importing_an_export_gives_the_same_rows_to_the_last_bit(void **state)
{
  char path[256];
  hr_error error = {.status = HR_OK};
  hr_store *store = random_store(path_in(state, "a.db", path), 100, 0x2545F4914F6CDD1D);
  for (hr_store_format format = HR_STORE_CSV; format <= HR_STORE_JSON_LINES; format++) {
    hr_store_change change = {-1, -1};
    FILE *file = exported(store, format);
    hr_store *copy = open_store(path_in(state, format == HR_STORE_CSV ? "csv.db" : "json.db", path), HR_STORE_WRITE);
    assert_ok(hr_store_import(copy, file, "rows", &change, &error), error);
    assert_int_equal(change.added, 100);
    assert_int_equal(change.present, 0);
    assert_same_rows(store, copy);
    rewind(file); /* and again: no row is duplicated */
    assert_ok(hr_store_import(copy, file, "rows", &change, &error), error);
    assert_int_equal(change.added, 0);
    assert_int_equal(change.present, 100);
    assert_same_rows(store, copy);
    fclose(file);
    hr_store_close(copy);
  }
  hr_store_close(store);
}

static void a_filter_exports_its_rows_alone(void **state)
{
  char path[256];
  hr_error error = {.status = HR_OK};
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  for (int i = 1; i <= 5; i++)
    append_row(store, i);
  hr_result_filter filter = hr_result_filter_default();
  filter.last = 2;
  FILE *file = tmpfile();
  assert_ok(hr_store_export(store, &filter, HR_STORE_JSON_LINES, file, &error), error);
  rewind(file);
  int lines = 0;
  for (int byte; (byte = getc(file)) != EOF;)
    lines += byte == '\n';
  assert_int_equal(lines, 2);
  fclose(file);
  hr_store_close(store);
}

static void an_export_to_a_full_disk_is_an_error(void **state)
{
  char path[256];
  hr_error error = {.status = HR_OK};
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  append_row(store, 1);
  for (hr_store_format format = HR_STORE_CSV; format <= HR_STORE_JSON_LINES; format++) {
    FILE *file = fopen("/dev/full", "w");
    if (!file)
      skip();
    assert_fails(hr_store_export(store, NULL, format, file, &error), HR_ERROR_OUTPUT, error, "No space left");
    fclose(file);
  }
  hr_store_close(store);
}

/* ---- merging ---- */

static void merging_adds_new_rows_and_duplicates_none(void **state)
{
  char path[256], other_path[256];
  hr_error error = {.status = HR_OK};
  hr_store *store = random_store(path_in(state, "a.db", path), 10, 11);
  hr_store *other = random_store(path_in(state, "b.db", other_path), 20, 12);
  hr_store_change change = {-1, -1};
  assert_ok(hr_store_merge(store, other_path, &change, &error), error);
  assert_int_equal(change.added, 20);
  assert_int_equal(change.present, 0);
  append_row(other, 1);
  assert_ok(hr_store_merge(store, other_path, &change, &error), error);
  assert_int_equal(change.added, 1);
  assert_int_equal(change.present, 20);
  assert_int_equal(count_rows(store), 31);
  assert_int_equal(count_rows(other), 21);

  assert_fails(hr_store_merge(store, path, &change, &error), HR_ERROR_INVALID, error, "is the store to merge into");
  assert_fails(hr_store_merge(store, path_in(state, "none", path), &change, &error), HR_ERROR_NOT_FOUND, error,
               "no such file");
  hr_store_close(other);
  hr_store_close(store);
}

static void a_scratch_store_is_no_file_and_can_be_copied_into_one(void **state)
{
  char path[256], none[256];
  hr_error error = {.status = HR_OK};
  hr_store *scratch, *store = random_store(path_in(state, "a.db", path), 3, 13);
  assert_ok(hr_store_open(path_in(state, "none.db", none), HR_STORE_SCRATCH, &scratch, &error), error);
  append_row(scratch, 1);
  append_row(scratch, 2);
  assert_string_equal(hr_store_path(scratch), none);
  hr_store_change change = {-1, -1};
  assert_ok(hr_store_copy(store, scratch, &change, &error), error);
  assert_int_equal(change.added, 2);
  assert_ok(hr_store_copy(store, scratch, &change, &error), error);
  assert_int_equal(change.present, 2);
  assert_int_equal(count_rows(store), 5);
  hr_store_close(scratch);
  assert_int_not_equal(access(none, F_OK), 0);
  hr_store_close(store);
}

/* ---- wrong input ---- */

#define HEAD "operation,dtype,batch,m,n,k,transpose_a,transpose_b,status\n"
#define ROW "gemm,bf16,1,2,3,4,false,true,ok\n"
#define JSON_ROW                                                                                         \
  "\"operation\":\"gemm\",\"dtype\":\"bf16\",\"batch\":1,\"m\":2,\"n\":3,\"k\":4,\"transpose_a\":false," \
  "\"transpose_b\":true,\"status\":\"ok\""

static hr_status import_text(hr_store *store, const char *text, size_t length, hr_store_change *change, hr_error *error)
{
  FILE *file = tmpfile();
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, length, file), length);
  rewind(file);
  hr_status status = hr_store_import(store, file, "rows", change, error);
  fclose(file);
  return status;
}

static void columns_may_be_few_and_in_any_order(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  static const char *const texts[] = {
      HEAD ROW ROW,                                                        /* without an id both are new rows */
      "\xef\xbb\xbf" HEAD "\"gemm\",bf16,1,2,3,4,false,true,\"ok\"\n" ROW, /* as spreadsheets write it */
      "# NVIDIA H200, \"a quote\n" HEAD ROW "# between rows, with commas\n" ROW "#", /* comments */
      "k,operation,dtype,batch,m,n,status,transpose_a,transpose_b\r\n4,gemm,bf16,1,2,3,ok,false,true\r\n\r\n"
      "4,gemm,bf16,1,2,3,ok,false,true",
      "{" JSON_ROW "}\n\n{" JSON_ROW
      ",\"power_w\":700,\"temperature_c\":-3.5,\"reason\":null}\r\n", /* an integer is a number */
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    hr_store_change change = {0, 0};
    assert_ok(import_text(store, texts[i], strlen(texts[i]), &change, &error), error);
    assert_int_equal(change.added, 2);
  }
  row_array *rows = all_rows(store);
  for (size_t i = 0; i < rows->count; i++) {
    assert_string_equal(rows->rows[i].problem, "gemm m=2 n=3 k=4 batch=1 dtype=bf16 ta=0 tb=1");
    assert_int_equal(strlen(rows->rows[i].id), 32);
    assert_int_equal(strlen(rows->rows[i].date), 24);
  }
  assert_true(rows->rows[9].measurement.conditions.power_w == 700);
  assert_true(rows->rows[9].measurement.conditions.temperature_c == -3.5); /* the only number that may be negative */
  free(rows);
  hr_store_close(store);
}

typedef struct wrong_input {
  const char *text, *message;
} wrong_input;

static const wrong_input wrong_inputs[] = {
    {"", "rows: is empty"},
    {"nonsense", "rows: line 1: there is no column \"nonsense\""},
    {HEAD ROW "gemm,bf16,1,2,3,4,false,true\n", "rows: line 3: has 8 fields, the head has 9"},
    {HEAD "\n\n" ROW "gemm,bf16,1,x,3,4,false,true,ok\n",
     "rows: line 5: m: expected a count of at least 0, found \"x\""},
    {HEAD "gemm,bf16,1,-2,3,4,false,true,ok\n", "m: expected a count of at least 0, found \"-2\""},
    {HEAD "gemm,bf16,1,9223372036854775808,3,4,false,true,ok\n", "m: expected an integer of at most 63 bits"},
    {HEAD "gemm,bf17,1,2,3,4,false,true,ok\n", "dtype: expected a number format, found \"bf17\""},
    {HEAD "gemm,bf16,1,2,3,4,0,true,ok\n", "transpose_a: expected true or false, found \"0\""},
    {HEAD "gemm,bf16,1,2,3,,false,true,ok\n", "k: is missing"},
    {HEAD "conv,bf16,1,2,3,4,false,true,ok\n", "operation: expected gemm, attention, decode or other, found \"conv\""},
    {HEAD "attention,bf16,1,2,3,4,false,true,ok\n",
     "m: expected no value in a row of operation attention, found \"2\""},
    {HEAD "gemm,bf16,1,2,3,4,false,true,fine\n", "status: expected a status, found \"fine\""},
    {HEAD "\"gemm,bf16\n\n", "line 2: a quoted field has no end"},
    {HEAD "\"gemm\"x,bf16,1,2,3,4,false,true,ok\n", "line 2: field 1: text after the closing quote"},
    {HEAD "ge\"mm,bf16,1,2,3,4,false,true,ok\n", "line 2: field 1: has a quote, but does not begin with one"},
    {"m,m\n1,1\n", "line 1: m: is given twice"},
    {"id,operation,dtype,batch,m,n,k,transpose_a,transpose_b,status\nxyz," ROW, "id: expected 32 hexadecimal digits"},
    {"date,operation,dtype,batch,m,n,k,transpose_a,transpose_b,status\ntoday," ROW, "date: expected one as"},
    {"power_w,operation,dtype,batch,m,n,k,transpose_a,transpose_b,status\n1e999," ROW,
     "power_w: expected a finite number"},
    {"power_w,operation,dtype,batch,m,n,k,transpose_a,transpose_b,status\nnan," ROW, "power_w: expected a number"},
    {"min_ns,operation,dtype,batch,m,n,k,transpose_a,transpose_b,status\n1," ROW "-0.5," ROW,
     "rows: line 3: min_ns: is negative"},
    {"power_w,operation,dtype,batch,m,n,k,transpose_a,transpose_b,status\n-1," ROW, "line 2: power_w: is negative"},
    {"min_ns,max_ns,operation,dtype,batch,m,n,k,transpose_a,transpose_b,status\n7,5," ROW,
     "line 2: max_ns: is 5, less than min_ns, which is 7"},
    {"{" JSON_ROW ",\"median_low_ns\":3,\"median_high_ns\":2}",
     "line 1: median_high_ns: is 2, less than median_low_ns, which is 3"},
    {"{" JSON_ROW ",\"min_ns\":4,\"mean_ns\":3.5}", "line 1: mean_ns: is 3.5, less than min_ns, which is 4"},
    {"{" JSON_ROW ",\"samples\":-1}", "line 1: samples: expected a count of at least 0, found -1"},
    {"{" JSON_ROW ",\"min_ns\":NaN}", "line 1: "},
    {"{" JSON_ROW ",\"page_size\":16}", "page_size: expected no value in a row of operation gemm, found 16"},
    {"{\"operation\":\"decode\",\"status\":\"ok\",\"dtype\":\"bf16\",\"batch\":1,\"q_len\":1,\"kv_len\":8,\"q_heads\":"
     "1,"
     "\"k_heads\":1,\"v_heads\":1,\"qk_dim\":64,\"v_dim\":64,\"page_count\":1,\"table_pitch\":1}",
     "page_size: is missing"},
    {"| id | date |\n| --- | --- |\n", "rows: line 1: is a table in Markdown"},
    {"{\n  \"schema\": \"headroom.results/1\"\n}\n", "rows: line 1: is a JSON document of several lines"},
    {"{\"", "line 1: "},
    {"{" JSON_ROW "}\n{}", "line 2: "},
    {"{" JSON_ROW "}\n[]", "line 2: expected an object"},
    {"{" JSON_ROW ",\"x\":1}", "there is no column \"x\""},
    {"{" JSON_ROW ",\"host\":[1]}", "host: expected one value, found a list"},
    {"{" JSON_ROW ",\"host\":1}", "host: expected a text, found 1"},
    {"{" JSON_ROW ",\"warm\":\"yes\"}", "warm: expected true or false"},
    {"{" JSON_ROW ",\"samples\":1.5}", "samples: expected a count of at least 0, found 1.5"},
    {"{" JSON_ROW ",\"m\":1}", "line 1: duplicate object key"},
    {"{" JSON_ROW ",\"seed\":\"18446744073709551616\"}", "seed: expected an integer of at most 64 bits"},
};

static void an_invalid_line_is_named_and_no_row_of_the_input_is_kept(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  append_row(store, 1);
  for (size_t i = 0; i < sizeof wrong_inputs / sizeof *wrong_inputs; i++) {
    const char *text = wrong_inputs[i].text;
    hr_store_change change = {7, 7};
    assert_fails(import_text(store, text, strlen(text), &change, &error), HR_ERROR_UNREADABLE, error,
                 wrong_inputs[i].message);
    assert_int_equal(change.added, 7);
    assert_int_equal(count_rows(store), 1);
  }
  assert_fails(import_text(store, HEAD "gemm\0,", sizeof HEAD "gemm\0,", NULL, &error), HR_ERROR_UNREADABLE, error,
               "zero byte");
  assert_fails(import_text(store, "SQLite format 3\0", 16, NULL, &error), HR_ERROR_UNREADABLE, error,
               "is a database; a store is merged");
  hr_store_close(store);
}

static void a_text_too_long_is_refused_rather_than_truncated(void **state)
{
  char path[256], text[600];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  int length = snprintf(text, sizeof text, "{" JSON_ROW ",\"sweep\":\"%0100d\"}", 0);
  assert_fails(import_text(store, text, (size_t)length, NULL, &error), HR_ERROR_UNREADABLE, error,
               "line 1: sweep: has 100 bytes, more than 63");
  hr_store_close(store);
}

static void a_line_without_end_is_refused(void **state)
{
  char path[256];
  hr_store *store = open_store(path_in(state, "a.db", path), HR_STORE_WRITE);
  hr_error error = {.status = HR_OK};
  size_t size = 3 << 20;
  char *text = malloc(size);
  const char *const beginnings[] = {"{\"", "\"", "x"};
  for (size_t i = 0; i < 3; i++) {
    memset(text, 'x', size);
    memcpy(text, beginnings[i], strlen(beginnings[i]));
    assert_fails(import_text(store, text, size, NULL, &error), HR_ERROR_UNREADABLE, error, "bytes");
  }
  free(text);
  hr_store_close(store);
}

/* Some bytes of a valid export changed, removed or duplicated: an error in one line, or rows that can be exported
 * again. */
static void damaged_exports_give_errors_or_rows_and_never_a_crash(void **state)
{
  char path[256];
  hr_error error = {.status = HR_OK};
  uint64_t random = 99;
  hr_store *store = random_store(path_in(state, "a.db", path), 3, 5);
  hr_store *into = open_store(path_in(state, "b.db", path), HR_STORE_WRITE);
  for (int turn = 0; turn < 300; turn++) {
    FILE *file = exported(store, turn % 2 ? HR_STORE_CSV : HR_STORE_JSON_LINES);
    char text[32768];
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    for (uint64_t changes = 1 + next_random(&random) % 4; changes > 0 && length > 2; changes--) {
      static const char bytes[] = ",\"\n\r{}:x0-\0\xff\xe2\\";
      size_t at = next_random(&random) % length;
      if (next_random(&random) % 8 == 0)
        length = at + 1;
      else
        text[at] = bytes[next_random(&random) % (sizeof bytes - 1)];
    }
    error.message[0] = '\0';
    if (import_text(into, text, length, NULL, &error) != HR_OK) {
      assert_true(error.message[0] != '\0');
      assert_null(strchr(error.message, '\n'));
    }
  }
  fclose(exported(into, HR_STORE_CSV));
  hr_store_close(into);
  hr_store_close(store);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(importing_an_export_gives_the_same_rows_to_the_last_bit),
      IN_FOLDER(a_filter_exports_its_rows_alone),
      IN_FOLDER(an_export_to_a_full_disk_is_an_error),
      IN_FOLDER(merging_adds_new_rows_and_duplicates_none),
      IN_FOLDER(a_scratch_store_is_no_file_and_can_be_copied_into_one),
      IN_FOLDER(columns_may_be_few_and_in_any_order),
      IN_FOLDER(an_invalid_line_is_named_and_no_row_of_the_input_is_kept),
      IN_FOLDER(a_text_too_long_is_refused_rather_than_truncated),
      IN_FOLDER(a_line_without_end_is_refused),
      IN_FOLDER(damaged_exports_give_errors_or_rows_and_never_a_crash),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
