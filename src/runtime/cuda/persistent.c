/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of a decode step as instructions of kernels/persistent.cu. */
#include "runtime/device/persistent.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/driver/tensor_boxes.h"
#include "runtime/cuda/kernels/persistent_layout.h"

#include <headroom/experimental/decode.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARP 32
#define DIM_MAX 256
#define CHUNK 8         /* elements of 16 bytes */
#define SLOTS_MIN 4     /* fewer hide nothing */
#define STATIC_MAX 2048 /* shared memory that the program has beside what its launch asks for */
#define ALIGNMENT 16
#define MAPS_BYTES (2 * sizeof(cu_tensor_map))
#define SOURCES 3 /* at most, of a part */
#define NONE SIZE_MAX
#define AHEAD_MAX 4 /* parts among which the next one is chosen */
#define EXPERTS_MAX 512

/* What the program is compiled for; of attention with heads as kernels/persistent_attention.cuh has them, q_each 0:
 * none. */
typedef struct program_sizes {
  int64_t tokens;
  int64_t normed; /* the longest row that is normed */
  int fp8;        /* the sum of the formats of weights that are in fp8 */
  int64_t q_each, groups, k_share, v_share, splits;
  int64_t qk_dim, v_dim, page;
  int64_t experts, active; /* 0: no layer has experts */
} program_sizes;

typedef struct persistent_kernel {
  hr_device *device;
  hr_cuda_kernel kernel;
  hr_persistent_call call;
  void *memory; /* make_memory() */
  size_t bytes;
} persistent_kernel;

/* ---- what is taken ---- */

static const struct {
  hr_rowwise_operation operation;
  int activation;
} activations[] = {{HR_ROWWISE_COUNT, HR_PERSISTENT_IDENTITY},
                   {HR_ROWWISE_GELU, HR_PERSISTENT_GELU},
                   {HR_ROWWISE_GELU_TANH, HR_PERSISTENT_GELU_TANH},
                   {HR_ROWWISE_RELU, HR_PERSISTENT_RELU},
                   {HR_ROWWISE_RELU2, HR_PERSISTENT_RELU2},
                   {HR_ROWWISE_SWIGLU, HR_PERSISTENT_SWIGLU},
                   {HR_ROWWISE_SWIGLU_CLAMPED, HR_PERSISTENT_SWIGLU_CLAMPED},
                   {HR_ROWWISE_GEGLU, HR_PERSISTENT_GEGLU},
                   {HR_ROWWISE_GEGLU_TANH, HR_PERSISTENT_GEGLU_TANH}};

#define ACTIVATIONS (sizeof activations / sizeof *activations)

static int activation_of(hr_rowwise_operation operation)
{
  for (size_t i = 0; i < ACTIVATIONS; i++) {
    if (activations[i].operation == operation)
      return activations[i].activation;
  }
  return -1;
}

static int64_t groups_of(const hr_decode *d)
{
  return hr_max64(d->k_heads, d->v_heads);
}

/* Heads of Q of an item, and items with different heads of a group. */
static int64_t heads_at_once(int64_t q_each)
{
  return hr_min64(HR_PERSISTENT_GROUP, q_each);
}
static int64_t parts_of(int64_t q_each)
{
  return hr_ceil_div(q_each, heads_at_once(q_each));
}

_Static_assert(HR_PERSISTENT_X_PADDING == 8, "hr_linear_x_bytes() counts them");

/* A tile's rows are those of two blocks at most, whose rows of scales are copied 16 bytes at a time. */
_Static_assert((int)HR_FP8_ROWS_LEAST >= (int)HR_PERSISTENT_ROWS, "of two blocks at most");
_Static_assert((int)HR_PERSISTENT_BYTES / HR_FP8_BLOCK * 4 <= (int)HR_PERSISTENT_PITCH - (int)HR_PERSISTENT_BYTES,
               "a slot has room for scales");

/* Layers of experts as those of one token: the rows of its experts follow each other, and behind their activation the
 * columns. */
static hr_linear_arguments layer_of(const hr_linear_arguments *x)
{
  hr_linear_arguments all = *x;
  if (x->experts > 0) {
    all.rows = 1;
    all.n *= x->active > 0 ? 1 : x->rows;
    all.k *= x->active > 0 ? x->rows : 1;
  }
  return all;
}

static bool takes_experts(const hr_linear_arguments *x)
{
  return x->most == 1 && x->rows <= WARP && x->experts <= EXPERTS_MAX && !x->scales && (x->active == 0 || !x->gate);
}

static bool takes_linear(const hr_linear_arguments *linear)
{
  const hr_linear_arguments x = layer_of(linear);
  return hr_dtype_bytes(x.dtype) == 2 && (x.experts == 0 || takes_experts(linear)) && x.rows <= HR_LINEAR_ROWS_MAX &&
         linear->k % HR_PERSISTENT_STEP == 0 && x.x_stride % CHUNK == 0 && x.alignment % ALIGNMENT == 0 &&
         activation_of(x.activation) >= 0 && hr_linear_x_bytes(x.rows, x.k) <= HR_LINEAR_X_BYTES_MAX;
}

/* A router chooses the experts of one token, by the largest logits. */
static bool takes_router(const hr_route_arguments *r)
{
  return r->tokens == 1 && !r->sigmoid && !r->bias && r->groups == 0 && r->held == 0 && !r->weights_of &&
         r->experts <= EXPERTS_MAX && r->active <= WARP;
}

static bool has_packed_cache(const hr_decode *d)
{
  const hr_kv_strides k = hr_decode_k_strides(d), v = hr_decode_v_strides(d);
  return k.head == d->qk_dim && k.token == d->k_heads * d->qk_dim && k.page == d->page_size * k.token &&
         v.head == d->v_dim && v.token == d->v_heads * d->v_dim && v.page == d->page_size * v.token;
}

static bool takes_attention(const hr_persistent_part *part)
{
  const hr_decode *d = part->decode;
  const hr_strides q = hr_decode_q_strides(d), o = hr_decode_o_strides(d);
  const int64_t groups = groups_of(d);
  return hr_dtype_bytes(d->dtype) == 2 && d->cache_format == HR_KV_UNQUANTIZED && !d->latent && d->top_k == 0 &&
         !d->batch_invariant && !d->sinks && d->softcap == 0 && d->q_len == 1 && d->batch <= HR_LINEAR_ROWS_MAX &&
         d->qk_dim % CHUNK == 0 && d->v_dim % CHUNK == 0 && d->qk_dim <= DIM_MAX && d->v_dim <= DIM_MAX &&
         groups % d->k_heads == 0 && groups % d->v_heads == 0 && d->q_heads % groups == 0 && has_packed_cache(d) &&
         d->page_size % HR_PERSISTENT_TILE_KEYS == 0 && d->page_count > 0 && q.head == d->qk_dim &&
         o.head == d->v_dim && (!part->heads || part->heads->norm_stride == 0) && part->append->cos == NULL &&
         part->append->k != part->append->v && !part->arguments->page_starts && !part->arguments->lse &&
         d->kv_len < INT32_MAX / 2;
}

/* From compute capability 12.0 on shared memory is smaller. A context of the caller's may have fewer multiprocessors
 * than the device, and blocks that never begin would be waited for. */
bool hr_cuda_persists(const hr_device *device, const hr_persistent_part *part)
{
  const hr_cuda *cuda = device->state;
  if (cuda->capability < 90 || cuda->capability >= 120 || device->context || !cuda->driver.cuTensorMapEncodeTiled)
    return false;
  return part->router   ? takes_router(&part->router->route) && takes_linear(part->linear)
         : part->linear ? takes_linear(part->linear)
                        : takes_attention(part);
}

/* ---- names ---- */

static int norm_of(hr_rowwise_operation norm)
{
  return norm == HR_ROWWISE_RMS_NORM     ? HR_PERSISTENT_RMS_NORM
         : norm == HR_ROWWISE_LAYER_NORM ? HR_PERSISTENT_LAYER_NORM
                                         : HR_PERSISTENT_NO_NORM;
}

/* Where a part reads: what an earlier one posts, or memory that none writes. */
typedef struct source {
  uint64_t address;
  int arrives;
  size_t part; /* that posts it */
} source;

/* There are as many splits as give each block an item. */
static int64_t splits_of(const hr_decode *d, int64_t blocks)
{
  const int64_t items = d->batch * groups_of(d) * parts_of(d->q_heads / groups_of(d));
  return hr_max64(1, hr_min64(HR_PERSISTENT_SPLITS_MAX, blocks / items));
}

/* ---- what parts pass on to each other ---- */

/* Rows in memory. */
typedef struct byte_range {
  uint64_t first, end;
} byte_range;

static byte_range rows_of(const void *address, int64_t rows, int64_t stride, int64_t columns)
{
  const uint64_t first = hr_cuda_address(address);
  return (byte_range){first, first + 2 * (uint64_t)((rows - 1) * stride + columns)};
}

static byte_range result_of(const hr_persistent_part *part)
{
  const hr_decode *d = part->decode;
  if (part->linear) {
    const hr_linear_arguments x = layer_of(part->linear);
    return rows_of(x.y, x.rows, x.n, x.n);
  }
  return rows_of(part->arguments->o, d->batch, hr_decode_o_strides(d).batch, d->q_heads * d->v_dim);
}

/* The parts, and where they post: a set has the results of all but the last one. */
typedef struct instruction_list {
  const hr_cuda *cuda;
  const hr_persistent_part *parts;
  size_t count;
  int64_t blocks;
  uint64_t maps, posted, partial; /* addresses */
  size_t partial_bytes;           /* of one of two places, which parts with attention take in turn */
  hr_persistent_instruction *to, *ordered;
  size_t *positions;          /* of parts in `ordered`; NONE: not yet */
  size_t (*sources)[SOURCES]; /* parts that a part reads from, NONE: no more */
  char *maps_to;              /* MAPS_BYTES a part: tensor maps of the caches of K and V, where it attends */
} instruction_list;

static uint64_t bytes_of_result(const hr_persistent_part *part)
{
  const byte_range r = result_of(part);
  return (r.end - r.first + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t posted_by(const instruction_list *list, size_t part)
{
  uint64_t at = list->posted;
  for (size_t i = 0; i < part; i++)
    at += bytes_of_result(&list->parts[i]);
  return at;
}

/* HR_ERROR_UNSUPPORTED for what is not all of one result. */
static hr_status find_source(const instruction_list *list, size_t reader, byte_range wanted, source *from,
                             hr_error *error)
{
  *from = (source){.address = wanted.first};
  for (size_t i = reader; i-- > 0;) {
    const byte_range result = result_of(&list->parts[i]);
    if (wanted.first >= result.end || result.first >= wanted.end)
      continue;
    if (wanted.first < result.first || wanted.end > result.end)
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "a persistent kernel passes on whole results");
    *from = (source){posted_by(list, i) + wanted.first - result.first, 1, i};
    return HR_OK;
  }
  return HR_OK;
}

/* ---- instructions ---- */

static int format_of(const hr_linear_arguments *x)
{
  return !x->scales ? HR_PERSISTENT_ELEMENTS : x->shares.blocks ? HR_PERSISTENT_FP8_BLOCKS : HR_PERSISTENT_FP8_ROWS;
}

static int log2_of(int64_t power)
{
  int log2 = 0;
  while (power >> log2 > 1)
    log2++;
  return log2;
}

static void keep_sources(const instruction_list *list, size_t at, const source *sources, size_t count)
{
  for (size_t i = 0; i < SOURCES; i++)
    list->sources[at][i] = i < count && sources[i].arrives ? sources[i].part : NONE;
}

/* The part whose router chooses the layer's experts. */
static size_t router_of(const instruction_list *list, size_t at)
{
  const hr_linear_arguments *x = list->parts[at].linear;
  for (size_t i = at; x->experts > 0 && i-- > 0;) {
    const hr_router_arguments *router = list->parts[i].router;
    if (router && router->route.offsets == x->offsets)
      return i;
  }
  return NONE;
}

/* The rows that a router's norm has made are nowhere: who reads them makes them anew. */
static void read_as_router(const hr_router_arguments *router, hr_linear_arguments *x)
{
  if (!router->normed || x->x != router->normed)
    return;
  x->x = router->linear.x;
  x->x_stride = router->linear.x_stride;
  x->norm = router->linear.norm;
  x->epsilon = router->linear.epsilon;
  x->norm_weight = router->linear.norm_weight, x->norm_bias = router->linear.norm_bias;
}

static void write_experts(const instruction_list *list, size_t router, const hr_linear_arguments *x,
                          hr_persistent_linear *to)
{
  const hr_route_arguments *route = &list->parts[router].router->route;
  const bool sums = x->active > 0;
  to->logits = sums ? 0 : posted_by(list, router);
  to->matrix_rows = x->n;
  to->width = (int)(sums ? x->k : x->n);
  to->normalized = route->normalized;
  to->share_scale = route->scale == 0 ? 1 : (float)route->scale;
}

static hr_status write_linear(const instruction_list *list, size_t at, hr_error *error)
{
  const hr_linear_arguments *own = list->parts[at].linear;
  const size_t router = router_of(list, at);
  const bool last = at + 1 == list->count;
  hr_linear_arguments x = layer_of(own);
  source from = {0}, residual = {0}, logits = {0};
  if (own->experts > 0 && router == NONE)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "a persistent kernel has the router of its experts");
  if (router != NONE && own->active == 0) {
    read_as_router(list->parts[router].router, &x);
    logits = (source){posted_by(list, router), 1, router};
  }
  HR_TRY(find_source(list, at, rows_of(x.x, x.rows, x.x_stride, x.k), &from, error));
  if (x.residual)
    HR_TRY(find_source(list, at, rows_of(x.residual, x.rows, x.residual_stride, x.n), &residual, error));
  keep_sources(list, at, (const source[]){from, residual, logits}, 3);
  list->to[at].linear = (hr_persistent_linear){.x = from.address,
                                               .w = hr_cuda_address(x.weight),
                                               .gate = hr_cuda_address(x.gate),
                                               .bias = hr_cuda_address(x.bias),
                                               .gate_bias = hr_cuda_address(x.gate_bias),
                                               .residual = residual.address,
                                               .norm_weight = hr_cuda_address(x.norm_weight),
                                               .norm_bias = hr_cuda_address(x.norm_bias),
                                               .y = last ? hr_cuda_address(x.y) : 0,
                                               .posted = last ? 0 : posted_by(list, at),
                                               .x_row = x.x_stride,
                                               .residual_row = x.residual_stride,
                                               .n = x.n,
                                               .k = x.k,
                                               .norm = norm_of(x.norm),
                                               .activation = activation_of(x.activation),
                                               .x_arrives = from.arrives,
                                               .residual_arrives = residual.arrives,
                                               .epsilon = (float)x.epsilon,
                                               .limit = (float)x.limit,
                                               .factor = x.factor == 0 ? 1 : (float)x.factor,
                                               .format = format_of(&x),
                                               .scales = hr_cuda_address(x.scales),
                                               .gate_scales = hr_cuda_address(x.gate_scales),
                                               .scale_row = x.shares.stride,
                                               .scale_rows_log2 = log2_of(x.shares.rows),
                                               .rows_each = (int)(x.n / list->blocks),
                                               .rows_more = (int)(x.n % list->blocks)};
  if (own->experts > 0)
    write_experts(list, router, own, &list->to[at].linear);
  return HR_OK;
}

/* Without heads Q is read where attention would. */
static hr_kv_heads heads_of(const hr_persistent_part *part)
{
  const hr_kv_heads none = {.q = part->arguments->q, .q_row = hr_decode_q_strides(part->decode).batch};
  return part->heads ? *part->heads : none;
}

static hr_status write_map(const hr_driver *driver, const hr_decode *d, const void *cache, int64_t heads, int64_t dim,
                           cu_tensor_map *map, hr_error *error)
{
  const int64_t token = heads * dim, elements[3] = {dim, token, d->page_size * token};
  const int64_t sizes[4] = {dim, heads, d->page_size, d->page_count};
  return hr_tensor_map_of_boxes(driver, d->dtype, cache, elements, sizes, 1, HR_PERSISTENT_TILE_KEYS, map, error);
}

static hr_status write_maps(const instruction_list *list, size_t at, hr_error *error)
{
  const hr_persistent_part *part = &list->parts[at];
  const hr_decode *d = part->decode;
  const hr_driver *driver = &list->cuda->driver;
  cu_tensor_map maps[2] = {0};
  HR_TRY(hr_cuda_enter(list->cuda, error)); /* without a context the driver encodes none */
  hr_status status = write_map(driver, d, part->arguments->k, d->k_heads, d->qk_dim, &maps[0], error);
  if (status == HR_OK)
    status = write_map(driver, d, part->arguments->v, d->v_heads, d->v_dim, &maps[1], error);
  hr_cuda_leave(list->cuda);
  memcpy(list->maps_to + at * MAPS_BYTES, maps, MAPS_BYTES);
  return status;
}

static hr_status write_attention(const instruction_list *list, size_t at, uint64_t partial, hr_error *error)
{
  const hr_persistent_part *part = &list->parts[at];
  const hr_decode *d = part->decode;
  const hr_kv_append *new = part->append;
  const hr_decode_arguments *x = part->arguments;
  const hr_kv_heads h = heads_of(part);
  const bool last = at + 1 == list->count;
  source q, k, v;
  if (!x->pages || !x->lengths)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "a persistent kernel reads page tables and lengths");
  HR_TRY(find_source(list, at, rows_of(h.q, d->batch, h.q_row, d->q_heads * d->qk_dim), &q, error));
  HR_TRY(find_source(list, at, rows_of(new->k, d->batch, new->k_row, d->k_heads * d->qk_dim), &k, error));
  HR_TRY(find_source(list, at, rows_of(new->v, d->batch, new->v_row, d->v_heads * d->v_dim), &v, error));
  keep_sources(list, at, (const source[]){q, k, v}, 3);
  hr_persistent_attention a = {.table_pitch = (int)d->table_pitch,
                               .window = (int)hr_min64(d->window, d->kv_len),
                               .rotated = (int)h.rotated,
                               .interleaved = h.interleaved,
                               .epsilon = (float)h.epsilon,
                               .scale = d->scale == 0 ? 1 / sqrtf((float)d->qk_dim) : d->scale};
  a.q = q.address, a.k = k.address, a.v = v.address;
  a.q_arrives = q.arrives, a.k_arrives = k.arrives, a.v_arrives = v.arrives;
  a.q_row = h.q_row, a.k_row = new->k_row, a.v_row = new->v_row;
  a.q_norm = hr_cuda_address(h.q_norm), a.k_norm = hr_cuda_address(h.k_norm);
  a.angles = hr_cuda_address(h.angles);
  a.k_cache = hr_cuda_address(x->k), a.v_cache = hr_cuda_address(x->v);
  a.pages = hr_cuda_address(x->pages), a.lengths = hr_cuda_address(x->lengths);
  a.o = last ? hr_cuda_address(x->o) : posted_by(list, at);
  a.keeps_o = last;
  a.o_row = hr_decode_o_strides(d).batch;
  a.partial = partial;
  a.maps = list->maps + at * MAPS_BYTES;
  a.slopes = d->alibi ? hr_cuda_address(x->alibi_slopes) : 0;
  list->to[at].attends = 1;
  list->to[at].attention = a;
  return write_maps(list, at, error);
}

static hr_status write_instructions(const instruction_list *list, hr_error *error)
{
  size_t attentions = 0;
  for (size_t i = 0; i < list->count; i++) {
    if (list->parts[i].linear)
      HR_TRY(write_linear(list, i, error));
    else
      HR_TRY(write_attention(list, i, list->partial + attentions++ % 2 * list->partial_bytes, error));
  }
  return HR_OK;
}

/* ---- their order ---- */

/* A part at `position` would stand so many places behind the last of those that it reads from; 0: they are not all
 * there. */
static size_t distance_to_sources(const instruction_list *list, size_t part, size_t position)
{
  const size_t *positions = list->positions;
  size_t distance = position + 1;
  for (size_t i = 0; i < SOURCES; i++) {
    const size_t from = list->sources[part][i];
    if (from != NONE && positions[from] == NONE)
      return 0;
    if (from != NONE && position - positions[from] < distance)
      distance = position - positions[from];
  }
  return distance;
}

/* The first part that need not wait for the instruction before it, else the first that can be next. */
static size_t next_part(const instruction_list *list, size_t first, size_t position)
{
  size_t next = NONE;
  for (size_t i = first; i < list->count && i < first + AHEAD_MAX; i++) {
    const size_t distance = list->positions[i] == NONE ? distance_to_sources(list, i, position) : 0;
    if (distance > 1)
      return i;
    if (distance == 1 && next == NONE)
      next = i;
  }
  return next;
}

/* Where layers are parallel, the up projection goes before attention, which then finds its Q, K and V. Results do not
 * lie in each other's memory, so that each order in which they are there is right. */
static void order_instructions(const instruction_list *list)
{
  size_t first = 0;
  for (size_t i = 0; i < list->count; i++)
    list->positions[i] = NONE;
  for (size_t position = 0; position < list->count; position++) {
    const size_t part = next_part(list, first, position);
    list->positions[part] = position;
    list->ordered[position] = list->to[part];
    while (first < list->count && list->positions[first] != NONE)
      first++;
  }
}

/* ---- the program ---- */

static size_t attention_bytes(const program_sizes *s)
{
  const int64_t group = heads_at_once(s->q_each);
  const int64_t heads = (group + 2 + 4) * hr_max64(s->qk_dim, s->v_dim); /* norms, angles, K and V in 16 bits */
  const int64_t queries = group * (s->qk_dim + HR_PERSISTENT_QUERY_PADDING) / 2;
  const int64_t of_warps = HR_PERSISTENT_WARPS * group * (s->v_dim + 2);
  const int64_t received = s->splits * (2 * group + 2) + group * s->v_dim;
  return s->q_each > 0 ? (size_t)(heads + queries + hr_max64(of_warps, received) + ALIGNMENT) * sizeof(float) : 0;
}

static program_sizes sizes_of_attention(const hr_decode *d, const program_sizes *before, int64_t blocks)
{
  const int64_t groups = groups_of(d);
  return (program_sizes){.tokens = d->batch,
                         .normed = before->normed,
                         .fp8 = before->fp8,
                         .q_each = d->q_heads / groups,
                         .groups = groups,
                         .k_share = groups / d->k_heads,
                         .v_share = groups / d->v_heads,
                         .splits = splits_of(d, blocks),
                         .qk_dim = d->qk_dim,
                         .v_dim = d->v_dim,
                         .page = d->page_size,
                         .experts = before->experts,
                         .active = before->active};
}

static bool same_attention(const program_sizes *a, const program_sizes *b)
{
  return a->q_each == b->q_each && a->groups == b->groups && a->k_share == b->k_share && a->v_share == b->v_share &&
         a->splits == b->splits && a->qk_dim == b->qk_dim && a->v_dim == b->v_dim && a->page == b->page;
}

static hr_status add_linear_sizes(const hr_persistent_part *part, program_sizes *s, hr_error *error)
{
  const hr_linear_arguments x = layer_of(part->linear);
  s->tokens = x.rows;
  s->normed = hr_max64(s->normed, x.norm == HR_ROWWISE_COUNT ? 0 : x.k);
  s->fp8 |= format_of(&x);
  if (!part->router)
    return HR_OK;
  const hr_route_arguments *r = &part->router->route;
  if (s->experts > 0 && (r->experts != s->experts || r->active != s->active))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "a persistent kernel has experts of one number");
  s->experts = r->experts, s->active = r->active;
  return HR_OK;
}

/* HR_ERROR_UNSUPPORTED for parts that no one program takes. */
static hr_status find_sizes(const hr_persistent_part *parts, size_t count, int64_t blocks, program_sizes *s,
                            hr_error *error)
{
  *s = (program_sizes){0};
  for (size_t i = 0; i < count; i++) {
    const int64_t tokens = s->tokens;
    if (parts[i].linear) {
      HR_TRY(add_linear_sizes(&parts[i], s, error));
    } else {
      const program_sizes one = sizes_of_attention(parts[i].decode, s, blocks);
      if (s->q_each > 0 && !same_attention(s, &one))
        return hr_fail(error, HR_ERROR_UNSUPPORTED, "a persistent kernel has heads of one size");
      *s = one;
    }
    if (tokens > 0 && s->tokens != tokens)
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "a persistent kernel has one number of tokens");
  }
  return HR_OK;
}

static size_t x_bytes_of_all(const hr_persistent_part *parts, size_t count, const program_sizes *s)
{
  size_t most = attention_bytes(s);
  for (size_t i = 0; i < count; i++) {
    if (!parts[i].linear)
      continue;
    const hr_linear_arguments x = layer_of(parts[i].linear);
    const size_t bytes = (size_t)hr_linear_x_bytes(x.rows, x.k);
    most = bytes > most ? bytes : most;
  }
  return (most + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int tiles_of(int64_t tokens)
{
  return tokens <= 2 ? HR_PERSISTENT_TILES : tokens <= 4 ? HR_PERSISTENT_TILES / 2 : HR_PERSISTENT_TILES / 4;
}

static void write_defines(const program_sizes *s, char text[HR_DEFINES_SIZE])
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
    snprintf(text + length, HR_DEFINES_SIZE - (size_t)length, " HR_EXPERTS=%d HR_ACTIVE=%d", (int)s->experts,
             (int)s->active);
}

/* The slots take what shared memory has beside the rest. */
static hr_status take_shared(persistent_kernel *p, const program_sizes *s, size_t x_bytes, hr_error *error)
{
  const hr_cuda *cuda = p->device->state;
  int64_t most;
  HR_TRY(hr_cuda_attribute(cuda, CU_MAX_SHARED_OPTIN, &most, error));
  const size_t sums = (size_t)(tiles_of(s->tokens) * HR_PERSISTENT_WARPS * s->tokens * HR_PERSISTENT_ROWS);
  const size_t beside = x_bytes + sums * sizeof(float) + 2 * sizeof(hr_persistent_instruction) + STATIC_MAX;
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

static hr_status load_program(persistent_kernel *p, const hr_persistent_part *parts, size_t count, program_sizes *sizes,
                              hr_error *error)
{
  char defines[HR_DEFINES_SIZE];
  const hr_cuda *cuda = p->device->state;
  HR_TRY(hr_cuda_attribute(cuda, CU_MULTIPROCESSORS, &p->kernel.blocks, error));
  HR_TRY(find_sizes(parts, count, p->kernel.blocks, sizes, error));
  HR_TRY(take_shared(p, sizes, x_bytes_of_all(parts, count, sizes), error));
  p->kernel.threads = (HR_PERSISTENT_WARPS + 1) * WARP;
  p->kernel.early = true;
  write_defines(sizes, defines);
  return hr_cuda_function_shared(cuda, "persistent", dtype_of(parts), defines, "run_persistent", p->kernel.shared_bytes,
                                 &p->kernel.function, error);
}

/* ---- memory ---- */

static size_t aligned(size_t bytes)
{
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* What all items of a part with attention send to each other. */
static size_t partial_bytes_of(const program_sizes *s)
{
  if (s->q_each == 0 || s->splits == 1)
    return 0;
  const int64_t group = heads_at_once(s->q_each), columns = hr_ceil_div(group * s->v_dim, s->splits);
  const int64_t items = s->tokens * s->groups * parts_of(s->q_each) * s->splits;
  return aligned((size_t)(items * s->splits * (2 * group + columns)) * sizeof(float));
}

/* Tensor maps, instructions, counters, two places for partial results, two sets of what is posted. */
static hr_status make_memory(persistent_kernel *p, instruction_list *list, const program_sizes *sizes, hr_error *error)
{
  const hr_backend *backend = p->device->backend;
  const size_t maps = list->count * MAPS_BYTES, table = list->count * sizeof *list->to;
  list->partial_bytes = partial_bytes_of(sizes);
  const size_t set = (size_t)(posted_by(list, list->count - 1) - list->posted);
  const size_t before = maps + table + HR_PERSISTENT_COUNTERS * sizeof(unsigned);
  p->bytes = before + 2 * list->partial_bytes + 2 * set;
  HR_TRY(backend->allocate(p->device, p->bytes, &p->memory, error));
  HR_TRY(backend->set_bytes(p->device, p->memory, 0, before, error));
  HR_TRY(backend->set_bytes(p->device, (char *)p->memory + before, 0xFF, p->bytes - before, error));
  list->maps = hr_cuda_address(p->memory);
  p->call.instructions = list->maps + maps;
  p->call.counters = p->call.instructions + table;
  p->call.set = (int64_t)(set / 2);
  list->partial = list->maps + before;
  list->posted = list->partial + 2 * list->partial_bytes;
  return HR_OK;
}

static hr_status make_instructions(persistent_kernel *p, instruction_list *list, const program_sizes *sizes,
                                   hr_error *error)
{
  const hr_backend *backend = p->device->backend;
  const size_t maps = list->count * MAPS_BYTES;
  HR_TRY(make_memory(p, list, sizes, error));
  HR_TRY(write_instructions(list, error));
  order_instructions(list);
  HR_TRY(backend->write(p->device, p->memory, list->maps_to, maps, error));
  return backend->write(p->device, (char *)p->memory + maps, list->ordered, list->count * sizeof *list->ordered, error);
}

static bool allocate_list(instruction_list *list)
{
  list->to = calloc(list->count, sizeof *list->to);
  list->ordered = calloc(list->count, sizeof *list->ordered);
  list->positions = calloc(list->count, sizeof *list->positions);
  list->sources = calloc(list->count, sizeof *list->sources);
  list->maps_to = calloc(list->count, MAPS_BYTES);
  return list->to && list->ordered && list->positions && list->sources && list->maps_to;
}

static void free_list(instruction_list *list)
{
  free(list->to);
  free(list->ordered);
  free(list->positions);
  free(list->sources);
  free(list->maps_to);
}

static hr_status make(persistent_kernel *p, const hr_persistent_part *parts, size_t count, hr_error *error)
{
  program_sizes sizes;
  HR_TRY(load_program(p, parts, count, &sizes, error));
  instruction_list list = {.cuda = p->device->state, .parts = parts, .count = count, .blocks = p->kernel.blocks};
  hr_status status = allocate_list(&list) ? make_instructions(p, &list, &sizes, error)
                                          : hr_fail(error, HR_ERROR_OUT_OF_MEMORY,
                                                    "%s: not enough memory for a persistent kernel", p->device->name);
  free_list(&list);
  return status;
}

hr_status hr_cuda_persist(hr_device *device, const hr_persistent_part *parts, size_t count, void **kernel,
                          hr_error *error)
{
  persistent_kernel *p = calloc(1, sizeof *p);
  if (!p)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: not enough memory for a persistent kernel", device->name);
  p->device = device;
  p->call.count = (int)count;
  hr_status status = make(p, parts, count, error);
  if (status == HR_OK)
    *kernel = p;
  else
    hr_cuda_forget_persistent(device, p);
  return status;
}

void hr_cuda_forget_persistent(hr_device *device, void *kernel)
{
  persistent_kernel *p = kernel;
  if (p)
    device->backend->release(device, p->memory, p->bytes);
  free(p);
}

hr_status hr_cuda_run_persistent(hr_device *device, void *kernel, void *stream, hr_error *error)
{
  const persistent_kernel *p = kernel;
  const hr_cuda_queue queue = {device->state, stream};
  hr_persistent_call call = p->call;
  void *parameters[] = {&call};
  HR_TRY(hr_cuda_enter(queue.cuda, error));
  hr_status status = hr_cuda_launch(&queue, &p->kernel, parameters, error);
  hr_cuda_leave(queue.cuda);
  return status;
}
