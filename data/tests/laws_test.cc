// Laws over random pipelines: each element once, an order that threads do not change, and resuming to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>

#include "core/testing/places.h"
#include "core/testing/scratch.h"
#include "data/tests/random_pipelines.h"
#include "xoe/data/map_and_batch.h"

namespace xoe::data::test {
namespace {

class Laws : public ::testing::TestWithParam<int> {};

TEST_P(Laws, OrderDependsOnNoThreads) {
  for (std::uint64_t seed = 100 * GetParam(); seed < 100 * static_cast<std::uint64_t>(GetParam()) + 100; ++seed) {
    const Drawn expected = Draw(seed, 0).pipeline();
    const auto epochs = [](const Drawn& drawn) {
      return std::pair(drain(*drawn.stage->iterate(0).value()), drain(*drawn.stage->iterate(2).value()));
    };
    const auto numbers = epochs(expected);
    for (const int threads : {1, 3}) EXPECT_EQ(epochs(Draw(seed, threads).pipeline()), numbers) << expected.text;
    auto unique = numbers.first;
    std::sort(unique.begin(), unique.end());
    EXPECT_EQ(std::adjacent_find(unique.begin(), unique.end()), unique.end()) << expected.text << ": one came twice";
    if (const auto size = expected.stage->size()) {
      EXPECT_EQ(*size, static_cast<std::int64_t>(numbers.first.size())) << expected.text;
    }
  }
}

TEST_P(Laws, ResumesToTheBit) {
  for (std::uint64_t seed = 100 * GetParam(); seed < 100 * static_cast<std::uint64_t>(GetParam()) + 100; ++seed) {
    Random random(seed, 1, 1);
    const Drawn drawn = Draw(seed, 0).pipeline();
    const auto whole = repeat(drawn.stage, 2);
    const auto counted = drain(*drawn.stage->iterate(0).value());
    if (counted.empty() || drain(*drawn.stage->iterate(1).value()).empty()) continue;  // repeat refuses empty epochs
    const Numbers expected = drain(*whole->iterate(0).value());
    const auto used = repeat(Draw(seed, 2).pipeline().stage, 2)->iterate(0).value();
    for (int round = 0; round < 4; ++round) {
      const int at = random.integer(0, static_cast<int>(expected.size()));
      // Saved with some threads, restored with others, in a new pipeline, as another process would.
      const auto walk = repeat(Draw(seed, round % 3).pipeline().stage, 2)->iterate(0).value();
      ASSERT_EQ(drain(*walk, static_cast<std::size_t>(at)).size(), static_cast<std::size_t>(at));
      const State state = State::from_text(walk->save().to_text()).value();
      EXPECT_LT(state.to_text().size(), 4096U) << drawn.text;
      const Numbers rest(expected.begin() + at, expected.end());
      ASSERT_TRUE(used->restore(state)) << drawn.text;
      ASSERT_EQ(drain(*used), rest) << drawn.text << " at " << at;
      EXPECT_EQ(drain(*walk), rest) << drawn.text << " saving changed something";
    }
  }
}

// The numbers that `command` prints.
Numbers numbers_of(const std::string& command) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  Numbers numbers;
  for (long long number = 0; std::fscanf(pipe.get(), "%lld", &number) == 1;) numbers.push_back(number);
  return numbers;
}

TEST_P(Laws, ResumesInANewProcess) {
  for (int round = 0; round < 12; ++round) {
    const std::uint64_t seed = static_cast<std::uint64_t>(1000 * GetParam() + round);
    Random random(seed, 2, 2);
    const auto walk = Draw(seed, round % 3).pipeline().stage->iterate(5).value();
    drain(*walk, static_cast<std::size_t>(random.integer(0, 60)));
    const std::string state = walk->save().to_text();
    const Numbers rest = drain(*walk);
    const std::string command = built_file("pipeline_walker ") + std::to_string(seed) + " " +
                                std::to_string((round + 1) % 3) + " 5 '" + state + "'";
    EXPECT_EQ(numbers_of(command), rest) << command;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Laws, ::testing::Range(0, 5));

TEST(Interleave, WithoutOrderGivesEachOnceAlsoOverARestore) {
  for (int round = 0; round < 40; ++round) {
    const auto stage = interleave<std::int64_t, std::int64_t>(
        indices(9),
        [](const std::int64_t& file) -> Result<StagePtr<std::int64_t>> { return range(100 * file, 30 + file); },
        {.cycle_length = round % 2 == 0 ? 4 : kAutoCycle,
         .block_length = 2,
         .threads = round % 4 == 3 ? kAutoThreads : 3,
         .ahead = 5,
         .deterministic = false});
    Numbers all = drain(*stage->iterate(0).value());
    const auto walk = stage->iterate(0).value();
    Numbers parts = drain(*walk, static_cast<std::size_t>(17 * round % 290));
    const auto other = stage->iterate(0).value();
    ASSERT_TRUE(other->restore(walk->save()));
    const Numbers rest = drain(*other);
    parts.insert(parts.end(), rest.begin(), rest.end());
    std::sort(all.begin(), all.end());
    std::sort(parts.begin(), parts.end());
    EXPECT_EQ(all.size(), 9U * 30 + 36);
    EXPECT_EQ(parts, all);
  }
}

// The next part takes the place of one that has ended, and has a turn of its own, however far that one was in its own.
TEST(Interleave, AReplacementHasAWholeTurn) {
  const auto lengths = [](const std::int64_t& file) -> Result<StagePtr<std::int64_t>> {
    return range(100 * file, file == 0 ? 2 : 6);
  };
  for (const int threads : {0, 2}) {
    const auto stage = interleave<std::int64_t, std::int64_t>(
        indices(6), lengths, {.cycle_length = 2, .block_length = 3, .threads = threads});
    EXPECT_EQ(drain(*stage->iterate(0).value()),
              (Numbers{0,   1,   100, 101, 102, 200, 201, 202, 103, 104, 105, 203, 204, 205, 300, 301,
                       302, 400, 401, 402, 303, 304, 305, 403, 404, 405, 500, 501, 502, 503, 504, 505}));
  }
}

TEST(Interleave, ErrorsOfAPartEndItByName) {
  const auto stage =
      interleave<std::int64_t, std::int64_t>(indices(5),
                                             [](const std::int64_t& file) -> Result<StagePtr<std::int64_t>> {
                                               if (file == 3) return failure(Code::kUnavailable, "no such file");
                                               return range(file, 2);
                                             },
                                             {.cycle_length = 2, .threads = 2});
  const auto walk = stage->iterate(0).value();
  for (;;) {
    auto number = walk->next();
    if (number) continue;
    EXPECT_EQ(number.error().message(), "interleave: element 3 of epoch 0: no such file");
    EXPECT_EQ(walk->next().error().code(), Code::kUnavailable);
    break;
  }
}

TEST(Numbered, TellsEpochAndNumberAlsoAfterARestore) {
  const auto stage = repeat(numbered(indices(3)), 2);
  const auto walk = stage->iterate(0).value();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(walk->next());
  const auto other = stage->iterate(0).value();
  ASSERT_TRUE(other->restore(walk->save()));
  const auto element = other->next().value();
  ASSERT_TRUE(element);
  EXPECT_EQ(element->epoch, 1);
  EXPECT_EQ(element->number, 1);
  EXPECT_EQ(element->element, 1);
}

TEST(ShuffledIndices, IsAPermutationAndEveryPlaceIsAboutEquallyLikely) {
  for (const std::int64_t count : {0, 1, 2, 3, 5, 16, 17, 1000, 4097}) {
    Numbers numbers = drain(*shuffled_indices(count, 3)->iterate(1).value());
    EXPECT_TRUE(count < 16 || numbers != drain(*shuffled_indices(count, 3)->iterate(2).value())) << count;
    std::sort(numbers.begin(), numbers.end());
    Numbers expected(static_cast<std::size_t>(count));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(numbers, expected);
  }
  constexpr int kElements = 8;
  constexpr int kRounds = 8000;
  int seen[kElements][kElements] = {};
  const auto stage = shuffled_indices(kElements, 11);
  for (int epoch = 0; epoch < kRounds; ++epoch) {
    const Numbers order = drain(*stage->iterate(epoch).value());
    for (std::size_t place = 0; place < order.size(); ++place) ++seen[order[place]][place];
  }
  for (const auto& row : seen)
    for (const int count : row) EXPECT_NEAR(count, kRounds / kElements, 180);  // six standard deviations
}

// Ranks come and go at any batch of an epoch; over all of them each element comes once.
TEST(ShardBatches, ChangesOfSizeLoseAndRepeatNothing) {
  Random random(6);
  for (int round = 0; round < 300; ++round) {
    const std::int64_t total = random.integer(1, 400);
    const auto order = shuffle(indices(total), static_cast<std::size_t>(random.integer(0, 300)), 5);
    Numbers seen;
    std::optional<State> state;
    for (bool ended = false; !ended;) {
      const int size = random.integer(1, 6);
      const int batch_size = random.integer(1, 9);
      const int steps = random.integer(1, 12);
      State after;
      for (int rank = 0; rank < size; ++rank) {
        const auto walk = shard_batches(order, {rank, size, batch_size, Remainder::kKeep})->iterate(4).value();
        if (state) {
          ASSERT_TRUE(walk->restore(*state));
        }
        bool mine_ended = false;
        for (int step = 0; step < steps && !mine_ended; ++step) {
          auto made = walk->next().value();
          mine_ended = !made;
          if (made) seen.insert(seen.end(), made->elements.begin(), made->elements.end());
        }
        if (rank > 0) {
          EXPECT_EQ(mine_ended, ended) << "ranks end at the same step";
          EXPECT_EQ(walk->save(), after) << "the position is the same on every rank";
        }
        ended = mine_ended;
        after = walk->save();
      }
      state = after;
    }
    std::sort(seen.begin(), seen.end());
    Numbers expected(static_cast<std::size_t>(total));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(seen, expected);
  }
}

TEST(CacheFile, IsWrittenOnceAndReadFromThenOn) {
  const Scratch scratch;
  const std::string path = scratch.file("kept");
  int made = 0;
  const auto upstream =
      map<std::string, std::int64_t>(indices(40), [&made](const std::int64_t& n) -> Result<std::string> {
        ++made;
        return std::string(static_cast<std::size_t>(n), 'a') + "!";
      });
  const auto lengths = [](const StagePtr<std::string>& stage, std::size_t most = 1000) {
    Numbers found;
    const auto walk = stage->iterate(1).value();
    for (auto element = walk->next().value(); element; element = walk->next().value()) {
      found.push_back(static_cast<std::int64_t>(element->size()) - 1);
      if (found.size() == most) break;
    }
    return found;
  };
  const auto stage = cache_file(upstream, path);
  EXPECT_EQ(lengths(stage, 10).size(), 10U);
  EXPECT_FALSE(std::filesystem::exists(path)) << "half an epoch is no cache";
  const Numbers all = lengths(stage);
  EXPECT_EQ(all.size(), 40U);
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(made, 50);
  EXPECT_EQ(lengths(stage), all);
  const auto later = cache_file(upstream, path);  // as another run would
  EXPECT_EQ(lengths(later), all);
  EXPECT_EQ(later->size(), 40);
  EXPECT_EQ(made, 50);

  const auto walk = later->iterate(0).value();
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(walk->next());
  std::filesystem::remove(path);
  const auto rewritten = cache_file(upstream, path)->iterate(0).value();
  ASSERT_TRUE(rewritten->restore(walk->save()));
  EXPECT_EQ(rewritten->next().value()->size(), 8U);
  EXPECT_EQ(cache_file(upstream, scratch.file("none/kept"))->iterate(0).error().code(), Code::kUnavailable);
}

TEST(Map, NamesTheElementAlsoWhenItThrows) {
  const auto stage = map<int, std::int64_t>(indices(9),
                                            [](const std::int64_t& n) -> Result<int> {
                                              if (n == 4) throw std::runtime_error("four");
                                              return 1;
                                            },
                                            {.threads = 2});
  const auto walk = stage->iterate(3).value();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(walk->next());
  EXPECT_EQ(walk->next().error().message(), "map: element 4 of epoch 3: the function threw: four");
}

TEST(Map, SkipsUpToALimit) {
  const auto stage = map<int, std::int64_t>(
      indices(100), [](const std::int64_t&) -> Result<int> { return failure(Code::kDataLoss, "bad"); },
      {.on_error = OnError::kSkip, .max_bad = 6});
  const std::string message = stage->iterate(0).value()->next().error().message();
  EXPECT_EQ(message, "map: 7 bad elements, more than the 6 allowed; the last one: map: element 6 of epoch 0: bad");
}

Result<std::unique_ptr<TensorIterator>> squares(int count, int batch_size, MapAndBatchOptions options) {
  const auto groups = repeat(batch(indices(count), batch_size), 2);
  return map_and_batch<std::int64_t>(
      groups, batch_size, {{DType::kInt64, {2}}, {DType::kFloat32, {}}},
      [](const std::int64_t& n, std::span<void* const> places, int) -> Status {
        if (n % 10 == 7) return failure(Code::kDataLoss, "seven");
        static_cast<std::int64_t*>(places[0])[0] = n;
        static_cast<std::int64_t*>(places[0])[1] = n * n;
        *static_cast<float*>(places[1]) = static_cast<float>(n) / 2;
        return {};
      },
      options);
}

TEST(MapAndBatch, WritesInPlaceInOrderAndReplacesBadOnes) {
  for (const int threads : {0, 1, 3})
    for (const bool keep_full : {true, false}) {
      const auto walk =
          squares(10, 4, {.threads = threads, .on_error = OnError::kSkip, .keep_full = keep_full}).value();
      Numbers firsts;
      for (auto made = walk->next().value(); made; made = walk->next().value())
        for (int i = 0; i < made->count; ++i) {
          const std::int64_t n = made->data<std::int64_t>(0)[2 * i];
          EXPECT_EQ(made->data<std::int64_t>(0)[2 * i + 1], n * n);
          EXPECT_EQ(made->data<float>(1)[i], static_cast<float>(n) / 2);
          if (made->epoch == 1) firsts.push_back(n);
        }
      EXPECT_EQ(firsts, keep_full ? (Numbers{0, 1, 2, 3, 4, 5, 6, 4, 8, 9}) : (Numbers{0, 1, 2, 3, 4, 5, 6, 8, 9}));
      EXPECT_EQ(walk->skipped(), 2);
    }
}

TEST(MapAndBatch, NamesTheElementAndStaysFailed) {
  const auto walk = squares(10, 4, {.threads = 2}).value();
  EXPECT_TRUE(walk->next());
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(walk->next().error().message(), "map_and_batch: batch 1: element 3 of epoch 0: seven");
}

TEST(MapAndBatch, RefusesWhatCannotBe) {
  EXPECT_EQ(squares(10, 0, {}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(squares(10, 4, {.threads = -2}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(squares(10, 4, {.depth = 0}).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace xoe::data::test
