/* SPDX-License-Identifier: Apache-2.0 */
/* Affinity of threads and memory on the CPU: on described machines and on this one. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "test.h"

#include "hardware/hardware.h"
#include "runtime/cpu/ceilings/rounds.h"
#include "runtime/cpu/cpu.h"
#include "runtime/device/plan.h"

#include <dirent.h>
#include <headroom/experimental/headroom.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define TWO_SOCKETS "2 2 2" /* sockets, cores, threads: processors 0 1 | 2 3 || 4 5 | 6 7 */
#define THREADS_MAX 8

/* Reads a machine that tests/topology.sh describes. */
static void read_described(const char *machine, hr_topology *topology)
{
  char folder[] = "/tmp/headroom-topology-XXXXXX", command[256];
  hr_error error;
  assert_non_null(mkdtemp(folder));
  snprintf(command, sizeof command, "%s/tests/topology.sh %s %s", HEADROOM_SOURCE_DIR, folder, machine);
  assert_int_equal(system(command), 0);
  setenv("HEADROOM_CPU_TOPOLOGY", folder, 1);
  assert_ok(hr_topology_read(topology, &error), error);
  unsetenv("HEADROOM_CPU_TOPOLOGY");
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

static hr_affinity affinity_on(const char *machine, int threads, hr_topology *topology)
{
  hr_error error;
  hr_affinity affinity;
  read_described(machine, topology);
  assert_ok(hr_affinity_choose(topology, threads, &affinity, &error), error);
  return affinity;
}

static void cores_caches_and_sockets_are_counted_once(void **state)
{
  (void)state;
  hr_topology topology;
  read_described("2 4 2", &topology);
  assert_int_equal(topology.sockets, 2);
  assert_int_equal(topology.cores, 8);
  assert_int_equal(topology.processors, 16);
  assert_int_equal(topology.cache_bytes, 64 << 20); /* two of 32 MiB */
  assert_int_equal(topology.core_cache_bytes, 1 << 20);
  assert_int_equal(topology.memory_bytes, INT64_C(2) << 30);
  hr_topology_free(&topology);
}

static void lists_of_processors_are_read_as_linux_writes_them(void **state)
{
  (void)state;
  const hr_processors set = hr_processors_read("0-2,8,63-65,9000\n");
  static const int members[] = {0, 1, 2, 8, 63, 64, 65};
  int at = -1;
  for (size_t i = 0; i < sizeof members / sizeof *members; i++)
    assert_int_equal(at = hr_processors_next(&set, at + 1), members[i]);
  assert_int_equal(hr_processors_next(&set, at + 1), -1);
  assert_int_equal(hr_processors_count(&set), sizeof members / sizeof *members);
  const hr_processors none = hr_processors_read("\n");
  assert_int_equal(hr_processors_count(&none), 0);
}

static void a_described_machine_without_processors_is_an_error(void **state)
{
  (void)state;
  hr_topology topology;
  hr_error error;
  setenv("HEADROOM_CPU_TOPOLOGY", "/nowhere", 1);
  assert_int_equal(hr_topology_read(&topology, &error), HR_ERROR_BACKEND);
  unsetenv("HEADROOM_CPU_TOPOLOGY");
  assert_string_equal(error.message, "cpu: no processor is listed in /nowhere/cpu/online");
}

static void expect_places(const char *machine, int threads, const char *const *processors)
{
  hr_topology topology;
  hr_affinity affinity = affinity_on(machine, threads, &topology);
  for (int i = 0; i < threads; i++) {
    const hr_processors expected = hr_processors_read(processors[i]);
    assert_true(hr_processors_equal(&affinity.places[i], &expected));
  }
  hr_affinity_free(&affinity);
  hr_topology_free(&topology);
}

static void threads_fill_cores_before_second_hardware_threads(void **state)
{
  (void)state;
  expect_places(TWO_SOCKETS, 1, (const char *const[]){"0-1"});
  expect_places(TWO_SOCKETS, 4, (const char *const[]){"0-1", "2-3", "4-5", "6-7"});
  expect_places(TWO_SOCKETS, 6, (const char *const[]){"0", "2", "4", "6", "1", "3"});
  expect_places(TWO_SOCKETS, 8, (const char *const[]){"0", "2", "4", "6", "1", "3", "5", "7"});
  expect_places(TWO_SOCKETS " apart", 4, (const char *const[]){"0,4", "1,5", "2,6", "3,7"});
  expect_places(TWO_SOCKETS " apart", 6, (const char *const[]){"0", "1", "2", "3", "4", "5"});
  expect_places("1 3 1", 3, (const char *const[]){"0", "1", "2"});
}

static void expect_text(const char *machine, int threads, const char *expected)
{
  hr_topology topology;
  hr_affinity affinity = affinity_on(machine, threads, &topology);
  char text[192];
  hr_affinity_describe(&affinity, text, sizeof text);
  assert_string_equal(text, expected);
  hr_affinity_free(&affinity);
  hr_topology_free(&topology);
}

static void numa_nodes_are_counted_and_unbound_threads_have_a_reason(void **state)
{
  (void)state;
  expect_text(TWO_SOCKETS, 4, "threads not bound: the topology is not this machine's; 2 NUMA nodes, pages interleaved");
  expect_text(TWO_SOCKETS, 3, "threads not bound: 3 of 4 cores are used; 2 NUMA nodes, pages interleaved");
  expect_text("1 2 1", 1, "threads not bound: 1 of 2 cores are used; 1 NUMA node");
}

static void the_users_settings_take_precedence(void **state)
{
  (void)state;
  setenv("OMP_PROC_BIND", "false", 1);
  hr_device *device = NULL;
  hr_hardware hardware;
  hr_error error;
  assert_ok(hr_device_open("cpu", 0, &device, &error), error);
  unsetenv("OMP_PROC_BIND");
  assert_ok(hr_device_detect(device, &hardware, &error), error);
  assert_true(hardware.numa_nodes >= 1);
  assert_non_null(strstr(hardware.placement, "threads not bound: OMP_PROC_BIND is set; "));
  hr_device_close(device);
}

/* Number of threads of this process whose affinity mask is not `whole`. */
static int bound_threads(const cpu_set_t *whole)
{
  int bound = 0;
  DIR *tasks = opendir("/proc/self/task");
  assert_non_null(tasks);
  for (struct dirent *entry; (entry = readdir(tasks));) {
    cpu_set_t set;
    if (entry->d_name[0] != '.' && sched_getaffinity(atoi(entry->d_name), sizeof set, &set) == 0)
      bound += !CPU_EQUAL(&set, whole);
  }
  closedir(tasks);
  return bound;
}

static void run_product(hr_device *device)
{
  hr_gemm gemm = hr_gemm_default();
  gemm.m = gemm.n = gemm.k = 256;
  gemm.dtype = HR_FP32;
  hr_plan *plan = NULL;
  hr_buffer *buffers[3] = {NULL};
  hr_error error;
  assert_ok(hr_plan_gemm(device, &gemm, NULL, &plan, &error), error);
  for (int i = 0; i < 3; i++) {
    assert_ok(hr_buffer_create(device, 256 * 256 * 4, &buffers[i], &error), error);
    assert_ok(hr_buffer_fill_uniform(buffers[i], HR_FP32, (uint64_t)i + 1, &error), error);
  }
  hr_buffer *workspace = NULL;
  if (hr_plan_workspace_bytes(plan) > 0)
    assert_ok(hr_buffer_create(device, hr_plan_workspace_bytes(plan), &workspace, &error), error);
  assert_ok(hr_plan_run_gemm(plan,
                             &(hr_gemm_arguments){sizeof(hr_gemm_arguments), hr_buffer_data(buffers[0]),
                                                  hr_buffer_data(buffers[1]), hr_buffer_data(buffers[2]), NULL},
                             workspace ? hr_buffer_data(workspace) : NULL, NULL, &error),
            error);
  hr_buffer_free(workspace);
  for (int i = 0; i < 3; i++)
    hr_buffer_free(buffers[i]);
  hr_plan_free(plan);
}

static void each_thread_has_a_core_and_the_caller_keeps_its_affinity(void **state)
{
  (void)state;
  cpu_set_t before, after;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open("cpu", 0, &device, &error), error);
  const hr_cpu *cpu = device->state;
  if (!hr_affinity_bound(&cpu->affinity) || device->threads < 2) {
    hr_device_close(device);
    skip();
  }
  hr_thread_pool *pool = NULL;
  assert_ok(hr_cpu_thread_pool(device, &pool, &error), error);
  int own = device->threads - 1;
  for (int looks = 0; bound_threads(&before) < own && looks < 10000; looks++)
    sched_yield(); /* until the pool's threads have started */
  assert_int_equal(bound_threads(&before), own);
  if (device->backend->has(device, "onednn")) {
    run_product(device);
    assert_int_equal(bound_threads(&before), 2 * own); /* OpenMP's as well */
  }
  assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
  assert_true(CPU_EQUAL(&before, &after));
  hr_device_close(device);
  assert_int_equal(bound_threads(&before), 0);
}

static void a_caller_with_another_affinity_mask_is_not_moved(void **state)
{
  (void)state;
  cpu_set_t before, last, after;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open("cpu", 0, &device, &error), error);
  const hr_cpu *cpu = device->state;
  if (!hr_affinity_bound(&cpu->affinity) || device->threads < 2) {
    hr_device_close(device);
    skip();
  }
  int other = hr_processors_next(&cpu->affinity.places[1], 0);
  CPU_ZERO(&last);
  CPU_SET((size_t)other, &last);
  assert_int_equal(sched_setaffinity(0, sizeof last, &last), 0);
  hr_affinity_move_caller(&cpu->affinity);
  assert_int_equal(sched_getcpu(), other);
  assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
  assert_true(CPU_EQUAL(&last, &after));
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
  hr_device_close(device);
}

/* Each thread, once bound, records the one processor in its affinity mask. */
static void note_processor(void *context, int index, int round)
{
  int *processors = context;
  (void)round;
  processors[index] = sched_getcpu();
}

static void each_round_has_fixed_affinity(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open("cpu", 0, &device, &error), error);
  const hr_cpu *cpu = device->state;
  if (!hr_affinity_bound(&cpu->affinity) || device->threads > THREADS_MAX) {
    hr_device_close(device);
    skip();
  }
  int processors[THREADS_MAX];
  double round_ns[2];
  assert_ok(hr_rounds_run(device->threads, &cpu->affinity, note_processor, processors, 2, round_ns, &error), error);
  for (int i = 1; i < device->threads; i++)
    assert_true(hr_processors_has(&cpu->affinity.places[i], processors[i]));
  hr_device_close(device);
}

int main(void)
{
  const char *const users_words[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
  for (size_t i = 0; i < sizeof users_words / sizeof *users_words; i++)
    unsetenv(users_words[i]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cores_caches_and_sockets_are_counted_once),
      cmocka_unit_test(lists_of_processors_are_read_as_linux_writes_them),
      cmocka_unit_test(a_described_machine_without_processors_is_an_error),
      cmocka_unit_test(threads_fill_cores_before_second_hardware_threads),
      cmocka_unit_test(numa_nodes_are_counted_and_unbound_threads_have_a_reason),
      cmocka_unit_test(the_users_settings_take_precedence),
      cmocka_unit_test(each_thread_has_a_core_and_the_caller_keeps_its_affinity),
      cmocka_unit_test(a_caller_with_another_affinity_mask_is_not_moved),
      cmocka_unit_test(each_round_has_fixed_affinity),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
