/* Programs on the device: built when they are first needed, loaded once. */
#include "base/error.h"
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
  for (size_t i = 0; i < cuda->modules->count; i++)
    cuda->driver.cuModuleUnload(cuda->modules->loaded[i].module);
  cuda->modules->count = 0;
  pthread_mutex_destroy(&cuda->modules->gate);
}

static hr_status load(const hr_cuda *cuda, const char *source, hr_dtype dtype, cu_module *module, hr_error *error)
{
  hr_program program = {.source = source, .dtype = dtype};
  char *image = NULL;
  size_t bytes = 0;
  hr_program_architecture(cuda->capability, program.architecture);
  HR_TRY(hr_program_build(&cuda->nvrtc, &program, cuda->cache_folder, &image, &bytes, error));
  hr_status status = HR_CU(&cuda->driver, cuModuleLoadData, (module, image), error);
  free(image);
  return status;
}

/* With the gate held and the context current. */
static hr_status find_or_load(const hr_cuda *cuda, const char *source, hr_dtype dtype, cu_module *module,
                              hr_error *error)
{
  hr_modules *modules = cuda->modules;
  for (size_t i = 0; i < modules->count; i++) {
    if (strcmp(modules->loaded[i].source, source) == 0 && modules->loaded[i].dtype == dtype) {
      *module = modules->loaded[i].module;
      return HR_OK;
    }
  }
  if (modules->count == HR_MODULES_MAX)
    return hr_fail(error, HR_ERROR_BACKEND, "more than %d programs are loaded", HR_MODULES_MAX);
  HR_TRY(load(cuda, source, dtype, module, error));
  modules->loaded[modules->count].source = source;
  modules->loaded[modules->count].dtype = dtype;
  modules->loaded[modules->count++].module = *module;
  return HR_OK;
}

hr_status hr_cuda_function(const hr_cuda *cuda, const char *source, hr_dtype dtype, const char *name,
                           cu_function *function, hr_error *error)
{
  if (!cuda->nvrtc.handle)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "NVRTC is not here (`headroom devices` says how to get it)");
  if (!hr_program_takes(dtype))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s.cu is not made for %s", source, hr_dtype_name(dtype));
  cu_module module = NULL;
  pthread_mutex_lock(&cuda->modules->gate);
  hr_status status = hr_cuda_enter(cuda, error);
  if (status == HR_OK) {
    status = find_or_load(cuda, source, dtype, &module, error);
    if (status == HR_OK)
      status = HR_CU(&cuda->driver, cuModuleGetFunction, (function, module, name), error);
    hr_cuda_leave(cuda);
  }
  pthread_mutex_unlock(&cuda->modules->gate);
  return status;
}
