/* SPDX-License-Identifier: Apache-2.0 */
/* Latent attention by every decode kernel: ragged batches, whose sequences a kernel may divide anywhere, page sizes,
 * and everything that masks or changes scores. */
#include "decode_call.h"

#define MULTIPLY_ADDS ((int64_t)100000) /* of the reference for one call */

#define CASES 13 /* the last is one long sequence, of which a GPU has many parts */

/* Query heads, head sizes of K and V. */
static const int64_t sizes[][3] = {{16, 576, 512}, {7, 576, 512}, {128, 576, 512}, {71, 192, 128}, {3, 72, 64}};
static const int64_t page_sizes[] = {0, 16, 64, 256, 8, 24};
static const int32_t lengths[] = {0, 1, 63, 64, 65, 127, 128, 129, 200, 300, 2, 256};

static decode_setup latent_call(int64_t i, hr_dtype dtype)
{
  const int64_t *size = sizes[i % LENGTH(sizes)], heads[3] = {size[0], 1, 1};
  decode_setup setup = decode_call_of(heads, size + 1, i == CASES - 1 ? 1500 : 300, dtype);
  hr_decode *d = &setup.d;
  d->latent = true;
  setup.seed = (uint64_t)i + 1;
  d->batch = i % 4 == 3 || i == CASES - 1 ? 1 : 2 + 5 * (i % 3);
  d->q_len = i % 3 == 1 ? 1 + i : 1;
  d->window = i % 4 == 2 ? 70 : 0;
  d->softcap = i % 5 == 3 ? 0.5f : 0;
  d->scale = i % 6 == 5 ? -0.02f : 0;
  d->sinks = i % 4 == 1;
  setup.unaligned = i == 6 || i == 8;
  setup.special = i == 10 ? DECODE_NAN_IN_K : DECODE_FINITE;
  setup.lengths = d->batch > 1 ? lengths : NULL;
  decode_set_pages(&setup, page_sizes[i % LENGTH(page_sizes)]);
  return setup;
}

static void check_calls(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for (int64_t i = 0; i < CASES; i++) {
    if (!decode_has_a_turn(i, dtype) || !test_takes(i / 3))
      continue;
    decode_setup setup = latent_call(i, dtype);
    bool ran = decode_try(device, kernel, &setup, MULTIPLY_ADDS);
    assert_true(ran || setup.unaligned || !strstr(kernel, "_latent_")); /* TMA takes aligned addresses alone */
  }
}

static const fact facts[] = {
    FACT(every_kernel_agrees_with_latent_attention, check_calls),
};
const fact_group decode_latent_facts = {
    .name = "decode_latent", .operation = "decode", .facts = facts, .count = LENGTH(facts), .shares = EVERY_NTH};
