/* SPDX-License-Identifier: Apache-2.0 */
/* The KV cache on the devices of this machine, with HEADROOM_TEST=gpu on the GPU alone: what was appended is read back,
 * rotary embedding against float64, slots that come and go, errors that change nothing. */
#include "kv_model.h"

#include "base/error.h"
#include "runtime/device/kv_cache.h"

static const hr_dtype dtypes[] = {HR_FP32, HR_FP16, HR_BF16};

/* ---- append ---- */

/* Elements of K that are not NaN. */
static int64_t count_written(const kv_model *m)
{
  int64_t slot = 0, written = 0;
  kv_image image = kv_read(m, 1, &slot);
  int64_t elements = image.d.page_count * image.d.page_size * (int64_t)kv_width(m, true);
  for (int64_t i = 0; i < elements; i++)
    written += !isnan(hr_number_load(m->o.dtype, image.x.k, (size_t)i));
  kv_image_free(&image);
  return written;
}

static void append_to_three_slots(hr_device *device, hr_dtype dtype, int64_t page_size)
{
  static const int64_t tokens[][3] = {{1, 15, 0}, {1, 1, 1},   {14, 1, 16}, {1, 0, 239},
                                      {0, 1, 1},  {17, 33, 3}, {0, 0, 0},   {300, 1, 255}};
  kv_model m = three_slots(dtype, page_size);
  hr_error error;
  kv_create(&m, device);
  int64_t slots[3] = {0}, sum = 0;
  for (int i = 0; i < 3; i++)
    slots[i] = kv_add(&m);
  for (size_t step = 0; step < sizeof tokens / sizeof *tokens; step++) {
    assert_ok(kv_append(&m, 3, slots, tokens[step], step % 3 == 1 ? 6 : 0, &error), error);
    for (int i = 0; i < 3; i++)
      sum += tokens[step][i];
    kv_expect(&m, (int64_t)step);
    assert_int_equal(count_written(&m), sum * (int64_t)kv_width(&m, true));
  }
  const int64_t two[] = {slots[2], slots[0]};
  assert_ok(kv_append(&m, 2, two, NULL, 0, &error), error);
  assert_ok(kv_append(&m, 0, NULL, NULL, 0, &error), error);
  kv_expect(&m, 0);
  kv_free(&m);
}

static void append_everywhere(hr_device *device)
{
  static const int64_t page_sizes[] = {0, 16, 24, 256};
  for (size_t i = 0; i < 4 * 3; i++)
    append_to_three_slots(device, dtypes[i % 3], page_sizes[i / 3]);
}

static void appended_tokens_are_read_back(void **state)
{
  (void)state;
  each_device(append_everywhere);
}

typedef struct rotary_case {
  int64_t qk_dim, first, dim;
} rotary_case;

static void rotate_one_case(hr_device *device, hr_dtype dtype, rotary_case c, hr_rotary_pairs pairs)
{
  kv_model m = three_slots(dtype, c.dim % 4 == 0 ? 16 : 0);
  hr_error error;
  m.o.qk_dim = c.qk_dim;
  m.rotary.rotary_first = c.first, m.rotary.rotary_dim = c.dim;
  m.rotary.pairs = pairs;
  kv_create(&m, device);
  const int64_t slots[] = {kv_add(&m), kv_add(&m)}, prompt[] = {30, 7}, more[] = {1, 3};
  assert_ok(kv_append(&m, 2, slots, prompt, 0, &error), error);
  assert_ok(kv_append(&m, 2, slots, more, 5, &error), error);
  assert_ok(kv_append(&m, 2, slots, NULL, 16, &error), error);
  kv_expect(&m, 0);
  kv_free(&m);
}

static void rotate_everywhere(hr_device *device)
{
  static const rotary_case cases[] = {{64, 0, 64},   {128, 0, 32}, {80, 16, 64}, {6, 0, 6},    {24, 1, 22},
                                      {256, 0, 256}, {18, 2, 2},   {96, 32, 64}, {200, 0, 140}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int dtype = 0; dtype < 3; dtype++)
      for (int pairs = 0; pairs < 2; pairs++)
        rotate_one_case(device, dtypes[dtype], cases[i], (hr_rotary_pairs)pairs);
}

static void rotary_embedding_is_that_of_float64_but_for_one_rounding(void **state)
{
  (void)state;
  each_device(rotate_everywhere);
}

/* DeepSeek-V2 has the compressed part, which is V, then the part with positions. */
static void append_latents(hr_device *device)
{
  kv_model m = three_slots(HR_BF16, 16);
  hr_error error;
  m.o.latent = true;
  m.o.k_heads = m.o.v_heads = 1;
  m.o.qk_dim = 72, m.o.v_dim = 64;
  m.rotary.rotary_first = 64, m.rotary.rotary_dim = 8;
  m.rotary.pairs = HR_ROTARY_INTERLEAVED;
  kv_create(&m, device);
  const int64_t slots[] = {kv_add(&m), kv_add(&m)}, tokens[] = {17, 2};
  assert_ok(kv_append(&m, 2, slots, tokens, 0, &error), error);
  kv_expect(&m, 0);
  kv_image image = kv_read(&m, 2, slots);
  assert_true(image.d.latent);
  kv_image_free(&image);
  kv_free(&m);
}

static void a_latent_cache_has_k_alone(void **state)
{
  (void)state;
  each_device(append_latents);
}

/* ---- slots ---- */

static uint64_t random_state;

static int64_t random_below(int64_t end)
{
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)(random_state >> 33) % end;
}

static int64_t pages_in_use(const kv_model *m)
{
  int64_t pages = 0;
  for (int64_t slot = 0; slot < m->o.slots; slot++)
    pages += (hr_max64(0, m->lengths[slot]) + m->o.page_size - 1) / m->o.page_size;
  return pages;
}

/* Appends to random slots and expects what the lengths allow. */
static void append_at_random(kv_model *m)
{
  int64_t slots[SLOTS_MAX], tokens[SLOTS_MAX], count = 0, pages = 0;
  bool fits = true;
  hr_error error;
  for (int64_t slot = 0; slot < m->o.slots; slot++) {
    if (m->lengths[slot] < 0 || random_below(2) == 0)
      continue;
    int64_t length = m->lengths[slot], size = m->o.page_size;
    slots[count] = slot;
    tokens[count] = random_below(3) > 0 ? 1 : random_below(40);
    fits = fits && length + tokens[count] <= m->o.tokens;
    pages += (length + tokens[count] + size - 1) / size - (length + size - 1) / size;
    count++;
  }
  hr_status expected = !fits ? HR_ERROR_INVALID : pages > m->o.pages - pages_in_use(m) ? HR_ERROR_OUT_OF_MEMORY : HR_OK;
  hr_status status = kv_append(m, count, slots, tokens, (size_t)random_below(2), &error);
  if (status != expected)
    fail_msg("expected %s, found %s", hr_status_name(expected), hr_status_name(status));
}

static void step_at_random(kv_model *m)
{
  hr_error error;
  int64_t slot = random_below(m->o.slots), action = random_below(8), number = 0, length = m->lengths[slot];
  if (action == 0) {
    int64_t used = 0;
    for (int64_t i = 0; i < m->o.slots; i++)
      used += m->lengths[i] >= 0;
    if (used < m->o.slots)
      kv_add(m);
    else
      assert_int_equal(hr_kv_cache_add(m->cache, &number, &error), HR_ERROR_OUT_OF_MEMORY);
  } else if (action == 1) {
    assert_int_equal(hr_kv_cache_remove(m->cache, slot, &error), length < 0 ? HR_ERROR_INVALID : HR_OK);
    m->lengths[slot] = -1;
  } else if (action == 2) {
    int64_t kept = random_below(m->o.tokens);
    bool fits = length >= kept;
    assert_int_equal(hr_kv_cache_truncate(m->cache, slot, kept, &error), fits ? HR_OK : HR_ERROR_INVALID);
    m->lengths[slot] = fits ? kept : length;
  } else {
    append_at_random(m);
  }
  for (slot = 0; slot < m->o.slots; slot++) {
    hr_status status = hr_kv_cache_length(m->cache, slot, &number, &error);
    assert_int_equal(status, m->lengths[slot] < 0 ? HR_ERROR_INVALID : HR_OK);
    assert_true(status != HR_OK || number == m->lengths[slot]);
  }
  assert_int_equal(hr_kv_cache_pages_free(m->cache), m->o.pages - pages_in_use(m));
}

static void come_and_go(hr_device *device)
{
  kv_model m = {.o = hr_kv_cache_options_default(), .rotary = hr_kv_append_default()};
  m.o.qk_dim = m.o.v_dim = 8;
  m.o.slots = 6, m.o.tokens = 90, m.o.pages = 20; /* of the 36 that all slots would fill */
  m.rotary.rotary_dim = 8;
  kv_create(&m, device);
  random_state = 1;
  for (int step = 0; step < (test_asks_for("few") ? 100 : 1000); step++) {
    step_at_random(&m);
    if (step % 10 == 0)
      kv_expect(&m, random_below(m.o.slots));
  }
  kv_free(&m);
}

static void slots_come_and_go_for_a_thousand_steps(void **state)
{
  (void)state;
  each_device(come_and_go);
}

/* ---- errors ---- */

static void fails(const kv_model *m, hr_status found, hr_status expected, const hr_error *error, const char *message)
{
  assert_string_equal(error->message, message);
  assert_int_equal(found, expected);
  assert_int_equal(hr_kv_cache_pages_free(m->cache), m->o.pages - pages_in_use(m));
  kv_expect(m, 0);
}

static void refuse_appends(kv_model *m, const int64_t *slots)
{
  hr_error error;
  const int64_t twice[] = {slots[0], slots[1], slots[0]}, unknown[] = {slots[0], 3}, removed[] = {slots[1], slots[2]};
  const int64_t long_one[] = {1, 91}, many[] = {20, 60}, negative[] = {1, -1}, few[] = {1, 1, 1};
  fails(m, kv_append(m, 3, twice, few, 0, &error), HR_ERROR_INVALID, &error, "slot 0 is listed twice");
  fails(m, kv_append(m, 2, unknown, NULL, 0, &error), HR_ERROR_INVALID, &error, "slot 3: expected 0 to 2");
  fails(m, kv_append(m, 2, removed, NULL, 0, &error), HR_ERROR_INVALID, &error, "slot 2 is not in use");
  fails(m, kv_append(m, 2, slots, negative, 0, &error), HR_ERROR_INVALID, &error,
        "tokens: expected at least 0, found -1 for slot 1");
  fails(m, kv_append(m, 2, slots, long_one, 0, &error), HR_ERROR_INVALID, &error,
        "slot 1 has 10 of at most 100 tokens: 91 more do not fit");
  fails(m, kv_append(m, 2, slots, many, 0, &error), HR_ERROR_OUT_OF_MEMORY, &error,
        "6 more pages are needed, 4 of 7 are free");
  m->rotary.positions = 30;
  fails(m, kv_append(m, 2, slots, NULL, 0, &error), HR_ERROR_INVALID, &error,
        "positions: slot 0 reaches position 30, the tables have 30");
  m->rotary.positions = 100;
}

static void refuse_operands(kv_model *m, const int64_t *slots)
{
  hr_error error;
  hr_kv_append a = hr_kv_append_default();
  hr_buffer *k = kv_rows(m, true, 1, 1), *v = kv_rows(m, false, 1, 0);
  a.count = 1, a.slots = slots;
  fails(m, hr_kv_cache_append(m->cache, &a, NULL, &error), HR_ERROR_INVALID, &error,
        "k: an address is needed, found NULL");
  a.k = (char *)hr_buffer_data(k) + 1;
  fails(m, hr_kv_cache_append(m->cache, &a, NULL, &error), HR_ERROR_INVALID, &error,
        "k: expected an address that is a multiple of 2");
  a.k = hr_buffer_data(k);
  fails(m, hr_kv_cache_append(m->cache, &a, NULL, &error), HR_ERROR_INVALID, &error,
        "v: an address is needed, found NULL");
  a.v = hr_buffer_data(v), a.k_row = 47;
  fails(m, hr_kv_cache_append(m->cache, &a, NULL, &error), HR_ERROR_INVALID, &error,
        "k_row: expected at least 48, found 47");
  a.k_row = 0, a.slots = NULL;
  fails(m, hr_kv_cache_append(m->cache, &a, NULL, &error), HR_ERROR_INVALID, &error,
        "slots: an address is needed, found NULL");
  hr_buffer_free(k);
  hr_buffer_free(v);
}

static void refuse_rotary(kv_model *m, const int64_t *slots)
{
  hr_error error;
  hr_buffer *k = kv_rows(m, true, 1, 0), *v = kv_rows(m, false, 1, 0);
  hr_kv_append a = m->rotary;
  a.count = 1, a.slots = slots;
  a.k = hr_buffer_data(k), a.v = hr_buffer_data(v);
  a.rotary_dim = 25;
  fails(m, hr_kv_cache_append(m->cache, &a, NULL, &error), HR_ERROR_INVALID, &error,
        "rotary_dim: expected an even number up to 24, found 25");
  a.rotary_dim = 24, a.rotary_first = 1;
  fails(m, hr_kv_cache_append(m->cache, &a, NULL, &error), HR_ERROR_INVALID, &error,
        "rotary_first: expected 0 to 0, found 1");
  a.rotary_first = 0, a.pairs = (hr_rotary_pairs)2;
  fails(m, hr_kv_cache_append(m->cache, &a, NULL, &error), HR_ERROR_INVALID, &error,
        "pairs: 2 is not a way to pair elements");
  a.pairs = HR_ROTARY_HALF_SPLIT, a.sin = NULL;
  fails(m, hr_kv_cache_append(m->cache, &a, NULL, &error), HR_ERROR_INVALID, &error,
        "sin: an address that is a multiple of 4 is needed");
  hr_buffer_free(k);
  hr_buffer_free(v);
}

static void refuse_slots(kv_model *m, const int64_t *slots)
{
  hr_error error;
  int64_t number = -7;
  const int64_t removed[] = {slots[1], slots[2]};
  hr_decode d = hr_decode_default(), before = d;
  hr_decode_arguments x = hr_decode_arguments_default();
  fails(m, hr_kv_cache_remove(m->cache, slots[2], &error), HR_ERROR_INVALID, &error, "slot 2 is not in use");
  fails(m, hr_kv_cache_remove(m->cache, -1, &error), HR_ERROR_INVALID, &error, "slot -1: expected 0 to 2");
  fails(m, hr_kv_cache_truncate(m->cache, slots[0], 31, &error), HR_ERROR_INVALID, &error,
        "length: slot 0 has 30 tokens, found 31");
  fails(m, hr_kv_cache_length(m->cache, 2, &number, &error), HR_ERROR_INVALID, &error, "slot 2 is not in use");
  assert_int_equal(number, -7);
  fails(m, kv_decode(m->cache, 2, removed, &d, &x, &error), HR_ERROR_INVALID, &error, "slot 2 is not in use");
  fails(m, kv_decode(m->cache, 0, removed, &d, &x, &error), HR_ERROR_INVALID, &error,
        "count: expected 1 to 3, found 0");
  assert_memory_equal(&d, &before, sizeof d);
}

static hr_status refuse_tokens(const hr_kv_cache *cache, const hr_kv_writes *writes, void *stream, hr_error *error)
{
  (void)cache, (void)stream;
  return hr_fail(error, HR_ERROR_BACKEND, "%d tokens are too many", (int)writes->tokens);
}

static void fail_in_the_backend(kv_model *m, const int64_t *slots)
{
  hr_error error;
  const int64_t tokens[] = {20, 30};
  const hr_backend *backend = m->device->backend;
  hr_backend broken = *backend;
  broken.append_tokens = refuse_tokens;
  m->device->backend = &broken;
  hr_status status = kv_append(m, 2, slots, tokens, 0, &error);
  m->device->backend = backend;
  fails(m, status, HR_ERROR_BACKEND, &error, "50 tokens are too many");
}

static void refuse_everywhere(hr_device *device)
{
  hr_error error;
  kv_model m = three_slots(HR_BF16, 16);
  m.o.tokens = 100, m.o.pages = 7;
  m.rotary.rotary_dim = 24;
  kv_create(&m, device);
  const int64_t slots[] = {kv_add(&m), kv_add(&m), kv_add(&m)}, tokens[] = {30, 10, 3};
  int64_t number = -7;
  assert_ok(kv_append(&m, 3, slots, tokens, 0, &error), error);
  fails(&m, hr_kv_cache_add(m.cache, &number, &error), HR_ERROR_OUT_OF_MEMORY, &error, "all 3 slots are in use");
  assert_int_equal(number, -7);
  assert_ok(hr_kv_cache_remove(m.cache, slots[2], &error), error);
  m.lengths[slots[2]] = -1;
  refuse_appends(&m, slots);
  refuse_operands(&m, slots);
  refuse_rotary(&m, slots);
  fail_in_the_backend(&m, slots);
  refuse_slots(&m, slots);
  assert_ok(kv_append(&m, 2, slots, NULL, 0, &error), error);
  kv_expect(&m, 0);
  kv_free(&m);
}

static void an_error_changes_nothing(void **state)
{
  (void)state;
  each_device(refuse_everywhere);
}

static void options_out_of_range_are_refused(void **state)
{
  (void)state;
  hr_device *device;
  hr_kv_cache *cache = NULL;
  hr_error error;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  const hr_kv_cache_options good = hr_kv_cache_options_default();
#define REFUSED(expected, text, ...)                                                       \
  do {                                                                                     \
    hr_kv_cache_options o = good;                                                          \
    __VA_ARGS__;                                                                           \
    assert_int_equal(hr_kv_cache_create(device, &o, &cache, &error), HR_ERROR_##expected); \
    assert_string_equal(error.message, text);                                              \
    assert_null(cache);                                                                    \
  } while (0)
  REFUSED(INVALID, "page_size: expected 16 to 256, found 15", o.page_size = 15);
  REFUSED(INVALID, "page_size: expected 16 to 256, found 257", o.page_size = 257);
  REFUSED(INVALID, "pages: expected 0 to 0, found 5", (o.page_size = 0, o.pages = 5));
  REFUSED(INVALID, "slots: expected 1 to 2147483647, found 0", o.slots = 0);
  REFUSED(INVALID, "v_heads: expected 1 to 1048576, found 0", o.v_heads = 0);
  REFUSED(INVALID, "latent: expected one K head that begins with V, found 1 K heads of 64 and 1 V heads of 65",
          (o.latent = true, o.v_dim = 65));
  REFUSED(UNSUPPORTED, "dtype: a KV cache takes fp32, fp16 and bf16, not fp8", o.dtype = HR_FP8_E4M3);
  REFUSED(OVERFLOW, "slots: 4294967296 pages in tables of 4294967296 do not fit 31 bits", (o.slots = (int64_t)1 << 24));
#undef REFUSED
  hr_kv_cache_free(NULL);
  hr_device_close(device);
}

/* ---- caches of several layers ---- */

/* What a decode call of the second layer reads: its own elements by the first layer's lengths and pages. */
static void expect_second_layer(kv_model *m, hr_kv_cache *second, const float *row)
{
  hr_error error;
  hr_decode d = hr_decode_default();
  hr_decode_arguments x = hr_decode_arguments_default(), first = hr_decode_arguments_default();
  assert_ok(hr_kv_cache_decode(second, 1, &d, &x, &error), error);
  assert_ok(hr_kv_cache_decode(m->cache, 1, &d, &first, &error), error);
  assert_ptr_equal(x.lengths, first.lengths);
  assert_ptr_equal(x.pages, first.pages);
  assert_ptr_not_equal(x.k, first.k);
  int32_t page;
  float found[24];
  const hr_backend *backend = m->device->backend;
  assert_ok(backend->read(m->device, &page, x.pages, sizeof page, &error), error);
  assert_ok(backend->read(m->device, found, (const float *)x.k + page * d.page_size * 24, sizeof found, &error), error);
  assert_memory_equal(found, row, sizeof found);
}

static void refuse_changes_of(hr_kv_cache *second, const hr_kv_append *append, const int64_t *slot)
{
  int64_t added = 7;
  hr_error error;
  const char *message = "slots_of: only that cache changes its slots";
  assert_int_equal(hr_kv_cache_add(second, &added, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, message);
  assert_int_equal(hr_kv_cache_remove(second, *slot, &error), HR_ERROR_INVALID);
  assert_int_equal(hr_kv_cache_truncate(second, *slot, 0, &error), HR_ERROR_INVALID);
  assert_int_equal(hr_kv_cache_grow(second, append, NULL, &error), HR_ERROR_INVALID);
  assert_int_equal(hr_kv_cache_append(second, append, NULL, &error), HR_ERROR_INVALID);
  assert_int_equal(hr_kv_cache_select(second, 1, slot, NULL, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, message);
}

static void share_slots(hr_device *device)
{
  kv_model m = three_slots(HR_FP32, 16);
  m.o.k_heads = m.o.v_heads = 1;
  kv_create(&m, device);
  hr_error error;
  hr_kv_cache *second = NULL, *third = NULL;
  hr_kv_cache_options o = m.o;
  int64_t slot = kv_add(&m), length = 0;
  float row[24];
  for (int i = 0; i < 24; i++)
    row[i] = (float)i;
  hr_buffer *rows = kv_upload(device, row, sizeof row);
  hr_kv_append append = hr_kv_append_default();
  append.count = 1, append.slots = &slot;
  append.k = append.v = hr_buffer_data(rows);
  o.slots_of = m.cache;
  assert_ok(hr_kv_cache_create(device, &o, &second, &error), error);
  assert_ok(hr_kv_cache_grow(m.cache, &append, NULL, &error), error);
  assert_ok(hr_kv_cache_select(m.cache, 1, &slot, NULL, &error), error);
  assert_ok(hr_kv_cache_write(second, &append, NULL, &error), error);
  expect_second_layer(&m, second, row);
  assert_ok(hr_kv_cache_length(second, slot, &length, &error), error);
  assert_int_equal(length, 1);
  assert_int_equal(hr_kv_cache_pages_free(second), hr_kv_cache_pages_free(m.cache));
  refuse_changes_of(second, &append, &slot);
  o.slots_of = second;
  assert_int_equal(hr_kv_cache_create(device, &o, &third, &error), HR_ERROR_INVALID);
  o.slots_of = m.cache, o.tokens++;
  assert_int_equal(hr_kv_cache_create(device, &o, &third, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "slots_of: has other page_size, slots, tokens or pages");
  hr_kv_cache_free(second);
  hr_buffer_free(rows);
  kv_free(&m);
}

static void layers_may_share_the_slots_of_one(void **state)
{
  (void)state;
  each_device(share_slots);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(appended_tokens_are_read_back),
      cmocka_unit_test(rotary_embedding_is_that_of_float64_but_for_one_rounding),
      cmocka_unit_test(a_latent_cache_has_k_alone),
      cmocka_unit_test(slots_come_and_go_for_a_thousand_steps),
      cmocka_unit_test(an_error_changes_nothing),
      cmocka_unit_test(options_out_of_range_are_refused),
      cmocka_unit_test(layers_may_share_the_slots_of_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
