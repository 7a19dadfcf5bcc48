/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/driver/cublaslt.h"

#include "base/error.h"
#include "runtime/device/library.h"

#include <stdio.h>

static const hr_library_source source = {
    .title = "cuBLASLt",
    .files = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so",
              "/usr/local/cuda/lib64/libcublasLt.so"},
    .how_to_get = "install the CUDA toolkit's libcublas, or add the folder that has it (such as nvidia/cu13/lib or "
                  "nvidia/cublas/lib of a Python environment) to LD_LIBRARY_PATH",
};

static const hr_symbol symbols[] = {{"cublasLtGetVersion", offsetof(hr_cublaslt, cublasLtGetVersion)},
                                    {"cublasLtGetStatusString", offsetof(hr_cublaslt, cublasLtGetStatusString)},
#define HR_CUBLASLT_SYMBOL(name, parameters) {#name, offsetof(hr_cublaslt, name)},
                                    HR_CUBLASLT_LIST(HR_CUBLASLT_SYMBOL)
#undef HR_CUBLASLT_SYMBOL
};

hr_status hr_cublaslt_open(hr_cublaslt *lt, hr_error *error)
{
  *lt = (hr_cublaslt){.handle = NULL};
  return hr_library_open(&source, symbols, sizeof symbols / sizeof *symbols, lt, &lt->handle, error);
}

void hr_cublaslt_close(hr_cublaslt *lt)
{
  hr_library_close(lt->handle);
  lt->handle = NULL;
}

/* 130002 is 13.0.2; before 12 the major number counted thousands (11111 is 11.11.1). */
void hr_cublaslt_version(const hr_cublaslt *lt, char *text, size_t size)
{
  size_t version = lt->cublasLtGetVersion();
  size_t unit = version >= 100000 ? 10000 : 1000;
  snprintf(text, size, "%zu.%zu.%zu", version / unit, version % unit / 100, version % 100);
}

hr_status hr_cublaslt_check(const hr_cublaslt *lt, lt_result result, const char *call, hr_error *error)
{
  if (result == LT_SUCCESS)
    return HR_OK;
  hr_status status = result == LT_ALLOC_FAILED    ? HR_ERROR_OUT_OF_MEMORY
                     : result == LT_NOT_SUPPORTED ? HR_ERROR_UNSUPPORTED
                                                  : HR_ERROR_BACKEND;
  return hr_fail(error, status, "%s: %s", call, lt->cublasLtGetStatusString(result));
}
