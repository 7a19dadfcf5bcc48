/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/onednn/loader.h"

#include "base/error.h"
#include "runtime/device/library.h"

#include <stdbool.h>
#include <stdlib.h>

#define HOW_TO_GET                                                                                                    \
  "install libdnnl-dev (Debian, Ubuntu), or pip install onednn-cpu-gomp and set HEADROOM_ONEDNN to the libdnnl.so.3 " \
  "that this puts into the environment's lib"

static const char *const usual[] = {"libdnnl.so.3", "libdnnl.so.2"};

#define SYMBOL(name, parameters) {#name, offsetof(hr_onednn_api, name)},
#define PLAIN(name)                      \
  {                                      \
#name, offsetof(hr_onednn_api, name) \
  }

#define OPENMP(name)                            \
  {                                             \
#name, offsetof(hr_onednn_api, openmp.name) \
  }

static const hr_symbol both[] = {HR_ONEDNN_LIST(SYMBOL) PLAIN(dnnl_version), PLAIN(dnnl_memory_desc_get_size),
                                 PLAIN(dnnl_primitive_desc_query_md)};
static const hr_symbol threads[] = {OPENMP(omp_get_max_threads), OPENMP(omp_set_num_threads)};
static const hr_symbol regions[] = {OPENMP(omp_get_thread_num), OPENMP(GOMP_parallel)};
static const hr_symbol api_2[] = {HR_ONEDNN_2_LIST(SYMBOL)};
static const hr_symbol api_3[] = {HR_ONEDNN_3_LIST(SYMBOL)};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static hr_status find_rest(hr_onednn_api *api, const hr_library_source *source, hr_error *error)
{
  api->version = *api->dnnl_version();
  const hr_symbol *own = api->version.major >= 3 ? api_3 : api_2;
  size_t count = api->version.major >= 3 ? COUNT_OF(api_3) : COUNT_OF(api_2);
  HR_TRY(hr_library_require(api->handle, source, own, count, api, error));
  if (hr_library_require(api->handle, source, threads, COUNT_OF(threads), api, NULL) != HR_OK)
    return hr_fail(error, HR_ERROR_UNAVAILABLE,
                   "%s (%s) does not use OpenMP, so its number of threads cannot be set; " HOW_TO_GET, source->title,
                   source->files[0]);
  if (hr_library_require(api->handle, source, regions, COUNT_OF(regions), api, NULL) != HR_OK)
    api->openmp.GOMP_parallel = NULL;
  return HR_OK;
}

static hr_status open_file(hr_onednn_api *api, const char *file, hr_error *error)
{
  const bool named = file == hr_onednn_named_file();
  const hr_library_source source = {
      .title = named ? "HEADROOM_ONEDNN" : "oneDNN", .files = {file}, .how_to_get = named ? NULL : HOW_TO_GET};
  *api = (hr_onednn_api){.handle = NULL};
  HR_TRY(hr_library_open(&source, both, COUNT_OF(both), api, &api->handle, error));
  hr_status status = find_rest(api, &source, error);
  if (status != HR_OK)
    hr_onednn_unload(api);
  return status;
}

const char *hr_onednn_named_file(void)
{
  const char *named = getenv("HEADROOM_ONEDNN");
  return named && named[0] ? named : NULL;
}

/* Reports the first failure. */
hr_status hr_onednn_load(hr_onednn_api *api, hr_error *error)
{
  if (hr_onednn_named_file())
    return open_file(api, hr_onednn_named_file(), error);
  hr_error first = {.message = ""};
  hr_status status = HR_OK;
  for (size_t i = 0; i < COUNT_OF(usual); i++) {
    status = open_file(api, usual[i], i == 0 ? &first : NULL);
    if (status == HR_OK)
      return HR_OK;
  }
  return hr_fail(error, status, "%s", first.message);
}

void hr_onednn_unload(hr_onednn_api *api)
{
  hr_library_close(api->handle);
  *api = (hr_onednn_api){.handle = NULL};
}
