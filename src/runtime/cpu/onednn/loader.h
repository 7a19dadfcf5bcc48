/* SPDX-License-Identifier: Apache-2.0 */
/* The part of oneDNN's C interface that Headroom uses: types, constants and entry points from its documentation, so
 * that building needs no oneDNN and one binary works with API 2 (Debian 12) and API 3. The two differ in how
 * operands and matmuls are described; these constants are the same in both. */
#ifndef HR_RUNTIME_CPU_ONEDNN_LOADER_H
#define HR_RUNTIME_CPU_ONEDNN_LOADER_H

#include "runtime/cpu/host/openmp.h"

#include <headroom/status.h>
#include <stddef.h>
#include <stdint.h>

typedef int dnnl_status_t;
typedef struct dnnl_engine *dnnl_engine_t;
typedef struct dnnl_stream *dnnl_stream_t;
typedef struct dnnl_primitive *dnnl_primitive_t;
typedef struct dnnl_primitive_desc *dnnl_primitive_desc_t;
typedef struct dnnl_primitive_attr *dnnl_primitive_attr_t;
typedef struct dnnl_memory *dnnl_memory_t;
typedef int64_t dnnl_dims_t[12];

enum { DNNL_SUCCESS = 0, DNNL_OUT_OF_MEMORY = 1, DNNL_INVALID_ARGUMENTS = 2, DNNL_UNIMPLEMENTED = 3 };
enum { DNNL_CPU = 1, DNNL_STREAM_DEFAULT = 1, DNNL_BF16 = 2, DNNL_F32 = 3, DNNL_SCRATCHPAD_USER = 1 };
enum { DNNL_QUERY_IMPLEMENTATION = 8, DNNL_QUERY_SCRATCHPAD = 136 };
enum { DNNL_ARG_SRC = 1, DNNL_ARG_DST = 17, DNNL_ARG_WEIGHTS = 33, DNNL_ARG_BIAS = 41, DNNL_ARG_SCRATCHPAD = 80 };
enum { DNNL_ISA_SSE41 = 0x1, DNNL_ISA_AVX2 = 0x7, DNNL_ISA_AVX512 = 0x27, DNNL_ISA_AVX512_BF16 = 0xe7 };

typedef struct dnnl_exec_arg_t {
  int arg;
  dnnl_memory_t memory;
} dnnl_exec_arg_t;

typedef struct dnnl_version_t { /* its beginning */
  int major, minor, patch;
} dnnl_version_t;

/* In API 2 these are structs that the caller holds, of 696 and 2800 bytes in version 2.6; in API 3 an operand's
 * description is an object of the library. */
#define HR_ONEDNN_OPERAND_BYTES 1024
#define HR_ONEDNN_MATMUL_BYTES 8192

/* Entry points of both APIs: name, parameters. `void *` is a memory descriptor. */
#define HR_ONEDNN_LIST(ROW)                                                                                   \
  ROW(dnnl_engine_create, (dnnl_engine_t * engine, int kind, size_t index))                                   \
  ROW(dnnl_engine_destroy, (dnnl_engine_t engine))                                                            \
  ROW(dnnl_stream_create, (dnnl_stream_t * stream, dnnl_engine_t engine, unsigned flags))                     \
  ROW(dnnl_stream_destroy, (dnnl_stream_t stream))                                                            \
  ROW(dnnl_stream_wait, (dnnl_stream_t stream))                                                               \
  ROW(dnnl_primitive_attr_create, (dnnl_primitive_attr_t * attributes))                                       \
  ROW(dnnl_primitive_attr_destroy, (dnnl_primitive_attr_t attributes))                                        \
  ROW(dnnl_primitive_attr_set_scratchpad_mode, (dnnl_primitive_attr_t attributes, int mode))                  \
  ROW(dnnl_primitive_desc_destroy, (dnnl_primitive_desc_t description))                                       \
  ROW(dnnl_primitive_desc_query, (dnnl_primitive_desc_t description, int what, int index, void *result))      \
  ROW(dnnl_primitive_create, (dnnl_primitive_t * primitive, dnnl_primitive_desc_t description))               \
  ROW(dnnl_primitive_destroy, (dnnl_primitive_t primitive))                                                   \
  ROW(dnnl_primitive_execute,                                                                                 \
      (dnnl_primitive_t primitive, dnnl_stream_t stream, int count, const dnnl_exec_arg_t *arguments))        \
  ROW(dnnl_memory_create, (dnnl_memory_t * memory, const void *operand, dnnl_engine_t engine, void *address)) \
  ROW(dnnl_memory_destroy, (dnnl_memory_t memory))                                                            \
  ROW(dnnl_set_max_cpu_isa, (int isa))

#define HR_ONEDNN_2_LIST(ROW)                                                                                \
  ROW(dnnl_memory_desc_init_by_strides,                                                                      \
      (void *operand, int rank, const dnnl_dims_t sizes, int type, const dnnl_dims_t strides))               \
  ROW(dnnl_matmul_desc_init, (void *product, const void *a, const void *b, const void *bias, const void *c)) \
  ROW(dnnl_primitive_desc_create, (dnnl_primitive_desc_t * description, const void *product,                 \
                                   dnnl_primitive_attr_t attributes, dnnl_engine_t engine, const void *forward))

#define HR_ONEDNN_3_LIST(ROW)                                                                                     \
  ROW(dnnl_memory_desc_create_with_strides,                                                                       \
      (void **operand, int rank, const dnnl_dims_t sizes, int type, const dnnl_dims_t strides))                   \
  ROW(dnnl_memory_desc_destroy, (void *operand))                                                                  \
  ROW(dnnl_matmul_primitive_desc_create,                                                                          \
      (dnnl_primitive_desc_t * description, dnnl_engine_t engine, const void *a, const void *b, const void *bias, \
       const void *c, dnnl_primitive_attr_t attributes))

typedef struct hr_onednn_api {
  void *handle;
  dnnl_version_t version;
  const dnnl_version_t *(*dnnl_version)(void);
  size_t (*dnnl_memory_desc_get_size)(const void *operand);
  const void *(*dnnl_primitive_desc_query_md)(dnnl_primitive_desc_t description, int what, int index);
  hr_openmp openmp; /* of the OpenMP library that this oneDNN was loaded with */
#define HR_ONEDNN_MEMBER(name, parameters) dnnl_status_t(*name) parameters;
  HR_ONEDNN_LIST(HR_ONEDNN_MEMBER)
  HR_ONEDNN_2_LIST(HR_ONEDNN_MEMBER) /* NULL in API 3 */
  HR_ONEDNN_3_LIST(HR_ONEDNN_MEMBER) /* NULL in API 2 */
#undef HR_ONEDNN_MEMBER
} hr_onednn_api;

/** The file that the environment variable HEADROOM_ONEDNN names, or NULL. */
const char *hr_onednn_named_file(void);

/** Loads that file, or else libdnnl.so.3 or libdnnl.so.2, the first that exists and uses OpenMP, without which the
 *  number of threads could not be set. HR_ERROR_UNAVAILABLE with the reason; *api is then closed. */
hr_status hr_onednn_load(hr_onednn_api *api, hr_error *error);
void hr_onednn_unload(hr_onednn_api *api); /* a closed one is allowed */

#endif
