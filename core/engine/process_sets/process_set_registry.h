// The process sets of one rank, by id. Ids are not used again: a program that keeps the id of a removed set must not
// reach another one.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/engine/process_sets/process_set.h"
#include "xoe/engine.h"

namespace xoe::engine {

class ProcessSetRegistry {
 private:
  // A set can be removed while other threads look for it.
  struct Slot {
    std::atomic<ProcessSet*> set{nullptr};  // null: there is no set, or this rank is not in it
    std::atomic<int> users{0};
    std::atomic<bool> exists{false};
  };
  static constexpr std::size_t kPageSlots = 1024;
  using Page = std::array<Slot, kPageSlots>;
  // The pages of all ids so far. A longer list replaces a full one.
  using Pages = std::vector<std::atomic<Page*>>;

 public:
  // Makes this rank's part of a set out of its communicator.
  using Form = std::function<Result<std::unique_ptr<ProcessSet>>(ProcessSetId, Communicator, const std::vector<int>&)>;

  ProcessSetRegistry() = default;
  ProcessSetRegistry(const ProcessSetRegistry&) = delete;
  ~ProcessSetRegistry();

  // --- any thread ---

  // Keeps a set from being removed.
  class Use {
   public:
    Use(ProcessSetRegistry& registry, ProcessSetId id);
    Use(const Use&) = delete;
    ~Use();
    // Null: there is no such set, or this rank is not in it.
    ProcessSet* get() const noexcept { return set_; }
    bool exists() const noexcept;

   private:
    Slot* slot_ = nullptr;
    ProcessSet* set_ = nullptr;
  };

  // `invalid_argument`: there is no such set.
  Result<std::vector<int>> ranks(ProcessSetId id) const;
  std::vector<ProcessSetId> ids() const;
  ProcessSet& world() const noexcept { return *world_; }

  // --- the thread that makes progress ---

  void add_world(std::unique_ptr<ProcessSet> world);
  // Both are collective over the world.
  Result<ProcessSetId> add(std::vector<int> ranks, const Form& form);
  // Does not wait for other threads that use the set, which may need this one to make progress: it stays until a later
  // call finds it unused.
  Status remove(ProcessSetId id);
  // Takes all sets out of the registry, the world first. Other threads may still use them.
  std::vector<std::unique_ptr<ProcessSet>> take_all();
  // Returns when none does any more. Not while this thread keeps the others from making progress: they may need that.
  void wait_until_unused(const std::vector<std::unique_ptr<ProcessSet>>& sets) const noexcept;

  // The sets of this rank, in the order of their ids. act() may add and remove sets.
  template <class Act>
  void each(Act&& act) const {
    for (std::size_t i = 0; i < sets_.size(); ++i) act(*sets_[i]);
  }

 private:
  static void wait_for_users(const Slot& slot) noexcept;
  void delete_unused();

  // Null: no set has had this id.
  Slot* slot(ProcessSetId id) const noexcept;
  Slot& make_slot(ProcessSetId id);

  std::atomic<Pages*> pages_{nullptr};
  std::vector<std::unique_ptr<Pages>> page_lists_;  // the last one is in use; threads may still look at the others
  std::vector<std::unique_ptr<Page>> owned_;
  std::vector<ProcessSet*> sets_;  // owned by their slots
  std::vector<std::unique_ptr<ProcessSet>> removed_;
  std::int64_t next_id_ = 0;
  ProcessSet* world_ = nullptr;
  mutable std::mutex ranks_mutex_;
  std::map<ProcessSetId, std::vector<int>> ranks_;  // of the sets that exist
};

}  // namespace xoe::engine
