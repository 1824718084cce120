// Lists of what stages report: see Iterator::stages().
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "xoe/data/stage.h"

namespace xoe::data::detail {

// Puts `more` behind `stages`; the two stay apart.
void append_stages(std::vector<StageReport>& stages, std::vector<StageReport> more);
// Puts `last` behind `stages`: what fed nothing so far feeds it.
void feed_stage(std::vector<StageReport>& stages, StageReport last);

// Pipelines of one shape as one, those of another shape beside them: the files that interleave() reads one after the
// other, the epochs of repeat().
class StageSum {
 public:
  void add(const std::vector<StageReport>& stages);
  // The same of iterators that go now: what they did counts, their threads and queues do not.
  void add_past(std::vector<StageReport> stages);
  void clear() { kinds_.clear(); }

  std::vector<StageReport> list() const;

 private:
  std::vector<std::vector<StageReport>> kinds_;
};

// An upstream that may be opened anew while another thread asks for its stages.
template <class T>
class Reopened {
 public:
  Reopened& operator=(std::unique_ptr<Iterator<T>> opened) {
    const std::lock_guard lock(mutex_);
    if (iterator_ != nullptr) past_.add_past(iterator_->stages());
    iterator_ = std::move(opened);
    return *this;
  }
  // Nothing was reported yet.
  void forget_past() {
    const std::lock_guard lock(mutex_);
    past_.clear();
  }
  std::vector<StageReport> stages() const {
    const std::lock_guard lock(mutex_);
    StageSum sum = past_;
    if (iterator_ != nullptr) sum.add(iterator_->stages());
    return sum.list();
  }

  Iterator<T>* operator->() const noexcept { return iterator_.get(); }
  Iterator<T>& operator*() const noexcept { return *iterator_; }
  friend bool operator==(const Reopened& iterator, std::nullptr_t) noexcept { return iterator.iterator_ == nullptr; }

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<Iterator<T>> iterator_;
  StageSum past_;
};

}  // namespace xoe::data::detail
