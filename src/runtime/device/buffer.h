/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that are parts of others. */
#ifndef HR_RUNTIME_DEVICE_BUFFER_H
#define HR_RUNTIME_DEVICE_BUFFER_H

#include "base/private.h"

#include <headroom/buffer.h>

/** A buffer of some of another one's bytes, which outlives it. HR_ERROR_INVALID beyond the end;
 *  HR_ERROR_OUT_OF_MEMORY. */
HR_PRIVATE hr_status hr_buffer_part(const hr_buffer *whole, size_t offset, size_t bytes, hr_buffer **part,
                                    hr_error *error);

/** The bytes of a buffer. */
HR_PRIVATE size_t hr_buffer_bytes(const hr_buffer *buffer);

#endif
