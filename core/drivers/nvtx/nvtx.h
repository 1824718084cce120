// NVTX 3: what a program tells a profiler, such as Nsight Systems, about its own work. There is no library to load: a
// profiler names its own in the environment, and the program hands it slots, which it fills with functions. Our own
// declarations of the part that is used; source: NVIDIA's headers of NVTX 3 (nvtxDetail/nvtxInit.h, nvtxTypes.h),
// loading sequence 3. core/tests/drivers has a mock of the profiler, and compares the declarations with NVIDIA's
// headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/drivers/library.h"

namespace xoe {

struct NvtxDomainObject;  // of the profiler
using NvtxDomain = NvtxDomainObject*;
using NvtxRange = std::uint64_t;

// A range's name, kind and colour. The profiler copies the name.
struct NvtxEvent {
  std::uint16_t version = 3;
  std::uint16_t size = 48;
  std::uint32_t category = 0;
  std::int32_t color_type = 1;  // ARGB
  std::uint32_t color = 0;
  std::int32_t payload_type = 2;  // a signed number of 64 bits
  std::int32_t reserved = 0;
  std::int64_t payload = 0;
  std::int32_t message_type = 1;  // UTF-8
  const char* message = nullptr;
};
static_assert(sizeof(NvtxEvent) == 48);

using NvtxFunction = void (*)();

// The tables of slots that a profiler asks for, by their numbers, and the slots that Xoe calls.
enum class NvtxModule : int { kCore = 1, kCuda = 2, kOpenCl = 3, kCudaRuntime = 4, kCore2 = 5, kSync = 6 };
inline constexpr unsigned kNvtxSlots[] = {0, 16, 9, 15, 7, 16, 7};  // of each module, the unused slot 0 included
enum class NvtxSlot : unsigned { kRangeStart = 2, kRangeEnd = 3, kNameCategory = 8, kDomainCreate = 12 };  // kCore2

struct NvtxCallbacks {
  std::size_t size = sizeof(NvtxCallbacks);
  int (*module_table)(NvtxModule, NvtxFunction*** table, unsigned* slots) = nullptr;
};

struct NvtxVersionInfo {
  std::size_t size = sizeof(NvtxVersionInfo);
  std::uint32_t version = 3;
  std::uint32_t reserved = 0;
  void (*set_profilers_version)(std::uint32_t) = nullptr;
};

inline constexpr std::uint32_t kNvtxCallbacks = 1, kNvtxVersionInfo = 3;  // numbers of exported tables
using NvtxExport = const void* (*)(std::uint32_t table);
using NvtxInitialize = int (*)(NvtxExport);  // a profiler's; 0: it does not attach

// The profiler that is attached to this process: without one, and where it has left a slot empty, nothing happens.
// Thread safety: any thread.
class NvtxApi {
 public:
  NvtxDomain create_domain(const char* name) const noexcept;  // null where the profiler has none
  void name_category(NvtxDomain domain, std::uint32_t category, const char* name) const noexcept;
  NvtxRange start_range(NvtxDomain domain, const NvtxEvent& event) const noexcept;
  void end_range(NvtxDomain domain, NvtxRange range) const noexcept;
};

// Attaches the profiler that NVTX_INJECTION64_PATH names, or that the CUDA driver has; it stays for the life of the
// process. `unavailable`: no profiler is named, its library cannot be loaded, or it refuses. Any thread may call this
// any number of times.
Result<NvtxApi> attach_profiler(const Env& env);

}  // namespace xoe
