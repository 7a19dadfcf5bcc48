/* SPDX-License-Identifier: Apache-2.0 */
/* Lines were read in
 *
 *   vllm    vllm-project/vllm: documentation, nixl_connector_usage at 026c83f9
 *   sglang  sgl-project/sglang: documentation, pd_disaggregation at 08edc506
 *   trtllm  NVIDIA/TensorRT-LLM: documentation, features/disagg-serving at 0434b982: the buffer should hold the longest
 *           prompt, and servers that prefill have no overlap scheduler */
#include "report/serve_router.h"

#include <inttypes.h>

#define ROUTER_PORT "8000"

/* Writes `count` times `before`, a host's number and, with a port, `between` and the port. */
static void list_hosts(FILE *out, const char *before, int64_t count, int64_t port)
{
  for (int64_t i = 1; i <= count; i++) {
    fprintf(out, "%s%" PRId64, before, i);
    if (port > 0)
      fprintf(out, ":%" PRId64, port);
  }
}

static void list_ports(FILE *out, int64_t count, int64_t port)
{
  for (int64_t i = 0; i < count; i++)
    fprintf(out, " %" PRId64, port);
}

static void route_vllm(FILE *out, int64_t prefilling, int64_t decoding)
{
  fputs("python3 tests/v1/kv_connector/nixl_integration/toy_proxy_server.py \\\n  --port " ROUTER_PORT
        " \\\n  --prefiller-hosts",
        out);
  list_hosts(out, " prefill-", prefilling, 0);
  fputs(" \\\n  --prefiller-ports", out);
  list_ports(out, prefilling, HR_PREFILL_PORT);
  fputs(" \\\n  --decoder-hosts", out);
  list_hosts(out, " decode-", decoding, 0);
  fputs(" \\\n  --decoder-ports", out);
  list_ports(out, decoding, HR_DECODE_PORT);
  fputc('\n', out);
}

static void route_sglang(FILE *out, int64_t prefilling, int64_t decoding)
{
  fputs("python3 -m sglang_router.launch_router \\\n  --pd-disaggregation", out);
  list_hosts(out, " \\\n  --prefill http://prefill-", prefilling, HR_PREFILL_PORT);
  list_hosts(out, " \\\n  --decode http://decode-", decoding, HR_DECODE_PORT);
  fputs(" \\\n  --host 0.0.0.0 \\\n  --port " ROUTER_PORT "\n", out);
}

static void list_servers(FILE *out, const char *kind, const char *host, int64_t count, int64_t port)
{
  fprintf(out, "%s:\n  num_instances: %" PRId64 "\n  urls:", kind, count);
  list_hosts(out, host, count, port);
  fputc('\n', out);
}

static void route_trtllm(FILE *out, int64_t prefilling, int64_t decoding)
{
  fputs("cat > disaggregated.yml <<END\nhostname: 0.0.0.0\nport: " ROUTER_PORT "\nbackend: pytorch\n", out);
  list_servers(out, "context_servers", "\n    - prefill-", prefilling, HR_PREFILL_PORT);
  list_servers(out, "generation_servers", "\n    - decode-", decoding, HR_DECODE_PORT);
  fputs("END\ntrtllm-serve disaggregated -c disaggregated.yml\n", out);
}

void hr_write_router(FILE *out, hr_serve_engine engine, int64_t prefilling, int64_t decoding)
{
  switch (engine) {
  case HR_SERVE_VLLM: route_vllm(out, prefilling, decoding); break;
  case HR_SERVE_SGLANG: route_sglang(out, prefilling, decoding); break;
  case HR_SERVE_TRTLLM: route_trtllm(out, prefilling, decoding); break;
  default: break; /* no other server's options are known */
  }
}

void hr_write_transfer_file(FILE *out, int64_t prompt_tokens, bool prefills)
{
  fprintf(out,
          "cat > %s.yml <<END\n%scache_transceiver_config:\n  backend: NIXL\n  max_tokens_in_buffer: %" PRId64
          "\nEND\n",
          prefills ? "prefill" : "decode", prefills ? "disable_overlap_scheduler: true\n" : "", prompt_tokens);
}
