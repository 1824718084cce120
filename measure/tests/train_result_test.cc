// Results of `xoe bench train` as text and as JSON.
#include "measure/cli/train_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/testing/scratch.h"

namespace xoe::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TrainResult example() {
  TrainResult result;
  result.model = "resnet50";
  result.image_size = "224";
  result.optimizer = "momentum";
  result.parameters = 25'557'032;
  result.batch = 64;
  result.ranks = 4;
  result.hosts = 2;
  result.local_ranks = 2;
  result.backend = "hierarchical";
  result.num_batches = 100;
  result.repeats = {{.images_per_s = 1000, .uncertainty = 2, .jitter = 3, .step_ms = 256, .loss = 6.9},
                    {.images_per_s = 1010, .uncertainty = 2, .jitter = 3, .step_ms = 253.5, .loss = 6.8}};
  result.parts = {
      .input = 1, .forward = 80, .backward = 160, .exposed = 10, .optimizer = 3, .rest = 0.75, .hidden = 40};
  result.reduced_step_bytes = 102'000'000;
  result.sent_step_bytes = 153'000'000;
  result.environment = R"({"host":"a"})";
  return result;
}

class BenchResult : public ::testing::Test {
 protected:
  std::string write(const std::string& text) {
    const std::string path = scratch_.file("result.json");
    std::ofstream(path) << text;
    return path;
  }
  Scratch scratch_;
};

TEST_F(BenchResult, LinesAreThoseOfTfCnnBenchmarks) {
  EXPECT_EQ(step_line(10, example().repeats[0]), "10\timages/sec: 1000.0 +/- 2.0 (jitter = 3.0)\t6.900");
  EXPECT_THAT(total_lines(example().repeats[0]), HasSubstr("---\ntotal images/sec: 1000.00\n---"));
}

TEST_F(BenchResult, HasTheColumnsOfTimm) {
  const auto json = to_json(example());
  EXPECT_EQ(json["model"], "resnet50");
  EXPECT_EQ(json["train_samples_per_sec"], 1005.0);
  EXPECT_EQ(json["train_step_time"], 254.75);
  EXPECT_EQ(json["train_fwd_time"], 80.0);
  EXPECT_EQ(json["train_batch_size"], 64);
  EXPECT_EQ(json["train_img_size"], 224);
  EXPECT_EQ(json["param_count"], 25.56);
  EXPECT_EQ(json["environment"]["host"], "a");
}

TEST_F(BenchResult, ForwardOnlyIsCalledInfer) {
  TrainResult result = example();
  result.mode = "forward-only";
  const auto json = to_json(result);
  EXPECT_EQ(json["infer_samples_per_sec"], 1005.0);
  EXPECT_FALSE(json.contains("train_samples_per_sec"));
  EXPECT_THAT(summary_lines(result), Not(HasSubstr("backward")));
}

TEST_F(BenchResult, EveryOutputTellsOfAnEmulation) {
  TrainResult result = example();
  EXPECT_THAT(head_lines(result) + summary_lines(result), Not(HasSubstr("EMULATION")));
  result.emulated_images_per_s = 2700;
  EXPECT_THAT(head_lines(result), HasSubstr("EMULATION: each rank sleeps as an accelerator of 2700 images/s"));
  EXPECT_THAT(summary_lines(result), HasSubstr("EMULATION"));
  EXPECT_EQ(to_json(result)["emulated_images_per_s"], 2700.0);
}

TEST_F(BenchResult, IsReadAsItWasWritten) {
  auto read = read_train_result(write(to_json(example()).dump()));
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->model, "resnet50");
  EXPECT_EQ(read->ranks, 4);
  EXPECT_EQ(read->hosts, 2);
  EXPECT_EQ(read->batch, 64);
  EXPECT_EQ(read->reduced_step_bytes, 102'000'000U);
  EXPECT_EQ(read->speeds(), (std::vector<double>{1000, 1010}));
  EXPECT_EQ(read->parts.hidden, 40);
  EXPECT_EQ(read->repeats[1].step_ms, 253.5);
  EXPECT_EQ(read->environment, R"({"host":"a"})");
  read->environment.clear();
  EXPECT_FALSE(to_json(*read).contains("environment"));
}

TEST_F(BenchResult, ErrorsNameTheFileAndWhatIsWrong) {
  const auto message = [this](const nlohmann::ordered_json& json) {
    const auto read = read_train_result(write(json.dump()));
    return read ? "" : read.error().message();
  };
  EXPECT_THAT(message({{"benchmark", "another"}}), HasSubstr("result.json: this is no result of `xoe bench train`"));
  EXPECT_THAT(message(nlohmann::ordered_json::array()), HasSubstr("this is no result"));
  for (const char* name : {"model", "parameters", "topology", "step_parts_ms", "repeats", "train_batch_size"}) {
    auto json = to_json(example());
    json.erase(name);
    EXPECT_THAT(message(json), HasSubstr(name));
    json[name] = -1;
    EXPECT_THAT(message(json), Not(::testing::IsEmpty())) << name;
  }
  auto json = to_json(example());
  json["repeats"][1]["images_per_s"] = 0;
  EXPECT_THAT(message(json), HasSubstr("a repeat is broken"));
  json = to_json(example());
  json["topology"]["ranks"] = 1e12;
  EXPECT_THAT(message(json), HasSubstr("a bad ranks"));
  const auto none = read_train_result("/nonexistent/a.json");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message(), HasSubstr("/nonexistent/a.json: cannot read it"));
}

}  // namespace
}  // namespace xoe::bench
