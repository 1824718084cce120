// The arrays of a rank that an allreduce treats as one, as if they lay one after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/hash.h"
#include "xoe/collective.h"

namespace xoe::shm {

class SegmentList {
 public:
  // Refers to `segments`. element: bytes.
  void assign(std::span<const Segment> segments, std::size_t element) {
    element_ = element;
    segments_ = segments;
    ends_.clear();
    std::size_t end = 0;
    for (const Segment& segment : segments) ends_.push_back(end += segment.count);
  }
  bool empty() const noexcept { return segments_.empty(); }
  std::uint64_t hash() const noexcept {
    std::uint64_t sum = segments_.size();
    for (const std::size_t end : ends_) sum = mix(sum ^ end);
    return sum;
  }

  // Calls visit(in, out, at, count) for each part of the elements [begin, end) that lies in one array; `at` counts from
  // `begin`.
  template <class Visit>
  void each(std::size_t begin, std::size_t end, Visit&& visit) const {
    each_offset(begin, end, [&](std::size_t s, std::size_t offset, std::size_t at, std::size_t count) {
      visit(static_cast<const std::byte*>(segments_[s].in) + offset, static_cast<std::byte*>(segments_[s].out) + offset,
            at, count);
    });
  }
  // As each(), but calls visit(index of the array, bytes into it, at, count).
  template <class Visit>
  void each_offset(std::size_t begin, std::size_t end, Visit&& visit) const {
    auto s = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
    for (std::size_t from = begin; from < end; ++s) {
      const std::size_t to = std::min(end, ends_[s]);
      if (to == from) continue;  // an empty array
      const std::size_t offset = (from - (ends_[s] - segments_[s].count)) * element_;
      visit(s, offset, from - begin, to - from);
      from = to;
    }
  }

 private:
  std::size_t element_ = 1;
  std::span<const Segment> segments_;
  std::vector<std::size_t> ends_;  // elements up to the end of each array
};

}  // namespace xoe::shm
