// Tells Kubeflow Trainer how a run goes on: TrainJob.status.trainerStatus (Kubeflow's proposal KEP-2779).
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/env.h"
#include "train/events.h"

namespace xoe::train {

// The facts that are told.
struct Progress {
  std::int64_t step = 0;
  std::int64_t total = 0;
  std::optional<double> remaining = {};  // seconds
  std::optional<double> loss = {};
  std::optional<double> images_per_second = {};
  std::optional<double> accuracy = {};  // of the last evaluation
};

// The request's body: {"trainerStatus": {...}}. `now`: seconds since 1970.
std::string status_json(const Progress& progress, std::int64_t now);

// Where and how to post: the variables KUBEFLOW_TRAINER_SERVER_URL, _CA_CERT and _TOKEN.
struct StatusServer {
  std::string url = {};
  std::string ca_file = {};
  std::string token_file = {};  // read each time: tokens are renewed
};
// nullopt outside of a TrainJob.
std::optional<StatusServer> find_status_server(const Env& env);

// Posts in a thread of its own, at most every 5 s, and what is newest then. Failures never reach the training: the
// first one is handed back, once, for the user. One thread calls it.
class JobStatus {
 public:
  using Post = std::function<Status(const StatusServer& server, const std::string& json)>;
  JobStatus(StatusServer server, Post post, std::chrono::milliseconds every = std::chrono::seconds(5));
  // Over HTTPS. `unavailable`: without libcurl.
  static Result<std::unique_ptr<JobStatus>> open(StatusServer server);
  // Posts what update() was given last at once; waits for at most some seconds, those of one post and 2 more.
  ~JobStatus();

  void update(const Progress& progress);
  // Why the last post failed; empty: none did, or it was told before.
  std::string failure();

 private:
  using Clock = std::chrono::steady_clock;
  void run();

  const StatusServer server_;
  const Post post_;
  const std::chrono::milliseconds every_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Progress> next_;
  bool ends_ = false;
  bool idle_ = true;  // nothing is being posted
  bool told_ = false;
  std::string failure_;
  std::jthread thread_;
};

// Follows a run's events, on rank 0.
class RunStatus {
 public:
  explicit RunStatus(std::unique_ptr<JobStatus> status) : status_(std::move(status)) {}

  void started(const RunStart& start);
  void stepped(std::int64_t step, std::int64_t total);
  void reported(const Report& report);
  void evaluated(const Evaluation& evaluation);
  void finished(const Outcome& outcome);
  std::string failure() { return status_->failure(); }

 private:
  std::unique_ptr<JobStatus> status_;
  Progress progress_;
  std::int64_t first_step_ = 0;
  std::chrono::steady_clock::time_point began_ = {};
};

}  // namespace xoe::train
