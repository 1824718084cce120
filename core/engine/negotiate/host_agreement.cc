#include "core/engine/negotiate/host_agreement.h"

#include <atomic>
#include <utility>

#include "core/base/error.h"

namespace xoe::engine {

HostAgreement::HostAgreement(SharedLayout& memory, HostBlocks& blocks, AgreementMembers members, int capacity)
    : Agreement(memory, blocks, std::move(members), capacity, std::nullopt) {}

Result<bool> HostAgreement::progress(bool may_seal) {
  if (!may_seal) return false;
  const std::uint64_t end = log_.filled_end();
  if (end == log_.read_to()) return false;
  // A rank that has joined takes part in little, and could fall behind by more than the ring holds.
  const std::uint64_t most = log_.ring().size() / 2;
  if (end - completed_by_all_ >= most) {
    // Of two ranks that both get here after completed(), one sees the other's position.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    completed_by_all_ = table_.completed_by_all();
    if (end - completed_by_all_ >= most) return false;
  }
  return log_.try_seal(end, knobs());
}

std::string HostAgreement::error(const LogLine& line, std::string_view name) const {
  return fmt::format("'{}': {}{}", name, line.kind == LogKind::kMismatch ? "ranks disagree: " : "",
                     describe_mismatch(line));
}

std::optional<std::vector<MissingRank>> HostAgreement::missing(int entry, std::uint8_t generation) {
  std::vector<MissingRank> missing = missing_on_host(entry, generation);
  if (missing.empty()) return std::nullopt;
  return missing;
}

}  // namespace xoe::engine
