#include "core/engine/submission/name_turns.h"

#include <utility>

namespace xoe::engine {

bool NameTurns::add(std::shared_ptr<Submission> submission) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  count_.fetch_add(1, std::memory_order_seq_cst);
  names_[submission->operation().name].waiting.push_back(std::move(submission));
  return true;
}

std::shared_ptr<Submission> NameTurns::begin(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(name);
  if (found == names_.end()) return nullptr;
  Name& turns = found->second;
  if (turns.entering) {
    turns.try_again = true;
    return nullptr;
  }
  auto first = std::move(turns.waiting.front());
  turns.waiting.pop_front();
  turns.entering = true;
  return first;
}

// REQUIRES: mutex_.
NameTurns::Next NameTurns::leave(Names::iterator name) {
  name->second.entering = false;
  const bool again = std::exchange(name->second.try_again, false);
  if (!name->second.waiting.empty()) return again ? Next::kTryAgain : Next::kNothing;
  names_.erase(name);
  return Next::kNothing;
}

NameTurns::Next NameTurns::end(const std::string& name) {
  std::function<void()> act;
  Next next = Next::kNothing;
  {
    const std::lock_guard lock(mutex_);
    next = leave(names_.find(name));
    if (count_.fetch_sub(1, std::memory_order_seq_cst) == 1) act = std::exchange(when_empty_, nullptr);
  }
  if (act) act();
  return next;
}

NameTurns::Next NameTurns::put_back(std::shared_ptr<Submission> submission) {
  const std::lock_guard lock(mutex_);
  const auto name = names_.find(submission->operation().name);
  if (!closed_) {
    name->second.waiting.push_front(std::move(submission));
    return leave(name);
  }
  leave(name);
  count_.fetch_sub(1, std::memory_order_seq_cst);
  return Next::kAnswerIt;
}

void NameTurns::when_empty(std::function<void()> act) {
  {
    const std::lock_guard lock(mutex_);
    if (!empty()) {
      when_empty_ = std::move(act);
      return;
    }
  }
  act();
}

std::vector<std::shared_ptr<Submission>> NameTurns::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  when_empty_ = nullptr;
  std::vector<std::shared_ptr<Submission>> all;
  for (auto name = names_.begin(); name != names_.end();) {
    for (auto& submission : name->second.waiting) all.push_back(std::move(submission));
    name->second.waiting.clear();
    name = name->second.entering ? std::next(name) : names_.erase(name);
  }
  count_.fetch_sub(static_cast<int>(all.size()), std::memory_order_seq_cst);
  return all;
}

}  // namespace xoe::engine
