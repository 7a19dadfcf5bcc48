#include "runtime/cpu/onednn/loader.h"

#include "base/error.h"
#include "runtime/device/library.h"

#include <stdbool.h>
#include <stdlib.h>

#define HOW_TO_GET                                                                                                    \
  "install libdnnl-dev (Debian, Ubuntu), or pip install onednn-cpu-gomp and set HEADROOM_ONEDNN to the libdnnl.so.3 " \
  "that this puts into the environment's lib"

static const char *const usual[] = {"libdnnl.so.3", "libdnnl.so.2"};

#define SYMBOL(name, parameters) {#name, offsetof(hr_dnnl, name)},
#define PLAIN(name)                \
  {                                \
#name, offsetof(hr_dnnl, name) \
  }

static const hr_symbol both[] = {HR_DNNL_LIST(SYMBOL) PLAIN(dnnl_version), PLAIN(dnnl_memory_desc_get_size),
                                 PLAIN(dnnl_primitive_desc_query_md)};
static const hr_symbol threads[] = {PLAIN(omp_get_max_threads), PLAIN(omp_set_num_threads)};
static const hr_symbol regions[] = {PLAIN(omp_get_thread_num), PLAIN(GOMP_parallel)};
static const hr_symbol api_2[] = {HR_DNNL_2_LIST(SYMBOL)};
static const hr_symbol api_3[] = {HR_DNNL_3_LIST(SYMBOL)};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static hr_status find_rest(hr_dnnl *dnnl, const hr_library_source *source, hr_error *error)
{
  dnnl->version = *dnnl->dnnl_version();
  const hr_symbol *own = dnnl->version.major >= 3 ? api_3 : api_2;
  size_t count = dnnl->version.major >= 3 ? COUNT_OF(api_3) : COUNT_OF(api_2);
  HR_TRY(hr_library_require(dnnl->handle, source, own, count, dnnl, error));
  if (hr_library_require(dnnl->handle, source, threads, COUNT_OF(threads), dnnl, NULL) != HR_OK)
    return hr_fail(error, HR_ERROR_UNAVAILABLE,
                   "%s (%s) does not thread by OpenMP, so that its threads cannot be counted out; " HOW_TO_GET,
                   source->title, source->files[0]);
  if (hr_library_require(dnnl->handle, source, regions, COUNT_OF(regions), dnnl, NULL) != HR_OK)
    dnnl->GOMP_parallel = NULL;
  return HR_OK;
}

static hr_status open_file(hr_dnnl *dnnl, const char *file, hr_error *error)
{
  const bool named = file == hr_dnnl_named();
  const hr_library_source source = {
      .title = named ? "HEADROOM_ONEDNN" : "oneDNN", .files = {file}, .how_to_get = named ? NULL : HOW_TO_GET};
  *dnnl = (hr_dnnl){.handle = NULL};
  HR_TRY(hr_library_open(&source, both, COUNT_OF(both), dnnl, &dnnl->handle, error));
  hr_status status = find_rest(dnnl, &source, error);
  if (status != HR_OK)
    hr_dnnl_close(dnnl);
  return status;
}

const char *hr_dnnl_named(void)
{
  const char *named = getenv("HEADROOM_ONEDNN");
  return named && named[0] ? named : NULL;
}

/* Of several that cannot be had the first is told of. */
hr_status hr_dnnl_open(hr_dnnl *dnnl, hr_error *error)
{
  if (hr_dnnl_named())
    return open_file(dnnl, hr_dnnl_named(), error);
  hr_error first = {.message = ""};
  hr_status status = HR_OK;
  for (size_t i = 0; i < COUNT_OF(usual); i++) {
    status = open_file(dnnl, usual[i], i == 0 ? &first : NULL);
    if (status == HR_OK)
      return HR_OK;
  }
  return hr_fail(error, status, "%s", first.message);
}

void hr_dnnl_close(hr_dnnl *dnnl)
{
  hr_library_close(dnnl->handle);
  *dnnl = (hr_dnnl){.handle = NULL};
}
