/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point of a fuzz target, called by libFuzzer or by replay.c. */
#ifndef HEADROOM_FUZZ_FUZZ_H
#define HEADROOM_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
