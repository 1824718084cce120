// Ranges of the engine's work in the profiler that is attached to this process, so that Nsight Systems shows it beside
// kernels. They are live: a stage's range starts and ends when the stage does, unlike the timeline's bars, which are
// written once a batch is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/env.h"
#include "core/drivers/nvtx/nvtx.h"

namespace xoe::engine {

// A tensor is in kNegotiate from its submission until all ranks agree, then in kQueue until its batch starts. A batch
// is in the other stages.
enum class ProfiledStage : std::uint8_t { kNegotiate, kQueue, kPack, kReduce, kUnpack };

// The range of the stage that a tensor or a batch is in; ends at the latest with this object. For one thread at a time.
class StageRange {
 public:
  StageRange() = default;
  StageRange(StageRange&& other) noexcept : domain_(std::exchange(other.domain_, nullptr)), range_(other.range_) {}
  StageRange& operator=(StageRange other) noexcept {
    std::swap(domain_, other.domain_);
    std::swap(range_, other.range_);
    return *this;
  }
  ~StageRange() { end(); }

  void end() noexcept;
  // Another stage follows at once. Without a range nothing happens.
  void next(ProfiledStage stage, std::string_view name, std::size_t bytes);

 private:
  friend class Profiler;
  NvtxDomain domain_ = nullptr;  // null: there is no range
  NvtxRange range_ = 0;
};

// Thread safety: any thread.
class Profiler {
 public:
  // wanted: unset: if a profiler is attached; true: `warn` hears if none is. Null: there are no ranges.
  static std::unique_ptr<const Profiler> attach(std::optional<bool> wanted, const Env& env,
                                                const std::function<void(std::string_view)>& warn);

  // Its message is the stage and the name: "reduce conv1.weight".
  StageRange start(ProfiledStage stage, std::string_view name, std::size_t bytes) const;

 private:
  explicit Profiler(NvtxDomain domain) : domain_(domain) {}
  const NvtxDomain domain_;
};

}  // namespace xoe::engine
