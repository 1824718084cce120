// LARS and LAMB: the published formulas, whatever carries them out.
#include "xoe/torch/layerwise.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/serialize/archive.h>

#include <cmath>
#include <sstream>

#include "frameworks/tests/libtorch/nets.h"
#include "frameworks/tests/libtorch/ranks.h"

namespace xoe::torch_test {
namespace {

namespace optim = ::torch::optim;
using torch::LAMB;
using torch::LAMBOptions;
using torch::LARS;
using torch::LARSOptions;

// Two groups, as networks have them: the first parameter without trust and decay, and the others.
MakeOptimizer lars() {
  return [](std::vector<at::Tensor> parameters) {
    std::vector<optim::OptimizerParamGroup> groups;
    const auto options = LARSOptions(0.5).momentum(0.9).weight_decay(0.1).trust_coefficient(0.02);
    groups.emplace_back(std::vector<at::Tensor>(parameters.begin() + 1, parameters.end()));
    groups.emplace_back(std::vector<at::Tensor>(parameters.begin(), parameters.begin() + 1),
                        std::make_unique<LARSOptions>(LARSOptions(options).weight_decay(0).layerwise(false)));
    return std::make_unique<LARS>(groups, options);
  };
}
MakeOptimizer lamb() {
  return [](std::vector<at::Tensor> parameters) {
    std::vector<optim::OptimizerParamGroup> groups;
    const auto options = LAMBOptions(0.02).betas({0.8, 0.95}).weight_decay(0.1);
    groups.emplace_back(std::vector<at::Tensor>(parameters.begin() + 1, parameters.end()));
    groups.emplace_back(std::vector<at::Tensor>(parameters.begin(), parameters.begin() + 1),
                        std::make_unique<LAMBOptions>(LAMBOptions(options).weight_decay(0).layerwise(false)));
    return std::make_unique<LAMB>(groups, options);
  };
}

// A parameter and its state in float64, and the formulas on it.
struct Reference {
  std::vector<double> p, momentum, mean, square;

  explicit Reference(const at::Tensor& parameter) {
    const at::Tensor values = parameter.detach().to(at::kDouble).contiguous();
    p.assign(values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel());
    momentum = mean = square = std::vector<double>(p.size());
  }
  static double norm(const std::vector<double>& x) {
    double sum = 0;
    for (const double one : x) sum += one * one;
    return std::sqrt(sum);
  }
  void lars(const std::vector<double>& g, bool scaled) {
    const double decay = scaled ? 0.1 : 0;
    const double trust = scaled ? 0.02 * norm(p) / (norm(g) + decay * norm(p) + 1e-8) : 1;
    for (std::size_t i = 0; i < p.size(); ++i) {
      momentum[i] = 0.9 * momentum[i] + trust * (g[i] + decay * p[i]);
      p[i] -= 0.5 * momentum[i];
    }
  }
  void lamb(const std::vector<double>& g, bool scaled, int step) {
    std::vector<double> update(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      mean[i] = 0.8 * mean[i] + 0.2 * g[i];
      square[i] = 0.95 * square[i] + 0.05 * g[i] * g[i];
      const double size = std::sqrt(square[i] / (1 - std::pow(0.95, step))) + 1e-6;
      update[i] = mean[i] / (1 - std::pow(0.8, step)) / size + (scaled ? 0.1 : 0) * p[i];
    }
    const double trust = scaled ? norm(p) / norm(update) : 1;
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= 0.02 * trust * update[i];
  }
};

// The largest difference to the reference after some steps, relative to the largest weight.
double distance_to_reference(const std::vector<at::Tensor>& parameters, bool is_lars) {
  const auto optimizer = (is_lars ? lars() : lamb())(parameters);
  std::vector<Reference> references(parameters.begin(), parameters.end());
  for (int step = 1; step <= 5; ++step) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor gradient = pattern(parameters[i].sizes(), 10.0 * step + static_cast<double>(i), 0.1);
      parameters[i].mutable_grad() = at::empty_strided(parameters[i].sizes(), parameters[i].strides(),
                                                       parameters[i].options().requires_grad(false))
                                         .copy_(gradient);
      const at::Tensor wide = gradient.to(at::kDouble).contiguous();
      const std::vector<double> g(wide.const_data_ptr<double>(), wide.const_data_ptr<double>() + wide.numel());
      is_lars ? references[i].lars(g, i > 0) : references[i].lamb(g, i > 0, step);
    }
    optimizer->step();
  }
  double largest = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor values = parameters[i].detach().to(at::kDouble).contiguous();
    for (std::size_t k = 0; k < references[i].p.size(); ++k)
      largest = std::max(largest, std::abs(values.const_data_ptr<double>()[k] - references[i].p[k]));
  }
  return largest;
}

TEST(Layerwise, IsThePublishedFormula) {
  for (const bool is_lars : {true, false}) {
    // Dense float32; float64 and a transposed slice, which libtorch's operations carry out; more than a part of norms.
    EXPECT_LT(distance_to_reference({pattern({7}, 1).requires_grad_(), pattern({5, 9}, 2).requires_grad_()}, is_lars),
              2e-6);
    EXPECT_LT(distance_to_reference({pattern({7}, 1).to(at::kDouble).requires_grad_(),
                                     pattern({5, 9}, 2).to(at::kDouble).requires_grad_()},
                                    is_lars),
              1e-12);
    EXPECT_LT(distance_to_reference({pattern({8}, 1).slice(0, 0, 8, 2).requires_grad_(),
                                     pattern({6, 9}, 2).t().slice(1, 0, 6, 3).requires_grad_()},
                                    is_lars),
              2e-6);
    EXPECT_LT(
        distance_to_reference({pattern({3}, 1).requires_grad_(), pattern({300, 300}, 2).requires_grad_()}, is_lars),
        2e-6);
  }
}

TEST(Layerwise, AZeroNormMeansATrustOfOne) {
  const at::Tensor zero = at::zeros({4}).set_requires_grad(true);
  LARS lars({zero}, LARSOptions(0.5).momentum(0).trust_coefficient(0.001));
  zero.mutable_grad() = at::ones({4});
  lars.step();
  EXPECT_TRUE(at::equal(zero.detach(), at::full({4}, -0.5F)));
}

TEST(Layerwise, BitsDoNotDependOnThreads) {
  for (const auto& make : {lars(), lamb()}) {
    const auto run = [&](int threads) {
      at::set_num_threads(threads);
      std::vector<at::Tensor> parameters = {pattern({3}, 1).requires_grad_(), pattern({512, 700}, 2).requires_grad_()};
      const auto optimizer = make(parameters);
      for (int step = 0; step < 3; ++step) {
        for (const at::Tensor& parameter : parameters) parameter.mutable_grad() = pattern(parameter.sizes(), step);
        optimizer->step();
      }
      at::set_num_threads(1);
      return parameters;
    };
    EXPECT_TRUE(equal_bits(run(1), run(3)));
  }
}

TEST(Layerwise, ShardedDiffersByRoundingOnly) {
  for (const auto& make : {lars(), lamb()}) {
    for (const int ranks : {1, 2, 3}) {
      Training training{.make_optimizer = make, .steps = 20};
      training.options.bucket_bytes = 8192;
      const auto run = [&] {
        const auto results = on_ranks(ranks, [&](Communicator& comm) { return train(training, comm); });
        for (const auto& rank : results) EXPECT_TRUE(equal_bits(rank, results[0]));
        return results[0];
      };
      const auto whole = run();
      training.options.sharded = true;
      EXPECT_LT(largest_difference(run(), whole), 1e-5) << ranks;
      EXPECT_GT(largest_difference(whole, snapshot(Net(1))), 1e-2);
    }
  }
}

TEST(Layerwise, StateAndOptionsComeBack) {
  for (const auto& make : {lars(), lamb()}) {
    const auto step = [](Net& net, optim::Optimizer& optimizer, int seed) {
      for (const at::Tensor& parameter : net.parameters()) parameter.mutable_grad() = pattern(parameter.sizes(), seed);
      optimizer.step();
    };
    Net net;
    const auto optimizer = make(net.parameters());
    step(net, *optimizer, 1);
    std::stringstream stream;
    ::torch::serialize::OutputArchive out;
    optimizer->save(out);
    out.save_to(stream);

    Net other;
    const auto values = net.parameters();
    {
      const at::NoGradGuard no_grad;
      for (std::size_t i = 0; i < values.size(); ++i) other.parameters()[i].copy_(values[i]);
    }
    const auto loaded = make(other.parameters());
    loaded->param_groups()[0].options().set_lr(7);
    ::torch::serialize::InputArchive in;
    in.load_from(stream);
    loaded->load(in);
    EXPECT_EQ(loaded->param_groups()[0].options().get_lr(), optimizer->param_groups()[0].options().get_lr());
    step(net, *optimizer, 2);
    step(other, *loaded, 2);
    EXPECT_TRUE(equal_bits(snapshot(net), snapshot(other)));
  }
}

TEST(Layerwise, ShardedStateIsThatOfOneRank) {
  const auto saved_after = [](int ranks, bool sharded) {
    return on_ranks(ranks, [&](Communicator& comm) {
      Net net;
      const auto wrapped = lamb()(net.parameters());
      auto optimizer = torch::DistributedOptimizer::create(*wrapped, net, comm, {.sharded = sharded}).value();
      for (int step = 0; step < 3; ++step) {
        ok(optimizer.zero_grad());
        const int samples = 12 / comm.size();
        const Batch batch = batch_at(step, comm.rank() * samples, samples);
        loss_of(net.forward(batch.images, true), batch.targets).backward();
        ok(optimizer.step());
      }
      ::torch::serialize::OutputArchive archive;
      ok(optimizer.save_state(archive));
      std::ostringstream stream;
      if (comm.rank() == 0) archive.save_to(stream);
      ok(optimizer.close());
      return stream.str();
    })[0];
  };
  const auto means = [](const std::string& bytes) {
    Net net;
    const auto optimizer = lamb()(net.parameters());
    std::istringstream stream(bytes);
    ::torch::serialize::InputArchive archive;
    archive.load_from(stream);
    optimizer->load(archive);
    std::vector<at::Tensor> found;
    for (const at::Tensor& parameter : net.parameters()) {
      const auto& state =
          static_cast<const optim::AdamParamState&>(*optimizer->state().at(parameter.unsafeGetTensorImpl()));
      EXPECT_EQ(state.step(), 3);
      found.push_back(state.exp_avg());
    }
    return found;
  };
  EXPECT_LT(largest_difference(means(saved_after(2, true)), means(saved_after(1, false))), 1e-6);
}

TEST(Layerwise, RefusesOptionsThatMakeNoSense) {
  const at::Tensor parameter = at::ones({2}).set_requires_grad(true);
  EXPECT_THROW(LARS({parameter}, LARSOptions(0.1).weight_decay(-1)), c10::Error);
  EXPECT_THROW(LARS({parameter}, LARSOptions(0.1).momentum(0).nesterov(true)), c10::Error);
  EXPECT_THROW(LAMB({parameter}, LAMBOptions(0.1).betas({0.9, 1.0})), c10::Error);
  LAMB lamb({parameter}, LAMBOptions(0.1));
  parameter.mutable_grad() = at::sparse_coo_tensor(at::zeros({1, 1}, at::kLong), at::ones({1}), {2});
  EXPECT_THROW(lamb.step(), c10::Error);
}

}  // namespace
}  // namespace xoe::torch_test
