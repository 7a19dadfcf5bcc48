/* SPDX-License-Identifier: Apache-2.0 */
/* What the lowering of all operators shares: views of values, and launches. A failure is kept in `status`, and nothing
 * is appended from then on. */
#ifndef HR_RUN_LOWER_H
#define HR_RUN_LOWER_H

#include "run/program.h"

/** Rows of a tensor: of a value of their own, or of columns of a wider one. In elements. */
typedef struct hr_run_view {
  int value; /* −1: no tensor */
  int64_t offset, rows, stride, columns;
} hr_run_view;

/** An input: a view, or with `address` something outside of the arena. */
typedef struct hr_input_operand {
  hr_run_view view;
  const void *address;
} hr_input_operand;

/** An output: a view, or with `address` something outside of the arena. */
typedef struct hr_output_operand {
  hr_run_view view;
  void *address;
} hr_output_operand;

/** A sum of two tensors, and the launch that computes it. */
typedef struct hr_run_sum {
  int launch;
  hr_run_view of[2], result;
} hr_run_sum;

/** What a router has chosen, as hr_route_arguments says. */
typedef enum hr_route_part {
  HR_ROUTE_WEIGHTS,
  HR_ROUTE_CHOSEN,
  HR_ROUTE_PLACES,
  HR_ROUTE_COPIED,
  HR_ROUTE_EXPERTS,
  HR_ROUTE_OFFSETS,
  HR_ROUTE_WEIGHTS_OF, /* of a step that trains */
  HR_ROUTE_COUNT
} hr_route_part;

/** A norm that waits for what reads it. */
typedef struct hr_run_norm {
  bool waits;
  hr_rowwise rows;
  hr_input_operand inputs[3];
  size_t op;
} hr_run_norm;

/** A linear layer of few rows that waits for what follows it, with operators of the list: its own first. */
typedef struct hr_run_linear {
  bool waits;
  hr_linear_arguments linear;
  hr_run_view x, residual;
  int beside; /* a tensor that is added; HR_TENSOR_NONE: none */
  size_t ops[HR_LAUNCH_OPS];
  int op_count;
} hr_run_linear;

/** What is done to heads where they are written to the KV cache. */
typedef enum hr_heads_part { HR_HEADS_NORMED = 1, HR_HEADS_ROTATED = 2 } hr_heads_part;

typedef struct hr_tape hr_tape;

typedef struct hr_lowering {
  hr_executor *x;
  hr_run_program *program;
  hr_tape *tape; /* NULL: nothing trains */
  const hr_operator *op;
  size_t op_index;
  int64_t layer;               /* −1: outside of layers */
  const hr_layer_group *group; /* NULL: outside of layers */
  int64_t rows;                /* tokens of the step, of all sequences */
  int64_t part;                /* of the shape's parts */
  bool persists;               /* hr_run_persists() */
  hr_run_view tensors[HR_TENSOR_COUNT];
  hr_run_view angles[2]; /* of each token, once an operator has asked for them; as hr_executor.angles */
  hr_run_view angles_back[2];
  hr_run_norm norms[HR_TENSOR_COUNT]; /* what tensors wait for */
  hr_run_linear linears[HR_TENSOR_COUNT];
  hr_run_sum sum; /* the last one */
  int heads;      /* operators that wait for the KV cache, bits of hr_heads_part */
  size_t heads_ops[2];
  hr_run_view routes[HR_ROUTE_COUNT];
  hr_run_view dispatched; /* whose rows are the experts' copies, where no launch makes them; else value −1 */
  size_t dispatch_op;
  hr_run_view narrowed_from, narrow, narrow_scales; /* rows in fp8, and those of which they are; else value −1 */
  bool narrow_blocks;
  hr_run_view unrotated; /* of latent attention: what all heads of K share */
  hr_run_view cached;    /* the same: what its cache keeps of each token */
  hr_status status;
  hr_error *error;
} hr_lowering;

hr_run_view hr_read_view(hr_lowering *l, int index);                    /* of the tensor that the operator reads */
hr_run_view hr_tensor_view(hr_lowering *l, int tensor);                 /* launches what it waits for */
void hr_write_view(hr_lowering *l, int index, hr_run_view view);        /* it is what the operator writes */
hr_run_view hr_new_view(hr_lowering *l, int64_t rows, int64_t columns); /* packed, of a new value */
hr_run_view hr_new_words(hr_lowering *l, int64_t count);                /* of 32 bits each, whatever the dtype */
hr_run_view hr_packed(hr_lowering *l, hr_run_view view);                /* the same, copied if it is not packed */
const void *hr_own_weight(const hr_lowering *l, int index);             /* of the operator's weight */
size_t hr_element_bytes(const hr_lowering *l);

static inline bool hr_is_packed(hr_run_view view)
{
  return view.stride == view.columns;
}

static inline hr_input_operand hr_of_view(hr_run_view view)
{
  return (hr_input_operand){.view = view};
}

static inline hr_input_operand hr_of_address(const void *address)
{
  return (hr_input_operand){.address = address};
}

/** Some of its columns. */
static inline hr_run_view hr_columns_of(hr_run_view view, int64_t first, int64_t columns)
{
  view.offset += first;
  view.columns = columns;
  return view;
}

/** Strides of heads `dim` apart, of sequences `tokens` rows apart. */
static inline hr_strides hr_strides_of(hr_run_view view, int64_t dim, int64_t tokens)
{
  return (hr_strides){.batch = tokens * view.stride, .row = view.stride, .head = dim};
}

/** Appends a launch with what the caller sets behind it; NULL after a failure. */
hr_launch *hr_add_launch(hr_lowering *l, hr_launch_fn run);

/** The operand whose address is at `member` of the last launch's arguments. */
void hr_bind(hr_lowering *l, size_t member, hr_run_view view);

/** Appends a row-wise operation into a new value, several of whose rows become one of `columns`. */
hr_run_view hr_add_rowwise(hr_lowering *l, hr_rowwise rows, const hr_input_operand *inputs, int64_t columns);

/** Appends one with all its outputs, which nothing differentiates. */
void hr_add_rowwise_into(hr_lowering *l, hr_rowwise rows, const hr_input_operand *inputs,
                         const hr_output_operand *outputs, int output_count);

/** Rows of an operation, packed. */
hr_rowwise hr_rows_of(hr_rowwise_operation operation, int64_t rows, int64_t columns);

/** Whether gradients of weights are added to what is there. */
static inline bool hr_adds_gradients(const hr_lowering *l)
{
  return l->program->shape.adds || l->part > 0;
}

/** The device's address of a number of all tokens. */
const int32_t *hr_numbers_of(const hr_lowering *l, hr_run_number which);

/** Appends a gather of the rows of a table, one for each token. */
hr_run_view hr_add_gather(hr_lowering *l, hr_run_number which, const void *table, int64_t table_rows, int64_t columns);

/** Appends y = x · factor, of which each token has one, in fp32. */
hr_run_view hr_add_weighted_rows(hr_lowering *l, hr_run_view x, hr_input_operand factors);

/** Appends y = x + bias or another operation of two equal tensors. */
hr_run_view hr_add_pair(hr_lowering *l, hr_rowwise_operation operation, hr_run_view a, hr_run_view b);

/** Appends the norm `rows` of x, with the weights and the bias of `inputs` behind x. If the last launch has added x up,
 *  one that does both takes its place. */
hr_run_view hr_add_norm(hr_lowering *l, hr_rowwise rows, const hr_input_operand inputs[3]);

/** Whether it is the norm of a residual and a sum of ranks, which hr_add_norm() makes one call. */
bool hr_ends_sum_of_ranks(const hr_lowering *l, const hr_rowwise *norm, const hr_input_operand inputs[3]);

/** Operands of a GEMM; bias NULL: none. */
typedef struct hr_product_operands {
  hr_run_view a;
  hr_input_operand b;
  hr_output_operand c;
  const void *bias;
} hr_product_operands;

/** Appends a GEMM, whose bias is the operands'. */
void hr_add_product(hr_lowering *l, hr_gemm gemm, const hr_product_operands *operands);

/** Appends the operator's GEMM with its bias (NULL: none), of the last rows of each sequence where it has fewer than
 *  x. */
hr_run_view hr_add_gemm(hr_lowering *l, hr_run_view x, const void *bias);

/** The rows that the operator multiplies: of more rows than it has, the last one of each sequence. */
hr_run_view hr_rows_multiplied(const hr_lowering *l, hr_run_view x);

/** Appends the operator's GEMM with weights in q8_0, as hr_add_gemm(). */
hr_run_view hr_add_q8_gemm(hr_lowering *l, hr_run_view x, const void *bias);

/** Whether the operator's weights stay in fp8, and what of them has a scale. */
static inline bool hr_is_fp8(const hr_lowering *l, hr_fp8_scales *scales)
{
  return hr_multiplies_fp8(&l->x->weights, l->group, l->op, scales);
}

/** Appends the operator's GEMM with weights in fp8, as hr_add_gemm(). */
hr_run_view hr_add_fp8_gemm(hr_lowering *l, hr_run_view x, const void *bias);

/** hr_rows_multiplied(), copied where a program for fp8 cannot read them 16 bytes at a time. */
hr_run_view hr_aligned_rows(hr_lowering *l, hr_run_view x);

/** The same of few rows, in one launch. */
hr_run_view hr_add_fp8_gemv(hr_lowering *l, hr_run_view x, const void *bias);

/** Appends a gather of rows of a token embedding in q8_0. */
hr_run_view hr_add_q8_gather(hr_lowering *l, const void *table, int64_t columns);

/** Appends y = factor · x; x itself for a factor of 0 or 1. */
hr_run_view hr_add_scaled(hr_lowering *l, hr_run_view x, double factor);

/** Appends y = c tanh(x / c); x itself for a c of 0. */
hr_run_view hr_add_softcap(hr_lowering *l, hr_run_view x, double c);

/** The table of angles of the layer, a row for each position. */
const hr_buffer *hr_angle_table(const hr_lowering *l);

/** Cosines and sines of each token's angles in the layer, or of the opposite ones. */
hr_run_view hr_angles_of(hr_lowering *l, bool back);

/** The last launch computes this operator, too. */
void hr_take_part(hr_lowering *l, size_t op);

/** The operator writes this norm, as hr_add_norm(), once it is read. */
void hr_write_norm(hr_lowering *l, const hr_rowwise *rows, const hr_input_operand inputs[3]);

/** The operator's product with its bias (NULL: none) and the norm before it; false where nothing is fused. */
bool hr_begin_linear(hr_lowering *l, const void *bias, hr_run_linear *linear);
hr_run_view hr_add_fused(hr_lowering *l, const hr_run_linear *linear); /* launches it */
void hr_write_linear(hr_lowering *l, const hr_run_linear *linear);     /* the operator writes it once it is read */

/** The same of experts' copies without a bias; false where nothing is fused. */
bool hr_begin_expert_linear(hr_lowering *l, hr_run_linear *linear);

/** Few tokens' copies are made where they are multiplied. */
bool hr_wait_for_experts(hr_lowering *l, hr_run_view x);

/** The operator is an activation of products that wait: it waits with them. */
bool hr_activate_linear(hr_lowering *l, const hr_rowwise *activation);

/** The operator combines experts' results that wait: then their sums wait, with the shared experts' results. */
bool hr_combine_linear(hr_lowering *l);

/** Adds factor · tensor, a product that waits, to the sum; false if it does not. */
bool hr_add_to_residual(hr_lowering *l, int tensor, double factor, hr_run_view *sum);

/** Bytes of which the view's address is a multiple, as hr_gemm.alignment. */
int64_t hr_view_alignment(const hr_lowering *l, hr_run_view view);

/** Makes room for one more element; *items is NULL at first. */
bool hr_lowering_grow(hr_lowering *l, void **items, int count, int *room, size_t size);

/** Keeps the failure; HR_OK is none. */
void hr_lowering_fail(hr_lowering *l, hr_status status);

/** Appends the launches of an operator of the list, and of those of a layer with that pass, in its order. */
void hr_lower_operator(hr_lowering *l, size_t index);
void hr_lower_layer(hr_lowering *l, int64_t layer, hr_pass pass);

/** The lowering of attention, with rotary positions and norms of heads before it. */
void hr_lower_qk_norm(hr_lowering *l);
void hr_lower_rotary(hr_lowering *l);
void hr_lower_attention(hr_lowering *l);

/** The lowering of latent attention but for attention itself. */
void hr_lower_kv_down(hr_lowering *l);
void hr_lower_rank_norm(hr_lowering *l);
void hr_lower_kv_up(hr_lowering *l);
void hr_lower_latent_rotary(hr_lowering *l);
void hr_lower_k_rotary_copy(hr_lowering *l);
void hr_lower_q_absorb(hr_lowering *l);
void hr_lower_o_absorb(hr_lowering *l);

void hr_lower_all_reduce(hr_lowering *l);

/** With sequence parallelism: of a sum the rank's rows, and all rows of what each rank has some of. */
void hr_lower_reduce_scatter(hr_lowering *l);
void hr_lower_all_gather(hr_lowering *l);

/** Appends a message of the ranks from `send` to `receive`, of as many elements as the larger one has. */
void hr_add_exchange(hr_lowering *l, hr_collective_kind kind, hr_run_view send, hr_run_view receive);

/** Pieces of the step's rows: hr_executor_options.pieces. */
int hr_pieces_of(const hr_lowering *l);

/** Divides launches so that sums of ranks travel beside others. The last thing that is done to a program. */
void hr_overlap_sums(hr_lowering *l);

/** Appends a message of so many elements, whose operands the caller sets; NULL after a failure. `between` is
 *  hr_launch_collective, of the ranks that share layers, hr_launch_between_replicas or hr_launch_between_stages. */
hr_launch *hr_add_message(hr_lowering *l, hr_launch_fn between, hr_collective_kind kind, int64_t count);

/** The last launch computes the rows of the rank's own copies alone, where ranks have whole experts. */
void hr_limit_to_own_copies(hr_lowering *l);

/** The lowering of experts. */
void hr_lower_router(hr_lowering *l);
void hr_lower_routes(hr_lowering *l);
void hr_lower_dispatch(hr_lowering *l);
void hr_lower_grouped(hr_lowering *l);
void hr_lower_shared_gate(hr_lowering *l);
void hr_lower_combine(hr_lowering *l);

/** Appends the GEMMs of experts' copies `a` into `c`, with the offsets of their experts. */
void hr_add_grouped(hr_lowering *l, const hr_grouped_arguments *arguments, hr_run_view a, hr_run_view c,
                    hr_run_view offsets);

#endif
