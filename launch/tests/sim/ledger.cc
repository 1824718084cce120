#include "launch/tests/sim/ledger.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "data/ledger/check_ledger.h"
#include "data/ledger/ledger.h"
#include "launch/tests/sim/journal.h"

namespace xoe::launch::sim_tests {

Journal* journal = nullptr;

namespace {

constexpr int kBatch = 2;  // records of a rank in a step
constexpr std::uint64_t kSeed = 11;
const data::LedgerData kData{.records = kRecords, .fingerprint = kSeed, .run = 1};

void write(std::string line) {
  std::string& file = journal->ledgers[::getpid()];
  if (file.empty()) file = data::ledger_line(kData);
  file += line;
}

}  // namespace

Status Records::begin_world(Communicator& comm, std::int64_t first_step) {
  // One that has told of none yet looks into the folder. A number that was tried in vain may have been told of, too.
  tried_ = std::max(tried_, world_ > 0 ? world_ : journal->last_world) + 1;
  std::int64_t number = tried_;
  XOE_TRY(comm.allreduce(Tensor(&number, 1), ReduceOp::kMax, {.name = "number of the ledger's world"}));
  journal->last_world = world_ = number;
  rank_ = comm.rank();
  write(data::ledger_line(
      data::LedgerWorld{.number = world_, .rank = rank_, .size = comm.size(), .first_step = first_step}));
  const auto stage = data::repeat(
      data::shard_batches(data::shuffled_indices(kRecords, kSeed),
                          {.rank = rank_, .size = comm.size(), .batch = kBatch, .remainder = data::Remainder::kKeep}));
  XOE_ASSIGN(batches_, stage->iterate(0));
  if (position_.empty()) return {};
  XOE_ASSIGN(auto position, data::State::from_text(position_));
  return batches_->restore(std::move(position));
}

Status Records::take(std::int64_t step) {
  XOE_ASSIGN(const auto batch, batches_->next());
  position_ = batches_->save().to_text();
  write(data::ledger_line(data::LedgerStep{.world = world_,
                                           .step = step,
                                           .rank = rank_,
                                           .epoch = batch->epoch,
                                           .left = batch->left,
                                           .records = batch->elements}));
  return {};
}

void Records::done(std::int64_t step) { write(data::ledger_line(data::LedgerDone{.world = world_, .step = step})); }

std::string problem_of_ledgers() {
  data::LedgerLines lines;
  for (const auto& [pid, text] : journal->ledgers)
    if (const Status parsed = data::parse_ledger(text, fmt::format("pid {}", pid), lines); !parsed)
      return parsed.error().message();
  const auto proof = data::check_ledger(lines);
  if (!proof) return proof.error().message();
  if (!proof->silent.empty())
    return fmt::format("step {} was done, and rank {} of world {} has not told its records", proof->silent[0].step,
                       proof->silent[0].rank, proof->silent[0].world);
  for (const data::EpochProof& epoch : proof->epochs) {
    const std::string of = fmt::format("epoch {}: ", epoch.epoch);
    if (epoch.doubled_count > 0)
      return of + fmt::format("{} records came twice, record {} in steps {} and {}", epoch.doubled_count,
                              epoch.doubled[0].record, epoch.doubled[0].places[0].step,
                              epoch.doubled[0].places[1].step);
    if (epoch.unknown_count > 0) return of + fmt::format("there is no record {}", epoch.unknown[0]);
    if (epoch.ended && epoch.missing_count > 0)
      return of + fmt::format("records {} never came", fmt::join(epoch.missing, ", "));
  }
  return {};
}

}  // namespace xoe::launch::sim_tests
