// What of the trainer needs no libtorch.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/env.h"
#include "core/base/output_file.h"
#include "train/tests/folder_test.h"
#include "train/trainer/checkpoint_file.h"
#include "train/trainer/complete_options.h"
#include "train/trainer/curve.h"
#include "train/trainer/environment.h"
#include "train/trainer/files.h"
#include "train/trainer/loss_scale.h"
#include "train/trainer/options.h"
#include "train/trainer/schedule.h"
#include "train/trainer/speed.h"
#include "train/trainer/texts.h"

namespace xoe::train {
namespace {

TEST(Schedule, RisesThenFallsAlongACosine) {
  const Schedule schedule = {.peak = 0.4, .warmup_steps = 4, .total_steps = 24};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 3), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 0.4);
  EXPECT_NEAR(learning_rate(schedule, 14), 0.2, 1e-12);  // half way
  EXPECT_NEAR(learning_rate(schedule, 24), 0, 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 1000), 0, 1e-12);
  for (std::int64_t step = 5; step < 24; ++step) {
    EXPECT_LT(learning_rate(schedule, step), learning_rate(schedule, step - 1));
  }
}

TEST(Schedule, WorksWithoutWarmUpAndForOneStep) {
  EXPECT_DOUBLE_EQ(learning_rate({.peak = 1, .warmup_steps = 0, .total_steps = 1}, 0), 1);
  EXPECT_DOUBLE_EQ(learning_rate({.peak = 1, .warmup_steps = 0, .total_steps = 0}, 0), 1);
}

TEST(Schedule, FollowsPiecesBehindTheWarmUp) {
  const Schedule schedule = {
      .peak = 9,
      .warmup_steps = 2,
      .total_steps = 100,
      .pieces = {{.from = 0, .rate = 0.4}, {.from = 10, .rate = 0.1}, {.from = 20, .rate = 0.2}}};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.2);
  for (const std::int64_t step : {1, 2, 9}) EXPECT_DOUBLE_EQ(learning_rate(schedule, step), 0.4) << step;
  for (const std::int64_t step : {10, 19}) EXPECT_DOUBLE_EQ(learning_rate(schedule, step), 0.1) << step;
  for (const std::int64_t step : {20, 99, 1000}) EXPECT_DOUBLE_EQ(learning_rate(schedule, step), 0.2) << step;
}

std::int64_t images_of(const TrainOptions& options, int ranks) {
  return std::int64_t{options.batch} * options.accumulate * ranks;
}

TEST(Schedule, EpochsBecomeSteps) {
  TrainOptions options;
  options.batch = 4;
  options.accumulate = 2;
  options.lr = 0.1;
  options.lr_batch = 256;
  options.lr_warmup_epochs = 1.5;
  const Schedule cosine = make_schedule(options, 10, 100, images_of(options, 2));
  EXPECT_DOUBLE_EQ(cosine.peak, 0.1 * 16 / 256);
  EXPECT_EQ(cosine.warmup_steps, 15);
  EXPECT_EQ(cosine.total_steps, 100);
  EXPECT_EQ(make_schedule(options, 10, 20, images_of(options, 2)).warmup_steps, 10);  // at most half of the run
  EXPECT_EQ(make_schedule(options, 0, 100, images_of(options, 2)).warmup_steps, 5);   // no epochs
  options.synthetic_epoch = 160;                                                      // 16 images in a step
  EXPECT_EQ(make_schedule(options, 0, 100, images_of(options, 2)).warmup_steps, 15);
  EXPECT_EQ(make_schedule(options, 0, 100, images_of(options, 4)).warmup_steps, 8);

  options.lr_schedule = "0.4;3;0.5;4.26;0.1;1e18;0.01;1e300;0.001";
  const Schedule pieces = make_schedule(options, 0, 20, images_of(options, 2));
  EXPECT_EQ(pieces.warmup_steps, 15);  // as it is asked for
  EXPECT_DOUBLE_EQ(pieces.peak, 0.5);
  ASSERT_EQ(pieces.pieces.size(), 5U);
  const std::vector<RatePiece<std::int64_t>> first = {
      {.from = 0, .rate = 0.4}, {.from = 30, .rate = 0.5}, {.from = 43, .rate = 0.1}};
  EXPECT_EQ(std::vector(pieces.pieces.begin(), pieces.pieces.begin() + 3), first);
  for (const std::size_t far : {3, 4}) EXPECT_GE(pieces.pieces[far].from, 1'000'000'000'000'000'000) << far;
}

TEST(Schedule, PiecesAreRatesWithEpochsBetweenThem) {
  using Rate = RatePiece<double>;
  EXPECT_EQ(parse_rate_pieces("0.3;10;0.2;25.5;0.1").value(),
            (std::vector<Rate>{{.from = 0, .rate = 0.3}, {.from = 10, .rate = 0.2}, {.from = 25.5, .rate = 0.1}}));
  EXPECT_EQ(parse_rate_pieces("1e-3").value(), (std::vector<Rate>{{.from = 0, .rate = 1e-3}}));
  for (const char* wrong :
       {"", "a", "0.1;", "0.1;5", "0.1;5;0.2;5;0.3", "0.1;0;0.2", "-1", "0.1;nan;0.2", "0.1,5,0.2"}) {
    const auto pieces = parse_rate_pieces(wrong);
    ASSERT_FALSE(pieces) << wrong;
    EXPECT_NE(pieces.error().message().find("expected rates with the epochs between them"), std::string::npos) << wrong;
  }
}

TEST(Options, RatesOfAScheduleNeedEpochsAndNoOtherRate) {
  const auto message = [](const char* data, const char* schedule, std::int64_t synthetic_epoch = 0, double lr = 0) {
    TrainOptions options;
    options.data_dir = data;
    options.lr_schedule = schedule;
    options.synthetic_epoch = synthetic_epoch;
    options.lr = lr;
    const auto completed = complete_options(std::move(options));
    return completed ? std::string() : completed.error().message();
  };
  EXPECT_EQ(message("data", "0.1;2;0.01"), "");
  EXPECT_EQ(message("", "0.1;2;0.01", 100), "");
  EXPECT_NE(message("", "0.1").find("synthetic data has no epochs"), std::string::npos);
  EXPECT_NE(message("data", "0.1", 0, 0.1).find("leave out the other one"), std::string::npos);
  EXPECT_NE(message("data", "0.1;x;1").find("--lr-schedule 0.1;x;1: \"x\" is no number"), std::string::npos);
}

TEST(Schedule, ScalesLinearlyWithTheImagesOfAStep) {
  EXPECT_DOUBLE_EQ(scaled_rate(0.1, 256, 64), 0.025);
  EXPECT_DOUBLE_EQ(scaled_rate(0.1, 256, 512), 0.2);
  EXPECT_DOUBLE_EQ(scaled_rate(0.1, 0, 512), 0.1);
}

TEST(LossScale, HalvesAtOnceAndDoublesAfterTwoThousandGoodSteps) {
  LossScale scale;
  EXPECT_EQ(scale.scale(), 65536);
  for (int i = 0; i < 1999; ++i) ASSERT_TRUE(scale.update(true));
  ASSERT_TRUE(scale.update(false));
  EXPECT_EQ(scale, LossScale(32768, 0));
  for (int i = 0; i < 1999; ++i) ASSERT_TRUE(scale.update(true));
  EXPECT_EQ(scale, LossScale(32768, 1999));
  ASSERT_TRUE(scale.update(true));
  EXPECT_EQ(scale, LossScale(65536, 0));
}

TEST(LossScale, EndsWhereItCannotHelp) {
  LossScale scale;
  int halvings = 0;
  while (scale.update(false)) ++halvings;
  EXPECT_EQ(halvings, 32);
  const Status ended = LossScale(1.0 / 65536, 5).update(false);
  ASSERT_FALSE(ended);
  EXPECT_NE(ended.error().message().find("--lr"), std::string::npos);
}

TEST(Speed, IsThatOfTfCnnBenchmarks) {
  SpeedMeter meter;
  EXPECT_EQ(meter.stats().mean, 0);
  for (const double seconds : {0.1, 0.2, 0.1, 0.25}) meter.add(10, seconds);  // 100, 50, 100, 40 images/s
  const SpeedStats stats = meter.stats();
  EXPECT_NEAR(stats.mean, 40 / 0.65, 1e-9);
  const double mean = 72.5;
  const double deviation =
      std::sqrt((2 * std::pow(100 - mean, 2) + std::pow(50 - mean, 2) + std::pow(40 - mean, 2)) / 4);
  EXPECT_NEAR(stats.uncertainty, deviation / 2, 1e-9);
  EXPECT_NEAR(stats.jitter, 1.4826 * 25, 1e-9);  // median 75; deviations 25, 25, 25, 35
}

// The jitter is of the newest steps, the rest of all.
TEST(Speed, OfManySteps) {
  SpeedMeter meter;
  for (std::size_t i = 0; i < SpeedMeter::kNewest; ++i) meter.add(10, i % 2 == 0 ? 0.1 : 0.05);  // 100, 200
  EXPECT_NEAR(meter.stats().jitter, 1.4826 * 50, 1e-6);
  EXPECT_NEAR(meter.stats().uncertainty, 50 / std::sqrt(SpeedMeter::kNewest), 1e-9);
  for (std::size_t i = 0; i < SpeedMeter::kNewest; ++i) meter.add(10, 0.1);
  const SpeedStats stats = meter.stats();
  EXPECT_NEAR(stats.jitter, 0, 1e-9);
  EXPECT_NEAR(stats.mean, 20 / (0.075 + 0.1), 1e-6);
  const double variance = (0.75 * 25 * 25) + (0.25 * 75 * 75);  // of 100 x 3 and 200: the mean is 125
  EXPECT_NEAR(stats.uncertainty, std::sqrt(variance / (2 * SpeedMeter::kNewest)), 1e-6);
}

TEST(Speed, SharesAddUpToOne) {
  const StepTimes share = shares({.data = 1, .compute = 6, .peers = 2, .optimizer = 1});
  EXPECT_DOUBLE_EQ(share.compute, 0.6);
  EXPECT_DOUBLE_EQ(share.total(), 1);
  EXPECT_EQ(shares({}).total(), 0);
}

TEST(Options, DefaultsDependOnDataAndOptimizer) {
  const auto synthetic = complete_options({}).value();
  EXPECT_EQ(synthetic.steps, 100);
  EXPECT_DOUBLE_EQ(synthetic.lr, 0.1);
  TrainOptions options;
  options.data_dir = "d";
  options.optimizer = OptimizerKind::kAdamW;
  const auto data = complete_options(options).value();
  EXPECT_EQ(data.epochs, 10);
  EXPECT_DOUBLE_EQ(data.lr, 1e-3);
  EXPECT_DOUBLE_EQ(*data.weight_decay, 0.05);
}

TEST(Options, NamesTheOneThatIsWrong) {
  const auto message = [](auto change) {
    TrainOptions options;
    change(options);
    const auto result = complete_options(options);
    return result ? std::string("ok") : result.error().message();
  };
  EXPECT_EQ(message([](auto& o) { o.batch = 0; }), "xoe train: batch (1 to 1048576) is 0");
  EXPECT_NE(message([](auto& o) { o.image_size = 0; }).find("--image-size"), std::string::npos);
  EXPECT_EQ(message([](auto& o) { o.momentum = 1; }), "xoe train: momentum (0 to below 1) is 1");
  EXPECT_EQ(message([](auto& o) { o.weight_decay = -1; }), "xoe train: weight_decay (0 or more) is -1");
  EXPECT_NE(message([](auto& o) { o.lr = NAN; }).find("xoe train: lr (above 0"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.lr = INFINITY; }).find("xoe train: lr (above 0"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.device = DeviceKind(3); }).find("there is no device 3"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.resume = true; }).find("--checkpoint"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.epochs = 3; }).find("--steps"), std::string::npos);
}

TEST(Environment, TellsWhatARunRanOnButNoSecret) {
  TrainOptions options;
  options.seed = 77;
  options.image_size = 96;
  options.weight_decay = 0.25;
  const Env env({{"XOE_SECRET", "s3cret"},
                 {"XOE_KEY_FILE", "s3cret"},
                 {"XOE_JOB", "s3cret"},
                 {"XOE_BACKEND", "gloo\xff"},
                 {"OMP_NUM_THREADS", "3"},
                 {"HOME", "/somewhere"}});
  const std::string text = environment_json(options, env, "9.8.7");
  EXPECT_EQ(text.find("s3cret"), std::string::npos);
  EXPECT_EQ(text.find("somewhere"), std::string::npos);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["libtorch"], "9.8.7");
  EXPECT_EQ(json["options"]["seed"], 77);
  EXPECT_EQ(json["options"]["weight_decay"], 0.25);
  EXPECT_EQ(json["options"]["lr_warmup_epochs"], 1);
  EXPECT_EQ(json["options"]["optimizer"], "sgd");
  EXPECT_EQ(json["options"]["momentum"], 0.9);
  EXPECT_EQ(json["options"]["image_size"], "96");
  EXPECT_FALSE(json["options"].contains("weights"));
  EXPECT_EQ(json["variables"]["OMP_NUM_THREADS"], "3");
  EXPECT_EQ(json["variables"]["XOE_BACKEND"], "gloo\xef\xbf\xbd");
  EXPECT_EQ(json["command"][1], "train");
  EXPECT_GE(json["processors"], 1);
}

TEST(Curve, DrawsAnyNumberOfPoints) {
  Curve curve;
  curve.title = "a < b & c";
  EXPECT_NE(curve_svg(curve).find("a &lt; b &amp; c"), std::string::npos);
  for (int i = 1; i <= 5000; ++i) curve.loss.push_back({i, 2.0 / i});
  curve.accuracy = {{2500, 0.5}, {5000, 0.9}};
  const std::string svg = curve_svg(curve);
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("90.0 %"), std::string::npos);
  EXPECT_LT(svg.size(), 40000U);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST_F(FolderTest, WriteFileReplacesWholeOrNotAtAll) {
  const std::string path = folder_ + "/file";
  ASSERT_TRUE(write_file(path, "one"));
  ASSERT_TRUE(write_file(path, "two"));
  EXPECT_EQ(read_file(path).value(), "two");
  {
    const SmallDisk disk(1000);
    const Status full = write_file(path, std::string(5000, 'x'));
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().code(), Code::kResourceExhausted);
    EXPECT_NE(full.error().message().find(path), std::string::npos);
    EXPECT_NE(full.error().message().find("free some space"), std::string::npos);
  }
  EXPECT_EQ(read_file(path).value(), "two");
  EXPECT_EQ(files(), 1U);
}

TEST_F(FolderTest, AGrowingFileKeepsNoHalfLine) {
  const std::string path = folder_ + "/lines";
  auto file = GrowingFile::open(path, false).value();
  ASSERT_TRUE(file.append("first\n"));
  {
    const SmallDisk disk(20);
    EXPECT_FALSE(file.append(std::string(100, 'x')));
  }
  EXPECT_EQ(read_file(path).value(), "first\n");
  EXPECT_FALSE(GrowingFile::open(folder_ + "/no/file", false));
}

TEST_F(FolderTest, AFullDeviceIsNamed) {
  auto file = GrowingFile::open("/dev/full", true);
  ASSERT_TRUE(file);
  const Status status = file->append("x");
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message().find("/dev/full"), std::string::npos);
}

TEST_F(FolderTest, SectionsComeBack) {
  const Sections sections = {{"meta", "{}"}, {"model", std::string(1000, '\0')}, {"empty", ""}};
  const std::string path = checkpoint_path(folder_, 12);
  ASSERT_TRUE(write_sections(path, sections));
  EXPECT_EQ(unpack_sections(read_file(path).value(), path).value(), sections);
}

TEST_F(FolderTest, EveryCutAndEveryChangedByteIsNoticed) {
  const std::string path = folder_ + "/x.ckpt";
  const std::string whole = pack_sections({{"meta", "{\"step\":1}"}, {"model", "0123456789"}});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    ASSERT_TRUE(write_file(path, whole.substr(0, length)));
    const auto cut = unpack_sections(read_file(path).value(), path);
    ASSERT_FALSE(cut) << length;
    EXPECT_EQ(cut.error().code(), Code::kDataLoss);
    EXPECT_NE(cut.error().message().find(path), std::string::npos);
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x20);
    EXPECT_FALSE(unpack_sections(changed, "x")) << i;
  }
  EXPECT_FALSE(unpack_sections("PK\x03\x04 some other file, long enough", "x"));
}

TEST_F(FolderTest, KeepsTheNewestCheckpoints) {
  for (const int step : {5, 100, 20}) ASSERT_TRUE(write_sections(checkpoint_path(folder_, step), {}));
  std::ofstream(folder_ + "/.step-00000007.ckpt.unfinished-99") << "half";
  std::ofstream(folder_ + "/notes.txt") << "mine";
  EXPECT_TRUE(prune_checkpoints(folder_, 2));
  const auto left = list_checkpoints(folder_).value();
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0].step, 20);
  EXPECT_EQ(left[1].step, 100);
  EXPECT_EQ(files(), 3U);
  EXPECT_TRUE(list_checkpoints(folder_ + "/none").value().empty());
  // One that cannot be removed: a folder that is not empty.
  std::filesystem::create_directories(checkpoint_path(folder_, 3) + "/full");
  std::filesystem::create_directories(checkpoint_path(folder_, 4));
  const Status pruned = prune_checkpoints(folder_, 2);
  ASSERT_FALSE(pruned);
  EXPECT_NE(pruned.error().message().find("cannot remove the old checkpoint " + checkpoint_path(folder_, 3) + ": "),
            std::string::npos);
  EXPECT_EQ(list_checkpoints(folder_).value().size(), 3U);
}

// A training that goes on from what it does not see would begin from the start, beside what is there.
TEST_F(FolderTest, CheckpointsThatCannotBeLookedForAreNotNone) {
  const std::string folder = folder_ + "/checkpoints";
  std::filesystem::create_symlink(folder, folder);  // to itself
  const auto stored = list_checkpoints(folder);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code(), Code::kUnavailable);
  EXPECT_NE(stored.error().message().find("cannot look for checkpoints in " + folder + ": "), std::string::npos);
  EXPECT_FALSE(prune_checkpoints(folder, 2));
}

TEST(Texts, SayTheSpeedAsTfCnnBenchmarksDo) {
  Report report;
  report.step = 10;
  report.ranks = 2;
  report.speed = {.mean = 123.44, .uncertainty = 0.61, .jitter = 1.23};
  report.loss = 2.17342;
  report.accuracy = 0.21875;
  report.share = {.data = 0.0123, .compute = 0.93, .peers = 0.04, .optimizer = 0.02};
  EXPECT_EQ(report_header(), "step    images/s    +/- per rank    loss accuracy   data compute peers optim");
  EXPECT_EQ(report_line(report), "10         123.4    0.6     61.7  2.1734    0.219   1.2%     93%    4%    2%");
  Outcome outcome;
  outcome.speed = report.speed;
  EXPECT_NE(outcome_lines(outcome).find("images/sec: 123.4 +/- 0.6 (jitter = 1.2)"), std::string::npos);
  outcome.accuracy = 0.934;
  outcome.speed.mean = 55.25;
  outcome.curve = "c.svg";
  EXPECT_EQ(summary_line("demo", outcome), "demo: accuracy=0.9340 images_per_s=55.2 curve=c.svg timeline=none");
  EXPECT_TRUE(outcome_lines(outcome).ends_with("total images/sec: 55.25"));
  EXPECT_EQ(nlohmann::json::parse(outcome_json(outcome))["accuracy"], 0.934);
}

}  // namespace
}  // namespace xoe::train
