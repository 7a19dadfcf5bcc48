/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/error.h"
#include "base/names.h"

static void a_message_cannot_contain_control_characters(void **state)
{
  (void)state;
  hr_error error;
  hr_fail(&error, HR_ERROR_INVALID,
          "mlp: found \"gel\x7f\x1b[2J\r\n\xc2\x9b"
          "2J\" in modèle");
  assert_string_equal(error.message, "mlp: found \"gel??[2J???2J\" in modèle");
  hr_fail(&error, HR_ERROR_INVALID, "gpt\u202E2\u2028"); /* right to left, a line separator */
  assert_string_equal(error.message, "gpt?2?");
}

static void invalid_utf8_is_replaced(void **state)
{
  (void)state;
  const char *const texts[][2] = {
      {"a\xc2\"b", "a?\"b"},                          /* the second byte is missing */
      {"\xfb\xa1\xa1\xa1", "????"},                   /* its low bits would make a first byte of four */
      {"a\xff\xfe", "a??"},                           /* begin no character */
      {"a\xc0\xae.", "a??."},                         /* a full stop in two bytes */
      {"a\xed\xa0\x80.", "a???."},                    /* half of a surrogate pair */
      {"a\xf4\x90\x80\x80.", "a????."},               /* beyond U+10FFFF */
      {"\xbb.", "?."},                                /* begins in the middle */
      {"\xf0\x9f\x98\x80 ok", "\xf0\x9f\x98\x80 ok"}, /* four bytes, unchanged */
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char text[16];
    hr_copy_text(text, sizeof text, texts[i][0]);
    assert_string_equal(text, texts[i][1]);
  }
}

static void a_text_too_long_ends_with_a_whole_character(void **state)
{
  (void)state;
  char text[6];
  hr_copy_text(text, sizeof text, "abcdèf"); /* è is two bytes, of which one would fit */
  assert_string_equal(text, "abcd");
  hr_copy_text(text, sizeof text, "abcè");
  assert_string_equal(text, "abcè");
  hr_copy_text(text, sizeof text,
               "ab\xe2\x82\xac"
               "c"); /* a euro sign is three */
  assert_string_equal(text, "ab\xe2\x82\xac");
  hr_copy_text(text, sizeof text, "abc\xe2\x82\xac");
  assert_string_equal(text, "abc");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_message_cannot_contain_control_characters),
      cmocka_unit_test(invalid_utf8_is_replaced),
      cmocka_unit_test(a_text_too_long_ends_with_a_whole_character),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
