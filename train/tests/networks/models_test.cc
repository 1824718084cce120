#include "train/networks/models.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cmath>
#include <map>
#include <thread>
#include <vector>

#include "train/networks/layers.h"

namespace xoe::models {
namespace {

class Models : public testing::Test {
 protected:
  // Threads that wait for each other are slow beside other tests.
  void SetUp() override { at::set_num_threads(1); }
};

std::int64_t parameter_count(const ImageModel& model) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

// torchvision's counts, and timm's for vision transformers (vit_tiny_patch16_224 and so on).
TEST_F(Models, HaveThePublishedNumberOfParameters) {
  const std::map<std::string_view, std::int64_t> published = {
      {"mlp", 77'459'176},       {"resnet18", 11'689'512},    {"resnet50", 25'557'032},
      {"resnet101", 44'549'160}, {"resnet152", 60'192'808},   {"densenet121", 7'978'856},
      {"vgg16", 138'357'544},    {"mobilenet_v2", 3'504'872}, {"efficientnet_b0", 5'288'548},
      {"vit_tiny", 5'717'416},   {"vit_s16", 22'050'664},     {"efficientnet_v2_s", 21'458'488},
      {"vit_b16", 86'567'656},   {"inception_v3", 23'834'568}};
  for (const std::string_view name : model_names())
    EXPECT_EQ(parameter_count(*make_model(name, 1000, 224, 224).value()), published.at(name)) << name;
  // With the auxiliary classifier.
  EXPECT_EQ(parameter_count(*make_model("inception_v3", 1000, 299, 299).value()), 27'161'264);
}

TEST_F(Models, UseTheNamesOfTorchvision) {
  const auto model = make_model("resnet50", 1000, 224, 224).value();
  const auto parameters = model->named_parameters();
  EXPECT_EQ(parameters["layer1.0.downsample.0.weight"].sizes(), (at::IntArrayRef{256, 64, 1, 1}));
  EXPECT_EQ(parameters["layer4.2.conv3.weight"].sizes(), (at::IntArrayRef{2048, 512, 1, 1}));
  EXPECT_TRUE(parameters.contains("layer2.0.bn2.bias"));
  EXPECT_EQ(model->named_buffers().size(), 53U * 3);
}

TEST_F(Models, VisionTransformersHaveTheNamesOfTimmToo) {
  const auto model = make_model("vit_tiny", 10, 32, 32).value();
  EXPECT_EQ(model->common_name("patch_embed.weight"), "patch_embed.proj.weight");
  EXPECT_EQ(model->common_name("blocks.3.qkv.bias"), "blocks.3.attn.qkv.bias");
  EXPECT_EQ(model->common_name("blocks.11.proj.weight"), "blocks.11.attn.proj.weight");
  EXPECT_EQ(model->common_name("blocks.0.fc2.weight"), "blocks.0.mlp.fc2.weight");
  for (const char* same : {"cls_token", "pos_embed", "blocks.0.norm1.weight", "norm.bias", "head.weight"})
    EXPECT_EQ(model->common_name(same), same);
  EXPECT_EQ(make_model("mlp", 10, 8, 8).value()->common_name("fc1.weight"), "fc1.weight");
}

// The smallest size that every network takes, but inception_v3.
int small_image(std::string_view name) { return name == "inception_v3" ? 75 : 32; }

TEST_F(Models, GiveOneLogitPerClassAndLearn) {
  for (const std::string_view name : model_names()) {
    const int side = small_image(name);
    const auto model = make_model(name, 7, side, side).value();
    const Logits logits = model->forward(at::randn({2, 3, side, side}));
    ASSERT_EQ(logits.main.sizes(), (at::IntArrayRef{2, 7})) << name;
    EXPECT_FALSE(logits.auxiliary.defined()) << name;
    logits.main.square().sum().backward();
    for (const auto& parameter : model->named_parameters()) {
      EXPECT_TRUE(parameter.value().grad().defined()) << name << ": " << parameter.key();
    }
  }
}

TEST_F(Models, InceptionHasAnAuxiliaryClassifierForTraining) {
  const auto model = make_model("inception_v3", 7, 299, 299).value();
  const at::Tensor images = at::randn({2, 3, 299, 299});
  const Logits logits = model->forward(images);
  ASSERT_EQ(logits.auxiliary.sizes(), (at::IntArrayRef{2, 7}));
  (logits.main.square().sum() + logits.auxiliary.square().sum()).backward();
  for (const auto& parameter : model->named_parameters())
    EXPECT_TRUE(parameter.value().grad().defined()) << parameter.key();
  model->eval();
  EXPECT_FALSE(model->forward(images).auxiliary.defined());
}

TEST_F(Models, OnlyTheHeadDependsOnTheClasses) {
  for (const std::string_view name : model_names()) {
    const int side = name == "inception_v3" ? 299 : 32;
    const auto model = make_model(name, 7, side, side).value();
    const auto other = make_model(name, 8, side, side).value();
    const auto heads = model->head();
    EXPECT_FALSE(heads.empty());
    const auto parameters = model->named_parameters(), others = other->named_parameters();
    for (const auto& parameter : parameters) {
      const bool in_head =
          std::ranges::any_of(heads, [&](const std::string& head) { return parameter.key().starts_with(head + "."); });
      EXPECT_EQ(parameter.value().sizes() != others[parameter.key()].sizes(), in_head)
          << name << ": " << parameter.key();
    }
  }
}

// Adds vectors of several threads up.
class ThreadSum {
 public:
  explicit ThreadSum(int ranks) : vectors_(static_cast<std::size_t>(ranks)), barrier_(ranks) {}
  SumOverRanks of(int rank) {
    return [this, rank](const at::Tensor& vector) {
      EXPECT_EQ(vector.scalar_type(), at::kDouble);
      vectors_[static_cast<std::size_t>(rank)] = vector.clone();
      barrier_.arrive_and_wait();
      vector.zero_();
      for (const at::Tensor& one : vectors_) vector.add_(one);
      barrier_.arrive_and_wait();
    };
  }

 private:
  std::vector<at::Tensor> vectors_;
  std::barrier<> barrier_;
};

// Ranks with 3 and 5 images, against one with all 8.
TEST_F(Models, BatchNormOverRanksIsThatOfTheJoinedBatch) {
  constexpr std::array<std::int64_t, 2> kImages = {3, 5};
  for (const char* name : {"resnet18", "densenet121", "mobilenet_v2"}) {
    const auto make = [name] {
      at::manual_seed(5);
      auto model = make_model(name, 4, 32, 32).value();
      model->to(at::kDouble);
      // The last batch norms of ResNet's blocks begin with zeros, and would hide those before.
      const at::NoGradGuard no_grad;
      for (const auto& parameter : model->named_parameters())
        if (parameter.value().dim() == 1) parameter.value().add_(at::randn_like(parameter.value()), 0.1);
      for (const auto& module : model->modules())
        if (auto* const dropout = module->as<nn::Dropout>()) dropout->eval();
      return model;
    };
    const auto joined = make();
    const at::Tensor images = at::randn({8, 3, 32, 32}, at::kDouble);
    const at::Tensor wanted = at::randn({8, 4}, at::kDouble);
    const at::Tensor logits = joined->forward(images).main;
    (logits * wanted).sum().backward();

    std::vector<ModelHandle> models = {make(), make()};
    std::vector<at::Tensor> of_ranks(2);
    ThreadSum sum(2);
    const auto run = [&](int rank) {
      at::set_num_threads(1);
      const auto index = static_cast<std::size_t>(rank);
      EXPECT_GT(synchronize_batch_norms(*models[index], sum.of(rank)), 15);
      const std::int64_t first = rank * kImages[0];
      of_ranks[index] = models[index]->forward(images.narrow(0, first, kImages[index])).main;
      (of_ranks[index] * wanted.narrow(0, first, kImages[index])).sum().backward();
    };
    std::thread other([&] { run(1); });
    run(0);
    other.join();

    const auto close = [](const at::Tensor& a, const at::Tensor& b) { return at::allclose(a, b, 1e-8, 1e-9); };
    EXPECT_TRUE(close(at::cat(of_ranks), logits)) << name;
    const auto expected = joined->named_parameters();
    for (const auto& parameter : expected) {
      const at::Tensor gradient =
          models[0]->named_parameters()[parameter.key()].grad() + models[1]->named_parameters()[parameter.key()].grad();
      EXPECT_TRUE(close(gradient, parameter.value().grad())) << name << ": " << parameter.key();
    }
    for (const auto& buffer : joined->named_buffers())
      for (const auto& model : models)
        EXPECT_TRUE(close(model->named_buffers()[buffer.key()].to(at::kDouble), buffer.value().to(at::kDouble)))
            << name << ": " << buffer.key();
    // In evaluation nothing is exchanged: one rank alone would wait for ever.
    models[0]->eval();
    joined->eval();
    EXPECT_TRUE(close(models[0]->forward(images).main, joined->forward(images).main)) << name;
  }
}

// The same bits, with the same random numbers and running statistics, also under autocast.
TEST_F(Models, RecomputedBlocksGiveTheSameNumbers) {
  for (const char* name : {"resnet18", "densenet121", "mobilenet_v2", "efficientnet_b0", "inception_v3", "vit_tiny"}) {
    for (const bool half : {false, true}) {
      const int side = small_image(name);
      const auto model = make_model(name, 4, side, side).value();
      const auto other = make_model(name, 4, side, side).value();
      {
        const at::NoGradGuard no_grad;
        const auto from = model->parameters(), to = other->parameters();
        for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
      }
      EXPECT_GT(other->recompute_blocks(true), 3) << name;
      const at::Tensor images = at::randn({2, 3, side, side});
      const auto run = [&](ImageModel& one) {
        at::manual_seed(3);
        std::vector<at::Tensor> results;
        for (int pass = 0; pass < 2; ++pass) {
          at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
          at::autocast::set_autocast_enabled(at::kCPU, half);
          results.push_back(one.forward(images).main);
          at::autocast::clear_cache();
          at::autocast::set_autocast_enabled(at::kCPU, false);
          results.back().to(at::kFloat).square().sum().backward();
        }
        for (const at::Tensor& parameter : one.parameters()) results.push_back(parameter.grad());
        for (const at::Tensor& buffer : one.buffers()) results.push_back(buffer);
        return results;
      };
      const auto kept = run(*model), again = run(*other);
      ASSERT_EQ(kept.size(), again.size());
      for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(at::equal(kept[i], again[i])) << name << ' ' << i;
      EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
    }
  }
}

TEST_F(Models, WithoutBlocksNothingIsRecomputed) {
  for (const char* name : {"mlp", "vgg16"}) EXPECT_EQ(make_model(name, 4, 32, 32).value()->recompute_blocks(true), 0);
}

// Two passes over the same images differ where something is dropped; those of one image never do in evaluation.
TEST_F(Models, DropOnlyInTraining) {
  for (const char* name : {"vgg16", "mobilenet_v2", "efficientnet_b0", "efficientnet_v2_s", "inception_v3"}) {
    const int side = small_image(name);
    const auto model = make_model(name, 7, side, side).value();
    const at::NoGradGuard no_grad;
    const at::Tensor images = at::randn({2, 3, side, side});
    EXPECT_FALSE(at::equal(model->forward(images).main, model->forward(images).main)) << name;
    model->eval();
    EXPECT_TRUE(at::equal(model->forward(images).main, model->forward(images).main)) << name;
  }
}

TEST_F(Models, StochasticDepthKeepsTheMean) {
  StochasticDepth depth(0.25);
  const at::Tensor dropped = depth.forward(at::ones({20'000, 2, 1, 1}));
  // Whole images, and all others scaled up: five deviations of the mean.
  EXPECT_TRUE(at::equal(dropped.select(1, 0), dropped.select(1, 1)));
  EXPECT_NEAR(dropped.max().item<double>(), 1 / 0.75, 1e-6);
  EXPECT_EQ(dropped.min().item<double>(), 0);
  EXPECT_NEAR(dropped.mean().item<double>(), 1, 0.02);
}

// Deviations that the published programs name, in the largest tensor for which they do.
TEST_F(Models, StartAsPublished) {
  struct Start {
    const char* model;
    const char* parameter;
    double deviation;
  };
  for (const Start& start :
       {Start{"densenet121", "features.transition3.conv.weight", std::sqrt(2.0 / 1024)},
        Start{"vgg16", "features.28.weight", std::sqrt(2.0 / (512 * 9))}, Start{"vgg16", "classifier.3.weight", 0.01},
        Start{"mobilenet_v2", "features.18.0.weight", std::sqrt(2.0 / 1280)},
        Start{"efficientnet_b0", "features.8.0.weight", std::sqrt(2.0 / 1280)},
        Start{"efficientnet_b0", "classifier.1.weight", 1 / std::sqrt(3.0 * 100)},
        Start{"inception_v3", "Mixed_7c.branch3x3_1.conv.weight", 0.1},
        Start{"vit_b16", "blocks.0.fc1.weight", 0.02}}) {
    const int side = small_image(start.model);
    const auto model = make_model(start.model, 100, side, side).value();
    const double found = model->named_parameters()[start.parameter].std().item<double>();
    EXPECT_NEAR(found / start.deviation, 1, 0.02) << start.model << ": " << start.parameter;
  }
}

TEST_F(Models, BlocksStartAsTheIdentity) {
  const auto model = make_model("resnet18", 10, 64, 64).value();
  const auto parameters = model->named_parameters();
  EXPECT_EQ(parameters["layer3.1.bn2.weight"].abs().sum().item<double>(), 0);
  EXPECT_EQ(parameters["layer3.1.bn1.weight"].min().item<double>(), 1);
  // kaiming, fan out: deviation sqrt(2 / (256 * 9))
  EXPECT_NEAR(parameters["layer3.1.conv1.weight"].std().item<double>(), 0.02946, 0.0005);
}

TEST_F(Models, AnUnknownNameGetsTheKnownOnes) {
  const auto model = make_model("resnet5", 10, 64, 64);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), Code::kInvalidArgument);
  for (const std::string_view name : model_names()) {
    EXPECT_NE(model.error().message().find(name), std::string::npos);
  }
  EXPECT_NE(model.error().message().find("did you mean resnet50?"), std::string::npos);
}

TEST_F(Models, SayWhichSizesTheyTake) {
  const auto vit = make_model("vit_tiny", 10, 60, 60);
  ASSERT_FALSE(vit);
  EXPECT_NE(vit.error().message().find("multiple"), std::string::npos);
  const auto inception = make_model("inception_v3", 10, 80, 74);
  ASSERT_FALSE(inception);
  EXPECT_NE(inception.error().message().find("at least 75x75 pixels (299x299 as published), not 80x74"),
            std::string::npos);
  EXPECT_FALSE(make_model("vgg16", 10, 31, 32));
  EXPECT_FALSE(make_model("densenet121", 10, 28, 28));
  EXPECT_TRUE(make_model("densenet121", 10, 29, 29));
  EXPECT_FALSE(make_model("vit_s16", 10, 40, 40));
  EXPECT_FALSE(make_model("resnet18", 0, 64, 64));
  EXPECT_FALSE(make_model("resnet18", 10, 0, 0));
}

}  // namespace
}  // namespace xoe::models
