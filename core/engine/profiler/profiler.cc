#include "core/engine/profiler/profiler.h"

#include <array>
#include <mutex>
#include <string>

#include "core/base/error.h"

namespace xoe::engine {
namespace {

struct Look {
  const char* name;  // as in the timeline
  std::uint32_t color;
};
constexpr std::array<Look, 5> kLooks{{
    {"negotiate", 0xff9e9e9e},
    {"queue", 0xfff2c14e},
    {"pack", 0xff4d9de0},
    {"reduce", 0xff3bb273},
    {"unpack", 0xff7768ae},
}};
constexpr const char* kDomain = "xoe";

std::uint32_t category_of(ProfiledStage stage) { return static_cast<std::uint32_t>(stage) + 1; }

// One, since a program may start several engines.
NvtxDomain domain_of_process(const NvtxApi& api) {
  static std::mutex mutex;
  static NvtxDomain domain = nullptr;
  const std::lock_guard lock(mutex);
  if (domain != nullptr) return domain;
  domain = api.create_domain(kDomain);
  for (std::uint32_t i = 0; i < kLooks.size(); ++i)
    api.name_category(domain, category_of(static_cast<ProfiledStage>(i)), kLooks[i].name);
  return domain;
}

NvtxRange start_range(NvtxDomain domain, ProfiledStage stage, std::string_view name, std::size_t bytes) {
  const Look& look = kLooks[static_cast<std::size_t>(stage)];
  std::string message(look.name);
  message.append(" ").append(name);
  return NvtxApi().start_range(domain, {.category = category_of(stage),
                                        .color = look.color,
                                        .payload = static_cast<std::int64_t>(bytes),
                                        .message = message.c_str()});
}

}  // namespace

void StageRange::end() noexcept {
  if (domain_ != nullptr) NvtxApi().end_range(std::exchange(domain_, nullptr), range_);
}

void StageRange::next(ProfiledStage stage, std::string_view name, std::size_t bytes) {
  if (domain_ == nullptr) return;
  NvtxApi().end_range(domain_, range_);
  range_ = start_range(domain_, stage, name, bytes);
}

std::unique_ptr<const Profiler> Profiler::attach(std::optional<bool> wanted, const Env& env,
                                                 const std::function<void(std::string_view)>& warn) {
  if (wanted == false) return nullptr;
  const auto api = attach_profiler(env);
  const NvtxDomain domain = api ? domain_of_process(*api) : nullptr;
  if (api && domain != nullptr) return std::unique_ptr<const Profiler>(new Profiler(domain));
  const std::string reason = api ? "the profiler records no ranges of programs" : api.error().message();
  if (wanted == true)
    warn(fmt::format("XOE_NVTX=1 has no effect: {}; start the program under `nsys profile --trace=nvtx,cuda`", reason));
  else if (env.has("NVTX_INJECTION64_PATH"))
    warn(fmt::format("a profiler is attached, but shows nothing of Xoe: {}", reason));
  return nullptr;
}

StageRange Profiler::start(ProfiledStage stage, std::string_view name, std::size_t bytes) const {
  StageRange range;
  range.range_ = start_range(domain_, stage, name, bytes);
  range.domain_ = domain_;
  return range;
}

}  // namespace xoe::engine
