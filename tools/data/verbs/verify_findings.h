// The damage that a check found.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace xoe::tools {

struct Finding {
  std::string file;
  std::optional<std::int64_t> record;   // of a record file, from 0
  std::optional<std::uint64_t> offset;  // of that record, in the file or in the decompressed bytes
  std::string problem;
};

// Counts all findings, and keeps the first ones by file and offset. Thread safety: any thread at any time.
class Findings {
 public:
  static constexpr std::size_t kMaxKept = 100;

  void add(Finding finding) {
    const std::lock_guard lock(mutex_);
    ++count_;
    kept_.push_back(std::move(finding));
    if (kept_.size() >= 20 * kMaxKept) sort();
  }
  void add_unnamed(std::int64_t more) { count_ += more; }
  std::int64_t count() const { return count_; }
  // The first ones by file and offset, independent of the threads.
  std::vector<Finding> first() {
    const std::lock_guard lock(mutex_);
    sort();
    return kept_;
  }

 private:
  void sort() {
    const auto key = [](const Finding& one) { return std::tie(one.file, one.record, one.offset, one.problem); };
    std::sort(kept_.begin(), kept_.end(), [&key](const Finding& a, const Finding& b) { return key(a) < key(b); });
    if (kept_.size() > kMaxKept) kept_.resize(kMaxKept);
  }

  std::mutex mutex_;
  std::vector<Finding> kept_;
  std::atomic<std::int64_t> count_ = 0;
};

}  // namespace xoe::tools
