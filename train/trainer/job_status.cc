#include "train/trainer/job_status.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <utility>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "core/drivers/curl/curl.h"

namespace xoe::train {
namespace {

using Json = nlohmann::ordered_json;

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kOlderTimeout{1000};  // for an older post, when the last one waits
constexpr milliseconds kRetryPause{500};
constexpr std::size_t kLongestToken = 65536;

// An answer after which another attempt of the same makes no sense.
bool is_refusal(long status) { return status / 100 == 4 && status != 408 && status != 429; }

}  // namespace

std::string status_json(const Progress& progress, std::int64_t now) {
  Json metrics = Json::array();
  const auto add = [&metrics](const char* name, std::string value) {
    metrics.push_back({{"name", name}, {"value", std::move(value)}});
  };
  for (const auto& [name, value] : {std::pair("loss", progress.loss), std::pair("accuracy", progress.accuracy),
                                    std::pair("images_per_second", progress.images_per_second)})
    if (value && std::isfinite(*value)) add(name, fmt::format("{:.6g}", *value));
  add("step", std::to_string(progress.step));
  Json status = {{"metrics", std::move(metrics)},
                 {"lastUpdatedTime", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(now)))}};
  if (progress.total > 0)
    status["progressPercentage"] = std::clamp<std::int64_t>(100 * progress.step / progress.total, 0, 100);
  if (progress.remaining && std::isfinite(*progress.remaining))
    status["estimatedRemainingSeconds"] =
        static_cast<std::int64_t>(std::clamp(std::ceil(*progress.remaining), 0.0, 2147483647.0));
  return Json{{"trainerStatus", std::move(status)}}.dump();
}

std::optional<StatusServer> find_status_server(const Env& env) {
  auto url = env.text("KUBEFLOW_TRAINER_SERVER_URL");
  if (!url) return std::nullopt;
  return StatusServer{.url = std::move(*url),
                      .ca_file = env.text("KUBEFLOW_TRAINER_SERVER_CA_CERT").value_or(""),
                      .token_file = env.text("KUBEFLOW_TRAINER_SERVER_TOKEN").value_or("")};
}

Result<std::unique_ptr<JobStatus>> JobStatus::open(StatusServer server) {
  XOE_ASSIGN(const CurlApi curl, load_curl());
  const auto over_https = [poster = std::make_shared<HttpsPoster>(curl)](const StatusServer& to,
                                                                         const std::string& json, milliseconds limit,
                                                                         const std::stop_token& stop) -> Status {
    HttpsPost request{.url = to.url, .ca_file = to.ca_file, .json = json, .limit = limit};
    if (!to.token_file.empty()) {
      const auto token = read_text_file(to.token_file);
      if (!token) return ::xoe::failure(Code::kInvalidArgument, "{}: {}", to.token_file, token.error().message());
      request.bearer = trimmed(*token);
      if (request.bearer.size() > kLongestToken || request.bearer.find_first_of("\r\n") != std::string::npos)
        return ::xoe::failure(Code::kInvalidArgument, "{}: no token", to.token_file);
    }
    XOE_ASSIGN(const long status, poster->post(request, stop));
    if (status / 100 == 2) return {};
    return ::xoe::failure(is_refusal(status) ? Code::kInvalidArgument : Code::kUnavailable, "HTTP {}", status);
  };
  return std::make_unique<JobStatus>(std::move(server), over_https, Pace());
}

struct JobStatus::Shared {
  Shared(StatusServer to, Post by, const Pace& at) : server(std::move(to)), post(std::move(by)), pace(at) {}

  const StatusServer server;
  const Post post;
  const Pace pace;
  std::mutex mutex;  // of all below
  std::condition_variable changed;
  Progress newest = {};
  std::optional<Progress> next = {};               // waits to be posted
  std::optional<Clock::time_point> deadline = {};  // of the last post; nullopt: the run goes on
  std::stop_source attempt = {};
  bool busy = false;                // an attempt is made
  bool ends = false;                // asked of the thread
  bool ended = false;               // its answer
  std::optional<Error> error = {};  // of the last attempt that has ended; nullopt: none, or it went well
  bool told = false;
  std::string failure = {};
  std::optional<std::int64_t> arrived = {};  // the step of the last post that was answered
};

JobStatus::JobStatus(StatusServer server, Post post, const Pace& pace)
    : shared_(std::make_shared<Shared>(std::move(server), std::move(post), pace)),
      thread_([shared = shared_] { run(*shared); }) {}

JobStatus::~JobStatus() {
  Shared& shared = *shared_;
  std::unique_lock lock(shared.mutex);
  shared.ends = true;
  shared.attempt.request_stop();
  shared.changed.notify_all();
  const bool ended = shared.changed.wait_for(lock, shared.pace.stop, [&shared] { return shared.ended; });
  lock.unlock();
  if (ended)
    thread_.join();
  else
    thread_.detach();
}

void JobStatus::update(const Progress& progress) {
  const std::lock_guard lock(shared_->mutex);
  const bool first = !shared_->next;
  shared_->newest = progress;
  shared_->next = progress;
  if (first) shared_->changed.notify_all();
}

std::string JobStatus::failure() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->failure, {});
}

std::string JobStatus::finish() {
  Shared& shared = *shared_;
  std::unique_lock lock(shared.mutex);
  shared.deadline = Clock::now() + shared.pace.last;
  if (shared.error && !shared.busy) shared.next = shared.newest;
  shared.changed.notify_all();
  if (!shared.changed.wait_for(lock, kOlderTimeout, [&shared] { return !shared.next; })) shared.attempt.request_stop();
  const bool over =
      shared.changed.wait_until(lock, *shared.deadline, [&shared] { return !shared.next && !shared.busy; });
  if (over && !shared.error) return {};
  return fmt::format(
      "the last status of the TrainJob was not posted to {}: {}; {}", shared.server.url,
      shared.error ? shared.error->message() : fmt::format("no answer within {}", human_seconds(shared.pace.last)),
      shared.arrived ? fmt::format("the newest that arrived is of step {}", *shared.arrived) : "none has arrived");
}

void JobStatus::run(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  Clock::time_point due = {};
  while (true) {
    shared.changed.wait(lock, [&shared] { return shared.next || shared.ends; });
    shared.changed.wait_until(lock, due, [&shared] { return shared.deadline || shared.ends; });
    if (shared.ends) break;
    const Progress progress = *std::exchange(shared.next, std::nullopt);
    milliseconds limit = shared.pace.limit;
    if (shared.deadline)
      limit = std::clamp(std::chrono::ceil<milliseconds>(*shared.deadline - Clock::now()), milliseconds(1), limit);
    shared.attempt = std::stop_source();
    shared.busy = true;
    shared.changed.notify_all();
    const std::stop_token stop = shared.attempt.get_token();
    lock.unlock();
    due = Clock::now() + shared.pace.every;
    const Status done = shared.post(shared.server, status_json(progress, std::time(nullptr)), limit, stop);
    lock.lock();
    shared.busy = false;
    if (done) {
      shared.arrived = progress.step;
      shared.error.reset();
    } else {
      shared.error = done.error();
      if (!shared.deadline && !std::exchange(shared.told, true))
        shared.failure = fmt::format(
            "the status of the TrainJob could not be posted to {}: {}; the training goes on, and so do "
            "the attempts",
            shared.server.url, done.error().message());
      const bool again = done.error().code() == Code::kUnavailable && shared.deadline && !shared.next;
      if (again && Clock::now() + kRetryPause < *shared.deadline) {
        shared.next = progress;
        shared.changed.wait_for(lock, kRetryPause, [&shared] { return shared.ends; });
      }
    }
    shared.changed.notify_all();
  }
  shared.ended = true;
  shared.changed.notify_all();
}

void RunStatus::started(const RunStart& start) {
  first_step_ = start.first_step;
  began_ = std::chrono::steady_clock::now();
  progress_.step = start.first_step;
  progress_.total = start.total_steps;
  status_->update(progress_);
}

void RunStatus::stepped(std::int64_t step, std::int64_t total) {
  progress_.step = step;
  progress_.total = total;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began_;
  if (step > first_step_)
    progress_.remaining = took.count() / static_cast<double>(step - first_step_) * static_cast<double>(total - step);
  status_->update(progress_);
}

void RunStatus::reported(const Report& report) {
  progress_.loss = report.loss;
  progress_.images_per_second = report.speed.mean;
}

void RunStatus::evaluated(const Evaluation& evaluation) { progress_.accuracy = evaluation.accuracy; }

void RunStatus::finished(const Outcome& outcome) {
  progress_.step = outcome.step;
  progress_.loss = outcome.loss;
  progress_.images_per_second = outcome.speed.mean;
  if (!outcome.interrupted) progress_.remaining = 0;
  finished_ = true;
  status_->update(progress_);
}

}  // namespace xoe::train
