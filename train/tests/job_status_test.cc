// What Kubeflow Trainer is told of a run, and how often.
#include "train/trainer/job_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/error.h"

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

std::int64_t step_of(const std::string& json) {
  return std::stoll(Json::parse(json).at("trainerStatus").at("metrics").back().at("value").get<std::string>());
}

// The steps of posts that were made.
struct Posts {
  std::mutex mutex;
  std::vector<std::int64_t> made;

  JobStatus::Post into(Status answer = {}) {
    return [this, answer](const StatusServer&, const std::string& json, std::chrono::milliseconds,
                          const std::stop_token&) {
      const std::lock_guard lock(mutex);
      made.push_back(step_of(json));
      return answer;
    };
  }
};

TEST(JobStatus, PostsTheNewestEveryNowAndThenAndTheLast) {
  Posts posts;
  const auto start = Clock::now();
  {
    JobStatus status({}, posts.into(), {.every = 100ms});
    for (int step = 1; step <= 500; ++step) {
      status.update({.step = step, .total = 500});
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(status.failure(), "");
    EXPECT_EQ(status.finish(), "");
  }
  ASSERT_GE(posts.made.size(), 3U);
  // The first at once, the last at the end; a busy machine may note one late, and the next in time.
  EXPECT_LE(posts.made.size(), 2 + (Clock::now() - start) / 100ms);
  EXPECT_EQ(posts.made.back(), 500);
  for (std::size_t i = 1; i + 1 < posts.made.size(); ++i) EXPECT_GT(posts.made[i], posts.made[i - 1]);
}

TEST(JobStatus, TellsOfTheFirstFailureOnceAndGoesOn) {
  Posts posts;
  JobStatus status({.url = "https://a/status"}, posts.into(failure(Code::kUnavailable, "HTTP 403")), {.every = 1ms});
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

// The first attempt hangs until it is told to stop, or, if `deaf`, for as long as `hangs`; later ones are answered.
struct HangingServer {
  bool deaf = false;
  std::chrono::milliseconds hangs = 60s;
  std::mutex mutex;
  std::vector<std::int64_t> steps;

  static JobStatus::Post of(const std::shared_ptr<HangingServer>& server) {
    return [server](const StatusServer&, const std::string& json, std::chrono::milliseconds,
                    const std::stop_token& stop) -> Status {
      std::unique_lock lock(server->mutex);
      server->steps.push_back(step_of(json));
      const bool first = server->steps.size() == 1;
      lock.unlock();
      const auto until = Clock::now() + server->hangs;
      while (first && Clock::now() < until && (server->deaf || !stop.stop_requested()))
        std::this_thread::sleep_for(10ms);
      if (first) return failure(Code::kUnavailable, "stopped");
      return {};
    };
  }
  std::vector<std::int64_t> posted() {
    const std::lock_guard lock(mutex);
    return steps;
  }
};

// Waits until the thread has taken the first update.
void await_first(HangingServer& server) {
  while (server.posted().empty()) std::this_thread::sleep_for(1ms);
}

TEST(JobStatus, TheLastSupersedesAnOlderPostThatHangs) {
  const auto server = std::make_shared<HangingServer>();
  JobStatus status({}, HangingServer::of(server), {.every = 1ms});
  status.update({.step = 1});
  await_first(*server);
  status.update({.step = 2});
  status.update({.step = 3});
  const auto began = Clock::now();
  EXPECT_EQ(status.finish(), "");
  EXPECT_LT(Clock::now() - began, server->hangs - 5s);
  EXPECT_THAT(server->posted(), testing::ElementsAre(1, 3));
}

TEST(JobStatus, TheLastIsPostedAgainWhereItFails) {
  std::atomic<int> attempts = 0;
  std::atomic<std::int64_t> step = 0;
  const auto post = [&](const StatusServer&, const std::string& json, std::chrono::milliseconds limit,
                        const std::stop_token&) -> Status {
    EXPECT_GT(limit, 0ms);
    step = step_of(json);
    if (++attempts < 4) return failure(Code::kUnavailable, "HTTP 503");
    return {};
  };
  JobStatus status({}, post, {.every = 1h});
  status.update({.step = 9});
  while (attempts < 1) std::this_thread::sleep_for(1ms);
  status.update({.step = 10});
  EXPECT_EQ(status.finish(), "");
  EXPECT_EQ(attempts, 4);
  EXPECT_EQ(step, 10);
}

TEST(JobStatus, ALastPostThatFailedBeforeTheEndIsMadeOnceMore) {
  std::atomic<int> attempts = 0;
  const auto post = [&](const StatusServer&, const std::string&, std::chrono::milliseconds,
                        const std::stop_token&) -> Status {
    if (++attempts == 1) return failure(Code::kUnavailable, "HTTP 503");
    return {};
  };
  JobStatus status({}, post, {.every = 1h});
  status.update({.step = 10});
  while (status.failure().empty()) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(status.finish(), "");
  EXPECT_EQ(attempts, 2);
}

TEST(JobStatus, ARefusalOfTheLastIsFinal) {
  Posts posts;
  JobStatus status({.url = "https://a/status"}, posts.into(failure(Code::kInvalidArgument, "HTTP 403")), {.every = 1h});
  status.update({.step = 1});
  while (status.failure().empty()) std::this_thread::sleep_for(1ms);
  status.update({.step = 2});
  EXPECT_EQ(status.finish(),
            "the last status of the TrainJob was not posted to https://a/status: HTTP 403; none has arrived");
  EXPECT_THAT(posts.made, testing::ElementsAre(1, 2));
}

TEST(JobStatus, TheEndIsBoundedAlsoWhereAnAttemptCannotBeStopped) {
  std::atomic<int> attempts = 0;
  const auto server = std::make_shared<HangingServer>();
  server->deaf = true;
  server->hangs = 10s;
  const auto post = [&attempts, slow = HangingServer::of(server)](const StatusServer& to, const std::string& json,
                                                                  std::chrono::milliseconds limit,
                                                                  const std::stop_token& stop) -> Status {
    if (step_of(json) == 1) return {};
    ++attempts;
    return slow(to, json, limit, stop);
  };
  const auto began = Clock::now();
  {
    JobStatus status({.url = "https://a/status"}, post, {.every = 1ms, .last = 1200ms, .stop = 300ms});
    status.update({.step = 1});
    std::this_thread::sleep_for(100ms);
    status.update({.step = 2});
    await_first(*server);
    for (int step = 3; step <= 1000; ++step) status.update({.step = step});
    EXPECT_LT(Clock::now() - began, server->hangs - 1s);
    EXPECT_EQ(status.finish(),
              "the last status of the TrainJob was not posted to https://a/status: no answer within 1.2 s; the newest "
              "that arrived is of step 1");
  }
  EXPECT_LT(Clock::now() - began, server->hangs - 1s);
  // The thread that was left behind ends by itself, and makes no further attempt.
  while (server.use_count() > 2) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(attempts, 1);
}

TEST(JobStatus, ARunThatFailsDoesNotWait) {
  const auto server = std::make_shared<HangingServer>();
  const auto began = Clock::now();
  {
    JobStatus status({}, HangingServer::of(server), {.every = 1ms});
    status.update({.step = 1});
    await_first(*server);
    status.update({.step = 2});
  }
  EXPECT_LT(Clock::now() - began, server->hangs - 1s);
  EXPECT_THAT(server->posted(), testing::ElementsAre(1));
}

}  // namespace
}  // namespace xoe::train
