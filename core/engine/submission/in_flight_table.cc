#include "core/engine/submission/in_flight_table.h"

#include <bit>
#include <utility>

#include "core/base/hash.h"
#include "core/base/tagged_address.h"

namespace xoe::engine {
namespace {

std::uint64_t slot_value(const Submission& submission) {
  return tag_address(&submission, hash_text(submission.operation().name) << kAddressBits);
}

}  // namespace

Submission* InFlightTable::submission_in(std::uint64_t slot) { return untagged_address<Submission>(slot); }

InFlightTable::Slot& InFlightTable::later_slot(std::size_t entry) {
  const auto growth = static_cast<std::size_t>(std::bit_width(entry / slots_.size()) - 1);
  const std::size_t begin = slots_.size() << growth;
  Slot* slots = later_[growth].load(std::memory_order_acquire);
  if (slots == nullptr) {
    const std::lock_guard lock(retract_mutex_);
    slots = later_[growth].load(std::memory_order_relaxed);
    if (slots == nullptr) {
      slots = owned_.emplace_back(std::make_unique<Slot[]>(begin)).get();
      later_[growth].store(slots, std::memory_order_seq_cst);  // before a claim, which fail() must not miss
    }
  }
  return slots[entry - begin];
}

InFlightTable::Claim InFlightTable::claim(const std::shared_ptr<Submission>& submission, int entry) {
  submission->progress.entry = entry;
  submission->progress.self = submission;
  if (submission->progress.slot == 0) submission->progress.slot = slot_value(*submission);
  const std::uint64_t mine = submission->progress.slot;
  std::uint64_t occupant = 0;
  if (slot(entry).compare_exchange_strong(occupant, mine, std::memory_order_seq_cst)) return Claim::kDone;
  submission->progress.self.reset();
  return tag_of_address(occupant) == tag_of_address(mine) ? Claim::kSameName : Claim::kOtherName;
}

bool InFlightTable::retract(Submission& submission) {
  Slot& own = slot(submission.progress.entry);
  const std::lock_guard lock(retract_mutex_);
  std::uint64_t mine = submission.progress.slot;
  if (!own.compare_exchange_strong(mine, 0, std::memory_order_seq_cst)) return false;
  submission.progress.self.reset();
  return true;
}

std::shared_ptr<Submission> InFlightTable::take(int entry, std::uint8_t generation) {
  Submission* const submission = submission_in(slot(entry).load(std::memory_order_acquire));
  if (submission == nullptr || submission->progress.generation.load(std::memory_order_relaxed) != generation)
    return nullptr;
  return std::move(submission->progress.self);
}

void InFlightTable::release(Submission& submission) {
  if (submission.progress.entry < 0) return;
  std::uint64_t mine = submission.progress.slot;
  // NameTurns::empty() follows.
  slot(submission.progress.entry).compare_exchange_strong(mine, 0, std::memory_order_seq_cst);
}

std::vector<std::shared_ptr<Submission>> InFlightTable::take_all() {
  std::vector<std::shared_ptr<Submission>> all;
  each_slot(*this, [&](Slot& slot) {
    Submission* const submission = submission_in(slot.exchange(0, std::memory_order_seq_cst));
    if (submission == nullptr) return;
    if (auto owned = std::move(submission->progress.self); owned != nullptr) all.push_back(std::move(owned));
  });
  return all;
}

}  // namespace xoe::engine
