// What pipelines built of stages tell about themselves, and how they adjust.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <source_location>
#include <string>
#include <thread>
#include <utility>

#include "core/testing/scratch.h"
#include "data/tests/random_pipelines.h"
#include "data/tune/cpus.h"
#include "xoe/data/map_and_batch.h"
#include "xoe/data/report.h"
#include "xoe/data/stages.h"

namespace xoe::data::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Stage64 = StagePtr<std::int64_t>;

std::vector<std::string> names_of(const std::vector<StageReport>& stages) {
  std::vector<std::string> names;
  for (const StageReport& stage : stages) names.push_back(stage.name);
  return names;
}

const StageReport& named(const PipelineReport& report, std::string_view name) {
  const auto found =
      std::find_if(report.stages.begin(), report.stages.end(), [&](const auto& stage) { return stage.name == name; });
  EXPECT_NE(found, report.stages.end()) << name;
  return *found;
}

Stage64 sleepy(Stage64 upstream, std::chrono::microseconds each, MapOptions options) {
  return map<std::int64_t, std::int64_t>(
      std::move(upstream),
      [each](const std::int64_t& n) -> Result<std::int64_t> {
        std::this_thread::sleep_for(each);
        return n;
      },
      std::move(options));
}

TEST(Report, ListsEachStageBehindWhatFeedsIt) {
  const auto open = [](const std::int64_t& file) -> Result<Stage64> { return skip(range(100 * file, 12), 2); };
  const auto numbers = interleave<std::int64_t, std::int64_t>(shuffled_indices(5, 1), open, {.cycle_length = 2});
  const auto walk = batch(zip(take(shuffle(numbers, 10, 1), 40), indices(100)), 8)->iterate(0).value();
  while (walk->next().value()) continue;
  const PipelineReport seen = report(*walk);
  EXPECT_THAT(names_of(seen.stages), ElementsAre("shuffled_indices", "indices", "map", "skip", "interleave", "shuffle",
                                                 "take", "indices", "zip", "batch"));
  std::vector<int> feeds;
  for (const StageReport& stage : seen.stages) feeds.push_back(stage.feeds);
  EXPECT_THAT(feeds, ElementsAre(4, 2, 3, 4, 5, 6, 8, 8, 9, -1));
  EXPECT_EQ(named(seen, "skip").elements, 49) << "of all files that were opened";
  EXPECT_EQ(named(seen, "take").elements, 40);
  EXPECT_EQ(named(seen, "take").bytes, 40 * 8);
  EXPECT_EQ(seen.stages.back().elements, 5);
  EXPECT_EQ(seen.stages.back().bytes, 40 * 16);
  EXPECT_EQ(seen.elements, 5);
}

TEST(Report, CountsNothingTwiceOverEpochsAndStartsAgainWithARestore) {
  const auto walk = repeat(filter<std::int64_t>(indices(10), [](const auto& n) -> Result<bool> { return n > 3; }), 3)
                        ->iterate(0)
                        .value();
  const State start = walk->save();
  while (walk->next().value()) continue;
  EXPECT_EQ(named(report(*walk), "filter").elements, 18);
  EXPECT_EQ(named(report(*walk), "indices").elements, 30);
  ASSERT_TRUE(walk->restore(start));
  EXPECT_EQ(named(report(*walk), "repeat").elements, 0);
  ASSERT_TRUE(walk->next());
  EXPECT_EQ(named(report(*walk), "indices").elements, 5);
}

// Where the work is known, the times say so: its own, what is waited for, and the whole.
TEST(Report, GivesEachStageItsOwnTime) {
  const auto slow = sleepy(indices(30), 2ms, {.name = "slow"});
  const auto slower =
      sleepy(filter<std::int64_t>(slow, [](const auto&) -> Result<bool> { return true; }), 4ms, {.name = "slower"});
  const auto walk = take(slower, 30)->iterate(0).value();
  while (walk->next().value()) continue;
  const PipelineReport seen = report(*walk);
  EXPECT_GE(named(seen, "slow").seconds, 0.060);
  EXPECT_GE(named(seen, "slower").seconds, 0.120);
  EXPECT_GE(named(seen, "slower").waited, 0.060);
  EXPECT_LT(named(seen, "filter").seconds, named(seen, "slow").seconds) << "the time of what feeds it is not its own";
  EXPECT_LT(named(seen, "take").seconds, named(seen, "slower").seconds);
  EXPECT_GE(named(seen, "filter").waited, 0.060);
  EXPECT_GE(seen.making.waited, 0.180) << "the consumer's";
  EXPECT_LE(seen.making.waited, seen.seconds() * 1.001);
  double own = 0;
  for (const StageReport& stage : seen.stages) own += stage.seconds;
  // The whole also has the moments in which this thread was not run between two readings of the clock.
  EXPECT_LE(own, seen.stages.back().held * 1.02) << "the parts are the whole";
  EXPECT_GE(own, seen.stages.back().held * 0.75) << "the parts are the whole";
}

// Most calls are not timed where elements cost little; what is told is close all the same.
TEST(Report, EstimatesTheTimeOfCheapStages) {
  // A timed call that is interrupted counts for many: one round without that will do.
  double closest = 1e9;
  for (int round = 0; round < 20 && closest > 3; ++round) {
    const auto walk = batch(shuffle(indices(300000), 1000, 3), 100)->iterate(0).value();
    const auto start = std::chrono::steady_clock::now();
    while (walk->next().value()) continue;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const PipelineReport seen = report(*walk);
    const double ratio = seen.stages.back().held / seconds;
    closest = std::min(closest, std::max(ratio, 1 / ratio));
    ASSERT_GT(named(seen, "shuffle").seconds, 0);
    ASSERT_GT(named(seen, "shuffle").waited, 0);
  }
  EXPECT_LT(closest, 3);
}

TEST(Report, ThreadsAndQueuesOfStagesThatWorkAhead) {
  const auto open = [](const std::int64_t& file) -> Result<Stage64> { return range(100 * file, 20); };
  const auto read =
      interleave<std::int64_t, std::int64_t>(indices(4), open, {.cycle_length = 2, .threads = 2, .ahead = 8});
  const auto mapped = sleepy(read, 1ms, {.threads = 3, .ahead = 7, .name = "slow"});
  const auto walk = prefetch(mapped, 5)->iterate(0).value();
  ASSERT_TRUE(walk->next());
  std::this_thread::sleep_for(100ms);  // the queue fills, and the thread has to wait
  while (walk->next().value()) continue;
  const PipelineReport seen = report(*walk);
  EXPECT_EQ(named(seen, "interleave").most_threads, 2);
  EXPECT_EQ(named(seen, "interleave").depth, 16U);
  EXPECT_GT(named(seen, "interleave").waited, 0);
  EXPECT_EQ(named(seen, "slow").threads, 3);
  EXPECT_EQ(named(seen, "slow").depth, 7U);
  EXPECT_GE(named(seen, "slow").seconds, 0.080);
  const StageReport& queue = named(seen, "prefetch");
  EXPECT_EQ(queue.threads, 1);
  EXPECT_EQ(queue.depth, 5U);
  EXPECT_GT(queue.idle, 0.020);
  EXPECT_GT(queue.ready, 0);
  EXPECT_LE(queue.ready, 5);
  EXPECT_GT(queue.waited, 0) << "its thread's, for the map";
  EXPECT_EQ(seen.making.threads, 6);
}

TEST(Report, OfMapAndBatchKnowsBytesAndThreads) {
  const MapInto<std::int64_t> write = [](const std::int64_t& n, std::span<void* const> places, int) {
    *static_cast<std::int64_t*>(places[0]) = n;
    return Status();
  };
  const auto batches =
      map_and_batch<std::int64_t>(batch(indices(30), 10), 10, {{DType::kInt64, {4}}}, write, {.threads = 2}).value();
  while (batches->next().value()) continue;
  const PipelineReport seen = report(*batches);
  EXPECT_THAT(names_of(seen.stages), ElementsAre("indices", "batch", "map_and_batch"));
  EXPECT_EQ(seen.stages.back().bytes, 30 * 32);
  EXPECT_EQ(seen.stages.back().threads, 2);
  EXPECT_EQ(seen.elements, 3);
}

// Runs the pipeline to its end and expects these words of it. A busy machine may keep a thread from running, and no
// stage used that time: one run of twenty without such a break will do.
void expect_said(const Stage64& stage, const ::testing::Matcher<std::string>& wanted,
                 std::chrono::microseconds each = 0us, std::source_location from = std::source_location::current()) {
  const ::testing::ScopedTrace trace(from.file_name(), static_cast<int>(from.line()), "the pipeline stands here");
  std::string said;
  for (int run = 0; run < 20 && !wanted.Matches(said); ++run) {
    const auto walk = stage->iterate(0).value();
    while (walk->next().value()) std::this_thread::sleep_for(each);
    said = explain(report(*walk));
  }
  EXPECT_THAT(said, wanted);
}

TEST(Report, NamesTheBottleneckAndWhatWouldHelp) {
  expect_said(sleepy(indices(40), 2ms, {}), AllOf(HasSubstr("mostly for map"), HasSubstr("prefetch() behind it")));
  expect_said(prefetch(sleepy(indices(40), 2ms, {.name = "parse"}), 4),
              AllOf(HasSubstr("mostly for parse"), HasSubstr("One thread of prefetch does it")));
  expect_said(sleepy(sleepy(indices(60), 2ms, {.name = "fetch"}), 1ms, {.threads = 4}),
              AllOf(HasSubstr("mostly for fetch"), HasSubstr("One thread of map does it")));
  expect_said(sleepy(indices(200), 2ms, {.threads = 2, .name = "decode"}),
              AllOf(HasSubstr("mostly for decode"), Not(HasSubstr("One thread"))));
  expect_said(prefetch(indices(60), 8), HasSubstr("The consumer is the bottleneck"), 20ms);
  EXPECT_EQ(explain(report(*indices(3)->iterate(0).value())), "nothing was delivered yet");
  const auto walk = prefetch(sleepy(indices(10), 1ms, {.name = "parse"}), 4)->iterate(0).value();
  while (walk->next().value()) continue;
  EXPECT_THAT(to_table(report(*walk)), AllOf(HasSubstr("of 4"), HasSubstr("1 of 1"), HasSubstr("parse")));
}

// Ranks of one host share its CPUs: what would help is said of this rank's share.
TEST(Report, KnowsTheShareOfCpusOfOneRankAmongSeveral) {
  const auto walk = sleepy(indices(100), 1ms, {.threads = 2, .name = "decode"})->iterate(0).value();
  while (walk->next().value()) continue;
  EXPECT_EQ(report(*walk).cpus, given_cpus(1));
  EXPECT_EQ(report(*walk, 2).cpus, std::max(given_cpus(1) / 2, 1));
  PipelineReport seen = report(*walk, 10000);
  EXPECT_EQ(seen.cpus, 1);
  // As if nothing else had run on this machine: both threads were busy all the time.
  for (StageReport& stage : seen.stages)
    if (stage.name == "decode") stage.seconds = 2 * seen.seconds();
  EXPECT_THAT(explain(seen), HasSubstr("The only CPU that this process was given is in use"));
}

// While threads are at work and epochs and files change.
TEST(Report, MayBeAskedAtAnyTime) {
  const auto open = [](const std::int64_t& file) -> Result<Stage64> { return repeat(range(100 * file, 3), 2); };
  const auto read =
      interleave<std::int64_t, std::int64_t>(indices(40), open, {.cycle_length = 3, .threads = 2, .ahead = 4});
  const auto parts = concat<std::int64_t>({cache(read), repeat(cache(range(9000, 50)), 3)});
  const auto walk = prefetch(repeat(sleepy(parts, 0us, {.threads = 2}), 3), 3)->iterate(0).value();
  std::int64_t elements = 0;
  while (walk->next().value()) {
    ++elements;
    const PipelineReport seen = report(*walk);
    ASSERT_EQ(seen.elements, elements);
    ASSERT_FALSE(to_table(seen).empty());
  }
  EXPECT_EQ(elements, 3 * 240 + 150 + 100 + 50) << "repeat() has fewer epochs left in later ones";
}

// ---- Threads and depth by themselves

TEST(Auto, InterleaveFindsTheReadersThatTheConsumerNeedsAndKeepsTheOrder) {
  const auto stage = [](int threads) {
    const auto open = [](const std::int64_t& file) -> Result<Stage64> {
      return sleepy(range(1000 * file, 150), 500us, {});
    };
    return interleave<std::int64_t, std::int64_t>(indices(12), open,
                                                  {.cycle_length = 6, .threads = threads, .ahead = 4});
  };
  const auto walk = stage(kAutoThreads)->iterate(0).value();
  const int cpus = given_cpus(1);
  Numbers numbers;
  int most = 0;
  while (auto number = walk->next().value()) {
    numbers.push_back(*number);
    if (numbers.size() % 50 == 0) most = std::max(most, named(report(*walk), "interleave").threads);
  }
  EXPECT_EQ(named(report(*walk), "interleave").most_threads, cpus);
  EXPECT_LE(most, cpus);
  EXPECT_EQ(most, std::min(cpus, std::max(most, 2))) << "one reader is too slow for this consumer";
  if (cpus > 1) {
    EXPECT_THAT(named(report(*walk), "interleave").last_tuning, HasSubstr("threads"));
  }
  EXPECT_EQ(numbers, drain(*stage(0)->iterate(0).value()));
}

// Parts that mostly wait, as files over a network do: more of them at a time feed the consumer.
TEST(Auto, InterleaveOpensAsManyAtATimeAsTheConsumerNeeds) {
  constexpr int kAhead = 4;
  const auto open = [](const std::int64_t& file) -> Result<Stage64> {
    return sleepy(range(1000 * file, 100), 500us, {});
  };
  for (const int threads : {6, kAutoThreads}) {
    const auto walk = interleave<std::int64_t, std::int64_t>(
                          indices(30), open,
                          {.cycle_length = kAutoCycle, .threads = threads, .ahead = kAhead, .deterministic = false})
                          ->iterate(0)
                          .value();
    std::set<std::int64_t> numbers;
    int most_threads = 0;
    std::size_t most_open = 0;
    while (auto number = walk->next().value()) {
      EXPECT_TRUE(numbers.insert(*number).second) << *number << " came twice";
      if (numbers.size() % 50 != 0) continue;
      const PipelineReport seen = report(*walk);
      const StageReport& stage = named(seen, "interleave");
      most_threads = std::max(most_threads, stage.threads);
      most_open = std::max(most_open, stage.depth / kAhead);
      EXPECT_LE(stage.depth, stage.most_depth);
    }
    EXPECT_EQ(numbers.size(), 3000U);
    EXPECT_GT(most_open, static_cast<std::size_t>(most_threads)) << "one for each reader, and one to take from";
    if (threads == kAutoThreads && given_cpus(1) > 1) {
      EXPECT_THAT(named(report(*walk), "interleave").last_tuning, HasSubstr("at a time"));
    }
  }
}

TEST(Auto, ACycleThatFindsItselfNeedsThreadsAndNoOrder) {
  const auto open = [](const std::int64_t&) -> Result<Stage64> { return indices(3); };
  const auto refuses = [&](InterleaveOptions options) {
    const auto walk = interleave<std::int64_t, std::int64_t>(indices(2), open, options)->iterate(0);
    return !walk && walk.error().code() == Code::kInvalidArgument &&
           walk.error().message().find("kAutoCycle") != std::string::npos;
  };
  EXPECT_TRUE(refuses({.cycle_length = kAutoCycle, .threads = 2}));
  EXPECT_TRUE(refuses({.cycle_length = kAutoCycle, .deterministic = false}));
  EXPECT_TRUE(refuses({.cycle_length = -2, .threads = 2, .deterministic = false}));
  const auto stage = interleave<std::int64_t, std::int64_t>(
      indices(2), open, {.cycle_length = kAutoCycle, .threads = 2, .deterministic = false});
  const auto walk = stage->iterate(0).value();
  ASSERT_TRUE(walk->next());
  for (const std::int64_t slots : {0, -1, 65, 1 << 30}) {
    State state = walk->save();
    ASSERT_TRUE(state.pop("interleave.slots"));
    state.push("interleave.slots", slots);
    EXPECT_EQ(stage->iterate(0).value()->restore(state).error().code(), Code::kInvalidArgument) << slots;
  }
}

TEST(Auto, MapUsesTheCpusGivenAtMost) {
  const auto walk = sleepy(indices(10), 0us, {.threads = kAutoThreads})->iterate(0).value();
  EXPECT_EQ(drain(*walk).size(), 10U);
  EXPECT_EQ(report(*walk).stages.back().most_threads, given_cpus(1));
  const auto shared = sleepy(indices(10), 0us, {.threads = kAutoThreads, .processes = 1000})->iterate(0).value();
  EXPECT_EQ(report(*shared).stages.back().most_threads, 1);
  EXPECT_EQ(sleepy(indices(1), 0us, {.threads = -2})->iterate(0).error().code(), Code::kInvalidArgument);
  const auto open = [](const std::int64_t&) -> Result<Stage64> { return indices(1); };
  EXPECT_FALSE((interleave<std::int64_t, std::int64_t>(indices(1), open, {.threads = -2})->iterate(0)));
}

// A consumer that takes 8 at once and then rests: two ahead are too few, so it goes further, and comes to rest there.
// Its rest is as long as ten elements take here, where a busy machine lets a millisecond's sleep be longer, too.
TEST(Auto, PrefetchGoesAsFarAheadAsBurstsNeed) {
  const auto walk = prefetch(sleepy(indices(100000), 1ms, {}), kAutoDepth)->iterate(0).value();
  ASSERT_TRUE(walk->next());
  EXPECT_EQ(report(*walk).stages.back().depth, 2U);
  std::int64_t expected = 1;
  const auto end = std::chrono::steady_clock::now() + 120s;
  for (PipelineReport now = report(*walk); now.stages.back().depth < 4; now = report(*walk)) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << now.stages.back().last_tuning;
    for (int i = 0; i < 8; ++i) ASSERT_EQ(walk->next().value(), expected++);
    const double each = named(now, "map").seconds / static_cast<double>(expected);
    std::this_thread::sleep_for(std::chrono::duration<double>(10 * each));
  }
  const StageReport seen = report(*walk).stages.back();
  EXPECT_LE(seen.depth, seen.most_depth);
  EXPECT_THAT(seen.last_tuning, HasSubstr("ahead"));
}

TEST(Auto, MemoryBoundsWhatIsReadAhead) {
  std::atomic<int> made = 0;
  const std::function<Result<std::string>(const std::int64_t&)> make = [&](const std::int64_t&) -> Result<std::string> {
    ++made;
    return std::string(1000, 'x');
  };
  const auto one_at_a_time = prefetch(map<std::string, std::int64_t>(indices(100), make), kAutoDepth, 500);
  const auto walk = one_at_a_time->iterate(0).value();
  std::int64_t taken = 0;
  for (; walk->next().value(); ++taken) {
    std::this_thread::sleep_for(1ms);
    ASSERT_LE(made, taken + 3) << "one given, one in the queue, one in the thread's hands";
  }
  EXPECT_EQ(taken, 100);
  made = 0;
  const auto open = [&](const std::int64_t&) -> Result<StagePtr<std::string>> {
    return map<std::string, std::int64_t>(indices(200), make);
  };
  const auto read = interleave<std::string, std::int64_t>(
                        indices(4), open, {.cycle_length = 4, .threads = 2, .ahead = 1000, .memory_budget = 20000})
                        ->iterate(0)
                        .value();
  for (taken = 0; read->next().value(); ++taken) {
    if (taken % 50 == 0) std::this_thread::sleep_for(2ms);
    // The budget, a chunk of 16 for each reader that began below it, and one of each file whose turn it was.
    ASSERT_LE(made, taken + 1 + 20 + 2 * 16 + 4);
  }
  EXPECT_EQ(taken, 800);
}

}  // namespace
}  // namespace xoe::data::test
