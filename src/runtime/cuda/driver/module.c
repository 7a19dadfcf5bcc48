/* Programs on the device: built when they are first needed, loaded once. */
#include "base/error.h"
#include "base/names.h"
#include "runtime/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

hr_modules *hr_cuda_modules_create(void)
{
  hr_modules *modules = calloc(1, sizeof *modules);
  if (modules && pthread_mutex_init(&modules->gate, NULL) != 0) {
    free(modules);
    return NULL;
  }
  return modules;
}

void hr_cuda_modules_free(const hr_cuda *cuda)
{
  hr_modules *modules = cuda->modules;
  for (size_t i = 0; i < modules->count; i++)
    cuda->driver.cuModuleUnload(modules->loaded[i].module);
  free(modules->loaded);
  modules->loaded = NULL;
  modules->count = modules->capacity = 0;
  pthread_mutex_destroy(&modules->gate);
}

static hr_status load(const hr_cuda *cuda, hr_loaded_module *wanted, hr_error *error)
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
  hr_loaded_module *larger = realloc(modules->loaded, capacity * sizeof *larger);
  if (!larger)
    return false;
  modules->loaded = larger;
  modules->capacity = capacity;
  return true;
}

/* With the gate held and the context current. Sets wanted->module. */
static hr_status find_or_load(const hr_cuda *cuda, hr_loaded_module *wanted, hr_error *error)
{
  hr_modules *modules = cuda->modules;
  for (size_t i = 0; i < modules->count; i++) {
    const hr_loaded_module *loaded = &modules->loaded[i];
    if (strcmp(loaded->source, wanted->source) == 0 && loaded->dtype == wanted->dtype &&
        strcmp(loaded->defines, wanted->defines) == 0) {
      wanted->module = loaded->module;
      return HR_OK;
    }
  }
  if (!make_room(modules))
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "no memory to load another program");
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
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s.cu is not made for %s", source, hr_dtype_name(dtype));
  hr_loaded_module wanted = {.source = source, .dtype = dtype};
  hr_copy_text(wanted.defines, sizeof wanted.defines, defines ? defines : "");
  pthread_mutex_lock(&cuda->modules->gate);
  hr_status status = hr_cuda_enter(cuda, error);
  if (status == HR_OK) {
    status = find_or_load(cuda, &wanted, error);
    if (status == HR_OK)
      status = HR_CU(&cuda->driver, cuModuleGetFunction, (function, wanted.module, name), error);
    hr_cuda_leave(cuda);
  }
  pthread_mutex_unlock(&cuda->modules->gate);
  return status;
}
