// Stands in for a profiler's library (NVTX_INJECTION64_PATH): writes what it hears of ranges into XOE_MOCK_NVTX, one
// line each, "{pid}" in the path being this process. XOE_MOCK_NVTX_MODE: "refuse" does not attach, "empty" fills no
// slot.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/drivers/nvtx/nvtx.h"

namespace {

using xoe::NvtxDomain;
using xoe::NvtxEvent;
using xoe::NvtxFunction;
using xoe::NvtxModule;
using xoe::NvtxRange;
using xoe::NvtxSlot;

std::atomic<NvtxRange> last_range{0};
std::atomic<int> domains{0};

// A line reaches the file whole, whatever other threads write.
void note(const std::string& line) {
  const char* const path = std::getenv("XOE_MOCK_NVTX");
  if (path == nullptr) return;
  std::string file(path);
  if (const auto at = file.find("{pid}"); at != std::string::npos) file.replace(at, 5, std::to_string(::getpid()));
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  ::close(fd);
}

NvtxDomain create_domain(const char* name) {
  note("domain " + std::string(name) + "\n");
  return reinterpret_cast<NvtxDomain>(static_cast<std::intptr_t>(++domains));
}

void name_category(NvtxDomain, std::uint32_t category, const char* name) {
  note("category " + std::to_string(category) + " " + name + "\n");
}

NvtxRange start_range(NvtxDomain domain, const NvtxEvent* event) {
  if (domain == nullptr || event->version != 3 || event->size != 48 || event->message_type != 1) std::abort();
  const NvtxRange range = ++last_range;
  note("start " + std::to_string(range) + " " + std::to_string(event->category) + " " + std::to_string(event->payload) +
       " " + event->message + "\n");
  return range;
}

void end_range(NvtxDomain domain, NvtxRange range) {
  if (domain == nullptr || range == 0) std::abort();
  note("end " + std::to_string(range) + "\n");
}

// What a program must not call: Xoe does not use it.
void unused() { std::abort(); }

template <class Function>
NvtxFunction generic(Function* function) {
  return reinterpret_cast<NvtxFunction>(function);
}

void fill(NvtxModule module, NvtxFunction** table, unsigned slots) {
  for (unsigned slot = 1; slot < slots; ++slot) *table[slot] = &unused;
  if (module != NvtxModule::kCore2) return;
  *table[static_cast<unsigned>(NvtxSlot::kDomainCreate)] = generic(&create_domain);
  *table[static_cast<unsigned>(NvtxSlot::kNameCategory)] = generic(&name_category);
  *table[static_cast<unsigned>(NvtxSlot::kRangeStart)] = generic(&start_range);
  *table[static_cast<unsigned>(NvtxSlot::kRangeEnd)] = generic(&end_range);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(xoe::NvtxExport exported) {
  const char* const mode = std::getenv("XOE_MOCK_NVTX_MODE");
  if (mode != nullptr && std::strcmp(mode, "refuse") == 0) return 0;
  const auto* const version = static_cast<const xoe::NvtxVersionInfo*>(exported(xoe::kNvtxVersionInfo));
  const auto* const callbacks = static_cast<const xoe::NvtxCallbacks*>(exported(xoe::kNvtxCallbacks));
  if (version == nullptr || version->size < 24 || version->version != 3 || callbacks == nullptr || callbacks->size < 16)
    return 0;
  if (exported(0) != nullptr || exported(99) != nullptr) return 0;
  version->set_profilers_version(3);
  if (mode != nullptr && std::strcmp(mode, "empty") == 0) return 1;
  for (int number = 0; number < 8; ++number) {
    NvtxFunction** table = nullptr;
    unsigned slots = 0;
    const int found = callbacks->module_table(static_cast<NvtxModule>(number), &table, &slots);
    if ((found != 0) != (number >= 1 && number <= 6)) return 0;
    if (found != 0) fill(static_cast<NvtxModule>(number), table, slots);
  }
  return 1;
}
