/* SPDX-License-Identifier: Apache-2.0 */
/* The part of cuBLASLt that is used: types, constants and entry points as in its documentation. */
#ifndef HR_RUNTIME_CUDA_DRIVER_CUBLASLT_H
#define HR_RUNTIME_CUDA_DRIVER_CUBLASLT_H

#include "runtime/cuda/driver/driver.h"

typedef int lt_result;
typedef struct lt_handle_st *lt_handle;
typedef struct lt_description_st *lt_description; /* of a matmul */
typedef struct lt_layout_st *lt_layout;           /* of a matrix */
typedef struct lt_preference_st *lt_preference;

enum { LT_SUCCESS = 0, LT_ALLOC_FAILED = 3, LT_NOT_SUPPORTED = 15 };

enum { /* cudaDataType_t */
       LT_R_32F = 0,
       LT_R_64F = 1,
       LT_R_16F = 2,
       LT_R_16BF = 14,
       LT_R_8F_E4M3 = 28
};

enum { /* cublasComputeType_t */
       LT_COMPUTE_32F = 68,
       LT_COMPUTE_32F_FAST_TF32 = 77
};

enum {
  LT_OP_N = 0,
  LT_OP_T = 1,
  LT_DESCRIPTION_TRANSA = 3,
  LT_DESCRIPTION_TRANSB = 4,
  LT_DESCRIPTION_EPILOGUE = 7,
  LT_DESCRIPTION_BIAS_POINTER = 8,
  LT_DESCRIPTION_SCALE_A = 17,
  LT_DESCRIPTION_SCALE_B = 18,
  LT_DESCRIPTION_SCALE_MODE_A = 31,
  LT_DESCRIPTION_SCALE_MODE_B = 32,
  LT_SCALE_SCALAR = 0,
  LT_SCALE_OUTER_VECTOR = 3, /* fp32, of rows of A and columns of B, from CUDA 12.9 on, as the next */
  LT_SCALE_VECTOR_128 = 4,   /* of 128 elements of k: [blocks of k, rows of A or columns of B] */
  LT_SCALE_BLOCK_128 = 5,    /* of 128 of these, too: [blocks of rows, blocks of k rounded up to 4] */
  LT_EPILOGUE_BIAS = 4,      /* of the rows of a column-major result */
  LT_LAYOUT_BATCH_COUNT = 5,
  LT_LAYOUT_BATCH_STRIDE = 6,
  LT_PREFERENCE_WORKSPACE_BYTES = 1,
  LT_PREFERENCE_REDUCTIONS = 3,  /* a mask of LT_REDUCTION_… */
  LT_PREFERENCE_ALIGNMENT_A = 5, /* then of B, C and D */
  LT_REDUCTION_IN_PLACE = 1,
  LT_REDUCTION_COMPUTE_TYPE = 2,
  LT_REDUCTION_OUTPUT_TYPE = 4,
  LT_CONFIG_ID = 0,
  LT_CONFIG_TILE = 1,
  LT_CONFIG_SPLIT_K = 2,
  LT_CONFIG_REDUCTION = 3,
  LT_CONFIG_STAGES = 6,
  LT_CONFIG_CLUSTER = 8
};

typedef struct lt_algorithm {
  uint64_t data[8];
} lt_algorithm;

typedef struct lt_heuristic {
  lt_algorithm algorithm;
  size_t workspace_bytes;
  lt_result state;
  float waves;
  int reserved[4];
} lt_heuristic;

#define HR_CUBLASLT_LIST(ROW)                                                                                       \
  ROW(cublasLtCreate, (lt_handle * handle))                                                                         \
  ROW(cublasLtDestroy, (lt_handle handle))                                                                          \
  ROW(cublasLtMatmulDescCreate, (lt_description * description, int compute, int scale))                             \
  ROW(cublasLtMatmulDescInit_internal, (lt_description description, size_t bytes, int compute, int scale))          \
  ROW(cublasLtMatmulDescDestroy, (lt_description description))                                                      \
  ROW(cublasLtMatmulDescSetAttribute, (lt_description description, int attribute, const void *value, size_t bytes)) \
  ROW(cublasLtMatrixLayoutCreate, (lt_layout * layout, int type, uint64_t rows, uint64_t columns, int64_t leading)) \
  ROW(cublasLtMatrixLayoutDestroy, (lt_layout layout))                                                              \
  ROW(cublasLtMatrixLayoutSetAttribute, (lt_layout layout, int attribute, const void *value, size_t bytes))         \
  ROW(cublasLtMatmulPreferenceCreate, (lt_preference * preference))                                                 \
  ROW(cublasLtMatmulPreferenceDestroy, (lt_preference preference))                                                  \
  ROW(cublasLtMatmulPreferenceSetAttribute,                                                                         \
      (lt_preference preference, int attribute, const void *value, size_t bytes))                                   \
  ROW(cublasLtMatmulAlgoGetHeuristic,                                                                               \
      (lt_handle handle, lt_description description, lt_layout a, lt_layout b, lt_layout c, lt_layout d,            \
       lt_preference preference, int wanted, lt_heuristic *results, int *found))                                    \
  ROW(cublasLtMatmulAlgoConfigGetAttribute,                                                                         \
      (const lt_algorithm *algorithm, int attribute, void *value, size_t bytes, size_t *written))                   \
  ROW(cublasLtMatmul,                                                                                               \
      (lt_handle handle, lt_description description, const void *alpha, const void *a, lt_layout a_layout,          \
       const void *b, lt_layout b_layout, const void *beta, const void *c, lt_layout c_layout, void *d,             \
       lt_layout d_layout, const lt_algorithm *algorithm, void *workspace, size_t workspace_bytes, cu_stream stream))

typedef struct hr_cublaslt {
  void *handle; /* of the library */
  size_t (*cublasLtGetVersion)(void);
  const char *(*cublasLtGetStatusString)(lt_result result);
#define HR_CUBLASLT_MEMBER(name, parameters) lt_result(*name) parameters;
  HR_CUBLASLT_LIST(HR_CUBLASLT_MEMBER)
#undef HR_CUBLASLT_MEMBER
} hr_cublaslt;

/** Loads cuBLASLt. HR_ERROR_UNAVAILABLE with what is missing; *lt is then closed. */
hr_status hr_cublaslt_open(hr_cublaslt *lt, hr_error *error);
void hr_cublaslt_close(hr_cublaslt *lt); /* a closed one is allowed */

/** "13.0.2". */
void hr_cublaslt_version(const hr_cublaslt *lt, char *text, size_t size);

hr_status hr_cublaslt_check(const hr_cublaslt *lt, lt_result result, const char *call, hr_error *error);

/** Calls cuBLASLt as HR_CU() calls the driver. */
#define HR_LT(lt, name, arguments, error) hr_cublaslt_check(lt, (lt)->name arguments, #name, error)

#endif
