#include "models/models.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <map>

namespace xoe::models {
namespace {

std::int64_t parameter_count(const ImageModel& model) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

// torchvision's counts; timm's for vit_tiny_patch16_224.
TEST(Models, HaveThePublishedNumberOfParameters) {
  EXPECT_EQ(parameter_count(*make_model("resnet18", 1000, 224, 224).value()), 11689512);
  EXPECT_EQ(parameter_count(*make_model("resnet50", 1000, 224, 224).value()), 25557032);
  EXPECT_EQ(parameter_count(*make_model("vit_tiny", 1000, 224, 224).value()), 5717416);
}

TEST(Models, UseTheNamesOfTorchvision) {
  const auto model = make_model("resnet50", 1000, 224, 224).value();
  const auto parameters = model->named_parameters();
  EXPECT_EQ(parameters["layer1.0.downsample.0.weight"].sizes(), (at::IntArrayRef{256, 64, 1, 1}));
  EXPECT_EQ(parameters["layer4.2.conv3.weight"].sizes(), (at::IntArrayRef{2048, 512, 1, 1}));
  EXPECT_TRUE(parameters.contains("layer2.0.bn2.bias"));
  EXPECT_EQ(model->named_buffers().size(), 53U * 3);
}

TEST(Models, VitTinyIsExportedWithTheNamesOfTimm) {
  EXPECT_EQ(common_name("vit_tiny", "patch_embed.weight"), "patch_embed.proj.weight");
  EXPECT_EQ(common_name("vit_tiny", "blocks.3.qkv.bias"), "blocks.3.attn.qkv.bias");
  EXPECT_EQ(common_name("vit_tiny", "blocks.11.proj.weight"), "blocks.11.attn.proj.weight");
  EXPECT_EQ(common_name("vit_tiny", "blocks.0.fc2.weight"), "blocks.0.mlp.fc2.weight");
  for (const char* same : {"cls_token", "pos_embed", "blocks.0.norm1.weight", "norm.bias", "head.weight"})
    EXPECT_EQ(common_name("vit_tiny", same), same);
  EXPECT_EQ(common_name("mlp", "fc1.weight"), "fc1.weight");
}

TEST(Models, GiveOneLogitPerClassAndLearn) {
  for (const std::string_view name : model_names()) {
    const auto model = make_model(name, 7, 32, 32).value();
    const at::Tensor logits = model->forward(at::randn({2, 3, 32, 32}));
    ASSERT_EQ(logits.sizes(), (at::IntArrayRef{2, 7})) << name;
    logits.square().sum().backward();
    for (const auto& parameter : model->named_parameters()) {
      EXPECT_TRUE(parameter.value().grad().defined()) << name << ": " << parameter.key();
    }
  }
}

TEST(Models, BlocksStartAsTheIdentity) {
  const auto model = make_model("resnet18", 10, 64, 64).value();
  const auto parameters = model->named_parameters();
  EXPECT_EQ(parameters["layer3.1.bn2.weight"].abs().sum().item<double>(), 0);
  EXPECT_EQ(parameters["layer3.1.bn1.weight"].min().item<double>(), 1);
  // kaiming, fan out: deviation sqrt(2 / (256 * 9))
  EXPECT_NEAR(parameters["layer3.1.conv1.weight"].std().item<double>(), 0.02946, 0.0005);
}

TEST(Models, AnUnknownNameGetsTheKnownOnes) {
  const auto model = make_model("resnet5", 10, 64, 64);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), Code::kInvalidArgument);
  for (const std::string_view name : model_names()) {
    EXPECT_NE(model.error().message().find(name), std::string::npos);
  }
  EXPECT_NE(model.error().message().find("did you mean resnet50?"), std::string::npos);
}

TEST(Models, SayWhichSizesTheyTake) {
  const auto vit = make_model("vit_tiny", 10, 60, 60);
  ASSERT_FALSE(vit);
  EXPECT_NE(vit.error().message().find("multiple"), std::string::npos);
  EXPECT_FALSE(make_model("resnet18", 0, 64, 64));
  EXPECT_FALSE(make_model("resnet18", 10, 0, 0));
}

}  // namespace
}  // namespace xoe::models
