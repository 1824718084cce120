// What options of xoe-train do to its numbers: precision, resuming, optimizers, averages, given weights.
#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <utility>

#include "core/base/bytes.h"
#include "train/tests/train_program.h"
#include "train/trainer/setup.h"
#include "train/trainer/weights_file.h"

namespace xoe::train {
namespace {

std::vector<float> floats_of(const std::string& safetensors) {
  const std::size_t begin = 8 + load_little<std::uint64_t>(safetensors.data());
  std::vector<float> values((safetensors.size() - begin) / sizeof(float));
  std::memcpy(values.data(), safetensors.data() + begin, values.size() * sizeof(float));
  return values;
}

class HalfTest : public TrainProgramTest {
 protected:
  void SetUp() override {
    TrainProgramTest::SetUp();
    const Ended tried = run(small({"--steps", "1", "--precision", "fp16"}));
    if (tried.code == 0) return;
    EXPECT_NE(tried.err.find("--precision fp16: libtorch cannot train in float16 on this CPU"), std::string::npos)
        << tried.err;
    GTEST_SKIP() << tried.err;
  }
};

TEST_F(HalfTest, LearnsAsFloat32Does) {
  const auto train = [&](const std::string& name, Arguments more) {
    more.insert(more.end(), {"--steps", "8", "--lr", "2", "--clip-norm", "0.4", "--run-dir", at(name)});
    run_group(2, small(more));
    return losses(name);
  };
  const auto whole = train("whole", {});
  const auto half = train("half", {"--precision", "fp16"});
  const auto sharded = train("sharded", {"--precision", "fp16", "--sharded"});
  EXPECT_LT(whole.at(8), whole.at(1) - 0.05);
  EXPECT_NE(half, whole);
  for (const auto& [step, loss] : whole) {
    EXPECT_NEAR(half.at(step), loss, 5e-3) << step;
    EXPECT_NEAR(sharded.at(step), half.at(step), 1e-5) << step;
  }
}

// This model's first gradients, times 65536, are too large for float16.
TEST_F(HalfTest, AStepWithInfiniteGradientsIsLeftOutByAllRanks) {
  const auto exported = [&](const std::string& name, Arguments more) {
    more.insert(more.end(), {"--steps", "1", "--checkpoint", at(name)});
    auto ranks = start(2, small(more, "vit_tiny", 32));
    for (const auto& rank : ranks) EXPECT_EQ(rank->wait(), 0) << rank->err();
    EXPECT_EQ(run({xoe::testing::bin("xoe-train"), "export", at(name), at(name + ".safetensors")}).code, 0);
    return std::pair(floats_of(file_text(at(name + ".safetensors"))), ranks[0]->out());
  };
  const auto start = exported("start", {"--lr", "1e-30"}).first;
  const auto [left, out] = exported("left", {"--precision", "fp16", "--ema", "0.5"});
  EXPECT_NE(out.find("step 1 is left out: gradients are not finite at a loss scale of 65536; it is 32768 now"),
            std::string::npos)
      << out;
  EXPECT_THAT(left, ::testing::Pointwise(::testing::FloatNear(1e-20F), start));
  const auto bytes = read_file(checkpoint_path(at("left"), 1));
  ASSERT_TRUE(bytes);
  const auto meta = nlohmann::json::parse(unpack_sections(*bytes, "").value().at("meta"));
  EXPECT_EQ(meta["loss_scale"], 32768);
}

struct ResumeCase {
  int size;
  const char* optimizer;
  bool sharded;
  const char* model = "mlp";
  int image_size = 8;
  int half = 6;  // steps
  Arguments more = {};
};

class ResumeTest : public TrainProgramTest, public ::testing::WithParamInterface<ResumeCase> {};

// 12 steps, against 6 steps, an interruption and 6 more.
TEST_P(ResumeTest, GivesTheSameBits) {
  const ResumeCase& one = GetParam();
  const bool half = std::ranges::find(one.more, "fp16") != one.more.end();
  if (half && run(small({"--steps", "1", "--precision", "fp16"})).code != 0) GTEST_SKIP() << "no float16 on this CPU";
  const int steps = 2 * one.half;
  const auto words = [&](const std::string& name, Arguments more) {
    more.insert(more.end(), {"--steps", std::to_string(steps), "--optimizer", one.optimizer, "--run-dir", at(name),
                             "--checkpoint", at(name) + "/checkpoints"});
    if (one.sharded) more.push_back("--sharded");
    more.insert(more.end(), one.more.begin(), one.more.end());
    return small(more, one.model, one.image_size);
  };
  run_group(one.size, words("whole", {}));
  run_group(one.size, words("parts", {"--checkpoint-every", std::to_string(one.half), "--checkpoint-keep", "9"}));
  // As if it had been interrupted in the middle.
  std::filesystem::remove(checkpoint_path(at("parts/checkpoints"), steps));
  run_group(one.size, words("parts", {"--resume"}));

  EXPECT_EQ(losses("whole"), losses("parts"));
  EXPECT_EQ(losses("parts").size(), static_cast<std::size_t>(steps));
  expect_same_checkpoint(steps);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ResumeTest,
                         ::testing::Values(ResumeCase{1, "sgd", false}, ResumeCase{2, "sgd", false},
                                           ResumeCase{2, "adamw", true}, ResumeCase{2, "lars", true},
                                           ResumeCase{2, "lamb", false}));
// It leaves out other numbers in each step; the average has running statistics of its own.
INSTANTIATE_TEST_SUITE_P(Dropout, ResumeTest,
                         ::testing::Values(ResumeCase{2, "sgd", false, "mobilenet_v2", 32, 2, {"--ema", "0.9"}}));
// Its first step is left out, and the loss scale comes back.
INSTANTIATE_TEST_SUITE_P(Half, ResumeTest,
                         ::testing::Values(ResumeCase{2, "adamw", true, "vit_tiny", 32, 1, {"--precision", "fp16"}}));
INSTANTIATE_TEST_SUITE_P(BatchNormOverRanks, ResumeTest,
                         ::testing::Values(ResumeCase{2, "sgd", true, "mobilenet_v2", 32, 2, {"--sync-batchnorm"}}));
// Its weights lie in another order of memory.
INSTANTIATE_TEST_SUITE_P(ChannelsLast, ResumeTest,
                         ::testing::Values(ResumeCase{2, "sgd", false, "resnet50", 16, 2},
                                           ResumeCase{2, "sgd", true, "resnet50", 16, 2}));

// The command line's momentum and weight decay count, not those of the run before; a new length is said.
TEST_F(TrainProgramTest, AResumedRunTakesItsOptionsFromTheCommandLine) {
  const auto words = [&](const std::string& name, Arguments more) {
    more.insert(more.end(), {"--run-dir", at(name), "--checkpoint", at(name) + "/checkpoints"});
    return small(more);
  };
  ASSERT_EQ(run(words("a", {"--steps", "3", "--momentum", "0.9"})).code, 0);
  std::filesystem::copy(at("a"), at("b"), std::filesystem::copy_options::recursive);
  const Ended same = run(words("a", {"--steps", "6", "--resume", "--momentum", "0.9"}));
  const Ended other = run(words("b", {"--steps", "6", "--resume", "--momentum", "0.5"}));
  EXPECT_NE(same.out.find("the number of steps was 3 and is now 6"), std::string::npos) << same.out;
  const auto expected = losses("a");
  const auto changed = losses("b");
  ASSERT_EQ(changed.size(), 6U) << other.err;
  EXPECT_EQ(expected.at(4), changed.at(4));  // before the first update
  EXPECT_NE(expected.at(6), changed.at(6));
}

// Each rank runs the fused kernels; what is sharded adds norms up in another order.
TEST_F(TrainProgramTest, LargeBatchOptimizersLearnAloneAndSharded) {
  for (const std::string optimizer : {"lars", "lamb"}) {
    const auto train = [&](const std::string& name, Arguments more) {
      const std::string lr = optimizer == "lars" ? "10" : "0.02";
      more.insert(more.end(), {"--steps", "12", "--optimizer", optimizer, "--lr", lr, "--lr-batch", "0", "--run-dir",
                               at(optimizer + name)});
      run_group(2, small(more));
      return losses(optimizer + name);
    };
    const auto whole = train("whole", {});
    EXPECT_LT(whole.at(12), 0.8 * whole.at(1)) << optimizer;
    for (const auto& [step, loss] : train("sharded", {"--sharded"})) EXPECT_NEAR(loss, whole.at(step), 1e-4) << step;
  }
}

TEST_F(TrainProgramTest, BatchNormOverRanksTakesOtherTypesAndModelsWithout) {
  const auto half = start(2, small({"--steps", "2", "--sync-batchnorm", "--precision", "bf16"}, "resnet18", 32));
  for (const auto& rank : half) EXPECT_EQ(rank->wait(), 0) << rank->err();
  const auto none = start(2, small({"--steps", "1", "--sync-batchnorm"}));
  for (const auto& rank : none) EXPECT_EQ(rank->wait(), 0) << rank->err();
  EXPECT_NE(none[0]->out().find("mlp has no batch norm"), std::string::npos) << none[0]->out();
}

// It is noticed in the middle of a pass, too.
TEST_F(TrainProgramTest, ADeadPeerEndsABatchNormOverRanks) {
  auto ranks = start(2, small({"--steps", "1000000", "--sync-batchnorm"}, "resnet18", 32));
  ASSERT_TRUE(ranks[0]->wait_for("\n2 ")) << ranks[0]->out() << ranks[0]->err();
  ranks[1]->signal(SIGKILL);
  EXPECT_EQ(ranks[0]->wait(), 1);
  EXPECT_NE(ranks[0]->err().find("error: peer_lost"), std::string::npos) << ranks[0]->err();
  EXPECT_NE(ranks[0]->err().find("rank 1"), std::string::npos) << ranks[0]->err();
}

TEST_F(TrainProgramTest, CheckpointedActivationsChangeNoLoss) {
  const auto train = [&](const std::string& name, Arguments more) {
    more.insert(more.end(), {"--steps", "3", "--run-dir", at(name)});
    run_group(2, small(more, "efficientnet_b0", 32));
    return losses(name);
  };
  EXPECT_EQ(train("again", {"--checkpoint-activations"}), train("kept", {}));
  EXPECT_EQ(train("joined-again", {"--checkpoint-activations", "--sync-batchnorm", "--accumulate", "2"}),
            train("joined", {"--sync-batchnorm", "--accumulate", "2"}));
  const Ended none = run(small({"--steps", "1", "--checkpoint-activations"}));
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("mlp has no blocks to recompute"), std::string::npos) << none.err;
}

// All gradients together have a norm near 0.5 here: a limit above it changes nothing, and one far below it leaves the
// model nearly as it was.
TEST_F(TrainProgramTest, GradientsAreClipped) {
  const auto train = [&](const std::string& name, Arguments more) {
    more.insert(more.end(), {"--steps", "6", "--momentum", "0", "--lr", "2", "--run-dir", at(name)});
    run_group(2, small(more));
    return losses(name);
  };
  const auto free = train("free", {});
  EXPECT_EQ(train("wide", {"--clip-norm", "1e6"}), free);
  const auto narrow = train("narrow", {"--clip-norm", "1e-5"});
  EXPECT_LT(free.at(6), free.at(1) - 0.01);
  EXPECT_NEAR(narrow.at(6), narrow.at(1), 1e-3);
  EXPECT_NE(narrow, free);
  EXPECT_EQ(train("sharded", {"--clip-norm", "1e-5", "--sharded"}).at(1), narrow.at(1));
  EXPECT_EQ(run(small({"--clip-norm", "-1"})).code, 2);

  EXPECT_EQ(train("wide value", {"--clip-value", "1e6"}), free);
  const auto value = train("value", {"--clip-value", "1e-3"});
  EXPECT_NE(value, free);
  EXPECT_EQ(value.at(1), free.at(1));
  for (const auto& [step, loss] : train("sharded value", {"--clip-value", "1e-3", "--sharded"}))
    EXPECT_NEAR(loss, value.at(step), 1e-5) << step;
  const auto narrow_value = train("narrow value", {"--clip-value", "1e-8"});
  EXPECT_NEAR(narrow_value.at(6), narrow_value.at(1), 1e-3);
}

// Only sums have another order, and only where weights have four dimensions.
TEST_F(TrainProgramTest, TheOrderOfWeightsAndImagesInMemoryChangesLastBitsOnly) {
  const auto train = [&](const char* model, int side, const char* format) {
    run_group(1, small({"--steps", "3", "--memory-format", format, "--run-dir", at(std::string(model) + format)}, model,
                       side));
    return losses(std::string(model) + format);
  };
  EXPECT_EQ(train("mlp", 8, "nhwc"), train("mlp", 8, "auto"));
  const auto rows = train("resnet20", 16, "nchw"), pixels = train("resnet20", 16, "nhwc");
  EXPECT_EQ(train("resnet20", 16, "auto"), rows);
  for (const auto& [step, loss] : rows) EXPECT_NEAR(pixels.at(step), loss, 1e-3) << step;
  EXPECT_EQ(run(small({"--memory-format", "channels"})).code, 2);
}

TEST(MemoryFormat, IsThatOfWeightsAndImages) {
  for (const auto& [given, format] : {std::pair(MemoryFormat::kNchw, at::MemoryFormat::Contiguous),
                                      std::pair(MemoryFormat::kNhwc, at::MemoryFormat::ChannelsLast)}) {
    TrainOptions options;
    options.memory_format = given;
    options.lr = 0.1;
    train::Setup setup;
    setup.model = models::make_model("resnet20", 10, 16, 16).value();
    place_model(setup, options);
    int weights = 0;
    for (const at::Tensor& weight : setup.model->parameters()) {
      if (weight.dim() != 4 || weight.size(1) == 1 || weight.size(2) == 1) continue;
      const std::int64_t in = weight.size(1), height = weight.size(2), width = weight.size(3);
      const std::vector<std::int64_t> rows = {in * height * width, height * width, width, 1};
      const std::vector<std::int64_t> pixels = {in * height * width, 1, width * in, in};
      EXPECT_EQ(weight.strides().vec(), given == MemoryFormat::kNchw ? rows : pixels);
      ++weights;
    }
    EXPECT_GE(weights, 19);
    EXPECT_TRUE(place_images(setup, at::ones({2, 3, 16, 16})).is_contiguous(format));
  }
}

TEST(WarmUp, LeavesWeightsBuffersAndRandomNumbers) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdamW, OptimizerKind::kLamb}) {
    TrainOptions options;
    options.optimizer = kind;
    options.lr = 0.1;
    options.momentum = 0.9;
    options.weight_decay = 0.01;
    options.batch = 2;
    options.image_size = 16;
    options.memory_format = MemoryFormat::kNhwc;
    train::Setup setup;
    setup.model = models::make_model("resnet20", 10, 16, 16).value();
    place_model(setup, options);
    const auto values = [&] {
      std::vector<at::Tensor> all;
      for (const at::Tensor& tensor : setup.model->parameters()) all.push_back(tensor.detach().clone());
      for (const at::Tensor& tensor : setup.model->buffers()) all.push_back(tensor.clone());
      return all;
    };
    const auto before = values();
    const at::Tensor random = at::globalContext().defaultGenerator(at::kCPU).get_state().clone();
    warm_up(setup, options);
    const auto after = values();
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(before[i], after[i])) << i;
    EXPECT_TRUE(at::equal(random, at::globalContext().defaultGenerator(at::kCPU).get_state()));
    for (const at::Tensor& parameter : setup.model->parameters()) EXPECT_FALSE(parameter.grad().defined());
    EXPECT_EQ(setup.optimizer->state().size(), setup.model->parameters().size()) << "its memory is what stays";
  }
}

// A file in which many names have one tensor, as tied weights are written.
std::string tied(int names) {
  using std::string_literals::operator""s;
  const auto name = [](int i) { return "U\x03" + std::to_string(100 + i); };
  std::string pickle = "\x80\x02}(" + name(0) +
                       "ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\nU\x01"
                       "0U\x03"
                       "cpuK\x40tQ" +
                       "K\0K\x40\x85K\x01\x85\x89}tRq\x01"s;
  for (int i = 1; i < names; ++i) pickle += name(i) + "h\x01";
  return pickle + "u.";
}

TEST_F(TrainProgramTest, TensorsOfOneStorageAreFewTimesTheFile) {
  using std::string_literals::operator""s;
  const std::string bytes(256, '\0');
  const auto old_file = [&](int names) {
    std::ofstream(at("old.pt"), std::ios::binary)
        << "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}."s << tied(names)
        << "\x80\x02]U\x01"
           "0a.\x40\0\0\0\0\0\0\0"s
        << bytes;
    return read_tensors(at("old.pt"));
  };
  const auto zip_file = [&](int names) {
    const std::string pickle = tied(names);
    caffe2::serialize::PyTorchStreamWriter writer(at("zip.pt"));
    writer.writeRecord("data.pkl", pickle.data(), pickle.size());
    writer.writeRecord("data/0", bytes.data(), bytes.size());
    writer.writeEndOfFile();
    return read_tensors(at("zip.pt"));
  };
  for (const auto& read : {old_file(3), zip_file(3)}) {
    ASSERT_TRUE(read) << read.error().message();
    ASSERT_EQ(read->size(), 3U);
    for (const auto& [name, tensor] : *read) EXPECT_TRUE(tensor.equal(at::zeros({64}))) << name;
  }
  for (const auto& read : {old_file(800), zip_file(800)}) {
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code(), Code::kDataLoss);
    EXPECT_NE(read.error().message().find("more than twice the file's bytes"), std::string::npos)
        << read.error().message();
  }
}

// Against the recurrence, from the weights after each step of a run without an average.
TEST_F(TrainProgramTest, WeightsAreAveraged) {
  const auto exported = [&](const std::string& run_or_file) {
    const std::string file = at("exported.safetensors");
    const Ended ended = run({xoe::testing::bin("xoe-train"), "export", run_or_file, file});
    EXPECT_EQ(ended.code, 0) << ended.err;
    auto values = floats_of(file_text(file));
    std::filesystem::remove(file);
    return std::pair(std::move(values), ended.out);
  };
  const auto train = [&](const std::string& name, Arguments more) {
    more.insert(more.end(), {"--checkpoint-every", "1", "--checkpoint-keep", "9", "--checkpoint", at(name)});
    run_group(2, small(more));
  };
  train("start", {"--steps", "1", "--lr", "1e-30", "--weight-decay", "0"});
  train("plain", {"--steps", "4", "--lr", "4"});
  train("averaged", {"--steps", "4", "--lr", "4", "--ema", "0.28"});
  train("sharded", {"--steps", "4", "--lr", "4", "--ema", "0.28", "--sharded"});

  auto expected = exported(at("start")).first;
  const auto start = expected;
  const std::array decays = {2 / 11.0, 3 / 12.0, 0.28, 0.28};
  for (std::size_t step = 0; step < decays.size(); ++step) {
    const auto weights = exported(checkpoint_path(at("plain"), static_cast<std::int64_t>(step) + 1)).first;
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = static_cast<float>(decays[step] * expected[i] + (1 - decays[step]) * weights[i]);
  }
  const auto [averaged, out] = exported(at("averaged"));
  EXPECT_NE(out.find("step 4, moving average"), std::string::npos) << out;
  EXPECT_THAT(averaged, ::testing::Pointwise(::testing::FloatNear(1e-6F), expected));
  EXPECT_THAT(averaged, ::testing::Not(::testing::Pointwise(::testing::FloatNear(1e-3F), start)));
  EXPECT_THAT(averaged, ::testing::Not(::testing::Pointwise(::testing::FloatNear(1e-3F), exported(at("plain")).first)));
  EXPECT_EQ(exported(at("sharded")).first, averaged);
  EXPECT_EQ(run(small({"--ema", "1"})).code, 2);

  const Ended without = run(small({"--steps", "2", "--ema", "0.5", "--checkpoint", at("one")}));
  const Ended left = run(small({"--steps", "3", "--resume", "--checkpoint", at("one")}));
  EXPECT_NE(left.out.find("the averaged weights of the checkpoint are left behind"), std::string::npos) << left.out;
  const Ended begun = run(small({"--steps", "4", "--resume", "--ema", "0.5", "--checkpoint", at("one")}));
  EXPECT_NE(begun.out.find("the checkpoint has no averaged weights"), std::string::npos) << begun.out;
}

TEST_F(TrainProgramTest, BeginsWithGivenWeights) {
  const auto words = [&](const std::string& name, Arguments more) {
    more.insert(more.end(), {"--steps", "1", "--run-dir", at(name), "--checkpoint", at(name) + "/checkpoints"});
    return small(more);
  };
  ASSERT_EQ(run(words("first", {})).code, 0);
  for (const std::string file : {"w.pt", "w.safetensors"}) {
    ASSERT_EQ(run({xoe::testing::bin("xoe-train"), "export", at("first"), at(file)}).code, 0);
    // Another seed makes another model and other images; two ranks share the weights that rank 0 reads.
    run_group(2,
              words("second-" + file, {"--weights", at(file), "--seed", "7", "--lr", "1e-12", "--weight-decay", "0"}));
    ASSERT_EQ(run({xoe::testing::bin("xoe-train"), "export", at("second-" + file), at("again-" + file)}).code, 0);
  }
  const auto bytes = file_text(at("w.safetensors"));
  const auto again = file_text(at("again-w.safetensors"));
  ASSERT_EQ(bytes.size(), again.size());
  EXPECT_THAT(floats_of(again), ::testing::Pointwise(::testing::FloatNear(1e-6F), floats_of(bytes)));
  const Ended other = run(small({"--steps", "1", "--weights", at("w.pt")}, "resnet18", 32));
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("has no conv1.weight, which the model needs"), std::string::npos) << other.err;
  const Ended name = run(small({"--weights", "w.onnx"}));
  EXPECT_EQ(name.code, 2);
  EXPECT_NE(name.err.find("--weights w.onnx: expected a name that ends in"), std::string::npos) << name.err;
}

TEST_F(TrainProgramTest, ANewHeadIsForOtherClasses) {
  const auto words = [&](const std::string& classes, Arguments more) {
    more.insert(more.end(), {"--synthetic", "--model", "mlp", "--image-size", "8", "--classes", classes, "--steps", "1",
                             "--lr", "1e-30", "--weight-decay", "0"});
    return quick({}, more);
  };
  const auto exported = [&](const std::string& name) {
    EXPECT_EQ(run({xoe::testing::bin("xoe-train"), "export", at(name), at(name + ".safetensors")}).code, 0);
    return floats_of(file_text(at(name + ".safetensors")));
  };
  ASSERT_EQ(run(words("10", {"--checkpoint", at("ten")})).code, 0);
  ASSERT_EQ(run(words("3", {"--seed", "7", "--checkpoint", at("fresh")})).code, 0);
  const auto ten = exported("ten");
  const Ended refused = run(words("3", {"--weights", at("ten.safetensors")}));
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("fc3.weight in"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("--new-head"), std::string::npos) << refused.err;

  const Ended tuned =
      run(words("3", {"--seed", "7", "--weights", at("ten.safetensors"), "--new-head", "--checkpoint", at("tuned")}));
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_NE(tuned.out.find("all weights but those of fc3, which is new, for 3 classes"), std::string::npos)
      << tuned.out;
  const auto found = exported("tuned");
  const auto fresh = exported("fresh");
  ASSERT_EQ(found.size(), fresh.size());
  const std::size_t body = found.size() - 3 * 257;  // fc3 is the last
  EXPECT_TRUE(std::equal(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(body), ten.begin()));
  EXPECT_TRUE(std::equal(found.begin() + static_cast<std::ptrdiff_t>(body), found.end(),
                         fresh.begin() + static_cast<std::ptrdiff_t>(body)));
  EXPECT_NE(found.front(), fresh.front());
  EXPECT_EQ(run(words("3", {"--new-head"})).code, 2);
}

}  // namespace
}  // namespace xoe::train
