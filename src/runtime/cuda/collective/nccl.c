/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/collective/nccl.h"

#include "base/error.h"
#include "runtime/device/library.h"

#include <stddef.h>
#include <stdio.h>

static const hr_library_source source = {
    .title = "NCCL",
    .files = {"libnccl.so.2"},
    .how_to_get = "install libnccl2, or the wheel nvidia-nccl-cu13 and put its folder lib into LD_LIBRARY_PATH",
};

static const hr_symbol symbols[] = {
#define HR_NCCL_SYMBOL(name, parameters) {#name, offsetof(hr_nccl, name)},
    HR_NCCL_LIST(HR_NCCL_SYMBOL)
#undef HR_NCCL_SYMBOL
        {"ncclGetErrorString", offsetof(hr_nccl, ncclGetErrorString)},
};

hr_status hr_nccl_open(hr_nccl *nccl, hr_error *error)
{
  *nccl = (hr_nccl){.handle = NULL};
  return hr_library_open(&source, symbols, sizeof symbols / sizeof *symbols, nccl, &nccl->handle, error);
}

void hr_nccl_close(hr_nccl *nccl)
{
  hr_library_close(nccl->handle);
  nccl->handle = NULL;
}

void hr_nccl_version(const hr_nccl *nccl, char *text, size_t size)
{
  int version = 0;
  nccl->ncclGetVersion(&version); /* 22809: 2.28.9 */
  snprintf(text, size, "%d.%d.%d", version / 10000, version % 10000 / 100, version % 100);
}

hr_status hr_nccl_check(const hr_nccl *nccl, nccl_result result, const char *call, hr_error *error)
{
  if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS)
    return HR_OK;
  return hr_fail(error, HR_ERROR_BACKEND, "%s: %s (%d)", call, nccl->ncclGetErrorString(result), result);
}
