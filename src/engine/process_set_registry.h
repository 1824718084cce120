// The process sets of one rank, by id.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/process_set.h"
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
  Status remove(ProcessSetId id);
  // Takes all sets out of the registry, the world first, once no other thread uses them.
  std::vector<std::unique_ptr<ProcessSet>> take_all();

  template <class Act>
  void each(Act&& act) const {
    const std::size_t count = count_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i)
      if (ProcessSet* set = slots_[i].set.load(std::memory_order_acquire); set != nullptr) act(*set);
  }

 private:
  static void wait_for_users(const Slot& slot) noexcept;

  static constexpr int kMaxSets = 1024;  // ever made, by one engine
  std::array<Slot, kMaxSets> slots_;
  std::atomic<std::size_t> count_{0};  // of the slots that were ever used
  ProcessSet* world_ = nullptr;
  mutable std::mutex ranks_mutex_;
  std::vector<std::vector<int>> ranks_;  // by id; empty: removed
};

}  // namespace xoe::engine
