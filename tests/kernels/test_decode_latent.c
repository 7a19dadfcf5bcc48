/* SPDX-License-Identifier: Apache-2.0 */
/* Latent attention by every decode kernel: ragged batches, whose sequences a kernel may divide anywhere, page sizes,
 * and everything that masks or changes scores. */
#include "decode_call.h"

#include <string.h>

#define MULTIPLY_ADDS ((int64_t)100000) /* of the reference for one call */
#define LENGTH(array) (int64_t)(sizeof(array) / sizeof *(array))

#define CASES 13 /* the last is one long sequence, of which a GPU has many parts */

/* Query heads, head sizes of K and V. */
static const int64_t sizes[][3] = {{16, 576, 512}, {7, 576, 512}, {128, 576, 512}, {71, 192, 128}, {3, 72, 64}};
static const int64_t page_sizes[] = {0, 16, 64, 256, 8, 24};
static const int32_t lengths[] = {0, 1, 63, 64, 65, 127, 128, 129, 200, 300, 2, 256};

static decode_setup latent_call(int64_t i, hr_dtype dtype)
{
  decode_setup setup = {.d = hr_decode_default(), .seed = (uint64_t)i + 1};
  hr_decode *d = &setup.d;
  hr_error error;
  d->latent = true;
  d->dtype = dtype;
  d->kv_len = i == CASES - 1 ? 1500 : 300;
  d->q_heads = sizes[i % LENGTH(sizes)][0];
  d->qk_dim = sizes[i % LENGTH(sizes)][1], d->v_dim = sizes[i % LENGTH(sizes)][2];
  d->batch = i % 4 == 3 || i == CASES - 1 ? 1 : 2 + 5 * (i % 3);
  d->q_len = i % 3 == 1 ? 1 + i : 1;
  d->window = i % 4 == 2 ? 70 : 0;
  d->softcap = i % 5 == 3 ? 0.5f : 0;
  d->scale = i % 6 == 5 ? -0.02f : 0;
  d->sinks = i % 4 == 1;
  setup.unaligned = i == 6 || i == 8;
  setup.special = i == 10 ? DECODE_NAN_IN_K : DECODE_FINITE;
  setup.lengths = d->batch > 1 ? lengths : NULL;
  int64_t page_size = page_sizes[i % LENGTH(page_sizes)];
  assert_ok(hr_decode_set_pages(d, page_size, &error), error);
  setup.shuffled = page_size > 0;
  setup.listed = setup.seed % 2 == 0;
  return setup;
}

/* The cases are distributed over the formats; with HEADROOM_TEST=thorough each format gets all. */
static void check_calls(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for (int64_t i = 0; i < CASES; i++) {
    if (((i + (int64_t)dtype) % 3 != 0 && !test_asks_for("thorough")) || !test_takes(i / 3))
      continue;
    decode_setup setup = latent_call(i, dtype);
    bool ran = decode_try(device, kernel, &setup, MULTIPLY_ADDS);
    assert_true(ran || !strstr(kernel, "_latent_"));
  }
}

static void every_kernel_agrees_with_latent_attention(void **state)
{
  (void)state;
  decode_each_kernel(check_calls);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_kernel_agrees_with_latent_attention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
