/* SPDX-License-Identifier: Apache-2.0 */
#include "model/checkpoint/random_weights.h"

#include "shape/number.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define CHUNK 512 /* elements made at a time */

static uint64_t key_of(const hr_weight_request *request, uint64_t seed)
{
  char text[96];
  int length = snprintf(text, sizeof text, "%s %" PRId64, hr_role_name(request->role), request->layer);
  return XXH3_64bits_withSeed(text, (size_t)length, seed);
}

hr_weight_filling hr_weight_filling_of(const hr_weight_request *request, uint64_t seed)
{
  const char *name = hr_role_name(request->role);
  bool constant = request->role == HR_WEIGHT_SINKS || request->role == HR_WEIGHT_ACTIVATION;
  if (constant || strstr(name, "_bias"))
    return (hr_weight_filling){0};
  if (strstr(name, "_norm"))
    return (hr_weight_filling){.added = 1};
  /* Uniform numbers up to ±b have the variance b² / 3. */
  return (hr_weight_filling){.key = key_of(request, seed), .bound = sqrtf(3.0F / (float)request->columns)};
}

void hr_weight_randomize(const hr_weight_request *request, uint64_t seed, int64_t first, int64_t count, void *to)
{
  hr_weight_filling filling = hr_weight_filling_of(request, seed);
  for (int64_t i = 0; i < count; i += CHUNK) {
    float values[CHUNK];
    size_t some = (size_t)(count - i < CHUNK ? count - i : CHUNK);
    hr_numbers_uniform(HR_FP32, filling.key, (size_t)(first + i), some, values);
    for (size_t j = 0; j < some; j++)
      values[j] = values[j] * filling.bound + filling.added;
    hr_floats_store(request->dtype, to, (size_t)i, some, values);
  }
}
