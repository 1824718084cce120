#include "train/trainer/options.h"

#include <array>

#include "core/describe/text.h"

namespace xoe::train {
namespace {

struct OptimizerRow {
  std::string_view name;
  bool momentum;
  OptimizerDefaults defaults;
};
constexpr std::array<OptimizerRow, 4> kOptimizers = {{{"sgd", true, {.lr = 0.1, .weight_decay = 5e-5}},
                                                      {"adamw", false, {.lr = 1e-3, .weight_decay = 0.05}},
                                                      {"lars", true, {.lr = 0.3, .weight_decay = 5e-5}},
                                                      {"lamb", false, {.lr = 1e-3, .weight_decay = 0.02}}}};
const OptimizerRow& row_of(OptimizerKind kind) noexcept { return kOptimizers[static_cast<std::size_t>(kind)]; }

}  // namespace

std::string_view optimizer_name(OptimizerKind kind) {
  return static_cast<std::size_t>(kind) < kOptimizers.size() ? row_of(kind).name : std::string_view();
}
std::string_view device_name(DeviceKind kind) { return describe::name_among({"auto", "cpu", "cuda"}, kind); }
std::string_view precision_name(Precision precision) {
  return describe::name_among({"fp32", "bf16", "fp16"}, precision);
}
std::string_view memory_format_name(MemoryFormat format) {
  return describe::name_among({"auto", "nchw", "nhwc"}, format);
}
std::string_view on_resize_name(OnResize policy) {
  return describe::name_among({"scale-lr", "keep-global-batch", "keep"}, policy);
}
bool has_momentum(OptimizerKind kind) noexcept { return row_of(kind).momentum; }
OptimizerDefaults optimizer_defaults(OptimizerKind kind) noexcept { return row_of(kind).defaults; }

}  // namespace xoe::train
