/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the emulated GPU: small programs that are right, and the same programs with one mistake, which must end the
 * launch with an error that names the mistake and its place. */
#include "test.h"

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/driver/nvrtc.h"

#include <pthread.h>
#include <stdio.h>

#define COUNT 64

typedef struct gpu {
  hr_driver driver;
  hr_nvrtc nvrtc;
  cu_address data; /* COUNT ints, 0 … COUNT − 1 */
} gpu;

static int open_gpu(void **state)
{
  gpu *g = calloc(1, sizeof *g);
  int values[COUNT];
  hr_error error;
  for (int i = 0; i < COUNT; i++)
    values[i] = i;
  assert_ok(hr_driver_open(&g->driver, &error), error);
  assert_ok(hr_nvrtc_open(&g->nvrtc, &error), error);
  assert_ok(HR_CU(&g->driver, cuMemAlloc_v2, (&g->data, sizeof values), &error), error);
  assert_ok(HR_CU(&g->driver, cuMemcpyHtoDAsync_v2, (g->data, values, sizeof values, NULL), &error), error);
  *state = g;
  return 0;
}

static int close_gpu(void **state)
{
  gpu *g = *state;
  g->driver.cuMemFree_v2(g->data);
  hr_nvrtc_close(&g->nvrtc);
  hr_driver_close(&g->driver);
  free(g);
  return 0;
}

static rtc_result build(const gpu *g, const char *source, char **image, char log[2000])
{
  static const char *const options[] = {"--gpu-architecture=sm_90a"};
  rtc_program program = NULL;
  size_t bytes = 0;
  assert_int_equal(g->nvrtc.nvrtcCreateProgram(&program, source, "test.cu", 0, NULL, NULL), RTC_SUCCESS);
  rtc_result result = g->nvrtc.nvrtcCompileProgram(program, 1, options);
  assert_int_equal(g->nvrtc.nvrtcGetProgramLogSize(program, &bytes), RTC_SUCCESS);
  char *text = calloc(1, bytes);
  assert_int_equal(g->nvrtc.nvrtcGetProgramLog(program, text), RTC_SUCCESS);
  snprintf(log, 2000, "%s", text);
  free(text);
  if (result == RTC_SUCCESS) {
    assert_int_equal(g->nvrtc.nvrtcGetCUBINSize(program, &bytes), RTC_SUCCESS);
    *image = malloc(bytes);
    assert_int_equal(g->nvrtc.nvrtcGetCUBIN(program, *image), RTC_SUCCESS);
  }
  g->nvrtc.nvrtcDestroyProgram(&program);
  return result;
}

/* Runs `extern "C" __global__ void run(int *data, int *result)` with a block of COUNT threads, or with a cluster of
 * such blocks where the body begins with CLUSTER. Runs it several times, because every schedule differs. Returns the
 * last status and the results. */
#define CLUSTER "/* cluster */\n"
static hr_status run(const gpu *g, const char *body, int results[COUNT], hr_error *error)
{
  const unsigned blocks = strncmp(body, CLUSTER, strlen(CLUSTER)) == 0 ? 2 : 1;
  char source[4000], log[2000], *image = NULL;
  cu_module module = NULL;
  cu_function function = NULL;
  cu_address data = g->data, result = 0;
  snprintf(source, sizeof source,
           "extern \"C\" __global__ void __cluster_dims__(%u, 1, 1) run(int *data, int *result)\n{\n%s\n}\n", blocks,
           body);
  if (build(g, source, &image, log) != RTC_SUCCESS)
    fail_msg("%s", log);
  assert_ok(HR_CU(&g->driver, cuModuleLoadData, (&module, image), error), *error);
  assert_ok(HR_CU(&g->driver, cuModuleGetFunction, (&function, module, "run"), error), *error);
  assert_ok(HR_CU(&g->driver, cuMemAlloc_v2, (&result, COUNT * sizeof(int)), error), *error);
  void *arguments[] = {&data, &result};
  hr_status status = HR_OK;
  for (int i = 0; i < 5 && status == HR_OK; i++)
    status = HR_CU(&g->driver, cuLaunchKernel, (function, blocks, 1, 1, COUNT, 1, 1, 0, NULL, arguments, NULL), error);
  g->driver.cuMemcpyDtoHAsync_v2(results, result, COUNT * sizeof(int), NULL);
  g->driver.cuMemFree_v2(result);
  g->driver.cuModuleUnload(module);
  free(image);
  return status;
}

static void assert_runs(const gpu *g, const char *body, int (*expected)(int i))
{
  int results[COUNT];
  hr_error error;
  assert_ok(run(g, body, results, &error), error);
  for (int i = 0; i < COUNT; i++)
    assert_int_equal(results[i], expected(i));
}

static void assert_ends(const gpu *g, const char *body, const char *words)
{
  int results[COUNT];
  hr_error error = {.message = ""};
  if (run(g, body, results, &error) == HR_OK)
    fail_msg("no error was reported for: %s", body);
  if (!strstr(error.message, words) || !strstr(error.message, "kernel run"))
    fail_msg("expected \"%s\", found \"%s\"", words, error.message);
}

/* ---- barriers ---- */

static int backwards(int i)
{
  return COUNT - 1 - i;
}

static void a_barrier_orders_what_threads_write_and_read(void **state)
{
  assert_runs(*state,
              "__shared__ int values[64];\n"
              "values[threadIdx.x] = data[threadIdx.x];\n"
              "__syncthreads();\n"
              "result[threadIdx.x] = values[63 - threadIdx.x];",
              backwards);
  assert_ends(*state,
              "__shared__ int values[64];\n"
              "values[threadIdx.x] = data[threadIdx.x];\n"
              "result[threadIdx.x] = values[63 - threadIdx.x];",
              "with no barrier between");
  assert_ends(*state,
              "__shared__ int values[64];\n"
              "values[threadIdx.x] = data[threadIdx.x];\n"
              "__syncthreads();\n"
              "int other = values[63 - threadIdx.x];\n"
              "values[threadIdx.x] = other;\n"
              "result[threadIdx.x] = values[threadIdx.x];",
              "with no barrier between");
}

static int neighbour(int i)
{
  return i ^ 1;
}

static void syncwarp_orders_within_a_warp_and_shuffles_do_not(void **state)
{
  assert_runs(*state,
              "__shared__ int values[64];\n"
              "values[threadIdx.x] = data[threadIdx.x];\n"
              "__syncwarp();\n"
              "result[threadIdx.x] = values[threadIdx.x ^ 1];",
              neighbour);
  assert_ends(*state,
              "__shared__ int values[64];\n"
              "values[threadIdx.x] = data[threadIdx.x];\n"
              "int all = __any_sync(0xFFFFFFFFu, threadIdx.x == 0);\n"
              "result[threadIdx.x] = values[threadIdx.x ^ 1] + all;",
              "with no barrier between");
}

static void a_deadlock_is_reported_with_the_number_of_threads(void **state)
{
  assert_ends(*state, "if (threadIdx.x < 40)\n  __syncthreads();", "threads wait for each other: 40 at __syncthreads");
  assert_ends(*state,
              "if (threadIdx.x % 2 == 0)\n"
              "  result[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, data[threadIdx.x], 2);",
              "threads wait for each other: 32 at __shfl_xor_sync");
  assert_ends(*state,
              "if (threadIdx.x % 2 == 0)\n  __syncwarp();\n"
              "else\n  result[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, data[threadIdx.x], 2);",
              "other lanes of the warp are at");
}

/* Each block writes to the shared memory of the other. */
#define BEGIN                                                                                        \
  CLUSTER "__shared__ float values[64];\n"                                                           \
          "unsigned rank, there, here = (unsigned)__cvta_generic_to_shared(values + threadIdx.x);\n" \
          "asm(\"mov.u32 %0, %%cluster_ctarank;\" : \"=r\"(rank));\n"                                \
          "asm(\"mapa.shared::cluster.u32 %0, %1, %2;\" : \"=r\"(there) : \"r\"(here), \"r\"(rank ^ 1));\n"
#define ARRIVE "asm volatile(\"barrier.cluster.arrive.release.aligned;\");\n"
#define WAIT "asm volatile(\"barrier.cluster.wait.acquire.aligned;\");\n"
#define GIVE "asm volatile(\"st.shared::cluster.f32 [%0], %1;\" :: \"r\"(there), \"f\"((float)data[threadIdx.x]));\n"
#define TAKE "result[threadIdx.x] = (int)values[63 - threadIdx.x];\n"

static void blocks_of_a_cluster_wait_for_each_other(void **state)
{
  assert_runs(*state, BEGIN ARRIVE WAIT GIVE ARRIVE WAIT TAKE, backwards);
  assert_ends(*state, BEGIN GIVE ARRIVE WAIT TAKE, "may not have begun");
  assert_ends(*state, BEGIN ARRIVE WAIT GIVE "__syncthreads();\n" TAKE, "of the cluster");
  assert_ends(*state, BEGIN ARRIVE WAIT GIVE ARRIVE TAKE WAIT, "with no barrier between");
  assert_ends(*state, BEGIN ARRIVE WAIT TAKE GIVE, "of the cluster");
  assert_ends(*state, BEGIN ARRIVE ARRIVE WAIT, "arrive twice");
}

/* Each thread sends two floats to the other block, whose mbarrier expects those of all threads. */
#define PREPARE(EXPECTED)                                                                                   \
  CLUSTER "__shared__ double both[64];\n"                                                                   \
          "__shared__ unsigned long long barrier;\n"                                                        \
          "float (*values)[2] = (float (*)[2])both;\n"                                                      \
          "unsigned rank, there, signal, here = (unsigned)__cvta_generic_to_shared(values[threadIdx.x]);\n" \
          "unsigned own = (unsigned)__cvta_generic_to_shared(&barrier);\n"                                  \
          "asm(\"mov.u32 %0, %%cluster_ctarank;\" : \"=r\"(rank));\n"                                       \
          "asm(\"mapa.shared::cluster.u32 %0, %1, %2;\" : \"=r\"(there) : \"r\"(here), \"r\"(rank ^ 1));\n" \
          "asm(\"mapa.shared::cluster.u32 %0, %1, %2;\" : \"=r\"(signal) : \"r\"(own), \"r\"(rank ^ 1));\n" \
          "float value = data[threadIdx.x];\n"                                                              \
          "if (threadIdx.x == 0) {\n"                                                                       \
          "asm volatile(\"mbarrier.init.shared::cta.b64 [%0], 1;\" :: \"r\"(own));\n"                       \
          "asm volatile(\"fence.mbarrier_init.release.cluster;\");\n"                                       \
          "asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], " EXPECTED ";\" :: \"r\"(own));\n}\n"
#define MEET           \
  "__syncthreads();\n" \
  "asm volatile(\"barrier.cluster.arrive.relaxed.aligned;\");\n" WAIT
#define SEND(BARRIER)                                                                                       \
  "asm volatile(\"st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%2, %3}, [%1];\" :: " \
  "\"r\"(there), \"r\"(" BARRIER "), \"f\"(value), \"f\"(value));\n"
#define RECEIVE                                                                                                   \
  "asm volatile(\"{\\n.reg .pred over;\\nagain:\\nmbarrier.try_wait.parity.shared::cta.b64 over, [%0], 0;\\n\"\n" \
  "\"@!over bra again;\\n}\" :: \"r\"(own));\n"
#define USE "result[threadIdx.x] = (int)values[63 - threadIdx.x][1];\n"

static void what_a_block_sends_another_is_there_after_its_mbarrier(void **state)
{
  assert_runs(*state, PREPARE("512") MEET SEND("signal") RECEIVE USE, backwards);
  assert_ends(*state, PREPARE("512") MEET SEND("signal") USE RECEIVE, "with no barrier between");
  assert_ends(*state, PREPARE("512") "__syncthreads();\n" SEND("signal") RECEIVE USE, "may not have begun");
  assert_ends(*state, PREPARE("520") MEET SEND("signal") RECEIVE USE, "at an mbarrier");
  assert_ends(*state, PREPARE("512") MEET SEND("own") RECEIVE USE, "for an mbarrier of block");
}

/* ---- cp.async ---- */

#define COPY                                                                                                 \
  "__shared__ __align__(16) int values[64];\n"                                                               \
  "if (threadIdx.x < 16)\n"                                                                                  \
  "  asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\"\n"                                           \
  "               :: \"r\"((unsigned)__cvta_generic_to_shared(values + 4 * threadIdx.x)), \"l\"(data + 4 * " \
  "threadIdx.x));\n"                                                                                         \
  "asm volatile(\"cp.async.commit_group;\");\n"

static int same(int i)
{
  return i;
}

static void a_cp_async_is_complete_after_its_wait(void **state)
{
  assert_runs(*state,
              COPY "asm volatile(\"cp.async.wait_group 0;\");\n"
                   "__syncthreads();\n"
                   "result[threadIdx.x] = values[threadIdx.x];",
              same);
  assert_ends(*state,
              COPY "asm volatile(\"cp.async.wait_group 1;\");\n"
                   "__syncthreads();\n"
                   "result[threadIdx.x] = values[threadIdx.x];",
              "copy to it is pending");
  assert_ends(*state,
              COPY "asm volatile(\"cp.async.wait_group 0;\");\n"
                   "result[threadIdx.x] = values[63 - threadIdx.x];",
              "with no barrier between");
  assert_ends(*state, COPY "result[threadIdx.x] = 0;", "ended with cp.async, TMA or WGMMA operations pending");
}

/* ---- global addresses ---- */

static void an_access_outside_of_a_buffer_is_an_error(void **state)
{
  assert_ends(*state, "result[threadIdx.x] = data[threadIdx.x + 1];", "reads 4 bytes, 256 bytes behind the beginning");
  assert_ends(*state, "result[(int)threadIdx.x - 1] = 0;", "writes 4 bytes, ");
  assert_ends(*state, "result[threadIdx.x] = data[1 << 28];", "no longer, a buffer's");
  assert_ends(*state, "result[threadIdx.x] = *(int *)(data == nullptr);", "no memory of the device");
  assert_ends(*state, "__shared__ int value;\nresult[threadIdx.x] = __ldcg(&value);", "ld.global.cg of 4 bytes");
}

static void a_vector_at_a_misaligned_address_is_an_error(void **state)
{
#ifdef __clang__
  print_message("clang does not check the alignment of structs that it copies\n");
  skip();
#endif
  assert_ends(*state, "int4 four = *(int4 *)(data + threadIdx.x % 2);\nresult[threadIdx.x] = four.x;",
              "which is not a multiple of 16");
}

/* ---- PTX ---- */

static void an_unknown_instruction_is_named(void **state)
{
  char log[2000], *image = NULL;
  assert_int_equal(build(*state,
                         "extern \"C\" __global__ void run(unsigned *a)\n"
                         "{\n  asm(\"popc.b32 %0, %1;\" : \"=r\"(a[0]) : \"r\"(a[1]));\n}\n",
                         &image, log),
                   RTC_COMPILATION);
  if (!strstr(log, "popc_b32"))
    fail_msg("%s", log);
}

/* ---- launches of two host threads ---- */

typedef struct side {
  const gpu *g;
  cu_function function;
  cu_address flags;
  int own;
  cu_result result;
  pthread_t thread;
} side;

static void *launch_side(void *argument)
{
  side *s = argument;
  void *arguments[] = {&s->flags, &s->own};
  s->result = s->g->driver.cuLaunchKernel(s->function, 1, 1, 1, COUNT, 1, 1, 0, NULL, arguments, NULL);
  return NULL;
}

/* Each of two launches waits for a flag that the other sets, and gives up after a million turns. */
static void launches_of_two_threads_run_at_the_same_time(void **state)
{
  static const char source[] = "extern \"C\" __global__ void run(int *flags, int own)\n"
                               "{\n"
                               "  volatile int *all = flags;\n"
                               "  if (threadIdx.x == 0)\n"
                               "    all[own] = 1;\n"
                               "  for (int turn = 0; turn < 1000000; turn++)\n"
                               "    if (__syncthreads_or(all[1 - own]))\n"
                               "      return;\n"
                               "  all[own] = 2;\n"
                               "}\n";
  const gpu *g = *state;
  char log[2000], *image = NULL;
  int flags[2] = {0, 0};
  cu_module module = NULL;
  side sides[2] = {{.g = g, .own = 0}, {.g = g, .own = 1}};
  hr_error error;
  if (build(g, source, &image, log) != RTC_SUCCESS)
    fail_msg("%s", log);
  assert_ok(HR_CU(&g->driver, cuModuleLoadData, (&module, image), &error), error);
  cu_address address = 0;
  assert_ok(HR_CU(&g->driver, cuMemAlloc_v2, (&address, sizeof flags), &error), error);
  assert_ok(HR_CU(&g->driver, cuMemcpyHtoDAsync_v2, (address, flags, sizeof flags, NULL), &error), error);
  for (int i = 0; i < 2; i++) {
    sides[i].flags = address;
    assert_ok(HR_CU(&g->driver, cuModuleGetFunction, (&sides[i].function, module, "run"), &error), error);
    assert_int_equal(pthread_create(&sides[i].thread, NULL, launch_side, &sides[i]), 0);
  }
  for (int i = 0; i < 2; i++) {
    pthread_join(sides[i].thread, NULL);
    assert_int_equal(sides[i].result, CU_SUCCESS);
  }
  assert_ok(HR_CU(&g->driver, cuMemcpyDtoHAsync_v2, (flags, address, sizeof flags, NULL), &error), error);
  assert_int_equal(flags[0], 1);
  assert_int_equal(flags[1], 1);
  g->driver.cuMemFree_v2(address);
  g->driver.cuModuleUnload(module);
  free(image);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_barrier_orders_what_threads_write_and_read),
      cmocka_unit_test(syncwarp_orders_within_a_warp_and_shuffles_do_not),
      cmocka_unit_test(a_deadlock_is_reported_with_the_number_of_threads),
      cmocka_unit_test(blocks_of_a_cluster_wait_for_each_other),
      cmocka_unit_test(what_a_block_sends_another_is_there_after_its_mbarrier),
      cmocka_unit_test(a_cp_async_is_complete_after_its_wait),
      cmocka_unit_test(an_access_outside_of_a_buffer_is_an_error),
      cmocka_unit_test(a_vector_at_a_misaligned_address_is_an_error),
      cmocka_unit_test(an_unknown_instruction_is_named),
      cmocka_unit_test(launches_of_two_threads_run_at_the_same_time),
  };
  return cmocka_run_group_tests(tests, open_gpu, close_gpu);
}
