#include "core/engine/execute/compress/make_codec.h"

#include <exception>
#include <utility>

#include "core/base/error.h"
#include "core/engine/execute/compress/codecs.h"

namespace xoe::engine {
namespace {

// No compression: an allreduce in float32.
class Exact final : public Codec {
 public:
  Task allreduce(Communicator& comm, std::span<float> values) override {
    const Tensor tensor(values.data(), values.size());
    XOE_CO_TRY(comm.start_allreduce(tensor, tensor));
    co_return Status();
  }
};

Status check_options(const CompressionOptions& options, std::span<const std::int64_t> shape) {
  for (const std::int64_t extent : shape) {
    if (extent < 0) return failure(Code::kInvalidArgument, "compression: a dimension of {}", extent);
  }
  // So written that NaN fails, too.
  if (options.kind == Compression::kTopK && !(options.top_k_ratio > 0.0 && options.top_k_ratio <= 1.0))
    return failure(Code::kInvalidArgument, "top-k compression: a ratio of {}; it must be above 0 and at most 1",
                   options.top_k_ratio);
  if (options.kind == Compression::kPowerSgd && options.power_sgd_rank < 1)
    return failure(Code::kInvalidArgument, "PowerSGD compression: a rank of {}; it must be at least 1",
                   options.power_sgd_rank);
  return {};
}

std::unique_ptr<Codec> make(const CompressionOptions& options, std::span<const std::int64_t> shape,
                            const std::shared_ptr<CodecScratch>& scratch) {
  switch (options.kind) {
    case Compression::kNone: return std::make_unique<Exact>();
    case Compression::kFloat16: return std::make_unique<Cast>(DType::kFloat16, options.error_feedback, scratch);
    case Compression::kBfloat16: return std::make_unique<Cast>(DType::kBfloat16, options.error_feedback, scratch);
    case Compression::kFloat8: return std::make_unique<Float8>(options.error_feedback, scratch);
    case Compression::kTopK: return std::make_unique<TopK>(options.top_k_ratio, true, scratch);
    case Compression::kPowerSgd:
      if (!PowerSgd::pays(shape, options.power_sgd_rank)) return std::make_unique<Exact>();
      return std::make_unique<PowerSgd>(shape, options.power_sgd_rank, scratch);
  }
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<Codec>> make_codec(const CompressionOptions& options, std::span<const std::int64_t> shape,
                                          std::shared_ptr<CodecScratch> scratch) {
  XOE_TRY(check_options(options, shape));
  try {
    auto codec = make(options, shape, scratch == nullptr ? own_scratch() : std::move(scratch));
    if (codec == nullptr)
      return failure(Code::kInvalidArgument, "compression: no kind {}", static_cast<int>(options.kind));
    return codec;
  } catch (const std::exception&) {
    return failure(Code::kResourceExhausted, "compression: no memory for the factors of PowerSGD");
  }
}

std::size_t codec_state_bytes(const CompressionOptions& options, std::size_t count) noexcept {
  const bool keeps = options.kind == Compression::kTopK || options.kind == Compression::kPowerSgd ||
                     (options.kind != Compression::kNone && options.error_feedback);
  return keeps ? count * sizeof(float) : 0;
}

}  // namespace xoe::engine
