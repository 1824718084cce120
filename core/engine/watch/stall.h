// Messages about stalled operations, and the search for ranks that wait for each other in a cycle.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/negotiate/agreement.h"
#include "xoe/engine.h"

namespace xoe::engine {

// A tensor that some ranks of its process set have submitted and others have not. Ranks are those of the world, here
// and below, in any order.
struct PendingTensor {
  std::string name;
  ProcessSetId set = kWorldSet;
  std::vector<int> submitted;        // ranks of this host
  std::vector<MissingRank> missing;  // empty: some ranks of other hosts
  std::chrono::nanoseconds age{0};
};

// A thread of a rank that is blocked until all ranks of `missing` have submitted.
struct BlockedWait {
  int rank = 0;
  std::string name;
  ProcessSetId set = kWorldSet;
  std::vector<int> missing;
  std::uint32_t shown = 0;  // changes each time that the rank shows its wait
};

// "ranks 0-3, 7", "rank 2", "no rank": sorted, without duplicates, and cut after `ranges` ranges as in
// "ranks 0, 2, 4, ... (9 in all)".
std::string rank_list(std::vector<int> ranks, std::size_t ranges = 16);

// 'conv1.weight' (process set 0) has waited for 62 s: submitted by ranks 0-2; missing on rank 3 (last submitted 'x'
// there). One line of at most 2 KiB.
std::string stall_line(const PendingTensor& tensor);

// One line per tensor, the oldest first; after `limit` of them a line that counts the rest.
std::vector<std::string> stall_report(std::vector<PendingTensor> tensors, std::size_t limit = 10);

// A cycle of waits: each needs the rank of the next one, the last needs the rank of the first. It never resolves, since
// a wait needs all of its ranks, unless another thread of one of the ranks submits the missing tensor: only a cycle
// that lasts is a deadlock.
using WaitCycle = std::vector<BlockedWait>;

// One shortest cycle for each strongly connected group of ranks; it begins with its lowest rank.
std::vector<WaitCycle> find_wait_cycles(const std::vector<BlockedWait>& waits);

// order deadlock: rank 0 waits for 'x' (process set 1), which rank 1 has not submitted; rank 1 waits for 'y' (process
// set 2), which rank 0 has not submitted. One line of at most 2 KiB.
std::string deadlock_line(const WaitCycle& cycle);

// Finds cycles that last, for one rank.
class DeadlockWatch {
 public:
  // waits: of all ranks, as they show them now. Returns the deadlock_line() of a cycle that `rank` is in, once it has
  // been found twice and all its ranks have shown their waits again between; else an empty text. It reports each once.
  std::string look(const std::vector<BlockedWait>& waits, int rank);

 private:
  WaitCycle first_;  // as it was found first
  std::string line_;
  std::string reported_;
};

}  // namespace xoe::engine
