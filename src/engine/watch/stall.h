// Messages about operations that wait for ranks, and the search for ranks that wait for each other in a circle.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "xoe/engine.h"

namespace xoe::engine {

// A tensor that some ranks of its process set have submitted and others have not. Ranks are those of the world, here
// and below, in any order.
struct PendingTensor {
  struct Missing {
    int rank = 0;
    std::string last;  // what it did last, as in "submitted 'fc.bias' 61 s ago"; may be empty
  };

  std::string name;
  ProcessSetId set = kWorldSet;
  std::vector<int> submitted;
  std::vector<Missing> missing;
  std::chrono::nanoseconds age{0};
};

// A thread of a rank that is blocked until all ranks of `missing` have submitted.
struct BlockedWait {
  int rank = 0;
  std::string name;
  ProcessSetId set = kWorldSet;
  std::vector<int> missing;
};

// "ranks 0-3, 7", "rank 2", "no rank"; sorted, each once, and cut after `ranges` ranges: "ranks 0, 2, 4, ... (9 in
// all)".
std::string rank_list(std::vector<int> ranks, std::size_t ranges = 16);

// 'conv1.weight' (process set 0) has waited for 62 s: submitted by ranks 0-2; missing on rank 3 (submitted 'x' 61 s
// ago) One line of 2 KiB at most, whatever the names are.
std::string stall_line(const PendingTensor& tensor);

// A line for each tensor, the oldest first; behind `limit` of them one that counts the rest.
std::vector<std::string> stall_report(std::vector<PendingTensor> tensors, std::size_t limit = 10);

// Waits each of which needs the rank of the next one to go on, and the last one that of the first. All of one wait's
// ranks are needed, so such a circle never resolves, unless another thread of one of the ranks submits what is missing:
// only a circle that lasts is a deadlock.
using WaitCycle = std::vector<BlockedWait>;

// A shortest circle for each group of ranks that can only be freed by one of themselves; it begins with its lowest
// rank.
std::vector<WaitCycle> find_wait_cycles(const std::vector<BlockedWait>& waits);

// order deadlock: rank 0 waits for 'x' (process set 1), which rank 1 has not submitted; rank 1 waits for 'y' (process
// set 2), which rank 0 has not submitted. One line of 2 KiB at most.
std::string deadlock_line(const WaitCycle& cycle);

}  // namespace xoe::engine
