/* SPDX-License-Identifier: Apache-2.0 */
/* The expressions of sweep files. */
#include "test.h"

#include "experiment/sweep/expression.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {"a", "head_dim", "power"};
static const int64_t values[] = {20, 72, 8};

static int64_t value_of(const char *text)
{
  hr_expression expression;
  char why[HR_EXPRESSION_WHY_SIZE] = "";
  int64_t value = 0;
  if (hr_expression_parse(text, names, 3, &expression, why) != HR_OK ||
      hr_expression_value(&expression, values, &value, why) != HR_OK)
    fail_msg("%s: %s", text, why);
  return value;
}

static void assert_refused(const char *text, hr_status status, const char *message)
{
  hr_expression expression;
  char why[HR_EXPRESSION_WHY_SIZE] = "";
  int64_t value = 77;
  hr_status found = hr_expression_parse(text, names, 3, &expression, why);
  if (found == HR_OK)
    found = hr_expression_value(&expression, values, &value, why);
  assert_string_equal(why, message);
  assert_int_equal(found, status);
  assert_int_equal(value, 77);
}

static void multiplication_binds_before_addition_and_both_associate_to_the_left(void **state)
{
  (void)state;
  assert_int_equal(value_of("2 + 3 * 4"), 14);
  assert_int_equal(value_of("(2 + 3) * 4"), 20);
  assert_int_equal(value_of("100 - 10 - 1"), 89);
  assert_int_equal(value_of("100 / 7 * 7"), 98); /* 14 · 7 */
  assert_int_equal(value_of("100 % 7 * 2"), 4);  /* 2 · 2 */
  assert_int_equal(value_of("-2 * 3 + 10"), 4);
  assert_int_equal(value_of("2 - (-3)"), 5);
  assert_int_equal(value_of(" ( ( 7 ) ) "), 7);
}

static void names_have_the_values_of_their_axes(void **state)
{
  (void)state;
  assert_int_equal(value_of("a * head_dim"), 1440); /* 20 · 72 */
  assert_int_equal(value_of("32768 / a"), 1638);    /* 1638.4, truncated */
  /* The step of the figures from a = 64 on: twice the power of two, or 64 for 64. */
  assert_int_equal(value_of("2 * power - power / 64 * 64"), 16);
  hr_expression expression;
  char why[HR_EXPRESSION_WHY_SIZE];
  assert_int_equal(hr_expression_parse("power + a", names, 3, &expression, why), HR_OK);
  assert_int_equal(expression.uses, 1 << 2 | 1 << 0);
}

static void division_truncates_towards_zero(void **state)
{
  (void)state;
  assert_int_equal(value_of("(-7) / 2"), -3);
  assert_int_equal(value_of("(-7) % 2"), -1);
}

static void a_result_that_does_not_fit_is_an_overflow_and_never_wraps_around(void **state)
{
  (void)state;
  assert_int_equal(value_of("9223372036854775807"), INT64_MAX);
  assert_refused("9223372036854775808", HR_ERROR_INVALID, "has a number that does not fit into 64 bits");
  assert_refused("9223372036854775807 + 1", HR_ERROR_OVERFLOW, "9223372036854775807 + 1 does not fit into 64 bits");
  assert_refused("4294967296 * 4294967296", HR_ERROR_OVERFLOW, "4294967296 * 4294967296 does not fit into 64 bits");
  assert_refused("-9223372036854775807 - 2", HR_ERROR_OVERFLOW, "-9223372036854775807 - 2 does not fit into 64 bits");
  /* −2^63 / −1 is 2^63. */
  assert_refused("(-9223372036854775807 - 1) / (-1)", HR_ERROR_OVERFLOW,
                 "-9223372036854775808 / -1 does not fit into 64 bits");
  assert_refused("(-9223372036854775807 - 1) % (-1)", HR_ERROR_OVERFLOW,
                 "-9223372036854775808 % -1 does not fit into 64 bits");
}

static void division_by_zero_is_refused(void **state)
{
  (void)state;
  assert_refused("5 / 0", HR_ERROR_INVALID, "5 / 0: division by zero");
  assert_refused("5 % (a - 20)", HR_ERROR_INVALID, "5 % 0: division by zero");
}

static void an_unknown_axis_is_refused(void **state)
{
  (void)state;
  assert_refused("a * heads", HR_ERROR_INVALID, "there is no axis \"heads\"");
  assert_refused("head", HR_ERROR_INVALID, "there is no axis \"head\""); /* a prefix of an axis name */
  assert_refused("head_dim2", HR_ERROR_INVALID, "there is no axis \"head_dim2\"");
}

static void an_invalid_expression_is_refused_with_the_position_of_the_error(void **state)
{
  (void)state;
  assert_refused("", HR_ERROR_INVALID, "expected a number, a name or \"(\" at its end");
  assert_refused("2 *", HR_ERROR_INVALID, "expected a number, a name or \"(\" at its end");
  assert_refused("2 3", HR_ERROR_INVALID, "expected an operator at \"3\"");
  assert_refused("* 3", HR_ERROR_INVALID, "expected a number, a name or \"(\" at \"* 3\"");
  assert_refused("(2", HR_ERROR_INVALID, "expected \")\" or an operator at its end");
  assert_refused("2)", HR_ERROR_INVALID, "expected an operator at \")\"");
  assert_refused("2 ** 3", HR_ERROR_INVALID, "expected a number, a name or \"(\" at \"* 3\"");
  assert_refused("1.5", HR_ERROR_INVALID, "expected an operator at \".5\"");
  assert_refused("0x10", HR_ERROR_INVALID, "expected an operator at \"x10\"");
  assert_refused("a\n", HR_ERROR_INVALID, "expected an operator at \"\n\"");
  assert_refused("A", HR_ERROR_INVALID, "expected a number, a name or \"(\" at \"A\"");
  assert_refused("system(1)", HR_ERROR_INVALID, "there is no axis \"system\"");
}

static void length_and_depth_have_limits(void **state)
{
  (void)state;
  char text[512] = "1";
  for (int i = 0; i < 23; i++)
    strcat(text, "+1"); /* 24 numbers and 23 operators: 47 steps of 48 */
  assert_int_equal(value_of(text), 24);
  strcat(text, "+1");
  assert_refused(text, HR_ERROR_INVALID, "is too long: more than 48 numbers, names and operators");

  char deep[128];
  snprintf(deep, sizeof deep, "%.24s7%.24s", "((((((((((((((((((((((((", "))))))))))))))))))))))))");
  assert_int_equal(value_of(deep), 7);
  snprintf(deep, sizeof deep, "%.25s7", "(((((((((((((((((((((((((");
  assert_refused(deep, HR_ERROR_INVALID, "has more than 24 nested brackets");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(multiplication_binds_before_addition_and_both_associate_to_the_left),
      cmocka_unit_test(names_have_the_values_of_their_axes),
      cmocka_unit_test(division_truncates_towards_zero),
      cmocka_unit_test(a_result_that_does_not_fit_is_an_overflow_and_never_wraps_around),
      cmocka_unit_test(division_by_zero_is_refused),
      cmocka_unit_test(an_unknown_axis_is_refused),
      cmocka_unit_test(an_invalid_expression_is_refused_with_the_position_of_the_error),
      cmocka_unit_test(length_and_depth_have_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
