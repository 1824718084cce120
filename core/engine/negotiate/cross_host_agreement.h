// Agreement of ranks on several hosts: the first rank of each host leads it, takes what is complete there to the
// coordinators of the hosts, and seals what they decide.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/leader_channel.h"
#include "core/engine/negotiate/agreement.h"
#include "core/engine/negotiate/coordinator.h"

namespace xoe::engine {

class CrossHostAgreement final : public Agreement {
 public:
  // channel: null on ranks that do not lead their host.
  CrossHostAgreement(SharedLayout& memory, HostBlocks& blocks, AgreementMembers members, int capacity,
                     std::unique_ptr<LeaderChannel> channel);

  Result<bool> progress(bool may_seal) override;
  std::string error(const LogLine& line, std::string_view name) const override;
  std::optional<std::vector<MissingRank>> missing(int entry, std::uint8_t generation) override;
  bool speaks_for_host() const noexcept override { return channel_ != nullptr; }

 private:
  struct ErrorText;

  void submit(const LogLine& line);
  bool has_room(const Decision& decision) const noexcept;
  Status apply(const Decision& decision);
  Result<LogLine> line_of(const DecidedTensor& tensor);
  void set_error(const LogLine& line, std::string_view text) noexcept;

  ErrorText* errors_;  // the latest, shared with this host's ranks

  // Of the leader.
  std::unique_ptr<LeaderChannel> channel_;
  Coordinator coordinator_;
  std::uint64_t complete_position_ = 0;
  std::size_t next_error_ = 0;
  std::deque<Decision> decided_;                           // that the log has no room for yet
  std::map<std::string, LogLine, std::less<>> undecided_;  // complete on this host
};

}  // namespace xoe::engine
