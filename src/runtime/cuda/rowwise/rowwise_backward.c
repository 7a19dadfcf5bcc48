/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of row-wise operations, the loss and the optimizer by kernels/rowwise_backward_rows.cu,
 * rowwise_backward_elements.cu and cross_entropy.cu: tiling and launches. */
#include "runtime/cuda/rowwise/rowwise.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/kernels/rowwise_backward_layout.h"
#include "runtime/device/plan.h"
#include "shape/alignment.h"
#include "shape/rowwise.h"
#include "shape/rowwise_operands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WARP 32
#define ROW_THREADS 512   /* of a block of rowwise_backward_rows.cu, and of a row at most */
#define ROW_PACKS 4       /* of a thread in registers, at most */
#define NORM_PACKS 2      /* the same of a layer norm, whose sums take the registers, unless the row is long */
#define ELEMENT_BLOCKS 16 /* of a multiprocessor in loops over elements, at most */
#define CLIP_BLOCKS 4

#define ROWS "rowwise_backward_rows"
#define ELEMENTS "rowwise_backward_elements"
#define LOSS "cross_entropy"

/* How an operation is computed: its program and entry point, HR_OPERATION of ROWS, and vectors that are summed over the
 * rows. */
static const struct {
  const char *source, *entry;
  int of_rows, vectors;
} forms[HR_ROWWISE_COUNT] = {
    [HR_ROWWISE_SOFTMAX_BACKWARD] = {ROWS, "backward_rows", HR_ROWS_SOFTMAX, 0},
    [HR_ROWWISE_LAYER_NORM_BACKWARD] = {ROWS, "backward_rows", HR_ROWS_LAYER_NORM, 2},
    [HR_ROWWISE_RMS_NORM_BACKWARD] = {ROWS, "backward_rows", HR_ROWS_RMS_NORM, 1},
    [HR_ROWWISE_BIAS_BACKWARD] = {ROWS, "backward_rows", HR_ROWS_BIAS, 1},
    [HR_ROWWISE_ROTARY_BACKWARD] = {ELEMENTS, "rotary_backward", 0, 0},
    [HR_ROWWISE_GELU_BACKWARD] = {ELEMENTS, "gelu_backward", 0, 0},
    [HR_ROWWISE_SWIGLU_BACKWARD] = {ELEMENTS, "swiglu_backward", 0, 0},
    [HR_ROWWISE_ADAMW] = {ELEMENTS, "adamw", 0, 0},
    [HR_ROWWISE_GELU_TANH_BACKWARD] = {ELEMENTS, "gelu_tanh_backward", 0, 0},
    [HR_ROWWISE_RELU_BACKWARD] = {ELEMENTS, "relu_backward", 0, 0},
    [HR_ROWWISE_RELU2_BACKWARD] = {ELEMENTS, "relu2_backward", 0, 0},
    [HR_ROWWISE_SOFTCAP_BACKWARD] = {ELEMENTS, "softcap_backward", 0, 0},
    [HR_ROWWISE_GEGLU_BACKWARD] = {ELEMENTS, "geglu_backward", 0, 0},
    [HR_ROWWISE_GEGLU_TANH_BACKWARD] = {ELEMENTS, "geglu_tanh_backward", 0, 0},
    [HR_ROWWISE_GATHER_BACKWARD] = {ELEMENTS, "gather_backward", 0, 0},
    [HR_ROWWISE_GATHER_SUM] = {ELEMENTS, "gather_sum", 0, 0},
    [HR_ROWWISE_COMBINE_BACKWARD] = {ELEMENTS, "combine_backward", 0, 0},
    [HR_ROWWISE_GATE_BACKWARD] = {ELEMENTS, "gate_backward", 0, 0},
    [HR_ROWWISE_CROSS_ENTROPY] = {LOSS, "cross_entropy_rows", 0, 0},
    [HR_ROWWISE_CROSS_ENTROPY_BACKWARD] = {LOSS, "cross_entropy_rows", 0, 0},
};

const char *hr_rowwise_backward_source(hr_rowwise_operation operation)
{
  return forms[operation].source;
}

/* Launches in this order: of `before` and `after` some operations have none. */
typedef struct backward_plan {
  const hr_cuda *cuda;
  hr_cuda_kernel before, main, after;
} backward_plan;

static bool is_loss(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_CROSS_ENTROPY || operation == HR_ROWWISE_CROSS_ENTROPY_BACKWARD;
}

static int64_t pack_elements(hr_dtype dtype)
{
  return HR_ROWWISE_PACK_BYTES / (int64_t)hr_dtype_bytes(dtype);
}

static hr_dtype dtype_of(const hr_rowwise *r)
{
  return r->dtype == HR_TF32 ? HR_FP32 : r->dtype; /* a dtype of GEMMs only */
}

/* ---- rows ---- */

hr_rowwise_backward_tiling hr_rowwise_backward_tiling_choose(const hr_rowwise *rows)
{
  const int64_t packs = hr_ceil_div(rows->columns, pack_elements(rows->dtype));
  const int64_t wanted = rows->operation == HR_ROWWISE_LAYER_NORM_BACKWARD ? NORM_PACKS : ROW_PACKS;
  hr_rowwise_backward_tiling t = {.threads = WARP, .packs = 1};
  while (t.threads < ROW_THREADS && t.threads * wanted < packs)
    t.threads *= 2;
  while (t.packs < ROW_PACKS && t.threads * t.packs < packs)
    t.packs *= 2;
  t.groups = ROW_THREADS / t.threads;
  return t;
}

void hr_rowwise_backward_defines(const hr_rowwise *rows, const hr_rowwise_backward_tiling *tiling,
                                 char text[HR_DEFINES_SIZE])
{
  snprintf(text, HR_DEFINES_SIZE, "HR_OPERATION=%d HR_THREADS=%" PRId64 " HR_GROUPS=%" PRId64 " HR_PACKS=%" PRId64,
           forms[rows->operation].of_rows, tiling->threads, tiling->groups, tiling->packs);
}

static hr_status prepare_rows(backward_plan *p, const hr_rowwise *r, size_t *workspace_bytes, hr_error *error)
{
  const hr_rowwise_backward_tiling t = hr_rowwise_backward_tiling_choose(r);
  const int vectors = forms[r->operation].vectors;
  char defines[HR_DEFINES_SIZE];
  int64_t multiprocessors = 0, groups = hr_ceil_div(r->rows, t.groups);
  HR_TRY(hr_cuda_attribute(p->cuda, CU_MULTIPROCESSORS, &multiprocessors, error));
  hr_rowwise_backward_defines(r, &t, defines);
  p->main = (hr_cuda_kernel){.blocks = hr_min64(groups, vectors > 0 ? multiprocessors : groups),
                             .threads = (unsigned)t.threads,
                             .threads_y = (unsigned)t.groups};
  HR_TRY(hr_cuda_function(p->cuda, ROWS, dtype_of(r), defines, "backward_rows", &p->main.function, error));
  if (vectors == 0)
    return HR_OK;
  p->after = (hr_cuda_kernel){.blocks = vectors * hr_ceil_div(r->columns, HR_SUMMED_COLUMNS),
                              .threads = HR_SUMMED_COLUMNS,
                              .threads_y = HR_SUMMED_SHARES};
  *workspace_bytes = (size_t)(p->main.blocks * vectors * r->columns) * sizeof(float);
  return hr_cuda_function(p->cuda, ROWS, dtype_of(r), defines, "add_blocks", &p->after.function, error);
}

/* ---- elements ---- */

static void shape_rotary(const hr_rowwise *r, hr_cuda_kernel *k)
{
  const int64_t half = r->columns / 2, bytes = (int64_t)hr_dtype_bytes(r->dtype);
  const int64_t width = half * bytes % HR_ROWWISE_PACK_BYTES == 0 ? HR_ROWWISE_PACK_BYTES / bytes
                        : half * bytes % 4 == 0                   ? 4 / bytes
                                                                  : 1;
  k->threads = 1;
  while (k->threads < HR_ELEMENT_THREADS && (int64_t)k->threads * width < half)
    k->threads *= 2;
  k->threads_y = HR_ELEMENT_THREADS / k->threads;
  k->blocks = hr_ceil_div(r->rows, k->threads_y);
}

static hr_status prepare_clip(backward_plan *p, const hr_rowwise *r, size_t *workspace_bytes, hr_error *error)
{
  int64_t multiprocessors = 0, packs = r->rows * r->columns / pack_elements(r->dtype);
  HR_TRY(hr_cuda_attribute(p->cuda, CU_MULTIPROCESSORS, &multiprocessors, error));
  p->before = (hr_cuda_kernel){
      .blocks = hr_min64(hr_min64(packs / HR_ELEMENT_THREADS + 1, HR_CLIP_BLOCKS), CLIP_BLOCKS * multiprocessors),
      .threads = HR_ELEMENT_THREADS};
  *workspace_bytes = (size_t)p->before.blocks * sizeof(float);
  return hr_cuda_function(p->cuda, ELEMENTS, dtype_of(r), NULL, "gradient_squares", &p->before.function, error);
}

/* The kernel that links rows also begins the table. */
static hr_status prepare_links(backward_plan *p, const hr_rowwise *r, size_t *workspace_bytes, hr_error *error)
{
  p->main.blocks = r->rows;
  p->before = p->main;
  p->before.blocks =
      hr_min64(hr_ceil_div(hr_max64(r->rows * WARP, r->period * r->columns), HR_ELEMENT_THREADS), INT32_MAX);
  *workspace_bytes = 2 * (size_t)r->rows * sizeof(int32_t);
  return hr_cuda_function(p->cuda, ELEMENTS, dtype_of(r), NULL, "gather_links", &p->before.function, error);
}

static bool has_blocks_of_rows(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_GATHER_SUM || operation == HR_ROWWISE_COMBINE_BACKWARD ||
         operation == HR_ROWWISE_GATE_BACKWARD;
}

static hr_status prepare_elements(backward_plan *p, const hr_rowwise *r, size_t *workspace_bytes, hr_error *error)
{
  int64_t multiprocessors = 0, packs = r->rows * r->columns / pack_elements(r->dtype);
  HR_TRY(hr_cuda_attribute(p->cuda, CU_MULTIPROCESSORS, &multiprocessors, error));
  p->main = (hr_cuda_kernel){.blocks = hr_min64(packs / HR_ELEMENT_THREADS + 1, ELEMENT_BLOCKS * multiprocessors),
                             .threads = HR_ELEMENT_THREADS};
  if (r->operation == HR_ROWWISE_ROTARY_BACKWARD)
    shape_rotary(r, &p->main);
  if (has_blocks_of_rows(r->operation))
    p->main.blocks = r->rows;
  if (r->operation == HR_ROWWISE_ADAMW && r->max_norm > 0)
    HR_TRY(prepare_clip(p, r, workspace_bytes, error));
  if (r->operation == HR_ROWWISE_GATHER_BACKWARD)
    HR_TRY(prepare_links(p, r, workspace_bytes, error));
  return hr_cuda_function(p->cuda, ELEMENTS, dtype_of(r), NULL, forms[r->operation].entry, &p->main.function, error);
}

/* ---- the loss ---- */

/* Rows are those of a softmax. */
hr_rowwise hr_rowwise_loss_rows(const hr_rowwise *rows)
{
  hr_rowwise softmax = *rows;
  softmax.operation = HR_ROWWISE_SOFTMAX;
  softmax.period = 0;
  return softmax;
}

void hr_rowwise_loss_defines(const hr_rowwise *rows, const hr_rowwise_tiling *tiling, char text[HR_DEFINES_SIZE])
{
  const hr_rowwise softmax = hr_rowwise_loss_rows(rows);
  hr_rowwise_tiling_defines(&softmax, tiling, text);
  const size_t length = strlen(text);
  snprintf(text + length, HR_DEFINES_SIZE - length, " HR_GRADIENT=%d",
           rows->operation == HR_ROWWISE_CROSS_ENTROPY_BACKWARD);
}

static hr_status prepare_loss(backward_plan *p, const hr_rowwise *r, hr_error *error)
{
  const bool aligned = hr_alignment(r->alignment) % HR_ROWWISE_PACK_BYTES == 0;
  const hr_rowwise softmax = hr_rowwise_loss_rows(r);
  const hr_rowwise_tiling t =
      hr_rowwise_tiling_choose(&softmax, aligned, p->cuda->capability, hr_rowwise_shared_max(p->cuda));
  char defines[HR_DEFINES_SIZE];
  hr_rowwise_loss_defines(r, &t, defines);
  p->main = (hr_cuda_kernel){.blocks = hr_rowwise_blocks(&softmax, &t),
                             .threads = (unsigned)t.threads,
                             .threads_y = (unsigned)t.groups,
                             .shared_bytes = t.shared_bytes};
  return hr_cuda_function_shared(p->cuda, LOSS, dtype_of(r), defines, "cross_entropy_rows", t.shared_bytes,
                                 &p->main.function, error);
}

/* ---- plans ---- */

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_rowwise *r = &problem->rows;
  if (!forms[r->operation].source) {
    snprintf(why, why_size, "computes gradients, losses and optimizer steps");
    return false;
  }
  if (r->rows <= INT32_MAX && r->columns <= INT32_MAX)
    return true;
  snprintf(why, why_size, "takes fewer than 2^31 rows and columns");
  return false;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  const hr_rowwise *r = &problem->rows;
  backward_plan *p = state;
  p->cuda = device->state;
  if (is_loss(r->operation))
    return prepare_loss(p, r, error);
  return strcmp(forms[r->operation].source, ROWS) == 0 ? prepare_rows(p, r, workspace_bytes, error)
                                                       : prepare_elements(p, r, workspace_bytes, error);
}

static void set_addresses(const hr_rowwise *r, const hr_run *run, hr_backward_rows_call *call)
{
  const hr_rowwise_arguments *x = run->arguments;
  const hr_rowwise_operands of = hr_rowwise_operands_of(r);
  const void *inputs[] = {x->inputs[0], x->inputs[1], x->inputs[2], x->more_inputs[0]};
  void *outputs[] = {x->output, x->more_outputs[0], x->more_outputs[1], x->more_outputs[2]};
  for (int i = 0; i < of.inputs; i++)
    call->inputs[i] = hr_cuda_address(inputs[i]);
  for (int i = 0; i < of.outputs; i++)
    call->outputs[i] = hr_cuda_address(outputs[i]);
  call->sums = run->workspace ? hr_cuda_address(run->workspace) : 0;
}

static double epsilon_of(const hr_rowwise *r)
{
  return r->operation == HR_ROWWISE_ADAMW ? hr_adamw_of(r, 0).epsilon : hr_rowwise_epsilon(r);
}

static double factor_of(const hr_rowwise *r)
{
  return r->operation == HR_ROWWISE_GATHER_BACKWARD ? r->factor : hr_rowwise_cap(r);
}

/* The norm that clips is that of more than the tensor. */
static bool takes_squares(const hr_rowwise *r, const hr_rowwise_arguments *x)
{
  return r->operation == HR_ROWWISE_ADAMW && r->max_norm > 0 && x->squares;
}

static hr_backward_rows_call call_of(const backward_plan *p, const hr_rowwise *r, const hr_run *run)
{
  const hr_adamw a = hr_adamw_of(r, ((const hr_rowwise_arguments *)run->arguments)->step);
  hr_backward_rows_call call = {.rows = r->rows,
                                .columns = r->columns,
                                .period = r->period,
                                .group = r->group,
                                .blocks = p->before.function ? p->before.blocks : p->main.blocks,
                                .decay = (float)a.decay,
                                .beta1 = (float)a.beta1,
                                .beta2 = (float)a.beta2,
                                .rest1 = (float)(1 - a.beta1),
                                .rest2 = (float)(1 - a.beta2),
                                .rate = (float)a.rate,
                                .root = (float)a.root,
                                .epsilon = (float)epsilon_of(r),
                                .max_norm = (float)a.max_norm,
                                .factor = (float)factor_of(r)};
  set_addresses(r, run, &call);
  if (takes_squares(r, run->arguments)) {
    const hr_rowwise_arguments *x = run->arguments;
    call.sums = hr_cuda_address(x->squares);
    call.blocks = x->squares_count;
  }
  return call;
}

/* In the device's context. A loss alone has no result of the logits' size: the tiles are those of the logits. */
static hr_status launch_loss(const backward_plan *p, const hr_rowwise *r, const hr_run *run, hr_error *error)
{
  const hr_cuda_queue queue = {p->cuda, run->stream};
  const bool gradient = r->operation == HR_ROWWISE_CROSS_ENTROPY_BACKWARD;
  hr_backward_rows_call call = {.rows = 0};
  set_addresses(r, run, &call);
  uint64_t logits = call.inputs[0], targets = call.inputs[1], losses = call.outputs[gradient ? 1 : 0];
  uint64_t out = gradient ? call.outputs[0] : logits;
  hr_rowwise_call sizes = {
      .rows = r->rows, .columns = r->columns, .group = 1, .number = r->scale == 0 ? 1 : (float)r->scale};
  void *arguments[] = {&logits, &targets, &losses, &out, &sizes};
  return hr_cuda_launch(&queue, &p->main, arguments, error);
}

/* In the device's context. */
static hr_status launch(const backward_plan *p, const hr_rowwise *r, const hr_run *run, hr_error *error)
{
  const hr_cuda_queue queue = {p->cuda, run->stream};
  hr_backward_rows_call call = call_of(p, r, run);
  void *arguments[] = {&call};
  if (p->before.function && !takes_squares(r, run->arguments))
    HR_TRY(hr_cuda_launch(&queue, &p->before, arguments, error));
  HR_TRY(hr_cuda_launch(&queue, &p->main, arguments, error));
  return p->after.function ? hr_cuda_launch(&queue, &p->after, arguments, error) : HR_OK;
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const backward_plan *p = plan->state;
  const hr_rowwise *r = &plan->problem.rows;
  HR_TRY(hr_cuda_enter(p->cuda, error));
  hr_status status = is_loss(r->operation) ? launch_loss(p, r, run, error) : launch(p, r, run, error);
  hr_cuda_leave(p->cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const hr_cuda_kernel *k = &((const backward_plan *)state)->main;
  snprintf(text, size, "%" PRId64 " blocks of %u × %u threads", k->blocks, k->threads,
           k->threads_y > 0 ? k->threads_y : 1);
}

const hr_kernel_functions hr_kernel_rowwise_backward_cuda = {
    .state_bytes = sizeof(backward_plan), .supports = supports, .prepare = prepare, .run = run, .describe = describe};
