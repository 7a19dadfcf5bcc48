/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of decode. */
#include "harness.h"

static hr_problem plain(hr_dtype dtype)
{
  hr_decode d = hr_decode_default();
  d.dtype = dtype;
  return hr_decode_problem(&d);
}

static void make_small(hr_dtype dtype, int64_t i, hr_decode *d)
{
  static const struct {
    int64_t batch, q_len, kv_len, heads, kv_heads, qk_dim, v_dim, page_size, window, top_k;
  } calls[] = {{1, 1, 1, 1, 1, 8, 8, 0, 0, 0},     {2, 1, 37, 4, 2, 64, 64, 16, 0, 0},
               {3, 3, 19, 6, 2, 40, 56, 5, 0, 0},  {1, 2, 130, 8, 1, 128, 128, 0, 50, 0},
               {2, 1, 65, 3, 3, 72, 72, 64, 0, 7}, {1, 1, 90, 16, 1, 80, 96, 32, 0, 0}};
  *d = hr_decode_default();
  d->dtype = dtype;
  d->batch = calls[i].batch, d->q_len = calls[i].q_len, d->kv_len = calls[i].kv_len;
  d->q_heads = calls[i].heads, d->k_heads = d->v_heads = calls[i].kv_heads;
  d->qk_dim = calls[i].qk_dim, d->v_dim = calls[i].v_dim;
  d->window = calls[i].window, d->top_k = calls[i].top_k;
  d->sinks = i % 2;
  assert_int_equal(hr_decode_set_pages(d, calls[i].page_size, NULL), HR_OK);
}

static void small(hr_dtype dtype, problem_taker *take, void *context)
{
  for (int64_t i = 0; i < 6 * HR_KV_READABLE_COUNT; i++) {
    hr_decode d;
    make_small(dtype, i / HR_KV_READABLE_COUNT, &d);
    d.cache_format = (hr_kv_format)(i % HR_KV_READABLE_COUNT);
    d.cache_scales = i / HR_KV_READABLE_COUNT % 2 ? HR_KV_SCALE_TOKEN : HR_KV_SCALE_HEAD;
    const hr_problem problem = hr_decode_problem(&d);
    take(&problem, context);
  }
  hr_decode latent;
  make_small(dtype, 1, &latent);
  latent.latent = true;
  latent.k_heads = latent.v_heads = 1;
  latent.qk_dim = 72, latent.v_dim = 64;
  const hr_problem problem = hr_decode_problem(&latent);
  take(&problem, context);
}

/* Heads of K and V, dims, a format of the cache. The page size comes last: pages depend on batch and kv_len. */
static bool set_word(hr_problem *problem, const char *name, const char *value)
{
  hr_decode *d = &problem->decode;
  int64_t number = strtoll(value, NULL, 10);
  if (strcmp(name, "page") == 0)
    return hr_decode_set_pages(d, number, NULL) == HR_OK;
  if (strcmp(name, "cache") == 0)
    return hr_kv_format_parse(value, &d->cache_format) == HR_OK;
  if (strcmp(name, "kv_heads") == 0)
    return d->k_heads = d->v_heads = number, true;
  if (strcmp(name, "dim") == 0)
    return d->qk_dim = d->v_dim = number, true;
  return false;
}

static hr_status check_problem(const hr_problem *problem, hr_error *error)
{
  return hr_decode_check(&problem->decode, error);
}

static const shape_member members[] = {{"batch", COUNT_MEMBER, offsetof(hr_problem, decode.batch)},
                                       {"q_len", COUNT_MEMBER, offsetof(hr_problem, decode.q_len)},
                                       {"kv_len", COUNT_MEMBER, offsetof(hr_problem, decode.kv_len)},
                                       {"q_heads", COUNT_MEMBER, offsetof(hr_problem, decode.q_heads)},
                                       {"k_heads", COUNT_MEMBER, offsetof(hr_problem, decode.k_heads)},
                                       {"v_heads", COUNT_MEMBER, offsetof(hr_problem, decode.v_heads)},
                                       {"qk_dim", COUNT_MEMBER, offsetof(hr_problem, decode.qk_dim)},
                                       {"v_dim", COUNT_MEMBER, offsetof(hr_problem, decode.v_dim)},
                                       {"window", COUNT_MEMBER, offsetof(hr_problem, decode.window)},
                                       {"top_k", COUNT_MEMBER, offsetof(hr_problem, decode.top_k)},
                                       {"sinks", FLAG_MEMBER, offsetof(hr_problem, decode.sinks)},
                                       {"alibi", FLAG_MEMBER, offsetof(hr_problem, decode.alibi)},
                                       {"latent", FLAG_MEMBER, offsetof(hr_problem, decode.latent)}};
static const char *const shapes[] = {"batch=8,kv_len=4096,q_heads=32,kv_heads=8,dim=128,page=16",
                                     "batch=1,kv_len=32768,q_heads=32,kv_heads=8,dim=128,page=16",
                                     "batch=32,kv_len=2048,q_heads=32,kv_heads=32,dim=64,page=16",
                                     "batch=8,kv_len=4096,q_heads=32,kv_heads=8,dim=128,top_k=256,page=16",
                                     "batch=8,kv_len=4096,q_heads=128,kv_heads=1,qk_dim=576,v_dim=512,latent=1,page=64",
                                     NULL};
const operation_cases decode_cases = {.plain = plain,
                                      .members = members,
                                      .member_count = LENGTH(members),
                                      .set = set_word,
                                      .check = check_problem,
                                      .shapes = shapes,
                                      .small = small};
