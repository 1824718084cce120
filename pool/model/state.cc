#include "pool/model/state.h"

#include <algorithm>

namespace xoe::pool {
namespace {

constexpr std::uint64_t kUnusedMemory = std::uint64_t{1} << 30;  // bytes that a driver may keep for itself
constexpr std::uint64_t kContext = std::uint64_t{64} << 20;      // bytes: less than any program's context takes

// What a GPU without a program shows at most, for those of which the driver does not list the processes, as of a MIG
// instance to an agent without rights. An instance shows some tens of MiB; of a whole GPU the driver keeps more for
// itself, the more memory it has.
std::uint64_t idle_memory(const Gpu& gpu) {
  constexpr std::uint64_t kLeast = std::uint64_t{128} << 20;
  return gpu.uuid.starts_with("MIG-") ? kLeast : std::clamp(gpu.memory / 32, kLeast, kUnusedMemory);
}

}  // namespace

const Lease* State::holder_of(std::string_view uuid) const {
  for (const auto& [id, lease] : leases)
    if (lease.is_open() && std::ranges::find(lease.gpus, uuid) != lease.gpus.end()) return &lease;
  return nullptr;
}

bool State::is_present(const Gpu& gpu) const {
  const auto host = hosts.find(gpu.host);
  return host != hosts.end() && host->second.online && activity.contains(gpu.uuid);
}

bool State::is_guarded(const Lease& lease) const {
  return !lease.gpus.empty() && std::ranges::all_of(lease.gpus, [&](const std::string& uuid) {
    const auto seen = activity.find(uuid);
    return seen != activity.end() && seen->second.open_to;
  });
}

bool State::is_closed_to_holder(const Lease& lease) const {
  return std::ranges::any_of(lease.gpus, [&](const std::string& uuid) {
    const auto seen = activity.find(uuid);
    return seen != activity.end() && seen->second.is_closed_to(lease.user);
  });
}

bool State::awaits_report(const Lease& lease) const {
  return lease.is_waiting() && std::ranges::any_of(lease.gpus, [&](const std::string& uuid) {
           const auto seen = activity.find(uuid);
           return seen != activity.end() && seen->second.is_stale();
         });
}

const std::vector<GpuProcess>& State::unleased_processes(const Gpu& gpu) const {
  static const std::vector<GpuProcess> kNone;
  const auto seen = activity.find(gpu.uuid);
  const bool used = seen != activity.end() && !seen->second.processes.empty();
  return used && holder_of(gpu.uuid) == nullptr ? seen->second.processes : kNone;
}

bool State::works(const Gpu& gpu) const {
  const auto seen = activity.find(gpu.uuid);
  if (seen == activity.end() || !seen->second.utilisation) return false;
  return *seen->second.utilisation > 0 && *seen->second.utilisation >= policy.idle.utilisation;
}

bool State::works_unlisted(const Gpu& gpu) const {
  const auto found = activity.find(gpu.uuid);
  if (found == activity.end() || !found->second.processes.empty()) return false;
  const GpuActivity& seen = found->second;
  // A driver that is loaded again for each question tells of work on GPUs that have none, but not of memory.
  return works(gpu) && (!seen.processes_known || seen.memory_used >= kContext);
}

bool State::is_used(const Gpu& gpu) const {
  const auto found = activity.find(gpu.uuid);
  if (found == activity.end()) return false;
  const GpuActivity& seen = found->second;
  if (!seen.processes.empty() || works_unlisted(gpu)) return true;
  // No work is no sign that there is no program: it may pause.
  const std::uint64_t unused = seen.processes_known ? std::max(kUnusedMemory, gpu.memory / 10) : idle_memory(gpu);
  if (seen.memory_used > unused) return true;
  // A program that has ended leaves the memory that an idle GPU has.
  const bool may_have_context = seen.processes_known ? seen.memory_used > idle_memory(gpu)
                                                     : seen.memory_used == 0 || seen.memory_used >= kContext;
  return seen.worked && may_have_context;
}

bool State::is_seen(const Lease& lease) const {
  if (lease.request.backend() != Backend::kHost) return false;
  const auto tells = [&](const std::string& uuid) {
    const auto seen = activity.find(uuid);
    return seen != activity.end() && (seen->second.utilisation || seen->second.processes_known);
  };
  const auto is_busy = [&](const std::string& uuid) {
    const auto gpu = gpus.find(uuid);
    const auto seen = activity.find(uuid);
    return gpu != gpus.end() && seen != activity.end() && (!seen->second.processes.empty() || works(gpu->second));
  };
  return std::ranges::all_of(lease.gpus, tells) || std::ranges::any_of(lease.gpus, is_busy);
}

GpuUse State::use_of(const Gpu& gpu, const Lease* holder) const {
  if (!is_present(gpu)) return GpuUse::kOffline;
  if (holder != nullptr) return GpuUse::kLeased;
  return is_used(gpu) && !activity.at(gpu.uuid).is_stale() ? GpuUse::kUnleased : GpuUse::kFree;
}

}  // namespace xoe::pool
