// What of the trainer needs no libtorch.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/env.h"
#include "base/output_file.h"
#include "train/checkpoint_file.h"
#include "train/curve.h"
#include "train/environment.h"
#include "train/event_file.h"
#include "train/exported_file.h"
#include "train/files.h"
#include "train/loss_scale.h"
#include "train/options.h"
#include "train/run_folder.h"
#include "train/safetensors.h"
#include "train/schedule.h"
#include "train/speed.h"
#include "train/state_dict.h"
#include "train/texts.h"
#include "xoe/data/records.h"

namespace xoe::train {
namespace {

namespace fs = std::filesystem;

class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "xoe-train-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  std::string folder_;
};

// Files may grow to `bytes` while it lives.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_ = {};
};

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
  EXPECT_NE(message([](auto& o) { o.batch = 0; }).find("--batch"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.image_size = 0; }).find("--image-size"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.momentum = 1; }).find("--momentum"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.lr = NAN; }).find("--lr"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.resume = true; }).find("--checkpoint"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.epochs = 3; }).find("--steps"), std::string::npos);
}

TEST(Environment, TellsWhatARunRanOnButNoSecret) {
  TrainOptions options;
  options.seed = 77;
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
  prune_checkpoints(folder_, 2);
  const auto left = list_checkpoints(folder_);
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0].step, 20);
  EXPECT_EQ(left[1].step, 100);
  EXPECT_EQ(files(), 3U);
  EXPECT_TRUE(list_checkpoints(folder_ + "/none").empty());
}

TEST_F(FolderTest, AResumedRunFolderGoesOnBehindItsStep) {
  const auto report_at = [](std::int64_t step) {
    Report report;
    report.step = step;
    report.loss = 1.0 / static_cast<double>(step);
    return report;
  };
  {
    auto run = RunFolder::open(folder_ + "/run", 0).value();
    ASSERT_TRUE(run.started({}));
    for (const int step : {10, 20, 30}) ASSERT_TRUE(run.reported(report_at(step)));
  }
  auto run = RunFolder::open(folder_ + "/run", 20).value();
  ASSERT_TRUE(run.reported(report_at(30)));
  ASSERT_TRUE(run.finished({}));

  std::ifstream file(folder_ + "/run/metrics.jsonl");
  std::vector<std::int64_t> steps;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["event"] == "report") steps.push_back(json["step"]);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{10, 20, 30}));
  EXPECT_TRUE(fs::exists(folder_ + "/run/curve.svg"));
}

// The records of the event files in a folder, in the order in which TensorBoard reads them.
std::vector<std::string> event_records(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) names.push_back(entry.path());
  std::ranges::sort(names);
  std::vector<std::string> records;
  for (const std::string& name : names) {
    const auto file = data::read_records(name)->iterate(0).value();
    for (auto record = file->next(); *record; record = file->next()) records.emplace_back((*record)->data);
  }
  return records;
}

// Behind field 1, the wall time: 1 byte of key and 8 of a double.
std::string behind_the_time(const std::string& record) { return record.substr(9); }

TEST_F(FolderTest, AnEventFileHasTheBytesOfTensorFlowsMessages) {
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  const double before = now();
  auto file = EventFile::begin(folder_, 300).value();
  const std::array<Scalar, 2> scalars = {{{"loss/train", 1.5}, {"rate", 0.25}}};
  ASSERT_TRUE(file.write(310, scalars));
  const auto records = event_records(folder_);
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(behind_the_time(records[0]), std::string("\x10\0\x1a\x0d"
                                                     "brain.Event:2",
                                                     17));
  EXPECT_EQ(behind_the_time(records[1]), "\x10\xad\x02\x3a\x02\x08\x01");  // step 301, START
  EXPECT_EQ(behind_the_time(records[2]), std::string("\x10\xb6\x02\x2a\x20"
                                                     "\x0a\x11\x0a\x0aloss/train\x15\0\0\xc0\x3f"
                                                     "\x0a\x0b\x0a\x04rate\x15\0\0\x80\x3e",
                                                     37));
  for (const std::string& record : records) {
    EXPECT_EQ(record[0], '\x09');
    double time = 0;
    std::memcpy(&time, record.data() + 1, sizeof time);
    EXPECT_GE(time, before);
    EXPECT_LE(time, now());
  }
}

TEST_F(FolderTest, ALaterEventFileHasALaterName) {
  std::ofstream(folder_ + "/events.out.tfevents.9999999990.elsewhere.3.v2") << "of a clock that is wrong";
  ASSERT_TRUE(EventFile::begin(folder_, 0));
  ASSERT_TRUE(EventFile::begin(folder_, 0));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  ASSERT_EQ(names.size(), 3U);
  EXPECT_TRUE(names[1].starts_with("events.out.tfevents.9999999991.")) << names[1];
  EXPECT_TRUE(names[2].starts_with("events.out.tfevents.9999999992.")) << names[2];
}

TEST_F(FolderTest, AnEventFileWithAHugeNumberDoesNotCount) {
  for (const char* number : {"9223372036854775807", "9999999999"})
    std::ofstream(folder_ + "/events.out.tfevents." + number + ".elsewhere") << "of a program with other names";
  ASSERT_TRUE(EventFile::begin(folder_, 0));
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name.ends_with(".elsewhere") || name.starts_with("events.out.tfevents.1")) << name;
  }
}

TEST_F(FolderTest, AFullDiskLeavesWholeEvents) {
  auto file = EventFile::begin(folder_, 0).value();
  const std::array<Scalar, 1> scalars = {{{"loss/train", 1.5}}};
  {
    const SmallDisk disk(300);
    Status status;
    for (int step = 1; status && step < 100; ++step) status = file.write(step, scalars);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kResourceExhausted);
    EXPECT_NE(status.error().message().find("/events.out.tfevents."), std::string::npos);
  }
  EXPECT_GT(event_records(folder_).size(), 2U);
}

TEST_F(FolderTest, ARunIsInItsEventFiles) {
  auto run = RunFolder::open(folder_, 0).value();
  Report report;
  report.step = 10;
  ASSERT_TRUE(run.reported(report));
  report.speed.mean = 99;
  ASSERT_TRUE(run.reported(report));
  ASSERT_TRUE(run.evaluated({.step = 10}));
  const auto records = event_records(folder_);
  ASSERT_EQ(records.size(), 5U);
  EXPECT_EQ(records[2].find("images_per_second"), std::string::npos) << "a speed that was not measured";
  EXPECT_NE(records[3].find("images_per_second"), std::string::npos);
  EXPECT_NE(records[4].find("loss/held-out"), std::string::npos);
}

TEST_F(FolderTest, ASecondRunIsToldOfAFreeFolder) {
  const std::string path = folder_ + "/a";
  EXPECT_TRUE(check_free(path));
  fs::create_directories(path);
  EXPECT_TRUE(check_free(path)) << "an empty folder";
  ASSERT_TRUE(RunFolder::open(path, 0)->started({}));
  const Status taken = check_free(path + "/");
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code(), Code::kInvalidArgument);
  EXPECT_NE(taken.error().message().find("--run-dir " + path + "-2 "), std::string::npos) << taken.error().message();
  EXPECT_NE(taken.error().message().find("--resume"), std::string::npos);
  fs::create_directories(path + "-2");
  EXPECT_EQ(free_folder_beside(path), path + "-3");
  EXPECT_EQ(free_folder_beside(path + "-2"), path + "-3");
  EXPECT_EQ(free_folder_beside(folder_ + "/b-x"), folder_ + "/b-x-2");
  EXPECT_EQ(free_folder_beside(folder_ + "/c-20261123"), folder_ + "/c-20261123-2");
  EXPECT_EQ(free_folder_beside(folder_ + "/-7"), folder_ + "/-7-2");
  EXPECT_EQ(free_folder_beside(path + "/."), path + "-3");
  EXPECT_EQ(free_folder_beside(path + "/sub/.."), path + "-3");
  EXPECT_EQ(free_folder_beside("."), fs::current_path().string() + "-2");
}

TEST_F(FolderTest, ARunThatStartsAgainSetsTheMetricsBeforeAside) {
  ASSERT_TRUE(RunFolder::open(folder_, 0)->started({.model = "first"}));
  for (const char* name : {"environment.json", "curve.svg"}) std::ofstream(folder_ + "/" + name) << "of the first run";
  ASSERT_TRUE(RunFolder::open(folder_, 0)->started({.model = "second"}));
  std::ofstream(folder_ + "/curve-2.svg") << "of another program";
  auto third = RunFolder::open(folder_, 0).value();
  EXPECT_EQ(third.earlier(), folder_ + "/metrics-3.jsonl");
  EXPECT_EQ(*read_file(folder_ + "/environment-1.json"), "of the first run");
  EXPECT_EQ(*read_file(folder_ + "/curve-1.svg"), "of the first run");
  EXPECT_EQ(*read_file(folder_ + "/curve-2.svg"), "of another program");
  EXPECT_NE(read_file(folder_ + "/metrics-1.jsonl")->find("first"), std::string::npos);
  EXPECT_NE(read_file(folder_ + "/metrics-3.jsonl")->find("second"), std::string::npos);
  EXPECT_TRUE(RunFolder::open(folder_, 5)->earlier().empty()) << "a resumed run goes on in the same file";
}

TEST_F(FolderTest, AResumedRunDoesNotCutTheMetricsOfAnother) {
  const std::string path = folder_ + "/b";
  Report report;
  report.step = 10;
  {
    auto theirs = RunFolder::open(path, 0, folder_ + "/checkpoints-b").value();
    ASSERT_TRUE(theirs.started({.checkpoints = folder_ + "/checkpoints-b"}));
    ASSERT_TRUE(theirs.reported(report));
  }
  const std::string before = *read_file(path + "/metrics.jsonl");
  auto same = RunFolder::open(path, 10, folder_ + "/x/../checkpoints-b/").value();
  EXPECT_TRUE(same.earlier().empty()) << "another name of the same folder";
  EXPECT_EQ(*read_file(path + "/metrics.jsonl"), before);
  auto other = RunFolder::open(path, 5, folder_ + "/checkpoints-c").value();
  EXPECT_EQ(other.earlier(), path + "/metrics-1.jsonl");
  EXPECT_EQ(*read_file(path + "/metrics-1.jsonl"), before);
  EXPECT_EQ(*read_file(path + "/metrics.jsonl"), "");
}

TEST_F(FolderTest, ARunFolderMayBeCopiedWithItsCheckpoints) {
  const std::string copy = folder_ + "/copy";
  const auto begin = [&](const std::string& checkpoints) {
    ASSERT_TRUE(RunFolder::open(copy, 0)->started({.checkpoints = checkpoints, .run_dir = folder_ + "/first"}));
  };
  begin(folder_ + "/first/checkpoints");
  EXPECT_TRUE(RunFolder::open(copy, 5, copy + "/checkpoints")->earlier().empty());
  begin(folder_ + "/scratch/checkpoints");
  EXPECT_FALSE(RunFolder::open(copy, 5, copy + "/checkpoints")->earlier().empty()) << "another run's, of the same name";
  begin(folder_ + "/first/checkpoints");
  EXPECT_FALSE(RunFolder::open(copy, 5, folder_ + "/checkpoints")->earlier().empty()) << "checkpoints elsewhere";
}

TEST_F(FolderTest, ARunOfVersion010GoesOn) {
  std::ofstream(folder_ + "/metrics.jsonl") << R"({"event":"start","model":"resnet18"})"
                                            << "\n";
  EXPECT_TRUE(RunFolder::open(folder_, 5, folder_ + "/checkpoints")->earlier().empty());
}

TEST_F(FolderTest, MetricsThatCannotBeReadAreNotReplaced) {
  fs::create_directories(folder_ + "/metrics.jsonl/inside");
  EXPECT_FALSE(RunFolder::open(folder_, 5));
  EXPECT_TRUE(fs::exists(folder_ + "/metrics.jsonl/inside"));
}

TEST_F(FolderTest, StrangeLinesOfMetricsAreDropped) {
  const std::string good = R"({"event":"report","step":3,"loss":0.5})";
  std::ofstream(folder_ + "/metrics.jsonl") << R"({"event":5})" << '\n'
                                            << R"({"event":"report","step":"x","loss":1})" << '\n'
                                            << R"({"step":2})" << '\n'
                                            << R"([1])" << '\n'
                                            << R"({"event":"report","step":4.5})" << '\n'
                                            << R"({"event":"report","step":1})" << '\n'
                                            << good << '\n';
  ASSERT_TRUE(RunFolder::open(folder_, 5));
  EXPECT_EQ(*read_file(folder_ + "/metrics.jsonl"), R"({"event":"report","step":1})"
                                                    "\n" +
                                                        good + "\n");
}

TEST_F(FolderTest, WhatLiesInTheFolderMovesAlong) {
  const std::string here = fs::current_path();
  EXPECT_EQ(moved_along("runs/a/t.json", "runs/a", "runs/a-2"), "runs/a-2/t.json");
  EXPECT_EQ(moved_along("./runs/a/t.json", "runs/a/", "runs/a-2"), "runs/a-2/t.json");
  EXPECT_EQ(moved_along("runs/a/t.json", "./runs//a", "runs/a-2"), "runs/a-2/t.json");
  EXPECT_EQ(moved_along(here + "/runs/a/x/t.json", "runs/a", "runs/a-2"), "runs/a-2/x/t.json");
  EXPECT_EQ(moved_along("runs/a", "runs/a/", "runs/a-2"), "runs/a-2");
  EXPECT_EQ(moved_along("runs/a/", here + "/runs/a", "runs/a-2"), "runs/a-2");
  for (const char* elsewhere : {"", "runs/ab/t.json", "runs/a/../t.json", "/t.json", "runs"})
    EXPECT_EQ(moved_along(elsewhere, "runs/a", "runs/a-2"), elsewhere);
}

TEST(Safetensors, AHeaderSaysWhereEachTensorIs) {
  const std::vector<SafeTensor> tensors = {{"a.weight", "F32", {2, 3}, 24}, {"count", "I64", {}, 8}};
  const std::string header = safetensors_header(tensors, {{"format", "pt"}}).value();
  const std::string text =
      R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("count":{"dtype":"I64","shape":[],"data_offsets":[24,32]}})";
  ASSERT_EQ(header.size() % 8, 0U);
  EXPECT_EQ(static_cast<std::size_t>(static_cast<unsigned char>(header[0])), header.size() - 8);
  EXPECT_TRUE(std::string_view(header).substr(8).starts_with(text)) << header;
  EXPECT_EQ(header.find_first_not_of(' ', 8 + text.size()), std::string::npos);
  EXPECT_EQ(safetensors_header({}, {}).value().substr(8), "{}      ");
}

TEST(Safetensors, AHeaderThatCannotBeRightIsRefused) {
  for (const SafeTensor& wrong : {SafeTensor{"a", "F32", {2, 3}, 20}, SafeTensor{"a", "F33", {1}, 4},
                                  SafeTensor{"a", "F32", {-1}, 0}, SafeTensor{"__metadata__", "U8", {1}, 1},
                                  SafeTensor{"a", "F64", {std::int64_t{1} << 40, std::int64_t{1} << 40}, 0}}) {
    const std::vector<SafeTensor> one = {wrong};
    const auto header = safetensors_header(one, {});
    ASSERT_FALSE(header);
    EXPECT_EQ(header.error().code(), Code::kInvalidArgument);
    EXPECT_NE(header.error().message().find(wrong.name), std::string::npos);
  }
  const std::vector<SafeTensor> twice = {{"a", "U8", {1}, 1}, {"a", "U8", {1}, 1}};
  EXPECT_FALSE(safetensors_header(twice, {}));
}

TEST(Safetensors, AHeaderIsReadAgain) {
  const std::vector<SafeTensor> tensors = {
      {"b.weight", "F32", {2, 3}, 24}, {"a", "I64", {}, 8}, {"none", "F64", {0}, 0}};
  const std::string header = safetensors_header(tensors, {{"format", "pt"}}).value();
  const auto read = parse_safetensors_header(header + std::string(32, 'x')).value();
  EXPECT_EQ(read.bytes, header.size());
  ASSERT_EQ(read.tensors.size(), 3U);
  EXPECT_EQ(read.tensors[0].name, "b.weight");
  EXPECT_EQ(read.tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(read.tensors[1].dtype, "I64");
  EXPECT_EQ(read.tensors[2].name, "none");
}

TEST(Safetensors, ADamagedFileIsRefused) {
  const auto file = [](std::string json, std::size_t bytes) {
    std::string text;
    append_little<std::uint64_t>(text, json.size());
    return text + json + std::string(bytes, 'x');
  };
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  ASSERT_TRUE(parse_safetensors_header(file(good, 8)));
  for (
      const std::string& bad :
      {std::string("1234567"), std::string(8, '\xff'), file(good, 7), file(good, 9), file("[]", 0), file("{", 0),
       file(good, 8).substr(0, 30), file(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8),
       file(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
       file(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
       file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
       file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})", 16),
       file(
           R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
           8),
       file(R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", 8), file(R"({"a":8})", 8)}) {
    const auto read = parse_safetensors_header(bad);
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error().code(), Code::kDataLoss);
  }
}

// {"w": tensor} as Python's pickle writes it, of a storage of `elements` floats.
std::string pickled(std::string_view shape, std::string_view strides, char elements,
                    std::string_view offset = "K\x01") {
  using std::string_literals::operator""s;
  return "\x80\x02}(X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"s +
         "X\x01\0\0\0"s + "0" + "X\x03\0\0\0"s + "cpuK" + elements + "tQ" + std::string(offset) + std::string(shape) +
         std::string(strides) + "\x89" + "ccollections\nOrderedDict\n)RtRu.";
}

TEST(StateDict, TensorsAreReadAndBoundsChecked) {
  const auto read = parse_state_dict(pickled("K\x02K\x03\x86", "K\x03K\x01\x86", 7));
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), 1U);
  const StoredTensor& tensor = read->front();
  EXPECT_EQ(tensor.name, "w");
  EXPECT_EQ(tensor.dtype, "F32");
  EXPECT_EQ(tensor.record, "0");
  EXPECT_EQ(tensor.offset, 1);
  EXPECT_EQ(tensor.storage_elements, 7);
  EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(tensor.strides, (std::vector<std::int64_t>{3, 1}));
  for (const auto& bad : {pickled("K\x02K\x03\x86", "K\x03K\x01\x86", 6),              // one element too many
                          pickled("K\x02K\x03\x86", "K\x04K\x01\x86", 7),              // the last one beyond
                          pickled("K\xffK\x03\x86", std::string("K\0K\0\x86", 5), 7),  // many from few
                          pickled("J\xff\xff\xff\xff\x85", "K\x01\x85", 7),            // a negative size
                          pickled("K\x02\x85", "K\x01\x85", 7, "J\xff\xff\xff\xff"), pickled("K\x02\x85", ")", 7)}) {
    const auto refused = parse_state_dict(bad);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kDataLoss);
    EXPECT_NE(refused.error().message().find("beyond its bytes"), std::string::npos) << refused.error().message();
  }
}

TEST(StateDict, OtherPicklesAreRefused) {
  const std::string whole = pickled("K\x02\x85", "K\x01\x85", 7);
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(parse_state_dict(whole.substr(0, length))) << length;
  const auto code = parse_state_dict(
      "\x80\x02"
      "cos\nsystem\n(X\x04\x00\x00\x00trueR.");
  ASSERT_FALSE(code);
  const std::string call = std::string(
      "\x80\x02"
      "cos\nsystem\n)R.");
  EXPECT_NE(parse_state_dict(call).error().message().find("it holds os.system; only"), std::string::npos);
  // A dictionary within itself, and values within values.
  EXPECT_FALSE(parse_state_dict(std::string("}q\x01X\x01\x00\x00\x00wh\x01s.", 13)));
  EXPECT_FALSE(parse_state_dict("}X" + std::string("\x01\x00\x00\x00wN", 6) + std::string(100'000, '\x85') + "s."));
}

TEST(ExportedFile, TheEndingSaysTheFormat) {
  EXPECT_EQ(check_export_name("a/model.pt").value(), ExportFormat::kTorch);
  EXPECT_EQ(check_export_name("model.pth").value(), ExportFormat::kTorch);
  EXPECT_EQ(check_export_name("model.v2.safetensors").value(), ExportFormat::kSafetensors);
  for (const char* name : {"model", "model.onnx", "model.pt/", ".pt"}) EXPECT_FALSE(check_export_name(name)) << name;
}

TEST_F(FolderTest, ACheckpointIsFoundByFileFolderAndRun) {
  const std::string checkpoints = folder_ + "/checkpoints";
  const std::string run = folder_ + "/run";
  EXPECT_NE(find_checkpoint(run).error().message().find("there is no " + run), std::string::npos);
  ASSERT_TRUE(RunFolder::open(run, 0)->started({}));
  EXPECT_NE(find_checkpoint(run).error().message().find("--checkpoint"), std::string::npos);
  ASSERT_TRUE(RunFolder::open(run, 0)->started({.checkpoints = checkpoints}));
  EXPECT_NE(find_checkpoint(run).error().message().find(checkpoints), std::string::npos);
  fs::create_directories(checkpoints);
  for (const int step : {5, 20}) ASSERT_TRUE(write_sections(checkpoint_path(checkpoints, step), {}));
  const std::string newest = checkpoint_path(checkpoints, 20);
  EXPECT_EQ(find_checkpoint(run).value(), newest);
  EXPECT_EQ(find_checkpoint(checkpoints).value(), newest);
  EXPECT_EQ(find_checkpoint(checkpoint_path(checkpoints, 5)).value(), checkpoint_path(checkpoints, 5));
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
