/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax weights far below the largest, and their products, can be denormal numbers, of which each costs some hundred
 * cycles; kernels flush them to 0. */
#ifndef HR_RUNTIME_CPU_HOST_DENORMALS_H
#define HR_RUNTIME_CPU_HOST_DENORMALS_H

/** Flushes denormal results of this thread to 0. Returns the mode to restore. */
static inline unsigned hr_cpu_flush_denormals(void)
{
#if defined(__x86_64__)
  unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8000);
  return before;
#else
  return 0;
#endif
}

static inline void hr_cpu_restore_denormals(unsigned before)
{
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(before);
#else
  (void)before;
#endif
}

#endif
