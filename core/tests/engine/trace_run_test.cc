// The timeline of a real run: four ranks on two pretended hosts, merged by the real program.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/engine/telemetry/engine_trace.h"
#include "core/testing/places.h"
#include "core/testing/scratch.h"
#include "core/tests/comm/process_group.h"
#include "core/tests/engine/engines.h"
#include "core/tests/engine/ranks.h"

namespace xoe {
namespace {

using testing::in_place;
using Shape = std::vector<std::int64_t>;

constexpr int kRanks = 4, kTensors = 12, kSteps = 5;

// What each rank does: steps of small tensors in an order of its own, rank 3 always late, marks around them.
std::string train(Communicator& communicator, const std::string& path) {
  EngineOptions options = testing::quiet_options();
  options.timeline = path;
  auto engine = Engine::create(std::move(communicator), options);
  if (!engine) return engine.error().to_string();
  const int rank = (*engine)->topology().rank;
  std::vector<std::vector<float>> values(kTensors, std::vector<float>(1000, 1.0F));
  const Shape shape{1000};
  for (int step = 0; step < kSteps; ++step) {
    const auto began = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(rank == 3 ? 6 : 1));
    (*engine)->mark("compute", "backward", began, std::chrono::steady_clock::now());
    std::vector<EngineHandle> handles;
    for (int i = 0; i < kTensors; ++i) {
      const int t = (i * 5 + rank) % kTensors;
      const TensorArg tensor = in_place(values[static_cast<std::size_t>(t)], shape);
      auto handle = (*engine)->submit(
          {.name = "layer" + std::to_string(t), .op = {.reduce = ReduceOp::kMax}, .tensors = {&tensor, 1}});
      if (!handle) return handle.error().to_string();
      handles.push_back(*handle);
    }
    for (auto& handle : handles)
      if (const Status status = handle.wait(); !status) return status.error().to_string();
  }
  if (const Status stopped = (*engine)->stop_timeline(); !stopped) return stopped.error().to_string();
  // Nothing more is written once it is stopped.
  if (const Status after = (*engine)->run({.name = "after", .op = {.kind = OpKind::kBarrier}}); !after)
    return after.error().to_string();
  return {};
}

// Three hosts of a later world, of which the first has just joined: the second one says how the others' clocks differ
// from that of a host that has left.
TEST(EngineClocks, StayOnTheReferenceOfTheFirstWorld) {
  using Seconds = std::chrono::duration<double>;
  const auto offsets = engine::on_ranks<double>(4, [](Communicator& comm) {
    const std::vector<int> hosts = {0, 1, 1, 2};
    std::optional<ClockOffset> earlier;
    if (comm.rank() == 1) earlier = {.offset = std::chrono::seconds(5), .uncertainty = std::chrono::microseconds(20)};
    if (comm.rank() == 3) earlier = {.offset = std::chrono::seconds(7)};
    const auto clock = engine::measure_clock(comm, hosts, earlier);
    return clock ? Seconds(clock->offset).count() : 0.0;
  });
  EXPECT_EQ(offsets[1], 5.0);
  EXPECT_EQ(offsets[2], 5.0) << "of the same host";
  // Their clocks are one here, but for the time that a thread waits for a processor.
  for (const std::size_t rank : {0UL, 3UL}) EXPECT_NEAR(offsets[rank], 5.0, 1.0) << rank;
}

struct Bar {
  double start, stop;
};

class MergedTrace {
 public:
  explicit MergedTrace(const std::string& path) {
    std::ifstream file(path);
    const auto json = nlohmann::json::parse(file);
    for (const auto& event : json.at("traceEvents")) add(event);
  }

  std::set<int> ranks;
  std::map<std::pair<int, int>, std::string> lanes;        // of (pid, tid)
  std::map<std::pair<int, int>, std::vector<Bar>> bars;    // likewise
  std::map<std::string, std::map<int, int>> begun, ended;  // spans: "category name" -> rank -> how many
  std::map<int, double> first_reduce;
  double last_time = -1;
  bool sorted = true;

 private:
  void add(const nlohmann::json& event) {
    const std::string phase = event.at("ph");
    const int pid = event.value("pid", -1), tid = event.value("tid", -1);
    if (phase == "M") {
      if (event.at("name") == "thread_name") lanes[{pid, tid}] = event.at("args").at("name");
      if (event.at("name") == "process_name") ranks.insert(pid);
      return;
    }
    const double at = event.at("ts");
    sorted = sorted && at >= last_time;
    last_time = at;
    if (phase == "X") bars[{pid, tid}].push_back({at, at + event.at("dur").get<double>()});
    if (phase != "b" && phase != "e") return;
    const auto key = event.value("cat", std::string()) + " " + event.value("name", std::string());
    ++(phase == "b" ? begun : ended)[key][pid];
  }
};

TEST(EngineTrace, FourRanksOnTwoHostsMergeIntoOneFile) {
  const Scratch scratch;
  const std::string pattern = scratch.file("trace.json"), merged = scratch.file("merged.json");
  {
    testing::ProcessGroup group(kRanks, [&](Communicator& comm) { return train(comm, pattern); },
                                {{"XOE_PRETEND_HOSTS", "2"}});
    group.expect_success();
  }
  std::string command = built_command("xoe") + " timeline merge " + merged;
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(scratch.path())) {
    command += " " + file.path().string();
    ++files;
  }
  ASSERT_EQ(files, 2) << "a file for each host";
  ASSERT_EQ(std::system((command + " > /dev/null").c_str()), 0) << command;
  const MergedTrace trace(merged);
  EXPECT_THAT(trace.ranks, ::testing::ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(trace.sorted);
  // Complete: each tensor of each step was negotiated and queued, on every rank.
  for (int t = 0; t < kTensors; ++t)
    for (int rank = 0; rank < kRanks; ++rank)
      for (const std::string category : {"negotiate", "queue"}) {
        const std::string key = category + " layer" + std::to_string(t);
        ASSERT_EQ(trace.begun.at(key).at(rank), kSteps) << key;
        ASSERT_EQ(trace.ended.at(key).at(rank), kSteps) << key;
      }
  EXPECT_EQ(trace.begun.count("negotiate after"), 0u);
  std::map<int, std::vector<Bar>> compute, reduce;
  for (const auto& [place, bars] : trace.bars) {
    const std::string& lane = trace.lanes.at(place);
    // Bars of a lane nest or follow each other.
    auto sorted = bars;
    std::sort(sorted.begin(), sorted.end(), [](const Bar& a, const Bar& b) { return a.start < b.start; });
    for (std::size_t i = 1; i < sorted.size(); ++i)
      EXPECT_TRUE(sorted[i].start >= sorted[i - 1].stop - 0.002 || sorted[i].stop <= sorted[i - 1].stop + 0.002)
          << lane << ": " << sorted[i - 1].start << " to " << sorted[i - 1].stop << ", then " << sorted[i].start
          << " to " << sorted[i].stop;
    if (lane == "compute") compute[place.first] = sorted;
    if (lane == "engine: reduce") reduce[place.first] = sorted;
  }
  ASSERT_EQ(compute.size(), 4u);
  ASSERT_EQ(reduce.size(), 4u);
  // One clock: no rank's reduction ends before the last rank's computation that it needs, give or take 100 us.
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(compute[rank].size(), static_cast<std::size_t>(kSteps));
    EXPECT_GE(reduce[rank].front().stop, compute[3].front().stop - 100) << "rank " << rank;
    EXPECT_GE(compute[rank][1].start, compute[3][0].stop - 100)
        << "no rank begins step 2 before rank 3 has ended step 1";
  }
}

// Tensors with spans, and those that were left out, by rank.
struct Spans {
  explicit Spans(const std::string& path) {
    std::ifstream file(path);
    const auto json = nlohmann::json::parse(file);
    for (const auto& event : json.at("traceEvents")) {
      const int rank = event.value("pid", -1);
      if (event.at("ph") == "b" && event.at("cat") == "negotiate") ++recorded[rank];
      if (event.at("ph") == "i" && event.at("name") == "spans left out")
        left_out[rank] += event.at("args").at("tensors").get<std::int64_t>();
    }
  }
  std::map<int, std::int64_t> recorded, left_out;
};

constexpr int kBoth = 2, kMany = 5000;
constexpr auto kRationTime = std::chrono::milliseconds(100);
constexpr std::int64_t kRation = 2000;

// Reduces many small tensors, all at once.
Status reduce_many(Engine& engine, const std::string& name) {
  const Shape one{1};
  std::vector<float> values(kMany, 1.0F);
  std::vector<EngineHandle> handles;
  for (int i = 0; i < kMany; ++i) {
    float& value = values[static_cast<std::size_t>(i)];
    const TensorArg tensor{.in = &value, .out = &value, .dtype = DType::kFloat32, .shape = one};
    auto handle = engine.submit({.name = name + std::to_string(i), .tensors = {&tensor, 1}});
    if (!handle) return failure(handle.error());
    handles.push_back(std::move(*handle));
  }
  for (EngineHandle& handle : handles)
    if (const Status done = handle.wait(); !done) return done;
  return {};
}

void expect_complete(const Spans& spans, std::int64_t tensors) {
  for (int rank = 0; rank < kBoth; ++rank) {
    const std::int64_t sum = spans.recorded.at(rank) + (spans.left_out.contains(rank) ? spans.left_out.at(rank) : 0);
    EXPECT_GE(sum, tensors) << "rank " << rank;
    EXPECT_LE(sum, tensors + 3) << "with the engine's own operations, rank " << rank;
  }
}

// Also of the last ones, after which no other operation comes: when the timeline is stopped, and with the engine's end.
TEST(EngineTrace, SpansAreRationedAndThoseLeftOutCounted) {
  for (const bool stops : {true, false}) {
    const Scratch scratch;
    const std::string path = scratch.file("trace.json");
    const auto began = std::chrono::steady_clock::now();
    testing::ProcessGroup group(kBoth, [&](Communicator& comm) -> std::string {
      EngineOptions options = testing::quiet_options();
      options.timeline = path;
      auto engine = Engine::create(std::move(comm), options);
      if (!engine) return engine.error().to_string();
      if (const Status done = reduce_many(**engine, "tensor"); !done) return done.error().to_string();
      const Status stopped = stops ? (*engine)->stop_timeline() : Status();
      return stopped ? "" : stopped.error().to_string();
    });
    group.expect_success();
    const std::int64_t rations = (std::chrono::steady_clock::now() - began) / kRationTime + 1;
    const Spans spans(path);
    expect_complete(spans, kMany);
    for (const auto& [rank, recorded] : spans.recorded) EXPECT_LE(recorded, rations * kRation) << "rank " << rank;
  }
}

TEST(EngineTrace, ATimelineTellsNothingOfTheOneBeforeIt) {
  const Scratch scratch;
  const std::string first = scratch.file("first.json"), second = scratch.file("second.json");
  testing::ProcessGroup group(kBoth, [&](Communicator& comm) -> std::string {
    EngineOptions options = testing::quiet_options();
    options.timeline = first;
    auto made = Engine::create(std::move(comm), options);
    if (!made) return made.error().to_string();
    Engine& engine = **made;
    const auto run = [&]() -> Status {
      if (const Status done = reduce_many(engine, "tensor"); !done) return done;
      if (const Status stopped = engine.stop_timeline(); !stopped) return stopped;
      if (const Status done = reduce_many(engine, "between"); !done) return done;
      std::this_thread::sleep_for(kRationTime);
      if (const Status started = engine.start_timeline(second); !started) return started;
      if (const Status done = engine.run({.name = "last", .op = {.kind = OpKind::kBarrier}}); !done) return done;
      return engine.stop_timeline();
    };
    const Status done = run();
    return done ? "" : done.error().to_string();
  });
  group.expect_success();
  expect_complete(Spans(first), kMany);
  EXPECT_TRUE(Spans(second).left_out.empty());
}

}  // namespace
}  // namespace xoe
