#include "data/ledger/check_ledger.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"

namespace xoe::data {
namespace {

constexpr std::int64_t kLargestDataSet = std::int64_t{1} << 40;

// One world, as all its ranks tell it.
struct World {
  std::int64_t first = 0;
  int size = 0;
  std::int64_t last = 0;  // committed step; first - 1: none
  std::set<int> ranks = {};
};
using Worlds = std::map<std::int64_t, World>;

Result<Worlds> worlds_of(const LedgerLines& lines) {
  Worlds worlds;
  for (const LedgerWorld& told : lines.worlds) {
    World& world = worlds[told.number];
    if (world.size == 0) world = {.first = told.first_step, .size = told.size, .last = told.first_step - 1};
    if (world.first != told.first_step || world.size != told.size)
      return failure(Code::kDataLoss,
                     "world {} begins with step {} on {} ranks, and in {} with step {} on {}: files of two trainings, "
                     "which did not know of each other",
                     told.number, world.first, world.size, told.told, told.first_step, told.size);
    if (!world.ranks.insert(told.rank).second)
      return failure(Code::kDataLoss, "world {} has two ranks {}, one in {}: files of two trainings", told.number,
                     told.rank, told.told);
  }
  return worlds;
}

Status check_run(const LedgerLines& lines) {
  for (const LedgerData& data : lines.data)
    if (data.run != lines.data.front().run)
      return failure(
          Code::kDataLoss,
          "files of two trainings: {} is of {:x}, and {} of {:x}; give the files of one, each training has a "
          "folder of its own",
          lines.data.front().told, lines.data.front().run, data.told, data.run);
  return {};
}

Status find_committed(const LedgerLines& lines, Worlds& worlds) {
  const auto world_of = [&](std::int64_t number) -> Result<World*> {
    const auto found = worlds.find(number);
    if (found == worlds.end()) return failure(Code::kDataLoss, "a step is of world {}, which never began", number);
    return &found->second;
  };
  for (const LedgerStep& step : lines.steps) {
    XOE_ASSIGN(World* const world, world_of(step.world));
    if (step.rank >= world->size || step.step < world->first)
      return failure(Code::kDataLoss,
                     "step {} of rank {} does not belong to world {}, which has {} ranks and begins with step {}",
                     step.step, step.rank, step.world, world->size, world->first);
    world->last = std::max(world->last, step.step - 1);
  }
  for (const LedgerDone& done : lines.done) {
    XOE_ASSIGN(World* const world, world_of(done.world));
    world->last = std::max(world->last, done.step);
  }
  // Steps that a later world began with were done before it; steps behind its beginning were not, or are undone.
  std::int64_t next_first = 0;
  for (auto world = worlds.rbegin(); world != worlds.rend(); ++world) {
    if (next_first != 0) {
      const auto after = std::prev(world);
      if (after->second.first - 1 > world->second.last) world->second.last = after->second.first - 1;
      world->second.last = std::min(world->second.last, next_first - 1);
    }
    next_first = next_first == 0 ? world->second.first : std::min(next_first, world->second.first);
  }
  return {};
}

// The records of one epoch, and where each was.
class EpochCount {
 public:
  void add(const LedgerStep& step, std::int64_t records) {
    steps_.insert(step.step);
    step_records_[step.step] += static_cast<std::int64_t>(step.records.size());
    ended_ = ended_ || step.left == 0;
    for (const std::int64_t record : step.records) {
      if (record >= records) {
        if (++proof_.unknown_count <= static_cast<std::int64_t>(kMostNamed)) proof_.unknown.push_back(record);
        continue;
      }
      const LedgerPlace place{.world = step.world, .step = step.step, .rank = step.rank};
      if (const auto [first, fresh] = first_.emplace(record, place); !fresh) {
        auto& places = more_[record];
        if (places.empty()) places.push_back(first->second);
        places.push_back(place);
      }
    }
  }

  EpochProof proof(std::int64_t epoch, std::int64_t records) {
    proof_.epoch = epoch;
    proof_.ended = ended_;
    proof_.steps = static_cast<std::int64_t>(steps_.size());
    proof_.records = static_cast<std::int64_t>(first_.size());
    proof_.missing_count = records - proof_.records;
    for (std::int64_t record = 0; record < records && proof_.missing.size() < kMostNamed &&
                                  static_cast<std::int64_t>(proof_.missing.size()) < proof_.missing_count;
         ++record)
      if (!first_.contains(record)) proof_.missing.push_back(record);
    proof_.doubled_count = static_cast<std::int64_t>(more_.size());
    for (auto& [record, places] : more_) {
      if (proof_.doubled.size() == kMostNamed) break;
      proof_.doubled.push_back({.record = record, .places = std::move(places)});
    }
    for (const auto& [step, count] : step_records_) proof_.largest_step = std::max(proof_.largest_step, count);
    return std::move(proof_);
  }

 private:
  EpochProof proof_;
  bool ended_ = false;
  std::set<std::int64_t> steps_;
  std::map<std::int64_t, std::int64_t> step_records_;
  std::unordered_map<std::int64_t, LedgerPlace> first_;
  std::map<std::int64_t, std::vector<LedgerPlace>> more_;
};

}  // namespace

Result<LedgerProof> check_ledger(const LedgerLines& lines, std::optional<std::int64_t> records,
                                 std::optional<std::int64_t> epoch) {
  LedgerProof proof;
  proof.records = records.value_or(lines.data.empty() ? 0 : lines.data.front().records);
  if (proof.records < 0 || proof.records > kLargestDataSet)
    return failure(Code::kInvalidArgument, "a data set of {} records", proof.records);
  XOE_TRY(check_run(lines));
  XOE_ASSIGN(Worlds worlds, worlds_of(lines));
  XOE_TRY(find_committed(lines, worlds));
  proof.worlds = static_cast<std::int64_t>(worlds.size());

  std::map<std::int64_t, EpochCount> epochs;
  std::map<std::pair<std::int64_t, std::int64_t>, std::set<int>> told;  // of each world and step: by these ranks
  for (const LedgerStep& step : lines.steps) {
    if (step.step > worlds[step.world].last) {
      proof.undone.push_back({.world = step.world, .step = step.step, .rank = step.rank});
      continue;
    }
    told[{step.world, step.step}].insert(step.rank);
    if (!epoch || step.epoch == *epoch) epochs[step.epoch].add(step, proof.records);
  }
  for (const auto& [number, world] : worlds) {
    if (world.last >= world.first) proof.last_step = std::max(proof.last_step, world.last);
    for (std::int64_t step = world.first; step <= world.last && proof.silent.size() < kMostNamed; ++step) {
      const auto& ranks = told[{number, step}];
      for (int rank = 0; rank < world.size && proof.silent.size() < kMostNamed; ++rank)
        if (!ranks.contains(rank)) proof.silent.push_back({.world = number, .step = step, .rank = rank});
    }
  }
  if (epoch && !epochs.contains(*epoch)) epochs[*epoch];
  for (auto& [number, count] : epochs) proof.epochs.push_back(count.proof(number, proof.records));
  std::ranges::sort(proof.undone, {}, [](const LedgerPlace& at) { return std::tie(at.world, at.step, at.rank); });
  return proof;
}

}  // namespace xoe::data
