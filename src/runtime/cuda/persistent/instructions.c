/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/persistent/instructions.h"

#include "base/error.h"

#include <math.h>
#include <string.h>

/* ---- what parts pass on to each other ---- */

/* Where a part reads: what an earlier one posts, or memory that none writes. */
typedef struct source {
  uint64_t address;
  int arrives;
  size_t part; /* that posts it */
} source;

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
    const hr_linear_arguments x = hr_persistent_layer(part->linear);
    return rows_of(x.y, x.rows, x.n, x.n);
  }
  return rows_of(part->arguments->o, d->batch, hr_decode_o_strides(d).batch, d->q_heads * d->v_dim);
}

static uint64_t bytes_of_result(const hr_persistent_part *part)
{
  const byte_range r = result_of(part);
  return (r.end - r.first + HR_PART_ALIGNMENT - 1) / HR_PART_ALIGNMENT * HR_PART_ALIGNMENT;
}

uint64_t hr_posted_by(const hr_instruction_list *list, size_t part)
{
  uint64_t at = list->posted;
  for (size_t i = 0; i < part; i++)
    at += bytes_of_result(&list->parts[i]);
  return at;
}

/* HR_ERROR_UNSUPPORTED for what is not all of one result. */
static hr_status find_source(const hr_instruction_list *list, size_t reader, byte_range wanted, source *from,
                             hr_error *error)
{
  *from = (source){.address = wanted.first};
  for (size_t i = reader; i-- > 0;) {
    const byte_range result = result_of(&list->parts[i]);
    if (wanted.first >= result.end || result.first >= wanted.end)
      continue;
    if (wanted.first < result.first || wanted.end > result.end)
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "a persistent kernel passes on whole results");
    *from = (source){hr_posted_by(list, i) + wanted.first - result.first, 1, i};
    return HR_OK;
  }
  return HR_OK;
}

/* ---- instructions ---- */

static int norm_of(hr_rowwise_operation norm)
{
  return norm == HR_ROWWISE_RMS_NORM     ? HR_PERSISTENT_RMS_NORM
         : norm == HR_ROWWISE_LAYER_NORM ? HR_PERSISTENT_LAYER_NORM
                                         : HR_PERSISTENT_NO_NORM;
}

static int log2_of(int64_t power)
{
  int log2 = 0;
  while (power >> log2 > 1)
    log2++;
  return log2;
}

static void keep_sources(const hr_instruction_list *list, size_t at, const source *sources, size_t count)
{
  for (size_t i = 0; i < HR_PART_SOURCES; i++)
    list->sources[at][i] = i < count && sources[i].arrives ? sources[i].part : HR_NO_PART;
}

/* The part whose router chooses the layer's experts. */
static size_t router_of(const hr_instruction_list *list, size_t at)
{
  const hr_linear_arguments *x = list->parts[at].linear;
  for (size_t i = at; x->experts > 0 && i-- > 0;) {
    const hr_router_arguments *router = list->parts[i].router;
    if (router && router->route.offsets == x->offsets)
      return i;
  }
  return HR_NO_PART;
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

static bool reads_norm_of_router(const hr_instruction_list *list, size_t at, const void *x)
{
  for (size_t i = 0; i < at; i++) {
    const hr_router_arguments *router = list->parts[i].router;
    if (router && router->normed && router->normed == x)
      return true;
  }
  return false;
}

static void write_experts(const hr_instruction_list *list, size_t router, const hr_linear_arguments *x,
                          hr_persistent_linear *to)
{
  const hr_route_arguments *route = &list->parts[router].router->route;
  const bool sums = x->active > 0;
  to->logits = sums ? 0 : hr_posted_by(list, router);
  to->matrix_rows = (int)x->n;
  to->width = (int)(sums ? x->k : x->n);
  to->normalized = route->normalized;
  to->share_scale = route->scale == 0 ? 1 : (float)route->scale;
}

/* Up to 128 logits come from at most 16 blocks, since each store of its own waits where all blocks ask for it. More
 * rows of fewer blocks would be copied longer: with 8 experts in one block Mixtral-8x7B took 1% longer. */
static int unit_of_router(int64_t experts)
{
  int unit = 1;
  while (unit < HR_PERSISTENT_ROWS && unit * 16 < experts)
    unit *= 2;
  return unit;
}

static hr_status write_linear(const hr_instruction_list *list, size_t at, hr_error *error)
{
  const hr_linear_arguments *own = list->parts[at].linear;
  const size_t router = router_of(list, at);
  const bool last = at + 1 == list->count;
  hr_linear_arguments x = hr_persistent_layer(own);
  const int unit = list->parts[at].router ? unit_of_router(x.n) : 1;
  const int64_t units = hr_ceil_div(x.n, unit);
  source from = {0}, residual = {0}, logits = {0};
  if (own->experts > 0 && router == HR_NO_PART)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "a persistent kernel has the router of its experts");
  if (router != HR_NO_PART && own->active == 0) {
    read_as_router(list->parts[router].router, &x);
    logits = (source){hr_posted_by(list, router), 1, router};
  }
  HR_TRY(find_source(list, at, rows_of(x.x, x.rows, x.x_stride, x.k), &from, error));
  if (!from.arrives && reads_norm_of_router(list, at, x.x))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "a persistent kernel makes a router's norm for its experts alone");
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
                                               .posted = last ? 0 : hr_posted_by(list, at),
                                               .x_row = x.x_stride,
                                               .residual_row = x.residual_stride,
                                               .n = x.n,
                                               .k = x.k,
                                               .norm = norm_of(x.norm),
                                               .activation = hr_persistent_activation(x.activation),
                                               .x_arrives = from.arrives,
                                               .residual_arrives = residual.arrives,
                                               .epsilon = (float)x.epsilon,
                                               .limit = (float)x.limit,
                                               .factor = x.factor == 0 ? 1 : (float)x.factor,
                                               .format = hr_persistent_format(&x),
                                               .scales = hr_cuda_address(x.scales),
                                               .gate_scales = hr_cuda_address(x.gate_scales),
                                               .scale_row = (int)x.shares.stride,
                                               .scale_rows_log2 = log2_of(x.shares.rows),
                                               .unit = unit,
                                               .units_each = (int)(units / list->blocks),
                                               .units_more = (int)(units % list->blocks)};
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
  const int boxes[3] = {hr_persistent_panel((int)dim), 1, HR_PERSISTENT_TILE_KEYS};
  return hr_tensor_map_of_columns(driver, d->dtype, cache, elements, sizes, boxes, map, error);
}

static hr_status write_maps(const hr_instruction_list *list, size_t at, hr_error *error)
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
  memcpy(list->maps_to + at * HR_PART_MAPS_BYTES, maps, HR_PART_MAPS_BYTES);
  return status;
}

static hr_status write_attention(const hr_instruction_list *list, size_t at, uint64_t partial, hr_error *error)
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
  a.o = last ? hr_cuda_address(x->o) : hr_posted_by(list, at);
  a.keeps_o = last;
  a.o_row = hr_decode_o_strides(d).batch;
  a.partial = partial;
  a.maps = list->maps + at * HR_PART_MAPS_BYTES;
  a.slopes = d->alibi ? hr_cuda_address(x->alibi_slopes) : 0;
  list->to[at].attends = 1;
  list->to[at].attention = a;
  return write_maps(list, at, error);
}

hr_status hr_write_instructions(const hr_instruction_list *list, hr_error *error)
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
