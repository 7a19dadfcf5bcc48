/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt's interface (runtime/cuda/driver/cublaslt.h) on the emulated GPU: GEMMs that accumulate in fp32, one term
 * after the other. Scales of fp8 are those of the cuBLAS manual of CUDA 13.0, sections "Outer Vector Scaling" and
 * "128-element 1D and 128x128 2D Block Scaling": on compute capability 9.0, A transposed and B not. */
#include "machine.h"
#include "memory.h"
#include "order.h"
#include "turns.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#define _Alignas alignas
extern "C" {
#include "runtime/cuda/driver/cublaslt.h"

#define DECLARE(name, parameters) lt_result name parameters;
HR_CUBLASLT_LIST(DECLARE)
#undef DECLARE
}

using namespace emulation;

constexpr lt_result SUCCESS = LT_SUCCESS, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = LT_NOT_SUPPORTED;

struct lt_handle_st {
  int unused;
};

struct lt_description_st {
  int compute;
  bool transposed[2];
  bool biased;
  const void *bias; /* a number for each row of the result */
  int32_t mode[2];  /* LT_SCALE_… of A and B */
  const float *scales[2];
};

struct lt_layout_st {
  int type;
  uint64_t rows, columns;
  int64_t leading, batch_stride;
  int32_t batch_count;
};

struct lt_preference_st {
  uint32_t alignment[4];
};

/* ---- number formats ---- */

static size_t size_of(int type)
{
  switch (type) {
  case LT_R_64F: return 8;
  case LT_R_32F: return 4;
  case LT_R_16F:
  case LT_R_16BF: return 2;
  case LT_R_8F_E4M3: return 1;
  default: return 0;
  }
}

template <class T> static T load(const void *from, size_t at)
{
  T value;
  memcpy(&value, (const byte *)from + at * sizeof value, sizeof value);
  return value;
}

template <class T> static void store(void *to, size_t at, T value)
{
  memcpy((byte *)to + at * sizeof value, &value, sizeof value);
}

/* An element as Tensor Cores read it: the lower bits of tf32 are truncated. */
static float number_at(int type, bool tf32, const void *from, size_t at)
{
  switch (type) {
  case LT_R_16F: return from_half(load<unsigned short>(from, at));
  case LT_R_16BF: return __builtin_bit_cast(float, (unsigned)load<unsigned short>(from, at) << 16);
  case LT_R_8F_E4M3: return from_e4m3(load<byte>(from, at));
  default: return __builtin_bit_cast(float, load<unsigned>(from, at) & (tf32 ? 0xFFFFE000 : 0xFFFFFFFF));
  }
}

static void put_number(int type, void *to, size_t at, float value)
{
  switch (type) {
  case LT_R_16F: store(to, at, to_half(value)); break;
  case LT_R_16BF: store(to, at, to_bfloat(value)); break;
  case LT_R_8F_E4M3: store(to, at, to_e4m3(value)); break;
  default: store(to, at, value); break;
  }
}

/* ---- descriptors ---- */

template <class T> static lt_result make(T **made, T value)
{
  *made = new T(value);
  return SUCCESS;
}

extern "C" size_t cublasLtGetVersion(void)
{
  return 130000;
}

extern "C" const char *cublasLtGetStatusString(lt_result result)
{
  return result == NOT_SUPPORTED      ? "not supported"
         : result == EXECUTION_FAILED ? "an operand is outside of a buffer or misaligned"
                                      : "invalid value";
}

lt_result cublasLtCreate(lt_handle *handle)
{
  return make(handle, lt_handle_st{0});
}

lt_result cublasLtDestroy(lt_handle handle)
{
  delete handle;
  return SUCCESS;
}

lt_result cublasLtMatmulDescCreate(lt_description *description, int compute, int scale)
{
  if (scale != LT_R_32F)
    return NOT_SUPPORTED;
  return make(description, lt_description_st{compute, {false, false}, false, nullptr, {0, 0}, {nullptr, nullptr}});
}

lt_result cublasLtMatmulDescInit_internal(lt_description description, size_t bytes, int compute, int scale)
{
  if (scale != LT_R_32F)
    return NOT_SUPPORTED;
  if (bytes < sizeof *description)
    return INVALID_VALUE;
  *description = lt_description_st{compute, {false, false}, false, nullptr, {0, 0}, {nullptr, nullptr}};
  return SUCCESS;
}

lt_result cublasLtMatmulDescDestroy(lt_description description)
{
  delete description;
  return SUCCESS;
}

lt_result cublasLtMatmulDescSetAttribute(lt_description description, int attribute, const void *value, size_t bytes)
{
  if ((attribute == LT_DESCRIPTION_SCALE_A || attribute == LT_DESCRIPTION_SCALE_B) && bytes == sizeof(void *)) {
    description->scales[attribute == LT_DESCRIPTION_SCALE_B] = load<const float *>(value, 0);
    return SUCCESS;
  }
  if ((attribute == LT_DESCRIPTION_SCALE_MODE_A || attribute == LT_DESCRIPTION_SCALE_MODE_B) &&
      bytes == sizeof(int32_t)) {
    description->mode[attribute == LT_DESCRIPTION_SCALE_MODE_B] = load<int32_t>(value, 0);
    return SUCCESS;
  }
  if (attribute == LT_DESCRIPTION_BIAS_POINTER && bytes == sizeof(void *)) {
    description->bias = load<const void *>(value, 0);
    return SUCCESS;
  }
  if (bytes != sizeof(int32_t))
    return INVALID_VALUE;
  if (attribute == LT_DESCRIPTION_EPILOGUE && load<int32_t>(value, 0) == LT_EPILOGUE_BIAS) {
    description->biased = true;
    return SUCCESS;
  }
  if (attribute != LT_DESCRIPTION_TRANSA && attribute != LT_DESCRIPTION_TRANSB)
    return INVALID_VALUE;
  description->transposed[attribute == LT_DESCRIPTION_TRANSB] = load<int32_t>(value, 0) == LT_OP_T;
  return SUCCESS;
}

lt_result cublasLtMatrixLayoutCreate(lt_layout *layout, int type, uint64_t rows, uint64_t columns, int64_t leading)
{
  if (size_of(type) == 0 || leading < (int64_t)rows)
    return INVALID_VALUE;
  return make(layout, lt_layout_st{type, rows, columns, leading, 0, 1});
}

lt_result cublasLtMatrixLayoutDestroy(lt_layout layout)
{
  delete layout;
  return SUCCESS;
}

lt_result cublasLtMatrixLayoutSetAttribute(lt_layout layout, int attribute, const void *value, size_t bytes)
{
  if (attribute == LT_LAYOUT_BATCH_COUNT && bytes == sizeof(int32_t))
    layout->batch_count = load<int32_t>(value, 0);
  else if (attribute == LT_LAYOUT_BATCH_STRIDE && bytes == sizeof(int64_t))
    layout->batch_stride = load<int64_t>(value, 0);
  else
    return INVALID_VALUE;
  return SUCCESS;
}

lt_result cublasLtMatmulPreferenceCreate(lt_preference *preference)
{
  return make(preference, lt_preference_st{{256, 256, 256, 256}});
}

lt_result cublasLtMatmulPreferenceDestroy(lt_preference preference)
{
  delete preference;
  return SUCCESS;
}

lt_result cublasLtMatmulPreferenceSetAttribute(lt_preference preference, int attribute, const void *value, size_t bytes)
{
  int operand = attribute - LT_PREFERENCE_ALIGNMENT_A;
  if (operand >= 0 && operand < 4 && bytes == sizeof(uint32_t))
    preference->alignment[operand] = load<uint32_t>(value, 0);
  return SUCCESS;
}

/* ---- the GEMM ---- */

/* D and C are m × n, A is m × k and B is k × n after transposition. */
struct sizes {
  uint64_t m, n, k;
};

static bool find_sizes(lt_description d, lt_layout a, lt_layout b, lt_layout result, sizes *s)
{
  s->m = d->transposed[0] ? a->columns : a->rows;
  s->k = d->transposed[0] ? a->rows : a->columns;
  s->n = d->transposed[1] ? b->rows : b->columns;
  return s->k == (d->transposed[1] ? b->columns : b->rows) && s->m == result->rows && s->n == result->columns &&
         a->batch_count == result->batch_count && b->batch_count == result->batch_count;
}

/* ---- scales ---- */

constexpr uint64_t BLOCK = 128, FP8_UNIT = 16;

static int emulated_capability()
{
  const char *text = getenv("HEADROOM_EMULATED_CAPABILITY");
  return text ? atoi(text) : 90;
}

static uint64_t blocks_of(uint64_t size)
{
  return (size + BLOCK - 1) / BLOCK;
}

static bool is_scaled(lt_description d)
{
  return d->mode[0] != LT_SCALE_SCALAR || d->mode[1] != LT_SCALE_SCALAR;
}

static bool takes_scales(lt_description d, const sizes &s, lt_layout a, lt_layout b, lt_layout result)
{
  const int32_t first = d->mode[0], second = d->mode[1];
  const bool vectors = first == LT_SCALE_OUTER_VECTOR && second == LT_SCALE_OUTER_VECTOR;
  const bool blocks =
      (first == LT_SCALE_VECTOR_128 && (second == LT_SCALE_VECTOR_128 || second == LT_SCALE_BLOCK_128)) ||
      (first == LT_SCALE_BLOCK_128 && second == LT_SCALE_VECTOR_128);
  return (vectors || blocks) && emulated_capability() == 90 && a->type == LT_R_8F_E4M3 && b->type == LT_R_8F_E4M3 &&
         result->type != LT_R_8F_E4M3 && d->transposed[0] && !d->transposed[1] && !d->biased && s.m % FP8_UNIT == 0 &&
         s.n % FP8_UNIT == 0 && s.k % FP8_UNIT == 0;
}

/* Scales of A with m rows of op(A), or of B with n columns of op(B). */
static uint64_t count_scales(int32_t mode, uint64_t rows, uint64_t k)
{
  switch (mode) {
  case LT_SCALE_OUTER_VECTOR: return rows;
  case LT_SCALE_VECTOR_128: return rows * blocks_of(k);
  case LT_SCALE_BLOCK_128: return (blocks_of(k) + 3) / 4 * 4 * blocks_of(rows);
  default: return 0;
  }
}

static bool has_scales(lt_description d, const sizes &s)
{
  bool there = true;
  for (int i = 0; i < 2; i++)
    there = there && (uintptr_t)d->scales[i] % 16 == 0 &&
            memory_holds(d->scales[i], count_scales(d->mode[i], i == 0 ? s.m : s.n, s.k) * sizeof(float));
  return there;
}

/* An operand's scale for a row and a block of k. */
static float scale_at(lt_description d, int operand, uint64_t row, uint64_t block, const sizes &s)
{
  const float *scales = d->scales[operand];
  switch (d->mode[operand]) {
  case LT_SCALE_OUTER_VECTOR: return scales[row];
  case LT_SCALE_VECTOR_128: return scales[block * (operand == 0 ? s.m : s.n) + row];
  case LT_SCALE_BLOCK_128: return scales[row / BLOCK * ((blocks_of(s.k) + 3) / 4 * 4) + block];
  default: return 1;
  }
}

lt_result cublasLtMatmulAlgoGetHeuristic(lt_handle, lt_description description, lt_layout a, lt_layout b, lt_layout,
                                         lt_layout d, lt_preference preference, int wanted, lt_heuristic *results,
                                         int *found)
{
  sizes s;
  *found = 0;
  if (!find_sizes(description, a, b, d, &s))
    return INVALID_VALUE;
  if (a->type == LT_R_64F || (is_scaled(description) && !takes_scales(description, s, a, b, d)))
    return NOT_SUPPORTED;
  if (wanted < 1)
    return INVALID_VALUE;
  results[0] = {};
  for (int i = 0; i < 4; i++)
    results[0].algorithm.data[i] = preference->alignment[i];
  *found = 1;
  return SUCCESS;
}

/* One algorithm, number 0, without split-K. */
lt_result cublasLtMatmulAlgoConfigGetAttribute(const lt_algorithm *, int attribute, void *value, size_t bytes,
                                               size_t *written)
{
  memset(value, 0, bytes);
  if (attribute == LT_CONFIG_SPLIT_K)
    store(value, 0, (uint32_t)1);
  *written = bytes;
  return SUCCESS;
}

/* op(X) as floats, [rows][columns]. */
static std::vector<float> take(const void *from, lt_layout layout, bool transposed, bool tf32, uint64_t rows,
                               uint64_t columns)
{
  std::vector<float> values(rows * columns);
  for (uint64_t row = 0; row < rows; row++)
    for (uint64_t column = 0; column < columns; column++)
      values[row * columns + column] =
          number_at(layout->type, tf32, from,
                    transposed ? row * (uint64_t)layout->leading + column : column * (uint64_t)layout->leading + row);
  return values;
}

/* A row of the result, whose blocks of k have scales. */
static void accumulate_blocks(const sizes &s, lt_description d, uint64_t row, const std::vector<float> &left,
                              const std::vector<float> &right, std::vector<float> &accumulators)
{
  for (uint64_t column = 0; column < s.n; column++) {
    accumulators[column] = 0;
    for (uint64_t block = 0; block < blocks_of(s.k); block++) {
      float sum = 0;
      for (uint64_t i = block * BLOCK; i < std::min(s.k, (block + 1) * BLOCK); i++)
        sum += left[row * s.k + i] * right[i * s.n + column];
      accumulators[column] += sum * scale_at(d, 0, row, block, s) * scale_at(d, 1, column, block, s);
    }
  }
}

static void multiply_one(const sizes &s, lt_description d, const void *a, lt_layout a_layout, const void *b,
                         lt_layout b_layout, void *result, lt_layout result_layout)
{
  bool tf32 = d->compute == LT_COMPUTE_32F_FAST_TF32;
  std::vector<float> left = take(a, a_layout, d->transposed[0], tf32, s.m, s.k);
  std::vector<float> right = take(b, b_layout, d->transposed[1], tf32, s.k, s.n), accumulators(s.n);
  for (uint64_t row = 0; row < s.m; row++) {
    const float bias = d->biased ? number_at(result_layout->type, false, d->bias, row) : 0;
    accumulators.assign(s.n, 0);
    for (uint64_t i = 0; i < s.k; i++)
      for (uint64_t column = 0; column < s.n; column++)
        accumulators[column] += left[row * s.k + i] * right[i * s.n + column];
    if (is_scaled(d))
      accumulate_blocks(s, d, row, left, right, accumulators);
    for (uint64_t column = 0; column < s.n; column++)
      put_number(result_layout->type, result, column * (uint64_t)result_layout->leading + row,
                 accumulators[column] + bias);
  }
}

/* A batch of products, with descriptors as they were when it was queued. */
struct product {
  sizes s;
  lt_description_st description;
  lt_layout_st a_layout, b_layout, d_layout;
  const void *a, *b;
  void *d;
};

static const byte *matrix_at(const void *first, const lt_layout_st &layout, int64_t i)
{
  return (const byte *)first + (size_t)(i * layout.batch_stride) * size_of(layout.type);
}

static void multiply(product all)
{
  for (int64_t i = 0; i < all.d_layout.batch_count; i++)
    multiply_one(all.s, &all.description, matrix_at(all.a, all.a_layout, i), &all.a_layout,
                 matrix_at(all.b, all.b_layout, i), &all.b_layout, (byte *)matrix_at(all.d, all.d_layout, i),
                 &all.d_layout);
}

/* Algorithms assume no more than 16 bytes of an address, also where 256 are the default. */
static bool is_usable(const void *data, lt_layout layout, uint64_t alignment)
{
  uint64_t last = (uint64_t)(layout->batch_count - 1) * (uint64_t)layout->batch_stride +
                  (layout->columns - 1) * (uint64_t)layout->leading + layout->rows;
  return (uintptr_t)data % std::min(alignment, (uint64_t)16) == 0 && memory_holds(data, last * size_of(layout->type));
}

lt_result cublasLtMatmul(lt_handle, lt_description description, const void *alpha, const void *a, lt_layout a_layout,
                         const void *b, lt_layout b_layout, const void *beta, const void *, lt_layout, void *d,
                         lt_layout d_layout, const lt_algorithm *algorithm, void *, size_t, cu_stream stream)
{
  turn mine;
  sizes s;
  if (!find_sizes(description, a_layout, b_layout, d_layout, &s) || load<float>(alpha, 0) != 1 ||
      load<float>(beta, 0) != 0)
    return INVALID_VALUE;
  if (!is_usable(a, a_layout, algorithm->data[0]) || !is_usable(b, b_layout, algorithm->data[1]) ||
      !is_usable(d, d_layout, algorithm->data[3]))
    return EXECUTION_FAILED;
  if (description->biased && !memory_holds(description->bias, s.m * size_of(d_layout->type)))
    return EXECUTION_FAILED;
  if (is_scaled(description) &&
      (!takes_scales(description, s, a_layout, b_layout, d_layout) || !has_scales(description, s)))
    return EXECUTION_FAILED;
  const product all = {s, *description, *a_layout, *b_layout, *d_layout, a, b, d};
  return order(stream, [all] { return multiply(all), 0; }) == 0 ? SUCCESS : EXECUTION_FAILED;
}
