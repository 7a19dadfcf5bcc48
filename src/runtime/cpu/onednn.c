/* Matrix products by oneDNN. This is the only file that knows oneDNN, and `describe` and `create_matmul` are all that
 * differs between its API 2 (Debian 12) and 3.
 *
 * Threads: oneDNN takes OpenMP's count of the calling thread, both when a primitive is made and when it runs. It is set
 * around each call and put back, so that the caller's own OpenMP code sees no change. */
#include "runtime/cpu/onednn.h"
#include "base/error.h"
#include "base/names.h"

static hr_library about(hr_status status)
{
  return (hr_library){.name = "oneDNN", .device = "cpu", .purpose = "products on cpu", .status = status};
}

#if !HR_WITH_ONEDNN

void hr_cpu_library(hr_library *library)
{
  *library = about(HR_ERROR_UNAVAILABLE);
  hr_copy_text(library->detail, sizeof library->detail, "this Headroom was built without it; build the preset release");
}

hr_status hr_onednn_open(int threads, hr_onednn **onednn, hr_error *error)
{
  (void)threads;
  (void)error;
  *onednn = NULL; /* hr_cpu says that it lacks "onednn", so that no kernel below is reached */
  return HR_OK;
}

void hr_onednn_close(hr_onednn *onednn)
{
  (void)onednn;
}

/* Whoever asks for a product has been refused before: hr_cpu has no "onednn". */
hr_status hr_matmul_create(hr_onednn *onednn, int threads, const hr_tensor tensors[3], hr_matmul **matmul,
                           hr_error *error)
{
  (void)onednn;
  (void)threads;
  (void)tensors;
  (void)matmul;
  return hr_fail(error, HR_ERROR_UNSUPPORTED, "cpu: built without oneDNN");
}

void hr_matmul_free(hr_matmul *matmul)
{
  (void)matmul;
}

size_t hr_matmul_workspace_bytes(const hr_matmul *matmul)
{
  (void)matmul;
  return 0;
}

hr_status hr_matmul_run(const hr_matmul *matmul, const void *a, const void *b, void *c, void *workspace,
                        hr_error *error)
{
  (void)matmul;
  (void)a;
  (void)b;
  (void)c;
  (void)workspace;
  return hr_fail(error, HR_ERROR_UNSUPPORTED, "cpu: built without oneDNN");
}

static hr_status run(const hr_plan *plan, const void *const *inputs, void *output, void *workspace, hr_error *error)
{
  (void)plan;
  return hr_matmul_run(NULL, inputs[0], inputs[1], output, workspace, error);
}

const hr_kernel_functions hr_kernel_gemm_onednn_fp32 = {.run = run};
const hr_kernel_functions hr_kernel_gemm_onednn_bf16 = {.run = run};

#else

#include <oneapi/dnnl/dnnl.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void hr_cpu_library(hr_library *library)
{
  const dnnl_version_t *version = dnnl_version();
  *library = about(HR_OK);
  snprintf(library->version, sizeof library->version, "%d.%d.%d", version->major, version->minor, version->patch);
}

struct hr_onednn {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  int threads;
  int (*get_threads)(void);
  void (*set_threads)(int);
};

static hr_status check(dnnl_status_t status, const char *what, hr_error *error)
{
  switch (status) {
  case dnnl_success: return HR_OK;
  case dnnl_unimplemented: return hr_fail(error, HR_ERROR_UNSUPPORTED, "oneDNN has no %s of this kind here", what);
  case dnnl_out_of_memory: return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "oneDNN: no memory for a %s", what);
  default: return hr_fail(error, HR_ERROR_BACKEND, "oneDNN: %s failed with status %d", what, (int)status);
  }
}

/* OpenMP's functions come from whichever runtime oneDNN was loaded with; linking one here could bring in a second. */
static hr_status find_thread_functions(hr_onednn *onednn, hr_error *error)
{
  void *get = dlsym(RTLD_DEFAULT, "omp_get_max_threads"), *set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
  if (!get || !set)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "cpu: this oneDNN does not thread by OpenMP, so that its threads cannot "
                   "be counted out");
  memcpy(&onednn->get_threads, &get, sizeof get); /* ISO C has no cast from object to function pointers */
  memcpy(&onednn->set_threads, &set, sizeof set);
  return HR_OK;
}

static int enter_threads(const hr_onednn *onednn, int threads)
{
  int before = onednn->get_threads();
  if (before != threads)
    onednn->set_threads(threads);
  return before;
}

static void leave_threads(const hr_onednn *onednn, int threads, int before)
{
  if (before != threads)
    onednn->set_threads(before);
}

void hr_onednn_close(hr_onednn *onednn)
{
  if (!onednn)
    return;
  if (onednn->stream)
    dnnl_stream_destroy(onednn->stream);
  if (onednn->engine)
    dnnl_engine_destroy(onednn->engine);
  free(onednn);
}

hr_status hr_onednn_open(int threads, hr_onednn **onednn, hr_error *error)
{
  hr_onednn *opened = calloc(1, sizeof *opened);
  if (!opened)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: no memory to open oneDNN");
  opened->threads = threads;
  hr_status status = find_thread_functions(opened, error);
  if (status == HR_OK)
    status = check(dnnl_engine_create(&opened->engine, dnnl_cpu, 0), "CPU engine", error);
  if (status == HR_OK)
    status = check(dnnl_stream_create(&opened->stream, opened->engine, dnnl_stream_default_flags), "stream", error);
  if (status != HR_OK) {
    hr_onednn_close(opened);
    return status;
  }
  *onednn = opened;
  return HR_OK;
}

/* What a matmul is made of: A, B, C. */
struct hr_matmul {
  hr_onednn *onednn;
  int threads;
  dnnl_primitive_t primitive;
  dnnl_primitive_desc_t description; /* keeps the memory descriptions below alive */
#if DNNL_VERSION_MAJOR >= 3
  dnnl_memory_desc_t operands[3];
  const_dnnl_memory_desc_t scratch;
#else
  dnnl_memory_desc_t operands[3];
  const dnnl_memory_desc_t *scratch;
#endif
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

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t describe(dnnl_memory_desc_t *to, const hr_tensor *t, dnnl_data_type_t type)
{
  places p = places_of(t);
  return dnnl_memory_desc_create_with_strides(to, t->rank, p.sizes, type, p.strides);
}

static void forget(dnnl_memory_desc_t *description)
{
  if (*description)
    dnnl_memory_desc_destroy(*description);
}

static dnnl_status_t create_matmul(hr_matmul *m, dnnl_primitive_attr_t attributes)
{
  return dnnl_matmul_primitive_desc_create(&m->description, m->onednn->engine, m->operands[0], m->operands[1], NULL,
                                           m->operands[2], attributes);
}

static const_dnnl_memory_desc_t operand_of(const hr_matmul *m, int index)
{
  return m->operands[index];
}

#else

static dnnl_status_t describe(dnnl_memory_desc_t *to, const hr_tensor *t, dnnl_data_type_t type)
{
  places p = places_of(t);
  return dnnl_memory_desc_init_by_strides(to, t->rank, p.sizes, type, p.strides);
}

static void forget(dnnl_memory_desc_t *description)
{
  (void)description; /* a plain value in API 2 */
}

static dnnl_status_t create_matmul(hr_matmul *m, dnnl_primitive_attr_t attributes)
{
  dnnl_matmul_desc_t description;
  dnnl_status_t status = dnnl_matmul_desc_init(&description, &m->operands[0], &m->operands[1], NULL, &m->operands[2]);
  if (status != dnnl_success)
    return status;
  return dnnl_primitive_desc_create(&m->description, &description, attributes, m->onednn->engine, NULL);
}

static const dnnl_memory_desc_t *operand_of(const hr_matmul *m, int index)
{
  return &m->operands[index];
}

#endif

void hr_matmul_free(hr_matmul *m)
{
  if (!m)
    return;
  if (m->primitive)
    dnnl_primitive_destroy(m->primitive);
  if (m->description)
    dnnl_primitive_desc_destroy(m->description);
  for (int i = 0; i < 3; i++)
    forget(&m->operands[i]);
  free(m);
}

static hr_status describe_operands(hr_matmul *m, const hr_tensor tensors[3], hr_error *error)
{
  for (int i = 0; i < 3; i++) {
    dnnl_data_type_t type = tensors[i].dtype == HR_BF16 ? dnnl_bf16 : dnnl_f32;
    dnnl_status_t status = describe(&m->operands[i], &tensors[i], type);
    if (status == dnnl_invalid_arguments) /* the sizes have been checked: it is the strides */
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
  dnnl_primitive_desc_query(m->description, dnnl_query_impl_info_str, 0, (void *)&implementation);
  if (implementation && strncmp(implementation, "ref", 3) == 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "oneDNN %d.%d has only plain loops (%s) for this %s product here",
                   DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, implementation, hr_dtype_name(dtype));
  return HR_OK;
}

static hr_status build(hr_matmul *m, const hr_tensor tensors[3], hr_error *error)
{
  HR_TRY(describe_operands(m, tensors, error));
  dnnl_primitive_attr_t attributes;
  HR_TRY(check(dnnl_primitive_attr_create(&attributes), "attribute", error));
  dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
  hr_status status = check(create_matmul(m, attributes), "matmul", error);
  dnnl_primitive_attr_destroy(attributes);
  HR_TRY(status);
  HR_TRY(refuse_plain_loops(m, tensors[0].dtype, error));
  HR_TRY(check(dnnl_primitive_create(&m->primitive, m->description), "matmul", error));
  m->scratch = dnnl_primitive_desc_query_md(m->description, dnnl_query_scratchpad_md, 0);
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
  if (status != HR_OK) {
    hr_matmul_free(m);
    return status;
  }
  *matmul = m;
  return HR_OK;
}

size_t hr_matmul_workspace_bytes(const hr_matmul *m)
{
  return m->scratch ? dnnl_memory_desc_get_size(m->scratch) : 0;
}

/* oneDNN wants an object around each address; making one is a small allocation of oneDNN's own. */
static dnnl_status_t wrap_addresses(const hr_matmul *m, void *const *addresses, dnnl_memory_t *memories)
{
  dnnl_status_t status = dnnl_success;
  for (int i = 0; i < 3 && status == dnnl_success; i++)
    status = dnnl_memory_create(&memories[i], operand_of(m, i), m->onednn->engine, addresses[i]);
  if (status == dnnl_success && addresses[3])
    status = dnnl_memory_create(&memories[3], m->scratch, m->onednn->engine, addresses[3]);
  return status;
}

hr_status hr_matmul_run(const hr_matmul *m, const void *a, const void *b, void *c, void *workspace, hr_error *error)
{
  void *addresses[4] = {(void *)(uintptr_t)a, (void *)(uintptr_t)b, c,
                        hr_matmul_workspace_bytes(m) > 0 ? workspace : NULL};
  dnnl_memory_t memories[4] = {NULL};
  dnnl_status_t status = wrap_addresses(m, addresses, memories);
  if (status == dnnl_success) {
    const dnnl_exec_arg_t arguments[4] = {{DNNL_ARG_SRC, memories[0]},
                                          {DNNL_ARG_WEIGHTS, memories[1]},
                                          {DNNL_ARG_DST, memories[2]},
                                          {DNNL_ARG_SCRATCHPAD, memories[3]}};
    int before = enter_threads(m->onednn, m->threads);
    status = dnnl_primitive_execute(m->primitive, m->onednn->stream, memories[3] ? 4 : 3, arguments);
    if (status == dnnl_success)
      status = dnnl_stream_wait(m->onednn->stream);
    leave_threads(m->onednn, m->threads, before);
  }
  for (int i = 0; i < 4; i++) {
    if (memories[i])
      dnnl_memory_destroy(memories[i]);
  }
  return check(status, "run of a matmul", error);
}

/* ---- products as kernels ---- */

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

static hr_status prepare(hr_device *device, const hr_problem *problem, void **state, size_t *workspace_bytes,
                         hr_error *error)
{
  const hr_cpu *cpu = device->state;
  const hr_gemm *g = &problem->gemm;
  const hr_tensor tensors[3] = {make_operand(g, hr_gemm_a(g), g->transpose_a),
                                make_operand(g, hr_gemm_b(g), g->transpose_b), make_operand(g, hr_gemm_c(g), false)};
  hr_matmul *m = NULL;
  HR_TRY(hr_matmul_create(cpu->onednn, device->threads, tensors, &m, error));
  *state = m;
  *workspace_bytes = hr_matmul_workspace_bytes(m);
  return HR_OK;
}

static hr_status run(const hr_plan *plan, const void *const *inputs, void *output, void *workspace, hr_error *error)
{
  return hr_matmul_run(plan->state, inputs[0], inputs[1], output, workspace, error);
}

static void release(void *state)
{
  hr_matmul_free(state);
}

const hr_kernel_functions hr_kernel_gemm_onednn_fp32 = {.prepare = prepare, .run = run, .release = release};
const hr_kernel_functions hr_kernel_gemm_onednn_bf16 = {.prepare = prepare, .run = run, .release = release};

#endif
