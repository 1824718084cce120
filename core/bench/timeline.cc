// What recording an event costs. The clock is read by the caller, twice for a bar: `clock` is that alone.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "core/trace/names.h"
#include "core/trace/timeline.h"

namespace {

using xoe::trace::Timeline;
using xoe::trace::TimelineArgs;
using xoe::trace::TimelineClock;

class Trace {
 public:
  Trace() : path_((std::filesystem::temp_directory_path() / "xoe-bench-timeline.json").string()) {
    auto opened = Timeline::open(path_, {.rank = 0, .create = true});
    if (!opened) std::abort();
    timeline_ = std::move(*opened);
    name_ = timeline_->intern("allreduce");
  }
  ~Trace() { ::unlink(path_.c_str()); }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  Timeline& operator*() { return *timeline_; }
  std::uint32_t name() const { return name_; }
  // Untimed, before the buffer is full.
  void make_room(benchmark::State& state) {
    if (++events_ % 16384 != 0) return;
    state.PauseTiming();
    if (!timeline_->flush()) std::abort();
    ::truncate(path_.c_str(), 4096);
    state.ResumeTiming();
  }

 private:
  std::string path_;
  std::unique_ptr<Timeline> timeline_;
  std::uint32_t name_ = 0;
  std::uint64_t events_ = 0;
};

void clock_twice(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(TimelineClock::now());
    benchmark::DoNotOptimize(TimelineClock::now());
  }
}
BENCHMARK(clock_twice);

void bar(benchmark::State& state) {
  Trace trace;
  const auto now = TimelineClock::now();
  for (auto _ : state) {
    (*trace).record(1, trace.name(), now, now);
    trace.make_room(state);
  }
}
BENCHMARK(bar)->Iterations(1 << 20);

void bar_with_args(benchmark::State& state) {
  Trace trace;
  const auto batch = (*trace).intern(xoe::trace::kBatch);
  const auto tensors = (*trace).intern(xoe::trace::kTensors);
  const auto bytes = (*trace).intern(xoe::trace::kBytes);
  const auto note = (*trace).intern("conv1.weight, conv1.bias and 12 more");
  const auto now = TimelineClock::now();
  std::int64_t count = 0;
  for (auto _ : state) {
    (*trace).record(1, trace.name(), now, now, {{batch, ++count}, {tensors, 14}, {bytes, 1 << 20}, note});
    trace.make_room(state);
  }
}
BENCHMARK(bar_with_args)->Iterations(1 << 20);

void bar_and_clock(benchmark::State& state) {
  Trace trace;
  for (auto _ : state) {
    const auto start = TimelineClock::now();
    (*trace).record(1, trace.name(), start, TimelineClock::now());
    trace.make_room(state);
  }
}
BENCHMARK(bar_and_clock)->Iterations(1 << 20);

void span(benchmark::State& state) {
  Trace trace;
  const auto category = (*trace).intern(xoe::trace::kNegotiate);
  const auto note = (*trace).intern("waited for ranks 1, 3");
  const auto now = TimelineClock::now();
  std::uint64_t id = 0;
  for (auto _ : state) {
    (*trace).record_span(category, trace.name(), ++id, now, now, {.note = note});
    trace.make_room(state);
  }
}
BENCHMARK(span)->Iterations(1 << 20);

// An event through all its life: recorded, made text, written.
void bar_and_flush(benchmark::State& state) {
  Trace trace;
  const auto now = TimelineClock::now();
  for (auto _ : state) {
    for (int i = 0; i < 8192; ++i) (*trace).record(1, trace.name(), now, now);
    if (!(*trace).flush()) std::abort();
  }
  state.SetItemsProcessed(state.iterations() * 8192);
}
BENCHMARK(bar_and_flush)->Iterations(50);

void intern_known_name(benchmark::State& state) {
  Trace trace;
  for (auto _ : state) benchmark::DoNotOptimize((*trace).intern("allreduce"));
}
BENCHMARK(intern_known_name);

}  // namespace

BENCHMARK_MAIN();
