// What ranks tell their launcher before they end, so that it can name the first cause: the news of an effect may come
// first, because a rank that ends takes longer than its peers take to notice.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string_view>
#include <vector>

#include "core/base/env.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// In the launcher's store, of the rank's slot: "failing_rank/3", with the process as its value.
inline constexpr std::string_view kFailingRankKey = "failing_rank";
// "lost_peers/3", with the process, the version of the world that it was in, and the ranks of that world that were lost
// to it: "4711 0 1 2".
inline constexpr std::string_view kLostPeersKey = "lost_peers";
// The same of ranks that are there, but cannot be reached by the one that tells: the world has not formed because of
// it.
inline constexpr std::string_view kUnreachablePeersKey = "unreachable_peers";
// The same as kLostPeersKey, where the cause says kNothingHeard: their processes may live.
inline constexpr std::string_view kSilentPeersKey = "silent_peers";
inline constexpr std::string_view kNothingHeard = "nothing was heard from it";

struct FailingRank {
  int rank = 0;
  pid_t pid = 0;
  std::chrono::steady_clock::time_point at = {};  // when the launcher learnt it
};

// A rank's operations have failed because these ranks were lost, or one of them: if it fails now, they are the cause.
struct LostPeers {
  int rank = 0;  // of the slot
  pid_t pid = 0;
  int version = 0;             // of the world that it was in
  std::vector<int> lost = {};  // their ranks there
  bool unreachable = false;    // kUnreachablePeersKey
  bool silent = false;         // kSilentPeersKey
};

// This process is failing, to the launcher that `env` describes; without one nothing is said. Has arrived when it
// returns.
Status announce_failing(const Env& env);

// The ranks that the text of a `peer_lost` error in this version of the world names, to the launcher. Takes a quarter
// of a second at most.
void announce_lost_peers(const Env& env, std::string_view cause, int version);

// The same for `timeout` errors of ranks that are there; takes five seconds at most.
void announce_unreachable_peers(const Env& env, std::string_view cause, int version);

// The ranks that the text of an error names, in its order: "rank 3 ended", "ranks 1, 2 and 4". What follows " failed: "
// is another program's text and does not count.
std::vector<int> ranks_named(std::string_view text);

}  // namespace xoe::bootstrap
