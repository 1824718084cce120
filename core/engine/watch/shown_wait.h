// The wait that a rank shows to the other ranks of its host.
#pragma once

#include <span>
#include <string_view>

#include "core/engine/negotiate/readiness_table.h"
#include "core/engine/watch/stall.h"

namespace xoe::engine {

// INVARIANT: RankStatus::sequence is odd while the fields of a wait are being written, and has another value
// afterwards. A reader that finds it even, and the same before and after, has read one wait, whole.

// One thread of the rank writes at a time.
void show_wait(RankStatus& status, ProcessSetId set, std::string_view name, std::span<const MissingRank> missing);
void show_no_wait(RankStatus& status);

// Any thread of any rank. Without missing ranks if `rank` shows no wait, or is writing it now.
BlockedWait read_wait(const RankStatus& status, int rank);

}  // namespace xoe::engine
