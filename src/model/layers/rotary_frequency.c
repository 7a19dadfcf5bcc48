/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layers/rotary_frequency.h"

#include <math.h>

/* Llama 3.1 divides frequencies whose wave is longer than positions / low by the factor, leaves those whose wave is
 * shorter than positions / high, and goes over smoothly between them. Source: its config.json and transformers'
 * modeling_rope_utils.py. */
static double stretch_llama3(const hr_numerics *n, double frequency)
{
  const double turns = n->rotary_positions * frequency / (2 * M_PI);
  const double share = (turns - n->rotary_low) / (n->rotary_high - n->rotary_low);
  const double kept = fmin(1, fmax(0, share));
  return kept * frequency + (1 - kept) * frequency / n->rotary_factor;
}

/* The pair that turns so often within the positions of the model before it was stretched. */
static double pair_with_turns(const hr_numerics *n, double turns, int64_t dim)
{
  return (double)dim * log(n->rotary_positions / (turns * 2 * M_PI)) / (2 * log(n->rotary_base));
}

/* YaRN divides the frequencies of slow pairs by the factor, leaves those of fast ones, and goes over linearly between
 * them. Source: Peng et al., arXiv 2309.00071, section 3.2, and transformers' modeling_rope_utils.py. */
static double stretch_yarn(const hr_numerics *n, double frequency, int64_t pair, int64_t dim)
{
  double low = pair_with_turns(n, n->rotary_high, dim), high = pair_with_turns(n, n->rotary_low, dim);
  low = fmax(0, n->rotary_truncated ? floor(low) : low);
  high = fmin((double)dim - 1, n->rotary_truncated ? ceil(high) : high);
  const double width = high == low ? 0.001 : high - low;
  const double slow = fmin(1, fmax(0, ((double)pair - low) / width));
  return slow * frequency / n->rotary_factor + (1 - slow) * frequency;
}

double hr_rotary_frequency(const hr_numerics *n, bool window, int64_t pair, int64_t dim)
{
  const bool other = window && n->rotary_window_base > 0;
  const double base = other ? n->rotary_window_base : n->rotary_base;
  const double frequency = pow(base, -2.0 * (double)pair / (double)dim);
  switch (other ? HR_ROTARY_UNSCALED : n->rotary_scaling) {
  case HR_ROTARY_LINEAR: return frequency / n->rotary_factor;
  case HR_ROTARY_LLAMA3: return stretch_llama3(n, frequency);
  case HR_ROTARY_YARN: return stretch_yarn(n, frequency, pair, dim);
  default: return frequency;
  }
}
