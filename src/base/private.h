/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_BASE_PRIVATE_H
#define HR_BASE_PRIVATE_H

/** Marks a function of libheadroom that libheadroom-advice calls, too, and that no public header declares: it is also a
 *  row of cmake/private_symbols.txt. */
#define HR_PRIVATE __attribute__((visibility("default")))

#endif
