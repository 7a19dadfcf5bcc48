/* SPDX-License-Identifier: Apache-2.0 */
/* Memory on a device.
 *
 * Thread safety: one thread at a time may use a buffer; several threads may use different buffers of one device. */
#ifndef HEADROOM_BUFFER_H
#define HEADROOM_BUFFER_H

#include <headroom/device.h>
#include <headroom/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_buffer hr_buffer;

/** Allocates `bytes` bytes on the device, 64-byte aligned. They are not initialised but for the first
 *  HR_WORKSPACE_COUNTER_BYTES, which are 0 on a GPU, so that the buffer can be a workspace (<headroom/plan.h>). The
 *  caller owns *buffer and frees it before closing the device. HR_ERROR_OUT_OF_MEMORY; HR_ERROR_INVALID for 0 bytes. */
HR_API hr_status hr_buffer_create(hr_device *device, size_t bytes, hr_buffer **buffer, hr_error *error);

/** Frees a buffer; NULL is allowed. */
HR_API void hr_buffer_free(hr_buffer *buffer);

/** The address on the device; for "cpu" and "reference" a host address. */
HR_API void *hr_buffer_data(const hr_buffer *buffer);

/** Copies `bytes` bytes from the host to the start of the buffer, after all runs that were started before have ended.
 *  HR_ERROR_INVALID beyond the buffer's end; HR_ERROR_BACKEND also for a run that failed on the device. */
HR_API hr_status hr_buffer_write(hr_buffer *buffer, const void *from, size_t bytes, hr_error *error);

/** Copies from the buffer to the host; otherwise as hr_buffer_write(). */
HR_API hr_status hr_buffer_read(const hr_buffer *buffer, void *to, size_t bytes, hr_error *error);

/** Fills the buffer with as many uniform values in [-1, 1] as fit. The same seed gives the same values on every device.
 *  HR_ERROR_INVALID for a dtype outside the list, HR_ERROR_OUT_OF_MEMORY, HR_ERROR_BACKEND. */
HR_API hr_status hr_buffer_fill_uniform(hr_buffer *buffer, hr_dtype dtype, uint64_t seed, hr_error *error);

/** Fills the buffer with NaN, which exposes a kernel that does not write every element. Errors as
 *  hr_buffer_fill_uniform(). */
HR_API hr_status hr_buffer_poison(hr_buffer *buffer, hr_dtype dtype, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
