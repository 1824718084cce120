// Submitted operations: from the caller's request to the engine's, and handles.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "frameworks/c/error.h"
#include "frameworks/c/objects.h"
#include "frameworks/c/request.h"
#include "frameworks/c/structs.h"

namespace xoe::capi {
namespace {

static_assert(XOE_BOOL == static_cast<int>(DType::kBool) && XOE_BOOL == kDTypeCount - 1);
static_assert(XOE_FLOAT32 == static_cast<int>(DType::kFloat32));
static_assert(XOE_BFLOAT16 == static_cast<int>(DType::kBfloat16));
static_assert(XOE_PRODUCT == static_cast<int>(ReduceOp::kProduct));
static_assert(XOE_JOIN == static_cast<int>(OpKind::kJoin));
static_assert(XOE_ALLTOALL == static_cast<int>(OpKind::kAlltoall));
static_assert(XOE_COMPRESSION_POWER_SGD == static_cast<int>(Compression::kPowerSgd));
static_assert(XOE_WORLD_SET == kWorldSet);
static_assert(sizeof(xoe_tensor) == 64 && sizeof(xoe_output) == 24);

constexpr std::size_t kFirstRequestSize = 136;
constexpr std::int32_t kMaxDimensions = 64;
static_assert(sizeof(xoe_request) >= kFirstRequestSize);

Status check_tensor(const xoe_tensor& from) {
  XOE_TRY(check_shape(from.dtype, from.shape, from.ndim));
  if (std::ranges::any_of(from.reserved, [](std::uint64_t word) { return word != 0; }))
    return failure(Code::kUnsupported, "its reserved fields are not 0");
  return {};
}

Result<TensorArg> convert_tensor(const xoe_tensor& from, std::size_t index) {
  if (const Status good = check_tensor(from); !good)
    return failure(good.error().code(), "tensor {}: {}", index, good.error().message());
  return TensorArg{.in = from.in,
                   .out = from.out,
                   .dtype = static_cast<DType>(from.dtype),
                   .shape = {from.shape, static_cast<std::size_t>(from.ndim)}};
}

CompressionOptions convert_compression(const xoe_request& from) {
  return {.kind = static_cast<Compression>(from.compression),
          .error_feedback = from.error_feedback != 0,
          .top_k_ratio = from.top_k_ratio,
          .power_sgd_rank = from.power_sgd_rank};
}

Status check_request(const xoe_request& from) {
  XOE_TRY(check_number(from.kind, 0, XOE_JOIN, "request: kind"));
  XOE_TRY(check_number(from.reduce, 0, kReduceOpCount - 1, "request: reduce"));
  XOE_TRY(check_number(from.compression, 0, XOE_COMPRESSION_POWER_SGD, "request: compression"));
  XOE_TRY(check_number(from.error_feedback, 0, 1, "request: error_feedback"));
  XOE_TRY(check_number(from.reserved, 0, 0, "request: reserved"));
  XOE_TRY(check_number(from.gpu, 0, 1, "request: gpu"));
  XOE_TRY(check_number(from.needs_all_ranks, 0, 1, "request: needs_all_ranks"));
  XOE_TRY(check_number(from.queue_same_name, 0, 1, "request: queue_same_name"));
  XOE_TRY(check_number(from.timeout, 0, INT64_MAX, "request: timeout"));
  if (from.tensor_count > 0) XOE_TRY(need(from.tensors, "request: tensors"));
  if (from.split_count > 0) XOE_TRY(need(from.splits, "request: splits"));
  if (from.dense_shape_count > 0) XOE_TRY(need(from.dense_shape, "request: dense_shape"));
  return {};
}

OutputAllocator convert_allocator(const xoe_request& from) {
  if (from.allocator == nullptr) return {};
  return [call = from.allocator, user = from.allocator_user](std::size_t index, std::span<const std::int64_t> shape,
                                                             DType dtype) {
    return call(user, index, shape.data(), static_cast<std::int32_t>(shape.size()), static_cast<std::int32_t>(dtype));
  };
}

Callback convert_callback(const xoe_request& from) {
  if (from.callback == nullptr) return {};
  return [call = from.callback, user = from.callback_user](const Status& status) {
    if (status) return call(user, XOE_OK, "");
    call(user, code_of(status.error().code()), status.error().message().c_str());
  };
}

constexpr xoe_request default_request() {
  const CompressionOptions compression;
  xoe_request request{};
  request.struct_size = sizeof(xoe_request);
  request.prescale = 1;
  request.postscale = 1;
  request.top_k_ratio = compression.top_k_ratio;
  request.power_sgd_rank = compression.power_sgd_rank;
  return request;
}

constexpr xoe_request kDefaultRequest = default_request();

}  // namespace

Status check_shape(std::int32_t dtype, const std::int64_t* shape, std::int32_t ndim) {
  XOE_TRY(check_number(dtype, 0, kDTypeCount - 1, "dtype"));
  XOE_TRY(check_number(ndim, 0, kMaxDimensions, "ndim"));
  if (ndim > 0) XOE_TRY(need(shape, "shape"));
  return {};
}

Status convert_request(const xoe_request* from, RequestParts& parts) {
  XOE_TRY(need(from, "request"));
  xoe_request other_version;
  if (from->struct_size != sizeof(xoe_request)) {
    XOE_ASSIGN(other_version, copy_struct(from, kDefaultRequest, kFirstRequestSize, "request"));
    from = &other_version;
  }
  const xoe_request& request = *from;
  XOE_TRY(check_request(request));
  TensorArg* tensors = &parts.one;
  if (request.tensor_count > 1) {
    parts.several.resize(request.tensor_count);
    tensors = parts.several.data();
  }
  for (std::size_t i = 0; i < request.tensor_count; ++i) {
    XOE_ASSIGN(tensors[i], convert_tensor(request.tensors[i], i));
  }
  parts.request = {.name = request.name == nullptr ? std::string_view() : std::string_view(request.name),
                   .queue_same_name = request.queue_same_name != 0,
                   .op = {.kind = static_cast<OpKind>(request.kind),
                          .reduce = static_cast<ReduceOp>(request.reduce),
                          .gpu = request.gpu != 0,
                          .root = request.root,
                          .prescale = request.prescale,
                          .postscale = request.postscale,
                          .compression = convert_compression(request),
                          .needs_all_ranks = request.needs_all_ranks != 0},
                   .tensors = {tensors, request.tensor_count},
                   .splits = {request.splits, request.split_count},
                   .dense_shape = {request.dense_shape, request.dense_shape_count},
                   .process_set = request.process_set,
                   .timeout = std::chrono::nanoseconds(request.timeout),
                   .stream = request.stream,
                   .allocator = convert_allocator(request),
                   .callback = convert_callback(request),
                   .detail = request.detail == nullptr ? std::string_view() : std::string_view(request.detail)};
  return {};
}

namespace {

Status submit(Engine& engine, const xoe_request* request, xoe_handle** handle) {
  RequestParts parts;
  XOE_TRY(convert_request(request, parts));
  // Allocated first: after the submit nothing may fail.
  auto made = handle == nullptr ? nullptr : std::make_unique<xoe_handle>();
  XOE_ASSIGN(EngineHandle submitted, engine.submit(parts.request));
  if (handle != nullptr) {
    made->handle = std::move(submitted);
    *handle = made.release();
  }
  return {};
}

Status check_timeout(std::int64_t timeout) {
  if (timeout >= 0) return {};
  return failure(Code::kInvalidArgument, "timeout is {}, must be 0 at least", timeout);
}

// with() for a handle: body(EngineHandle&).
template <class Body>
xoe_status with_handle(xoe_handle* handle, Body&& body) noexcept {
  return with(handle, "handle", [&](xoe_handle& it) -> Status { return body(it.handle); });
}

// The same for the handle of an operation that has completed.
template <class Body>
xoe_status with_completed(xoe_handle* handle, Body&& body) noexcept {
  return with_handle(handle, [&](EngineHandle& it) -> Status {
    if (!it.poll()) return failure(Code::kInvalidArgument, "the operation has not completed");
    return body(it);
  });
}

}  // namespace
}  // namespace xoe::capi

using xoe::Code;
using xoe::EngineHandle;
using xoe::failure;
using xoe::Status;
using xoe::capi::check_timeout;
using xoe::capi::fill;
using xoe::capi::give;
using xoe::capi::need;
using xoe::capi::with_completed;
using xoe::capi::with_engine;
using xoe::capi::with_handle;

extern "C" {

void xoe_request_init(xoe_request* request, size_t struct_size) {
  xoe::capi::init_struct(request, xoe::capi::kDefaultRequest, struct_size);
}

xoe_status xoe_submit(xoe_engine* engine, const xoe_request* request, xoe_handle** handle) {
  return with_engine(engine, [&](xoe::Engine& it) { return xoe::capi::submit(it, request, handle); });
}

xoe_status xoe_run(xoe_engine* engine, const xoe_request* request) {
  return with_engine(engine, [&](xoe::Engine& it) -> Status {
    xoe::capi::RequestParts parts;
    XOE_TRY(xoe::capi::convert_request(request, parts));
    return it.run(parts.request);
  });
}

xoe_status xoe_poll(xoe_handle* handle, int32_t* done) {
  return with_handle(handle, [&](EngineHandle& it) { return give(it.poll(), done, "done"); });
}

xoe_status xoe_wait(xoe_handle* handle) {
  return with_handle(handle, [](EngineHandle& it) { return it.wait(); });
}

xoe_status xoe_wait_for(xoe_handle* handle, int64_t timeout) {
  return with_handle(handle, [&](EngineHandle& it) -> Status {
    XOE_TRY(check_timeout(timeout));
    return it.wait_for(std::chrono::nanoseconds(timeout));
  });
}

xoe_status xoe_wait_in_stream(xoe_handle* handle, void* stream, int64_t timeout) {
  return with_handle(handle, [&](EngineHandle& it) -> Status {
    XOE_TRY(check_timeout(timeout));
    return it.wait_in_stream(stream, std::chrono::nanoseconds(timeout));
  });
}

const char* xoe_handle_error(xoe_handle* handle) {
  const char* text = "";
  (void)with_handle(handle, [&](EngineHandle& it) -> Status {
    if (!it.poll()) return {};
    const Status status = it.wait();  // returns at once: it has completed
    if (status) return {};
    const std::lock_guard lock(handle->mutex);
    if (handle->message.empty()) handle->message = status.error().message();
    text = handle->message.c_str();
    return {};
  });
  return text;
}

void xoe_release(xoe_handle* handle) { xoe::capi::destroy(handle); }

xoe_status xoe_output_count(xoe_handle* handle, size_t* count) {
  return with_completed(handle, [&](const EngineHandle& it) { return give(it.outputs().size(), count, "count"); });
}

xoe_status xoe_output_at(xoe_handle* handle, size_t index, xoe_output* output) {
  return with_completed(handle, [&](const EngineHandle& it) -> Status {
    XOE_TRY(need(output, "output"));
    const auto& outputs = it.outputs();
    if (index >= outputs.size())
      return failure(Code::kInvalidArgument, "output {} was asked for; there are {}", index, outputs.size());
    const xoe::Output& from = outputs[index];
    *output = {from.data, from.shape.data(), static_cast<std::int32_t>(from.shape.size()),
               static_cast<std::int32_t>(from.dtype)};
    return {};
  });
}

xoe_status xoe_received_splits(xoe_handle* handle, int64_t* rows, size_t capacity, size_t* count) {
  return with_completed(handle,
                        [&](const EngineHandle& it) { return fill(it.received_splits(), rows, capacity, count); });
}

xoe_status xoe_last_joined(xoe_handle* handle, int32_t* rank) {
  return with_completed(handle, [&](const EngineHandle& it) { return give(it.last_joined(), rank, "rank"); });
}

}  // extern "C"
