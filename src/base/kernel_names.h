/* Kernels that were renamed: stores and scripts keep the names of their day.
 *
 * A row of kernel_names.inc renames a kernel or a family, the beginning of a name up to an underscore. */
#ifndef HR_BASE_KERNEL_NAMES_H
#define HR_BASE_KERNEL_NAMES_H

#include <stddef.h>

#define HR_KERNEL_NAME_SIZE 64

/** Writes today's name of a kernel or family: "attention_blocked_onednn" of "attention_fused_onednn". A name that was
 *  never changed stays. `to` may be `name`. */
void hr_kernel_current_name(const char *name, char to[HR_KERNEL_NAME_SIZE]);

/** Writes the name that a kernel or family had before it was renamed, or `name` where it was not. */
void hr_kernel_former_name(const char *name, char to[HR_KERNEL_NAME_SIZE]);

#endif
