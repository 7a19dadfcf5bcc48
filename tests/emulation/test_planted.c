/* SPDX-License-Identifier: Apache-2.0 */
/* Mistakes planted in the GPU kernels themselves, which the emulated GPU must find: a copy of a program lacks one
 * barrier, fence or wait. Each problem needs the removed line, and runs without error in the unmodified program. */
#include "unit/kernel_calls.h"

#include "shape/rowwise_operands.h"

#include <stdio.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

typedef struct problem {
  hr_rowwise_operation operation; /* of a row-wise problem, where columns > 0 */
  int64_t rows, columns;
  const char *kernel; /* of an attention problem, or where q_heads > 0 of a decode problem */
  int64_t qk_dim, v_dim;
  int64_t q_heads; /* over one K and V head */
  bool variable;
  bool backward; /* the small problem of kernel_calls.h */
} problem;

typedef struct fault {
  const char *right, *wrong; /* program text that is replaced, and its replacement */
  const char *words;         /* of the expected error */
} fault;

/* ---- running a problem ---- */

enum { BUFFERS = 7 };

static hr_buffer *make_buffer(hr_device *device, hr_dtype dtype, int64_t elements)
{
  hr_buffer *buffer = NULL;
  hr_error error;
  assert_ok(hr_buffer_create(device, (size_t)elements * hr_dtype_bytes(dtype), &buffer, &error), error);
  assert_ok(hr_buffer_fill_uniform(buffer, dtype, 5, &error), error);
  return buffer;
}

static hr_status run_rows(hr_device *device, const problem *p, hr_buffer *buffers[BUFFERS], hr_error *error)
{
  hr_rowwise r = hr_rowwise_default();
  hr_plan *plan = NULL;
  r.operation = p->operation;
  r.rows = p->rows, r.columns = p->columns;
  r.dtype = HR_BF16;
  const void *inputs[3];
  const bool trains = hr_rowwise_trains(p->operation); /* a norm: dy, x, weight; dx, dweight, dbias */
  for (int i = 0; i < 4; i++)
    buffers[i] = make_buffer(device, r.dtype, (i == 1 && !trains) || i == 2 ? r.columns : r.rows * r.columns);
  for (int i = 5; i < BUFFERS; i++)
    buffers[i] = make_buffer(device, r.dtype, r.columns);
  for (int i = 0; i < 3; i++)
    inputs[i] = hr_buffer_data(buffers[i]);
  hr_status status = hr_plan_rowwise(device, &r, NULL, &plan, error);
  if (status == HR_OK) {
    buffers[4] = make_buffer(device, r.dtype, (int64_t)hr_plan_workspace_bytes(plan) + 1);
    hr_rowwise_arguments x = {
        .struct_size = sizeof x, .inputs = {inputs[0], inputs[1], inputs[2]}, .output = hr_buffer_data(buffers[3])};
    x.more_outputs[0] = hr_buffer_data(buffers[5]), x.more_outputs[1] = hr_buffer_data(buffers[6]);
    status = hr_plan_run_rowwise(plan, &x, hr_buffer_data(buffers[4]), NULL, error);
  }
  hr_plan_free(plan);
  return status;
}

/* Several K/V tiles, and more Q tiles than the GPU has multiprocessors. With variable lengths, sequences end within a
 * K/V tile. */
static hr_attention attention_of(const problem *p)
{
  hr_attention a = hr_attention_default();
  a.dtype = HR_BF16;
  a.mask = HR_MASK_NONE;
  a.q_len = p->qk_dim == 64 && !p->variable ? 300 : 200, a.kv_len = 500; /* two teams at head size 64 */
  a.q_heads = a.k_heads = a.v_heads = 4;
  a.qk_dim = p->qk_dim, a.v_dim = p->v_dim;
  if (p->variable) {
    a.variable_lengths = true;
    a.batch = 2;
    a.q_total = 400, a.kv_total = 600;
  }
  return a;
}

static hr_status run_attention(hr_device *device, const problem *p, hr_buffer *buffers[BUFFERS], hr_error *error)
{
  static const int32_t offsets[2][3] = {{0, 200, 400}, {0, 300, 600}};
  hr_attention a = attention_of(p);
  hr_attention_arguments x = hr_attention_arguments_default();
  hr_plan *plan = NULL;
  int64_t rows = p->variable ? 600 : 500;
  for (int i = 0; i < 4; i++)
    buffers[i] = make_buffer(device, a.dtype, rows * 4 * (i < 2 ? a.qk_dim : a.v_dim));
  for (int i = 0; i < 2; i++) {
    assert_ok(hr_buffer_create(device, sizeof offsets[i], &buffers[4 + i], error), *error);
    assert_ok(hr_buffer_write(buffers[4 + i], offsets[i], sizeof offsets[i], error), *error);
  }
  x.q = hr_buffer_data(buffers[0]);
  x.k = hr_buffer_data(buffers[1]);
  x.v = hr_buffer_data(buffers[2]);
  x.o = hr_buffer_data(buffers[3]);
  x.q_offsets = hr_buffer_data(buffers[4]);
  x.kv_offsets = hr_buffer_data(buffers[5]);
  hr_status status = hr_plan_attention(device, &a, p->kernel, &plan, error);
  if (status == HR_OK) {
    assert_ok(hr_buffer_create(device, hr_plan_workspace_bytes(plan) + 1, &buffers[6], error), *error);
    status = hr_plan_run_attention(plan, &x, hr_buffer_data(buffers[6]), NULL, error);
  }
  hr_plan_free(plan);
  return status;
}

/* A sequence for each multiprocessor, of several steps. */
static hr_status run_decode(hr_device *device, const problem *p, hr_buffer *buffers[BUFFERS], hr_error *error)
{
  hr_decode d = hr_decode_default();
  hr_decode_arguments x = hr_decode_arguments_default();
  hr_plan *plan = NULL;
  d.dtype = HR_BF16;
  d.batch = 4, d.kv_len = 700;
  d.q_heads = p->q_heads, d.k_heads = d.v_heads = 1;
  d.qk_dim = p->qk_dim, d.v_dim = p->v_dim;
  assert_ok(hr_decode_set_pages(&d, 0, error), *error);
  for (int i = 0; i < 4; i++)
    buffers[i] = make_buffer(device, d.dtype, d.batch * (i % 3 ? d.kv_len : d.q_heads) * (i < 2 ? d.qk_dim : d.v_dim));
  x.q = hr_buffer_data(buffers[0]);
  x.k = hr_buffer_data(buffers[1]);
  x.v = hr_buffer_data(buffers[2]);
  x.o = hr_buffer_data(buffers[3]);
  hr_status status = hr_plan_decode(device, &d, p->kernel, &plan, error);
  if (status == HR_OK) {
    assert_ok(hr_buffer_create(device, hr_plan_workspace_bytes(plan) + 1, &buffers[4], error), *error);
    status = hr_plan_run_decode(plan, &x, hr_buffer_data(buffers[4]), NULL, error);
  }
  hr_plan_free(plan);
  return status;
}

static const hr_kernel_info *row_of(const char *name)
{
  size_t count, i = 0;
  const hr_kernel_info *kernels = hr_kernels(&count);
  while (strcmp(kernels[i].name, name) != 0)
    assert_true(++i < count);
  return &kernels[i];
}

static hr_status run_backward(hr_device *device, const problem *p, hr_error *error)
{
  kernel_call c;
  assert_true(make_kernel_call(device, row_of(p->kernel), &c));
  hr_arguments x = arguments_to(&c, output_of(&c));
  hr_status status = run_arguments(c.plan, &x, c.workspace, NULL, error);
  free_kernel_call(&c);
  return status;
}

/* On a new device, because a device caches its programs. */
static hr_status run(const problem *p, const char *right, const char *wrong, hr_error *error)
{
  char text[1000];
  hr_device *device = NULL;
  hr_buffer *buffers[BUFFERS] = {NULL};
  snprintf(text, sizeof text, "%s\n=>\n%s", right, wrong);
  setenv("HEADROOM_EMULATED_FAULT", text, 1);
  assert_ok(hr_device_open("cuda:0", 0, &device, error), *error);
  *error = (hr_error){.message = ""};
  hr_status status = p->columns > 0   ? run_rows(device, p, buffers, error)
                     : p->backward    ? run_backward(device, p, error)
                     : p->q_heads > 0 ? run_decode(device, p, buffers, error)
                                      : run_attention(device, p, buffers, error);
  for (int i = 0; i < BUFFERS; i++)
    hr_buffer_free(buffers[i]);
  hr_device_close(device);
  unsetenv("HEADROOM_EMULATED_FAULT");
  return status;
}

/* Several launches, because every schedule differs. */
static void check(const problem *p, const fault *faults, size_t count)
{
  hr_error error;
  assert_ok(run(p, "no program has this", "", &error), error);
  for (size_t i = 0; i < count; i++) {
    if (!test_takes((int64_t)i))
      continue;
    hr_status status = HR_OK;
    for (int launch = 0; launch < 5 && status == HR_OK; launch++)
      status = run(p, faults[i].right, faults[i].wrong, &error);
    if (status == HR_OK)
      fail_msg("no error was reported without: %s", faults[i].right);
    if (!strstr(error.message, faults[i].words))
      fail_msg("expected \"%s\", found \"%s\" without: %s", faults[i].words, error.message, faults[i].right);
  }
}

/* ---- row-wise operations ---- */

static void a_row_over_a_cluster(void **state)
{
  (void)state;
  static const fault faults[] = {
      {"  if (CLUSTER > 1)\n    cluster_wait();\n", "", "cluster"},
      {"    cluster_arrive();\n    cluster_wait();\n  } else", "    cluster_arrive();\n  } else",
       "with no barrier between"},
      {"    cluster_arrive();\n    cluster_wait();\n  } else", "    __syncthreads();\n  } else", "which thread"},
  };
  problem p = {.operation = HR_ROWWISE_RMS_NORM, .rows = 3, .columns = 131072};
  check(&p, faults, LENGTH(faults));
}

static void a_row_over_a_block(void **state)
{
  (void)state;
  static const fault gather[] = {{"  } else if (WARP_COUNT > 1) {\n    __syncthreads();\n",
                                  "  } else if (WARP_COUNT > 1) {\n", "with no barrier between"}};
  static const fault held[] = {
      {"    if (SHARED_PACKS > 0)\n      cp_async_wait_all();\n", "", "a copy to it is pending"}};
  static const fault staged[] = {
      {"  cp_async_wait_all();\n  __syncthreads();\n", "  cp_async_wait_all();\n", "with no barrier between"}};
  problem p = {.operation = HR_ROWWISE_LAYER_NORM, .rows = 3, .columns = 4096};
  check(&p, gather, LENGTH(gather));
  p.operation = HR_ROWWISE_SOFTMAX, p.columns = 40960;
  check(&p, held, LENGTH(held));
  p.rows = 40, p.columns = 99;
  check(&p, staged, LENGTH(staged));
}

/* Four rows of four warps each, then a row of a block. */
static void gradients_of_rows_over_warps(void **state)
{
  (void)state;
  static const fault faults[] = {
      {"  asm volatile(\"bar.sync %0, %1;\" ::\"r\"(1 + (int)threadIdx.y), \"r\"(THREADS) : \"memory\");\n", "",
       "with no barrier between"},
      {"  turn ^= 1;\n", "", "with no barrier between"},
      {"    if (GROUPS > 1)\n      __syncthreads();\n#pragma unroll\n    for (int k = 0; k < PACK_ELEMENTS; k++) {\n   "
       "   float sum",
       "#pragma unroll\n    for (int k = 0; k < PACK_ELEMENTS; k++) {\n      float sum", "with no barrier between"},
      {"  shares[threadIdx.y][threadIdx.x] = sum;\n  __syncthreads();\n", "  shares[threadIdx.y][threadIdx.x] = sum;\n",
       "with no barrier between"},
  };
  problem p = {.operation = HR_ROWWISE_LAYER_NORM_BACKWARD, .rows = 40, .columns = 2048};
  check(&p, faults, LENGTH(faults));
}

/* ---- attention ---- */

static void warps_that_share_a_q_tile(void **state)
{
  (void)state;
  static const fault faults[] = {
      {"own[i][half];\n  __syncthreads();\n", "own[i][half];\n", "with no barrier between"},
      {"    cp_async_wait<0>();\n  __syncthreads();\n}", "    cp_async_wait<0>();\n}", "of shared memory"},
      {"cp_async_wait<0>();\n  if (!__syncthreads_or", "cp_async_wait<1>();\n  if (!__syncthreads_or",
       "a copy to it is pending"},
  };
  problem p = {.kernel = "attention_flash_sm80", .qk_dim = 256, .v_dim = 256};
  check(&p, faults, LENGTH(faults));
}

/* Rows of O are longer than rows of Q, so they overlap the Q rows of other warps. */
static void o_is_staged_in_the_memory_of_q(void **state)
{
  (void)state;
  static const fault faults[] = {{"  __syncthreads(); /* O replaces Q */\n", "", "with no barrier between"}};
  problem p = {.kernel = "attention_flash_sm80", .qk_dim = 96, .v_dim = 128};
  check(&p, faults, LENGTH(faults));
}

static void wgmma_waits_and_fences(void **state)
{
  (void)state;
  static const fault faults[] = {
      {"int tile = FIRST_TILE(sp);\n  mbarrier_wait_long(mbarrier_at(c.memory, K_FULL + t.stage), t.phase);\n",
       "int tile = FIRST_TILE(sp);\n", "of shared memory"},
      {"wgmma_wait<1>();\n  release_kv(c, K_EMPTY + next.stage);\n",
       "release_kv(c, K_EMPTY + next.stage);\n  wgmma_wait<1>();\n", "which a WGMMA of warp"},
      {"wgmma_fence();\n  issue_pv(c, t.stage);\n  wgmma_wait<0>();\n", "issue_pv(c, t.stage);\n  wgmma_wait<0>();\n",
       "with no wgmma.fence"},
  };
  problem p = {.kernel = "attention_flash_sm90", .qk_dim = 64, .v_dim = 64};
  check(&p, faults, LENGTH(faults));
}

static void teams_that_multiply_by_wgmma(void **state)
{
  (void)state;
  static const fault faults[] = {
      {"    fence_proxy_async();\n    team_barrier();\n", "    team_barrier();\n", "with no fence.proxy.async between"},
      {"    fence_proxy_async();\n    team_barrier();\n", "    fence_proxy_async();\n", "with no barrier between"},
      {"  fence_proxy_async();\n  __syncthreads();\n", "  fence_proxy_async();\n", "with no barrier between"},
      {"stage);\n  }\n  wgmma_wait<0>();\n", "stage);\n  }\n", "which a WGMMA of warp"},
  };
  problem p = {.kernel = "decode_split_sm80", .qk_dim = 64, .v_dim = 64, .q_heads = 80};
  check(&p, faults, LENGTH(faults));
}

static void tma_stores(void **state)
{
  (void)state;
  static const fault faults[] = {
      {"    fence_mbarrier_init();\n", "", "was not published"},
      {"  fence_proxy_async();\n  __syncwarp();\n  if (lane == 0) {", "  __syncwarp();\n  if (lane == 0) {",
       "with no fence.proxy.async between"},
      {"  fence_proxy_async();\n  __syncwarp();\n  if (lane == 0) {", "  fence_proxy_async();\n  if (lane == 0) {",
       "a TMA store reads byte"},
      {"  if (lane == 0)\n    tma_store_wait(); /* of the work item before */\n", "", "which a TMA store of thread"},
      {"    tma_store_commit();\n", "", "a TMA store"},
      {"  if (threadIdx.x % 32 == 0)\n    tma_store_wait();\n", "", "ended with cp.async, TMA"},
  };
  problem p = {.kernel = "attention_flash_sm90", .qk_dim = 64, .v_dim = 64};
  check(&p, faults, LENGTH(faults));
}

static void launches_before_the_kernel_before_has_ended(void **state)
{
  (void)state;
  static const fault tiles[] = {{"    work_item item = find_item(call, index);\n    wait_for_kernel_before();\n",
                                 "    work_item item = find_item(call, index);\n", "before griddepcontrol.wait"}};
  static const fault offsets[] = {
      {"    wait_for_kernel_before(); /* which may write the offsets, or the first keys */\n", "",
       "before griddepcontrol.wait"}};
  problem p = {.kernel = "attention_flash_sm90", .qk_dim = 64, .v_dim = 64};
  check(&p, tiles, LENGTH(tiles));
  p.variable = true;
  check(&p, offsets, LENGTH(offsets));
}

static void values_that_threads_zero(void **state)
{
  (void)state;
  static const fault faults[] = {
      {"  fence_proxy_async();\n  __syncwarp();\n}", "  __syncwarp();\n}", "with no fence.proxy.async between"}};
  problem p = {.kernel = "attention_flash_sm90", .qk_dim = 64, .v_dim = 64, .variable = true};
  check(&p, faults, LENGTH(faults));
}

static void gradients_by_copies_and_barriers(void **state)
{
  (void)state;
  static const fault faults[] = {
      {"  cp_async_wait<0>();\n  bool empty", "  bool empty", "a copy to it is pending"},
      {"if (__syncthreads_or(empty)) {", "if (__any_sync(0xFFFFFFFFu, empty)) {", "of shared memory"},
  };
  problem p = {.kernel = "attention_backward_sm80", .backward = true};
  check(&p, faults, LENGTH(faults));
}

/* A GPU waits for ever. */
static void registers_that_no_warpgroup_gives_back(void **state)
{
  (void)state;
  static const fault faults[] = {
      {"warpgroup_reg_dealloc<24>", "warpgroup_reg_dealloc<32>", "setmaxnreg: 512 registers for the threads of 3"}};
  problem p = {.kernel = "attention_backward_sm90", .backward = true};
  check(&p, faults, LENGTH(faults));
}

/* ---- counters ---- */

/* Whether one run of the kernel leaves a counter of its workspace that is not 0. */
static bool leaves_counters(const char *kernel, const char *right)
{
  static int32_t counters[HR_WORKSPACE_COUNTERS];
  char text[200];
  hr_device *device = NULL;
  hr_error error;
  kernel_call c;
  bool left = false;
  snprintf(text, sizeof text, "%s\n=>\n", right);
  setenv("HEADROOM_EMULATED_FAULT", text, 1);
  assert_ok(hr_device_open("cuda:0", 0, &device, &error), error);
  assert_true(make_kernel_call(device, row_of(kernel), &c));
  hr_arguments x = arguments_to(&c, output_of(&c));
  assert_ok(run_arguments(c.plan, &x, c.workspace, NULL, &error), error);
  assert_ok(hr_buffer_read(c.workspace, counters, sizeof counters, &error), error);
  for (int i = 0; i < HR_WORKSPACE_COUNTERS; i++)
    left = left || counters[i] != 0;
  free_kernel_call(&c);
  hr_device_close(device);
  unsetenv("HEADROOM_EMULATED_FAULT");
  return left;
}

/* Splits are combined through memory where there are no clusters. */
static void counters_that_a_run_leaves(void **state)
{
  (void)state;
  static const struct {
    const char *kernel, *capability, *right;
  } faults[] = {{"attention_flash_sm90", "90", "    call.counters[0] = 0;\n"},
                {"attention_flash_sm90", "90", "    call.counters[1] = 0;\n"},
                {"decode_split_sm80", "80", "      call.counters[w.group] = 0;\n"},
                {"decode_topk_sm80", "90", "      call.counters[w.row] = 0;\n"}};
  for (size_t i = 0; i < LENGTH(faults); i++) {
    setenv("HEADROOM_EMULATED_CAPABILITY", faults[i].capability, 1);
    assert_false(leaves_counters(faults[i].kernel, "no program has this"));
    if (!leaves_counters(faults[i].kernel, faults[i].right))
      fail_msg("%s leaves its counters 0 without: %s", faults[i].kernel, faults[i].right);
  }
  unsetenv("HEADROOM_EMULATED_CAPABILITY");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_row_over_a_cluster),
      cmocka_unit_test(a_row_over_a_block),
      cmocka_unit_test(gradients_of_rows_over_warps),
      cmocka_unit_test(warps_that_share_a_q_tile),
      cmocka_unit_test(o_is_staged_in_the_memory_of_q),
      cmocka_unit_test(wgmma_waits_and_fences),
      cmocka_unit_test(teams_that_multiply_by_wgmma),
      cmocka_unit_test(tma_stores),
      cmocka_unit_test(launches_before_the_kernel_before_has_ended),
      cmocka_unit_test(values_that_threads_zero),
      cmocka_unit_test(gradients_by_copies_and_barriers),
      cmocka_unit_test(registers_that_no_warpgroup_gives_back),
      cmocka_unit_test(counters_that_a_run_leaves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
