/* SPDX-License-Identifier: Apache-2.0 */
/* The version of the interface at compile time, and of the library at run time. Semantic versioning: before 1.0 a minor
 * version may break the interface, and the library's name (SONAME) then changes. Thread safety: pure functions. */
#ifndef HEADROOM_VERSION_H
#define HEADROOM_VERSION_H

#include <headroom/export.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_VERSION_MAJOR 0
#define HR_VERSION_MINOR 2
#define HR_VERSION_PATCH 0
#define HR_VERSION "0.2.0"

/** For comparisons: 10000 major + 100 minor + patch. */
#define HR_VERSION_NUMBER (10000 * HR_VERSION_MAJOR + 100 * HR_VERSION_MINOR + HR_VERSION_PATCH)

/** The version of the library that is linked, in the form of HR_VERSION ("0.2.0"). It differs from HR_VERSION where a
 *  program was compiled with the headers of another version. Static storage. */
HR_API const char *hr_version(void);

/** The commit that the library was built from, in short form, as stored results name it; "" if unknown. Static
 *  storage. */
HR_API const char *hr_version_commit(void);

/** HR_VERSION_NUMBER of the library that is linked. */
HR_API int hr_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
