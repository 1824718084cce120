// What frameworks and the engine have in common: element types, and codes of errors.
#pragma once

#include <cstdint>

#include "xoe/c.h"

namespace xoe::plugins {

// The engine's type for an element of a framework's, and how many of it make up one.
struct Type {
  std::int32_t dtype = -1;  // -1: none
  int parts = 1;
};

// Types that the engine lacks are moved as their bits; the Python packages let only those operations come here that
// these bits allow.
template <class DataType>
Type type_of(DataType dtype) {
  switch (dtype) {
    case DataType::kBool: return {XOE_BOOL};
    case DataType::kInt8: return {XOE_INT8};
    case DataType::kInt16:
    case DataType::kUint16: return {XOE_INT16};
    case DataType::kInt32:
    case DataType::kUint32: return {XOE_INT32};
    case DataType::kInt64:
    case DataType::kUint64: return {XOE_INT64};
    case DataType::kUint8: return {XOE_UINT8};
    case DataType::kFloat16: return {XOE_FLOAT16};
    case DataType::kBfloat16: return {XOE_BFLOAT16};
    case DataType::kFloat32: return {XOE_FLOAT32};
    case DataType::kFloat64: return {XOE_FLOAT64};
    case DataType::kComplex64: return {XOE_FLOAT32, 2};
    case DataType::kComplex128: return {XOE_FLOAT64, 2};
    default: return {};
  }
}

// absl::StatusCode, which XLA and TensorFlow use.
enum class Code : int {
  kOk = 0,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
};

inline Code code_of(xoe_status status) {
  switch (status) {
    case XOE_OK: return Code::kOk;
    case XOE_INVALID_ARGUMENT: return Code::kInvalidArgument;
    case XOE_UNSUPPORTED: return Code::kUnimplemented;
    case XOE_TIMEOUT: return Code::kDeadlineExceeded;
    case XOE_PEER_LOST:
    case XOE_UNAVAILABLE: return Code::kUnavailable;
    case XOE_DATA_LOSS: return Code::kDataLoss;
    case XOE_RESOURCE_EXHAUSTED: return Code::kResourceExhausted;
    default: return Code::kInternal;
  }
}

// Whether a result has its tensor's shape.
inline bool keeps_shapes(std::int64_t kind) {
  return kind == XOE_ALLREDUCE || kind == XOE_ADASUM || kind == XOE_BROADCAST;
}

}  // namespace xoe::plugins
