/* SPDX-License-Identifier: Apache-2.0 */
/* Whole models that run: the operators that `describe` lists, with a checkpoint's weights or random ones.
 *
 * Thread safety: one thread at a time may use an executor. */
#ifndef HEADROOM_EXPERIMENTAL_RUN_H
#define HEADROOM_EXPERIMENTAL_RUN_H

#include <headroom/device.h>
#include <headroom/operators.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_executor hr_executor;

typedef struct hr_executor_options {
  size_t struct_size; /* sizeof(hr_executor_options), set by hr_executor_options_default() */
  hr_dtype dtype;     /* of weights, activations and the KV cache */
  int64_t slots;      /* sequences that the KV cache has room for */
  int64_t tokens;     /* most tokens of a sequence; 0: the smaller of 4096 and max_positions */
  bool no_graph;      /* launch each kernel of every step, instead of recording a step as one graph; with
                         no_persistent */
  bool trains;        /* a gradient of each weight and AdamW's states in the place of KV caches: forward and training
                         steps run. Not in fp16 */
  hr_recompute recompute; /* of training: none, or full: the backward pass computes each layer once more, of which only
                             the input is kept */
  double learning_rate, beta1, beta2, weight_decay, max_norm; /* as those of hr_rowwise; of all weights alike */
  struct hr_communicator *communicator; /* of the device (<headroom/experimental/communicator.h>): its ranks share each
                             layer, as hr_workload.tensor_parallel says. Each opens, loads and steps an executor of its
                             own with the same arguments. Models train so, too; on GPUs this needs NCCL. NULL:
                             one device */
  int64_t pieces; /* of several ranks: the tokens of a step that does not train are computed in up to so many pieces of
                     at least 128, 1 to 4, and what ranks add up of one piece travels while the next is computed, on
                     devices with a queue for it. Logits stay the same up to the choice of GEMMs' kernels. 1: none; 0,
                     the default: where 2 to 4 GPUs see each other's memory and add up 24 to 64 MiB at a time, messages
                     of up to 16 MiB */
  struct hr_communicator *replicas; /* of the device, of an executor that trains: its ranks each have the whole model
                             and batches of their own, of the same shape, and every step is one on the mean loss of all.
                             Each opens, loads and steps an executor of its own with the same options. NULL: one */
  int64_t zero_stage;   /* 1: a replica has the optimizer's state of its share of the weights alone (Rajbhandari et al.
                             2020, arXiv 1910.02054); on GPUs this needs NCCL. 0, the default: of all */
  int64_t bucket_bytes; /* gradients of the last layers are added up over the replicas as soon as so many bytes of them
                             are complete, beside the rest of the backward pass; without ZeRO on 2 to 4 GPUs that see
                             each other's memory in messages of up to 16 MiB. 0, the default: 25 MiB */
  int64_t expert_parallel; /* as hr_workload.expert_parallel: the number of the communicator's ranks, each of which has
                             as many whole experts, or 1, the default, and 0: every rank has columns of each expert */
  bool sequence_parallel;  /* as hr_workload.sequence_parallel: between blocks a rank has its own rows alone, of steps
                             whose tokens the ranks divide; on GPUs this needs NCCL. Not with whole experts, nor with
                             several norms before a parallel block */
  /* Each of the device's ranks has the layers of one pipeline stage, the first of them one more where they do not
   * divide; rank 0 has the embedding, too, and the last the logits, with a copy of tied embeddings. Each opens, loads
   * and steps an executor of its own with the same arguments; on GPUs this needs NCCL. The patience becomes ten minutes
   * at least, as a stage waits while others compute. Not beside `communicator` and `replicas`. NULL: one */
  struct hr_communicator *stages;
  /* Launch the kernels of a decode step apart. Otherwise a GPU of compute capability 9.0 to 11.x runs them as one
   * kernel where a step has one new token of each of up to 4 sequences, elements have 16 bits, all layers are dense
   * with heads of one kind, all slots have room for at most 65536 tokens, and the longest input rows of a linear layer
   * take at most 112 KiB. Its blocks wait for each other: nothing else may hold multiprocessors for good. Logits are
   * the same up to rounding. */
  bool no_persistent;
} hr_executor_options;

/** fp32, one sequence; 0.001, 0.9, 0.999, no decay, no clipping. */
HR_API void hr_executor_options_init(hr_executor_options *options, size_t size);
HR_DEFAULT(hr_executor_options)

/** Allocates weights of a model on a device, with KV caches or, of a model that trains, gradients and the optimizer's
 *  states. The weights are random until hr_executor_load() fills them. The caller owns *executor and closes it before
 *  the device. HR_ERROR_UNSUPPORTED, saying what it is, for a model that cannot be run yet; HR_ERROR_INVALID names an
 *  option that is wrong, or that replicas have different; HR_ERROR_OUT_OF_MEMORY before anything is allocated, with
 *  what is needed and what there is; errors of hr_model_check(). `options` NULL: the default. */
HR_API hr_status hr_executor_open(hr_device *device, const hr_model *model, const hr_executor_options *options,
                                  hr_executor **executor, hr_error *error);

/** Fills the weights: from the checkpoint of hr_weights_open() for `what`, or with `what` NULL with random numbers from
 *  `seed`, as large as those of an initialisation. A checkpoint has every weight, in the shape that the model says, and
 *  no other: HR_ERROR_NOT_FOUND, HR_ERROR_INVALID with name, expected and found; errors of hr_weights_open(). After
 *  an error they are random again. `progress` may be NULL; HR_ERROR_INTERRUPTED once it asks to stop. */
HR_API hr_status hr_executor_load(hr_executor *executor, const char *what, uint64_t seed, hr_progress_fn progress,
                                  void *context, hr_error *error);

/** The new tokens of a step. */
typedef struct hr_executor_input {
  size_t struct_size; /* sizeof(hr_executor_input), set by hr_executor_input_default() */
  hr_phase phase;     /* forward: sequences of their own, of which nothing is kept. prefill: the first tokens of slots,
                           whose former tokens are dropped. decode: further tokens of slots. train: each sequence's ids
                           are predicted from those before, two or more */
  int64_t batch;      /* sequences */
  int64_t tokens;     /* new ones of each sequence; decode: at most HR_DECODE_Q_LEN_MAX */
  const int64_t *slots; /* [batch], each at most once; NULL: 0 to batch − 1 */
  const int32_t *ids;   /* [batch, tokens]: rows of the token embedding */
  int64_t microbatches; /* of training and of stages: so many batches, one after another, whose ids, slots and results
                           have this as a dimension more, the first; gradients are added up before the optimizer. A
                           stage computes one while the others compute those before and behind. 0: one */
} hr_executor_input;

/** A prefill of one sequence without tokens. */
HR_API void hr_executor_input_init(hr_executor_input *input, size_t size);
HR_DEFAULT(hr_executor_input)

/** Runs a step, which is over when the call returns. `logits` gets those of the last token of each sequence in
 *  prefill, [batch, outputs], and of all tokens otherwise, [batch, tokens, outputs], in fp32; NULL: they stay on the
 *  device. Training is a forward pass, a backward pass and a step of AdamW on the mean loss (its fp32 copy of 16-bit
 *  weights begins as they are); `logits` gets the loss of each token before that step, [batch, tokens], 0 behind the
 *  last of a sequence. Of several ranks or stages each gets all results, of replicas the losses of its own batch.
 *  The first of a shape makes its plans; later ones allocate nothing on one device. HR_ERROR_INVALID
 *  for an id or slot out of range, a slot that the step would make longer than `tokens`, decode of a slot without
 *  tokens, a training step of another shape than another replica's; HR_ERROR_UNSUPPORTED where no kernel runs an
 *  operator, and for a phase that the executor was not opened for; HR_ERROR_UNAVAILABLE names another rank that has
 *  not come or has failed: a rank that has an error of its own calls hr_communicator_give_up(), so that the others
 *  do not wait for it. */
HR_API hr_status hr_executor_step(hr_executor *executor, const hr_executor_input *input, float *logits,
                                  hr_error *error);

/** The index of the largest logit of each row that the last step had, [batch] or [batch, tokens] as its logits, the
 *  first of equal ones: found on the device, so that logits may stay there. NaN is none, but as a row's first logit it
 *  is the result. All of several ranks or stages call it and get the same. HR_ERROR_INVALID before the first step and
 *  after a training step; HR_ERROR_UNAVAILABLE as above. */
HR_API hr_status hr_executor_largest(hr_executor *executor, int32_t *ids, hr_error *error);

/** Keeps the first `length` tokens of a slot. HR_ERROR_INVALID for a slot out of range or with fewer tokens. */
HR_API hr_status hr_executor_truncate(hr_executor *executor, int64_t slot, int64_t length, hr_error *error);

/** Frees all that the executor has. NULL is ignored. */
HR_API void hr_executor_close(hr_executor *executor);

/** Elements of a row of logits. */
HR_API int64_t hr_executor_outputs(const hr_executor *executor);

/** Bytes of weights and KV caches, or of what trains them. */
HR_API int64_t hr_executor_bytes(const hr_executor *executor);

/** Tokens of a slot. 0 for one out of range. */
HR_API int64_t hr_executor_length(const hr_executor *executor, int64_t slot);

/** The operators of the last step, as hr_operators_list() gives them; NULL before the first. Valid until the next. */
HR_API const hr_operators *hr_executor_operators(const hr_executor *executor);

/** Runs the last step's operators once more, on the same tokens, and adds the time of each to times_ns, by its index in
 *  hr_executor_operators(): a training step is one more. On a GPU each stands between two events of a graph, which take
 *  a microsecond or two.
 *  HR_ERROR_UNSUPPORTED on a GPU whose device has the default stream; HR_ERROR_INVALID before the first step. */
HR_API hr_status hr_executor_time_operators(hr_executor *executor, double *times_ns, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
