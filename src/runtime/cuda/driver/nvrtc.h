/* SPDX-License-Identifier: Apache-2.0 */
/* The part of NVRTC that is used: CUDA C to machine code, without a GPU or a toolkit. */
#ifndef HR_RUNTIME_CUDA_DRIVER_NVRTC_H
#define HR_RUNTIME_CUDA_DRIVER_NVRTC_H

#include <headroom/status.h>
#include <stddef.h>

typedef int rtc_result;
typedef struct rtc_program_st *rtc_program;

enum { RTC_SUCCESS = 0, RTC_OUT_OF_MEMORY = 1, RTC_COMPILATION = 6 };

#define HR_NVRTC_LIST(ROW)                                                                           \
  ROW(nvrtcVersion, (int *major, int *minor))                                                        \
  ROW(nvrtcCreateProgram, (rtc_program * program, const char *source, const char *name, int headers, \
                           const char *const *texts, const char *const *names))                      \
  ROW(nvrtcDestroyProgram, (rtc_program * program))                                                  \
  ROW(nvrtcCompileProgram, (rtc_program program, int count, const char *const *options))             \
  ROW(nvrtcGetCUBINSize, (rtc_program program, size_t * bytes))                                      \
  ROW(nvrtcGetCUBIN, (rtc_program program, char *image))                                             \
  ROW(nvrtcGetProgramLogSize, (rtc_program program, size_t * bytes))                                 \
  ROW(nvrtcGetProgramLog, (rtc_program program, char *text))

typedef struct hr_nvrtc {
  void *handle;
  int major, minor;
  const char *(*nvrtcGetErrorString)(rtc_result result);
#define HR_NVRTC_MEMBER(name, parameters) rtc_result(*name) parameters;
  HR_NVRTC_LIST(HR_NVRTC_MEMBER)
#undef HR_NVRTC_MEMBER
} hr_nvrtc;

/** Loads NVRTC. HR_ERROR_UNAVAILABLE with what is missing; *nvrtc is then closed. */
hr_status hr_nvrtc_open(hr_nvrtc *nvrtc, hr_error *error);
void hr_nvrtc_close(hr_nvrtc *nvrtc); /* a closed one is allowed */

hr_status hr_nvrtc_check(const hr_nvrtc *nvrtc, rtc_result result, const char *call, hr_error *error);

/** Calls NVRTC as HR_CU() calls the driver. */
#define HR_RTC(nvrtc, name, arguments, error) hr_nvrtc_check(nvrtc, (nvrtc)->name arguments, #name, error)

#endif
