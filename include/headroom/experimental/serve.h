/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/serve.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_SERVE_H
#define HEADROOM_EXPERIMENTAL_SERVE_H

#include <headroom/serve.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The name of an engine ("vllm"); "unknown" outside the list. Static storage. */
HR_API const char *hr_serve_engine_name(hr_serve_engine engine);

/** Reads such a name. HR_ERROR_NOT_FOUND for any other; *engine is then untouched. */
HR_API hr_status hr_serve_engine_parse(const char *name, hr_serve_engine *engine);

/** Sets engine, memory_share, batch_max, prefill_tokens and page_tokens to the engine's defaults on this device
 *  (docs/serving.md has them). HR_ERROR_INVALID for an engine outside the list; *options is then untouched. */
HR_API hr_status hr_serve_options_set_engine(hr_serve_options *options, hr_serve_engine engine,
                                             const hr_hardware *hardware, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
