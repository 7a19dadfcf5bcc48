/* Memory on a device.
 *
 * Thread safety: a buffer may be used by one thread at a time; different buffers of one device by several at once. */
#ifndef HEADROOM_BUFFER_H
#define HEADROOM_BUFFER_H

#include <headroom/device.h>
#include <headroom/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_buffer hr_buffer;

/** Memory of `bytes` bytes on the device, 64-byte aligned, not initialised. The caller owns *buffer and frees it before
 *  the device is closed. HR_ERROR_OUT_OF_MEMORY; HR_ERROR_INVALID for 0 bytes. */
HR_API hr_status hr_buffer_create(hr_device *device, size_t bytes, hr_buffer **buffer, hr_error *error);

/** Frees a buffer; NULL is allowed. */
HR_API void hr_buffer_free(hr_buffer *buffer);

/** The address on the device; for "cpu" and "reference" one of the host. */
HR_API void *hr_buffer_data(const hr_buffer *buffer);

/** Copies `bytes` bytes from the host to the buffer's start, or back, once all runs that were started before are over:
 *  a run that went wrong on the device may be told of here. HR_ERROR_INVALID beyond the buffer's end. */
HR_API hr_status hr_buffer_write(hr_buffer *buffer, const void *from, size_t bytes, hr_error *error);
/** As hr_buffer_write(). */
HR_API hr_status hr_buffer_read(const hr_buffer *buffer, void *to, size_t bytes, hr_error *error);

/** Fills the buffer with uniform values in [-1, 1] of a format, as many as fit; the same seed gives the same values on
 *  every device. HR_ERROR_INVALID for a dtype outside the list, HR_ERROR_OUT_OF_MEMORY, HR_ERROR_BACKEND. */
HR_API hr_status hr_buffer_fill_uniform(hr_buffer *buffer, hr_dtype dtype, uint64_t seed, hr_error *error);

/** Fills the buffer with NaN of a format, so that a kernel that leaves an element out is seen. Errors as
 *  hr_buffer_fill_uniform(). */
HR_API hr_status hr_buffer_poison(hr_buffer *buffer, hr_dtype dtype, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
