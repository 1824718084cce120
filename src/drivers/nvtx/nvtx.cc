#include "drivers/nvtx/nvtx.h"

#include <dlfcn.h>

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"

namespace xoe {
namespace {

constexpr const char* kPathVariable = "NVTX_INJECTION64_PATH";
constexpr std::string_view kNoProfiler = "./.";  // a path that asks for none

// The slots that a profiler fills, and the tables through which it reaches them. Xoe calls few of these functions, but
// a profiler may write to any slot.
class Slots {
 public:
  Slots() {
    for (std::size_t m = 0; m < kNvtxModules; ++m) {
      slots_[m].resize(kNvtxFunctions[m]);
      // One more null at the end, as in NVIDIA's headers: a profiler that reads too far finds no address.
      tables_[m].resize(kNvtxFunctions[m] + 1);
      for (std::size_t f = 1; f < kNvtxFunctions[m]; ++f) tables_[m][f] = &slots_[m][f];
    }
  }
  Slots(const Slots&) = delete;

  NvtxTable table(NvtxModule module) { return tables_[static_cast<std::size_t>(module)].data(); }

  NvtxApi api() const {
    NvtxApi api;
    find(api.domain_range_start, NvtxFunctionNumber::kDomainRangeStart);
    find(api.domain_range_end, NvtxFunctionNumber::kDomainRangeEnd);
    find(api.domain_name_category, NvtxFunctionNumber::kDomainNameCategory);
    find(api.domain_register_string, NvtxFunctionNumber::kDomainRegisterString);
    find(api.domain_create, NvtxFunctionNumber::kDomainCreate);
    return api;
  }

 private:
  template <class Function>
  void find(Function& function, NvtxFunctionNumber number) const {
    const auto& core2 = slots_[static_cast<std::size_t>(NvtxModule::kCore2)];
    function = reinterpret_cast<Function>(core2[static_cast<std::size_t>(number)]);
  }

  std::array<std::vector<NvtxFunction>, kNvtxModules> slots_;
  std::array<std::vector<NvtxFunction*>, kNvtxModules> tables_;
};

struct Attachment {
  NvtxInitialize initialize = nullptr;
  Slots slots = {};
  NvtxApi api = {};
};

// Of the process, because the protocol's functions have no argument that could lead to an object.
struct Attachments {
  std::mutex mutex;
  std::vector<std::unique_ptr<Attachment>> all;  // the last one is being attached, or was
};

// Never destroyed: a profiler may write to slots until the process is gone.
Attachments& attachments() {
  static auto* const all = new Attachments;
  return *all;
}

// Called by a profiler within its `initialize`, so the mutex is held.
int module_table(NvtxModule module, NvtxTable* table, unsigned* functions) {
  const auto number = static_cast<std::size_t>(module);
  if (number >= kNvtxModules || kNvtxFunctions[number] == 0) return 0;
  if (functions != nullptr) *functions = static_cast<unsigned>(kNvtxFunctions[number]);
  if (table != nullptr) *table = attachments().all.back()->slots.table(module);
  return 1;
}

void ignore_version(std::uint32_t) {}

const void* get_export(NvtxExport which) {
  static constexpr NvtxCallbacks kCallbacks{sizeof(NvtxCallbacks), module_table};
  static constexpr NvtxVersionInfo kVersion{sizeof(NvtxVersionInfo), kNvtxVersion, 0, ignore_version};
  switch (which) {
    case NvtxExport::kCallbacks: return &kCallbacks;
    case NvtxExport::kVersion: return &kVersion;
  }
  return nullptr;
}

}  // namespace

Result<NvtxInitialize> find_nvtx_profiler(const Env& env) {
  const auto path = env.text(kPathVariable);
  if (!path) {
    auto* const found = static_cast<NvtxInitialize*>(::dlsym(RTLD_DEFAULT, "InitializeInjectionNvtx2_fnptr"));
    return found == nullptr ? nullptr : *found;
  }
  if (*path == kNoProfiler) return nullptr;
  // Lazily, as NVIDIA's headers do: profilers' libraries may lack symbols that only some programs have. Never closed.
  void* const library = ::dlopen(path->c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr)
    return failure(Code::kUnavailable, "{}={} does not load: {}", kPathVariable, *path, ::dlerror());
  const auto initialize = reinterpret_cast<NvtxInitialize>(::dlsym(library, "InitializeInjectionNvtx2"));
  if (initialize == nullptr)
    return failure(Code::kUnsupported, "{}={} has no function InitializeInjectionNvtx2", kPathVariable, *path);
  return initialize;
}

Result<const NvtxApi*> attach_nvtx_profiler(NvtxInitialize initialize) {
  Attachments& known = attachments();
  const std::lock_guard lock(known.mutex);
  for (const auto& attachment : known.all)
    if (attachment->initialize == initialize && attachment->api.records_ranges()) return &attachment->api;
  Attachment& made = *known.all.emplace_back(std::make_unique<Attachment>());
  if (initialize(get_export) == 0) return failure(Code::kUnsupported, "the profiler refused to attach");
  made.initialize = initialize;
  made.api = made.slots.api();
  if (!made.api.records_ranges())
    return failure(Code::kUnsupported, "the profiler records no NVTX ranges");
  return &made.api;
}

}  // namespace xoe
