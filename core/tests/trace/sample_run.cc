#include "core/tests/trace/sample_run.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/trace/names.h"

namespace xoe::trace::test {
namespace {

using namespace std::chrono_literals;
using Span = std::chrono::nanoseconds;
using Time = TimelineClock::time_point;

constexpr int kTensors = 6;
constexpr int kPerBatch = 2;
constexpr std::array<const char*, kTensors> kNames = {"fc.weight",  "fc.bias",      "conv2.weight",
                                                      "conv2.bias", "conv1.weight", "conv1.bias"};
constexpr std::array<std::int64_t, kTensors> kBytes = {4 << 20, 4096, 2 << 20, 512, 1 << 20, 256};
constexpr Span kInput = 1500us;
constexpr Span kPack = 300us;
constexpr Span kReduce = 2400us;
constexpr Span kUnpack = 250us;
constexpr Span kStep = 34ms;
constexpr Span kOptimizer = 1800us;

// Deterministic, and a little different for each rank and step.
Span compute_time(int rank, int step, Span usual) {
  const int jitter = (rank * 7 + step * 13) % 5;
  return usual * (100 + jitter + (rank == kSlowRank ? 18 : 0)) / 100;
}

Span forward_end(int rank, int step) { return kStep * step + kInput + compute_time(rank, step, 6ms); }

Span submitted_at(int rank, int step, int tensor) {
  return forward_end(rank, step) + compute_time(rank, step, 12ms) * (tensor + 1) / kTensors;
}

struct BatchTimes {
  Span start, packed, reduced, stop;
};

// A batch starts when its last tensor is agreed upon and the batch before it is done.
BatchTimes batch_of(int step, int index) {
  Span start = agreed_at(step, index * kPerBatch + kPerBatch - 1) + 60us;
  if (index > 0) start = std::max(start, batch_of(step, index - 1).stop + 20us);
  return {start, start + kPack, start + kPack + kReduce, start + kPack + kReduce + kUnpack};
}

// Ranks that were not there yet when `rank` had submitted.
std::vector<int> later_ranks(int rank, int step, int tensor) {
  std::vector<int> late;
  for (int other = 0; other < kSampleRanks; ++other) {
    if (submitted_at(other, step, tensor) > submitted_at(rank, step, tensor) + 200us) late.push_back(other);
  }
  return late;
}

class Rank {
 public:
  Rank(Timeline& timeline, int rank, Time start) : timeline_(timeline), rank_(rank), start_(start) {
    for (const std::string_view lane :
         {trace::kComputeLane, trace::kInputLane, trace::kPackLane, trace::kReduceLane, trace::kUnpackLane}) {
      lanes_.push_back(timeline_.lane(lane));
    }
  }

  void record(int step) {
    bar(1, "input", kStep * step, kStep * step + kInput);
    const Span forward = kStep * step + kInput;
    const Span backward = forward_end(rank_, step);
    bar(0, "forward", forward, backward);
    bar(0, "backward", backward, submitted_at(rank_, step, kTensors - 1));
    for (int tensor = 0; tensor < kTensors; ++tensor) tensor_spans(step, tensor);
    for (int index = 0; index < kTensors / kPerBatch; ++index) batch(step, index);
    const Span done = std::max(batch_of(step, kTensors / kPerBatch - 1).stop, submitted_at(rank_, step, kTensors - 1));
    bar(0, "optimizer", done + 50us, done + kOptimizer);
    timeline_.mark(lanes_[0], timeline_.intern("step end"), start_ + done + kOptimizer);
  }

 private:
  void bar(std::size_t lane, std::string_view name, Span from, Span to, const TimelineArgs& args = {}) {
    timeline_.record(lanes_[lane], timeline_.intern(name), start_ + from, start_ + to, args);
  }

  void tensor_spans(int step, int tensor) {
    const std::uint64_t id = static_cast<std::uint64_t>(step) * kTensors + static_cast<std::uint64_t>(tensor);
    const auto name = timeline_.intern(kNames[static_cast<std::size_t>(tensor)]);
    const Span agreed = agreed_at(step, tensor);
    const std::string waited = trace::waited_for_text(later_ranks(rank_, step, tensor));
    timeline_.record_span(timeline_.intern(trace::kNegotiate), name, id, start_ + submitted_at(rank_, step, tensor),
                          start_ + agreed, {.note = waited.empty() ? 0 : timeline_.intern(waited)});
    timeline_.record_span(timeline_.intern(trace::kQueue), name, id, start_ + agreed,
                          start_ + batch_of(step, tensor / kPerBatch).start);
  }

  void batch(int step, int index) {
    const BatchTimes times = batch_of(step, index);
    const auto first = static_cast<std::size_t>(index * kPerBatch);
    const std::vector<std::string> names = {kNames[first], kNames[first + 1]};
    const TimelineArgs args = {{timeline_.intern(trace::kBatch), step * kTensors / kPerBatch + index},
                               {timeline_.intern(trace::kTensors), kPerBatch},
                               {timeline_.intern(trace::kBytes), kBytes[first] + kBytes[first + 1]},
                               timeline_.intern(names[0] + ", " + names[1])};
    bar(2, "pack", times.start, times.packed, args);
    bar(3, "allreduce", times.packed, times.reduced, args);
    bar(4, "unpack", times.reduced, times.stop, args);
  }

  Timeline& timeline_;
  int rank_;
  Time start_;
  std::vector<int> lanes_;
};

// The one that joins waits for the one that creates.
std::unique_ptr<Timeline> open_patiently(const std::string& path, const TimelineOptions& options) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    if (auto opened = Timeline::open(path, options)) return std::move(*opened);
    std::this_thread::sleep_for(5ms);
  }
  return nullptr;
}

bool run_rank(const std::string& path, int rank, const SampleOptions& options, Time start) {
  const bool second_host = rank >= kSampleRanks / 2;
  TimelineOptions how;
  how.rank = rank;
  how.local_rank = rank % (kSampleRanks / 2);
  how.host = second_host ? "b" : "a";
  how.create = how.local_rank == 0;
  const auto timeline = open_patiently(path, how);
  if (!timeline) return false;
  const Span skew = second_host ? options.skew : 0ns;
  Rank recorder(*timeline, rank, start + skew);
  for (int step = 0; step < options.steps; ++step) {
    recorder.record(step);
    if (!timeline->flush()) return false;
  }
  if (!options.tell_clock || how.local_rank != 0) return true;
  return timeline->set_clock(-skew, second_host ? options.uncertainty : 0ns).has_value();
}

// As another machine's file: one machine has one boot id.
bool change_boot_id(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  std::string header;
  std::getline(file, header);
  const auto at = header.find("\"boot_id\":\"");
  if (at == std::string::npos) return false;
  file.seekp(static_cast<std::streamoff>(at + 11));
  file << "00000000";
  return file.good();
}

}  // namespace

Span agreed_at(int step, int tensor) {
  Span last = 0ns;
  for (int rank = 0; rank < kSampleRanks; ++rank) last = std::max(last, submitted_at(rank, step, tensor));
  return last + 40us;
}

std::vector<std::string> write_sample(const std::string& prefix, const SampleOptions& options) {
  const std::vector<std::string> paths = {prefix + "-a.json", prefix + "-b.json"};
  for (const std::string& path : paths) ::unlink(path.c_str());
  const Time start = TimelineClock::now();
  std::vector<pid_t> children;
  for (int rank = 0; rank < kSampleRanks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string& path = paths[rank < kSampleRanks / 2 ? 0 : 1];
      ::_exit(run_rank(path, rank, options, start) ? 0 : 1);
    }
    children.push_back(child);
  }
  bool good = true;
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    good = good && status == 0;
  }
  return good && change_boot_id(paths[1]) ? paths : std::vector<std::string>();
}

}  // namespace xoe::trace::test
