/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions of module names, and the work that patterns take. */
#include "test.h"

#include "model/config/quantization/module_expression.h"
#include "model/config/quantization/module_patterns.h"

#include <inttypes.h>
#include <string.h>

#define LAYERS 100

static bool matches(const char *text, hr_ending ending, const char *name)
{
  hr_module_expression expression;
  hr_matching matching;
  int64_t work = 0;
  if (!hr_compile_expression(text, ending, &expression))
    fail_msg("%s is not compiled", text);
  hr_matching_begin(&matching, &expression, &work);
  return hr_matching_ends(&matching, name);
}

static void expressions_match_the_beginning_of_a_name_as_in_python(void **state)
{
  (void)state;
  const struct {
    const char *text, *name;
    bool found;
  } rows[] = {
      {"", "a", true},
      {"a", "ab", true},
      {"b", "ab", false},
      {"ab$", "abc", false},
      {"ab$", "ab", true},
      {"^ab|^b", "b", true},
      {"a^b", "ab", false},
      {"a$b", "ab", false},
      {"(a|b)*c", "abbac", true},
      {"(a|b)*c$", "abba", false},
      {"(ab)+$", "abab", true},
      {"(ab)+$", "aba", false},
      {"(?:ab)?c", "c", true},
      {"(a*)*b", "aaab", true},
      {"(a*)*b", "aaa", false},
      {"a|bc|d$", "bcx", true},
      {"(a|b|)c", "c", true},
      {".*?x", "aax", true},
      {"[^.]+\\.b", "aa.b", true},
      {"[^.]+\\.b", "a.a.b", false},
      {"[\\w.]+$", "a_9.b", true},
      {"[\\d-]+$", "1-2", true},
      {"[]a]+$", "a]", true},
      {"[a-c]+$", "abcd", false},
      {"\\d\\d", "1a", false},
      {"((a|b)(c|d)?)+$", "acbad", true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (matches(rows[i].text, HR_ENDS_ANYWHERE, rows[i].name) != rows[i].found)
      fail_msg("%s on %s", rows[i].text, rows[i].name);
  }
}

static void wildcards_match_whole_modules(void **state)
{
  (void)state;
  assert_true(matches("a.*c", HR_ENDS_AT_MODULES, "abc"));
  assert_true(matches("a.*c", HR_ENDS_AT_MODULES, "abc.d"));
  assert_false(matches("a.*c", HR_ENDS_AT_MODULES, "abcd"));
  assert_false(matches("abc", HR_ENDS_AT_MODULES, "abcd"));
}

static void expressions_with_other_syntax_are_not_compiled(void **state)
{
  (void)state;
  const char *const texts[] = {"a{2}", "(?!a)", "(a", "a)", "*a", "a**", "a*+", "[a", "\\b", "\\", "(*a)", "a|*"};
  hr_module_expression expression;
  char longest[HR_EXPRESSION_LENGTH + 2];
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    if (hr_compile_expression(texts[i], HR_ENDS_ANYWHERE, &expression))
      fail_msg("%s is compiled", texts[i]);
  }
  memset(longest, '|', sizeof longest);
  longest[HR_EXPRESSION_LENGTH] = '\0';
  assert_true(hr_compile_expression(longest, HR_ENDS_ANYWHERE, &expression));
  assert_int_equal(expression.count, HR_EXPRESSION_SIZE); /* two instructions each, and one that accepts */
  longest[HR_EXPRESSION_LENGTH] = 'a';
  longest[HR_EXPRESSION_LENGTH + 1] = '\0';
  assert_false(hr_compile_expression(longest, HR_ENDS_ANYWHERE, &expression));
}

/* Names the modules of `count` equal patterns; the work, or -1 where it is refused. */
static int64_t work_of(const char *pattern, int count)
{
  hr_linear_set linears[LAYERS] = {0};
  hr_named_modules named = {.layers = LAYERS, .linears = linears};
  hr_error error;
  for (int i = 0; i < count; i++) {
    if (hr_name_modules(pattern, &named, &error) != HR_OK) {
      assert_non_null(strstr(error.message, "Headroom's limit"));
      return -1;
    }
  }
  return named.work;
}

/* No name begins with a, b, c or d: each of the 4 prefixes and 4 names of logits ends at its first character. The
 * beginning has 3 splits, 3 jumps and 4 atoms, so that 8 names are at most 8 · 2 · 10 of work, and a layer 4. */
static void alternatives_that_no_name_begins_with_cost_little(void **state)
{
  (void)state;
  int64_t work = work_of("re:(a|b|c|d)(a|b|c|d)(a|b|c|d).*0", 1);
  assert_true(work > 0 && work <= 8 * 2 * 10 + 4 * LAYERS);
  assert_true(work_of("re:(a|b|c|d)(a|b|c|d)(a|b|c|d).*0", 40) == 40 * work);
}

/* A state is looked at with each character of at most 66 names of a layer, 50 characters long, for each prefix. */
static void the_work_of_a_pattern_is_at_most_states_times_characters(void **state)
{
  (void)state;
  int64_t work = work_of("re:.*mlp.gate$", 1), most = (int64_t)LAYERS * 4 * 66 * 50;
  assert_true(work > LAYERS && work < 8 * most);
  assert_true(work_of("re:.*mlp.gate$", 10) == 10 * work);
}

static void patterns_that_take_too_much_work_are_refused(void **state)
{
  (void)state;
  char stars[101];
  for (int i = 0; i < 50; i++)
    memcpy(stars + 2 * i, "*a", 3);
  assert_int_equal(work_of(stars, 400), -1);
  assert_int_equal(work_of("re:(.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*)*Z", 10), -1);
}

static void layers_that_a_name_numbers_are_named_alone(void **state)
{
  (void)state;
  hr_linear_set linears[LAYERS] = {0};
  hr_named_modules named = {.layers = LAYERS, .linears = linears};
  hr_error error;
  assert_ok(hr_name_modules("model.layers.7.mlp", &named, &error), error);
  assert_ok(hr_name_modules("model.layers.100", &named, &error), error);
  for (int i = 0; i < LAYERS; i++)
    assert_int_equal(linears[i] >> HR_LINEAR_UP & 1, i == 7);
  assert_int_equal(linears[7] >> HR_LINEAR_Q & 1, 0);
  assert_false(named.logit);
  assert_ok(hr_name_modules("lm_head", &named, &error), error);
  assert_true(named.logit);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(expressions_match_the_beginning_of_a_name_as_in_python),
      cmocka_unit_test(wildcards_match_whole_modules),
      cmocka_unit_test(expressions_with_other_syntax_are_not_compiled),
      cmocka_unit_test(alternatives_that_no_name_begins_with_cost_little),
      cmocka_unit_test(the_work_of_a_pattern_is_at_most_states_times_characters),
      cmocka_unit_test(patterns_that_take_too_much_work_are_refused),
      cmocka_unit_test(layers_that_a_name_numbers_are_named_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
