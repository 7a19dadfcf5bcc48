#include "runtime/cuda/driver/program.h"

#include "base/error.h"
#include "base/names.h"
#include "runtime/cuda/driver/cache.h"

#include <headroom/catalog.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const hr_catalog_entry hr_embedded_cuda_sources[], hr_embedded_cuda_headers[]; /* made by cmake/embed.cmake */

#define OPTIONS_MAX 20
#define HEADERS_MAX 16

static const char *const sources[] = {"ceilings",        "fill", "elementwise", "attention_materialized",
                                      "attention_naive", NULL};

const char *const *hr_program_sources(void)
{
  return sources;
}

bool hr_program_takes(hr_dtype dtype)
{
  return (unsigned)dtype < HR_DTYPE_COUNT && dtype != HR_FP64;
}

void hr_program_architecture(int capability, char text[16])
{
  snprintf(text, 16, "sm_%d%s", capability, capability >= 90 ? "a" : "");
}

static const char *find_text(const hr_catalog_entry *entries, const char *name)
{
  for (; entries->name; entries++) {
    if (strcmp(entries->name, name) == 0)
      return entries->text;
  }
  return NULL;
}

typedef struct compiler_options {
  int count;
  char texts[OPTIONS_MAX][64];
  const char *list[OPTIONS_MAX];
} compiler_options;

static void add_option(compiler_options *options, const char *before, const char *text, size_t length)
{
  snprintf(options->texts[options->count], sizeof options->texts[0], "%s%.*s", before, (int)length, text);
  options->list[options->count] = options->texts[options->count];
  options->count++;
}

static hr_status set_options(const hr_program *program, compiler_options *options, hr_error *error)
{
  options->count = 0;
  add_option(options, "--gpu-architecture=", program->architecture, sizeof program->architecture);
  add_option(options, "-DHR_DTYPE_", hr_dtype_name(program->dtype), 16);
  add_option(options, "", "--std=c++17", 16);
  add_option(options, "", "--extra-device-vectorization", 32);
  const char *at = program->defines ? program->defines : "";
  for (at += strspn(at, " "); *at; at += strspn(at, " ")) {
    size_t length = strcspn(at, " ");
    if (options->count == OPTIONS_MAX || length + sizeof "-D" > sizeof options->texts[0])
      return hr_fail(error, HR_ERROR_INVALID, "%s.cu: too many or too long definitions: %.200s", program->source,
                     program->defines);
    add_option(options, "-D", at, length);
    at += length;
  }
  return HR_OK;
}

/* The first line of the log that says what is wrong. */
static hr_status complain(const hr_nvrtc *nvrtc, rtc_program compiled, const hr_program *program, hr_error *error)
{
  size_t bytes = 0;
  char *log = NULL, line[256] = "";
  if (nvrtc->nvrtcGetProgramLogSize(compiled, &bytes) == RTC_SUCCESS && bytes > 0 && (log = calloc(1, bytes + 1)) &&
      nvrtc->nvrtcGetProgramLog(compiled, log) == RTC_SUCCESS) {
    const char *first = strstr(log, "error");
    hr_copy_text(line, sizeof line, first ? first : log);
    line[strcspn(line, "\n")] = '\0';
  }
  free(log);
  return hr_fail(error, HR_ERROR_BACKEND, "nvrtcCompileProgram: %s.cu for %s, %s: %s", program->source,
                 program->architecture, hr_dtype_name(program->dtype), line);
}

static hr_status take_image(const hr_nvrtc *nvrtc, rtc_program compiled, char **image, size_t *bytes, hr_error *error)
{
  HR_TRY(HR_RTC(nvrtc, nvrtcGetCUBINSize, (compiled, bytes), error));
  char *taken = malloc(*bytes + 1);
  if (!taken)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "no memory for a kernel of %zu bytes", *bytes);
  hr_status status = HR_RTC(nvrtc, nvrtcGetCUBIN, (compiled, taken), error);
  if (status == HR_OK)
    *image = taken;
  else
    free(taken);
  return status;
}

/* The headers of kernels/ under the names that sources include them by; every program is offered all. */
typedef struct header_list {
  char names[HEADERS_MAX][80];
  const char *name[HEADERS_MAX], *text[HEADERS_MAX];
  int count;
} header_list;

static void list_headers(header_list *headers)
{
  headers->count = 0;
  for (const hr_catalog_entry *entry = hr_embedded_cuda_headers; entry->name && headers->count < HEADERS_MAX; entry++) {
    int at = headers->count++;
    snprintf(headers->names[at], sizeof headers->names[at], "runtime/cuda/kernels/%.40s.cuh", entry->name);
    headers->name[at] = headers->names[at];
    headers->text[at] = entry->text;
  }
}

static hr_status compile(const hr_nvrtc *nvrtc, const hr_program *program, const compiler_options *options,
                         char **image, size_t *bytes, hr_error *error)
{
  const char *source = find_text(hr_embedded_cuda_sources, program->source);
  header_list headers;
  char name[64];
  list_headers(&headers);
  if (!source)
    return hr_fail(error, HR_ERROR_NOT_FOUND, "no kernel source is called \"%.40s\"", program->source);
  snprintf(name, sizeof name, "%.40s.cu", program->source);
  rtc_program compiled = NULL;
  HR_TRY(
      HR_RTC(nvrtc, nvrtcCreateProgram, (&compiled, source, name, headers.count, headers.text, headers.name), error));
  rtc_result result = nvrtc->nvrtcCompileProgram(compiled, options->count, options->list);
  hr_status status = result == RTC_COMPILATION ? complain(nvrtc, compiled, program, error)
                                               : hr_nvrtc_check(nvrtc, result, "nvrtcCompileProgram", error);
  if (status == HR_OK)
    status = take_image(nvrtc, compiled, image, bytes, error);
  nvrtc->nvrtcDestroyProgram(&compiled);
  return status;
}

/* Everything that the image depends on; the caller frees it. */
static char *make_key(const hr_nvrtc *nvrtc, const hr_program *program, const compiler_options *options)
{
  const char *source = find_text(hr_embedded_cuda_sources, program->source);
  header_list headers;
  list_headers(&headers);
  if (!source)
    return NULL;
  size_t size = strlen(source) + sizeof options->texts + 128;
  for (int i = 0; i < headers.count; i++)
    size += strlen(headers.text[i]) + 1;
  char *key = malloc(size);
  if (!key)
    return NULL;
  int used = snprintf(key, size, "NVRTC %d.%d\n%s\n", nvrtc->major, nvrtc->minor, program->source);
  for (int i = 0; i < options->count; i++)
    used += snprintf(key + used, size - (size_t)used, "%s\n", options->list[i]);
  for (int i = 0; i < headers.count; i++)
    used += snprintf(key + used, size - (size_t)used, "%s\n", headers.text[i]);
  snprintf(key + used, size - (size_t)used, "%s", source);
  return key;
}

hr_status hr_program_build(const hr_nvrtc *nvrtc, const hr_program *program, const char *folder, char **image,
                           size_t *bytes, hr_error *error)
{
  compiler_options options;
  HR_TRY(set_options(program, &options, error));
  char *key = make_key(nvrtc, program, &options);
  if (key && hr_cache_read(folder, key, image, bytes)) {
    free(key);
    return HR_OK;
  }
  hr_status status = compile(nvrtc, program, &options, image, bytes, error);
  if (status == HR_OK && key)
    hr_cache_write(folder, key, *image, *bytes);
  free(key);
  return status;
}
