// Pipelines drawn at random, for tests of what holds for all of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "data/stages/random.h"
#include "xoe/data/stages.h"

namespace xoe::data::test {

using Numbers = std::vector<std::int64_t>;

inline Numbers drain(Iterator<std::int64_t>& iterator, std::size_t most = 1000000) {
  Numbers numbers;
  while (numbers.size() < most) {
    auto number = iterator.next();
    EXPECT_TRUE(number) << number.error().message();
    if (!number || !*number) break;
    numbers.push_back(**number);
  }
  return numbers;
}

inline StagePtr<std::int64_t> range(std::int64_t first, std::int64_t count) {
  return map<std::int64_t, std::int64_t>(
      indices(count), [first](const std::int64_t& number) -> Result<std::int64_t> { return first + number; });
}

// A random pipeline whose elements are some of the numbers that it was made from, each of them once an epoch.
struct Drawn {
  StagePtr<std::int64_t> stage;
  std::string text;     // how it was made, for messages
  bool ordered = true;  // false: two walks may give another order
};

// `threads` changes no order; everything else is drawn.
class Draw {
 public:
  Draw(std::uint64_t seed, int threads) : random_(seed), threads_(threads) {}

  Drawn pipeline() {
    Drawn drawn = source();
    for (int i = random_.integer(0, 4); i > 0; --i) drawn = extended(std::move(drawn));
    return drawn;
  }

 private:
  Drawn source() {
    const std::int64_t count = random_.integer(0, 120);
    switch (random_.integer(0, 5)) {
      case 0: return {indices(count), "indices"};
      case 1: return {shuffled_indices(count, 7), "shuffled_indices"};
      case 2: return {concat<std::int64_t>({range(0, count), range(count, count / 2)}), "concat"};
      case 3:
        return {mix<std::int64_t>({range(0, count), range(count, 30), range(count + 30, 7)}, {1, 2.5, 0.1}, 3), "mix"};
      case 4: return interleaved();
      default: {
        Numbers numbers(static_cast<std::size_t>(count));
        std::iota(numbers.begin(), numbers.end(), 0);
        return {from_vector(numbers), "vector"};
      }
    }
  }
  Drawn interleaved() {
    const InterleaveOptions options{.cycle_length = random_.integer(1, 6),
                                    .block_length = random_.integer(1, 4),
                                    .threads = std::min(threads_, 3),
                                    .ahead = random_.integer(1, 40)};
    const int longest = random_.integer(1, 25);
    const auto open = [longest](const std::int64_t& file) -> Result<StagePtr<std::int64_t>> {
      return range(1000 * file, static_cast<std::int64_t>(mix(9, static_cast<std::uint64_t>(file)) %
                                                          static_cast<std::uint64_t>(longest)));
    };
    return {interleave<std::int64_t, std::int64_t>(shuffled_indices(random_.integer(0, 15), 3), open, options),
            "interleave " + std::to_string(options.cycle_length) + "x" + std::to_string(options.block_length)};
  }
  Drawn extended(Drawn from) {
    auto& [stage, text, ordered] = from;
    switch (random_.integer(0, 8)) {
      case 0: return {shuffle(stage, static_cast<std::size_t>(random_.integer(0, 50)), 5), text + " shuffle"};
      case 1: return {take(stage, random_.integer(0, 100)), text + " take"};
      case 2: return {skip(stage, random_.integer(0, 20)), text + " skip"};
      case 3:
        return {filter<std::int64_t>(stage, [](const std::int64_t& n) -> Result<bool> { return n % 3 != 1; }),
                text + " filter"};
      case 4: return {cache(stage), text + " cache"};
      case 5: return {prefetch(stage, static_cast<std::size_t>(random_.integer(1, 9))), text + " prefetch"};
      case 6: {
        const auto pairs = zip(stage, shuffled_indices(random_.integer(1, 200), 2));
        return {map<std::int64_t, std::pair<std::int64_t, std::int64_t>>(
                    pairs, [](const auto& pair) -> Result<std::int64_t> { return pair.first; }, {.threads = threads_}),
                text + " zip"};
      }
      case 7: return {shard(stage, random_.integer(0, 1), 2), text + " shard"};
      default: {
        const int bad = random_.integer(0, 1) * 7;
        return {map<std::int64_t, std::int64_t>(
                    stage,
                    [bad](const std::int64_t& n) -> Result<std::int64_t> {
                      if (bad != 0 && n % bad == 3) return failure(Code::kDataLoss, "bad");
                      return n;
                    },
                    {.threads = threads_, .tune = threads_ > 2, .on_error = OnError::kSkip, .max_bad = 1000}),
                text + " map"};
      }
    }
  }

  Random random_;
  int threads_;
};

}  // namespace xoe::data::test
