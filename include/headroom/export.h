/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of the public functions. */
#ifndef HEADROOM_EXPORT_H
#define HEADROOM_EXPORT_H

#if defined(__GNUC__) || defined(__clang__)
#define HR_API __attribute__((visibility("default")))
#define HR_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#else
#define HR_API
#define HR_PRINTF(format_index, first_argument)
#endif

#endif
