// What TensorFlow's C interface for operations and kernels offers, as far as it is used here. The functions come from
// the TensorFlow that loads this library: the table finds them by name, so that nothing of TensorFlow is needed to
// build it. Source: tensorflow/c/{ops,kernels,tf_tensor,tf_status,tf_datatype}.h
#pragma once

#include <cstddef>
#include <cstdint>

#include "frameworks/plugins/types.h"

namespace xoe::plugins::tensorflow {

struct Status;
struct Tensor;
struct OpBuilder;
struct KernelBuilder;
struct Construction;
struct Context;
struct Done;
struct ShapeContext;
struct Shape;

enum class DataType : int {
  kFloat32 = 1,
  kFloat64 = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kBfloat16 = 14,
  kUint16 = 17,
  kComplex128 = 18,
  kFloat16 = 19,
  kUint32 = 22,
  kUint64 = 23,
};

struct Api {
  Status* (*new_status)();
  void (*delete_status)(Status*);
  void (*set_status)(Status*, Code, const char*);
  Code (*code)(const Status*);
  const char* (*message)(const Status*);

  OpBuilder* (*new_op)(const char* name);
  void (*add_attribute)(OpBuilder*, const char* spec);
  void (*add_input)(OpBuilder*, const char* spec);
  void (*add_output)(OpBuilder*, const char* spec);
  void (*set_stateful)(OpBuilder*, bool);
  void (*set_shape_function)(OpBuilder*, void (*)(ShapeContext*, Status*));
  void (*register_op)(OpBuilder*, Status*);

  std::int64_t (*input_count)(ShapeContext*);
  Shape* (*new_shape)();
  void (*delete_shape)(Shape*);
  void (*input_shape)(ShapeContext*, int, Shape*, Status*);
  void (*set_output_shape)(ShapeContext*, int, Shape*, Status*);
  void (*set_unknown_shapes)(ShapeContext*, Status*);

  KernelBuilder* (*new_kernel)(const char* op, const char* device, void* (*create)(Construction*),
                               void (*compute)(void*, Context*, Done*), void (*destroy)(void*));
  void (*register_kernel)(const char* name, KernelBuilder*, Status*);
  void (*fail_construction)(Construction*, Status*);
  void (*attribute_size)(Construction*, const char* name, std::int32_t* count, std::int32_t* size, Status*);
  void (*attribute_text)(Construction*, const char* name, char* text, std::size_t size, Status*);
  void (*attribute_integer)(Construction*, const char* name, std::int64_t*, Status*);

  int (*inputs)(Context*);
  void (*input)(Context*, int, Tensor**, Status*);
  Tensor* (*allocate_output)(Context*, int, DataType, const std::int64_t* shape, int ndim, std::size_t bytes, Status*);
  Tensor* (*forward_or_allocate_output)(Context*, const int* candidates, int candidate_count, int,
                                        const std::int64_t* shape, int ndim, int* forwarded, Status*);
  void (*fail)(Context*, Status*);
  void (*run_done)(Done*);

  void (*delete_tensor)(Tensor*);
  DataType (*type)(const Tensor*);
  int (*ndim)(const Tensor*);
  std::int64_t (*dimension)(const Tensor*, int);
  void* (*data)(const Tensor*);
};

// Fills the table. The name of the first function that this TensorFlow lacks; null: it has all.
const char* load(Api& api);

}  // namespace xoe::plugins::tensorflow
