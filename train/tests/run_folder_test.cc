// The folder of a run: metrics, curve, event files.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "train/tests/folder_test.h"
#include "train/trainer/checkpoint_file.h"
#include "train/trainer/event_file.h"
#include "train/trainer/files.h"
#include "train/trainer/run_folder.h"
#include "xoe/data/records.h"

namespace xoe::train {
namespace {

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

}  // namespace
}  // namespace xoe::train
