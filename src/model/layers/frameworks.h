/* SPDX-License-Identifier: Apache-2.0 */
/* What frameworks have in common. */
#ifndef HR_MODEL_LAYERS_FRAMEWORKS_H
#define HR_MODEL_LAYERS_FRAMEWORKS_H

#include <headroom/workload.h>

/** Whose GEMMs and attention a framework calls, and who launches them: transformers, PyTorch's eager mode or compiler;
 *  others their own. */
static inline hr_framework hr_framework_kernels(hr_framework framework)
{
  switch (framework) {
  case HR_FRAMEWORK_TRANSFORMERS: return HR_FRAMEWORK_EAGER;
  case HR_FRAMEWORK_TRANSFORMERS_COMPILED: return HR_FRAMEWORK_COMPILED;
  default: return framework;
  }
}

static inline bool hr_is_transformers(hr_framework framework)
{
  return hr_framework_kernels(framework) != framework;
}

static inline bool hr_is_server(hr_framework framework)
{
  return framework == HR_FRAMEWORK_TRTLLM || framework == HR_FRAMEWORK_VLLM || framework == HR_FRAMEWORK_SGLANG;
}

#endif
