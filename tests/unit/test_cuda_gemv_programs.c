/* SPDX-License-Identifier: Apache-2.0 */
/* GEMMs of few rows on a GPU: loads and tilings for a problem, and that the programs compile. Needs NVRTC for the
 * latter, but no GPU. */
#include "programs.h"

#include "runtime/cuda/gemm/linear.h"

#define MULTIPROCESSORS 132

static hr_gemm linear(hr_dtype dtype, int64_t m, int64_t n, int64_t k)
{
  hr_gemm g = hr_gemm_default();
  g.dtype = dtype;
  g.m = m, g.n = n, g.k = k;
  g.transpose_b = true;
  return g;
}

static void a_load_is_as_wide_as_rows_batches_and_addresses_are_aligned(void **state)
{
  (void)state;
  hr_gemm g = linear(HR_BF16, 2, 64, 4096);
  assert_int_equal(hr_gemv_load_bytes(&g), 16);
  g.k = 4092; /* 8184 bytes = 8 · 1023 */
  assert_int_equal(hr_gemv_load_bytes(&g), 8);
  g.k = 4096, g.ldb = 4098;
  assert_int_equal(hr_gemv_load_bytes(&g), 4);
  g.n = 1; /* the only row */
  assert_int_equal(hr_gemv_load_bytes(&g), 16);
  g.n = 64, g.ldb = 0, g.batch = 2, g.stride_a = 2 * 4096 + 1;
  assert_int_equal(hr_gemv_load_bytes(&g), 2);
  g.batch = 1, g.alignment = 8;
  assert_int_equal(hr_gemv_load_bytes(&g), 8);
}

/* 132 multiprocessors: 2112 rows are 16 each, 4224 twice as many, of which a block takes all. */
static void more_warps_share_a_row_where_rows_are_few(void **state)
{
  (void)state;
  static const struct {
    int64_t m, n;
    int rows, k_warps;
  } cases[] = {{1, 2112, 16, 16}, {1, 2113, 32, 16}, {4, 8192, 16, 8}, {5, 4224, 32, 16}, {5, 4225, 16, 8}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_gemm g = linear(HR_FP16, cases[i].m, cases[i].n, 4096);
    hr_gemv_tiling t;
    assert_true(hr_gemv_tiling_choose(&g, 16, MULTIPROCESSORS, 0, &t));
    assert_true(t.mma);
    assert_int_equal(t.rows * t.row_warps, cases[i].rows);
    assert_int_equal(t.k_warps, cases[i].k_warps);
  }
}

static bool same(const hr_gemv_tiling *a, const hr_gemv_tiling *b)
{
  return a->mma == b->mma && a->rows == b->rows && a->row_warps == b->row_warps && a->k_warps == b->k_warps &&
         a->unroll_load == b->unroll_load && a->resident == b->resident;
}

/* Whichever is the first, each tiling of the table is one choice. */
static void each_choice_is_another_tiling(void **state)
{
  (void)state;
  for (int i = 0; i < 8; i++) {
    hr_gemm g = linear(i % 2 ? HR_BF16 : HR_FP32, i % 4 < 2 ? 1 : 8, i < 4 ? 100 : 100000, 4096);
    hr_gemv_tiling tilings[32];
    int64_t count = 0;
    while (count < 32 && hr_gemv_tiling_choose(&g, 16, MULTIPROCESSORS, count, &tilings[count]))
      count++;
    assert_true(count > 4 && count < 32);
    for (int64_t a = 0; a < count; a++)
      for (int64_t b = 0; b < a; b++)
        assert_false(same(&tilings[a], &tilings[b]));
  }
}

/* Every tiling; a format, load and architecture in turn. */
static void the_program_compiles_for_every_architecture(void **state)
{
  (void)state;
  static const hr_dtype formats[] = {HR_BF16, HR_FP32, HR_FP16};
  static const int64_t sizes[] = {4096, 4100, 4102, 4103};
  static const char *const hows[] = {"", "HR_EARLY", "HR_GROUPED"};
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  hr_gemv_tiling t;
  for (int i = 0; i < 48; i++) {
    int architecture = i % (int)count_architectures(&nvrtc);
    hr_gemm g = linear(formats[i / 3 % 3], 1 + i % 8, 100000, i % 2 ? sizes[0] : sizes[i / 2 % 4]);
    int load = hr_gemv_load_bytes(&g);
    if (!hr_gemv_tiling_choose(&g, load, MULTIPROCESSORS, i / 4, &t))
      continue;
    hr_gemv_defines(&g, &t, load, hows[i % 3 == 0 ? 2 : architecture > 0], defines);
    build(&nvrtc, "gemv", architectures[architecture], g.dtype, defines);
  }
  hr_nvrtc_close(&nvrtc);
}

/* Norms, gates and activations in turn, of each format, load and tiling. */
static void what_is_fused_compiles_for_every_architecture(void **state)
{
  (void)state;
  static const hr_rowwise_operation norms[] = {HR_ROWWISE_RMS_NORM, HR_ROWWISE_LAYER_NORM, HR_ROWWISE_COUNT};
  static const hr_rowwise_operation plain[] = {HR_ROWWISE_GELU, HR_ROWWISE_GELU_TANH, HR_ROWWISE_RELU,
                                               HR_ROWWISE_RELU2};
  static const hr_rowwise_operation gated[] = {HR_ROWWISE_SWIGLU, HR_ROWWISE_SWIGLU_CLAMPED, HR_ROWWISE_GEGLU,
                                               HR_ROWWISE_GEGLU_TANH};
  static const hr_dtype formats[] = {HR_BF16, HR_FP16, HR_FP32};
  static const int64_t sizes[] = {4096, 1000, 1027}, rows[] = {2000, 4000, 6000, 14000, 50000};
  static const int matrix[1];
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  hr_gemv_tiling t;
  for (int i = 0; i < 36; i++) {
    const int architecture = i % (int)count_architectures(&nvrtc);
    const hr_linear_arguments x = {.rows = 1 + i % 8,
                                   .n = rows[i % 5],
                                   .k = sizes[i / 2 % 3],
                                   .x_stride = sizes[i / 2 % 3],
                                   .dtype = formats[i / 3 % 3],
                                   .norm = i % 7 == 0 ? HR_ROWWISE_COUNT : norms[i % 3],
                                   .activation = i % 2   ? gated[i / 2 % 4]
                                                 : i % 3 ? plain[i / 2 % 4]
                                                         : HR_ROWWISE_COUNT,
                                   .gate = i % 2 ? matrix : NULL,
                                   .experts = i % 7 == 0 ? 8 : 0,
                                   .active = i % 14 == 0 ? 1 : 0,
                                   .most = 8};
    hr_linear_program(&x, MULTIPROCESSORS, architecture > 0, &t, defines);
    build(&nvrtc, "gemv", architectures[architecture], x.dtype, defines);
  }
  hr_nvrtc_close(&nvrtc);
}

/* Scales of rows and of blocks, from compute capability 8.9 on, with what is fused in turn. */
static void weights_in_fp8_compile(void **state)
{
  (void)state;
  static const int64_t sizes[] = {4096, 80, 1040}, rows[] = {2000, 4000, 6000, 14000, 50000};
  static const int matrix[1];
  static const float scale;
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  hr_gemv_tiling t;
  for (int i = 0; i < 12; i++) {
    const hr_linear_arguments x = {.rows = 1 + i % 8,
                                   .n = rows[i % 5],
                                   .k = sizes[i % 3],
                                   .x_stride = sizes[i % 3],
                                   .dtype = i / 2 % 2 ? HR_FP16 : HR_BF16,
                                   .norm = i % 4 ? HR_ROWWISE_COUNT : HR_ROWWISE_RMS_NORM,
                                   .activation = i % 3 ? HR_ROWWISE_COUNT : HR_ROWWISE_SWIGLU,
                                   .gate = i % 3 ? NULL : matrix,
                                   .scales = &scale,
                                   .shares =
                                       i % 2 ? hr_fp8_scales_of_blocks(128, sizes[i % 3]) : hr_fp8_scales_of_rows()};
    const bool hopper = i % 4 < 3;
    hr_linear_program(&x, MULTIPROCESSORS, hopper, &t, defines);
    assert_true(t.mma);
    build(&nvrtc, "gemv", hopper ? "sm_90a" : "sm_89", x.dtype, defines);
  }
  hr_nvrtc_close(&nvrtc);
}

/* A row of 4096 in fp8 has the tiling of one of 2048 in 16 bits. */
static void rows_in_fp8_are_tiled_by_their_bytes(void **state)
{
  (void)state;
  static const float scale;
  char defines[HR_DEFINES_SIZE];
  hr_gemv_tiling fp8, wide;
  hr_linear_arguments x = {.rows = 1,
                           .n = 4096,
                           .k = 2048,
                           .x_stride = 2048,
                           .dtype = HR_BF16,
                           .norm = HR_ROWWISE_COUNT,
                           .activation = HR_ROWWISE_COUNT};
  for (x.n = 1000; x.n < 100000; x.n *= 3) {
    x.k = x.x_stride = 2048, x.scales = NULL;
    hr_linear_program(&x, MULTIPROCESSORS, true, &wide, defines);
    assert_null(strstr(defines, "HR_FP8"));
    x.k = x.x_stride = 4096, x.scales = &scale, x.shares = hr_fp8_scales_of_rows();
    hr_linear_program(&x, MULTIPROCESSORS, true, &fp8, defines);
    assert_true(same(&fp8, &wide));
    assert_non_null(strstr(defines, "HR_FP8=HR_GEMV_SCALED_ROWS"));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_load_is_as_wide_as_rows_batches_and_addresses_are_aligned),
      cmocka_unit_test(more_warps_share_a_row_where_rows_are_few),
      cmocka_unit_test(each_choice_is_another_tiling),
      cmocka_unit_test(the_program_compiles_for_every_architecture),
      cmocka_unit_test(what_is_fused_compiles_for_every_architecture),
      cmocka_unit_test(weights_in_fp8_compile),
      cmocka_unit_test(rows_in_fp8_are_tiled_by_their_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
