/* SPDX-License-Identifier: Apache-2.0 */
/* A step of one shape, ready to run: a launch for each kernel of each operator, in order, whose operands have places in
 * an arena. */
#ifndef HR_RUN_PROGRAM_H
#define HR_RUN_PROGRAM_H

#include "run/executor.h"
#include "runtime/device/experts.h"
#include "runtime/device/fp8.h"
#include "runtime/device/kv_cache.h"
#include "runtime/device/linear.h"
#include "runtime/device/q8.h"
#include "runtime/device/squares.h"
#include "runtime/operation/operation.h"
#include "schedule/arena.h"
#include "schedule/pieces.h"

/** What a step computes: `tokens` new tokens of each of `batch` sequences. */
typedef struct hr_run_shape {
  hr_phase phase;
  int64_t batch, tokens;
  int64_t microbatches; /* of training: of which this is one */
  bool adds;            /* the same: its gradients are added to those of the microbatches before */
  bool reduces;         /* the same: they are complete behind it, and replicas add them up */
  int64_t parts;        /* microbatches that are all in it, of stages; else 1 */
} hr_run_shape;

/** Tokens of a microbatch. */
static inline int64_t hr_run_tokens(const hr_run_shape *shape)
{
  return shape->batch * shape->tokens;
}

/** Whether K and V of its tokens go to the KV cache. */
static inline bool hr_phase_keeps_tokens(hr_phase phase)
{
  return phase == HR_PHASE_PREFILL || phase == HR_PHASE_DECODE;
}

/** Numbers of 32 bits that a step gets of each token, [part, number, token]. Training has the first three, other steps
 *  have the first two or all: hr_run_number_count(). */
typedef enum hr_run_number {
  HR_NUMBER_ID,
  HR_NUMBER_POSITION,
  HR_NUMBER_TARGET, /* the id behind it, −1 behind the last of a sequence */
  HR_NUMBER_ROW,    /* 0 to the number of tokens − 1 */
  HR_NUMBER_GROWTH, /* fp32, of its query: hr_numerics.query_growth */
  HR_NUMBER_FIRST,  /* of a sequence of its own: the first key of its chunk */
  HR_NUMBER_LENGTH, /* keys of its chunk that it sees */
  HR_NUMBER_PAGE,   /* where the chunk begins, in the page tables of the step's slots */
  HR_NUMBER_HERE,   /* fp32, 1 where the rank has the id's row of the token embedding, 0 where another has it */
  HR_NUMBER_COUNT
} hr_run_number;

int hr_run_number_count(const hr_executor *x);

/** Rows of logits of a part, of all parts, and their bytes up to the indices and the values of the largest. */
static inline int64_t hr_run_logit_rows_of_part(const hr_run_shape *shape)
{
  return shape->batch * (shape->phase == HR_PHASE_PREFILL ? 1 : shape->tokens);
}
static inline int64_t hr_run_logit_rows(const hr_run_shape *shape)
{
  return shape->parts * hr_run_logit_rows_of_part(shape);
}
static inline size_t hr_run_logit_bytes(const hr_executor *x, int64_t rows)
{
  return ((size_t)(rows * x->model.vocabulary) * hr_dtype_bytes(x->options.dtype) + 3) / 4 * 4;
}

#define HR_RUN_OPERANDS 12
#define HR_LAUNCH_OPS 5

/** An operand that gets its address when the arena has been planned. */
typedef struct hr_run_operand {
  size_t member; /* where its address is in the launch's arguments, offsetof() */
  int value;
  size_t offset; /* bytes from the value's beginning */
} hr_run_operand;

/** What a launch needs beside its plan and arguments. */
typedef struct hr_launch_place {
  hr_device *device;
  hr_communicator *communicator, *replicas, *stages;
  void *workspace, *stream;
} hr_launch_place;

/** Runs a plan with arguments of its operation. */
typedef hr_status hr_launch_function(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at,
                                     hr_error *error);
typedef hr_launch_function *hr_launch_fn;

/** One kernel, or the writing of new tokens to a layer's KV cache. */
typedef struct hr_launch {
  size_t ops[HR_LAUNCH_OPS]; /* of the program's list, that it computes */
  int op_count;
  hr_plan *plan;
  hr_launch_fn run;
  hr_kv_cache *cache; /* NULL: a plan */
  int64_t part;       /* of the tokens that go to the cache: hr_run_shape.parts */
  int beside;         /* 1 + a mark of hr_backend.mark: it goes on the second queue; 0: on the device's stream, */
  unsigned awaits;    /* where it waits for these marks: bits */
  union {
    hr_arguments arguments;
    struct {
      hr_kv_append append;
      hr_kv_heads heads; /* q NULL: none */
    };
    hr_route_arguments route;
    hr_router_arguments router;
    hr_grouped_arguments grouped;
    hr_route_backward_arguments route_back;
    hr_grouped_gradient_arguments grouped_gradient;
    hr_linear_arguments linear;
    hr_q8_arguments q8;
    hr_fp8_arguments fp8;
    hr_collective_call collective;
    hr_squares_arguments squares;
  };
  hr_run_operand operands[HR_RUN_OPERANDS];
  int operand_count;
} hr_launch;

/** Launches from `first` to `end` that one kernel runs. */
typedef struct hr_persistent_range {
  int first, end;
  void *kernel; /* of hr_backend.persist */
} hr_persistent_range;

/** A plan of hr_backend.plan_fp8 that launches share; NULL: there is none of such sizes. */
typedef struct hr_run_fp8_plan {
  hr_fp8_gemm gemm;
  void *plan;
} hr_run_fp8_plan;

struct hr_run_program {
  hr_run_shape shape;
  hr_operators operators;
  hr_launch *launches;
  int launch_count, launch_room;
  hr_arena_value *values;
  int value_count, value_room;
  hr_run_fp8_plan *fp8_plans;
  int fp8_plan_count, fp8_plan_room;
  hr_buffer *numbers; /* hr_run_number */
  hr_buffer *logits;  /* of training the losses, fp32 */
  int optimizer;      /* its launches begin here; launch_count: none */
  size_t arena_bytes, workspace_bytes;
  int64_t runs;                    /* since the arena moved */
  void *recording;                 /* of all launches, of hr_backend.record; NULL: none */
  hr_persistent_range *persistent; /* while addresses stay */
  int persistent_count;
};

/* The functions of the operations that a step has. Without a plan the device multiplies all experts' copies at once. */
hr_launch_function hr_launch_gemm, hr_launch_attention, hr_launch_rowwise, hr_launch_decode,
    hr_launch_attention_backward, hr_launch_route, hr_launch_router, hr_launch_linear, hr_launch_grouped, hr_launch_q8,
    hr_launch_q8_widening, hr_launch_fp8_widening, hr_launch_fp8_narrowing, hr_launch_fp8, hr_launch_collective,
    hr_launch_between_replicas, hr_launch_between_stages, hr_launch_squares;

/** hr_communicator_sends_beside() of that many elements. */
bool hr_sends_beside(const hr_communicator *communicator, hr_dtype dtype, int64_t count);

/** The workload of a shape: in decode a sequence's new tokens are rows as sequences are. */
hr_workload hr_run_workload(const hr_executor *x, const hr_run_shape *shape);

/** The operators of a shape, as `describe` lists them. Errors of hr_operators_list(). */
hr_status hr_run_list(const hr_executor *x, const hr_run_shape *shape, hr_operators *operators, hr_error *error);

/** Makes the program of a shape. HR_ERROR_UNSUPPORTED if an operator has no kernel; HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_program_make(hr_executor *x, const hr_run_shape *shape, hr_run_program **program, hr_error *error);

/** Frees it; NULL is allowed. */
void hr_program_free(const hr_executor *x, hr_run_program *program);

/** Runs all launches, and with `optimizes` the optimizer if there is one. The numbers are there, the caches have grown.
 *  From the second run on a device that records replays them. */
hr_status hr_program_run(const hr_executor *x, hr_run_program *program, bool optimizes, hr_error *error);

/** Runs them once more and adds the time of each operator to times_ns. That of several in one launch is divided by
 *  what they move. Training takes one more step. */
hr_status hr_program_time(const hr_executor *x, hr_run_program *program, double *times_ns, hr_error *error);

/** Forgets what was recorded: addresses have changed. */
void hr_program_forget(const hr_executor *x, hr_run_program *program);

/** Whether one kernel runs most launches of a decode step of that shape. */
bool hr_run_persists(const hr_executor *x, const hr_run_shape *shape);

/** Makes such kernels of the launches, whose addresses are known; forgets them; the one that begins with a launch,
 *  NULL: none. */
hr_status hr_program_persist(const hr_executor *x, hr_run_program *program, hr_error *error);
void hr_program_forget_persistent(const hr_executor *x, hr_run_program *program);
const hr_persistent_range *hr_persistent_at(const hr_run_program *program, int launch);

/** Appends the launches of all operators of program->operators. */
hr_status hr_lower(hr_executor *x, hr_run_program *program, hr_error *error);

#endif
