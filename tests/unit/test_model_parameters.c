#include "test.h"

#include <headroom/model.h>

#include <stdio.h>
#include <string.h>

static hr_model model_of(const char *text)
{
  hr_model model = hr_model_default();
  hr_error error;
  assert_ok(hr_model_from_json(text, strlen(text), "config.json", NULL, NULL, &model, &error), error);
  return model;
}

static hr_parameters parameters_of(const char *text)
{
  hr_model model = model_of(text);
  hr_parameters parameters;
  hr_error error;
  assert_ok(hr_model_parameters(&model, &parameters, &error), error);
  return parameters;
}

static void the_short_form_has_exactly_the_papers_parameters(void **state)
{
  (void)state;
  const struct {
    int64_t h, a, L, v, s;
  } shapes[] = {{2560, 32, 32, 50257, 2048}, {64, 4, 3, 101, 17}, {12288, 96, 96, 51200, 2048}, {1, 1, 1, 1, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    int64_t h = shapes[i].h, L = shapes[i].L, v = shapes[i].v, s = shapes[i].s;
    char text[200];
    snprintf(text, sizeof text, "{\"h\":%d,\"a\":%d,\"L\":%d,\"v\":%d,\"s\":%d,\"mlp\":\"gelu\"}", (int)h,
             (int)shapes[i].a, (int)L, (int)v, (int)s);
    assert_int_equal(parameters_of(text).total, 12 * h * h * L + 13 * h * L + (v + s) * h);
  }
}

static void gpt2_has_124439808_parameters_part_by_part(void **state)
{
  (void)state;
  hr_parameters p = parameters_of("{\"model_type\":\"gpt2\",\"n_layer\":12,\"n_embd\":768,\"n_head\":12,"
                                  "\"n_positions\":1024,\"vocab_size\":50257}");
  assert_int_equal(p.embedding, 38597376);  /* 50257·768 */
  assert_int_equal(p.position, 786432);     /* 1024·768 */
  assert_int_equal(p.attention, 28348416);  /* 12·(768·2304 + 2304 + 768·768 + 768) */
  assert_int_equal(p.mlp, 56669184);        /* 12·(768·3072 + 3072 + 3072·768 + 768) */
  assert_int_equal(p.norm, 38400);          /* (12·2 + 1)·2·768 */
  assert_int_equal(p.logit, 0);             /* tied */
  assert_int_equal(p.total, 124439808);
  assert_int_equal(p.excluding_embeddings, 85056000); /* 28348416 + 56669184 + 38400 */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_short_form_has_exactly_the_papers_parameters),
      cmocka_unit_test(gpt2_has_124439808_parameters_part_by_part),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
