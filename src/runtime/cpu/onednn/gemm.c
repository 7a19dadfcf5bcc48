/* SPDX-License-Identifier: Apache-2.0 */
/* GEMMs by oneDNN, which is loaded at run time. Its API 2 (Debian 12) and API 3 differ only in describe() and
 * create_matmul().
 *
 * Threads: oneDNN reads the calling thread's OpenMP thread count when a primitive is created and when it runs. The
 * count is set around each call and restored, so that the caller's own OpenMP code sees no change. The OpenMP threads
 * are bound when a primitive is created, and unbound when the device is closed. */
#include "runtime/cpu/onednn/gemm.h"

#include "base/error.h"
#include "base/names.h"
#include "runtime/cpu/host/host.h"
#include "runtime/cpu/onednn/engine.h"
#include "runtime/device/plan.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CODE_BYTES ((size_t)16 << 20)

#define BIAS 3

/* Operands: A, B, C, and with `biased` a bias. */
struct hr_matmul {
  hr_onednn *onednn;
  int threads;
  dnnl_primitive_t primitive;
  dnnl_primitive_desc_t description; /* keeps that of the scratchpad alive */
  bool biased;
  void *operands[4]; /* in API 2 each points into `held` */
  const void *scratch;
  _Alignas(16) char held[4][HR_ONEDNN_OPERAND_BYTES];
};

/* Arrays as long as oneDNN says that they are. */
typedef struct places {
  dnnl_dims_t sizes, strides;
} places;

static places places_of(const hr_tensor *t)
{
  places p = {.sizes = {0}};
  memcpy(p.sizes, t->sizes, (size_t)t->rank * sizeof *p.sizes);
  memcpy(p.strides, t->strides, (size_t)t->rank * sizeof *p.strides);
  return p;
}

static dnnl_status_t describe(hr_matmul *m, int index, const hr_tensor *t)
{
  const hr_onednn_api *api = &m->onednn->api;
  int type = t->dtype == HR_BF16 ? DNNL_BF16 : DNNL_F32;
  places p = places_of(t);
  if (api->dnnl_memory_desc_create_with_strides)
    return api->dnnl_memory_desc_create_with_strides(&m->operands[index], t->rank, p.sizes, type, p.strides);
  m->operands[index] = m->held[index];
  return api->dnnl_memory_desc_init_by_strides(m->operands[index], t->rank, p.sizes, type, p.strides);
}

static void forget(hr_matmul *m, int index)
{
  const hr_onednn_api *api = &m->onednn->api;
  if (m->operands[index] && api->dnnl_memory_desc_destroy) /* plain bytes in API 2 */
    api->dnnl_memory_desc_destroy(m->operands[index]);
}

static dnnl_status_t create_matmul(hr_matmul *m, dnnl_primitive_attr_t attributes)
{
  const hr_onednn_api *api = &m->onednn->api;
  dnnl_engine_t engine = m->onednn->engine;
  const void *bias = m->biased ? m->operands[BIAS] : NULL;
  if (api->dnnl_matmul_primitive_desc_create)
    return api->dnnl_matmul_primitive_desc_create(&m->description, engine, m->operands[0], m->operands[1], bias,
                                                  m->operands[2], attributes);
  _Alignas(16) char matmul[HR_ONEDNN_MATMUL_BYTES];
  dnnl_status_t status = api->dnnl_matmul_desc_init(matmul, m->operands[0], m->operands[1], bias, m->operands[2]);
  return status == DNNL_SUCCESS ? api->dnnl_primitive_desc_create(&m->description, matmul, attributes, engine, NULL)
                                : status;
}

void hr_matmul_free(hr_matmul *m)
{
  if (!m)
    return;
  if (m->primitive)
    m->onednn->api.dnnl_primitive_destroy(m->primitive);
  if (m->description)
    m->onednn->api.dnnl_primitive_desc_destroy(m->description);
  for (int i = 0; i < 4; i++)
    forget(m, i);
  free(m);
}

/* oneDNN counts in 32 bits within, and divides by what is left of a larger size. */
static hr_status check_sizes(const hr_tensor *tensors, int count, hr_error *error)
{
  for (int i = 0; i < count; i++) {
    for (int at = 0; at < tensors[i].rank; at++) {
      if (tensors[i].sizes[at] > INT32_MAX)
        return hr_fail(error, HR_ERROR_UNSUPPORTED, "oneDNN takes sizes below 2^31, not %" PRId64,
                       tensors[i].sizes[at]);
    }
  }
  return HR_OK;
}

static hr_status describe_operands(hr_matmul *m, const hr_tensor *tensors, int count, hr_error *error)
{
  for (int i = 0; i < count; i++) {
    dnnl_status_t status = describe(m, i, &tensors[i]);
    if (status == DNNL_INVALID_ARGUMENTS) /* the sizes have been checked: it is the strides */
      return hr_fail(error, HR_ERROR_UNSUPPORTED,
                     "oneDNN supports no operand whose batches overlap or are interleaved with its rows");
    HR_TRY(hr_onednn_check(status, "memory layout", error));
  }
  return HR_OK;
}

/* oneDNN falls back to reference loops, tens of times slower, where it has no code for the processor. Their time says
 * nothing about the shape. */
static hr_status refuse_reference_loops(const hr_matmul *m, hr_dtype dtype, hr_error *error)
{
  const char *implementation = "";
  const hr_onednn_api *api = &m->onednn->api;
  api->dnnl_primitive_desc_query(m->description, DNNL_QUERY_IMPLEMENTATION, 0, (void *)&implementation);
  if (implementation && strncmp(implementation, "ref", 3) == 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "oneDNN %d.%d has only reference loops (%s) for this %s GEMM on this processor", api->version.major,
                   api->version.minor, implementation, hr_dtype_name(dtype));
  return HR_OK;
}

/* oneDNN maps memory for the code that it generates, 256 KiB a kernel and several kernels a GEMM, and writes it without
 * looking whether the system gave the memory (2.6: SIGSEGV). */
static hr_status check_room_for_code(hr_error *error)
{
  void *room = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: not enough memory for oneDNN's code");
  munmap(room, CODE_BYTES);
  return HR_OK;
}

static hr_status build(hr_matmul *m, const hr_tensor *tensors, hr_error *error)
{
  const hr_onednn_api *api = &m->onednn->api;
  const int count = m->biased ? 4 : 3;
  HR_TRY(check_sizes(tensors, count, error));
  HR_TRY(describe_operands(m, tensors, count, error));
  dnnl_primitive_attr_t attributes;
  HR_TRY(hr_onednn_check(api->dnnl_primitive_attr_create(&attributes), "attribute", error));
  api->dnnl_primitive_attr_set_scratchpad_mode(attributes, DNNL_SCRATCHPAD_USER);
  hr_status status = hr_onednn_check(create_matmul(m, attributes), "matmul", error);
  api->dnnl_primitive_attr_destroy(attributes);
  HR_TRY(status);
  HR_TRY(refuse_reference_loops(m, tensors[0].dtype, error));
  HR_TRY(check_room_for_code(error));
  HR_TRY(hr_onednn_check(api->dnnl_primitive_create(&m->primitive, m->description), "matmul", error));
  m->scratch = api->dnnl_primitive_desc_query_md(m->description, DNNL_QUERY_SCRATCHPAD, 0);
  return HR_OK;
}

static hr_status create(hr_onednn *onednn, int threads, const hr_tensor *tensors, bool biased, hr_matmul **matmul,
                        hr_error *error)
{
  hr_matmul *m = calloc(1, sizeof *m);
  if (!m)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: not enough memory for a plan");
  m->onednn = onednn;
  m->threads = threads;
  m->biased = biased;
  int before = hr_openmp_set_threads(&onednn->api.openmp, threads);
  hr_status status = build(m, tensors, error);
  hr_openmp_set_threads(&onednn->api.openmp, before);
  if (threads > 1) {
    onednn->bound = true;
    hr_openmp_bind(&onednn->api.openmp, onednn->affinity);
  }
  if (status != HR_OK) {
    hr_matmul_free(m);
    return status;
  }
  *matmul = m;
  return HR_OK;
}

hr_status hr_matmul_create(hr_onednn *onednn, int threads, const hr_tensor tensors[3], hr_matmul **matmul,
                           hr_error *error)
{
  return create(onednn, threads, tensors, false, matmul, error);
}

size_t hr_matmul_workspace_bytes(const hr_matmul *m)
{
  return m->scratch ? m->onednn->api.dnnl_memory_desc_get_size(m->scratch) : 0;
}

/* A, B, C, the scratchpad, and the bias; the last two may be NULL. */
#define MEMORIES 5

/* oneDNN needs a memory object for each address; creating it is a small allocation within oneDNN. */
static dnnl_status_t wrap_addresses(const hr_matmul *m, void *const *addresses, dnnl_memory_t *memories)
{
  const void *const descriptions[MEMORIES] = {m->operands[0], m->operands[1], m->operands[2], m->scratch,
                                              m->operands[BIAS]};
  dnnl_status_t status = DNNL_SUCCESS;
  for (int i = 0; i < MEMORIES && status == DNNL_SUCCESS; i++)
    if (addresses[i])
      status = m->onednn->api.dnnl_memory_create(&memories[i], descriptions[i], m->onednn->engine, addresses[i]);
  return status;
}

static dnnl_status_t execute(const hr_matmul *m, const dnnl_memory_t *memories)
{
  static const int names[MEMORIES] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD, DNNL_ARG_BIAS};
  dnnl_exec_arg_t arguments[MEMORIES];
  int count = 0;
  for (int i = 0; i < MEMORIES; i++)
    if (memories[i])
      arguments[count++] = (dnnl_exec_arg_t){names[i], memories[i]};
  if (m->threads > 1)
    hr_affinity_move_caller(m->onednn->affinity);
  int before = hr_openmp_set_threads(&m->onednn->api.openmp, m->threads);
  dnnl_status_t status = m->onednn->api.dnnl_primitive_execute(m->primitive, m->onednn->stream, count, arguments);
  if (status == DNNL_SUCCESS)
    status = m->onednn->api.dnnl_stream_wait(m->onednn->stream);
  hr_openmp_set_threads(&m->onednn->api.openmp, before);
  return status;
}

static hr_status run_at(const hr_matmul *m, void *const addresses[MEMORIES], hr_error *error)
{
  dnnl_memory_t memories[MEMORIES] = {NULL};
  dnnl_status_t status = wrap_addresses(m, addresses, memories);
  if (status == DNNL_SUCCESS)
    status = execute(m, memories);
  for (int i = 0; i < MEMORIES; i++) {
    if (memories[i])
      m->onednn->api.dnnl_memory_destroy(memories[i]);
  }
  return hr_onednn_check(status, "run of a matmul", error);
}

hr_status hr_matmul_run(const hr_matmul *m, const void *a, const void *b, void *c, void *workspace, hr_error *error)
{
  void *const addresses[MEMORIES] = {(void *)(uintptr_t)a, (void *)(uintptr_t)b, c,
                                     hr_matmul_workspace_bytes(m) > 0 ? workspace : NULL, NULL};
  return run_at(m, addresses, error);
}

/* ---- GEMM kernels ---- */

typedef struct gemm_plan {
  hr_matmul *matmul;
} gemm_plan;

/* A batch dimension comes first. A batch of 1 is broadcast to the batch of the other operands. */
static hr_tensor make_operand(const hr_gemm *g, hr_matrix matrix, bool transposed)
{
  hr_tensor result = {.dtype = g->dtype, .rank = g->batch > 1 ? 3 : 2};
  int at = 0;
  if (g->batch > 1) {
    result.sizes[at] = matrix.batch_stride > 0 ? g->batch : 1;
    result.strides[at++] = matrix.batch_stride > 0 ? matrix.batch_stride : matrix.elements;
  }
  result.sizes[at] = transposed ? matrix.columns : matrix.rows;
  result.strides[at++] = transposed ? 1 : matrix.leading_dimension;
  result.sizes[at] = transposed ? matrix.rows : matrix.columns;
  result.strides[at] = transposed ? matrix.leading_dimension : 1;
  return result;
}

/* A row that is broadcast to those of all batches. */
static hr_tensor make_bias(const hr_gemm *g)
{
  hr_tensor result = {.dtype = g->dtype, .rank = g->batch > 1 ? 3 : 2};
  for (int at = 0; at < result.rank; at++)
    result.sizes[at] = 1, result.strides[at] = g->n;
  result.sizes[result.rank - 1] = g->n, result.strides[result.rank - 1] = 1;
  return result;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  const hr_gemm *g = &problem->gemm;
  const hr_tensor tensors[4] = {make_operand(g, hr_gemm_a(g), g->transpose_a),
                                make_operand(g, hr_gemm_b(g), g->transpose_b), make_operand(g, hr_gemm_c(g), false),
                                make_bias(g)};
  gemm_plan *p = state;
  hr_onednn *onednn;
  HR_TRY(hr_onednn_of(device, &onednn, error));
  HR_TRY(create(onednn, device->threads, tensors, g->bias, &p->matmul, error));
  *workspace_bytes = hr_matmul_workspace_bytes(p->matmul);
  return HR_OK;
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const gemm_plan *p = plan->state;
  const hr_gemm_arguments *x = run->arguments;
  void *const addresses[MEMORIES] = {(void *)(uintptr_t)x->a, (void *)(uintptr_t)x->b, x->c,
                                     hr_matmul_workspace_bytes(p->matmul) > 0 ? run->workspace : NULL,
                                     plan->problem.gemm.bias ? (void *)(uintptr_t)x->bias : NULL};
  return run_at(p->matmul, addresses, error);
}

static void release(void *state)
{
  gemm_plan *p = state;
  hr_matmul_free(p->matmul);
}

const hr_kernel_functions hr_kernel_gemm_onednn_fp32 = {
    .state_bytes = sizeof(gemm_plan), .prepare = prepare, .run = run, .release = release};
const hr_kernel_functions hr_kernel_gemm_onednn_bf16 = {
    .state_bytes = sizeof(gemm_plan), .prepare = prepare, .run = run, .release = release};
