#include "capi/structs.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

namespace xoe::capi {
namespace {

static_assert(XOE_BOOL == static_cast<int>(DType::kBool) && XOE_BOOL == kDTypeCount - 1);
static_assert(XOE_FLOAT32 == static_cast<int>(DType::kFloat32));
static_assert(XOE_BFLOAT16 == static_cast<int>(DType::kBfloat16));
static_assert(XOE_PRODUCT == static_cast<int>(ReduceOp::kProduct) && XOE_PRODUCT == kReduceOpCount - 1);
static_assert(XOE_JOIN == static_cast<int>(OpKind::kJoin));
static_assert(XOE_ALLTOALL == static_cast<int>(OpKind::kAlltoall));
static_assert(XOE_COMPRESSION_POWER_SGD == static_cast<int>(Compression::kPowerSgd));
static_assert(XOE_WORLD_SET == kWorldSet);
static_assert(sizeof(xoe_tensor) == 64 && sizeof(xoe_output) == 24);

constexpr std::size_t kFirstRequestSize = 136;
constexpr std::size_t kFirstOptionsSize = 104;
static_assert(sizeof(xoe_request) >= kFirstRequestSize && sizeof(xoe_options) >= kFirstOptionsSize);

constexpr std::int32_t kMaxDimensions = 64;

Status check_number(std::int64_t value, std::int64_t low, std::int64_t high, std::string_view what) {
  if (value >= low && value <= high) return {};
  return failure(Code::kInvalidArgument, "{} is {}, must be {} to {}", what, value, low, high);
}

Result<TensorArg> convert_tensor(const xoe_tensor& from, std::size_t index) {
  const std::string what = fmt::format("tensor {}", index);
  XOE_TRY(check_number(from.dtype, 0, kDTypeCount - 1, what + ": dtype"));
  XOE_TRY(check_number(from.ndim, 0, kMaxDimensions, what + ": ndim"));
  if (from.ndim > 0) XOE_TRY(need(from.shape, what + ": shape"));
  if (std::ranges::any_of(from.reserved, [](std::uint64_t word) { return word != 0; }))
    return failure(Code::kUnsupported, "{}: its reserved fields are not 0", what);
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
  XOE_TRY(check_number(from.reserved_more, 0, 0, "request: reserved_more"));
  if (from.tensor_count > 0) XOE_TRY(need(from.tensors, "request: tensors"));
  if (from.split_count > 0) XOE_TRY(need(from.splits, "request: splits"));
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

// -1: not chosen. False: chosen.
template <class T, class To>
Status choose(T value, std::int64_t low, std::int64_t high, std::string_view what, To& to, bool& chosen) {
  if (value == -1) return {};
  XOE_TRY(check_number(value, low, high, what));
  to = static_cast<To>(value);
  chosen = true;
  return {};
}

template <class T, class To>
Status choose(T value, std::int64_t low, std::int64_t high, std::string_view what, To& to) {
  bool chosen = false;
  return choose(value, low, high, what, to, chosen);
}

Status apply_sizes(const xoe_options& from, EngineOptions& to) {
  bool chosen = false;
  XOE_TRY(choose(from.fusion_threshold, 0, INT64_MAX, "options: fusion_threshold", to.fusion_threshold, chosen));
  XOE_TRY(choose(from.pack_limit, 0, INT64_MAX, "options: pack_limit", to.pack_limit, chosen));
  XOE_TRY(choose(from.in_flight, 1, 8, "options: in_flight", to.in_flight, chosen));
  if (chosen) to.tune = false;
  XOE_TRY(choose(from.tune, 0, 1, "options: tune", to.tune));
  return choose(from.cache_capacity, 1, 1 << 20, "options: cache_capacity", to.cache_capacity);
}

Status apply_options(const xoe_options& from, StartOptions& to) {
  XOE_TRY(apply_sizes(from, to.engine));
  XOE_TRY(choose(from.start_timeout, 1, INT64_MAX, "options: start_timeout", to.init.start_timeout));
  XOE_TRY(choose(from.progress_thread, 0, 1, "options: progress_thread", to.engine.progress_thread));
  XOE_TRY(choose(from.stall_warning, 0, INT64_MAX, "options: stall_warning", to.engine.stall_warning));
  XOE_TRY(choose(from.stall_limit, 0, INT64_MAX, "options: stall_limit", to.engine.stall_limit));
  XOE_TRY(choose(from.metrics_port, 0, 65535, "options: metrics_port", to.engine.metrics_port));
  XOE_TRY(check_number(from.reserved, 0, 0, "options: reserved"));
  if (from.rank_count > 0) XOE_TRY(need(from.ranks, "options: ranks"));
  to.ranks.assign(from.ranks, from.ranks + from.rank_count);
  if (to.engine.metrics_port == 0) to.engine.metrics_port = -1;
  if (from.tune_file != nullptr) to.engine.tune_file = from.tune_file;
  if (from.timeline != nullptr) to.engine.timeline = from.timeline;
  if (from.warn != nullptr) {
    to.engine.warn = [call = from.warn, user = from.warn_user](std::string_view line) {
      call(user, std::string(line).c_str());
    };
  }
  return {};
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

constexpr xoe_options default_options() {
  xoe_options options{};
  options.struct_size = sizeof(xoe_options);
  options.start_timeout = -1;
  options.fusion_threshold = -1;
  options.pack_limit = -1;
  options.in_flight = -1;
  options.cache_capacity = -1;
  options.tune = -1;
  options.progress_thread = -1;
  options.stall_warning = -1;
  options.stall_limit = -1;
  options.metrics_port = -1;
  return options;
}

}  // namespace

Status copy_text(std::string_view from, char** text) {
  XOE_TRY(need(text, "text"));
  auto* const copy = static_cast<char*>(std::malloc(from.size() + 1));
  if (copy == nullptr) return failure(Code::kResourceExhausted, "no memory left for {} bytes", from.size() + 1);
  std::memcpy(copy, from.data(), from.size());
  copy[from.size()] = '\0';
  *text = copy;
  return {};
}

Status convert_request(const xoe_request* from, RequestParts& parts) {
  XOE_TRY(need(from, "request"));
  XOE_ASSIGN(const xoe_request request, copy_struct(from, default_request(), kFirstRequestSize, "request"));
  XOE_TRY(check_request(request));
  parts.tensors.reserve(request.tensor_count);
  for (std::size_t i = 0; i < request.tensor_count; ++i) {
    XOE_ASSIGN(const TensorArg tensor, convert_tensor(request.tensors[i], i));
    parts.tensors.push_back(tensor);
  }
  parts.request = {.name = request.name == nullptr ? std::string_view() : std::string_view(request.name),
                   .op = {.kind = static_cast<OpKind>(request.kind),
                          .reduce = static_cast<ReduceOp>(request.reduce),
                          .gpu = request.gpu != 0,
                          .root = request.root,
                          .prescale = request.prescale,
                          .postscale = request.postscale,
                          .compression = convert_compression(request)},
                   .tensors = parts.tensors,
                   .splits = {request.splits, request.split_count},
                   .process_set = request.process_set,
                   .stream = request.stream,
                   .allocator = convert_allocator(request),
                   .callback = convert_callback(request)};
  return {};
}

Result<StartOptions> convert_options(const xoe_options* from, std::vector<std::string>& warnings) {
  StartOptions to;
  XOE_ASSIGN(to.engine, read_engine_options(warnings));
  if (from == nullptr) return to;
  XOE_ASSIGN(const xoe_options options, copy_struct(from, default_options(), kFirstOptionsSize, "options"));
  XOE_TRY(apply_options(options, to));
  return to;
}

}  // namespace xoe::capi

extern "C" void xoe_request_init(xoe_request* request, size_t struct_size) {
  xoe::capi::init_struct(request, xoe::capi::default_request(), struct_size);
}

extern "C" void xoe_options_init(xoe_options* options, size_t struct_size) {
  xoe::capi::init_struct(options, xoe::capi::default_options(), struct_size);
}
