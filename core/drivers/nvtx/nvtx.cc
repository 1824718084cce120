#include "core/drivers/nvtx/nvtx.h"

#include <unistd.h>

#include <array>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/error.h"

namespace xoe {
namespace {

constexpr const char* kNoProfiler = "./.";  // as NVIDIA's headers understand it
constexpr std::size_t kModules = std::size(kNvtxSlots);
constexpr std::size_t kMostSlots = 16;

// A profiler asks for the tables without saying which process or object it means, so there is one set of them.
struct Tables {
  std::array<std::array<NvtxFunction, kMostSlots>, kModules> slots{};
  std::array<std::array<NvtxFunction*, kMostSlots + 1>, kModules> addresses{};

  Tables() {
    for (std::size_t module = 0; module < kModules; ++module)
      for (std::size_t slot = 1; slot < kNvtxSlots[module]; ++slot) addresses[module][slot] = &slots[module][slot];
  }
};

Tables& tables() {
  static Tables all;
  return all;
}

int module_table(NvtxModule module, NvtxFunction*** table, unsigned* slots) {
  const auto index = static_cast<std::size_t>(module);
  if (index == 0 || index >= kModules) return 0;
  if (slots != nullptr) *slots = kNvtxSlots[index];
  if (table != nullptr) *table = tables().addresses[index].data();
  return 1;
}

const void* exported(std::uint32_t table) {
  static constexpr NvtxCallbacks kCallbacks{.module_table = &module_table};
  static constexpr NvtxVersionInfo kVersion{.set_profilers_version = [](std::uint32_t) {}};
  if (table == kNvtxCallbacks) return &kCallbacks;
  return table == kNvtxVersionInfo ? &kVersion : nullptr;
}

template <class Function>
Function slot(NvtxSlot slot) noexcept {
  const auto module = static_cast<std::size_t>(NvtxModule::kCore2);
  return reinterpret_cast<Function>(tables().slots[module][static_cast<std::size_t>(slot)]);
}

// A profiler that attaches through the CUDA driver leaves this file, so that others need not load the driver.
bool driver_has_profiler(const Env& env) {
  if (::access("/run/nvidia/nvtx/nvtx-cuda.yaml", F_OK) == 0) return true;
  const std::string folder = ::geteuid() == 0 ? "/run/nvidia/nvtx/user.0" : env.text("XDG_RUNTIME_DIR").value_or("");
  const std::string file = folder + (::geteuid() == 0 ? "" : "/nvidia/nvtx") + "/nvtx-cuda.yaml";
  return !folder.empty() && ::access(file.c_str(), F_OK) == 0;
}

Result<NvtxInitialize> initializer_of_driver() {
  XOE_ASSIGN(const Library driver, Library::open({"libcuda.so.1"}));
  int (*ask)(int kind, NvtxFunction*) = nullptr;
  driver.find(ask, "cuNvtxGetInjectionInitializer");
  NvtxFunction found = nullptr;
  constexpr int kCore = 1;
  if (ask == nullptr || ask(kCore, &found) != 0 || found == nullptr)
    return failure(Code::kUnavailable, "the CUDA driver has no profiler for NVTX");
  return reinterpret_cast<NvtxInitialize>(found);
}

Result<NvtxInitialize> find_initializer(const Env& env) {
  const std::string path = env.text("NVTX_INJECTION64_PATH").value_or("");
  if (path == kNoProfiler || (path.empty() && !driver_has_profiler(env)))
    return failure(Code::kUnavailable, "no profiler is attached");
  if (path.empty()) return initializer_of_driver();
  XOE_ASSIGN(const Library library, Library::open({path}));
  NvtxInitialize initialize = nullptr;
  library.find(initialize, "InitializeInjectionNvtx2");
  if (initialize == nullptr)
    return failure(Code::kUnavailable, "NVTX_INJECTION64_PATH={}: it is no profiler's library for NVTX", path);
  return initialize;
}

}  // namespace

NvtxDomain NvtxApi::create_domain(const char* name) const noexcept {
  const auto create = slot<NvtxDomain (*)(const char*)>(NvtxSlot::kDomainCreate);
  return create == nullptr ? nullptr : create(name);
}

void NvtxApi::name_category(NvtxDomain domain, std::uint32_t category, const char* name) const noexcept {
  const auto set = slot<void (*)(NvtxDomain, std::uint32_t, const char*)>(NvtxSlot::kNameCategory);
  if (set != nullptr) set(domain, category, name);
}

NvtxRange NvtxApi::start_range(NvtxDomain domain, const NvtxEvent& event) const noexcept {
  const auto start = slot<NvtxRange (*)(NvtxDomain, const NvtxEvent*)>(NvtxSlot::kRangeStart);
  return start == nullptr ? 0 : start(domain, &event);
}

void NvtxApi::end_range(NvtxDomain domain, NvtxRange range) const noexcept {
  const auto end = slot<void (*)(NvtxDomain, NvtxRange)>(NvtxSlot::kRangeEnd);
  if (end != nullptr) end(domain, range);
}

Result<NvtxApi> attach_profiler(const Env& env) {
  static std::mutex mutex;
  static std::optional<NvtxInitialize> attached;
  const std::lock_guard lock(mutex);
  XOE_ASSIGN(const NvtxInitialize initialize, find_initializer(env));
  if (attached == initialize) return NvtxApi();
  tables().slots = {};
  attached.reset();
  if (initialize(&exported) == 0) {
    tables().slots = {};
    return failure(Code::kUnavailable, "the profiler refuses to attach to NVTX ranges");
  }
  attached = initialize;
  return NvtxApi();
}

}  // namespace xoe
