#include "data/tune/stage_list.h"

#include <algorithm>

namespace xoe::data {
namespace {

bool same_shape(const std::vector<StageReport>& a, const std::vector<StageReport>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.name == y.name && x.feeds == y.feeds; });
}

void add_to(StageReport& sum, const StageReport& more) {
  const auto elements = static_cast<double>(std::max<std::int64_t>(sum.elements + more.elements, 1));
  sum.ready =
      (sum.ready * static_cast<double>(sum.elements) + more.ready * static_cast<double>(more.elements)) / elements;
  sum.elements += more.elements;
  sum.bytes += more.bytes;
  sum.seconds += more.seconds;
  sum.waited += more.waited;
  sum.idle += more.idle;
  sum.held += more.held;
  sum.age = std::max(sum.age, more.age);
  sum.threads += more.threads;
  sum.most_threads = std::max(sum.most_threads, more.most_threads);
  sum.pullers = std::max(sum.pullers, more.pullers);
  sum.depth += more.depth;
  sum.most_depth = std::max(sum.most_depth, more.most_depth);
  if (!more.last_tuning.empty()) sum.last_tuning = more.last_tuning;
}

}  // namespace

void append_stages(std::vector<StageReport>& stages, std::vector<StageReport> more) {
  const auto offset = static_cast<int>(stages.size());
  for (StageReport& stage : more) {
    if (stage.feeds >= 0) stage.feeds += offset;
    stages.push_back(std::move(stage));
  }
}

void feed_stage(std::vector<StageReport>& stages, StageReport last) {
  for (StageReport& stage : stages)
    if (stage.feeds < 0) stage.feeds = static_cast<int>(stages.size());
  stages.push_back(std::move(last));
}

void StageSum::add(const std::vector<StageReport>& stages) {
  if (stages.empty()) return;
  for (auto& kind : kinds_) {
    if (!same_shape(kind, stages)) continue;
    for (std::size_t i = 0; i < stages.size(); ++i) add_to(kind[i], stages[i]);
    return;
  }
  kinds_.push_back(stages);
}

void StageSum::add_past(std::vector<StageReport> stages) {
  for (StageReport& stage : stages) {
    stage.threads = 0;
    stage.depth = 0;
  }
  add(stages);
}

std::vector<StageReport> StageSum::list() const {
  std::vector<StageReport> all;
  for (const auto& kind : kinds_) append_stages(all, kind);
  return all;
}

Upstream& Upstream::operator=(std::unique_ptr<AnyIterator> opened) {
  const std::lock_guard lock(mutex_);
  if (iterator_ != nullptr) past_.add_past(iterator_->stages());
  iterator_ = std::move(opened);
  return *this;
}

void Upstream::forget_past() {
  const std::lock_guard lock(mutex_);
  past_.clear();
}

std::vector<StageReport> Upstream::stages() const {
  const std::lock_guard lock(mutex_);
  StageSum sum = past_;
  if (iterator_ != nullptr) sum.add(iterator_->stages());
  return sum.list();
}

}  // namespace xoe::data
