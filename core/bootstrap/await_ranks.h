// Waits for ranks to appear at the store.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/bootstrap/store.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// The launcher keeps the ranks that ended well under this key, a line for each: "3 exited with code 0 after 2 s".
inline constexpr std::string_view kEndedRanksKey = "ended_ranks";

// Ranks by the keys that they set, and their numbers in the job.
struct AwaitedRanks {
  std::vector<std::string> keys;
  std::vector<int> ranks;
};

// The values of the keys. `timeout` and `peer_lost` name the ranks that did not appear, or that ended instead.
Result<std::vector<std::string>> await_ranks(Store& store, const AwaitedRanks& awaited,
                                             std::chrono::nanoseconds timeout);

// The line of a rank that ended well and will set no key; empty: it has not, or the launcher does not say.
std::string ended_line(Store& store, int rank);

}  // namespace xoe::bootstrap
