/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the module: the state of one hr_serve_plan(). */
#ifndef HR_ANALYSIS_SERVE_PLAN_H
#define HR_ANALYSIS_SERVE_PLAN_H

#include <headroom/memory.h>
#include <headroom/serve.h>

/** A time with its band. */
typedef struct hr_serve_time {
  double ns, low_ns, high_ns;
  double stage_share; /* of it in which the slowest pipeline stage is busy with the step; 1 with one stage */
} hr_serve_time;

/** What is predicted for. `step` is scratch: an hr_step is too large for a small stack. */
typedef struct hr_serve_state {
  const hr_hardware *hardware;
  const hr_model *model;
  hr_workload workload; /* phase, sizes and parallelism but the stages are set for each call */
  hr_serve_options options;
  int64_t capacity_bytes, cached_tokens;
  hr_serve_layout prefill_layout; /* of devices that prefill alone, by hr_serve_choose_prefill(); devices 0: none */
  hr_serve_time prefill_time;     /* of a prompt on them */
  hr_step *step;
  struct hr_known_operator *known; /* of decode steps, HR_KNOWN_OPERATORS; NULL: nothing is kept */
  struct hr_serve_state *drafter;  /* of a model that drafts tokens on the same devices; NULL: none */
} hr_serve_state;

/* ---- state.c ---- */

/** Checks what is given and fills all but `step`. */
hr_status hr_serve_fill_state(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                              const hr_serve_options *options, hr_serve_state *state, hr_error *error);

/** Whether prompts are prefilled on devices of another type or t. */
bool hr_serve_has_own_prefill(const hr_serve_options *options);

/** The type of the devices that prefill. */
const hr_hardware *hr_serve_prefill_hardware(const hr_serve_state *state);

/** The price of one of them for an hour. */
double hr_serve_prefill_price(const hr_serve_options *options);

/* ---- steps.c ---- */

/** Prompts that are prefilled together in a group of `batch` sequences. */
int64_t hr_serve_prefill_batch(const hr_serve_options *options, int64_t batch);

/** A step of `batch` sequences or prompts in this layout; sequence and context are 1. */
hr_workload hr_serve_workload(const hr_serve_state *state, const hr_serve_layout *layout, hr_phase phase,
                              int64_t batch);

/** Sequences of a batch that are in a pipeline stage at the same time: `batch` with one stage. */
int64_t hr_serve_stage_batch(const hr_serve_state *state, int64_t batch);

/** Tensor-parallel groups of a stage, each with a batch of its own. */
int64_t hr_serve_groups(const hr_serve_layout *layout);

/** Where a model drafts for this layout: on as many devices as share it whole, in one stage. */
hr_serve_layout hr_serve_drafter_layout(const hr_serve_state *drafter, const hr_serve_layout *layout);

/** Memory of a device with `batch` sequences at their end: of a decode step, with the activations of the largest
 *  prefill step if those are larger, what drafts, and the reserve in the total. */
hr_status hr_serve_memory(const hr_serve_state *state, const hr_serve_layout *layout, int64_t batch, hr_memory *memory,
                          hr_error *error);

/** Its total. An overflow is INT64_MAX. */
int64_t hr_serve_memory_bytes(const hr_serve_state *state, const hr_serve_layout *layout, int64_t batch);

/* ---- engine.c ---- */

/** The part of a device's memory that the server may use. */
int64_t hr_serve_capacity(const hr_serve_state *state);

/** What K, V and states may take of it beside the rest of `memory`, which has the largest step; may be negative. */
int64_t hr_serve_room(const hr_serve_state *state, const hr_memory *memory);

/** Whether prefill leaves the last token of a prompt to a decode step, which gives the first token of the output. */
bool hr_serve_decodes_first(hr_serve_engine engine);

/** A step with the band of the engine's times per output token, where servers were measured: the kernels' bands add up
 *  as if all were wrong at once, and to the same side. */
hr_serve_time hr_serve_with_band(const hr_serve_state *state, const hr_serve_time *time);

/** The options of an engine on the devices that prefill: what `options` leave at the engine's defaults for `hardware`
 *  is at those for theirs. */
hr_serve_options hr_serve_prefill_options(const hr_serve_options *options, const hr_hardware *hardware);

/** Whether the engine has pipeline parallelism. */
bool hr_serve_has_stages(hr_serve_engine engine);

/* ---- layouts.c ---- */

/** Most layouts of a plan: powers of two up to HR_SERVE_DEVICES_MAX for t, and e of 1 or such a power. */
#define HR_SERVE_LAYOUTS_MAX 128

/** Fills the layouts to try, ascending, with their memory. */
hr_status hr_serve_list_layouts(hr_serve_state *state, hr_serve_layout layouts[HR_SERVE_LAYOUTS_MAX], size_t *count,
                                hr_error *error);

/** What fits where no layout does: result->devices_needed and weights_needed. */
void hr_serve_find_fit(const hr_serve_state *state, hr_serve_result *result);

/* ---- point.c ---- */

/** A step of `batch` sequences: prompts of `tokens` on their way through all stages, or decoding with `tokens` in the
 *  cache of each: the time until all have their next token. */
hr_status hr_serve_predict(hr_serve_state *state, const hr_serve_layout *layout, hr_phase phase, int64_t batch,
                           int64_t tokens, hr_serve_time *time, hr_error *error);

/** Mean time of a decode step over the contexts of a request's output; 0 if it has but one token. */
hr_status hr_serve_mean_decode(hr_serve_state *state, const hr_serve_layout *layout, int64_t batch, hr_serve_time *mean,
                               hr_error *error);

/** Predicts a point, without `pareto`. */
hr_status hr_serve_predict_point(hr_serve_state *state, const hr_serve_layout *layout, int64_t batch,
                                 hr_serve_point *point, hr_error *error);

/* ---- prefill.c ---- */

/** The state of a plan in which these only prefill, and in `drafter`, if `state` has one, that of what drafts: its K
 *  and V of the prompt are computed beside those of the model and travel with them. Their `step` is that of `state`. */
hr_status hr_serve_fill_prefill_state(const hr_serve_state *state, hr_serve_state *prefill, hr_serve_state *drafter,
                                      hr_error *error);

/** Sets state->prefill_layout and prefill_time. */
hr_status hr_serve_choose_prefill(hr_serve_state *state, hr_error *error);

/** Says that no layout of such devices fits. */
hr_status hr_serve_no_prefill(const hr_serve_state *state, hr_error *error);

/* ---- fleets.c ---- */

/** Sets result->fleets for options.recommend. */
hr_status hr_serve_recommend(hr_serve_result *result, hr_error *error);

/* ---- choice.c ---- */

/** Marks the Pareto front of result->points and sets latency, throughput, cheapest and nearest. */
void hr_serve_choose(hr_serve_result *result);

#endif
