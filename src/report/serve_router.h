/* SPDX-License-Identifier: Apache-2.0 */
/* What sends requests to servers that prefill and servers that decode. */
#ifndef HR_REPORT_SERVE_ROUTER_H
#define HR_REPORT_SERVE_ROUTER_H

#include <headroom/serve.h>
#include <stdio.h>

/** Servers that a router's line lists at most. */
#define HR_ROUTED_MAX 1000

/** Ports of servers that prefill and that decode. */
#define HR_PREFILL_PORT 8100
#define HR_DECODE_PORT 8200

/** Writes the line that starts the engine's router for servers on hosts prefill-1, …, decode-1, …; of TensorRT-LLM the
 *  router's file, too. */
void hr_write_router(FILE *out, hr_serve_engine engine, int64_t prefilling, int64_t decoding);

/** Writes the files that the servers of TensorRT-LLM read; the buffer of the transfer holds a prompt. */
void hr_write_transfer_file(FILE *out, int64_t prompt_tokens, bool prefills);

#endif
