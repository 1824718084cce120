// Submissions whose name belongs to an earlier one that has not completed yet.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/engine/submission/submission.h"

namespace xoe::engine {

// They enter the readiness table one after the other, in the order in which they were added. A thread that frees a
// name, and one that adds a submission, calls begin() for the name after that; so none is forgotten. Any thread.
class NameTurns {
 public:
  // No submission waits or is about to enter. One load; it follows the freeing of a name.
  bool empty() const noexcept { return count_.load(std::memory_order_seq_cst) == 0; }

  // False: closed.
  bool add(std::shared_ptr<Submission> submission);

  // The next submission of the name, for the caller to enter and to report with end(). Null: none waits, or another
  // thread is about to enter one, and will be told to try again.
  std::shared_ptr<Submission> begin(const std::string& name);

  enum class Next : std::uint8_t { kNothing, kTryAgain, kAnswerIt };
  // It has entered, or was refused.
  Next end(const std::string& name);
  // The name is still taken. kAnswerIt: closed meanwhile, so the caller completes it.
  Next put_back(std::shared_ptr<Submission> submission);

  // Calls act() once no submission is left, which may be now. REQUIRES: none is added until then.
  void when_empty(std::function<void()> act);

  // This rank's unnamed operations of each kind, which take turns too. next_unnamed(): the number of the next one.
  // take_back(): the one with number n was refused.
  std::uint32_t next_unnamed(OpKind kind) noexcept { return unnamed(kind).fetch_add(1, std::memory_order_relaxed); }
  void take_back(OpKind kind, std::uint32_t n) noexcept {
    std::uint32_t next = n + 1;
    unnamed(kind).compare_exchange_strong(next, n, std::memory_order_relaxed);
  }
  void forget_unnamed() noexcept {
    for (auto& count : unnamed_) count.store(0, std::memory_order_relaxed);
  }

  // Takes all that wait; add() fails from now on.
  std::vector<std::shared_ptr<Submission>> close();

 private:
  struct Name {
    std::deque<std::shared_ptr<Submission>> waiting;
    bool entering = false;  // the first one, which is not in `waiting`
    bool try_again = false;
  };
  using Names = std::map<std::string, Name, std::less<>>;

  Next leave(Names::iterator name);
  std::atomic<std::uint32_t>& unnamed(OpKind kind) noexcept { return unnamed_[static_cast<std::size_t>(kind)]; }

  std::array<std::atomic<std::uint32_t>, static_cast<std::size_t>(OpKind::kJoin) + 1> unnamed_{};
  std::mutex mutex_;
  std::atomic<int> count_{0};
  Names names_;
  std::function<void()> when_empty_;
  bool closed_ = false;
};

}  // namespace xoe::engine
