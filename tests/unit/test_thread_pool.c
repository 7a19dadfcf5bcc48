/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's thread pool: every share of the work is executed once, by whichever thread. */
#include "test.h"

#include "runtime/cpu/host/thread_pool.h"

#include <pthread.h>
#include <stdatomic.h>

#define SHARES 1000

typedef struct job {
  atomic_int next;
  atomic_int done[SHARES];
  atomic_int members; /* one bit for each thread that took part */
  hr_thread_pool *pool;
} job;

static void work(void *context, int member)
{
  job *j = context;
  atomic_fetch_or(&j->members, 1 << member);
  for (int i; (i = atomic_fetch_add(&j->next, 1)) < SHARES;)
    atomic_fetch_add(&j->done[i], 1);
}

static void assert_done_once(const job *j)
{
  for (int i = 0; i < SHARES; i++)
    assert_int_equal(j->done[i], 1);
}

static void every_share_is_done_once_with_any_number_of_threads(void **state)
{
  (void)state;
  for (int threads = 1; threads <= 7; threads += 2) {
    hr_thread_pool *pool = NULL;
    hr_error error;
    assert_ok(hr_thread_pool_create(threads, NULL, &pool, &error), error);
    for (int run = 0; run < 200; run++) {
      job j = {.next = 0};
      hr_thread_pool_run(pool, work, &j);
      assert_done_once(&j);
      assert_true(j.members & 1);
      assert_true(j.members < 1 << threads);
    }
    hr_thread_pool_free(pool);
  }
}

static void *run_many(void *argument)
{
  hr_thread_pool *pool = argument;
  int wrong = 0;
  for (int run = 0; run < 100; run++) {
    job j = {.next = 0};
    hr_thread_pool_run(pool, work, &j);
    for (int i = 0; i < SHARES; i++)
      wrong += j.done[i] != 1;
  }
  return wrong ? argument : NULL;
}

static void several_callers_may_use_one_pool_at_once(void **state)
{
  (void)state;
  hr_thread_pool *pool = NULL;
  hr_error error;
  assert_ok(hr_thread_pool_create(3, NULL, &pool, &error), error);
  pthread_t callers[4];
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&callers[i], NULL, run_many, pool), 0);
  for (int i = 0; i < 4; i++) {
    void *wrong = NULL;
    pthread_join(callers[i], &wrong);
    assert_null(wrong);
  }
  hr_thread_pool_free(pool);
}

static void run_inside(void *context, int member)
{
  job *j = context;
  if (member == 0)
    hr_thread_pool_run(j->pool, work, j);
}

static void a_pool_thread_that_uses_the_pool_works_alone(void **state)
{
  (void)state;
  hr_error error;
  job j = {.next = 0};
  assert_ok(hr_thread_pool_create(2, NULL, &j.pool, &error), error);
  hr_thread_pool_run(j.pool, run_inside, &j);
  assert_done_once(&j);
  assert_int_equal(j.members, 1);
  hr_thread_pool_free(j.pool);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_share_is_done_once_with_any_number_of_threads),
      cmocka_unit_test(several_callers_may_use_one_pool_at_once),
      cmocka_unit_test(a_pool_thread_that_uses_the_pool_works_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
