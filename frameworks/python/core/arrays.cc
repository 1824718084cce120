#include "frameworks/python/core/arrays.h"

#include <vector>

namespace xoe::python {
namespace {

// XOE_FLOAT32 -> float32. Throws for a number that is none.
nb::dlpack::dtype dlpack_type(std::int32_t dtype) {
  using nb::dlpack::dtype_code;
  const auto bits = static_cast<std::uint8_t>(8 * xoe_dtype_size(dtype));
  const auto type = [bits](dtype_code code) { return nb::dlpack::dtype{static_cast<std::uint8_t>(code), bits, 1}; };
  switch (dtype) {
    case XOE_UINT8: return type(dtype_code::UInt);
    case XOE_INT8:
    case XOE_INT16:
    case XOE_INT32:
    case XOE_INT64: return type(dtype_code::Int);
    case XOE_BFLOAT16: return type(dtype_code::Bfloat);
    case XOE_BOOL: return type(dtype_code::Bool);
    case XOE_FLOAT16:
    case XOE_FLOAT32:
    case XOE_FLOAT64: return type(dtype_code::Float);
    default: throw nb::value_error("no such element type");
  }
}

}  // namespace

Array array_of(void* data, const std::int64_t* shape, std::int32_t ndim, std::int32_t dtype, nb::handle owner,
               const std::int64_t* strides) {
  alignas(64) static std::byte nothing[64];  // frameworks want an address even where there are no elements
  if (data == nullptr) data = nothing;
  const std::vector<std::size_t> sizes(shape, shape + ndim);
  return Array(data, sizes.size(), sizes.data(), owner, strides, dlpack_type(dtype));
}

}  // namespace xoe::python
