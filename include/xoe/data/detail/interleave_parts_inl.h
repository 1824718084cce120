// Included by interleave_iterator_inl.h: the stages that take turns, what is counted, and the saved position.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "xoe/data/detail/iterator_base_inl.h"
#include "xoe/data/detail/tuning.h"
#include "xoe/data/stages.h"

namespace xoe::data::detail {

// One of the stages that take turns, and what was read ahead of it.
template <class U>
struct InterleaveChild {
  struct Chunk {
    State before;
    std::vector<U> elements;
    std::size_t given = 0;
    std::int64_t bytes = 0;  // of all its elements
  };

  std::int64_t ordinal = 0;  // of the upstream's element
  IteratorPtr<U> iterator;   // of the one thread that set `busy`
  State after;               // position behind all chunks
  std::deque<Chunk> chunks;
  std::int64_t ready = 0;  // elements in them that were not given yet
  bool busy = false;
  bool ended = false;
  std::optional<Error> error;  // after what is ready

  bool has_answer() const { return ready > 0 || ended || error; }

  // Reads up to `most` elements; of the one thread that set `busy`.
  Status fill(Chunk& chunk, std::size_t most, bool& at_end, State& behind) {
    while (chunk.elements.size() < most && !at_end) {
      auto element = iterator->next();
      if (!element) return failure(element.error());
      at_end = !*element;
      if (at_end) break;
      chunk.bytes += ElementBytes<U>::of(**element);
      chunk.elements.push_back(std::move(**element));
    }
    behind = iterator->save();
    return {};
  }
};

template <class U>
void add_stages(StageSum& sum, const InterleaveChild<U>* child) {
  if (child != nullptr && child->iterator != nullptr) sum.add(child->iterator->stages());
}

inline constexpr std::size_t kMostCycle = 64;

inline Tuning::Limits interleave_limits(const InterleaveOptions& options, int most_threads) {
  Tuning::Limits limits{.most_threads = most_threads, .depth_means = "at a time"};
  if (options.threads == kAutoThreads)
    limits.cpus = most_threads;
  else
    limits.least_threads = most_threads;
  if (options.cycle_length == kAutoCycle) {
    // Each thread reads one, and the consumer takes from one more.
    limits.least_depth = std::min(static_cast<std::size_t>(limits.least_threads) + 1, kMostCycle);
    limits.most_depth = kMostCycle;
  } else {
    limits.least_depth = limits.most_depth = static_cast<std::size_t>(options.cycle_length);
  }
  return limits;
}

// Since the start, for tuning and reports. Seconds of readers are added up; without readers the meter knows.
struct InterleaveFigures {
  std::int64_t ready = 0;  // elements read ahead
  std::int64_t ready_bytes = 0;
  std::int64_t ready_sum = 0;  // of `ready`, at each element given
  std::int64_t given = 0;
  double waited = 0;  // the consumer's seconds
  double idle = 0;
  double opening = 0;
  double reading = 0;

  void give(std::int64_t bytes) {
    ready_sum += ready;
    --ready;
    ready_bytes -= bytes;
    ++given;
  }
  void report(StageReport& stage) const {
    stage.seconds = opening;
    stage.waited = reading;
    stage.idle = idle;
    stage.ready = static_cast<double>(ready_sum) / static_cast<double>(std::max<std::int64_t>(given, 1));
  }
};

// What f() takes, where that is wanted.
template <class F>
double seconds_if(bool wanted, const F& f) {
  if (wanted) return seconds_of(f);
  f();
  return 0;
}

// A saved position, taken apart.
struct InterleavePosition {
  struct Child {
    std::int64_t ordinal;
    std::size_t slot;
    State position;
    std::int64_t skip;
  };
  std::size_t slot = 0;
  std::int64_t taken = 0;
  std::int64_t placed = 0;
  std::vector<Child> children;  // in the upstream's order

  // How many slots it has, where it tells.
  static Result<std::size_t> slots(State& state, std::size_t most) {
    const auto slots = state.pop("interleave.slots");
    if (!slots) return failure(slots.error());
    if (*slots < 1 || *slots > static_cast<std::int64_t>(most))
      return failure(Code::kInvalidArgument, "interleave: the saved position is damaged");
    return static_cast<std::size_t>(*slots);
  }

  static Result<InterleavePosition> from(State state, std::size_t slots) {
    const auto placed = state.pop("interleave.opened");
    if (!placed) return failure(placed.error());
    const auto taken = state.pop("interleave.taken");
    if (!taken) return failure(taken.error());
    const auto slot = state.pop("interleave.slot");
    if (!slot) return failure(slot.error());
    if (*slot < 0 || *slot >= static_cast<std::int64_t>(slots) || *taken < 0 || *placed < 0)
      return failure(Code::kInvalidArgument, "interleave: the saved position is of another cycle length");
    InterleavePosition saved{static_cast<std::size_t>(*slot), *taken, *placed, {}};
    for (std::size_t at = slots; at-- > 0;) {
      const auto ordinal = state.pop("interleave.child");
      if (!ordinal) return failure(ordinal.error());
      if (*ordinal < 0) continue;
      const auto skip = state.pop("interleave.skip");
      if (!skip) return failure(skip.error());
      auto position = state.pop_group("interleave.position");
      if (!position) return failure(position.error());
      saved.children.push_back({*ordinal, at, std::move(*position), *skip});
    }
    std::sort(saved.children.begin(), saved.children.end(),
              [](const Child& a, const Child& b) { return a.ordinal < b.ordinal; });
    return saved;
  }
};

}  // namespace xoe::data::detail
