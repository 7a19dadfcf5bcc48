/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor Cores (mma.sync), ldmatrix, stmatrix and the number formats. Fragments have the layouts of the PTX manual. */
#include "block.h"

#include <cmath>
#include <cstring>

namespace emulation {

/* ---- number formats ---- */

static float float_of(unsigned bits)
{
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static unsigned bits_of(float value)
{
  unsigned bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Rounds to `mantissa` bits, with an exponent of at most `most` and a smallest normal number of 2^least; ties to
 * even. */
static double rounded(double value, int mantissa, int least)
{
  int exponent;
  frexp(value, &exponent);
  exponent = exponent - 1 < least ? least : exponent - 1;
  return ldexp(nearbyint(ldexp(value, mantissa - exponent)), exponent - mantissa);
}

static float compute_half(unsigned short bits)
{
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float size = exponent == 31  ? (mantissa ? NAN : INFINITY)
               : exponent == 0 ? ldexpf((float)mantissa, -24)
                               : ldexpf((float)(mantissa | 1024), exponent - 25);
  return bits >> 15 ? -size : size;
}

struct half_table {
  float values[1 << 16];
  half_table()
  {
    for (unsigned i = 0; i < 1 << 16; i++)
      values[i] = compute_half((unsigned short)i);
  }
};

float from_half(unsigned short bits)
{
  static const half_table table;
  return table.values[bits];
}

unsigned short to_half(float value)
{
  unsigned short sign = (unsigned short)(bits_of(value) >> 16 & 0x8000);
  if (value != value)
    return 0x7FFF;
  double size = rounded(fabs((double)value), 10, -14);
  if (size >= 65536)
    return sign | 0x7C00;
  if (size < 0x1p-14)
    return sign | (unsigned short)(size * 0x1p24);
  unsigned bits = bits_of((float)size);
  return sign | (unsigned short)((bits >> 13) - (112u << 10));
}

unsigned short to_bfloat(float value)
{
  unsigned bits = bits_of(value);
  if (value != value)
    return 0x7FFF;
  return (unsigned short)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float from_e4m3(byte bits)
{
  int exponent = bits >> 3 & 15, mantissa = bits & 7;
  float size = (bits & 0x7F) == 0x7F ? NAN
               : exponent == 0       ? ldexpf((float)mantissa, -9)
                                     : ldexpf((float)(mantissa | 8), exponent - 10);
  return bits >> 7 ? -size : size;
}

/* Larger values saturate at 448. */
byte to_e4m3(float value)
{
  byte sign = bits_of(value) >> 31 ? 0x80 : 0;
  if (value != value)
    return 0x7F;
  double size = rounded(fmin(fabs((double)value), 1e6), 3, -6);
  if (size > 448)
    return sign | 0x7E;
  if (size < 0x1p-6)
    return sign | (byte)(size * 0x1p9);
  int exponent;
  double fraction = frexp(size, &exponent); /* 0.5 … 1 */
  return sign | (byte)((exponent + 6) << 3 | (int)(fraction * 16 - 8));
}

unsigned to_tf32(float value, bool ties_away)
{
  unsigned bits = bits_of(value);
  if (value != value)
    return 0x7FFFFFFF;
  if (std::isinf(value))
    return bits;
  unsigned half = ties_away ? 0x1000 : 0xFFF + (bits >> 13 & 1);
  return (bits + half) & 0xFFFFE000;
}

/* ---- matrices in shared memory ---- */

void ldmatrix(unsigned *const *to, unsigned count, unsigned address, bool transposed)
{
  struct loading {
    unsigned *const *to;
    const byte *row;
  } mine = {to, nullptr};
  if (lane() < 8 * count)
    note_read(mine.row = shared_bytes(address, 16, 16, "ldmatrix"), 16);
  together(~0u, transposed ? "ldmatrix.trans" : "ldmatrix", mine, [&](loading *const *lanes) {
    for (unsigned m = 0; m < count; m++)
      for (unsigned t = 0; t < LANES; t++) {
        unsigned word;
        if (transposed) {
          unsigned short low, high;
          memcpy(&low, lanes[m * 8 + t % 4 * 2]->row + t / 4 * 2, 2);
          memcpy(&high, lanes[m * 8 + t % 4 * 2 + 1]->row + t / 4 * 2, 2);
          word = low | (unsigned)high << 16;
        } else {
          memcpy(&word, lanes[m * 8 + t / 4]->row + t % 4 * 4, 4);
        }
        *lanes[t]->to[m] = word;
      }
  });
}

void stmatrix(unsigned address, const unsigned *from, unsigned count, bool transposed)
{
  struct storing {
    const unsigned *from;
    byte *row;
  } mine = {from, nullptr};
  if (lane() < 8 * count)
    note_write(mine.row = shared_bytes(address, 16, 16, "stmatrix"), 16);
  together(~0u, transposed ? "stmatrix.trans" : "stmatrix", mine, [&](storing *const *lanes) {
    for (unsigned m = 0; m < count; m++)
      for (unsigned t = 0; t < LANES; t++) {
        unsigned short halves[2] = {(unsigned short)lanes[t]->from[m], (unsigned short)(lanes[t]->from[m] >> 16)};
        for (unsigned i = 0; i < 2; i++) {
          unsigned row = transposed ? t % 4 * 2 + i : t / 4, column = transposed ? t / 4 : t % 4 * 2 + i;
          memcpy(lanes[m * 8 + row]->row + column * 2, &halves[i], 2);
        }
      }
  });
}

/* ---- mma.sync ---- */

/* Element i of a register as Tensor Cores read it: the lower bits of tf32 are truncated. */
template <format TYPE> static float number_in(unsigned word, int i)
{
  switch (TYPE) {
  case format::f16: return from_half((unsigned short)(word >> 16 * i));
  case format::bf16: return float_of(word >> 16 * i << 16);
  case format::tf32: return float_of(word & 0xFFFFE000);
  case format::e4m3: return from_e4m3((byte)(word >> 8 * i));
  }
  return 0;
}

struct multiplying {
  float *const *d;
  const unsigned *a, *b;
  const float *c;
};

/* A register of A or B holds `wide` elements; fragments are indexed in columns of 32-bit registers. */
template <format TYPE> static void execute_warp(multiplying *const *lanes)
{
  constexpr int wide = TYPE == format::tf32 ? 1 : TYPE == format::e4m3 ? 4 : 2, depth = 8 * wide;
  float a[16][depth], b[depth][8], accumulators[16][8];
  for (int t = 0; t < LANES; t++)
    for (int i = 0; i < wide; i++) {
      for (int e = 0; e < 4; e++)
        a[t / 4 + e % 2 * 8][(t % 4 + e / 2 * 4) * wide + i] = number_in<TYPE>(lanes[t]->a[e], i);
      for (int e = 0; e < 2; e++)
        b[(t % 4 + e * 4) * wide + i][t / 4] = number_in<TYPE>(lanes[t]->b[e], i);
    }
  for (int t = 0; t < LANES; t++)
    for (int e = 0; e < 4; e++)
      accumulators[t / 4 + e / 2 * 8][t % 4 * 2 + e % 2] = lanes[t]->c[e];
  for (int row = 0; row < 16; row++)
    for (int k = 0; k < depth; k++)
      for (int column = 0; column < 8; column++)
        accumulators[row][column] += a[row][k] * b[k][column];
  for (int t = 0; t < LANES; t++)
    for (int e = 0; e < 4; e++)
      *lanes[t]->d[e] = accumulators[t / 4 + e / 2 * 8][t % 4 * 2 + e % 2];
}

void mma(format type, float *const *d, const unsigned *a, const unsigned *b, const float *c)
{
  multiplying mine = {d, a, b, c};
  together(~0u, "mma", mine, [&](multiplying *const *lanes) {
    switch (type) {
    case format::f16: execute_warp<format::f16>(lanes); break;
    case format::bf16: execute_warp<format::bf16>(lanes); break;
    case format::tf32: execute_warp<format::tf32>(lanes); break;
    case format::e4m3: execute_warp<format::e4m3>(lanes); break;
    }
  });
}

} // namespace emulation
