// What stages do when something fails: errors stay, nothing throws, and positions saved before them can be restored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "core/testing/scratch.h"
#include "data/tests/random_pipelines.h"
#include "xoe/data/map_and_batch.h"

namespace xoe::data::test {
namespace {

using ::testing::HasSubstr;
using Answer = Result<std::optional<std::int64_t>>;

// A source as users write them: element i is what the function says, and after an error it goes on.
class Source final : public Stage<std::int64_t> {
 public:
  using At = std::function<Answer(std::int64_t position)>;
  explicit Source(At at, std::function<Status()> open = nullptr) : at_(std::move(at)), open_(std::move(open)) {}

  Result<std::unique_ptr<Iterator<std::int64_t>>> iterate(std::int64_t) const override {
    if (const Status opened = open_ ? open_() : Status(); !opened) return failure(opened.error());
    return std::make_unique<Walk>(at_);
  }
  std::optional<std::int64_t> size() const override { return 100; }

 private:
  class Walk final : public Iterator<std::int64_t> {
   public:
    explicit Walk(At at) : at_(std::move(at)) {}
    Answer next() override { return at_(position_++); }
    State save() const override {
      State state;
      state.push("source.position", position_);
      return state;
    }
    Status restore(State state) override {
      const auto position = state.pop("source.position");
      if (!position) return failure(position.error());
      position_ = *position;
      return {};
    }

   private:
    At at_;
    std::int64_t position_ = 0;
  };

  At at_;
  std::function<Status()> open_;
};

StagePtr<std::int64_t> failing_once(std::int64_t bad, std::int64_t count = 100) {
  return std::make_shared<Source>([bad, count, failed = std::make_shared<bool>(false)](std::int64_t at) -> Answer {
    if (at == bad && !std::exchange(*failed, true)) return failure(Code::kUnavailable, "away for a moment");
    if (at >= count) return std::nullopt;
    return at;
  });
}

StagePtr<std::int64_t> throwing_at(std::int64_t bad) {
  return std::make_shared<Source>([bad](std::int64_t at) -> Answer {
    if (at == bad) throw std::runtime_error("thrown");
    return at;
  });
}

// The error that `walk` ends with, after seeing that it stays.
template <class T>
Error last_error(Iterator<T>& walk) {
  for (int i = 0; i < 1000; ++i) {
    auto element = walk.next();
    if (element && *element) continue;
    if (element) break;
    for (int again = 0; again < 3; ++again) {
      const auto later = walk.next();
      if (later) return {Code::kInternal, "the error did not stay"};
      EXPECT_EQ(later.error().to_string(), element.error().to_string());
    }
    EXPECT_FALSE(walk.skip(1));
    return element.error();
  }
  ADD_FAILURE() << "no error";
  return {Code::kInternal, "no error"};
}

TEST(Failures, APositionBeforeAnErrorOfAnInterleavedPartCanBeRestored) {
  for (const int threads : {0, 1, 2}) {
    const auto stage = interleave<std::int64_t, std::int64_t>(
        indices(2),
        [](const std::int64_t& part) -> Result<StagePtr<std::int64_t>> {
          return map<std::int64_t, std::int64_t>(range(1000 * part, 30),
                                                 [](const std::int64_t& n) -> Result<std::int64_t> {
                                                   if (n == 1010) return failure(Code::kDataLoss, "bad");
                                                   return n;
                                                 });
        },
        {.cycle_length = 2, .threads = threads});
    for (std::size_t at = 0; at <= 21; ++at) {
      const auto walk = stage->iterate(0).value();
      drain(*walk, at);
      const auto other = stage->iterate(0).value();
      const auto restored = other->restore(walk->save());
      ASSERT_TRUE(restored) << restored.error().message() << " at " << at;
      EXPECT_EQ(drain(*other, 21 - at), drain(*walk, 21 - at));
      EXPECT_THAT(last_error(*other).message(), HasSubstr("bad"));
    }
  }
}

TEST(Failures, AnIteratorWhoseRestoreFailedGivesThatError) {
  const Scratch scratch;
  bool gone = false;
  const auto open = [&gone] { return gone ? Status(failure(Code::kUnavailable, "gone")) : Status(); };
  const auto source = std::make_shared<Source>([](std::int64_t at) -> Answer { return at; }, open);
  const auto text = map<std::string, std::int64_t>(
      StagePtr<std::int64_t>(source), [](const std::int64_t& n) -> Result<std::string> { return std::to_string(n); });
  const auto kept = cache_file(text, scratch.file("kept"))->iterate(0).value();
  const auto dealt = shard_batches(StagePtr<std::int64_t>(source), {.batch = 2})->iterate(0).value();
  const auto repeated = repeat(StagePtr<std::int64_t>(source), 2);
  const auto past_end = repeated->iterate(2).value();
  const State first_epoch = repeated->iterate(0).value()->save();
  gone = true;
  EXPECT_FALSE(kept->restore(kept->save()));
  EXPECT_EQ(last_error(*kept).message(), "gone");
  EXPECT_FALSE(dealt->restore(dealt->save()));
  EXPECT_EQ(last_error(*dealt).message(), "gone");
  EXPECT_FALSE(past_end->restore(first_epoch));
  EXPECT_EQ(last_error(*past_end).message(), "gone");
  static_cast<void>(past_end->save());
  gone = false;
  EXPECT_TRUE(past_end->restore(first_epoch));
  EXPECT_EQ(past_end->next().value(), 0);
}

TEST(Failures, ErrorsStayWhateverTheUpstreamDoesNext) {
  const auto is_away = [](const auto& stage) {
    EXPECT_EQ(last_error(*stage->iterate(0).value()).message(), "away for a moment");
  };
  using Numbers64 = StagePtr<std::int64_t>;
  is_away(batch(failing_once(5), 3));
  is_away(shard_batches(failing_once(5), {.batch = 2}));
  is_away(shuffle(failing_once(5), 3, 1));
  is_away(take(failing_once(5), 50));
  is_away(skip(failing_once(5), 10));
  is_away(shard(failing_once(5), 1, 2));
  is_away(filter<std::int64_t>(failing_once(5), [](const std::int64_t&) -> Result<bool> { return true; }));
  is_away(numbered(failing_once(5)));
  is_away(zip(failing_once(5), indices(50)));
  is_away(concat<std::int64_t>({indices(3), failing_once(5)}));
  is_away(mix<std::int64_t>({indices(3), failing_once(5)}, {1, 1}, 1));
  is_away(cache(failing_once(5)));
  is_away(repeat(failing_once(5)));
  is_away(prefetch(failing_once(5), 3));
  is_away(interleave<std::int64_t, std::int64_t>(
      failing_once(5), [](const std::int64_t& n) -> Result<Numbers64> { return range(n, 2); }));
  for (const int threads : {0, 2})
    is_away(map<std::int64_t, std::int64_t>(
        failing_once(5), [](const std::int64_t& n) -> Result<std::int64_t> { return n; }, {.threads = threads}));
}

TEST(Failures, AnEpochThatCannotBeOpenedStaysTheError) {
  int opened = 0;
  const StagePtr<std::int64_t> source = std::make_shared<Source>(
      [](std::int64_t at) -> Answer {
        if (at == 3) return std::nullopt;
        return at;
      },
      [&opened] { return ++opened == 2 ? Status(failure(Code::kUnavailable, "gone")) : Status(); });
  EXPECT_EQ(last_error(*repeat(source)->iterate(0).value()).message(), "gone");
}

TEST(Failures, ACacheGoesOnForOthersAfterAnErrorOfItsUpstream) {
  const auto stage = cache(failing_once(5, 9));
  const auto first = stage->iterate(0).value();
  EXPECT_EQ(last_error(*first).message(), "away for a moment");
  EXPECT_EQ(drain(*stage->iterate(0).value()), (Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(last_error(*first).message(), "away for a moment");
}

TEST(Failures, PositionsOutsideAVectorAreRefused) {
  const auto walk = from_vector<int>({1, 2, 3})->iterate(0).value();
  for (const std::int64_t position : {-1, 4}) {
    State state;
    state.push("vector.position", position);
    const Status restored = walk->restore(state);
    ASSERT_FALSE(restored);
    EXPECT_EQ(restored.error().code(), Code::kInvalidArgument);
  }
}

TEST(Failures, WhatTheUpstreamThrowsIsAnErrorInAnyThread) {
  const auto thrown = [](const auto& walk) {
    const Error error = last_error(*walk);
    EXPECT_EQ(error.code(), Code::kInternal);
    EXPECT_THAT(error.message(), HasSubstr("the function threw: thrown"));
  };
  thrown(prefetch(throwing_at(4), 3)->iterate(0).value());
  thrown(shuffle(throwing_at(4), 3, 1)->iterate(0).value());
  for (const int threads : {0, 2}) {
    thrown(map<std::int64_t, std::int64_t>(
               throwing_at(4), [](const std::int64_t& n) -> Result<std::int64_t> { return n; }, {.threads = threads})
               ->iterate(0)
               .value());
    const InterleaveOptions options{.cycle_length = 2, .threads = threads};
    const auto parts = [](const std::int64_t& n) -> Result<StagePtr<std::int64_t>> { return range(n, 2); };
    thrown(interleave<std::int64_t, std::int64_t>(throwing_at(4), parts, options)->iterate(0).value());
    const auto broken = [](const std::int64_t&) -> Result<StagePtr<std::int64_t>> { return throwing_at(4); };
    thrown(interleave<std::int64_t, std::int64_t>(indices(2), broken, options)->iterate(0).value());
  }
}

Result<std::unique_ptr<TensorIterator>> batches_of(const StagePtr<std::int64_t>& numbers, MapInto<std::int64_t> f,
                                                   MapAndBatchOptions options) {
  return map_and_batch<std::int64_t>(batch(numbers, 2), 2, {{.dtype = DType::kInt64, .shape = {}}}, std::move(f),
                                     options);
}

TEST(Failures, BatchesAreNotMadeOfWhatThrew) {
  const MapInto<std::int64_t> good = [](const std::int64_t&, std::span<void* const>, int) { return Status(); };
  const MapInto<std::int64_t> bad = [](const std::int64_t& n, std::span<void* const>, int) -> Status {
    if (n == 4) throw std::runtime_error("thrown");
    return {};
  };
  const MapInto<std::int64_t> greedy = [](const std::int64_t&, std::span<void* const>, int) -> Status {
    throw std::bad_alloc();
  };
  const MapInto<std::int64_t> odd = [](const std::int64_t&, std::span<void* const>, int) -> Status { throw 1; };
  for (const int threads : {0, 2}) {
    const MapAndBatchOptions bare{.threads = threads, .name_elements = false};
    EXPECT_EQ(last_error(*batches_of(indices(9), bad, bare).value()).message(), "the function threw: thrown");
    EXPECT_EQ(last_error(*batches_of(indices(9), bad, {.threads = threads}).value()).message(),
              "map_and_batch: batch 2: element 0 of epoch 0: the function threw: thrown");
    EXPECT_EQ(last_error(*batches_of(throwing_at(4), good, bare).value()).code(), Code::kInternal);
    EXPECT_EQ(last_error(*batches_of(indices(9), greedy, bare).value()).code(), Code::kResourceExhausted);
    EXPECT_EQ(last_error(*batches_of(indices(9), odd, bare).value()).code(), Code::kInternal);
  }
}

TEST(Failures, MapSkipsBrokenElementsAndNoBugs) {
  for (const Code code : {Code::kDataLoss, Code::kInvalidArgument, Code::kInternal}) {
    const auto stage = map<std::int64_t, std::int64_t>(indices(9),
                                                       [code](const std::int64_t& n) -> Result<std::int64_t> {
                                                         if (n == 4) return failure(code, "bad");
                                                         return n;
                                                       },
                                                       {.on_error = OnError::kSkip});
    const auto walk = stage->iterate(0).value();
    if (code == Code::kDataLoss)
      EXPECT_EQ(drain(*walk).size(), 8U);
    else
      EXPECT_EQ(last_error(*walk).code(), code);
  }
}

// The upstream is slow: a prefetch that fills its queue before it closes would make many more elements.
TEST(Prefetch, ClosesWithoutFillingItsQueueFirst) {
  std::atomic<int> made = 0;
  const StagePtr<std::int64_t> slow = std::make_shared<Source>([&made](std::int64_t at) -> Answer {
    ++made;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return at;
  });
  auto walk = prefetch(slow, 50)->iterate(0).value();
  ASSERT_TRUE(walk->next());
  int before = made;
  ASSERT_TRUE(walk->restore(walk->save()));
  ASSERT_TRUE(walk->next());
  EXPECT_LE(made - before, 5);
  before = made;
  walk.reset();
  EXPECT_LE(made - before, 2);
}

}  // namespace
}  // namespace xoe::data::test
