/* Matrix products by oneDNN, which is loaded at run time. `describe` and `create_matmul` are all that differs between
 * its API 2 (Debian 12) and 3.
 *
 * Threads: oneDNN takes OpenMP's count of the calling thread, both when a primitive is made and when it runs. It is set
 * around each call and put back, so that the caller's own OpenMP code sees no change. The threads themselves are bound
 * when a primitive is made, as they are the maker's from then on, and let go when the device is closed. */
#include "runtime/cpu/onednn/gemm.h"

#include "base/error.h"
#include "base/names.h"
#include "runtime/cpu/onednn/loader.h"
#include "runtime/cpu/onednn/openmp.h"
#include "runtime/device/plan.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

void hr_cpu_library(hr_library *library)
{
  hr_dnnl dnnl;
  hr_error error = {.message = ""};
  *library = (hr_library){.name = "oneDNN", .device = "cpu", .purpose = "products on cpu"};
  library->status = hr_dnnl_open(&dnnl, &error);
  hr_copy_text(library->detail, sizeof library->detail, error.message);
  if (library->status != HR_OK)
    return;
  snprintf(library->version, sizeof library->version, "%d.%d.%d", dnnl.version.major, dnnl.version.minor,
           dnnl.version.patch);
  hr_dnnl_close(&dnnl);
}

struct hr_onednn {
  hr_dnnl api;
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  const hr_placement *placement;
  atomic_bool bound; /* OpenMP's threads, some time */
};

static hr_status check(dnnl_status_t status, const char *what, hr_error *error)
{
  switch (status) {
  case DNNL_SUCCESS: return HR_OK;
  case DNNL_UNIMPLEMENTED: return hr_fail(error, HR_ERROR_UNSUPPORTED, "oneDNN has no %s of this kind here", what);
  case DNNL_OUT_OF_MEMORY: return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "oneDNN: no memory for a %s", what);
  default: return hr_fail(error, HR_ERROR_BACKEND, "oneDNN: %s failed with status %d", what, status);
  }
}

static int enter_threads(const hr_onednn *onednn, int threads)
{
  int before = onednn->api.omp_get_max_threads();
  if (before != threads)
    onednn->api.omp_set_num_threads(threads);
  return before;
}

static void leave_threads(const hr_onednn *onednn, int threads, int before)
{
  if (before != threads)
    onednn->api.omp_set_num_threads(before);
}

void hr_onednn_close(hr_onednn *onednn)
{
  if (!onednn)
    return;
  if (onednn->bound)
    hr_openmp_unbind(&onednn->api, onednn->placement);
  if (onednn->stream)
    onednn->api.dnnl_stream_destroy(onednn->stream);
  if (onednn->engine)
    onednn->api.dnnl_engine_destroy(onednn->engine);
  hr_dnnl_close(&onednn->api);
  free(onednn);
}

/* oneDNN takes such a limit only before its first product in a process; later ones keep that. */
static void limit_instructions(const hr_onednn *onednn, const hr_isa *isa)
{
  if (isa->masked)
    onednn->api.dnnl_set_max_cpu_isa(isa->avx512_bf16 ? DNNL_ISA_AVX512_BF16
                                     : isa->avx512    ? DNNL_ISA_AVX512
                                     : isa->avx2      ? DNNL_ISA_AVX2
                                                      : DNNL_ISA_SSE41);
}

static hr_status make_stream(hr_onednn *onednn, hr_error *error)
{
  HR_TRY(check(onednn->api.dnnl_engine_create(&onednn->engine, DNNL_CPU, 0), "CPU engine", error));
  return check(onednn->api.dnnl_stream_create(&onednn->stream, onednn->engine, DNNL_STREAM_DEFAULT), "stream", error);
}

bool hr_onednn_binds(const hr_onednn *onednn)
{
  return onednn->api.GOMP_parallel;
}

hr_status hr_onednn_open(const hr_isa *isa, const hr_placement *placement, hr_onednn **onednn, hr_error *error)
{
  hr_onednn *opened = calloc(1, sizeof *opened);
  if (!opened)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: no memory to open oneDNN");
  *onednn = NULL;
  hr_error reason = {.message = ""};
  hr_status status = hr_dnnl_open(&opened->api, &reason);
  if (status != HR_OK) { /* where nobody asked for one `headroom devices` says why */
    free(opened);
    return hr_dnnl_named() ? hr_fail(error, status, "%s", reason.message) : HR_OK;
  }
  opened->placement = placement;
  limit_instructions(opened, isa);
  status = make_stream(opened, error);
  if (status == HR_OK)
    *onednn = opened;
  else
    hr_onednn_close(opened);
  return status;
}

/* What a matmul is made of: A, B, C. */
struct hr_matmul {
  hr_onednn *onednn;
  int threads;
  dnnl_primitive_t primitive;
  dnnl_primitive_desc_t description; /* keeps that of the scratchpad alive */
  void *operands[3];                 /* in API 2 each points into `held` */
  const void *scratch;
  _Alignas(16) char held[3][HR_DNNL_OPERAND_BYTES];
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
  const hr_dnnl *api = &m->onednn->api;
  int type = t->dtype == HR_BF16 ? DNNL_BF16 : DNNL_F32;
  places p = places_of(t);
  if (api->dnnl_memory_desc_create_with_strides)
    return api->dnnl_memory_desc_create_with_strides(&m->operands[index], t->rank, p.sizes, type, p.strides);
  m->operands[index] = m->held[index];
  return api->dnnl_memory_desc_init_by_strides(m->operands[index], t->rank, p.sizes, type, p.strides);
}

static void forget(hr_matmul *m, int index)
{
  const hr_dnnl *api = &m->onednn->api;
  if (m->operands[index] && api->dnnl_memory_desc_destroy) /* plain bytes in API 2 */
    api->dnnl_memory_desc_destroy(m->operands[index]);
}

static dnnl_status_t create_matmul(hr_matmul *m, dnnl_primitive_attr_t attributes)
{
  const hr_dnnl *api = &m->onednn->api;
  dnnl_engine_t engine = m->onednn->engine;
  if (api->dnnl_matmul_primitive_desc_create)
    return api->dnnl_matmul_primitive_desc_create(&m->description, engine, m->operands[0], m->operands[1], NULL,
                                                  m->operands[2], attributes);
  _Alignas(16) char product[HR_DNNL_PRODUCT_BYTES];
  dnnl_status_t status = api->dnnl_matmul_desc_init(product, m->operands[0], m->operands[1], NULL, m->operands[2]);
  return status == DNNL_SUCCESS ? api->dnnl_primitive_desc_create(&m->description, product, attributes, engine, NULL)
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
  for (int i = 0; i < 3; i++)
    forget(m, i);
  free(m);
}

/* It counts in 32 bits within, and divides by what is left of a larger size. */
static hr_status check_sizes(const hr_tensor tensors[3], hr_error *error)
{
  for (int i = 0; i < 3; i++) {
    for (int at = 0; at < tensors[i].rank; at++) {
      if (tensors[i].sizes[at] > INT32_MAX)
        return hr_fail(error, HR_ERROR_UNSUPPORTED, "oneDNN takes sizes below 2^31, not %" PRId64,
                       tensors[i].sizes[at]);
    }
  }
  return HR_OK;
}

static hr_status describe_operands(hr_matmul *m, const hr_tensor tensors[3], hr_error *error)
{
  for (int i = 0; i < 3; i++) {
    dnnl_status_t status = describe(m, i, &tensors[i]);
    if (status == DNNL_INVALID_ARGUMENTS) /* the sizes have been checked: it is the strides */
      return hr_fail(error, HR_ERROR_UNSUPPORTED,
                     "oneDNN takes no operand whose batches overlap or do not lie whole within its rows");
    HR_TRY(check(status, "memory layout", error));
  }
  return HR_OK;
}

/* oneDNN falls back to plain loops, tens of times slower, where it has no code for the processor. A time of those would
 * say nothing about the shape. */
static hr_status refuse_plain_loops(const hr_matmul *m, hr_dtype dtype, hr_error *error)
{
  const char *implementation = "";
  const hr_dnnl *api = &m->onednn->api;
  api->dnnl_primitive_desc_query(m->description, DNNL_QUERY_IMPLEMENTATION, 0, (void *)&implementation);
  if (implementation && strncmp(implementation, "ref", 3) == 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "oneDNN %d.%d has only plain loops (%s) for this %s product here",
                   api->version.major, api->version.minor, implementation, hr_dtype_name(dtype));
  return HR_OK;
}

static hr_status build(hr_matmul *m, const hr_tensor tensors[3], hr_error *error)
{
  const hr_dnnl *api = &m->onednn->api;
  HR_TRY(check_sizes(tensors, error));
  HR_TRY(describe_operands(m, tensors, error));
  dnnl_primitive_attr_t attributes;
  HR_TRY(check(api->dnnl_primitive_attr_create(&attributes), "attribute", error));
  api->dnnl_primitive_attr_set_scratchpad_mode(attributes, DNNL_SCRATCHPAD_USER);
  hr_status status = check(create_matmul(m, attributes), "matmul", error);
  api->dnnl_primitive_attr_destroy(attributes);
  HR_TRY(status);
  HR_TRY(refuse_plain_loops(m, tensors[0].dtype, error));
  HR_TRY(check(api->dnnl_primitive_create(&m->primitive, m->description), "matmul", error));
  m->scratch = api->dnnl_primitive_desc_query_md(m->description, DNNL_QUERY_SCRATCHPAD, 0);
  return HR_OK;
}

hr_status hr_matmul_create(hr_onednn *onednn, int threads, const hr_tensor tensors[3], hr_matmul **matmul,
                           hr_error *error)
{
  hr_matmul *m = calloc(1, sizeof *m);
  if (!m)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: no memory for a plan");
  m->onednn = onednn;
  m->threads = threads;
  int before = enter_threads(onednn, threads);
  hr_status status = build(m, tensors, error);
  leave_threads(onednn, threads, before);
  if (threads > 1) {
    onednn->bound = true;
    hr_openmp_bind(&onednn->api, onednn->placement);
  }
  if (status != HR_OK) {
    hr_matmul_free(m);
    return status;
  }
  *matmul = m;
  return HR_OK;
}

size_t hr_matmul_workspace_bytes(const hr_matmul *m)
{
  return m->scratch ? m->onednn->api.dnnl_memory_desc_get_size(m->scratch) : 0;
}

/* oneDNN wants an object around each address; making one is a small allocation of oneDNN's own. */
static dnnl_status_t wrap_addresses(const hr_matmul *m, void *const *addresses, dnnl_memory_t *memories)
{
  dnnl_status_t status = DNNL_SUCCESS;
  for (int i = 0; i < 3 && status == DNNL_SUCCESS; i++)
    status = m->onednn->api.dnnl_memory_create(&memories[i], m->operands[i], m->onednn->engine, addresses[i]);
  if (status == DNNL_SUCCESS && addresses[3])
    status = m->onednn->api.dnnl_memory_create(&memories[3], m->scratch, m->onednn->engine, addresses[3]);
  return status;
}

hr_status hr_matmul_run(const hr_matmul *m, const void *a, const void *b, void *c, void *workspace, hr_error *error)
{
  void *addresses[4] = {(void *)(uintptr_t)a, (void *)(uintptr_t)b, c,
                        hr_matmul_workspace_bytes(m) > 0 ? workspace : NULL};
  dnnl_memory_t memories[4] = {NULL};
  dnnl_status_t status = wrap_addresses(m, addresses, memories);
  if (status == DNNL_SUCCESS) {
    const dnnl_exec_arg_t arguments[4] = {{DNNL_ARG_SRC, memories[0]},
                                          {DNNL_ARG_WEIGHTS, memories[1]},
                                          {DNNL_ARG_DST, memories[2]},
                                          {DNNL_ARG_SCRATCHPAD, memories[3]}};
    if (m->threads > 1)
      hr_placement_lead(m->onednn->placement);
    int before = enter_threads(m->onednn, m->threads);
    status = m->onednn->api.dnnl_primitive_execute(m->primitive, m->onednn->stream, memories[3] ? 4 : 3, arguments);
    if (status == DNNL_SUCCESS)
      status = m->onednn->api.dnnl_stream_wait(m->onednn->stream);
    leave_threads(m->onednn, m->threads, before);
  }
  for (int i = 0; i < 4; i++) {
    if (memories[i])
      m->onednn->api.dnnl_memory_destroy(memories[i]);
  }
  return check(status, "run of a matmul", error);
}

/* ---- products as kernels ---- */

typedef struct product {
  hr_matmul *matmul;
} product;

/* The batch in front where there is one. A batch of one beside those of the others is what oneDNN calls broadcast. */
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

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  const hr_cpu *cpu = device->state;
  const hr_gemm *g = &problem->gemm;
  const hr_tensor tensors[3] = {make_operand(g, hr_gemm_a(g), g->transpose_a),
                                make_operand(g, hr_gemm_b(g), g->transpose_b), make_operand(g, hr_gemm_c(g), false)};
  product *p = state;
  HR_TRY(hr_matmul_create(cpu->onednn, device->threads, tensors, &p->matmul, error));
  *workspace_bytes = hr_matmul_workspace_bytes(p->matmul);
  return HR_OK;
}

static hr_status run(const hr_plan *plan, const void *const *inputs, void *output, void *workspace, hr_error *error)
{
  const product *p = plan->state;
  return hr_matmul_run(p->matmul, inputs[0], inputs[1], output, workspace, error);
}

static void release(void *state)
{
  product *p = state;
  hr_matmul_free(p->matmul);
}

const hr_kernel_functions hr_kernel_gemm_onednn_fp32 = {
    .state_bytes = sizeof(product), .prepare = prepare, .run = run, .release = release};
const hr_kernel_functions hr_kernel_gemm_onednn_bf16 = {
    .state_bytes = sizeof(product), .prepare = prepare, .run = run, .release = release};
