// Submitted operations.
#include <chrono>
#include <memory>
#include <utility>

#include "capi/error.h"
#include "capi/objects.h"
#include "capi/structs.h"

namespace xoe::capi {
namespace {

Status submit(xoe_engine* engine, const xoe_request* request, xoe_handle** handle) {
  XOE_TRY(need(engine, "engine"));
  RequestParts parts;
  XOE_TRY(convert_request(request, parts));
  // Made first: after the submit nothing may fail.
  auto made = handle == nullptr ? nullptr : std::make_unique<xoe_handle>();
  XOE_ASSIGN(EngineHandle submitted, engine->engine->submit(parts.request));
  if (handle != nullptr) {
    made->handle = std::move(submitted);
    *handle = made.release();
  }
  return {};
}

Status run(xoe_engine* engine, const xoe_request* request) {
  XOE_TRY(need(engine, "engine"));
  RequestParts parts;
  XOE_TRY(convert_request(request, parts));
  return engine->engine->run(parts.request);
}

Status need_completed(xoe_handle* handle) {
  XOE_TRY(need(handle, "handle"));
  if (handle->handle.poll()) return {};
  return failure(Code::kInvalidArgument, "the operation has not completed");
}

const char* error_of(xoe_handle* handle) {
  if (!handle->handle.poll()) return "";
  const Status status = handle->handle.wait();  // at once: it has completed
  if (status) return "";
  const std::lock_guard lock(handle->mutex);
  if (handle->message.empty()) handle->message = status.error().message();
  return handle->message.c_str();
}

Status output_at(xoe_handle* handle, std::size_t index, xoe_output* output) {
  XOE_TRY(need_completed(handle));
  XOE_TRY(need(output, "output"));
  const auto& outputs = handle->handle.outputs();
  if (index >= outputs.size())
    return failure(Code::kInvalidArgument, "output {} was asked for; there are {}", index, outputs.size());
  const Output& from = outputs[index];
  *output = {from.data, from.shape.data(), static_cast<std::int32_t>(from.shape.size()),
             static_cast<std::int32_t>(from.dtype)};
  return {};
}

}  // namespace
}  // namespace xoe::capi

using xoe::Code;
using xoe::failure;
using xoe::Status;
using xoe::capi::fill;
using xoe::capi::guard;
using xoe::capi::need;
using xoe::capi::need_completed;

extern "C" {

xoe_status xoe_submit(xoe_engine* engine, const xoe_request* request, xoe_handle** handle) {
  return guard([&] { return xoe::capi::submit(engine, request, handle); });
}

xoe_status xoe_run(xoe_engine* engine, const xoe_request* request) {
  return guard([&] { return xoe::capi::run(engine, request); });
}

xoe_status xoe_poll(xoe_handle* handle, int32_t* done) {
  return guard([&]() -> Status {
    XOE_TRY(need(handle, "handle"));
    XOE_TRY(need(done, "done"));
    *done = handle->handle.poll() ? 1 : 0;
    return {};
  });
}

xoe_status xoe_wait(xoe_handle* handle) {
  return guard([&]() -> Status {
    XOE_TRY(need(handle, "handle"));
    return handle->handle.wait();
  });
}

xoe_status xoe_wait_for(xoe_handle* handle, int64_t patience) {
  return guard([&]() -> Status {
    XOE_TRY(need(handle, "handle"));
    if (patience < 0) return failure(Code::kInvalidArgument, "patience is {}, must be 0 at least", patience);
    return handle->handle.wait_for(std::chrono::nanoseconds(patience));
  });
}

const char* xoe_handle_error(xoe_handle* handle) {
  const char* text = "";
  (void)guard([&]() -> Status {
    XOE_TRY(need(handle, "handle"));
    text = xoe::capi::error_of(handle);
    return {};
  });
  return text;
}

void xoe_release(xoe_handle* handle) {
  (void)guard([&]() -> Status {
    delete handle;
    return {};
  });
}

xoe_status xoe_output_count(xoe_handle* handle, size_t* count) {
  return guard([&]() -> Status {
    XOE_TRY(need_completed(handle));
    XOE_TRY(need(count, "count"));
    *count = handle->handle.outputs().size();
    return {};
  });
}

xoe_status xoe_output_at(xoe_handle* handle, size_t index, xoe_output* output) {
  return guard([&] { return xoe::capi::output_at(handle, index, output); });
}

xoe_status xoe_received_splits(xoe_handle* handle, int64_t* rows, size_t capacity, size_t* count) {
  return guard([&]() -> Status {
    XOE_TRY(need_completed(handle));
    return fill(handle->handle.received_splits(), rows, capacity, count);
  });
}

xoe_status xoe_last_joined(xoe_handle* handle, int32_t* rank) {
  return guard([&]() -> Status {
    XOE_TRY(need_completed(handle));
    XOE_TRY(need(rank, "rank"));
    *rank = handle->handle.last_joined();
    return {};
  });
}

}  // extern "C"
