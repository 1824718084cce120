// Sends the pool the reports of an agent that speaks for several hosts: one that is refused keeps back no other.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pool/server/client.h"
#include "pool/server/orders.h"

namespace xoe::pool {

// One thread at a time.
class HostReporter {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  struct Round {
    std::vector<wire::Orders> orders = {};  // of hosts whose reports were taken
    std::set<std::string> refused = {};     // hosts
    std::vector<std::string> news = {};     // why a host is refused, where that is new
    std::optional<Reply> not_allowed = {};  // the pool takes no report of this agent
  };

  explicit HostReporter(Client client) : client_(std::move(client)) {}

  // `looked`: when the agent began the look that they tell of; nullopt: now. `unavailable`: the pool does not answer,
  // or takes nothing now; it may have taken some of them.
  Result<Round> send(const std::vector<HostReport>& reports, std::optional<Moment> looked = std::nullopt);

 private:
  Client client_;
  std::map<std::string, std::string> refused_;  // by host: why, as the last round was told
};

}  // namespace xoe::pool
