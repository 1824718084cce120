// Tells Kubeflow Trainer how a run goes on: TrainJob.status.trainerStatus (Kubeflow's proposal KEP-2779).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "core/base/env.h"
#include "train/trainer/events.h"

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
  // One attempt, for at most `limit`, or until `stop` is asked for. `unavailable`: another one may succeed.
  using Post = std::function<Status(const StatusServer& server, const std::string& json,
                                    std::chrono::milliseconds limit, const std::stop_token& stop)>;
  struct Pace {
    std::chrono::milliseconds every = std::chrono::seconds(5);
    std::chrono::milliseconds limit = std::chrono::seconds(6);  // of an attempt: resolvers ask again after 5 s
    std::chrono::milliseconds last = std::chrono::seconds(8);   // for all attempts of the last post
    std::chrono::milliseconds stop = std::chrono::seconds(2);   // for an attempt to end that is told to
  };
  JobStatus(StatusServer server, Post post, const Pace& pace);
  // Over HTTPS. `unavailable`: without libcurl.
  static Result<std::unique_ptr<JobStatus>> open(StatusServer server);
  // Drops what is not posted. Waits for at most 2 s: an attempt that hangs longer, as look-ups of names may, is left
  // behind, and touches nothing but itself.
  ~JobStatus();
  JobStatus(const JobStatus&) = delete;
  JobStatus& operator=(const JobStatus&) = delete;

  void update(const Progress& progress);
  // Why the last post failed; empty: none did, or it was told before.
  std::string failure();
  // At the end: posts what update() was given last, at once, and again where that fails and another attempt may help.
  // Waits for at most 8 s. Returns why it was not posted; empty: it was.
  std::string finish();

 private:
  struct Shared;
  static void run(Shared& shared);

  const std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this
  std::thread thread_;
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
  // As JobStatus::finish(), once finished() was called; before, the run has failed, and nothing is posted.
  std::string post_last() { return finished_ ? status_->finish() : std::string(); }

 private:
  std::unique_ptr<JobStatus> status_;
  Progress progress_;
  std::int64_t first_step_ = 0;
  std::chrono::steady_clock::time_point began_ = {};
  bool finished_ = false;
};

}  // namespace xoe::train
