// Checks whether a training took each record of an epoch exactly once, and finds those that it did not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/ledger/ledger.h"

namespace xoe::data {

// Where a record was trained on.
struct LedgerPlace {
  std::int64_t world = 0;
  std::int64_t step = 0;
  int rank = 0;
  bool operator==(const LedgerPlace&) const = default;
};

struct DoubledRecord {
  std::int64_t record = 0;
  std::vector<LedgerPlace> places = {};  // two at least, in order
};

struct EpochProof {
  std::int64_t epoch = 0;
  bool ended = false;        // its last step is committed
  std::int64_t steps = 0;    // committed ones
  std::int64_t records = 0;  // different ones in them
  std::int64_t missing_count = 0, doubled_count = 0, unknown_count = 0;
  // The first kMostNamed of each.
  std::vector<std::int64_t> missing = {};
  std::vector<DoubledRecord> doubled = {};
  std::vector<std::int64_t> unknown = {};  // numbers that no record of the data set has
  // The most records that a step of all ranks has; fewer than these may be left out at the end of an epoch.
  std::int64_t largest_step = 0;

  bool exact() const noexcept { return ended && missing_count == 0 && doubled_count == 0 && unknown_count == 0; }
  // Nothing is missing but the rest of an epoch that fills no step.
  bool exact_but_for_rest() const noexcept {
    return ended && doubled_count == 0 && unknown_count == 0 && missing_count < largest_step;
  }
};
inline constexpr std::size_t kMostNamed = 100;

struct LedgerProof {
  std::int64_t records = 0;  // of the data set
  std::int64_t worlds = 0;
  std::int64_t last_step = 0;  // that is committed
  std::vector<EpochProof> epochs = {};
  // Steps that some rank began and that no rank completed, or that were lost with their checkpoint: they were computed
  // again, or never, and count for nothing.
  std::vector<LedgerPlace> undone = {};
  // Committed steps that a rank of their world says nothing about: the ledger proves nothing then.
  std::vector<LedgerPlace> silent = {};
};

// A step is committed once a rank has told that it is done, or a later one of its world begins, or the next world
// begins behind it; and it is undone where a later world begins at or before it. `records`: of the data set, in place
// of what the files say; `epoch`: only that one. `data_loss`: lines contradict each other; the message names them.
Result<LedgerProof> check_ledger(const LedgerLines& lines, std::optional<std::int64_t> records = {},
                                 std::optional<std::int64_t> epoch = {});

}  // namespace xoe::data
