// The parts of XLA's foreign function interface (its C interface, major version 0, from minor version 1 on) that a
// handler needs. A handler is called with structs that tell their size; what a newer XLA appends to them is not looked
// at. Source: xla/ffi/api/c_api.h of OpenXLA; jaxlib carries it in jax.ffi.include_dir().
#pragma once

#include <cstddef>
#include <cstdint>

namespace xoe::plugins::xla {

struct Error;

enum class ExtensionType : int { kMetadata = 1 };

struct Extension {
  std::size_t struct_size;
  ExtensionType type;
  Extension* next;
};

struct ApiVersion {
  std::size_t struct_size;
  Extension* extensions;
  int major;
  int minor;
};

struct Metadata {
  std::size_t struct_size;
  ApiVersion version;
  std::uint32_t traits;
};

// A call that asks the handler for its version instead of running it.
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct ErrorArguments {
  std::size_t struct_size;
  Extension* extensions;
  const char* message;
  int code;  // absl::StatusCode
};

struct Text {
  const char* data;
  std::size_t size;
};

struct CallFrame;
using Handler = Error*(CallFrame*);

struct RegisterArguments {
  std::size_t struct_size;
  Extension* extensions;
  Text name;
  Text platform;
  Handler* instantiate;
  Handler* prepare;
  Handler* initialize;
  Handler* execute;
  std::uint32_t traits;
};

struct StreamArguments {
  std::size_t struct_size;
  Extension* extensions;
  void* context;
  void* stream;  // out
};

struct Api {
  std::size_t struct_size;
  Extension* extensions;
  ApiVersion version;
  const void* internal;
  Error* (*create_error)(ErrorArguments* arguments);
  void (*error_message)();
  void (*destroy_error)();
  Error* (*register_handler)(RegisterArguments* arguments);
  Error* (*stream_of)(StreamArguments* arguments);
};

enum class DataType : int {
  kBool = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint8 = 6,
  kUint16 = 7,
  kUint32 = 8,
  kUint64 = 9,
  kFloat16 = 10,
  kFloat32 = 11,
  kFloat64 = 12,
  kComplex64 = 15,
  kBfloat16 = 16,
  kToken = 17,
  kComplex128 = 18,
};

struct Buffer {
  std::size_t struct_size;
  Extension* extensions;
  DataType dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* dims;
};

struct Arguments {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  int* types;  // 1: a buffer
  void** values;
};

enum class AttributeType : int { kArray = 1, kDictionary = 2, kScalar = 3, kString = 4 };

struct Scalar {
  DataType dtype;
  void* value;
};

struct Array {
  DataType dtype;
  std::size_t size;
  void* data;
};

struct Attributes {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  AttributeType* types;
  Text** names;
  void** values;  // Scalar, Array or Text, by type
};

struct CallFrame {
  std::size_t struct_size;
  Extension* extensions;
  const Api* api;
  void* context;
  int stage;
  Arguments arguments;
  Arguments results;
  Attributes attributes;
};

}  // namespace xoe::plugins::xla
