// xoe-train on images: resuming, interruptions and broken records.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "train/tests/train_program.h"

namespace xoe::train {
namespace {

class ImagesTest : public TrainProgramTest {
 protected:
  void SetUp() override {
    TrainProgramTest::SetUp();
    make_data(48);
  }

  void make_data(int size_max) {
    const Ended made =
        run({xoe::testing::bin("xoe-data"), "make", "--images", "60", "--validation", "13", "--classes", "3",
             "--shards", "2", "--size-min", "32", "--size-max", std::to_string(size_max), at("data")});
    ASSERT_EQ(made.code, 0) << made.err;
  }

  // 7 steps an epoch with 2 ranks.
  Arguments on_images(const Arguments& more) const {
    return quick({"--data", at("data"), "--model", "resnet18", "--image-size", "16"}, more);
  }

  std::string record_file() const {
    for (const auto& entry : std::filesystem::directory_iterator(at("data"))) {
      if (entry.path().filename().string().starts_with("train-00000")) return entry.path();
    }
    return {};
  }
};

// The data's position, the random distortions and each rank's batch norm come back too; the data threads play no part.
TEST_F(ImagesTest, AResumedRunGivesTheSameBits) {
  const auto words = [&](const std::string& name, Arguments more) {
    more.insert(more.end(), {"--epochs", "1.7", "--run-dir", at(name), "--checkpoint", at(name) + "/checkpoints"});
    return on_images(more);
  };
  run_group(2, words("whole", {}));
  const auto final_step = list_checkpoints(at("whole/checkpoints")).value().back().step;
  ASSERT_EQ(final_step, 12);
  run_group(2, words("parts", {"--checkpoint-every", "5", "--checkpoint-keep", "9", "--data-threads", "0"}));
  for (const int step : {10, 12}) std::filesystem::remove(checkpoint_path(at("parts/checkpoints"), step));
  run_group(2, words("parts", {"--resume"}));

  EXPECT_EQ(losses("whole"), losses("parts"));
  const auto whole = metrics("whole", "evaluation");
  const auto parts = metrics("parts", "evaluation");
  ASSERT_EQ(whole.size(), 2U);  // after the epoch, and at the end
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(whole, parts);
  EXPECT_EQ(whole[0]["images"], 13);
  expect_same_checkpoint(12);
}

// With a learning rate of nothing the loss of a step tells its images: a finished run is taken further without a batch
// twice or left out.
TEST_F(ImagesTest, AFinishedRunGoesOnWithTheNextBatch) {
  const auto words = [&](const std::string& name, Arguments more) {
    more.insert(more.end(), {"--lr", "1e-30", "--eval-every", "0", "--run-dir", at(name), "--checkpoint",
                             at(name) + "/checkpoints"});
    return on_images(more);
  };
  run_group(2, words("whole", {"--steps", "6"}));
  run_group(2, words("parts", {"--steps", "3"}));
  run_group(2, words("parts", {"--steps", "6", "--resume"}));
  EXPECT_EQ(losses("whole").size(), 6U);
  EXPECT_EQ(losses("whole"), losses("parts"));
}

// Files that were written again have other records, so an epoch cannot go on with them; the next one can begin.
TEST_F(ImagesTest, ChangedFilesBeginTheNextEpoch) {
  const auto words = [&](const std::string& name, Arguments more) {
    more.insert(more.end(), {"--lr", "1e-30", "--eval-every", "0", "--run-dir", at(name), "--checkpoint",
                             at(name) + "/checkpoints"});
    return on_images(more);
  };
  run_group(2, words("parts", {"--steps", "3"}));
  std::filesystem::remove_all(at("data"));
  make_data(64);
  auto refused = start(2, words("parts", {"--steps", "6", "--resume"}));
  std::string errors;
  for (auto& rank : refused) {
    EXPECT_EQ(rank->wait(), 1);
    errors += rank->err();
  }
  EXPECT_NE(errors.find("--next-epoch"), std::string::npos) << errors;

  run_group(2, words("parts", {"--steps", "6", "--resume", "--next-epoch"}));
  run_group(2, words("parts", {"--steps", "9", "--resume", "--next-epoch"}));
  run_group(2, words("whole", {"--steps", "17"}));
  const auto parts = losses("parts");
  const auto whole = losses("whole");
  for (const int step : {4, 5, 6}) EXPECT_EQ(parts.at(step), whole.at(step + 4)) << step;
  for (const int step : {7, 8, 9}) EXPECT_EQ(parts.at(step), whole.at(step + 8)) << step;
}

// The weights that a run ended with are evaluated by another one.
TEST_F(ImagesTest, AveragedWeightsAreEvaluatedAndExported) {
  const auto loss = [&](const std::string& name, const Arguments& more) {
    Arguments words = {"--run-dir", at(name), "--checkpoint", at(name) + "/checkpoints"};
    words.insert(words.end(), more.begin(), more.end());
    run_group(2, quick({"--data", at("data"), "--model", "mlp", "--image-size", "16"}, words));
    return static_cast<double>(metrics(name, "evaluation").back()["loss"]);
  };
  const double plain = loss("plain", {"--steps", "4", "--lr", "1"});
  const double averaged = loss("averaged", {"--steps", "4", "--lr", "1", "--ema", "0.9"});
  EXPECT_EQ(losses("plain"), losses("averaged"));
  EXPECT_GT(std::abs(averaged - plain), 1e-3);
  ASSERT_EQ(run({xoe::testing::bin("xoe-train"), "export", at("averaged"), at("w.pt")}).code, 0);
  const Arguments still = {"--steps", "1", "--lr", "1e-30", "--weight-decay", "0", "--weights", at("w.pt")};
  EXPECT_NEAR(loss("again", still), averaged, 1e-5);
}

// Two ranks get the images of one with the joined batch. The losses go apart as rounding does.
TEST_F(ImagesTest, BatchNormOverRanksIsThatOfTheJoinedBatch) {
  const auto train = [&](const std::string& name, int ranks, const std::string& batch, Arguments more) {
    Arguments words = {xoe::testing::bin("xoe-train"),
                       "--data",
                       at("data"),
                       "--model",
                       "resnet18",
                       "--image-size",
                       "16",
                       "--batch",
                       batch,
                       "--threads",
                       "1",
                       "--report-every",
                       "1",
                       "--device",
                       "cpu",
                       "--steps",
                       "4",
                       "--run-dir",
                       at(name)};
    words.insert(words.end(), more.begin(), more.end());
    run_group(ranks, words);
    return losses(name);
  };
  const auto joined = train("joined", 1, "8", {});
  const auto over_ranks = train("ranks", 2, "4", {"--sync-batchnorm"});
  const auto own = train("own", 2, "4", {});
  for (const auto& [step, loss] : joined) EXPECT_NEAR(over_ranks.at(step), loss, 1e-3 * loss) << step;
  EXPECT_GT(std::abs(own.at(1) - joined.at(1)), 1e-2 * joined.at(1));
  EXPECT_NEAR(metrics("ranks", "evaluation").back()["loss"], metrics("joined", "evaluation").back()["loss"], 1e-2);
}

// Each step has an evaluation here, also the one in which the signal comes.
TEST_F(ImagesTest, ASignalDropsNoEvaluation) {
  Program program(at("signalled"), on_images({"--steps", "1000000", "--eval-every", "0.01", "--run-dir", at("run"),
                                              "--checkpoint", at("checkpoints")}));
  ASSERT_TRUE(program.wait_for("step 2 ")) << program.err();
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 130) << program.err();
  const auto evaluations = metrics("run", "evaluation");
  ASSERT_FALSE(evaluations.empty());
  EXPECT_EQ(evaluations.back()["step"], metrics("run", "end").at(0)["step"]);
  EXPECT_EQ(metrics("run", "end").at(0)["accuracy"], evaluations.back()["accuracy"]);
}

TEST_F(ImagesTest, ASignalInTheLastStepLeavesADoneRun) {
  Program program(at("last"), on_images({"--steps", "1", "--accumulate", "30", "--summary", "demo"}));
  ASSERT_TRUE(program.wait_for("steps 1 to 1")) << program.err();
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_NE(program.out().find("demo: accuracy=0."), std::string::npos) << program.out();
}

TEST_F(ImagesTest, ACorruptRecordIsNamedOnceByAllRanks) {
  const std::string path = record_file();
  std::string bytes = file_text(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  auto ranks = start(2, on_images({"--epochs", "2"}));
  std::string errors;
  for (auto& rank : ranks) {
    EXPECT_EQ(rank->wait(), 1);
    errors += rank->err();
  }
  EXPECT_NE(errors.find("error: data_loss: "), std::string::npos) << errors;
  EXPECT_NE(errors.find(path), std::string::npos) << errors;
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
}

TEST_F(ImagesTest, OneRankCountsTheClassesWhereOnlyLabelsTellThem) {
  std::filesystem::remove(at("data/labels.txt"));
  run_group(2, on_images({"--steps", "1", "--run-dir", at("run")}));
  EXPECT_EQ(metrics("run", "start").at(0)["classes"], 3);
  run_group(1, on_images({"--steps", "1", "--label-offset", "0", "--run-dir", at("from-zero")}));
  EXPECT_EQ(metrics("from-zero", "start").at(0)["classes"], 4);
}

TEST_F(ImagesTest, ALabelOutOfRangeNamesFileAndRecord) {
  const Ended ended = run(on_images({"--epochs", "1", "--label-offset", "0"}));
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.err.find("label 3; the 3 classes have labels 0 to 2"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find(": record "), std::string::npos) << ended.err;
}

// They would have different numbers of batches, or confuse positions: no rank makes a step.
TEST_F(ImagesTest, RanksThatReadOtherRecordsAreRefusedByName) {
  for (const auto& [name, images, validation] :
       {std::tuple("fewer", "52", "13"), std::tuple("other-validation", "60", "9")}) {
    const Ended made = run({xoe::testing::bin("xoe-data"), "make", "--images", images, "--validation", validation,
                            "--classes", "3", "--shards", "2", "--size-min", "32", "--size-max", "48", at(name)});
    ASSERT_EQ(made.code, 0) << made.err;
    const Arguments same = on_images({"--epochs", "1", "--run-dir", at("refused")});
    Arguments other = same;
    std::replace(other.begin(), other.end(), at("data"), at(name));
    std::string errors;
    for (auto& rank : start({same, other, same})) {
      EXPECT_EQ(rank->wait(), 1);
      errors += rank->err();
    }
    EXPECT_NE(errors.find("error: invalid_argument: "), std::string::npos) << errors;
    EXPECT_NE(errors.find("the ranks have different data: rank 1 on host "), std::string::npos) << errors;
    EXPECT_NE(errors.find("First difference: "), std::string::npos) << errors;
    EXPECT_EQ(errors.find("rank 2"), std::string::npos) << errors;
    EXPECT_TRUE(metrics("refused", "step").empty()) << "before the first step";
  }
}

// A training must not go on with less than it was given, nor without its evaluation, and say nothing.
TEST_F(ImagesTest, MissingFilesAreErrorsUnlessAllowed) {
  for (const char* name : {"train-00001-of-00002", "validation-00000-of-00001"}) {
    const std::string path = at("data/") + name;
    std::filesystem::rename(path, at("moved"));
    std::filesystem::create_symlink("/nowhere", path);
    const Ended refused = run(on_images({"--steps", "1"}));
    EXPECT_EQ(refused.code, 1);
    EXPECT_NE(refused.err.find(path + ": a link to /nowhere, which does not exist"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("--allow-missing"), std::string::npos) << refused.err;
    std::filesystem::remove(path);
    std::filesystem::rename(at("moved"), path);
  }
  std::filesystem::rename(at("data/train-00001-of-00002"), at("moved"));
  const Ended refused = run(on_images({"--steps", "1"}));
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("train-00001-of-00002: absent"), std::string::npos) << refused.err;
  const Ended allowed = run(on_images({"--steps", "1", "--allow-missing"}));
  EXPECT_EQ(allowed.code, 0) << allowed.err;
  EXPECT_NE(allowed.err.find("1 missing part left out: "), std::string::npos) << allowed.err;
}

// Accuracy on the images that were trained on is never called one of held-out images.
TEST_F(ImagesTest, ASingleFileHoldsNoImagesOut) {
  const Ended ended = run(quick({"--data", record_file(), "--model", "mlp", "--image-size", "16"},
                                {"--classes", "3", "--epochs", "1", "--run-dir", at("single"), "--summary", "demo"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out.find("held-out"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("no images are held out for evaluation"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("demo: accuracy=none "), std::string::npos) << ended.out;
  EXPECT_TRUE(metrics("single", "evaluation").empty());
}

TEST_F(ImagesTest, BadImagesAreNamedAsTheyAreLeftOut) {
  const std::string path = record_file();
  std::string bytes = file_text(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  for (const char* name : {"--max-bad", "--max-bad-images"}) {
    const Ended ended =
        run(quick({"--data", at("data"), "--model", "mlp", "--image-size", "16"}, {"--epochs", "2", name, "1"}));
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_NE(ended.err.find("1 bad image left out: " + path + ": record "), std::string::npos) << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
  const Ended ended = run(quick({"--data", at("data"), "--model", "mlp", "--image-size", "16"}, {"--epochs", "2"}));
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.err.find("(--max-bad N)"), std::string::npos) << ended.err;
}

// As on hosts with copies of the data, of which one lost a file: also where that is allowed.
TEST_F(ImagesTest, ARankThatLacksAFileEndsAllRanks) {
  std::filesystem::copy(at("data"), at("copy"));
  std::filesystem::remove(at("copy/train-00001-of-00002"));
  for (const bool allowed : {false, true}) {
    Arguments whole = on_images({"--epochs", "1", "--run-dir", at("lacking")});
    if (allowed) whole.push_back("--allow-missing");
    Arguments lacking = whole;
    std::replace(lacking.begin(), lacking.end(), at("data"), at("copy"));
    std::string errors;
    for (auto& rank : start({whole, lacking, whole})) {
      EXPECT_EQ(rank->wait(), 1);
      errors += rank->err();
    }
    const std::string told = allowed ? "First difference: train-00001-of-00002 is absent on rank 1"
                                     : "rank 1: " + at("copy") +
                                           ": a part of the data is missing: " + at("copy/train-00001-of-00002") +
                                           ": absent";
    EXPECT_NE(errors.find(told), std::string::npos) << errors;
    EXPECT_TRUE(metrics("lacking", "step").empty()) << "before the first step";
  }
}

// 13 images do not divide by 1, 2 or 3 ranks with batches of 4; each is looked at once, and what is found is the same.
TEST_F(ImagesTest, EachValidationImageIsLookedAtOnceByAnyNumberOfRanks) {
  nlohmann::json alone;
  for (const int size : {1, 2, 3}) {
    const std::string name = "size" + std::to_string(size);
    run_group(size, quick({"--data", at("data"), "--model", "mlp", "--image-size", "16"},
                          {"--steps", "1", "--lr", "1e-30", "--seed", "5", "--run-dir", at(name)}));
    const auto found = metrics(name, "evaluation");
    ASSERT_EQ(found.size(), 1U) << name;
    EXPECT_EQ(found[0]["images"], 13) << name;
    if (size == 1) alone = found[0];
    EXPECT_EQ(found[0]["accuracy"], alone["accuracy"]) << name;
    EXPECT_NEAR(found[0]["loss"].get<double>(), alone["loss"].get<double>(), 1e-4) << name;
  }
}

}  // namespace
}  // namespace xoe::train
