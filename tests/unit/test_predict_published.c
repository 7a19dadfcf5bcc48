/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of inference frameworks as others measured it (data/results/published/attention.csv), by device and size.
 * The bounds stand a little above docs/notes/prediction.md, so that a cost of a device file cannot go astray unseen. */
#include "test.h"

#include "hardware/hardware.h"
#include "unit/measured.h"

#include <headroom/experimental/predict.h>

typedef struct published {
  char device[24];
  bool decode;
  int64_t n, batch, q_heads, kv_heads, head_dim, window;
  double time_ns;
} published;

static published rows[6000];
static size_t row_count;

static int read_rows(void **state)
{
  (void)state;
  char line[256], *f[12];
  FILE *file = fopen(HEADROOM_SOURCE_DIR "/data/results/published/attention.csv", "r");
  assert_non_null(file);
  while (row_count < sizeof rows / sizeof *rows && fgets(line, sizeof line, file)) {
    if (line[0] == '#' || strncmp(line, "device,", 7) == 0 || measured_split(line, f, 12) != 9)
      continue;
    published *r = &rows[row_count++];
    snprintf(r->device, sizeof r->device, "%s", f[0]);
    r->decode = strcmp(f[1], "decode") == 0;
    r->n = atoll(f[2]), r->batch = atoll(f[3]), r->q_heads = atoll(f[4]), r->kv_heads = atoll(f[5]);
    r->head_dim = atoll(f[6]), r->window = atoll(f[7]), r->time_ns = strtod(f[8], NULL);
  }
  fclose(file);
  return 0;
}

/* Frameworks write K and V of a prefill to the cache, which is in the time. */
static double predicted_ns(const hr_hardware *hardware, const published *r)
{
  hr_operator op = {.id = HR_OP_ATTENTION, .kind = HR_KIND_ATTENTION, .count = 1, .attention = hr_attention_default()};
  hr_attention *a = &op.attention;
  hr_prediction p;
  hr_error error;
  a->batch = r->batch, a->q_len = r->decode ? 1 : r->n, a->kv_len = r->n, a->window = r->window;
  a->q_heads = r->q_heads, a->k_heads = a->v_heads = r->kv_heads, a->qk_dim = a->v_dim = r->head_dim;
  op.cached_bytes = r->decode ? 0 : r->batch * r->n * 2 * r->kv_heads * r->head_dim * 2 * 2;
  assert_int_equal(hr_attention_flops(a, &op.flops), HR_OK);
  assert_ok(hr_predict_operator(hardware, &op, &p, &error), error);
  return p.time_ns;
}

/* The geometric mean of the errors of a device's rows with `least` to `most` keys that are read. */
static double mean_error(const char *device, bool decode, int64_t least, int64_t most, size_t at_least)
{
  const hr_hardware hardware = measured_hardware(device);
  double sum = 0;
  size_t count = 0;
  for (size_t i = 0; i < row_count; i++) {
    const published *r = &rows[i];
    int64_t keys = decode && r->window > 0 && r->window < r->n ? r->window : r->n;
    if (strcmp(r->device, device) != 0 || r->decode != decode || keys < least || keys > most)
      continue;
    sum += fabs(log(predicted_ns(&hardware, r) / r->time_ns));
    count++;
  }
  assert_true(count >= at_least);
  return exp(sum / (double)count) - 1;
}

static const struct {
  const char *device;
  bool decode;
  int64_t least, most;
  double bound;
} bounds[] = {
    {"a100-sxm4-80gb", true, 0, 511, 0.12},
    {"a100-sxm4-80gb", true, 512, 2047, 0.14},
    {"a100-sxm4-80gb", true, 2048, 1 << 30, 0.12},
    {"a100-sxm4-80gb", false, 0, 511, 0.16},
    {"a100-sxm4-80gb", false, 512, 2047, 0.18},
    {"a100-sxm4-80gb", false, 2048, 1 << 30, 0.07},
    {"b200", true, 0, 511, 0.13},
    {"b200", true, 512, 2047, 0.08},
    {"b200", true, 2048, 1 << 30, 0.07},
    {"b200", false, 0, 511, 0.13},
    {"b200", false, 512, 2047, 0.16},
    {"b200", false, 2048, 1 << 30, 0.11},
};

static void attention_by_frameworks_is_within_the_error_that_the_page_says(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
    double error = mean_error(bounds[i].device, bounds[i].decode, bounds[i].least, bounds[i].most, 150);
    if (!(error <= bounds[i].bound))
      fail_msg("%s, %s from %" PRId64 ": %.1f%% is over %.1f%%", bounds[i].device,
               bounds[i].decode ? "decode" : "prefill", bounds[i].least, 100 * error, 100 * bounds[i].bound);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(attention_by_frameworks_is_within_the_error_that_the_page_says, read_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
