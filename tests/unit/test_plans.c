/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of plans. Also built with the thread sanitizer (preset tsan). */
#include "test.h"

#include "runtime/device/plan.h"
#include "runtime/operation/key.h"

#include <headroom/plans.h>

#include <pthread.h>

#define THREADS 8
#define SHAPES 40 /* of threads that ask for more than a cache of 8 keeps */
#define ROUNDS 400

static hr_gemm gemm_of(int64_t m)
{
  hr_gemm g = hr_gemm_default();
  g.m = m, g.dtype = HR_FP32;
  return g;
}

static hr_plan *ask(hr_plans *plans, int64_t m)
{
  hr_plan *plan = NULL;
  hr_error error;
  hr_gemm g = gemm_of(m);
  assert_ok(hr_plans_gemm(plans, &g, &plan, &error), error);
  assert_int_equal(plan->problem.gemm.m, m);
  return plan;
}

static hr_plans *make_cache(hr_device **device, size_t capacity)
{
  hr_plans *plans = NULL;
  hr_error error;
  assert_ok(hr_device_open("reference", 0, device, &error), error);
  assert_ok(hr_plans_create(*device, capacity, &plans, &error), error);
  return plans;
}

static void free_cache(hr_device *device, hr_plans *plans)
{
  hr_plans_free(plans);
  hr_device_close(device);
}

static void a_problem_has_one_plan(void **state)
{
  (void)state;
  hr_device *device;
  hr_plans *plans = make_cache(&device, 100);
  hr_plan *first = ask(plans, 3), *again = ask(plans, 3), *other = ask(plans, 4);
  assert_ptr_equal(first, again);
  assert_ptr_not_equal(first, other);
  hr_plans_counts counts = hr_plans_count(plans);
  assert_true(counts.made == 2 && counts.found == 1);
  hr_plan_free(first), hr_plan_free(again), hr_plan_free(other);
  free_cache(device, plans);
}

/* Garbage between the members of a caller's struct makes no other problem. */
static void bytes_between_members_do_not_count(void **state)
{
  (void)state;
  hr_problem_key keys[2];
  for (int i = 0; i < 2; i++) {
    hr_problem problem;
    memset(&problem, i ? 0xA5 : 0, sizeof problem);
    problem.operation = HR_OPERATION_ATTENTION;
    hr_attention a = hr_attention_default();
    size_t count;
    const hr_problem_member *members = hr_problem_members(problem.operation, &count);
    for (size_t k = 0; k < count; k++)
      memcpy((char *)&problem.attention + members[k].offset, (char *)&a + members[k].offset, members[k].size);
    hr_problem_key_of(&problem, &keys[i]);
  }
  assert_true(hr_problem_keys_equal(&keys[0], &keys[1]));
}

/* Bytes between members are never 8 in a row, so that a member that is missing from the lists is found. */
static void every_member_of_a_problem_is_part_of_its_key(void **state)
{
  (void)state;
  static const size_t sizes[HR_OPERATION_COUNT] = {[HR_OPERATION_GEMM] = sizeof(hr_gemm),
                                                   [HR_OPERATION_ATTENTION] = sizeof(hr_attention),
                                                   [HR_OPERATION_ROWWISE] = sizeof(hr_rowwise),
                                                   [HR_OPERATION_DECODE] = sizeof(hr_decode),
                                                   [HR_OPERATION_ATTENTION_BACKWARD] = sizeof(hr_backward)};
  for (int operation = 0; operation < HR_OPERATION_COUNT; operation++) {
    bool covered[sizeof(hr_problem)] = {false};
    size_t count, run = 0;
    const hr_problem_member *members = hr_problem_members((hr_operation)operation, &count);
    assert_true(count < HR_KEY_WORDS);
    memset(covered, true, sizeof(size_t)); /* struct_size, and that of the options of gradients */
    memset(covered + offsetof(hr_backward, options), operation == HR_OPERATION_ATTENTION_BACKWARD, sizeof(size_t));
    for (size_t i = 0; i < count; i++) {
      hr_problem_key before, after;
      hr_problem problem = {.operation = (hr_operation)operation};
      hr_problem_key_of(&problem, &before);
      ((char *)&problem.gemm)[members[i].offset] = 1;
      hr_problem_key_of(&problem, &after);
      assert_false(hr_problem_keys_equal(&before, &after));
      memset(covered + members[i].offset, true, members[i].size);
    }
    for (size_t at = 0; at < sizes[operation]; at++) {
      run = covered[at] ? 0 : run + 1;
      if (run == 8)
        fail_msg("%s: the member at byte %zu is not in the list", hr_operation_name((hr_operation)operation), at - 7);
    }
  }
}

static void the_plan_asked_for_longest_ago_goes_first_and_lives_on_with_its_owner(void **state)
{
  (void)state;
  hr_device *device;
  hr_plans *plans = make_cache(&device, 8); /* one set of eight places */
  hr_plan *kept = ask(plans, 1);
  for (int64_t m = 2; m <= 8; m++)
    hr_plan_free(ask(plans, m));
  hr_plan_free(ask(plans, 2)); /* so that 3 was asked for before 2 */
  hr_plan_free(ask(plans, 9)); /* 1 goes */
  hr_plan_free(ask(plans, 10));
  hr_plans_counts counts = hr_plans_count(plans);
  assert_true(counts.made == 10);
  hr_plan_free(ask(plans, 2));
  assert_int_equal(hr_plans_count(plans).made, 10);
  hr_plan *anew = ask(plans, 1);
  assert_int_equal(hr_plans_count(plans).made, 11);
  assert_int_equal(kept->problem.gemm.m, 1); /* read after it was replaced */
  assert_string_equal(hr_plan_kernel(kept), "gemm_reference");
  hr_plan_free(anew);
  hr_plans_free(plans);
  assert_int_equal(kept->problem.gemm.m, 1);
  hr_plan_free(kept);
  hr_device_close(device);
}

static void refused_problems_are_not_kept(void **state)
{
  (void)state;
  hr_device *device;
  hr_plans *plans = make_cache(&device, 8);
  hr_plan *plan = NULL;
  hr_error error;
  hr_gemm g = gemm_of(0);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(hr_plans_gemm(plans, &g, &plan, &error), HR_ERROR_INVALID);
    assert_string_equal(error.message, "m: expected at least 1, found 0");
  }
  assert_null(plan);
  assert_true(hr_plans_count(plans).made == 0);
  assert_int_equal(hr_plans_create(device, 0, &plans, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "capacity: expected 1 to 1048576, found 0");
  free_cache(device, plans);
}

static void *ask_often(void *argument)
{
  hr_plans *plans = argument;
  hr_plan *held[4] = {NULL};
  uint64_t random = (uint64_t)(uintptr_t)&held;
  for (int i = 0; i < ROUNDS; i++) {
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407u; /* Knuth, MMIX */
    int64_t m = 1 + (int64_t)((random >> 33) % SHAPES);
    hr_plan_free(held[i % 4]);
    held[i % 4] = ask(plans, m);
  }
  for (int i = 0; i < 4; i++) {
    assert_string_equal(hr_plan_kernel(held[i]), "gemm_reference");
    hr_plan_free(held[i]);
  }
  return NULL;
}

static void threads_get_the_plans_that_they_ask_for_while_others_are_replaced(void **state)
{
  (void)state;
  hr_device *device;
  hr_plans *plans = make_cache(&device, 8);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, ask_often, plans), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  hr_plans_counts counts = hr_plans_count(plans);
  assert_true(counts.made > SHAPES && counts.made + counts.found <= THREADS * ROUNDS);
  free_cache(device, plans);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_problem_has_one_plan),
      cmocka_unit_test(bytes_between_members_do_not_count),
      cmocka_unit_test(every_member_of_a_problem_is_part_of_its_key),
      cmocka_unit_test(the_plan_asked_for_longest_ago_goes_first_and_lives_on_with_its_owner),
      cmocka_unit_test(refused_problems_are_not_kept),
      cmocka_unit_test(threads_get_the_plans_that_they_ask_for_while_others_are_replaced),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
