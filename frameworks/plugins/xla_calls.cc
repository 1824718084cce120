#include "frameworks/plugins/xla_calls.h"

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frameworks/plugins/types.h"

namespace xoe::plugins {
namespace {

constexpr std::size_t kMostDimensions = 62;

std::array<SeenIn, 1024> the_seen{};  // by the number of a program's call, modulo the array's size

// The Python packages find the status in the text.
xla::Error* error(const xla::CallFrame& frame, xoe_status status, const std::string& message) {
  const std::string text = std::string("xoe ") + xoe_status_name(status) + ": " + message;
  xla::ErrorArguments arguments{sizeof(arguments), nullptr, text.c_str(), static_cast<int>(code_of(status))};
  return frame.api->create_error(&arguments);
}

class Attributes {
 public:
  explicit Attributes(const xla::Attributes& given) : given_(&given) {}

  std::int32_t integer(std::string_view name, std::int32_t otherwise = 0) const {
    const auto* scalar = find<xla::Scalar>(name, xla::AttributeType::kScalar);
    return scalar != nullptr && scalar->dtype == xla::DataType::kInt32 ? *static_cast<std::int32_t*>(scalar->value)
                                                                       : otherwise;
  }

  double number(std::string_view name, double otherwise) const {
    const auto* scalar = find<xla::Scalar>(name, xla::AttributeType::kScalar);
    return scalar != nullptr && scalar->dtype == xla::DataType::kFloat64 ? *static_cast<double*>(scalar->value)
                                                                         : otherwise;
  }

  std::string text(std::string_view name) const {
    const auto* text = find<xla::Text>(name, xla::AttributeType::kString);
    return text != nullptr ? std::string(text->data, text->size) : std::string();
  }

  std::span<const std::int64_t> integers(std::string_view name) const {
    const auto* array = find<xla::Array>(name, xla::AttributeType::kArray);
    if (array == nullptr || array->dtype != xla::DataType::kInt64) return {};
    return {static_cast<const std::int64_t*>(array->data), array->size};
  }

 private:
  template <class Value>
  const Value* find(std::string_view name, xla::AttributeType type) const {
    for (std::int64_t i = 0; i < given_->size; ++i) {
      if (given_->types[i] == type && name == std::string_view(given_->names[i]->data, given_->names[i]->size))
        return static_cast<const Value*>(given_->values[i]);
    }
    return nullptr;
  }

  const xla::Attributes* given_;
};

// The buffers of a call as the engine's tensors.
class Tensors {
 public:
  // False: it does not fit, why() says how.
  bool read(const xla::CallFrame& frame, std::size_t count, bool same_shapes) {
    const auto arguments = static_cast<std::size_t>(frame.arguments.size);
    const auto results = static_cast<std::size_t>(frame.results.size);
    if (count > arguments || count > results) return fail("a call has fewer buffers than tensors");
    shapes_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto& in = *static_cast<const xla::Buffer*>(frame.arguments.values[i]);
      const auto& out = *static_cast<const xla::Buffer*>(frame.results.values[i]);
      const Type type = type_of(in.dtype);
      if (type.dtype < 0) return fail("Xoe does not support the type of tensor " + std::to_string(i));
      if (static_cast<std::size_t>(in.rank) > kMostDimensions) return fail("a tensor has more than 62 dimensions");
      shapes_[i] = shape_of(in, type);
      expected_.push_back({out.data, shape_of(out, type), type.dtype});
      xoe_tensor tensor{};
      tensor.in = in.data;
      tensor.out = same_shapes ? out.data : nullptr;
      tensor.shape = shapes_[i].data();
      tensor.ndim = static_cast<std::int32_t>(shapes_[i].size());
      tensor.dtype = type.dtype;
      tensors_.push_back(tensor);
    }
    return true;
  }

  // Where the engine puts a result whose shape the ranks decide: a compiled program has memory for one shape alone.
  static void* allocate(void* user, std::size_t index, const std::int64_t* shape, std::int32_t ndim,
                        std::int32_t dtype) {
    const auto& expected = static_cast<const Tensors*>(user)->expected_;
    if (index >= expected.size()) return nullptr;
    const Result& result = expected[index];
    const bool fits =
        result.dtype == dtype && std::equal(result.shape.begin(), result.shape.end(), shape, shape + ndim);
    return fits ? result.data : nullptr;
  }

  std::span<const xoe_tensor> tensors() const { return tensors_; }
  const std::string& why() const { return why_; }

 private:
  struct Result {
    void* data;
    std::vector<std::int64_t> shape;
    std::int32_t dtype;
  };

  static std::vector<std::int64_t> shape_of(const xla::Buffer& buffer, const Type& type) {
    std::vector<std::int64_t> shape(buffer.dims, buffer.dims + buffer.rank);
    if (type.parts > 1) shape.push_back(type.parts);
    return shape;
  }

  bool fail(std::string why) {
    why_ = std::move(why);
    return false;
  }

  std::vector<xoe_tensor> tensors_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<Result> expected_;
  std::string why_;
};

// The last buffers give calls an order: each result after the first ones is a copy of the argument at the same distance
// from the end.
void pass_on(const xla::CallFrame& frame, std::int64_t first) {
  const std::int64_t before = frame.arguments.size - frame.results.size;
  for (std::int64_t i = first; i < frame.results.size && before + i >= 0; ++i) {
    const auto& in = *static_cast<const xla::Buffer*>(frame.arguments.values[before + i]);
    const auto& out = *static_cast<const xla::Buffer*>(frame.results.values[i]);
    const Type type = type_of(in.dtype);
    if (type.dtype < 0 || in.data == out.data || in.data == nullptr || out.data == nullptr) continue;
    std::size_t bytes = xoe_dtype_size(type.dtype) * static_cast<std::size_t>(type.parts);
    for (std::int64_t d = 0; d < in.rank; ++d) bytes *= static_cast<std::size_t>(in.dims[d]);
    std::memcpy(out.data, in.data, bytes);
  }
}

xla::Error* run(const xla::CallFrame& frame, const EngineAccess* access, void* stream, bool gpu) {
  const Attributes attributes(frame.attributes);
  const auto count = static_cast<std::size_t>(attributes.integer("count"));
  const std::int32_t kind = attributes.integer("kind");
  const EngineUse engine(access);
  if (engine.get() == nullptr) return error(frame, XOE_INVALID_ARGUMENT, EngineUse::kNone);
  Tensors tensors;
  if (!tensors.read(frame, count, keeps_shapes(kind))) return error(frame, XOE_UNSUPPORTED, tensors.why());

  const std::string name = attributes.text("name");
  const auto splits = attributes.integers("splits");
  xoe_request request;
  xoe_request_init(&request, sizeof(request));
  request.name = name.c_str();
  request.kind = kind;
  request.reduce = attributes.integer("reduce");
  request.tensors = tensors.tensors().data();
  request.tensor_count = tensors.tensors().size();
  request.prescale = attributes.number("prescale", 1.0);
  request.postscale = attributes.number("postscale", 1.0);
  request.root = attributes.integer("root");
  request.process_set = attributes.integer("process_set");
  request.compression = attributes.integer("compression");
  request.splits = splits.empty() ? nullptr : splits.data();
  request.split_count = splits.size();
  request.queue_same_name = name.empty() ? 0 : 1;
  request.needs_all_ranks = kind == XOE_BROADCAST ? 1 : 0;
  request.gpu = gpu ? 1 : 0;
  request.stream = stream;
  if (!keeps_shapes(kind)) {
    request.allocator = &Tensors::allocate;
    request.allocator_user = &tensors;
  }
  const xoe_status status = xoe_run(engine.get(), &request);
  if (status == XOE_RESOURCE_EXHAUSTED && !keeps_shapes(kind)) {
    return error(frame, XOE_INVALID_ARGUMENT,
                 std::string(xoe_last_error()) +
                     "; a compiled program needs to know the shape of the result: all ranks must give the same one");
  }
  if (status != XOE_OK) return error(frame, status, xoe_last_error());
  if (!gpu) pass_on(frame, static_cast<std::int64_t>(count));
  return nullptr;
}

// Shows the arguments of a call to Python.
void observe(const xla::CallFrame& frame, Observer& observer, bool gpu) {
  const Attributes attributes(frame.attributes);
  const std::int32_t number = attributes.integer("number");
  const std::int64_t count = attributes.integer("count", static_cast<std::int32_t>(frame.arguments.size));
  observer.show(number, the_seen[static_cast<std::size_t>(number) % the_seen.size()], [&] {
    std::vector<Observed> observed;
    for (std::int64_t i = 0; i < count && i < frame.arguments.size; ++i) {
      const auto& in = *static_cast<const xla::Buffer*>(frame.arguments.values[i]);
      if (in.dtype == xla::DataType::kToken) continue;
      const Type type = type_of(in.dtype);
      const std::size_t width = type.dtype < 0 ? 0 : xoe_dtype_size(type.dtype);
      std::size_t bytes = width * static_cast<std::size_t>(type.parts);
      for (std::int64_t d = 0; d < in.rank; ++d) bytes *= static_cast<std::size_t>(in.dims[d]);
      observed.push_back({gpu ? nullptr : in.data, static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(width)});
    }
    return observed;
  });
}

// Whether the call asks for the version instead.
bool tell_version(const xla::CallFrame& frame) {
  for (xla::Extension* extension = frame.extensions; extension != nullptr; extension = extension->next) {
    if (extension->type != xla::ExtensionType::kMetadata) continue;
    xla::Metadata& metadata = *reinterpret_cast<xla::MetadataExtension*>(extension)->metadata;
    metadata.version.major = 0;
    metadata.version.minor = frame.api->version.minor;
    metadata.traits = 0;
    return true;
  }
  return false;
}

}  // namespace

xla::Error* run_collective(const xla::CallFrame& frame, const EngineAccess* access) {
  return tell_version(frame) ? nullptr : run(frame, access, nullptr, false);
}

xla::Error* run_collective_on_gpu(const xla::CallFrame& frame, const EngineAccess* access) {
  if (tell_version(frame)) return nullptr;
  xla::StreamArguments arguments{sizeof(arguments), nullptr, frame.context, nullptr};
  if (xla::Error* failed = frame.api->stream_of(&arguments)) return failed;
  return run(frame, access, arguments.stream, true);
}

xla::Error* show_first_step(const xla::CallFrame& frame, Observer& observer, bool gpu) {
  if (tell_version(frame)) return nullptr;
  observe(frame, observer, gpu);
  if (!gpu) pass_on(frame, 0);
  return nullptr;
}

}  // namespace xoe::plugins
