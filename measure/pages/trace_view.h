// A trace in the form that a page draws it from: lanes, whose bars lie in rows without overlaps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/reader.h"
#include "xoe/status.h"

namespace xoe::pages {

inline constexpr std::uint32_t kNoText = 0;  // texts[0] is ""

struct ViewEvent {
  std::int64_t start_ns = 0;   // from the first event of all
  std::int64_t length_ns = 0;  // 0: also a moment
  std::uint32_t name = kNoText;
  std::uint32_t note = kNoText;
  std::int64_t bytes = -1;    // -1: not told
  std::int64_t batch = -1;    // of the rank's collectives
  std::int64_t tensors = -1;  // in the batch
  std::uint32_t row = 0;
};

struct ViewLane {
  std::int64_t rank = 0;
  std::string name;
  bool spans = false;  // named by tensor, and overlapping
  std::uint32_t rows = 0;
  std::vector<ViewEvent> events;  // by start; in a row they do not overlap
};

struct TraceView {
  std::vector<ViewLane> lanes;  // rank by rank, in the order that viewers show them
  std::vector<std::string> texts;
  std::int64_t length_ns = 0;    // from the first event to the end of the last
  std::uint64_t events = 0;      // in `lanes`
  std::uint64_t left_out = 0;    // the shortest, to keep to the limit
  std::int64_t shortest_ns = 0;  // of those that were kept, where some were left out
  std::uint64_t not_drawn = 0;   // of kinds that are not shown, such as counters
};

inline constexpr std::size_t kMostEvents = 1'000'000'000;

struct ViewOptions {
  std::size_t events = 300'000;  // at most; as 1 and kMostEvents, where it is outside of them
  trace::TraceLimits limits = {};
};

// The errors of read_trace().
Result<TraceView> view_trace(const std::string& path, const ViewOptions& options = {});

// Rows for events that are sorted by start, longer ones first: each in the first row that is free. Returns how many.
std::uint32_t stack_rows(std::vector<ViewEvent>& events);

// The lanes and texts with their colours as JSON; the numbers of a lane are columns, the starts as differences.
std::string json_of(const TraceView& view);

}  // namespace xoe::pages
