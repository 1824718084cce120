// What codecs do over many steps: what they keep, and how training with them ends.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "core/engine/execute/compress/codecs.h"
#include "core/engine/execute/compress/make_codec.h"
#include "core/tests/engine/ranks.h"

namespace xoe::engine {
namespace {

using Floats = std::vector<float>;
using MakeCodec = std::function<std::unique_ptr<Codec>(std::span<const std::int64_t> shape)>;

constexpr int kWorkers = 4;

MakeCodec with(const CompressionOptions& options) {
  return [options](std::span<const std::int64_t> shape) { return make_codec(options, shape).value(); };
}

double norm(std::span<const float> values) {
  double squares = 0;
  for (const float x : values) squares += double{x} * x;
  return std::sqrt(squares);
}

// x W1 -> tanh -> W2 -> softmax, on points around a class's centre; every rank has its own points.
class Training {
 public:
  static constexpr std::size_t kIn = 32, kHidden = 48, kOut = 8, kPoints = 64;

  Training(int rank, const MakeCodec& make) : random_(static_cast<std::uint64_t>(rank) + 500) {
    const std::array<std::vector<std::int64_t>, 2> shapes = {{{kHidden, kIn}, {kOut, kHidden}}};
    for (std::size_t l = 0; l < 2; ++l) {
      const auto count = static_cast<std::size_t>(shapes[l][0] * shapes[l][1]);
      weights_[l] = random_values(count, l + 1, 1 / std::sqrt(static_cast<double>(shapes[l][1])));
      momentum_[l].assign(count, 0.0F);
      codecs_[l] = make(shapes[l]);
    }
    const auto centres = random_values(kOut * kIn, 77, 0.5);
    for (std::size_t p = 0; p < kPoints; ++p) {
      labels_.push_back(p % kOut);
      for (std::size_t i = 0; i < kIn; ++i)
        points_.push_back(centres[labels_[p] * kIn + i] + static_cast<float>(random_.normal()));
    }
  }

  // One step of SGD with momentum over all ranks; this rank's loss before it.
  double step(Communicator& comm, float rate) {
    const double loss = differentiate();
    for (std::size_t l = 0; l < 2; ++l) {
      const Status status = drive(codecs_[l]->allreduce(comm, gradients_[l]));
      EXPECT_TRUE(status) << status.error().to_string();
      for (std::size_t i = 0; i < weights_[l].size(); ++i) {
        momentum_[l][i] = 0.9F * momentum_[l][i] + gradients_[l][i] / static_cast<float>(comm.size());
        weights_[l][i] -= rate * momentum_[l][i];
      }
    }
    return loss;
  }

  Floats weights() const {
    Floats all = weights_[0];
    all.insert(all.end(), weights_[1].begin(), weights_[1].end());
    return all;
  }

 private:
  double differentiate() {
    for (std::size_t l = 0; l < 2; ++l) gradients_[l].assign(weights_[l].size(), 0.0F);
    double loss = 0;
    for (std::size_t p = 0; p < kPoints; ++p) loss += differentiate(&points_[p * kIn], labels_[p]);
    return loss / kPoints;
  }
  double differentiate(const float* x, std::size_t label) {
    std::array<float, kHidden> hidden = {}, hidden_slope = {};
    std::array<double, kOut> out = {};
    for (std::size_t h = 0; h < kHidden; ++h) {
      float sum = 0;
      for (std::size_t i = 0; i < kIn; ++i) sum += weights_[0][h * kIn + i] * x[i];
      hidden[h] = std::tanh(sum);
    }
    double total = 0;
    for (std::size_t o = 0; o < kOut; ++o) {
      for (std::size_t h = 0; h < kHidden; ++h) out[o] += double{weights_[1][o * kHidden + h]} * hidden[h];
      total += out[o] = std::exp(out[o]);
    }
    for (std::size_t o = 0; o < kOut; ++o) {
      const auto slope = static_cast<float>((out[o] / total - (o == label ? 1 : 0)) / kPoints);
      for (std::size_t h = 0; h < kHidden; ++h) {
        gradients_[1][o * kHidden + h] += slope * hidden[h];
        hidden_slope[h] += slope * weights_[1][o * kHidden + h];
      }
    }
    for (std::size_t h = 0; h < kHidden; ++h)
      for (std::size_t i = 0; i < kIn; ++i)
        gradients_[0][h * kIn + i] += hidden_slope[h] * (1 - hidden[h] * hidden[h]) * x[i];
    return -std::log(out[label] / total);
  }

  Random random_;
  std::array<Floats, 2> weights_, momentum_, gradients_;
  std::array<std::unique_ptr<Codec>, 2> codecs_;
  Floats points_;
  std::vector<std::size_t> labels_;
};

// The mean loss over all ranks' points after training.
double train(const MakeCodec& make, int steps = 120, float rate = 0.05F) {
  std::vector<double> losses(kWorkers);
  const auto weights = on_ranks<Floats>(kWorkers, [&](Communicator& comm) {
    Training training(comm.rank(), make);
    for (int s = 0; s < steps; ++s) training.step(comm, rate);
    auto result = training.weights();
    losses[static_cast<std::size_t>(comm.rank())] = training.step(comm, 0.0F);
    return result;
  });
  expect_same_bits(weights);
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum / kWorkers;
}

// The figures of docs/guide/compression.md are in the report of --gtest_output=json.
TEST(CompressedTraining, EndsNearTheLossWithoutCompression) {
  const double start = train(with({}), 0), exact = train(with({}));
  EXPECT_LT(exact, start / 10);
  RecordProperty("start", std::to_string(start));
  RecordProperty("none", std::to_string(exact));
  struct Case {
    const char* name;
    CompressionOptions options;
    double most;  // of the uncompressed loss
  };
  const Case cases[] = {
      {"float16", {.kind = Compression::kFloat16}, 1.01},
      {"bfloat16", {.kind = Compression::kBfloat16}, 1.01},
      {"bfloat16_feedback", {.kind = Compression::kBfloat16, .error_feedback = true}, 1.01},
      {"float8", {.kind = Compression::kFloat8}, 1.05},
      {"float8_feedback", {.kind = Compression::kFloat8, .error_feedback = true}, 1.05},
      {"top_k_5_percent", {.kind = Compression::kTopK, .top_k_ratio = 0.05}, 1.2},
      {"power_sgd_2", {.kind = Compression::kPowerSgd, .power_sgd_rank = 2}, 1.2},
  };
  for (const auto& c : cases) {
    const double loss = train(with(c.options));
    RecordProperty(c.name, std::to_string(loss));
    EXPECT_LT(loss, c.most * exact) << c.name;
  }
}

TEST(CompressedTraining, TopKNeedsErrorFeedback) {
  const auto top_k = [](bool feedback) { return [feedback](auto) { return std::make_unique<TopK>(0.05, feedback); }; };
  const double kept = train(top_k(true)), dropped = train(top_k(false));
  RecordProperty("with", std::to_string(kept));
  RecordProperty("without", std::to_string(dropped));
  EXPECT_GT(dropped, 4 * kept);
}

// Ranks pull towards points far apart, whose pulls cancel: a small error of each is large beside their sum. Returns how
// far the ranks end from the middle, as a root mean square.
double pull(const MakeCodec& make) {
  constexpr std::size_t kCount = 600;
  const auto ends = on_ranks<Floats>(kWorkers, [&](Communicator& comm) {
    const std::vector<std::int64_t> shape = {20, kCount / 20};
    const auto codec = make(shape);
    auto apart = random_values(kCount, static_cast<std::uint64_t>(comm.rank() / 2), 100.0);
    for (float& x : apart) x = comm.rank() % 2 == 0 ? x : -x;
    const auto middle = random_values(kCount, 1000);
    Floats place(kCount, 0.0F), from_middle(kCount);
    for (int step = 0; step < 800; ++step) {
      Floats slope(kCount);
      for (std::size_t i = 0; i < kCount; ++i) slope[i] = place[i] - middle[i] + apart[i];
      EXPECT_TRUE(drive(codec->allreduce(comm, slope)));
      for (std::size_t i = 0; i < kCount; ++i) place[i] -= 0.005F * slope[i];
    }
    for (std::size_t i = 0; i < kCount; ++i) from_middle[i] = place[i] - middle[i];
    return from_middle;
  });
  expect_same_bits(ends);
  return norm(ends[0]) / std::sqrt(static_cast<double>(kCount));
}

TEST(ErrorFeedback, FindsTheMiddleWhereDroppingDoesNot) {
  const auto cast = [](bool feedback) {
    return [feedback](auto) { return std::make_unique<Cast>(DType::kBfloat16, feedback); };
  };
  const auto float8 = [](bool feedback) { return [feedback](auto) { return std::make_unique<Float8>(feedback); }; };
  EXPECT_LT(pull(with({})), 1e-4);
  for (const auto& [name, kept, dropped] : {std::tuple("bfloat16", pull(cast(true)), pull(cast(false))),
                                            std::tuple("float8", pull(float8(true)), pull(float8(false)))}) {
    RecordProperty(std::string(name) + "_with", std::to_string(kept));
    RecordProperty(std::string(name) + "_without", std::to_string(dropped));
    EXPECT_LT(kept, 0.05) << name;
    EXPECT_GT(dropped, 10 * kept) << name;
  }
}

struct Kept {
  Floats sent;                   // summed over the steps
  Floats residuals;              // of all kinds that this rank keeps, added up at each value
  double residual_half_way = 0;  // its norm
  double residual_at_end = 0;
};

// `steps` times the same gradients plus fresh noise. What was sent and what is kept must make up what was given.
template <class C, class Make>
void check_books(const char* name, const Make& make, double tolerance) {
  constexpr std::size_t kCount = 30 * 40;
  constexpr int kSteps = 300;
  const auto given = [](int rank, int step) {
    auto values = random_values(kCount, static_cast<std::uint64_t>(rank) + 1);
    const auto noise = random_values(kCount, static_cast<std::uint64_t>(rank * kSteps + step) + 100, 0.3);
    for (std::size_t i = 0; i < kCount; ++i) values[i] += noise[i];
    return values;
  };
  const auto kept = on_ranks<Kept>(kWorkers, [&](Communicator& comm) {
    C codec = make();
    Kept result;
    result.sent.assign(kCount, 0.0F);
    for (int step = 0; step < kSteps; ++step) {
      auto values = given(comm.rank(), step);
      EXPECT_TRUE(drive(codec.allreduce(comm, values)));
      for (std::size_t i = 0; i < kCount; ++i) result.sent[i] += values[i];
      if (step == kSteps / 2) result.residual_half_way = norm(codec.residual());
    }
    result.residual_at_end = norm(codec.residual());
    result.residuals.assign(codec.residual().begin(), codec.residual().end());
    if constexpr (std::is_same_v<C, Float8>) {
      // 1200 values are 5 blocks: ranks 0 to 3 own 2, 1, 1 and 1.
      const std::size_t first = comm.rank() == 0 ? 0 : 256 * (static_cast<std::size_t>(comm.rank()) + 1);
      for (std::size_t i = 0; i < codec.shard_residual().size(); ++i)
        result.residuals[first + i] += codec.shard_residual()[i];
    }
    return result;
  });
  std::vector<double> open(kCount);
  for (int r = 0; r < kWorkers; ++r) {
    for (int step = 0; step < kSteps; ++step) {
      const auto values = given(r, step);
      for (std::size_t i = 0; i < kCount; ++i) open[i] += values[i];
    }
  }
  double worst = 0;
  for (const auto& rank : kept) {
    EXPECT_LT(rank.residual_at_end, 1.3 * rank.residual_half_way) << name;
    for (std::size_t i = 0; i < kCount; ++i) open[i] -= rank.residuals[i];
  }
  for (std::size_t i = 0; i < kCount; ++i) worst = std::max(worst, std::abs(open[i] - kept[0].sent[i]));
  EXPECT_LT(worst, tolerance) << name;
}

TEST(ErrorFeedback, LosesNothingAndStaysBounded) {
  check_books<Float8>(
      "float8", [] { return Float8(true); }, 1e-4);
  check_books<TopK>(
      "top_k", [] { return TopK(0.05); }, 0.01);
  check_books<PowerSgd>(
      "power_sgd",
      [] {
        return PowerSgd(std::vector<std::int64_t>{30, 40}, 4);
      },
      0.01);
  // The rounding of the sum is not made up for: a random walk.
  check_books<Cast>(
      "bfloat16", [] { return Cast(DType::kBfloat16, true); }, 3.0);
}

TEST(ErrorFeedback, ForgetsWhatIsNotFinite) {
  constexpr std::size_t kCount = 1200;
  for (const Compression kind : {Compression::kNone, Compression::kFloat16, Compression::kBfloat16,
                                 Compression::kFloat8, Compression::kTopK, Compression::kPowerSgd}) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      const auto ends = on_ranks<Floats>(2, [&](Communicator& comm) {
        const std::vector<std::int64_t> shape = {30, 40};
        const auto codec = make_codec({.kind = kind, .error_feedback = true, .top_k_ratio = 0.1}, shape).value();
        Floats values = random_values(kCount, 1);
        if (comm.rank() == 1) values[700] = bad;
        EXPECT_TRUE(drive(codec->allreduce(comm, values)));
        EXPECT_FALSE(std::isfinite(values[700])) << kind_name(kind);
        values = random_values(kCount, 2);
        EXPECT_TRUE(drive(codec->allreduce(comm, values)));
        return values;
      });
      expect_same_bits(ends);
      EXPECT_TRUE(std::ranges::all_of(ends[0], [](float x) { return std::isfinite(x); })) << kind_name(kind);
    }
  }
}

}  // namespace
}  // namespace xoe::engine
