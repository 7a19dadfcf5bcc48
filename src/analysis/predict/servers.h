/* SPDX-License-Identifier: Apache-2.0 */
/* Costs of inference servers' own kernels; where a device's file has none, those that frameworks have in common. */
#ifndef HR_ANALYSIS_PREDICT_SERVERS_H
#define HR_ANALYSIS_PREDICT_SERVERS_H

#include "hardware/hardware.h"
#include "model/layers/frameworks.h"

#include <headroom/predict.h>

/** The costs of a server; NULL for another framework. */
static inline const hr_server_cost *hr_server_cost_of(const hr_hardware *hardware, hr_framework framework)
{
  switch (framework) {
  case HR_FRAMEWORK_TRTLLM: return &hardware->trtllm;
  case HR_FRAMEWORK_VLLM: return &hardware->vllm;
  case HR_FRAMEWORK_SGLANG: return &hardware->sglang;
  default: return NULL;
  }
}

/** Replaces the costs of a server; no other framework has any. */
static inline void hr_set_server_cost(hr_hardware *hardware, hr_framework framework, const hr_server_cost *cost)
{
  switch (framework) {
  case HR_FRAMEWORK_TRTLLM: hardware->trtllm = *cost; break;
  case HR_FRAMEWORK_VLLM: hardware->vllm = *cost; break;
  case HR_FRAMEWORK_SGLANG: hardware->sglang = *cost; break;
  default: break;
  }
}

static inline const hr_rounding_cost *hr_predict_rounding_cost(const hr_hardware *hardware, hr_framework framework)
{
  const hr_server_cost *own = hr_server_cost_of(hardware, framework);
  return own && own->rounding.launch_ns > 0 ? &own->rounding : &hardware->rounding;
}

/* An operator around the experts has the activations of their GEMMs. */
static inline const hr_expert_cost *hr_predict_expert_cost(const hr_hardware *hardware, const hr_operator *op)
{
  const hr_server_cost *own = hr_server_cost_of(hardware, op->framework);
  if (own && op->activations != HR_ACTIVATIONS_UNQUANTIZED && own->experts_8bit.routing_ns > 0)
    return &own->experts_8bit;
  return own && own->experts.routing_ns > 0 ? &own->experts : &hardware->experts;
}

/* Whether an operator of routed experts runs in kernels whose cost the device's file has (hr_expert_cost). */
static inline bool hr_has_expert_cost(const hr_hardware *hardware, const hr_operator *op)
{
  bool framework = op->framework == HR_FRAMEWORK_COMPILED || hr_is_server(op->framework);
  return framework && op->pass == HR_PASS_FORWARD && hr_predict_expert_cost(hardware, op)->routing_ns > 0;
}

#endif
