/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/driver/module.h"

#include "base/error.h"
#include "base/names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A module on the device, by the members of its hr_program. */
typedef struct loaded_module {
  const char *source;
  hr_dtype dtype;
  char defines[HR_DEFINES_SIZE];
  cu_module module;
} loaded_module;

struct hr_modules {
  pthread_mutex_t mutex; /* held while a module is looked up or loaded */
  size_t count, capacity;
  loaded_module *loaded;
};

hr_modules *hr_modules_create(void)
{
  hr_modules *modules = calloc(1, sizeof *modules);
  if (modules && pthread_mutex_init(&modules->mutex, NULL) != 0) {
    free(modules);
    return NULL;
  }
  return modules;
}

void hr_modules_free(const hr_cuda *cuda, hr_modules *modules)
{
  if (!modules)
    return;
  if (modules->count > 0 && hr_cuda_enter(cuda, NULL) == HR_OK) {
    cuda->driver.cuStreamSynchronize(cuda->stream); /* no kernel is running any more */
    for (size_t i = 0; i < modules->count; i++)
      cuda->driver.cuModuleUnload(modules->loaded[i].module);
    hr_cuda_leave(cuda);
  }
  free(modules->loaded);
  pthread_mutex_destroy(&modules->mutex);
  free(modules);
}

static hr_status load(const hr_cuda *cuda, loaded_module *wanted, hr_error *error)
{
  hr_program program = {.source = wanted->source, .dtype = wanted->dtype, .defines = wanted->defines};
  char *image = NULL;
  size_t bytes = 0;
  hr_program_architecture(cuda->capability, program.architecture);
  HR_TRY(hr_program_build(&cuda->nvrtc, &program, cuda->cache_folder, &image, &bytes, error));
  hr_status status = HR_CU(&cuda->driver, cuModuleLoadData, (&wanted->module, image), error);
  free(image);
  return status;
}

static bool make_room(hr_modules *modules)
{
  if (modules->count < modules->capacity)
    return true;
  size_t capacity = modules->capacity ? 2 * modules->capacity : 16;
  loaded_module *larger = realloc(modules->loaded, capacity * sizeof *larger);
  if (!larger)
    return false;
  modules->loaded = larger;
  modules->capacity = capacity;
  return true;
}

/* Sets wanted->module. The mutex is held and the context current. */
static hr_status find_or_load(const hr_cuda *cuda, loaded_module *wanted, hr_error *error)
{
  hr_modules *modules = cuda->modules;
  for (size_t i = 0; i < modules->count; i++) {
    const loaded_module *loaded = &modules->loaded[i];
    if (strcmp(loaded->source, wanted->source) == 0 && loaded->dtype == wanted->dtype &&
        strcmp(loaded->defines, wanted->defines) == 0) {
      wanted->module = loaded->module;
      return HR_OK;
    }
  }
  if (!make_room(modules))
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory to load another module");
  HR_TRY(load(cuda, wanted, error));
  modules->loaded[modules->count++] = *wanted;
  return HR_OK;
}

hr_status hr_cuda_function(const hr_cuda *cuda, const char *source, hr_dtype dtype, const char *defines,
                           const char *name, cu_function *function, hr_error *error)
{
  if (!cuda->nvrtc.handle)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "NVRTC is not here (`headroom devices` says how to get it)");
  if (!hr_program_takes(dtype))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s.cu cannot be compiled for %s", source, hr_dtype_name(dtype));
  loaded_module wanted = {.source = source, .dtype = dtype};
  hr_copy_text(wanted.defines, sizeof wanted.defines, defines ? defines : "");
  pthread_mutex_lock(&cuda->modules->mutex);
  hr_status status = hr_cuda_enter(cuda, error);
  if (status == HR_OK) {
    status = find_or_load(cuda, &wanted, error);
    if (status == HR_OK)
      status = HR_CU(&cuda->driver, cuModuleGetFunction, (function, wanted.module, name), error);
    hr_cuda_leave(cuda);
  }
  pthread_mutex_unlock(&cuda->modules->mutex);
  return status;
}

/* The driver has one function of this name, which other plans have taken, too: its limit only rises. */
static hr_status allow_shared(const hr_cuda *cuda, cu_function function, size_t bytes, hr_error *error)
{
  int allowed = 0;
  HR_TRY(HR_CU(&cuda->driver, cuFuncGetAttribute, (&allowed, CU_FUNCTION_SHARED_MAX, function), error));
  if (bytes <= (size_t)allowed)
    return HR_OK;
  return HR_CU(&cuda->driver, cuFuncSetAttribute, (function, CU_FUNCTION_SHARED_MAX, (int)bytes), error);
}

hr_status hr_cuda_function_shared(const hr_cuda *cuda, const char *source, hr_dtype dtype, const char *defines,
                                  const char *name, size_t shared_bytes, cu_function *function, hr_error *error)
{
  HR_TRY(hr_cuda_function(cuda, source, dtype, defines, name, function, error));
  pthread_mutex_lock(&cuda->modules->mutex);
  hr_status status = hr_cuda_enter(cuda, error);
  if (status == HR_OK) {
    status = allow_shared(cuda, *function, shared_bytes, error);
    hr_cuda_leave(cuda);
  }
  pthread_mutex_unlock(&cuda->modules->mutex);
  return status;
}
