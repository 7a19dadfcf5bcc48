/* SPDX-License-Identifier: Apache-2.0 */
/* Selective V on a GPU: sizes for a problem, and that the program compiles. Needs NVRTC for the latter, but no GPU. */
#include "programs.h"

#include "runtime/cuda/decode/decode.h"

static const hr_decode_gpu gpus[] = {{.multiprocessors = 108, .shared_max = 163 << 10},
                                     {.multiprocessors = 142, .shared_max = 99 << 10},
                                     {.multiprocessors = 132, .shared_max = 227 << 10}};

static hr_decode call_of(int64_t batch, int64_t kv_len, int64_t top_k, int64_t qk_dim, int64_t v_dim)
{
  hr_decode d = hr_decode_default();
  hr_error error;
  d.batch = batch, d.kv_len = kv_len, d.top_k = top_k;
  d.q_heads = 32, d.k_heads = 4, d.v_heads = 16;
  d.qk_dim = qk_dim, d.v_dim = v_dim;
  assert_ok(hr_decode_set_pages(&d, 16, &error), error);
  return d;
}

static void a_row_is_in_shared_memory_where_it_fits(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
    for (int64_t kv_len = 1000; kv_len <= 1000000; kv_len *= 10) {
      hr_decode d = call_of(1, kv_len, 100, 64, 64);
      hr_decode_topk t = hr_decode_topk_choose(&d, &gpus[i]);
      assert_true(t.shared_bytes <= gpus[i].shared_max);
      assert_int_equal(t.in_shared, kv_len <= 10000);
      assert_true(t.pitch >= kv_len && t.pitch % 64 == 0);
      assert_int_equal(t.score_blocks, (kv_len + 255) / 256);
    }
  hr_decode d = call_of(1, 100000, 100, 64, 64);
  d.window = 1000, d.q_len = 4; /* 1003 keys together */
  hr_decode_topk t = hr_decode_topk_choose(&d, &gpus[2]);
  assert_true(t.in_shared && t.pitch == 1024 && t.score_blocks == 4);
  assert_int_equal(t.tiles, 2); /* 8 heads of 4 queries */
}

/* 32 rows on 132 multiprocessors: four blocks each, if each gathers 256 KiB. */
static void a_row_has_several_blocks_where_much_is_gathered(void **state)
{
  (void)state;
  static const int64_t cases[][3] = {{1, 100, 1}, {1, 4096, 2}, {1, 16384, 4}, {2, 16384, 2}, {16, 16384, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_decode d = call_of(cases[i][0], 32768, cases[i][1], 64, 64);
    assert_int_equal(hr_decode_topk_choose(&d, &gpus[2]).splits, cases[i][2]);
  }
  hr_decode d = call_of(16, 32768, 16384, 64, 64);
  d.batch_invariant = true; /* as for one sequence */
  assert_int_equal(hr_decode_topk_choose(&d, &gpus[2]).splits, 4);
}

static void the_program_compiles_for_every_architecture(void **state)
{
  (void)state;
  static const int64_t sizes[][2] = {{64, 64}, {128, 256}, {7, 19}};
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  for (size_t i = 0; i < 3; i++)
    for (size_t a = 0; a < count_architectures(&nvrtc); a++) {
      if ((i + a) % 3 != 0 && !test_asks_for("whole"))
        continue;
      hr_decode d = call_of(1, i == 1 ? 1000000 : 4096, 100, sizes[i][0], sizes[i][1]);
      d.softcap = i == 1 ? 1.0f : 0.0f;
      hr_decode_topk t = hr_decode_topk_choose(&d, &gpus[2]);
      hr_decode_topk_defines(&t, &d, i < 2, defines);
      build(&nvrtc, "decode_topk", architectures[a], i % 2 ? HR_FP16 : HR_BF16, defines);
    }
  hr_nvrtc_close(&nvrtc);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_row_is_in_shared_memory_where_it_fits),
      cmocka_unit_test(a_row_has_several_blocks_where_much_is_gathered),
      cmocka_unit_test(the_program_compiles_for_every_architecture),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
