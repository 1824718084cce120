// Numbers and names of types, reductions, operations, compressions and errors.
#include <string>

#include "frameworks/c/error.h"
#include "xoe/engine.h"
#include "xoe/tensor.h"

namespace xoe::capi {
namespace {

constexpr int kOpKindCount = XOE_JOIN + 1;
constexpr int kCompressionCount = XOE_COMPRESSION_POWER_SGD + 1;

// The names are literals, so that they end with a zero byte.
const char* name_of(std::int32_t number, int count, auto&& name) {
  return number >= 0 && number < count ? name(number).data() : nullptr;
}

std::string_view dtype(int number) { return dtype_name(static_cast<DType>(number)); }
std::string_view reduce_op(int number) { return reduce_op_name(static_cast<ReduceOp>(number)); }
std::string_view op_kind(int number) { return op_kind_name(static_cast<OpKind>(number)); }
std::string_view compression(int number) { return compression_name(static_cast<Compression>(number)); }

Status number_of(const char* name, std::int32_t* number, int count, std::string_view what, auto&& name_of_number) {
  XOE_TRY(need(name, "name"));
  XOE_TRY(need(number, what));
  std::string all;
  for (int i = 0; i < count; ++i) {
    if (name_of_number(i) == name) {
      *number = i;
      return {};
    }
    all.append(i == 0 ? "" : ", ").append(name_of_number(i));
  }
  return failure(Code::kInvalidArgument, "there is no {} '{:.100}'; there are {}", what, name, all);
}

}  // namespace
}  // namespace xoe::capi

using namespace xoe::capi;  // NOLINT(google-build-using-namespace)

extern "C" {

const char* xoe_status_name(xoe_status status) {
  if (status <= XOE_OK) return status == XOE_OK ? "ok" : nullptr;
  return name_of(status - 1, XOE_INTERNAL, [](int code) { return xoe::code_name(static_cast<xoe::Code>(code)); });
}

const char* xoe_dtype_name(int32_t number) { return name_of(number, xoe::kDTypeCount, dtype); }
const char* xoe_reduce_op_name(int32_t number) { return name_of(number, xoe::kReduceOpCount, reduce_op); }
const char* xoe_op_kind_name(int32_t number) { return name_of(number, kOpKindCount, op_kind); }
const char* xoe_compression_name(int32_t number) { return name_of(number, kCompressionCount, compression); }

xoe_status xoe_dtype_from_name(const char* name, int32_t* number) {
  return guard([&] { return number_of(name, number, xoe::kDTypeCount, "dtype", dtype); });
}
xoe_status xoe_reduce_op_from_name(const char* name, int32_t* number) {
  return guard([&] { return number_of(name, number, xoe::kReduceOpCount, "reduction", reduce_op); });
}
xoe_status xoe_op_kind_from_name(const char* name, int32_t* number) {
  return guard([&] { return number_of(name, number, kOpKindCount, "kind of operation", op_kind); });
}
xoe_status xoe_compression_from_name(const char* name, int32_t* number) {
  return guard([&] { return number_of(name, number, kCompressionCount, "compression", compression); });
}

size_t xoe_dtype_size(int32_t number) {
  return number >= 0 && number < xoe::kDTypeCount ? xoe::dtype_size(static_cast<xoe::DType>(number)) : 0;
}

}  // extern "C"
