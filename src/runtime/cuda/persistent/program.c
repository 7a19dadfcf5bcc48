/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/persistent/program.h"

#include "base/error.h"

#include <stdio.h>

#define WARP 32
#define CHUNK 8         /* elements of 16 bytes */
#define SLOTS_MIN 4     /* fewer hide nothing */
#define UNDER_WAY 4     /* slots that a block has asked for at once, where they are full */
#define STATIC_MAX 1376 /* shared memory that the program has beside what its launch asks for */

static size_t attention_bytes(const hr_persistent_sizes *s)
{
  if (s->q_each == 0)
    return 0;
  const int64_t group = hr_persistent_heads(s->q_each);
  const int64_t heads = (group + 2 + 4) * hr_max64(s->qk_dim, s->v_dim); /* norms, angles, K and V in 16 bits */
  const int64_t queries = group * (s->qk_dim + HR_PERSISTENT_QUERY_PADDING) / 2;
  const int64_t states = (3 * HR_PERSISTENT_WARPS + 2 + s->splits) * group;
  const int64_t out = HR_PERSISTENT_WARPS * group * (s->v_dim + HR_PERSISTENT_OUT_PADDING);
  const int share = hr_persistent_share((int)group, (int)s->v_dim, (int)s->splits);
  const int64_t received = s->splits * (hr_persistent_states((int)group) + share + 1);
  return (size_t)(heads + queries + states + hr_max64(out, received) + HR_PART_ALIGNMENT) * sizeof(float);
}

static hr_persistent_sizes sizes_of_attention(const hr_decode *d, const hr_persistent_sizes *before, int64_t blocks)
{
  const int64_t groups = hr_persistent_groups(d);
  return (hr_persistent_sizes){.tokens = d->batch,
                               .normed = before->normed,
                               .fp8 = before->fp8,
                               .partial_slots = before->partial_slots,
                               .q_each = d->q_heads / groups,
                               .groups = groups,
                               .k_share = groups / d->k_heads,
                               .v_share = groups / d->v_heads,
                               .splits = hr_persistent_splits(d, blocks),
                               .qk_dim = d->qk_dim,
                               .v_dim = d->v_dim,
                               .page = d->page_size,
                               .experts = before->experts,
                               .active = before->active};
}

static bool same_attention(const hr_persistent_sizes *a, const hr_persistent_sizes *b)
{
  return a->q_each == b->q_each && a->groups == b->groups && a->k_share == b->k_share && a->v_share == b->v_share &&
         a->splits == b->splits && a->qk_dim == b->qk_dim && a->v_dim == b->v_dim && a->page == b->page;
}

static hr_status add_linear_sizes(const hr_persistent_part *part, hr_persistent_sizes *s, hr_error *error)
{
  const hr_linear_arguments x = hr_persistent_layer(part->linear);
  s->tokens = x.rows;
  s->normed = hr_max64(s->normed, x.norm == HR_ROWWISE_COUNT ? 0 : x.k);
  s->fp8 |= hr_persistent_format(&x);
  s->partial_slots |= x.scales || part->linear->k % HR_LINEAR_SLOT_COLUMNS != 0;
  if (!part->router)
    return HR_OK;
  const hr_route_arguments *r = &part->router->route;
  if (s->experts > 0 && (r->experts != s->experts || r->active != s->active))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "a persistent kernel has experts of one number");
  s->experts = r->experts, s->active = r->active;
  return HR_OK;
}

/* HR_ERROR_UNSUPPORTED for parts that no one program takes. */
static hr_status find_sizes(const hr_persistent_part *parts, size_t count, int64_t blocks, hr_persistent_sizes *s,
                            hr_error *error)
{
  *s = (hr_persistent_sizes){0};
  for (size_t i = 0; i < count; i++) {
    const int64_t tokens = s->tokens;
    if (parts[i].linear) {
      HR_TRY(add_linear_sizes(&parts[i], s, error));
    } else {
      const hr_persistent_sizes one = sizes_of_attention(parts[i].decode, s, blocks);
      if (s->q_each > 0 && !same_attention(s, &one))
        return hr_fail(error, HR_ERROR_UNSUPPORTED, "a persistent kernel has heads of one size");
      *s = one;
    }
    if (tokens > 0 && s->tokens != tokens)
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "a persistent kernel has one number of tokens");
  }
  return HR_OK;
}

static size_t x_bytes_of_all(const hr_persistent_part *parts, size_t count, const hr_persistent_sizes *s)
{
  size_t most = attention_bytes(s);
  for (size_t i = 0; i < count; i++) {
    if (!parts[i].linear)
      continue;
    const hr_linear_arguments x = hr_persistent_layer(parts[i].linear);
    const size_t bytes = (size_t)hr_linear_x_bytes(x.rows, x.k);
    most = bytes > most ? bytes : most;
  }
  return (most + HR_PART_ALIGNMENT - 1) / HR_PART_ALIGNMENT * HR_PART_ALIGNMENT;
}

static int tiles_of(int64_t tokens)
{
  return tokens <= 2 ? HR_PERSISTENT_TILES : HR_PERSISTENT_TILES / 2;
}

static void write_defines(const hr_persistent_sizes *s, char text[HR_DEFINES_SIZE])
{
  int length =
      snprintf(text, HR_DEFINES_SIZE, "HR_TOKENS=%d HR_TILES=%d HR_NORM_CHUNKS=%d", (int)s->tokens, tiles_of(s->tokens),
               (int)hr_max64(1, hr_ceil_div(s->normed, CHUNK * WARP * HR_PERSISTENT_WARPS)));
  if (s->fp8)
    length += snprintf(text + length, HR_DEFINES_SIZE - (size_t)length, " HR_FP8=%d", s->fp8);
  if (s->q_each > 0)
    length += snprintf(
        text + length, HR_DEFINES_SIZE - (size_t)length,
        " HR_Q_EACH=%d HR_GROUPS=%d HR_K_SHARE=%d HR_V_SHARE=%d HR_SPLITS=%d HR_QK_DIM=%d HR_V_DIM=%d HR_PAGE=%d",
        (int)s->q_each, (int)s->groups, (int)s->k_share, (int)s->v_share, (int)s->splits, (int)s->qk_dim, (int)s->v_dim,
        (int)s->page);
  if (s->experts > 0)
    length += snprintf(text + length, HR_DEFINES_SIZE - (size_t)length, " HR_EXPERTS=%d HR_ACTIVE=%d", (int)s->experts,
                       (int)s->active);
  if (!s->partial_slots)
    length += snprintf(text + length, HR_DEFINES_SIZE - (size_t)length, " HR_UNDER_WAY=%d", UNDER_WAY);
  if (s->cycles)
    snprintf(text + length, HR_DEFINES_SIZE - (size_t)length, " HR_CYCLES=1");
}

/* The slots take what shared memory has beside the rest. */
static hr_status take_shared(hr_persistent_kernel *p, const hr_persistent_sizes *s, size_t x_bytes, hr_error *error)
{
  const hr_cuda *cuda = p->device->state;
  int64_t most;
  HR_TRY(hr_cuda_attribute(cuda, CU_MAX_SHARED_OPTIN, &most, error));
  const size_t sums = (size_t)(tiles_of(s->tokens) * HR_PERSISTENT_WARPS * s->tokens * HR_PERSISTENT_ROWS);
  const size_t beside =
      x_bytes + sums * sizeof(float) + HR_PERSISTENT_INSTRUCTIONS * sizeof(hr_persistent_instruction) + STATIC_MAX;
  const int64_t slots = (most - (int64_t)beside) / (HR_PERSISTENT_SLOT + 16);
  if (slots < SLOTS_MIN)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "a persistent kernel has no room for slots beside %zu bytes", beside);
  p->call.slots = (int)slots;
  p->call.x_bytes = (int)x_bytes;
  p->kernel.shared_bytes = beside - STATIC_MAX + (size_t)slots * (HR_PERSISTENT_SLOT + 16);
  return HR_OK;
}

static hr_dtype dtype_of(const hr_persistent_part *part)
{
  return part->linear ? part->linear->dtype : part->decode->dtype;
}

hr_status hr_persistent_load(hr_persistent_kernel *p, const hr_persistent_part *parts, size_t count,
                             hr_persistent_sizes *sizes, hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  const hr_cuda *cuda = p->device->state;
  HR_TRY(hr_cuda_attribute(cuda, CU_MULTIPROCESSORS, &p->kernel.blocks, error));
  HR_TRY(find_sizes(parts, count, p->kernel.blocks, sizes, error));
  sizes->cycles = p->cycles_path != NULL;
  HR_TRY(take_shared(p, sizes, x_bytes_of_all(parts, count, sizes), error));
  p->kernel.threads = (HR_PERSISTENT_WARPS + 1) * WARP;
  p->kernel.early = true;
  write_defines(sizes, defines);
  return hr_cuda_function_shared(cuda, "persistent", dtype_of(parts), defines, "run_persistent", p->kernel.shared_bytes,
                                 &p->kernel.function, error);
}
