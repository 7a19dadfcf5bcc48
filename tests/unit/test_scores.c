/* The softmax between the products of attention: its exponential, and what it makes of a row. */
#include "test.h"

#include "runtime/cpu/scores.h"

#include <math.h>
#include <string.h>

static const char *const versions[] = {"portable", "avx2", "avx512"};

static hr_scores scores_of(const char *version)
{
  hr_attention a = hr_attention_default();
  hr_error error;
  hr_isa isa;
  a.dtype = HR_FP32;
  a.scale = 1;
  assert_ok(hr_isa_read(&isa, &error), error);
  assert_ok(hr_isa_mask(&isa, version, &error), error);
  return hr_scores_make(&a, &isa);
}

/* Every 251st float from −0 to −87: about 4.4 million. */
static void exponentials_are_good_to_four_roundings(void **state)
{
  (void)state;
  for (size_t v = 0; v < sizeof versions / sizeof *versions; v++) {
    hr_scores scores = scores_of(versions[v]);
    double worst = 0;
    uint32_t bits = 0x80000000u, last;
    float end = -87.0F, row[64], from[64], sum;
    memcpy(&last, &end, sizeof last);
    while (bits < last) {
      for (int i = 0; i < 64; i++, bits += 251)
        memcpy(&from[i], bits < last ? &bits : &last, sizeof *from);
      memcpy(row, from, sizeof row);
      scores.exponentials(row, 64, 0, &sum);
      for (int i = 0; i < 64; i++)
        worst = fmax(worst, fabs((double)row[i] / exp((double)from[i]) - 1));
    }
    print_message("%s: %.3g\n", versions[v], worst);
    assert_true(worst < 2.5e-7);
  }
}

static void exponentials_of_infinity_and_nan_are_right(void **state)
{
  (void)state;
  for (size_t v = 0; v < sizeof versions / sizeof *versions; v++) {
    hr_scores scores = scores_of(versions[v]);
    float row[20] = {-INFINITY, NAN, 0, -88, -1e30F}, sum;
    scores.exponentials(row, 20, 0, &sum);
    assert_true(row[0] == 0 && isnan(row[1]) && row[2] == 1 && row[3] == 0 && row[4] == 0 && isnan(sum));
  }
}

/* Scores log 1, log 3 between keys that are not seen: weights 1/3 and 1, or a quarter and three. */
static void what_is_not_seen_weighs_nothing(void **state)
{
  (void)state;
  hr_scores scores = scores_of("avx512");
  const hr_score_row how = {.seen = {2, 4}};
  float row[6] = {NAN, 5, 0, logf(3), INFINITY, 7};
  hr_score_sum sum = hr_scores_softmax(&scores, &how, row, 6, true);
  const float expected[] = {0, 0, 0.25F, 0.75F, 0, 0};
  for (int i = 0; i < 6; i++)
    assert_true(fabsf(row[i] - expected[i]) < 1e-6F);
  assert_true(fabsf(sum.sum - 4.0F / 3) < 1e-6F && fabsf(sum.lse - logf(4)) < 1e-6F);
  const hr_score_row nothing = {.seen = {3, 3}};
  sum = hr_scores_softmax(&scores, &nothing, row, 6, true);
  assert_true(sum.sum == 0 && sum.lse == -INFINITY && row[3] == 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exponentials_are_good_to_four_roundings),
      cmocka_unit_test(exponentials_of_infinity_and_nan_are_right),
      cmocka_unit_test(what_is_not_seen_weighs_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
