/* SPDX-License-Identifier: Apache-2.0 */
/* A sweep runs in several threads into one store. Also built with the thread sanitizer (preset tsan). */
#include "machine.h"

#include <headroom/experimental/store.h>
#include <headroom/experimental/sweep.h>
#include <pthread.h>
#include <unistd.h>

#define THREADS 3

typedef struct sweeper {
  const hr_sweep *sweep;
  const char *path;
  hr_status status;
  hr_error error;
  hr_sweep_progress outcome;
  pthread_t thread;
} sweeper;

static void *run_sweep(void *argument)
{
  sweeper *s = argument;
  hr_device *device = NULL;
  hr_store *store = NULL;
  hr_sweep_options options = hr_sweep_options_default();
  options.time_limit_ns = 1e5;
  options.dtype = HR_FP32;
  s->status = hr_device_open("cpu", 2, &device, &s->error);
  if (s->status == HR_ERROR_INVALID) /* one core */
    s->status = hr_device_open("cpu", 1, &device, &s->error);
  if (s->status == HR_OK)
    device->cache_bytes = 0; /* times do not matter: no operand needs to be cold */
  if (s->status == HR_OK)
    s->status = hr_store_open(s->path, HR_STORE_WRITE, &store, &s->error);
  if (s->status == HR_OK)
    s->status = hr_sweep_run(s->sweep, device, store, &options, &s->outcome, &s->error);
  hr_store_close(store);
  hr_device_close(device);
  return NULL;
}

static void threads_share_the_points_of_a_sweep(void **state)
{
  (void)state;
  static const char text[] =
      "{\"name\":\"shared\",\"x\":\"q\",\"axes\":{\"q\":{\"from\":1,\"to\":6,\"step\":1}},"
      "\"series\":\"all\",\"problem\":{\"kind\":\"attention\",\"batch\":1,\"q_heads\":2,"
      "\"k_heads\":2,\"v_heads\":2,\"qk_dim\":16,\"v_dim\":16,\"q_len\":\"q\",\"kv_len\":\"q\"}}";
  char path[] = "/tmp/headroom-shared-XXXXXX";
  hr_sweep *sweep = NULL;
  hr_error error = {.status = HR_OK};
  sweeper sweepers[THREADS];
  int64_t measured = 0;
  close(mkstemp(path));
  assert_ok(hr_sweep_from_json(&(hr_input){.text = text, .length = sizeof text - 1, .name = "sweep.json"}, NULL, false,
                               &sweep, &error),
            error);
  for (int i = 0; i < THREADS; i++) {
    sweepers[i] = (sweeper){.sweep = sweep, .path = path};
    assert_int_equal(pthread_create(&sweepers[i].thread, NULL, run_sweep, &sweepers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(sweepers[i].thread, NULL);
    assert_ok(sweepers[i].status, sweepers[i].error);
    measured += sweepers[i].outcome.measured;
  }
  assert_int_equal(measured, 6);
  hr_sweep_free(sweep);
  unlink(path);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(threads_share_the_points_of_a_sweep)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
