// Lists of reports of stages: see AnyIterator::stages().
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "xoe/data/report.h"

namespace xoe::data {

// Puts `more` behind `stages`, without a link between the two.
void append_stages(std::vector<StageReport>& stages, std::vector<StageReport> more);
// Puts `last` behind `stages`; every stage that fed none so far feeds it.
void feed_stage(std::vector<StageReport>& stages, StageReport last);

// Adds up pipelines of one shape, and lists those of another shape beside them: the files that interleave() reads one
// after the other, the epochs of repeat().
class StageSum {
 public:
  void add(const std::vector<StageReport>& stages);
  // The same of iterators that end now: their work counts, their threads and queues do not.
  void add_past(std::vector<StageReport> stages);
  void clear() { kinds_.clear(); }

  std::vector<StageReport> list() const;

 private:
  std::vector<std::vector<StageReport>> kinds_;
};

// The iterator that feeds a stage. It may be replaced while another thread asks for its reports.
class Upstream {
 public:
  Upstream& operator=(std::unique_ptr<AnyIterator> opened);
  // No report was given yet.
  void forget_past();
  std::vector<StageReport> stages() const;

  AnyIterator* operator->() const noexcept { return iterator_.get(); }
  AnyIterator& operator*() const noexcept { return *iterator_; }
  bool is_open() const noexcept { return iterator_ != nullptr; }

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<AnyIterator> iterator_;
  StageSum past_;
};

}  // namespace xoe::data
