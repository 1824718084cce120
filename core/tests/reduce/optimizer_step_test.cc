// The fused steps of optimizers, against the same formulas written out for one element.
#include "core/reduce/optimizer_step.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

#include "core/reduce/reduce.h"
#include "core/tests/reduce/reference.h"

namespace xoe {
namespace {

using reduce::AdamOptions;
using reduce::SgdOptions;
using reduce::StepTensors;
using reference::Bfloat16;
using reference::Float16;
using reference::Float32;

// One element: its parameter in float32, and up to three states.
struct Element {
  float parameter;
  std::array<float, 3> state;
};
using Formula = std::function<void(float gradient, Element& element)>;

Formula sgd_formula(const SgdOptions& o) {
  return [o](float g, Element& e) {
    if (o.gradient_scale != 1) g *= static_cast<float>(o.gradient_scale);
    if (o.maximize) g = -g;
    if (o.weight_decay != 0) g = std::fma(e.parameter, static_cast<float>(o.weight_decay), g);
    if (o.trust != 1) g *= static_cast<float>(o.trust);
    if (o.momentum != 0) {
      const auto momentum = static_cast<float>(o.momentum);
      float& buffer = e.state[0];
      buffer = o.first ? g : std::fma(g, static_cast<float>(1 - o.dampening), buffer * momentum);
      g = o.nesterov ? std::fma(buffer, momentum, g) : buffer;
    }
    e.parameter = std::fma(g, static_cast<float>(-o.learning_rate), e.parameter);
  };
}

void follow_moments(const AdamOptions& o, float g, Element& e) {
  const auto weight = static_cast<float>(1 - o.beta1);
  float& mean = e.state[0];
  float& square = e.state[1];
  mean = weight < 0.5f ? std::fma(weight, g - mean, mean) : std::fma(weight - 1, g - mean, g);
  square = std::fma(static_cast<float>(1 - o.beta2) * g, g, square * static_cast<float>(o.beta2));
}

Formula adam_formula(const AdamOptions& o, bool amsgrad) {
  return [o, amsgrad](float g, Element& e) {
    if (o.gradient_scale != 1) g *= static_cast<float>(o.gradient_scale);
    if (o.maximize) g = -g;
    if (o.weight_decay != 0 && o.decoupled) e.parameter *= static_cast<float>(1 - o.learning_rate * o.weight_decay);
    if (o.weight_decay != 0 && !o.decoupled) g = std::fma(e.parameter, static_cast<float>(o.weight_decay), g);
    follow_moments(o, g, e);
    if (amsgrad && !(e.state[1] <= e.state[2]) && !std::isnan(e.state[2])) e.state[2] = e.state[1];
    const double correction1 = 1 - std::pow(o.beta1, static_cast<double>(o.step));
    const double correction2 = 1 - std::pow(o.beta2, static_cast<double>(o.step));
    const float root = std::sqrt(e.state[amsgrad ? 2 : 1]) / static_cast<float>(std::sqrt(correction2));
    const float divisor = root + static_cast<float>(o.epsilon);
    e.parameter += static_cast<float>(-(o.learning_rate / correction1)) * e.state[0] / divisor;
  };
}

float lamb_update(const AdamOptions& o, const Element& e) {
  const auto correction1 = static_cast<float>(1 - std::pow(o.beta1, static_cast<double>(o.step)));
  const auto correction2 = static_cast<float>(1 - std::pow(o.beta2, static_cast<double>(o.step)));
  const float u = e.state[0] / correction1 / (std::sqrt(e.state[1] / correction2) + static_cast<float>(o.epsilon));
  return o.weight_decay != 0 ? std::fma(e.parameter, static_cast<float>(o.weight_decay), u) : u;
}

template <class F>
std::vector<F> ordinary(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<F> values(count);
  for (F& x : values) x = F::narrow(normal(random));
  return values;
}

enum class Numbers { kAll, kOrdinary };

template <class F>
std::vector<F> draw(Numbers which, std::size_t count, unsigned seed) {
  return which == Numbers::kAll ? reference::numbers<F>(count, seed) : ordinary<F>(count, seed);
}

// A parameter with its states and the gradients of some ranks, at an offset in memory; F: its type, G: its gradients'.
template <class F, class G>
class Parameter {
 public:
  Parameter(std::size_t count, std::size_t ranks, std::size_t offset, unsigned seed, Numbers which = Numbers::kAll)
      : count_(count) {
    const auto master = draw<Float32>(which, count, seed);
    std::vector<F> rounded(count);
    for (std::size_t i = 0; i < count; ++i) rounded[i] = F::narrow(master[i].value);
    data_.emplace_back(rounded, offset);
    master_.emplace_back(master, 0);
    for (unsigned k = 0; k < 3; ++k) {
      auto values = draw<Float32>(which, count, seed + 10 + k);
      if (k > 0)
        for (Float32& x : values) x.value = std::fabs(x.value);
      states_.emplace_back(values, 4 * (k % 2));
    }
    for (unsigned rank = 0; rank < ranks; ++rank)
      gradients_.emplace_back(draw<G>(which, count, seed + 100 + rank), offset);
    for (auto& gradient : gradients_) addresses_.push_back(gradient.data());
  }
  Parameter(const Parameter&) = delete;

  StepTensors tensors() {
    return {.parameter = data_[0].data(),
            .dtype = F::kDType,
            .master = kHalf ? static_cast<float*>(master_[0].data()) : nullptr,
            .gradients = addresses_,
            .gradient_dtype = G::kDType,
            .op = ReduceOp::kAverage,
            .count = count_};
  }
  // Elements [from, from + count) alone.
  StepTensors part(std::size_t from, std::size_t count) {
    StepTensors t = tensors();
    t.parameter = static_cast<std::byte*>(t.parameter) + from * sizeof(F);
    if (t.master != nullptr) t.master += from;
    part_.clear();
    for (void* gradient : addresses_) part_.push_back(static_cast<std::byte*>(gradient) + from * sizeof(G));
    t.gradients = part_;
    t.count = count;
    return t;
  }
  float* state(std::size_t k) { return static_cast<float*>(states_[k].data()); }

  std::vector<Element> elements() const {
    std::vector<Element> result(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      result[i].parameter = kHalf ? master_[0][i].value : F::widen(data_[0][i]);
      for (std::size_t k = 0; k < 3; ++k) result[i].state[k] = states_[k][i].value;
    }
    return result;
  }
  // The gradient that all ranks' make together.
  std::vector<float> gradient() const {
    std::vector<G> reduced(count_);
    void* out = reduced.data();
    std::vector<const void*> ins(addresses_.begin(), addresses_.end());
    reduce::reduce_into({&out, 1}, ins, count_, G::kDType, ReduceOp::kAverage);
    std::vector<float> result(count_);
    std::ranges::transform(reduced, result.begin(), [](G g) { return G::widen(g); });
    return result;
  }
  F value(std::size_t i) const { return data_[0][i]; }
  // All bits that a step may write.
  std::vector<std::uint32_t> bits() const {
    std::vector<std::uint32_t> result;
    for (const Element& e : elements()) {
      result.push_back(std::bit_cast<std::uint32_t>(e.parameter));
      for (const float s : e.state) result.push_back(std::bit_cast<std::uint32_t>(s));
    }
    for (std::size_t i = 0; i < count_; ++i) {
      std::uint32_t raw = 0;
      const F v = value(i);
      std::memcpy(&raw, &v, sizeof(F));
      result.push_back(raw);
    }
    return result;
  }

 private:
  static constexpr bool kHalf = sizeof(F) == 2;
  std::size_t count_;
  std::vector<reference::Shifted<F>> data_;
  std::vector<reference::Shifted<Float32>> master_, states_;
  std::vector<reference::Shifted<G>> gradients_;
  std::vector<void*> addresses_;
  std::vector<const void*> part_;
};

bool same(float a, float b) { return reference::same_value(Float32{a}, Float32{b}); }

struct Step {
  std::string name;
  std::function<void(const StepTensors&, std::array<float*, 3>)> run;
  Formula formula;
  std::size_t states;
};

std::vector<Step> steps() {
  std::vector<Step> all;
  const auto add_sgd = [&](const char* name, SgdOptions o) {
    o.learning_rate = 0.05;
    all.push_back({name,
                   [o](const StepTensors& t, std::array<float*, 3> s) {
                     reduce::sgd_step(o, t, o.momentum == 0 ? nullptr : s[0]);
                   },
                   sgd_formula(o), o.momentum == 0 ? 0u : 1u});
  };
  add_sgd("sgd", {});
  add_sgd("sgd with decay, scaled", {.weight_decay = 0.01, .gradient_scale = 1 / 3.0});
  add_sgd("sgd with momentum", {.momentum = 0.9});
  add_sgd("its first step", {.momentum = 0.9, .dampening = 0.5, .weight_decay = 1e-4, .first = true});
  add_sgd("dampened", {.momentum = 0.9, .dampening = 0.1, .weight_decay = 1e-4, .maximize = true});
  add_sgd("nesterov", {.momentum = 0.9, .weight_decay = 1e-4, .trust = 0.02, .nesterov = true});
  const auto add_adam = [&](const char* name, AdamOptions o, bool amsgrad) {
    o.learning_rate = 0.002;
    all.push_back({name,
                   [o, amsgrad](const StepTensors& t, std::array<float*, 3> s) {
                     reduce::adam_step(o, t, s[0], s[1], amsgrad ? s[2] : nullptr);
                   },
                   adam_formula(o, amsgrad), amsgrad ? 3u : 2u});
  };
  add_adam("adam", {}, false);
  add_adam("adam with decay", {.weight_decay = 0.1, .gradient_scale = 0.25, .step = 7, .maximize = true}, false);
  add_adam("adamw", {.weight_decay = 0.1, .step = 3, .decoupled = true}, false);
  add_adam("amsgrad", {.weight_decay = 0.1, .step = 100000, .decoupled = true}, true);
  add_adam("beta1 0.2", {.beta1 = 0.2, .epsilon = 0, .step = 2}, true);
  add_adam("beta1 0", {.beta1 = 0, .beta2 = 0}, false);
  return all;
}

template <class Types>
class OptimizerStep : public testing::Test {};
using Kinds = testing::Types<std::pair<Float32, Float32>, std::pair<Bfloat16, Float32>, std::pair<Bfloat16, Bfloat16>,
                             std::pair<Float16, Float32>, std::pair<Float16, Float16>>;
TYPED_TEST_SUITE(OptimizerStep, Kinds);

TYPED_TEST(OptimizerStep, EqualsTheFormula) {
  using F = typename TypeParam::first_type;
  using G = typename TypeParam::second_type;
  reference::for_each_target([](const char* target) {
    SCOPED_TRACE(target);
    for (const Step& step : steps()) {
      SCOPED_TRACE(step.name);
      for (std::size_t count = 1; count <= 67; ++count) {
        for (const std::size_t ranks : {1, 2, 3}) {
          if (ranks > 1 && count % 16 != 3) continue;
          Parameter<F, G> parameter(count, ranks, count % 4, static_cast<unsigned>(count));
          auto expected = parameter.elements();
          const auto gradient = parameter.gradient();
          for (std::size_t i = 0; i < count; ++i) step.formula(gradient[i], expected[i]);
          step.run(parameter.tensors(), {parameter.state(0), parameter.state(1), parameter.state(2)});
          const auto actual = parameter.elements();
          for (std::size_t i = 0; i < count; ++i) {
            ASSERT_TRUE(same(expected[i].parameter, actual[i].parameter))
                << count << " elements, " << i << ": expected " << expected[i].parameter << ", was "
                << actual[i].parameter << ", gradient " << gradient[i];
            ASSERT_TRUE(reference::same_value(F::narrow(actual[i].parameter), parameter.value(i)));
            for (std::size_t k = 0; k < 3; ++k) ASSERT_TRUE(same(expected[i].state[k], actual[i].state[k])) << k;
          }
        }
      }
    }
  });
}

// Whatever the count and place, and on every instruction set; NaN included.
TYPED_TEST(OptimizerStep, BitsDependOnTheInputsAlone) {
  using F = typename TypeParam::first_type;
  using G = typename TypeParam::second_type;
  constexpr std::size_t kCount = 5003;  // over several blocks
  for (const Step& step : steps()) {
    SCOPED_TRACE(step.name);
    for (const std::size_t ranks : {1, 2, 3}) {
      std::vector<std::uint32_t> first;
      reference::for_each_target([&](const char* target) {
        SCOPED_TRACE(target);
        for (const std::size_t length : {kCount, std::size_t{61}, std::size_t{2000}}) {
          Parameter<F, G> parameter(kCount, ranks, 2 * (length % 2), 5);
          for (std::size_t at = 0; at < kCount; at += length)
            step.run(parameter.part(at, std::min(length, kCount - at)),
                     {parameter.state(0) + at, parameter.state(1) + at, parameter.state(2) + at});
          if (first.empty()) first = parameter.bits();
          ASSERT_TRUE(parameter.bits() == first) << length;
        }
      });
    }
  }
}

TYPED_TEST(OptimizerStep, LambIsItsFormula) {
  using F = typename TypeParam::first_type;
  using G = typename TypeParam::second_type;
  constexpr std::size_t kCount = 4099;
  const AdamOptions o{.learning_rate = 0.01, .weight_decay = 0.1, .gradient_scale = 0.5, .step = 4};
  for (const Numbers which : {Numbers::kAll, Numbers::kOrdinary}) {
    const std::size_t ranks = which == Numbers::kAll ? 1 : 2;
    std::vector<std::uint32_t> first;
    reference::for_each_target([&](const char* target) {
      SCOPED_TRACE(target);
      Parameter<F, G> parameter(kCount, ranks, 0, 9, which);
      auto expected = parameter.elements();
      const auto gradient = parameter.gradient();
      double squares = 0, parameter_squares = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        parameter_squares += static_cast<double>(expected[i].parameter) * expected[i].parameter;
        follow_moments(o, gradient[i] * 0.5f, expected[i]);
        const double u = lamb_update(o, expected[i]);
        squares += u * u;
      }
      const reduce::SquaredNorms norms =
          reduce::lamb_moments(o, parameter.tensors(), parameter.state(0), parameter.state(1));
      if (which == Numbers::kOrdinary) {
        ASSERT_NEAR(norms.update, squares, squares * 1e-12);
        ASSERT_NEAR(norms.parameter, parameter_squares, parameter_squares * 1e-12);
      }
      constexpr double kTrust = 0.37;
      reduce::lamb_apply(o, parameter.tensors(), parameter.state(0), parameter.state(1), kTrust);
      const auto actual = parameter.elements();
      for (std::size_t i = 0; i < kCount; ++i) {
        Element e = expected[i];
        e.parameter = std::fma(lamb_update(o, e), static_cast<float>(-0.01 * kTrust), e.parameter);
        ASSERT_TRUE(same(e.parameter, actual[i].parameter)) << i;
        ASSERT_TRUE(same(e.state[0], actual[i].state[0]) && same(e.state[1], actual[i].state[1])) << i;
      }
      if (first.empty()) first = parameter.bits();
      ASSERT_TRUE(parameter.bits() == first);
    });
  }
}

TEST(SquaredNorm, IsTheSameOnEveryInstructionSet) {
  std::vector<float> x(4099);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (float& value : x) value = normal(random);
  for (const std::size_t count : {0, 1, 15, 16, 17, 4096, 4099}) {
    double plain = 0;
    for (std::size_t i = 0; i < count; ++i) plain += static_cast<double>(x[i]) * x[i];
    std::vector<double> sums;
    reference::for_each_target([&](const char*) { sums.push_back(reduce::squared_norm(x.data(), count)); });
    for (const double sum : sums) EXPECT_EQ(sum, sums[0]);
    EXPECT_NEAR(sums[0], plain, plain * 1e-14);
  }
}

TEST(Trust, FollowsThePapers) {
  const SgdOptions o{.weight_decay = 0.1};
  EXPECT_DOUBLE_EQ(reduce::lars_trust(o, {.parameter = 16, .update = 9}, 0.001, 0), 0.001 * 4 / (3 + 0.1 * 4));
  EXPECT_EQ(reduce::lars_trust(o, {.parameter = 0, .update = 9}, 0.001, 0), 1);
  EXPECT_EQ(reduce::lamb_trust({.parameter = 16, .update = 64}), 0.5);
  EXPECT_EQ(reduce::lamb_trust({.parameter = 16, .update = 0}), 1);
}

TEST(Lars, TakesTheNormsOfParameterAndReducedGradient) {
  constexpr std::size_t kCount = 5000;
  Parameter<Bfloat16, Bfloat16> parameter(kCount, 3, 0, 1, Numbers::kOrdinary);
  const auto elements = parameter.elements();
  const auto gradient = parameter.gradient();
  double of_parameter = 0, of_gradient = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    of_parameter += static_cast<double>(elements[i].parameter) * elements[i].parameter;
    of_gradient += static_cast<double>(gradient[i]) * gradient[i];
  }
  const auto norms = reduce::lars_norms({.gradient_scale = 0.5}, parameter.tensors());
  EXPECT_NEAR(norms.parameter, of_parameter, of_parameter * 1e-12);
  EXPECT_NEAR(norms.update, of_gradient / 4, of_gradient * 1e-12);
}

TEST(OptimizerStepOfNothing, TouchesNothing) {
  const void* none = nullptr;
  const StepTensors nothing{.gradients = {&none, 1}};
  reduce::sgd_step({}, nothing, nullptr);
  reduce::adam_step({}, nothing, nullptr, nullptr, nullptr);
  reduce::lamb_apply({}, nothing, nullptr, nullptr, 1);
  EXPECT_EQ(reduce::lamb_moments({}, nothing, nullptr, nullptr).update, 0);
}

}  // namespace
}  // namespace xoe
