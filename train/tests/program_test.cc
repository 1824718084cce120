// xoe-train as users meet it: alone, with several ranks, interrupted, and with bad input.
#include <gtest/gtest.h>

#include <algorithm>

#include "train/tests/train_program.h"

namespace xoe::train {
namespace {

TEST_F(TrainProgramTest, TrainsAloneAndReports) {
  const Ended ended = run(small({"--steps", "5", "--run-dir", at("run"), "--summary", "demo"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("images/sec: "), std::string::npos);
  EXPECT_NE(ended.out.find("total images/sec: "), std::string::npos);
  EXPECT_NE(ended.out.find("demo: accuracy=none images_per_s="), std::string::npos);
  EXPECT_EQ(ended.out.find('\r'), std::string::npos) << "no progress bar in a file";
  EXPECT_TRUE(ended.err.empty()) << ended.err;
  EXPECT_EQ(metrics("run", "report").size(), 5U);
  EXPECT_EQ(metrics("run", "end").size(), 1U);
  EXPECT_TRUE(file_text(at("run/curve.svg")).ends_with("</svg>\n"));
  EXPECT_NE(file_text(at("run/environment.json")).find("\"libtorch\": \"2."), std::string::npos);
}

TEST_F(TrainProgramTest, ASecondRunDoesNotOverwriteTheFirst) {
  ASSERT_EQ(run(small({"--steps", "2", "--run-dir", at("run")})).code, 0);
  const std::string before = file_text(at("run/metrics.jsonl"));
  const Ended second = run(small({"--steps", "2", "--run-dir", at("run")}));
  EXPECT_EQ(second.code, 1);
  EXPECT_TRUE(second.err.starts_with("error: invalid_argument: " + at("run") + " already holds a run")) << second.err;
  EXPECT_NE(second.err.find("--run-dir " + at("run-2")), std::string::npos) << second.err;
  EXPECT_EQ(std::count(second.err.begin(), second.err.end(), '\n'), 1) << second.err;
  EXPECT_EQ(file_text(at("run/metrics.jsonl")), before);
}

TEST_F(TrainProgramTest, WholeNumbersAreDecimal) {
  ASSERT_EQ(run(quick({"--synthetic", "--model", "mlp"}, {"--classes", "010", "--image-size", "08", "--steps", "002",
                                                          "--max-bad", "08", "--run-dir", at("run")}))
                .code,
            0);
  for (const char* name : {"--steps", "--max-bad"}) {
    for (const char* number : {" 010", "0x10", "-", ""}) {
      const Ended refused = run(quick({"--synthetic", "--model", "mlp"}, {name, number}));
      EXPECT_EQ(refused.code, 2) << name << " " << number;
      EXPECT_NE(refused.err.find(name), std::string::npos) << refused.err;
    }
  }
  const auto started = metrics("run", "start");
  ASSERT_EQ(started.size(), 1U);
  EXPECT_EQ(started[0]["classes"], 10);
  EXPECT_EQ(started[0]["image_size"], 8);
  EXPECT_EQ(started[0]["total_steps"], 2);
}

TEST_F(TrainProgramTest, WhatCannotBeExportedIsOneLine) {
  const std::string train = xoe::testing::bin("xoe-train");
  const std::string folder = at("checkpoints");
  ASSERT_EQ(run(small({"--steps", "1", "--checkpoint", folder})).code, 0);
  const std::string path = checkpoint_path(folder, 1);
  const std::string whole = file_text(path);
  std::ofstream(at("mine.pt")) << "mine";
  std::ofstream(at("cut.ckpt"), std::ios::binary) << whole.substr(0, whole.size() - 1);
  std::ofstream(at("text.ckpt")) << "no checkpoint at all";
  ASSERT_TRUE(write_sections(at("empty.ckpt"), {{"meta", "{}"}, {"model", ""}}));
  ASSERT_TRUE(write_sections(
      at("strange.ckpt"),
      {{"meta", R"({"step":1,"run":{"model":"mlp","classes":2,"image size":8}})"}, {"model", "no archive"}}));
  struct Case {
    std::string run, file;
    int code;
    std::string says;
  };
  const std::vector<Case> cases = {
      {folder, at("model.onnx"), 2, ".safetensors"},
      {folder, at("model"), 2, ".safetensors"},
      {at("nowhere"), at("new.pt"), 1, "there is no " + at("nowhere")},
      {at(""), at("new.pt"), 1, "--checkpoint"},
      {folder, at("mine.pt"), 1, "mine.pt exists"},
      {folder, at("no/such/folder.pt"), 1, "no/such/folder.pt"},
      {at("cut.ckpt"), at("new.pt"), 1, "cut.ckpt is cut short"},
      {at("text.ckpt"), at("new.pt"), 1, "text.ckpt is not a checkpoint"},
      {at("empty.ckpt"), at("new.safetensors"), 1, "empty.ckpt is damaged"},
      {at("strange.ckpt"), at("new.pt"), 1, "strange.ckpt"},
  };
  for (const Case& one : cases) {
    const Ended ended = run({train, "export", one.run, one.file});
    EXPECT_EQ(ended.code, one.code) << one.says << ": " << ended.err;
    EXPECT_NE(ended.err.find(one.says), std::string::npos) << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    EXPECT_TRUE(ended.out.empty()) << ended.out;
  }
  EXPECT_EQ(file_text(at("mine.pt")), "mine");
  for (const auto& entry : std::filesystem::directory_iterator(at("")))
    EXPECT_EQ(entry.path().filename().string().find("new."), std::string::npos) << entry.path();
}

TEST_F(TrainProgramTest, AnExportOntoAFullDiskLeavesNothing) {
  const std::string folder = at("checkpoints");
  ASSERT_EQ(run(small({"--steps", "1", "--checkpoint", folder})).code, 0);
  std::filesystem::create_directories(at("weights"));
  for (const char* name : {"w.pt", "w.safetensors"}) {
    const Ended ended = run({"/bin/sh", "-c", R"(ulimit -f 8; exec "$@")", "sh", xoe::testing::bin("xoe-train"),
                             "export", folder, at("weights/") + name});
    EXPECT_EQ(ended.code, 1) << ended.err;
    EXPECT_TRUE(ended.err.starts_with("error: resource_exhausted: ")) << ended.err;
    EXPECT_TRUE(std::filesystem::is_empty(at("weights")));
  }
}

TEST_F(TrainProgramTest, JsonLinesAreJson) {
  const Ended ended = run(small({"--steps", "2", "--json"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  std::stringstream lines(ended.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_TRUE(nlohmann::json::parse(line, nullptr, false).is_object()) << line;
  }
  EXPECT_EQ(count, 4);  // start, two reports, end
}

TEST_F(TrainProgramTest, RanksWriteOneTimeline) {
  const std::string timeline = at("a-new/folder/timeline.json");
  run_group(2, small({"--steps", "4", "--timeline", timeline}));
  const auto json = nlohmann::json::parse(file_text(timeline), nullptr, false);
  ASSERT_TRUE(json.is_object());
  std::map<int, std::map<std::string, int>> events;
  for (const auto& event : json["traceEvents"]) {
    const std::string name = event["name"];
    if (event["ph"] == "X") ++events[event["pid"]][name];
    if (event["ph"] == "b" && event["cat"] == "negotiate" && name.find(".bucket ") != name.npos)
      ++events[event["pid"]]["bucket"];
  }
  for (const int rank : {0, 1}) {
    for (const char* name : {"forward", "backward", "optimizer", "input wait"})
      EXPECT_EQ(events[rank][name], 4) << name;
    EXPECT_GE(events[rank]["bucket"], 4);
    EXPECT_GE(events[rank]["allreduce 'step sums'"] + events[rank]["step sums"], 4);
  }
}

TEST_F(TrainProgramTest, ASignalToOneRankStopsAllCleanly) {
  const std::string folder = at("checkpoints");
  const auto words =
      small({"--steps", "1000000", "--checkpoint", folder, "--timeline", at("t.json"), "--run-dir", at("run")});
  auto ranks = start(2, words);
  ASSERT_TRUE(ranks[0]->wait_for("\n20 ")) << ranks[0]->out() << ranks[0]->err();
  ranks[1]->signal(SIGINT);
  for (auto& rank : ranks) EXPECT_EQ(rank->wait(), 130) << rank->err();
  EXPECT_NE(ranks[0]->out().find("interrupted at step"), std::string::npos);
  const auto stored = list_checkpoints(folder).value();
  ASSERT_EQ(stored.size(), 1U);
  EXPECT_EQ(metrics("run", "end").at(0)["step"], stored[0].step);
  EXPECT_TRUE(nlohmann::json::parse(file_text(at("t.json")), nullptr, false).is_object());

  // And it goes on from there.
  const auto again = small({"--steps", std::to_string(stored[0].step + 3), "--checkpoint", folder, "--resume"});
  run_group(2, again);
  EXPECT_EQ(list_checkpoints(folder).value().back().step, stored[0].step + 3);
}

// `timeout` sends its signal to the process and to the group.
TEST_F(TrainProgramTest, ADoubledSignalIsOneASecondSignalEndsAtOnce) {
  // A step that takes a while.
  const Arguments slow =
      small({"--steps", "1000000", "--accumulate", "60", "--checkpoint", at("checkpoints")}, "resnet18", 32);
  Program doubled(at("doubled"), slow);
  ASSERT_TRUE(doubled.wait_for("steps 1 to")) << doubled.err();
  doubled.signal(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  doubled.signal(SIGTERM);
  EXPECT_EQ(doubled.wait(), 130);
  EXPECT_EQ(list_checkpoints(at("checkpoints")).value().size(), 1U);

  Arguments again = slow;
  again.push_back("--resume");
  Program ended(at("ended"), again);
  ASSERT_TRUE(ended.wait_for("steps 2 to")) << ended.err();
  ended.signal(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  ended.signal(SIGTERM);
  EXPECT_EQ(ended.wait(), -SIGTERM);
}

TEST_F(TrainProgramTest, ADeadPeerEndsTheOthersWithItsName) {
  auto ranks = start(3, small({"--steps", "1000000", "--timeline", at("t.json")}));
  ASSERT_TRUE(ranks[0]->wait_for("\n20 ")) << ranks[0]->out() << ranks[0]->err();
  const auto dead = ranks[1]->pid();
  ranks[1]->signal(SIGKILL);
  for (const std::size_t rank : {0U, 2U}) {
    EXPECT_EQ(ranks[rank]->wait(), 1);
    const std::string error = ranks[rank]->err();
    EXPECT_NE(error.find("error: peer_lost"), std::string::npos) << error;
    EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
    EXPECT_NE(error.find(std::to_string(dead)), std::string::npos) << error;
  }
  EXPECT_TRUE(nlohmann::json::parse(file_text(at("t.json")), nullptr, false).is_object());
}

TEST_F(TrainProgramTest, ALossThatIsNotFiniteEndsTheRunOnAllRanks) {
  auto ranks = start(2, small({"--steps", "1000", "--lr", "1e30"}));
  for (auto& rank : ranks) EXPECT_EQ(rank->wait(), 1);
  EXPECT_NE(ranks[0]->err().find("error: invalid_argument: the loss is"), std::string::npos) << ranks[0]->err();
  EXPECT_NE(ranks[0]->err().find("--lr"), std::string::npos);
  EXPECT_TRUE(ranks[1]->err().empty()) << "said once: " << ranks[1]->err();
}

TEST_F(TrainProgramTest, AFullDiskIsOneClearErrorAndKeepsTheOldCheckpoint) {
  const std::string folder = at("checkpoints");
  ASSERT_EQ(run(small({"--steps", "2", "--checkpoint", folder})).code, 0);
  const std::string before = file_text(checkpoint_path(folder, 2));
  Program program(at("full"), small({"--steps", "1000000", "--checkpoint", folder, "--resume"}));
  ASSERT_TRUE(program.wait_for("\n20 ")) << program.err();
  program.limit_files(100000);
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 1);
  const std::string error = program.err();
  EXPECT_TRUE(error.starts_with("error: resource_exhausted: cannot write " + folder + "/step-")) << error;
  EXPECT_NE(error.find("free some space"), std::string::npos) << error;
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()), 1);
  EXPECT_EQ(file_text(checkpoint_path(folder, 2)), before);
}

TEST_F(TrainProgramTest, AFullDiskInTheRunFolderEndsAllRanksWithOneError) {
  const auto ranks = start(2, small({"--steps", "1000000", "--run-dir", at("run"), "--timeline", at("t.json")}));
  ASSERT_TRUE(ranks[0]->wait_for("\n20 ")) << ranks[0]->err();
  ranks[0]->limit_files(4000);
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait(), 1);
  const std::string error = ranks[0]->err();
  // The timeline's file may have been full before, of which a run does not end.
  const std::size_t last = error.find("error: ");
  EXPECT_TRUE(last == 0 || error.substr(0, last).find("the timeline is incomplete") != error.npos) << error;
  EXPECT_NE(error.find("cannot write " + at("run") + "/", last), std::string::npos) << error;
  EXPECT_EQ(std::count(error.begin() + static_cast<std::ptrdiff_t>(last), error.end(), '\n'), 1) << error;
  EXPECT_TRUE(ranks[1]->err().empty()) << ranks[1]->err();
  EXPECT_FALSE(metrics("run", "report").empty());  // and every line is whole
  EXPECT_TRUE(nlohmann::json::parse(file_text(at("t.json")), nullptr, false).is_object());
}

TEST_F(TrainProgramTest, CheckpointsThatCannotBeUsedAreNamed) {
  const std::string folder = at("checkpoints");
  ASSERT_EQ(run(small({"--steps", "2", "--checkpoint", folder})).code, 0);
  const std::string path = checkpoint_path(folder, 2);

  const Ended again = run(small({"--steps", "4", "--checkpoint", folder}));
  EXPECT_EQ(again.code, 1);
  EXPECT_NE(again.err.find("--resume"), std::string::npos) << again.err;

  const Ended other = run(small({"--steps", "4", "--checkpoint", folder, "--resume", "--optimizer", "adamw"}));
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("optimizer \"sgd\", this one has \"adamw\""), std::string::npos) << other.err;

  const std::string whole = file_text(path);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << whole.substr(0, whole.size() / 2);
  const Ended cut = run(small({"--steps", "4", "--checkpoint", folder, "--resume"}));
  EXPECT_EQ(cut.code, 1);
  EXPECT_NE(cut.err.find("error: data_loss: " + path + " is cut short"), std::string::npos) << cut.err;
}

TEST_F(TrainProgramTest, BadInputIsOneLine) {
  const std::string train = xoe::testing::bin("xoe-train");
  struct Case {
    Arguments words;
    int code;
    std::string says;
  };
  const std::vector<Case> cases = {
      {{train}, 2, "--data DIR or --synthetic"},
      {{train, "--synthetic", "--batch", "0"}, 2, "--batch"},
      {{train, "--synthetic", "--batch", "many"}, 2, "--batch"},
      {{train, "--synthetic", "--nonsense"}, 2, "--nonsense"},
      {{train, "--synthetic", "--optimizer", "sdg"}, 2, "--optimizer"},
      {{train, "--synthetic", "--steps", "0"}, 2, "--steps"},
      {{train, "--data", at(""), "--epochs", "0"}, 2, "--epochs"},
      {{train, "--synthetic", "--classes", "0"}, 2, "--classes"},
      {{train, "--synthetic", "--lr", "0"}, 2, "--lr"},
      {{train, "--synthetic", "--threads", "0"}, 2, "--threads"},
      {{train, "--synthetic", "--seed", "-1"}, 2, "--seed"},
      {{train, "--synthetic", "--steps", "3", "--epochs", "1"}, 2, "--steps"},
      {{train, "--synthetic", "--model", "resnet19"}, 2, "did you mean resnet18?"},
      {{train, "--data", at("nowhere")}, 1, at("nowhere")},
      {{train, "--synthetic", "--steps", "1", "--model", "mlp", "--run-dir", "/proc/no"}, 1, "/proc/no"},
      {{train, "--synthetic", "--steps", "1", "--model", "mlp", "--timeline", "/proc/no/t"}, 1, "/proc/no/t"},
  };
  for (const Case& one : cases) {
    const Ended ended = run(one.words);
    EXPECT_EQ(ended.code, one.code) << one.says << ": " << ended.err;
    EXPECT_TRUE(ended.err.starts_with(one.code == 2 ? "xoe train: " : "error: ")) << ended.err;
    EXPECT_NE(ended.err.find(one.says), std::string::npos) << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
}

// The launcher ends the others when the first one has failed: that must not be before rank 0 has spoken, however late.
TEST_F(TrainProgramTest, WrongUsageIsToldUnderTheLauncher) {
  const std::string late = "[ $XOE_RANK = 0 ] && sleep 1.5; exec " + xoe::testing::bin("xoe-train") + " --batch many";
  const Ended ended = run({xoe::testing::bin("xoe"), "run", "-np", "3", "bash", "-c", late});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("[0] xoe train: --batch many: expected a whole number"), std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("[1] "), std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("SIGKILL"), std::string::npos) << ended.err;
}

// Mistakes are told by a program that loads in a moment.
TEST_F(TrainProgramTest, TheCommandLineIsReadWithoutLibtorch) {
  const std::string train = xoe::testing::bin("xoe-train");
  const Ended loaded = run({"env", "LD_TRACE_LOADED_OBJECTS=1", train});
  EXPECT_NE(loaded.out.find("libc.so"), std::string::npos) << loaded.out;
  EXPECT_EQ(loaded.out.find("libtorch"), std::string::npos) << loaded.out;
  EXPECT_NE(run({"env", "LD_TRACE_LOADED_OBJECTS=1", train + "er"}).out.find("libtorch"), std::string::npos);
}

// So it needs neither libtorch nor the program that is linked with it: here it stands without that.
TEST_F(TrainProgramTest, MistakesAreToldWithoutTheTrainer) {
  const std::string alone = at("xoe-train");
  std::filesystem::copy_file(xoe::testing::bin("xoe-train"), alone);
  for (const Arguments& words : std::vector<Arguments>{{"--batch", "many"},
                                                       {"--batch", "-1"},
                                                       {"--nonsense"},
                                                       {"--model", "resnet1000"},
                                                       {"--synthetic", "--steps", "0"},
                                                       {"--synthetic", "--classes", "0"},
                                                       {"--synthetic", "--seed", "-1"}}) {
    Arguments command{alone};
    command.insert(command.end(), words.begin(), words.end());
    const Ended ended = run(command);
    EXPECT_EQ(ended.code, 2) << words.back() << ": " << ended.err;
    EXPECT_TRUE(ended.err.starts_with("xoe train: ")) << ended.err;
  }
  EXPECT_EQ(run({alone, "--help"}).code, 0);
  const Ended good = run({alone, "--synthetic", "--model", "mlp"});
  EXPECT_EQ(good.code, 127);
  EXPECT_NE(good.err.find("xoe-trainer"), std::string::npos) << good.err;
}

TEST_F(TrainProgramTest, HelpNamesTheOptions) {
  const Ended ended = run({xoe::testing::bin("xoe-train"), "--help"});
  EXPECT_EQ(ended.code, 0);
  for (const char* option : {"--model", "--resume", "--timeline", "--sharded", "--ema", "--new-head",
                             "--sync-batchnorm", "--checkpoint-activations", "lamb", "fp16", "Examples"}) {
    EXPECT_NE(ended.out.find(option), std::string::npos) << option;
  }
}

}  // namespace
}  // namespace xoe::train
