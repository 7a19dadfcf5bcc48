/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a checkpoint in safetensors files, and whether they are those of a model.
 *
 * hr_resolve_checkpoint() reads one. Thread safety: an hr_checkpoint is a value; the functions are pure. */
#ifndef HEADROOM_EXPERIMENTAL_CHECKPOINT_H
#define HEADROOM_EXPERIMENTAL_CHECKPOINT_H

#include <headroom/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Number formats of tensors: enumerator, name, name in the files, bits of an element. Source: the Dtype of safetensors.
 * hr_dtype has those that are computed in. */
#define HR_TENSOR_FORMAT_LIST(ROW)                              \
  ROW(HR_TENSOR_FP64, "fp64", "F64", 64)                        \
  ROW(HR_TENSOR_FP32, "fp32", "F32", 32)                        \
  ROW(HR_TENSOR_FP16, "fp16", "F16", 16)                        \
  ROW(HR_TENSOR_BF16, "bf16", "BF16", 16)                       \
  ROW(HR_TENSOR_FP8_E4M3, "fp8_e4m3", "F8_E4M3", 8)             \
  ROW(HR_TENSOR_FP8_E5M2, "fp8_e5m2", "F8_E5M2", 8)             \
  ROW(HR_TENSOR_FP8_E4M3FNUZ, "fp8_e4m3fnuz", "F8_E4M3FNUZ", 8) \
  ROW(HR_TENSOR_FP8_E5M2FNUZ, "fp8_e5m2fnuz", "F8_E5M2FNUZ", 8) \
  ROW(HR_TENSOR_FP8_E8M0, "fp8_e8m0", "F8_E8M0", 8)             \
  ROW(HR_TENSOR_FP6_E2M3, "fp6_e2m3", "F6_E2M3", 6)             \
  ROW(HR_TENSOR_FP6_E3M2, "fp6_e3m2", "F6_E3M2", 6)             \
  ROW(HR_TENSOR_FP4, "fp4", "F4", 4)                            \
  ROW(HR_TENSOR_COMPLEX64, "complex64", "C64", 64)              \
  ROW(HR_TENSOR_INT64, "int64", "I64", 64)                      \
  ROW(HR_TENSOR_UINT64, "uint64", "U64", 64)                    \
  ROW(HR_TENSOR_INT32, "int32", "I32", 32)                      \
  ROW(HR_TENSOR_UINT32, "uint32", "U32", 32)                    \
  ROW(HR_TENSOR_INT16, "int16", "I16", 16)                      \
  ROW(HR_TENSOR_UINT16, "uint16", "U16", 16)                    \
  ROW(HR_TENSOR_INT8, "int8", "I8", 8)                          \
  ROW(HR_TENSOR_UINT8, "uint8", "U8", 8)                        \
  ROW(HR_TENSOR_BOOL, "bool", "BOOL", 8)

typedef enum hr_tensor_format {
#define HR_TENSOR_FORMAT_ENUM(enumerator, name, stored, bits) enumerator,
  HR_TENSOR_FORMAT_LIST(HR_TENSOR_FORMAT_ENUM)
#undef HR_TENSOR_FORMAT_ENUM
      HR_TENSOR_FORMAT_COUNT
} hr_tensor_format;

/** "bf16"; "unknown" for a value outside the list. Static storage. */
HR_API const char *hr_tensor_format_name(hr_tensor_format format);

/* What tensors are, by their names and formats: enumerator, name, words in messages. */
#define HR_CHECKPOINT_PART_LIST(ROW)                                        \
  ROW(HR_CHECKPOINT_WEIGHTS, "weights", "weights")                          \
  ROW(HR_CHECKPOINT_HEAD, "head", "an LM head")                             \
  ROW(HR_CHECKPOINT_BUFFERS, "buffers", "buffers")                          \
  ROW(HR_CHECKPOINT_SCALES, "scales", "quantization scales")                \
  ROW(HR_CHECKPOINT_ROUTER_BIAS, "router_bias", "router correction biases") \
  ROW(HR_CHECKPOINT_PREDICTION, "mtp", "multi-token prediction")            \
  ROW(HR_CHECKPOINT_MEDIA, "media", "vision or audio")                      \
  ROW(HR_CHECKPOINT_OTHER_HEADS, "other_heads", "heads of other tasks")     \
  ROW(HR_CHECKPOINT_ADAPTERS, "adapters", "adapters")                       \
  ROW(HR_CHECKPOINT_PACKED, "packed", "packed weights")

typedef enum hr_checkpoint_part {
#define HR_CHECKPOINT_PART_ENUM(enumerator, name, words) enumerator,
  HR_CHECKPOINT_PART_LIST(HR_CHECKPOINT_PART_ENUM)
#undef HR_CHECKPOINT_PART_ENUM
      HR_CHECKPOINT_PART_COUNT
} hr_checkpoint_part;

/** "weights", "head", …; "unknown" for a value outside the list. Static storage. */
HR_API const char *hr_checkpoint_part_name(hr_checkpoint_part part);

/** Sums over the tensors of a checkpoint. An element is one number of a tensor's shape, or one value of it where the
 *  name of the tensor says that its bytes hold two (4-bit blocks). */
typedef struct hr_checkpoint {
  int64_t files; /* safetensors files; 0: there is no checkpoint */
  int64_t tensors;
  int64_t elements;
  int64_t bytes; /* of the tensors, without the files' headers */
  int64_t format_tensors[HR_TENSOR_FORMAT_COUNT];
  int64_t format_elements[HR_TENSOR_FORMAT_COUNT];
  int64_t format_bytes[HR_TENSOR_FORMAT_COUNT];
  int64_t part_elements[HR_CHECKPOINT_PART_COUNT]; /* PACKED: integers with several weights each, as they are stored */
} hr_checkpoint;

/* Enumerator, name. */
#define HR_CHECKPOINT_MATCH_LIST(ROW)               \
  ROW(HR_CHECKPOINT_EQUAL, "equal")                 \
  ROW(HR_CHECKPOINT_EQUAL_WITHOUT, "equal_without") \
  ROW(HR_CHECKPOINT_NOT_COMPARED, "not_compared")   \
  ROW(HR_CHECKPOINT_DIFFERENT, "different")

typedef enum hr_checkpoint_match {
#define HR_CHECKPOINT_MATCH_ENUM(enumerator, name) enumerator,
  HR_CHECKPOINT_MATCH_LIST(HR_CHECKPOINT_MATCH_ENUM)
#undef HR_CHECKPOINT_MATCH_ENUM
      HR_CHECKPOINT_MATCH_COUNT
} hr_checkpoint_match;

/** "equal", "equal_without", …; "unknown" for a value outside the list. Static storage. */
HR_API const char *hr_checkpoint_match_name(hr_checkpoint_match match);

/** A checkpoint beside the parameters of a model. */
typedef struct hr_checkpoint_comparison {
  hr_checkpoint_match match;
  int64_t elements;   /* of the checkpoint, without the parts left out */
  int64_t parameters; /* of the model */
  bool left_out[HR_CHECKPOINT_PART_COUNT];
  char text[480]; /* "8,030,261,248 parameters, as the configuration has" */
} hr_checkpoint_comparison;

/** Compares the sum of a checkpoint's shapes with hr_model_parameters(). They are equal, or equal without parts that a
 *  model's parameters do not count (a stored copy of a tied head, buffers, scales, vision, …), of which as few as
 *  possible are left out; or different, and then `elements` is without all of those parts. A checkpoint with packed
 *  weights is not compared. Errors of hr_model_parameters(). */
HR_API hr_status hr_checkpoint_compare(const hr_checkpoint *checkpoint, const hr_model *model,
                                       hr_checkpoint_comparison *comparison, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
