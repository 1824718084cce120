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
      {"mlp", 77'459'176},
      {"resnet18", 11'689'512},
      {"resnet34", 21'797'672},
      {"resnet50", 25'557'032},
      {"resnet101", 44'549'160},
      {"resnet152", 60'192'808},
      {"resnet50_v2", 25'549'352},
      {"resnet101_v2", 44'541'480},
      {"resnet152_v2", 60'185'128},
      {"resnet20", 334'072},
      {"resnet32", 528'504},
      {"resnet44", 722'936},
      {"resnet56", 917'368},
      {"resnet110", 1'792'312},
      {"densenet121", 7'978'856},
      {"alexnet", 61'100'840},
      {"vgg11", 132'863'336},
      {"vgg13", 133'047'848},
      {"vgg16", 138'357'544},
      {"vgg19", 143'667'240},
      {"googlenet", 13'004'888},  // with its auxiliary classifiers
      {"inception_v3", 23'834'568},
      {"mobilenet_v2", 3'504'872},
      {"efficientnet_b0", 5'288'548},
      {"efficientnet_b1", 7'794'184},
      {"efficientnet_b2", 9'109'994},
      {"efficientnet_b3", 12'233'232},
      {"efficientnet_b4", 19'341'616},
      {"efficientnet_b5", 30'389'784},
      {"efficientnet_b6", 43'040'704},
      {"efficientnet_b7", 66'347'960},
      {"efficientnet_v2_s", 21'458'488},
      {"vit_tiny", 5'717'416},
      {"vit_s16", 22'050'664},
      {"vit_b16", 86'567'656},
      {"vit_l16", 304'326'632},
      {"vit_h14", 632'045'800}};
  for (const std::string_view name : model_names())
    EXPECT_EQ(parameter_count(*make_model(name, 1000, 224, 224).value()), published.at(name)) << name;
  // With the auxiliary classifier.
  EXPECT_EQ(parameter_count(*make_model("inception_v3", 1000, 299, 299).value()), 27'161'264);
}

// The article's table 6 rounds to 0.27, 0.46, 0.66, 0.85 and 1.7 million.
TEST_F(Models, CifarResNetsHaveThePublishedNumberOfParameters) {
  const std::map<std::string_view, std::int64_t> published = {{"resnet20", 269'722},
                                                              {"resnet32", 464'154},
                                                              {"resnet44", 658'586},
                                                              {"resnet56", 853'018},
                                                              {"resnet110", 1'727'962}};
  for (const auto& [name, count] : published)
    EXPECT_EQ(parameter_count(*make_model(name, 10, 32, 32).value()), count) << name;
}

// Keras's ResNet50V2 and ResNet101V2 give biases to the first convolution, to shortcuts and to each block's last
// convolution, and have 25,568,360 and 44,577,896 parameters that are trained.
TEST_F(Models, PreActivationResNetsAreKerassWithoutBiases) {
  constexpr std::int64_t kFirst = 64, kShortcuts = 256 + 512 + 1024 + 2048;
  const auto count = [](std::string_view name) { return parameter_count(*make_model(name, 1000, 64, 64).value()); };
  EXPECT_EQ(count("resnet50_v2") + kFirst + kShortcuts + 3 * 256 + 4 * 512 + 6 * 1024 + 3 * 2048, 25'568'360);
  EXPECT_EQ(count("resnet101_v2") + kFirst + kShortcuts + 3 * 256 + 4 * 512 + 23 * 1024 + 3 * 2048, 44'577'896);
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

// A small size that the network takes.
int small_image(std::string_view name) {
  static const std::map<std::string_view, int> sides = {{"inception_v3", 75}, {"alexnet", 64}, {"vit_h14", 28}};
  const auto side = sides.find(name);
  return side == sides.end() ? 32 : side->second;
}

// All but the largest, which take gigabytes or many seconds, and are of the same classes as smaller ones.
std::vector<std::string_view> names_without_the_largest() {
  std::vector<std::string_view> names(model_names().begin(), model_names().end());
  for (const char* large :
       {"vgg13", "vgg16", "vgg19", "efficientnet_b6", "efficientnet_b7", "resnet152_v2", "vit_l16", "vit_h14"})
    std::erase(names, large);
  return names;
}

TEST_F(Models, GiveOneLogitPerClassAndLearn) {
  for (const std::string_view name : names_without_the_largest()) {
    const int side = small_image(name);
    const auto model = make_model(name, 7, side, side).value();
    const Logits logits = model->forward(at::randn({2, 3, side, side}));
    ASSERT_EQ(logits.main.sizes(), (at::IntArrayRef{2, 7})) << name;
    EXPECT_EQ(logits.auxiliary.size(), name == "googlenet" ? 2U : 0U) << name;
    at::Tensor sum = logits.main.square().sum();
    for (const at::Tensor& auxiliary : logits.auxiliary) {
      ASSERT_EQ(auxiliary.sizes(), (at::IntArrayRef{2, 7})) << name;
      sum = sum + auxiliary.square().sum();
    }
    sum.backward();
    for (const auto& parameter : model->named_parameters()) {
      EXPECT_TRUE(parameter.value().grad().defined()) << name << ": " << parameter.key();
    }
  }
}

TEST_F(Models, InceptionHasAnAuxiliaryClassifierForTraining) {
  const auto model = make_model("inception_v3", 7, 299, 299).value();
  const at::Tensor images = at::randn({2, 3, 299, 299});
  const Logits logits = model->forward(images);
  ASSERT_EQ(logits.auxiliary.size(), 1U);
  EXPECT_EQ(logits.auxiliary_weight, 0.4);
  ASSERT_EQ(logits.auxiliary[0].sizes(), (at::IntArrayRef{2, 7}));
  (logits.main.square().sum() + logits.auxiliary[0].square().sum()).backward();
  for (const auto& parameter : model->named_parameters())
    EXPECT_TRUE(parameter.value().grad().defined()) << parameter.key();
  model->eval();
  EXPECT_TRUE(model->forward(images).auxiliary.empty());
}

TEST_F(Models, GoogLeNetHasTwoAuxiliaryClassifiersForTraining) {
  const auto model = make_model("googlenet", 7, 64, 64).value();
  const at::Tensor images = at::randn({2, 3, 64, 64});
  const Logits logits = model->forward(images);
  EXPECT_EQ(logits.auxiliary.size(), 2U);
  EXPECT_EQ(logits.auxiliary_weight, 0.3);
  model->eval();
  EXPECT_TRUE(model->forward(images).auxiliary.empty());
}

TEST_F(Models, OnlyTheHeadDependsOnTheClasses) {
  for (const std::string_view name : names_without_the_largest()) {
    const int side = name == "inception_v3" ? 299 : small_image(name);
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
  for (const char* name : {"resnet18", "resnet20", "resnet50_v2", "densenet121", "googlenet", "mobilenet_v2",
                           "efficientnet_b0", "inception_v3", "vit_tiny"}) {
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
          const Logits logits = one.forward(images);
          at::autocast::clear_cache();
          at::autocast::set_autocast_enabled(at::kCPU, false);
          at::Tensor sum = logits.main.to(at::kFloat).square().sum();
          for (const at::Tensor& auxiliary : logits.auxiliary) sum = sum + auxiliary.to(at::kFloat).square().sum();
          sum.backward();
          results.push_back(logits.main);
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
  for (const char* name : {"mlp", "vgg16", "alexnet"})
    EXPECT_EQ(make_model(name, 4, 64, 64).value()->recompute_blocks(true), 0);
}

// Two passes over the same images differ where something is dropped; those of one image never do in evaluation.
TEST_F(Models, DropOnlyInTraining) {
  for (const char* name : {"vgg16", "alexnet", "googlenet", "mobilenet_v2", "efficientnet_b0", "efficientnet_b2",
                           "efficientnet_v2_s", "inception_v3"}) {
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
        Start{"resnet50_v2", "layer4.2.conv2.weight", std::sqrt(2.0 / (512 * 9))},
        Start{"resnet110", "layer3.17.conv2.weight", std::sqrt(2.0 / (64 * 9))},
        Start{"alexnet", "classifier.4.weight", 1 / std::sqrt(3.0 * 4096)},
        Start{"googlenet", "inception5b.branch2.1.conv.weight", 0.01}, Start{"googlenet", "aux1.fc1.weight", 0.01},
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
  EXPECT_FALSE(make_model("vgg19", 10, 32, 31));
  EXPECT_FALSE(make_model("alexnet", 10, 62, 63));
  EXPECT_FALSE(make_model("googlenet", 10, 15, 14));
  EXPECT_FALSE(make_model("vit_h14", 10, 32, 32));
  EXPECT_FALSE(make_model("densenet121", 10, 28, 28));
  EXPECT_TRUE(make_model("densenet121", 10, 29, 29));
  EXPECT_FALSE(make_model("vit_s16", 10, 40, 40));
  EXPECT_FALSE(make_model("resnet18", 0, 64, 64));
  EXPECT_FALSE(make_model("resnet18", 10, 0, 0));
}

TEST_F(Models, ComputeAtTheirSmallestSize) {
  for (const auto& [name, side] : {std::pair{"alexnet", 63}, std::pair{"googlenet", 15}, std::pair{"vgg11", 32}}) {
    const auto model = make_model(name, 3, side, side).value();
    const at::NoGradGuard no_grad;
    EXPECT_EQ(model->forward(at::randn({2, 3, side, side})).main.sizes(), (at::IntArrayRef{2, 3})) << name;
  }
}

}  // namespace
}  // namespace xoe::models
