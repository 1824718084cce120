// Buckets of gradients.
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/buckets/gradient_buckets.h"
#include "frameworks/c/error.h"
#include "frameworks/c/objects.h"
#include "frameworks/c/request.h"
#include "frameworks/c/structs.h"

namespace xoe::capi {
namespace {

using engine::BucketParameter;
using engine::GradientBuckets;

static_assert(sizeof(xoe_parameter) == 56);
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;  // more than memory can hold; their bytes can be counted

Result<BucketParameter> convert_parameter(const xoe_parameter& from) {
  XOE_TRY(need(from.name, "name"));
  XOE_TRY(check_shape(from.dtype, from.shape, from.ndim));
  for (const std::uint64_t word : from.reserved)
    if (word != 0) return failure(Code::kUnsupported, "its reserved fields are not 0");
  std::int64_t elements = 1;
  for (std::int32_t d = 0; d < from.ndim; ++d) {
    if (from.shape[d] < 0) return failure(Code::kInvalidArgument, "dimension {} is {}", d, from.shape[d]);
    if (from.shape[d] > 0 && elements > kMostElements / from.shape[d])
      return failure(Code::kInvalidArgument, "a tensor of more than {} elements", kMostElements);
    elements *= from.shape[d];
  }
  return BucketParameter{
      .name = from.name, .dtype = static_cast<DType>(from.dtype), .shape = {from.shape, from.shape + from.ndim}};
}

Result<std::vector<BucketParameter>> convert_parameters(const xoe_parameter* from, std::size_t count) {
  if (count > 0) XOE_TRY(need(from, "parameters"));
  std::vector<BucketParameter> parameters;
  std::set<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    auto parameter = convert_parameter(from[i]);
    if (!parameter) return failure(parameter.error().code(), "parameter {}: {}", i, parameter.error().message());
    if (!names.insert(parameter->name).second)
      return failure(Code::kInvalidArgument, "parameter {}: there are two with the name '{:.100}'", i, parameter->name);
    parameters.push_back(std::move(*parameter));
  }
  return parameters;
}

Status create(Engine& engine, const xoe_request* request, const xoe_parameter* parameters, std::size_t count,
              std::int64_t bucket_bytes, xoe_buckets** buckets) {
  RequestParts parts;
  XOE_TRY(convert_request(request, parts));
  XOE_TRY(need(buckets, "buckets"));
  if (parts.request.op.kind != OpKind::kAllreduce || !parts.request.tensors.empty() || parts.request.op.gpu)
    return failure(Code::kInvalidArgument, "buckets take the request of an allreduce in host memory, without tensors");
  if (bucket_bytes < 0) return failure(Code::kInvalidArgument, "bucket_bytes is {}, must be 0 at least", bucket_bytes);
  XOE_ASSIGN(auto converted, convert_parameters(parameters, count));
  auto made = std::make_unique<xoe_buckets>();
  XOE_ASSIGN(made->buckets, GradientBuckets::create(engine.runtime(), std::move(converted),
                                                    {.name = std::string(parts.request.name),
                                                     .op = parts.request.op,
                                                     .process_set = parts.request.process_set,
                                                     .timeout = parts.request.timeout,
                                                     .bytes = static_cast<std::size_t>(bucket_bytes)}));
  *buckets = made.release();
  return {};
}

// with() for buckets: body(GradientBuckets&).
template <class Body>
xoe_status with_buckets(const xoe_buckets* buckets, Body&& body) noexcept {
  return with(buckets, "buckets", [&](const xoe_buckets& it) -> Status { return body(*it.buckets); });
}

}  // namespace
}  // namespace xoe::capi

using xoe::Code;
using xoe::failure;
using xoe::Status;
using xoe::capi::give;
using xoe::capi::need;
using xoe::capi::with_buckets;
using xoe::capi::with_engine;
using xoe::engine::GradientBuckets;

extern "C" {

xoe_status xoe_buckets_create(xoe_engine* engine, const xoe_request* request, const xoe_parameter* parameters,
                              size_t parameter_count, int64_t bucket_bytes, xoe_buckets** buckets) {
  return with_engine(engine, [&](xoe::Engine& it) {
    return xoe::capi::create(it, request, parameters, parameter_count, bucket_bytes, buckets);
  });
}

void xoe_buckets_free(xoe_buckets* buckets) { xoe::capi::destroy(buckets); }

xoe_status xoe_buckets_count(const xoe_buckets* buckets, size_t* count) {
  return with_buckets(buckets, [&](const GradientBuckets& it) { return give(it.buckets(), count, "count"); });
}

xoe_status xoe_buckets_slot(const xoe_buckets* buckets, size_t parameter, void** data) {
  return with_buckets(buckets, [&](const GradientBuckets& it) -> Status {
    XOE_TRY(need(data, "data"));
    if (parameter >= it.parameters())
      return failure(Code::kInvalidArgument, "parameter {} was asked for; there are {}", parameter, it.parameters());
    *data = it.slot(parameter);
    return {};
  });
}

xoe_status xoe_buckets_put(xoe_buckets* buckets, size_t parameter, const void* gradient) {
  return with_buckets(buckets, [&](GradientBuckets& it) { return it.put(parameter, gradient); });
}

xoe_status xoe_buckets_leave_out(xoe_buckets* buckets, size_t parameter) {
  return with_buckets(buckets, [&](GradientBuckets& it) { return it.leave_out(parameter); });
}

xoe_status xoe_buckets_wait(xoe_buckets* buckets, int64_t timeout, int32_t* done) {
  return with_buckets(buckets, [&](GradientBuckets& it) -> Status {
    XOE_TRY(need(done, "done"));
    if (timeout < 0) return failure(Code::kInvalidArgument, "timeout is {}, must be 0 at least", timeout);
    XOE_ASSIGN(const bool completed, it.wait(std::chrono::nanoseconds(timeout)));
    *done = completed ? 1 : 0;
    return {};
  });
}

xoe_status xoe_buckets_reset(xoe_buckets* buckets) {
  return with_buckets(buckets, [](GradientBuckets& it) -> Status {
    it.reset();
    return {};
  });
}

}  // extern "C"
