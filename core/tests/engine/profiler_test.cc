// Ranges of the engine's work in a profiler, which a mock library plays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include <nlohmann/json.hpp>

#include "core/engine/profiler/profiler.h"
#include "core/tests/comm/process_group.h"
#include "core/tests/engine/engines.h"
#include "core/tests/engine/heard_ranges.h"

namespace xoe {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::HeardRanges;
using testing::in_place;
using ::testing::Key;
using Shape = std::vector<std::int64_t>;

constexpr int kRounds = 3;
constexpr std::size_t kSmall = 1000, kLarge = std::size_t{1} << 20;

Status reduce(Engine& engine, const std::string& name, std::vector<float>& values) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  const TensorArg tensor = in_place(values, shape);
  return engine.run({.name = name, .tensors = {&tensor, 1}});
}

// Steps of small tensors, which are packed because they are compressed, and a large one, which is not.
std::string run_steps(Engine& engine) {
  std::vector<std::vector<float>> small(3, std::vector<float>(kSmall, 1.0F));
  std::vector<float> large(kLarge, 1.0F);
  const Shape small_shape{kSmall}, large_shape{kLarge};
  for (int step = 0; step < kRounds; ++step) {
    std::vector<EngineHandle> handles;
    for (std::size_t i = 0; i < small.size(); ++i) {
      const TensorArg tensor = in_place(small[i], small_shape);
      auto handle = engine.submit({.name = "bias" + std::to_string(i),
                                   .op = {.compression = {.kind = Compression::kFloat16}},
                                   .tensors = {&tensor, 1}});
      if (!handle) return handle.error().to_string();
      handles.push_back(*handle);
    }
    const TensorArg tensor = in_place(large, large_shape);
    auto handle = engine.submit({.name = "weight", .tensors = {&tensor, 1}});
    if (!handle) return handle.error().to_string();
    handles.push_back(*handle);
    for (auto& one : handles)
      if (const Status status = one.wait(); !status) return status.error().to_string();
  }
  return {};
}

// By category or lane: the names of a rank's events.
std::map<std::string, std::set<std::string>> timeline_of(const std::string& path, int rank) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  std::map<std::pair<int, int>, std::string> lanes;
  std::map<std::string, std::set<std::string>> names;
  for (const auto& event : json.at("traceEvents"))
    if (event.at("name") == "thread_name") lanes[{event.at("pid"), event.at("tid")}] = event.at("args").at("name");
  for (const auto& event : json.at("traceEvents")) {
    if (event.value("pid", -1) != rank) continue;
    if (event.at("ph") == "b") names[event.at("cat")].insert(event.at("name"));
    if (event.at("ph") == "X") names[lanes[{rank, event.at("tid")}]].insert(event.at("name"));
  }
  return names;
}

TEST(Profiler, ShowsEachStageUnderTheTimelinesNames) {
  const Scratch scratch;
  const auto heard_by = [&](int rank) { return scratch.file("heard" + std::to_string(rank)); };
  {
    testing::ProcessGroup group(2, [&](Communicator& comm) {
      const HeardRanges attached;
      ::setenv("XOE_MOCK_NVTX", heard_by(comm.rank()).c_str(), 1);
      EngineOptions options = testing::quiet_options();
      options.timeline = scratch.file("trace.json");
      auto engine = Engine::create(std::move(comm), options);
      if (!engine) return engine.error().to_string();
      return run_steps(**engine);
    });
    group.expect_success();
  }
  for (int rank = 0; rank < 2; ++rank) {
    const auto heard = HeardRanges::read(heard_by(rank));
    const auto timeline = timeline_of(scratch.file("trace.json"), rank);
    EXPECT_EQ(heard.domains, 1);
    EXPECT_EQ(heard.open, 0u);
    for (const std::string name : {"bias0", "bias1", "bias2", "weight"})
      for (const std::string stage : {"negotiate", "queue"}) {
        EXPECT_EQ(heard.begun.count(stage + " " + name) ? heard.begun.at(stage + " " + name) : 0, kRounds)
            << stage << " " << name;
        EXPECT_EQ(heard.bytes.at(stage + " " + name), long(name == "weight" ? kLarge : kSmall) * 4);
      }
    EXPECT_EQ(heard.begun.at("reduce weight"), kRounds);
    EXPECT_EQ(heard.begun.count("pack weight"), 0u) << "it is reduced where it lies";
    // What the timeline shows, the profiler does, in the category of the stage.
    const std::map<std::string, std::pair<std::string, int>> stages{{"negotiate", {"negotiate ", 1}},
                                                                    {"queue", {"queue ", 2}},
                                                                    {"engine: pack", {"pack ", 3}},
                                                                    {"engine: reduce", {"reduce ", 4}}};
    for (const auto& [lane, stage] : stages) {
      ASSERT_EQ(timeline.count(lane), 1u) << lane;
      for (const std::string& name : timeline.at(lane))
        EXPECT_THAT(heard.of_category(stage.second), Contains(stage.first + name)) << "rank " << rank;
    }
    EXPECT_EQ(heard.of_category(3).size(), heard.of_category(5).size()) << "what was packed is unpacked";
  }
}

TEST(Profiler, EveryRangeEnds) {
  const HeardRanges attached;
  {
    auto engines = testing::make_engines(testing::make_group(2, std::chrono::seconds(60)), testing::quiet_options());
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        Engine& engine = *engines[rank];
        std::vector<float> values(rank == 0 ? 8 : 9, 1.0F), same(8, 1.0F);
        EXPECT_FALSE(reduce(engine, "mismatch", values));
        EXPECT_TRUE(reduce(engine, "well", same));
        if (rank == 1) {
          auto joined = engine.submit({.name = "join", .op = {.kind = OpKind::kJoin}});
          EXPECT_TRUE(joined && joined->wait());
        } else {
          EXPECT_TRUE(reduce(engine, "of one rank", same));
          EXPECT_TRUE(engine.submit({.name = "join", .op = {.kind = OpKind::kJoin}})->wait());
        }
        const Shape shape{8};
        const TensorArg tensor = in_place(same, shape);
        if (rank == 1) return engine.close();
        EXPECT_FALSE(engine.run({.name = "alone", .tensors = {&tensor, 1}})) << "the other rank has left";
        EXPECT_FALSE(engine.submit({.name = "later", .tensors = {&tensor, 1}}));
      });
  }
  const auto heard = attached.read();
  EXPECT_EQ(heard.open, 0u);
  EXPECT_EQ(heard.begun.at("negotiate mismatch"), 2);
  EXPECT_EQ(heard.begun.count("reduce mismatch"), 0u);
  EXPECT_EQ(heard.begun.at("negotiate of one rank"), 1);
  EXPECT_EQ(heard.begun.at("reduce of one rank"), 2) << "the rank that has joined takes part";
  EXPECT_EQ(heard.begun.at("negotiate alone"), 1);
}

TEST(Profiler, OnlyWhereItIsWantedAndAttached) {
  std::mutex mutex;
  std::vector<std::string> warnings;
  EngineOptions options = testing::quiet_options();
  options.warn = [&](std::string_view text) {
    const std::lock_guard lock(mutex);
    warnings.emplace_back(text);
  };
  const auto run = [&](std::optional<bool> nvtx) {
    options.nvtx = nvtx;
    testing::run_engines(
        1, [](Engine& engine) { EXPECT_EQ(run_steps(engine), ""); }, options);
    return std::exchange(warnings, {});
  };
  {
    const HeardRanges attached;
    EXPECT_TRUE(run(false).empty());
    EXPECT_TRUE(attached.read().begun.empty());
    EXPECT_TRUE(run(true).empty());
    EXPECT_THAT(attached.read().begun, Contains(Key("reduce weight")));
    ::setenv("NVTX_INJECTION64_PATH", "/nowhere/lib.so", 1);
    EXPECT_THAT(run(std::nullopt), Contains(HasSubstr("a profiler is attached, but shows nothing of Xoe: ")));
  }
  EXPECT_TRUE(run(std::nullopt).empty());
  EXPECT_THAT(run(true),
              Contains("XOE_NVTX=1 has no effect: no profiler is attached; start the program under `nsys profile "
                       "--trace=nvtx,cuda`"));
}

}  // namespace
}  // namespace xoe
