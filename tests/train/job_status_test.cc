// What Kubeflow Trainer is told of a run, and how often.
#include "train/job_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace xoe::train {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using Variables = std::map<std::string, std::string, std::less<>>;
using Clock = std::chrono::steady_clock;

TEST(StatusJson, IsWhatTheServerReads) {
  const Json json = Json::parse(status_json(
      {.step = 45, .total = 100, .remaining = 61.2, .loss = 0.2347, .images_per_second = 1234.5, .accuracy = 0.5},
      1737628245));
  const Json& status = json.at("trainerStatus");
  EXPECT_EQ(status.at("progressPercentage"), 45);
  EXPECT_EQ(status.at("estimatedRemainingSeconds"), 62);
  EXPECT_EQ(status.at("lastUpdatedTime"), "2025-01-23T10:30:45Z");
  std::map<std::string, std::string> metrics;
  for (const Json& metric : status.at("metrics")) metrics[metric.at("name")] = metric.at("value");
  EXPECT_EQ(metrics, (std::map<std::string, std::string>{
                         {"loss", "0.2347"}, {"accuracy", "0.5"}, {"images_per_second", "1234.5"}, {"step", "45"}}));
}

TEST(StatusJson, LeavesOutWhatIsNotKnown) {
  const Json status = Json::parse(status_json({.loss = std::numeric_limits<double>::quiet_NaN(),
                                               .images_per_second = std::numeric_limits<double>::infinity()},
                                              0))
                          .at("trainerStatus");
  EXPECT_FALSE(status.contains("progressPercentage"));
  EXPECT_FALSE(status.contains("estimatedRemainingSeconds"));
  EXPECT_EQ(status.at("metrics").size(), 1U);
  const Json far = Json::parse(status_json({.step = 9, .total = 3, .remaining = 1e30}, 0)).at("trainerStatus");
  EXPECT_EQ(far.at("progressPercentage"), 100);
  EXPECT_EQ(far.at("estimatedRemainingSeconds"), 2147483647);
}

TEST(StatusServerOf, ATrainJobsVariables) {
  EXPECT_FALSE(find_status_server(Env()));
  const auto server = find_status_server(Env(Variables{{"KUBEFLOW_TRAINER_SERVER_URL", "https://a/status"},
                                                       {"KUBEFLOW_TRAINER_SERVER_CA_CERT", "/ca"},
                                                       {"KUBEFLOW_TRAINER_SERVER_TOKEN", "/token"}}));
  ASSERT_TRUE(server);
  EXPECT_EQ(server->url, "https://a/status");
  EXPECT_EQ(server->ca_file, "/ca");
  EXPECT_EQ(server->token_file, "/token");
}

// Posts that were made, and when.
struct Posts {
  std::mutex mutex;
  std::vector<std::pair<Clock::time_point, std::int64_t>> made;

  JobStatus::Post into(Status answer = {}) {
    return [this, answer](const StatusServer&, const std::string& json) {
      const std::lock_guard lock(mutex);
      const Json metrics = Json::parse(json).at("trainerStatus").at("metrics");
      made.emplace_back(Clock::now(), std::stoll(metrics.back().at("value").get<std::string>()));
      return answer;
    };
  }
};

TEST(JobStatus, PostsTheNewestEveryNowAndThenAndTheLast) {
  Posts posts;
  {
    JobStatus status({}, posts.into(), 100ms);
    for (int step = 1; step <= 500; ++step) {
      status.update({.step = step, .total = 500});
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(status.failure(), "");
  }
  ASSERT_GE(posts.made.size(), 3U);
  EXPECT_LE(posts.made.size(), 20U);
  EXPECT_EQ(posts.made.back().second, 500);
  for (std::size_t i = 1; i + 1 < posts.made.size(); ++i) {
    EXPECT_GE(posts.made[i].first - posts.made[i - 1].first, 100ms);
    EXPECT_GT(posts.made[i].second, posts.made[i - 1].second);
  }
}

TEST(JobStatus, TellsOfTheFirstFailureOnceAndGoesOn) {
  Posts posts;
  JobStatus status({.url = "https://a/status"}, posts.into(failure(Code::kUnavailable, "HTTP 403")), 1ms);
  std::vector<std::string> told;
  for (int step = 1; step <= 100; ++step) {
    status.update({.step = step});
    std::this_thread::sleep_for(2ms);
    if (auto why = status.failure(); !why.empty()) told.push_back(std::move(why));
  }
  EXPECT_THAT(told, testing::ElementsAre(testing::HasSubstr("https://a/status: HTTP 403")));
  const std::lock_guard lock(posts.mutex);
  EXPECT_GT(posts.made.size(), 5U);
}

TEST(JobStatus, ASlowServerDelaysOnlyTheEndAndNotForLong) {
  std::atomic<int> begun = 0;
  const auto slow = [&begun](const StatusServer&, const std::string&) -> Status {
    ++begun;
    std::this_thread::sleep_for(3s);
    return {};
  };
  auto status = std::make_unique<JobStatus>(StatusServer(), slow, 1ms);
  const auto began = Clock::now();
  for (int step = 1; step <= 1000; ++step) status->update({.step = step});
  EXPECT_LT(Clock::now() - began, 1s);
  status.reset();
  EXPECT_LT(Clock::now() - began, 6s);
  EXPECT_EQ(begun, 1);
}

}  // namespace
}  // namespace xoe::train
