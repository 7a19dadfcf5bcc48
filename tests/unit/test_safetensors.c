/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of safetensors files and indexes in memory: what is read, and what is refused before memory is taken. */
#include "test.h"

#include "model/checkpoint/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static hr_error error;

/* Feeds a file of `file_bytes` that begins with the length and the header, in pieces of so many bytes. */
static hr_status read_header(const char *header, uint64_t length, int64_t file_bytes, size_t piece, hr_checkpoint *sums)
{
  hr_checkpoint_reader *reader = hr_checkpoint_reader_new();
  assert_non_null(reader);
  assert_int_equal(hr_checkpoint_add_file(reader, "model.safetensors", &error), HR_OK);
  hr_checkpoint_header_begin(reader, 0, "model.safetensors", file_bytes);
  char start[8];
  for (int i = 0; i < 8; i++)
    start[i] = (char)(length >> 8 * i & 0xff);
  hr_status status = hr_checkpoint_header_feed(reader, start, file_bytes < 8 ? (size_t)file_bytes : 8, &error);
  size_t left = strlen(header);
  for (const char *at = header; status == HR_OK && left > 0; at += piece) {
    size_t count = left < piece ? left : piece;
    status = hr_checkpoint_header_feed(reader, at, count, &error);
    left -= count;
    if (left == 0)
      break;
  }
  if (status == HR_OK)
    status = hr_checkpoint_header_end(reader, &error);
  if (status == HR_OK)
    *sums = hr_checkpoint_sums(reader);
  hr_checkpoint_reader_free(reader);
  return status;
}

/* A file with this header and so many bytes of tensors. */
static hr_status read_file(const char *header, int64_t data_bytes, hr_checkpoint *sums)
{
  uint64_t length = strlen(header);
  return read_header(header, length, 8 + (int64_t)length + data_bytes, length + 1, sums);
}

#define T(name, dtype, shape, from, to) \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

static void a_header_gives_tensors_elements_and_bytes_by_format(void **state)
{
  (void)state;
  hr_checkpoint sums;
  static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"}," T("a.weight", "BF16", "[3,4]", "0", "24") "," T(
      "b", "F32", "[]", "24", "28") "," T("c", "F8_E4M3", "[2,0]", "28", "28") "," T("d", "F4", "[6]", "28",
                                                                                     "31") "}   ";
  assert_ok(read_file(header, 31, &sums), error);
  assert_int_equal(sums.files, 1);
  assert_int_equal(sums.tensors, 4);
  assert_int_equal(sums.elements, 12 + 1 + 0 + 6);
  assert_int_equal(sums.bytes, 31);
  assert_int_equal(sums.format_bytes[HR_TENSOR_BF16], 24);
  assert_int_equal(sums.format_elements[HR_TENSOR_FP4], 6);
  assert_int_equal(sums.format_tensors[HR_TENSOR_FP8_E4M3], 1);
  assert_int_equal(sums.part_elements[HR_CHECKPOINT_WEIGHTS], 19);
  for (size_t piece = 1; piece < sizeof header; piece++) { /* however its bytes come */
    hr_checkpoint again;
    assert_ok(read_header(header, strlen(header), 8 + (int64_t)strlen(header) + 31, piece, &again), error);
    assert_memory_equal(&again, &sums, sizeof sums);
  }
}

static void a_file_without_tensors_is_whole(void **state)
{
  (void)state;
  hr_checkpoint sums;
  assert_ok(read_file("{}", 0, &sums), error);
  assert_int_equal(sums.tensors, 0);
  assert_ok(read_file(" { \"__metadata__\" : { } } \n", 0, &sums), error);
}

static void the_order_of_the_entries_does_not_matter(void **state)
{
  (void)state;
  hr_checkpoint sums;
  assert_ok(read_file("{" T("b", "U8", "[4]", "8", "12") "," T("a", "F16", "[4]", "0", "8") "}", 12, &sums), error);
  assert_int_equal(sums.bytes, 12);
}

#define ONE T("a", "U8", "[2]", "0", "2")
#define HUGE_ENTRY T("a", "F64", "[4611686018427387904,4]", "0", "8")

static void hostile_headers_are_refused_in_one_line(void **state)
{
  (void)state;
  static const struct {
    const char *header;
    int64_t data_bytes;
    const char *message;
  } cases[] = {
      /* not JSON, or not an object of objects */
      {"", 0, "byte 0 of the JSON: it ends before the object does"},
      {"[]", 0, "byte 0 of the JSON: expected an object"},
      {"7", 0, "byte 0 of the JSON: expected an object"},
      {"{", 0, "byte 1 of the JSON: it ends before"},
      {"{" ONE, 2, "it ends before the object does"},
      {"{" ONE ",}", 2, "expected a member"},
      {"{," ONE "}", 2, "expected a member"},
      {"{" ONE "}{}", 2, "the object has ended"},
      {"{" ONE "]", 2, "unexpected closing bracket"},
      {"{" ONE " " ONE "}", 2, "of the JSON: "},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2},\"data_offsets\":[0,2]]}", 2, "of the JSON: "},
      {"{\"a\":[]}", 0, "a: expected an object"},
      {"{\"a\":null}", 0, "a: expected an object"},
      {"{\"a\":{}}", 0, "a: dtype: is missing"},
      {"{\"\xff\":{}}", 0, "of the JSON: unable to decode byte 0xff"},
      {"{\"a\\ud800\":{}}", 0, "of the JSON: invalid Unicode"},
      {"{\"a\\u0000\":{}}", 0, "of the JSON: "},
      {"{\"a\":{\"b\":{\"c\":{}}}}", 0, "byte 15 of the JSON: nested too deep"},
      {"{\"a\":[[[[[[[[[[[[[[", 0, "nested too deep"},
      {"{\"__metadata__\":[]}", 0, "__metadata__: expected an object of strings"},
      {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__: expected an object of strings"},
      /* names */
      {"{" ONE "," T("a", "U8", "[1]", "2", "3") "}", 3, "a: is given twice"},
      {"{" ONE "," T("\\u0061", "U8", "[1]", "2", "3") "}", 3, "a: is given twice"},
      {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "duplicate object key"},
      /* formats and shapes */
      {"{" T("a", "F17", "[2]", "0", "2") "}", 2, "a: dtype: \"F17\" is not a safetensors dtype"},
      {"{" T("a", "bf16", "[1]", "0", "2") "}", 2, "a: dtype: \"bf16\""},
      {"{\"a\":{\"dtype\":8,\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "a: dtype: expected a string, found 8"},
      {"{" T("a", "U8", "2", "0", "2") "}", 2, "a: shape: expected a list of integers, found 2"},
      {"{" T("a", "U8", "[-2]", "0", "2") "}", 2, "a: shape: expected integers of at least 0, found -2"},
      {"{" T("a", "U8", "[2.0]", "0", "2") "}", 2, "a: shape: expected integers of at least 0, found 2.0"},
      {"{" T("a", "U8", "[\"2\"]", "0", "2") "}", 2, "a: shape: expected integers of at least 0, found \"2\""},
      {"{" T("a", "U8", "[9223372036854775808]", "0", "2") "}", 2, "too big integer"},
      {"{" T("a", "U8", "[1e400]", "0", "2") "}", 2, "real number overflow"},
      {"{" HUGE_ENTRY "}", 8, "a: shape: its elements do not fit into 63 bits"},
      {"{" T("a", "U8", "[4294967296,4294967296,0]", "0", "0") "}", 0, "do not fit into 63 bits"},
      {"{" T("a", "F64", "[1152921504606846976]", "0", "8") "}", 8, "do not fit into 63 bits"},
      {"{" T("a", "F4", "[3]", "0", "2") "}", 2, "a: shape: 3 elements of 4 bits are not a whole number of bytes"},
      /* places */
      {"{" T("a", "U8", "[2]", "0", "3") "}", 2, "a: data_offsets: 0 to 3 is outside of the file's 2 bytes"},
      {"{" T("a", "U8", "[2]", "2", "0") "}", 2, "a: data_offsets: 2 to 0 is outside"},
      {"{" T("a", "U8", "[2]", "-2", "0") "}", 2, "a: data_offsets: expected integers of at least 0, found -2"},
      {"{" T("a", "U8", "[2]", "0", "9223372036854775807") "}", 2, "is outside of the file's 2 bytes"},
      {"{" T("a", "U16", "[2]", "0", "2") "}", 2, "a: data_offsets: 2 bytes, but its shape takes 4"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0]}}", 2, "expected two integers, found 1"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,1,2]}}", 2, "expected two integers, found 3"},
      {"{" ONE "," T("b", "U8", "[2]", "1", "3") "}", 3, "two tensors overlap at byte 1"},
      {"{" ONE "," T("b", "U8", "[2]", "0", "2") "}", 2, "two tensors overlap at byte 0"},
      {"{" ONE "," T("b", "U8", "[1]", "3", "4") "}", 4, "byte 2 of its 4 bytes of tensors belongs to no tensor"},
      {"{" T("b", "U8", "[1]", "1", "2") "}", 2, "byte 0 of its 2 bytes of tensors belongs to no tensor"},
      {"{" ONE "}", 3, "byte 2 of its 3 bytes of tensors belongs to no tensor"},
      {"{}", 1, "byte 0 of its 1 bytes of tensors belongs to no tensor"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_checkpoint sums = {.files = -1};
    hr_status status = read_file(cases[i].header, cases[i].data_bytes, &sums);
    if (status == HR_OK || !strstr(error.message, cases[i].message) || strchr(error.message, '\n'))
      fail_msg("%s: expected \"%s\", found \"%s\"", cases[i].header, cases[i].message,
               status == HR_OK ? "no error" : error.message);
    assert_int_equal(strncmp(error.message, "model.safetensors: ", 19), 0);
    assert_int_equal(sums.files, -1);
  }
}

static void lengths_that_the_file_does_not_have_are_refused(void **state)
{
  (void)state;
  static const struct {
    uint64_t length;
    int64_t file_bytes;
    const char *message;
  } cases[] = {
      {0, 0, "is truncated: 0 bytes without a whole header"},
      {2, 7, "is truncated: 7 bytes without a whole header"},
      {2, 9, "is truncated: its header has 2 bytes, the file 9"},
      {100000000, 100000007, "is truncated: its header has 100000000 bytes"},
      {100000001, INT64_MAX, "its header would have 100000001 bytes, and the format's limit is 100000000"},
      {UINT64_C(1) << 63, INT64_MAX, "its header would have 9223372036854775808 bytes"},
      {UINT64_MAX, INT64_MAX, "its header would have 18446744073709551615 bytes"},
      {0, 8, "byte 0 of the JSON: it ends before the object does"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_checkpoint sums;
    assert_int_equal(read_header("", cases[i].length, cases[i].file_bytes, 1, &sums), HR_ERROR_UNREADABLE);
    if (!strstr(error.message, cases[i].message))
      fail_msg("expected \"%s\", found \"%s\"", cases[i].message, error.message);
  }
}

static void a_member_beyond_a_mebibyte_is_refused(void **state)
{
  (void)state;
  hr_checkpoint sums;
  size_t length = (size_t)2 << 20;
  char *header = malloc(length + 1);
  assert_non_null(header);
  memset(header, 'x', length);
  memcpy(header, "{\"", 2);
  header[length] = '\0';
  assert_int_equal(read_file(header, 0, &sums), HR_ERROR_UNREADABLE);
  assert_non_null(strstr(error.message, "byte 1 of the JSON: a member of more than 1 MiB"));
  free(header);
}

static void a_pointer_of_git_lfs_is_named_as_one(void **state)
{
  (void)state;
  hr_checkpoint sums;
  uint64_t length = 0;
  memcpy(&length, "version ", 8);
  assert_int_equal(read_header("https://git-lfs", length, 135, 64, &sums), HR_ERROR_NOT_FOUND);
  assert_non_null(strstr(error.message, "is a Git LFS pointer, not the weights"));
}

/* ---- the index ---- */

static hr_status read_index(const char *text, hr_checkpoint_reader *reader)
{
  hr_checkpoint_index_begin(reader, "model.safetensors.index.json");
  hr_status status = hr_checkpoint_index_feed(reader, text, strlen(text), &error);
  return status == HR_OK ? hr_checkpoint_index_end(reader, &error) : status;
}

static void an_index_names_its_files_once_each(void **state)
{
  (void)state;
  hr_checkpoint_reader *reader = hr_checkpoint_reader_new();
  assert_ok(read_index("{\"metadata\":{\"total_size\":7},\n\"weight_map\" : {\"a\":\"m-1.safetensors\",\"b\":"
                       "\"m-2.safetensors\", \"c\":\"m-1.safetensors\"}\n}",
                       reader),
            error);
  assert_int_equal(reader->file_count, 2);
  assert_string_equal(reader->files[0], "m-1.safetensors");
  assert_string_equal(reader->files[1], "m-2.safetensors");
  assert_true(hr_checkpoint_lacks_tensors(reader)); /* no header was read */
  hr_checkpoint_reader_free(reader);
}

static void hostile_indexes_are_refused_in_one_line(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
      {"{}", "weight_map: is missing or empty"},
      {"{\"weight_map\":{}}", "weight_map: is missing or empty"},
      {"{\"weight_map\":[]}", "weight_map: expected an object, found a list"},
      {"{\"weight_map\":{\"a\":1}}", "weight_map: a: expected the name of a .safetensors file"},
      {"{\"weight_map\":{\"a\":\"../m.safetensors\"}}", "a: expected the name of a .safetensors file"},
      {"{\"weight_map\":{\"a\":\"/etc/m.safetensors\"}}", "a: expected the name of a .safetensors file"},
      {"{\"weight_map\":{\"a\":\"b/m.safetensors\"}}", "a: expected the name of a .safetensors file"},
      {"{\"weight_map\":{\"a\":\".safetensors\"}}", "a: expected the name of a .safetensors file"},
      {"{\"weight_map\":{\"a\":\"m.bin\"}}", "a: expected the name of a .safetensors file"},
      {"{\"weight_map\":{\"a\":\"m\\n.safetensors\"}}", "a: expected the name of a .safetensors file"},
      {"{\"weight_map\":{\"a\":\"m.safetensors\",\"a\":\"m.safetensors\"}}", "weight_map: a: is given twice"},
      {"{\"weight_map\":{\"a\":\"m.safetensors\"},\"weight_map\":{}}", "weight_map: is given twice"},
      {"{\"weight_map\":{\"a\":\"m.safetensors\",}}", "expected a member"},
      {"{\"weight_map\":{\"a\":\"m.safetensors\"} \"b\":1}", "expected ',' or '}'"},
      {"{\"weight_map\":{\"a\":\"m.safetensors\"}", "it ends before the object does"},
      {"{\"weight_map\":{\"a\":\"m.safetensors\"]}", "unexpected closing bracket"},
      {"{\"weight_map\":{\"a\":{\"b\":{\"c\":{\"d\":1}}}}}", "nested too deep"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_checkpoint_reader *reader = hr_checkpoint_reader_new();
    hr_status status = read_index(cases[i][0], reader);
    if (status != HR_ERROR_UNREADABLE || !strstr(error.message, cases[i][1]))
      fail_msg("%s: expected \"%s\", found \"%s\"", cases[i][0], cases[i][1],
               status == HR_OK ? "no error" : error.message);
    hr_checkpoint_reader_free(reader);
  }
}

static void an_index_of_too_many_files_is_refused(void **state)
{
  (void)state;
  hr_checkpoint_reader *reader = hr_checkpoint_reader_new();
  hr_status status = HR_OK;
  hr_checkpoint_index_begin(reader, "index");
  assert_ok(hr_checkpoint_index_feed(reader, "{\"weight_map\":{", 15, &error), error);
  for (int i = 0; i <= HR_SHARDS_MAX && status == HR_OK; i++) {
    char entry[64];
    int length = snprintf(entry, sizeof entry, "\"%d\":\"%d.safetensors\",", i, i);
    status = hr_checkpoint_index_feed(reader, entry, (size_t)length, &error);
  }
  assert_int_equal(status, HR_ERROR_UNREADABLE);
  assert_string_equal(error.message, "index: refers to more than 4096 files");
  hr_checkpoint_reader_free(reader);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_header_gives_tensors_elements_and_bytes_by_format),
      cmocka_unit_test(a_file_without_tensors_is_whole),
      cmocka_unit_test(the_order_of_the_entries_does_not_matter),
      cmocka_unit_test(hostile_headers_are_refused_in_one_line),
      cmocka_unit_test(lengths_that_the_file_does_not_have_are_refused),
      cmocka_unit_test(a_member_beyond_a_mebibyte_is_refused),
      cmocka_unit_test(a_pointer_of_git_lfs_is_named_as_one),
      cmocka_unit_test(an_index_names_its_files_once_each),
      cmocka_unit_test(hostile_indexes_are_refused_in_one_line),
      cmocka_unit_test(an_index_of_too_many_files_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
