// Where a rank keeps its submissions while they are in flight.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/engine/negotiate/sealed_log.h"
#include "core/engine/submission/submission.h"

namespace xoe::engine {

// This rank's submissions, by their entry in the readiness table, from submit to completion.
//
// INVARIANTS
// 1. A slot holds one submission's address with 16 bits of its name's hash above it, so that it tells two names apart.
// 2. The thread that empties a slot answers its submission: with an error if submit() retracts it or the set fails,
// else
//    when it has completed.
// 3. A slot's submission owns itself (Submission::self) until take() hands it to the progress engine.
class InFlightTable {
 public:
  // Makes room for the entries that the readiness table has at first. Called once, before all others.
  void resize(int entries) { slots_ = std::vector<Slot>(static_cast<std::size_t>(entries)); }

  // --- any thread ---

  enum class Claim : std::uint8_t { kDone, kSameName, kOtherName };
  // Puts the submission into the slot of an entry, if that is empty.
  Claim claim(const std::shared_ptr<Submission>& submission, int entry);
  // Takes a submission back whose arrival was refused. False: another thread has taken it, and answers.
  bool retract(Submission& submission);
  // act(submission), for each one that is still in its slot and owned by it.
  template <class Act>
  void each_waiting(Act&& act) const {
    const std::lock_guard lock(retract_mutex_);
    each_slot(*this, [&](const Slot& slot) {
      if (const Submission* const s = submission_in(slot.load(std::memory_order_acquire));
          s != nullptr && s->progress.self)
        act(s->progress.self);
    });
  }

  // --- the thread that makes progress ---

  // The caller then owns the submission that arrived as `generation`. Returns null if there is none.
  std::shared_ptr<Submission> take(int entry, std::uint8_t generation);
  // The submission completes: frees its slot.
  void release(Submission& submission);
  // Empties all slots; returns submissions that they owned.
  std::vector<std::shared_ptr<Submission>> take_all();

 private:
  using Slot = std::atomic<std::uint64_t>;
  static Submission* submission_in(std::uint64_t slot);

  Slot& slot(int entry) {
    if (static_cast<std::size_t>(entry) < slots_.size()) [[likely]]
      return slots_[static_cast<std::size_t>(entry)];
    return later_slot(static_cast<std::size_t>(entry));
  }
  // Makes the slots when they are used for the first time.
  Slot& later_slot(std::size_t entry);
  template <class Table, class Act>
  static void each_slot(Table& table, Act&& act) {
    for (auto& slot : table.slots_) act(slot);
    for (std::size_t growth = 0; growth < kMaxGrowths; ++growth)
      if (Slot* const slots = table.later_[growth].load(std::memory_order_seq_cst); slots != nullptr)
        for (std::size_t i = 0; i < table.slots_.size() << growth; ++i) act(slots[i]);
  }

  std::vector<Slot> slots_;
  // Those of the entries by which the readiness table has grown: each time as many as it had.
  std::array<std::atomic<Slot*>, kMaxGrowths> later_{};
  std::vector<std::unique_ptr<Slot[]>> owned_;  // guarded by retract_mutex_
  mutable std::mutex retract_mutex_;            // keeps submissions in slots alive while they are read
};

}  // namespace xoe::engine
