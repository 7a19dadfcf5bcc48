/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/onednn/engine.h"

#include "base/error.h"
#include "base/names.h"
#include "runtime/cpu/host/host.h"
#include "runtime/device/device.h"

#include <stdio.h>
#include <stdlib.h>

void hr_cpu_library(hr_library *library)
{
  hr_onednn_api dnnl;
  hr_error error = {.message = ""};
  *library = (hr_library){.name = "oneDNN", .device = "cpu", .purpose = "products on cpu"};
  library->status = hr_onednn_load(&dnnl, &error);
  hr_copy_text(library->detail, sizeof library->detail, error.message);
  if (library->status != HR_OK)
    return;
  snprintf(library->version, sizeof library->version, "%d.%d.%d", dnnl.version.major, dnnl.version.minor,
           dnnl.version.patch);
  hr_onednn_unload(&dnnl);
}

hr_status hr_onednn_check(dnnl_status_t status, const char *what, hr_error *error)
{
  switch (status) {
  case DNNL_SUCCESS: return HR_OK;
  case DNNL_UNIMPLEMENTED:
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "oneDNN supports no %s of this kind on this processor", what);
  case DNNL_OUT_OF_MEMORY: return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "oneDNN: not enough memory for a %s", what);
  default: return hr_fail(error, HR_ERROR_BACKEND, "oneDNN: %s failed with status %d", what, status);
  }
}

void hr_onednn_close(hr_onednn *onednn)
{
  if (!onednn)
    return;
  if (onednn->bound)
    hr_openmp_unbind(&onednn->api.openmp, onednn->affinity);
  if (onednn->stream)
    onednn->api.dnnl_stream_destroy(onednn->stream);
  if (onednn->engine)
    onednn->api.dnnl_engine_destroy(onednn->engine);
  hr_onednn_unload(&onednn->api);
  free(onednn);
}

/* oneDNN takes such a limit only before its first GEMM in a process; later GEMMs keep it. */
static void limit_instructions(const hr_onednn *onednn, const hr_isa *isa)
{
  if (isa->masked)
    onednn->api.dnnl_set_max_cpu_isa(isa->avx512_bf16 ? DNNL_ISA_AVX512_BF16
                                     : isa->avx512    ? DNNL_ISA_AVX512
                                     : isa->avx2      ? DNNL_ISA_AVX2
                                                      : DNNL_ISA_SSE41);
}

static hr_status make_stream(hr_onednn *onednn, hr_error *error)
{
  HR_TRY(hr_onednn_check(onednn->api.dnnl_engine_create(&onednn->engine, DNNL_CPU, 0), "CPU engine", error));
  return hr_onednn_check(onednn->api.dnnl_stream_create(&onednn->stream, onednn->engine, DNNL_STREAM_DEFAULT), "stream",
                         error);
}

static hr_status open_engine(const hr_isa *isa, const hr_affinity *affinity, hr_onednn **onednn, hr_error *error)
{
  hr_onednn *opened = calloc(1, sizeof *opened);
  if (!opened)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: not enough memory to open oneDNN");
  *onednn = NULL;
  hr_error reason = {.message = ""};
  hr_status status = hr_onednn_load(&opened->api, &reason);
  if (status != HR_OK) { /* `headroom devices` gives the reason */
    free(opened);
    return hr_onednn_named_file() ? hr_fail(error, status, "%s", reason.message) : HR_OK;
  }
  opened->affinity = opened->api.openmp.GOMP_parallel ? affinity : NULL;
  limit_instructions(opened, isa);
  status = make_stream(opened, error);
  if (status == HR_OK)
    *onednn = opened;
  else
    hr_onednn_close(opened);
  return status;
}

hr_status hr_onednn_of(const hr_device *device, hr_onednn **onednn, hr_error *error)
{
  hr_cpu *cpu = device->state;
  pthread_mutex_lock(&cpu->lock);
  hr_status status = HR_OK;
  if (!cpu->asked_onednn)
    status = open_engine(&cpu->isa, &cpu->affinity, &cpu->onednn, error);
  cpu->asked_onednn = status == HR_OK;
  *onednn = cpu->onednn;
  pthread_mutex_unlock(&cpu->lock);
  return status;
}
