#include "core/engine/tuning/tuner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xoe::engine {
namespace {

// A machine that is not the tuner's model: caches end somewhere, abreast collectives get into each other's way, large
// batches delay.
struct Machine {
  double latency_s = 25e-6;
  double reduce_rate = 4e9;
  double copy_rate = 12e9;
  double cache_bytes = 4 << 20;
  double slow_copy = 3;    // times, beyond the cache
  double crowding = 0.06;  // per collective abreast beyond the second

  double batch_seconds(const Knobs& knobs, double bytes, std::size_t tensors, double abreast) const {
    const double flight = std::min<double>(knobs.in_flight, abreast);
    double copy = tensors > 1 || bytes <= static_cast<double>(knobs.pack_limit) ? 2 * bytes / copy_rate : 0;
    if (bytes > cache_bytes) copy *= slow_copy;
    return (latency_s * (0.3 + 0.7 / flight) + bytes / reduce_rate + copy) *
               (1 + crowding * std::max(0.0, flight - 2)) +
           static_cast<double>(tensors) * 0.3e-6;
  }
};

using Sizes = std::vector<std::size_t>;

struct MeasuredBatch {
  std::vector<std::size_t> sizes;
  double seconds = 0;
};

std::vector<MeasuredBatch> run_step(const Machine& machine, const Sizes& sizes, const Knobs& knobs) {
  std::vector<MeasuredBatch> batches;
  MeasuredBatch open;
  std::size_t open_bytes = 0;
  const auto close = [&] {
    if (!open.sizes.empty()) batches.push_back(std::exchange(open, {}));
    open_bytes = 0;
  };
  for (const std::size_t size : sizes) {
    if (size > knobs.pack_limit || knobs.fusion_threshold == 0) {
      batches.push_back({{size}, 0});
      continue;
    }
    if (open_bytes + size > knobs.fusion_threshold) close();
    open.sizes.push_back(size);
    open_bytes += size;
  }
  close();
  for (MeasuredBatch& batch : batches) {
    const auto bytes = static_cast<double>(std::accumulate(batch.sizes.begin(), batch.sizes.end(), std::size_t{0}));
    batch.seconds = machine.batch_seconds(knobs, bytes, batch.sizes.size(), static_cast<double>(batches.size()));
  }
  return batches;
}

double true_cost(const Machine& machine, const Sizes& sizes, const Knobs& knobs) {
  double sum = 0;
  for (const MeasuredBatch& batch : run_step(machine, sizes, knobs)) sum += batch.seconds;
  return sum;
}

double best_cost(const Machine& machine, const Sizes& sizes) {
  double best = std::numeric_limits<double>::infinity();
  for (const Knobs& knobs : Knobs::grid()) best = std::min(best, true_cost(machine, sizes, knobs));
  return best;
}

Sizes resnet() {  // many small, some large
  Sizes sizes;
  for (int block = 0; block < 53; ++block) {
    sizes.push_back(static_cast<std::size_t>(256) << (block % 4));
    sizes.push_back(static_cast<std::size_t>(256) << (block % 4));
    sizes.push_back(static_cast<std::size_t>(65536) << (block % 7));
  }
  return sizes;
}
Sizes tiny() { return Sizes(400, 900); }
Sizes transformer() {
  Sizes sizes;
  for (int layer = 0; layer < 12; ++layer) {
    for (int i = 0; i < 4; ++i) sizes.push_back(std::size_t{9} << 18);
    for (int i = 0; i < 8; ++i) sizes.push_back(3072);
    sizes.push_back(std::size_t{9} << 20);
    sizes.push_back(std::size_t{9} << 20);
  }
  return sizes;
}
Sizes one_large() { return {std::size_t{64} << 20}; }

class Noise {
 public:
  explicit Noise(unsigned seed, double sigma = 0.1) : random_(seed), normal_(0, sigma) {}
  double operator()() {
    const double jitter = std::exp(normal_(random_));
    return random_() % 50 == 0 ? jitter * 6 : jitter;  // now and then another process had the core
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
};

void drive(Tuner& tuner, const Machine& machine, const Sizes& sizes, int steps, Noise& noise) {
  for (int i = 0; i < steps; ++i) {
    const double slow = noise();
    for (const MeasuredBatch& batch : run_step(machine, sizes, tuner.current()))
      // Tensor by tensor, so that the tuner knows each one's size.
      for (std::size_t t = 0; t < batch.sizes.size(); ++t)
        tuner.observe(batch.sizes[t], 1, t == 0 ? batch.seconds * slow : 0);
    tuner.end_step();
  }
}

constexpr int kEnoughSteps = 7 * Tuner::kMaxWindows + 10;

TEST(Knobs, GridIsEncodedAndDecoded) {
  std::set<std::uint16_t> codes;
  for (const Knobs& knobs : Knobs::grid()) {
    ASSERT_TRUE(knobs.on_grid());
    const auto code = knobs.encode();
    codes.insert(code);
    ASSERT_EQ(Knobs::decode(code), knobs);
  }
  EXPECT_EQ(codes.size(), Knobs::grid().size());
  std::size_t decoded = 0;
  for (unsigned code = 0; code < 65536; ++code)
    if (Knobs::decode(static_cast<std::uint16_t>(code))) ++decoded;
  EXPECT_EQ(decoded, codes.size());
}

TEST(Knobs, GridHoldsTheGoodPoints) {
  for (const Knobs& knobs : {Knobs(), Knobs{0, 0, 1}, Knobs{std::size_t{128} << 20, std::size_t{128} << 20, 1},
                             Knobs{16384, 1024, 8}, Knobs{std::size_t{64} << 20, 65536, 4}})
    EXPECT_THAT(Knobs::grid(), ::testing::Contains(knobs));
}

TEST(Knobs, NearestIsOnTheGrid) {
  EXPECT_EQ(Knobs::nearest(9 << 20, 900 << 10, 2), Knobs());
  EXPECT_EQ(Knobs::nearest(0, 1 << 20, 3), (Knobs{0, 0, 4}));
  EXPECT_EQ(Knobs::nearest(65536, 1 << 20, 1), (Knobs{65536, 65536, 1}));
  EXPECT_TRUE(Knobs::nearest(SIZE_MAX, SIZE_MAX, 1000).on_grid());
  EXPECT_TRUE(Knobs::nearest(1, 1, -5).on_grid());
  EXPECT_FALSE((Knobs{65536, 1 << 20, 1}).on_grid());
  EXPECT_FALSE((Knobs{65537, 4096, 1}).on_grid());
  EXPECT_FALSE((Knobs{65536, 4096, 3}).on_grid());
}

struct Case {
  const char* name;
  Machine machine;
  Sizes sizes;
};

std::vector<Case> cases() {
  return {
      {"resnet", {}, resnet()},
      {"tiny", {}, tiny()},
      {"transformer", {}, transformer()},
      {"one large", {}, one_large()},
      {"slow start", {.latency_s = 200e-6}, resnet()},
      {"no cache", {.cache_bytes = 1 << 18, .slow_copy = 2}, transformer()},
      {"crowded", {.crowding = 0.3}, resnet()},
      {"quick start", {.latency_s = 4e-6}, transformer()},
  };
}

Speeds speeds_of(const Machine& machine) { return {machine.latency_s * 1e9, machine.reduce_rate, machine.copy_rate}; }

TEST(Tuner, EndsNearTheBest) {
  for (const Case& c : cases()) {
    for (unsigned seed = 1; seed <= 5; ++seed) {
      Noise noise(seed);
      Tuner tuner(speeds_of(c.machine), Knobs());
      drive(tuner, c.machine, c.sizes, kEnoughSteps, noise);
      ASSERT_TRUE(tuner.converged()) << c.name << " after " << tuner.windows() << " windows";
      EXPECT_LE(tuner.windows(), Tuner::kMaxWindows);
      const double ratio = true_cost(c.machine, c.sizes, tuner.current()) / best_cost(c.machine, c.sizes);
      EXPECT_LE(ratio, 1.05) << c.name << ", seed " << seed << ": " << tuner.current().fusion_threshold << " "
                             << tuner.current().pack_limit << " " << tuner.current().in_flight;
    }
  }
}

TEST(Tuner, NeverMovesAgain) {
  const Machine machine;
  Noise noise(7, 0.3);
  Tuner tuner({}, Knobs());
  drive(tuner, machine, resnet(), kEnoughSteps, noise);
  ASSERT_TRUE(tuner.converged());
  const Knobs settled = tuner.current();
  Machine slower = machine;
  slower.reduce_rate /= 10;  // a busy machine is no other workload
  for (int i = 0; i < 40'000; ++i) {
    drive(tuner, i % 3 == 0 ? slower : machine, resnet(), 1, noise);
    ASSERT_TRUE(tuner.converged());
    ASSERT_EQ(tuner.current(), settled);
  }
}

TEST(Tuner, TriesNothingThatIsPredictedToBeCostly) {
  const Sizes sizes = tiny();
  SizeHistogram histogram;
  for (const std::size_t size : sizes) histogram.add(size);
  const Speeds speeds;
  double best = std::numeric_limits<double>::infinity();
  for (const Knobs& knobs : Knobs::grid()) best = std::min(best, predicted_seconds(knobs, histogram, speeds));
  Noise noise(3);
  const Knobs start{0, 0, 1};  // no fusion: the worst for these
  ASSERT_GT(predicted_seconds(start, histogram, speeds), 1.3 * best);
  Tuner tuner(speeds, start);
  for (int i = 0; i < kEnoughSteps; ++i) {
    drive(tuner, Machine(), sizes, 1, noise);
    if (i > 10) {
      ASSERT_LE(predicted_seconds(tuner.current(), histogram, speeds), 1.3 * best * (1 + 1e-9));
    }
  }
  EXPECT_TRUE(tuner.converged());
}

TEST(Tuner, ChangedWorkloadIsTunedAgainAndAKnownOneIsNot) {
  const Machine machine;
  Noise noise(11);
  Tuner tuner(speeds_of(machine), Knobs());
  drive(tuner, machine, transformer(), kEnoughSteps, noise);
  ASSERT_TRUE(tuner.converged());
  const Knobs first = tuner.current();

  // A short excursion, such as an evaluation, changes nothing.
  drive(tuner, machine, tiny(), Tuner::kPatience - 1, noise);
  EXPECT_TRUE(tuner.converged());
  drive(tuner, machine, transformer(), 1, noise);
  drive(tuner, machine, tiny(), Tuner::kPatience - 1, noise);
  EXPECT_TRUE(tuner.converged());
  EXPECT_EQ(tuner.current(), first);

  drive(tuner, machine, tiny(), kEnoughSteps, noise);
  ASSERT_TRUE(tuner.converged());
  EXPECT_EQ(tuner.known().size(), 2U);
  EXPECT_LE(true_cost(machine, tiny(), tuner.current()), 1.05 * best_cost(machine, tiny()));

  drive(tuner, machine, transformer(), Tuner::kPatience + 10, noise);
  EXPECT_TRUE(tuner.converged());
  EXPECT_EQ(tuner.windows(), 0);
  EXPECT_EQ(tuner.current(), first);
}

TEST(Tuner, StartsFromWhatIsKnown) {
  const Machine machine;
  Noise noise(5);
  Tuner first(speeds_of(machine), Knobs());
  drive(first, machine, resnet(), kEnoughSteps, noise);
  Tuner second(speeds_of(machine), Knobs(), first.known());
  EXPECT_EQ(second.current(), first.current());
  drive(second, machine, resnet(), 10, noise);
  EXPECT_TRUE(second.converged());
  EXPECT_EQ(second.current(), first.current());
  EXPECT_EQ(second.windows(), 0);
}

TEST(Tuner, IsDeterministic) {
  const Machine machine;
  Noise noise_a(9);
  Noise noise_b(9);
  Tuner a({}, Knobs());
  Tuner b({}, Knobs());
  for (int i = 0; i < kEnoughSteps; ++i) {
    drive(a, machine, resnet(), 1, noise_a);
    drive(b, machine, resnet(), 1, noise_b);
    ASSERT_EQ(a.current(), b.current());
  }
}

TEST(Tuner, EndsWhenNothingIsLikeAnything) {
  Tuner tuner({}, Knobs());
  std::mt19937 random(1);
  for (int i = 0; i < 40'000; ++i) {
    const auto tensors = 1 + random() % 1000;
    tuner.observe(tensors * (1 + random() % 1'000'000), tensors, 1e-3);
    tuner.end_step();
    tuner.end_step();  // an empty step is none
  }
  tuner.observe(1, 1, std::nan(""));
  tuner.end_step();
  EXPECT_TRUE(tuner.converged());
  EXPECT_TRUE(tuner.current().on_grid());
}

}  // namespace
}  // namespace xoe::engine
