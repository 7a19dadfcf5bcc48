/* SPDX-License-Identifier: Apache-2.0 */
/* Aliases of renamed kernels, which old stores and scripts still use.
 *
 * A row of kernel_names.inc renames a kernel or a family (the beginning of a name up to an underscore). */
#ifndef HR_BASE_KERNEL_NAMES_H
#define HR_BASE_KERNEL_NAMES_H

#include <stddef.h>

#define HR_KERNEL_NAME_SIZE 64

/** Writes the current name of a kernel or family: "attention_blocked_onednn" for "attention_fused_onednn". A name that
 *  was never changed is copied. `to` may be `name`. */
void hr_kernel_current_name(const char *name, char to[HR_KERNEL_NAME_SIZE]);

/** Writes the former name of a kernel or family, or `name` if it was never renamed. */
void hr_kernel_former_name(const char *name, char to[HR_KERNEL_NAME_SIZE]);

#endif
