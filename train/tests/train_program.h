// Runs xoe-train, alone or as a group, and reads its output.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "train/tests/program.h"
#include "train/trainer/checkpoint_file.h"
#include "train/trainer/files.h"

namespace xoe::train {

using Arguments = std::vector<std::string>;
using xoe::testing::file_text;
using xoe::testing::Program;

struct Ended {
  int code = -1;
  std::string out;
  std::string err;
};

class TrainProgramTest : public xoe::testing::ProgramTest {
 protected:
  // Arguments for a quick run; `more` must not repeat these.
  static Arguments quick(const Arguments& what, const Arguments& more) {
    Arguments words = {
        xoe::testing::bin("xoe-train"), "--batch", "4", "--threads", "1", "--report-every", "1", "--device", "cpu"};
    words.insert(words.end(), what.begin(), what.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  static Arguments small(const Arguments& more, const std::string& model = "mlp", int image_size = 8) {
    return quick({"--synthetic", "--model", model, "--classes", "10", "--image-size", std::to_string(image_size)},
                 more);
  }

  Ended run(const Arguments& words) {
    Program program(at("one"), words);
    const int code = program.wait();
    return {code, program.out(), program.err()};
  }

  // Starts all ranks of a group.
  std::vector<std::unique_ptr<Program>> start(int size, const Arguments& words) {
    return start(std::vector<Arguments>(static_cast<std::size_t>(size), words));
  }
  // The same, each with arguments of its own.
  std::vector<std::unique_ptr<Program>> start(const std::vector<Arguments>& words) {
    const auto size = static_cast<int>(words.size());
    const std::string job = "train-test-" + std::to_string(::getpid()) + "-" + std::to_string(groups_++);
    std::vector<std::unique_ptr<Program>> ranks;
    for (int rank = 0; rank < size; ++rank) {
      const std::string r = std::to_string(rank);
      const std::string n = std::to_string(size);
      ranks.push_back(std::make_unique<Program>(
          at("rank" + r), words[static_cast<std::size_t>(rank)],
          Arguments{"XOE_RANK=" + r, "XOE_SIZE=" + n, "XOE_LOCAL_RANK=" + r, "XOE_LOCAL_SIZE=" + n, "XOE_CROSS_RANK=0",
                    "XOE_CROSS_SIZE=1", "XOE_JOB=" + job}));
    }
    return ranks;
  }

  void run_group(int size, const Arguments& words, int expected = 0) {
    for (auto& rank : start(size, words)) {
      const int code = rank->wait();
      EXPECT_EQ(code, expected) << rank->out() << rank->err();
    }
  }

  std::vector<nlohmann::json> metrics(const std::string& folder, const std::string& event) const {
    std::vector<nlohmann::json> found;
    std::ifstream file(at(folder) + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      EXPECT_TRUE(json.is_object()) << line;
      if (json.value("event", "") == event) found.push_back(json);
    }
    return found;
  }

  // Of the runs "whole" and "parts".
  void expect_same_checkpoint(std::int64_t step) const {
    const auto read = [&](const std::string& folder) {
      const std::string path = checkpoint_path(at(folder), step);
      const auto bytes = read_file(path);
      return bytes ? unpack_sections(*bytes, path) : failure(bytes.error());
    };
    const auto whole = read("whole/checkpoints");
    const auto parts = read("parts/checkpoints");
    ASSERT_TRUE(whole) << whole.error().to_string();
    ASSERT_TRUE(parts) << parts.error().to_string();
    for (const auto& [name, content] : *whole) {
      // libtorch names the entries of an optimizer's archive by addresses.
      if (name != "optimizer") {
        EXPECT_TRUE(parts->at(name) == content) << name;
      }
    }
  }

  std::map<std::int64_t, double> losses(const std::string& folder) const {
    std::map<std::int64_t, double> by_step;
    for (const auto& report : metrics(folder, "report")) by_step[report["step"]] = report["loss"];
    return by_step;
  }

 private:
  int groups_ = 0;
};

}  // namespace xoe::train
