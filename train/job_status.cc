#include "train/job_status.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "base/text_file.h"
#include "drivers/curl/curl.h"

namespace xoe::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kLastPatience = std::chrono::seconds(2);
constexpr long kPostSeconds = 3;
constexpr std::size_t kLongestToken = 65536;

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
  const auto over_https = [curl](const StatusServer& to, const std::string& json) -> Status {
    HttpsPost request{.url = to.url, .ca_file = to.ca_file, .json = json, .seconds = kPostSeconds};
    if (!to.token_file.empty()) {
      const auto token = read_text_file(to.token_file);
      if (!token) return ::xoe::failure(Code::kUnavailable, "{}: {}", to.token_file, token.error().message());
      request.bearer = trimmed(*token);
      if (request.bearer.size() > kLongestToken || request.bearer.find_first_of("\r\n") != std::string::npos)
        return ::xoe::failure(Code::kInvalidArgument, "{}: no token", to.token_file);
    }
    XOE_ASSIGN(const long status, post(curl, request));
    if (status / 100 == 2) return {};
    return ::xoe::failure(Code::kUnavailable, "HTTP {}", status);
  };
  return std::make_unique<JobStatus>(std::move(server), over_https);
}

JobStatus::JobStatus(StatusServer server, Post post, std::chrono::milliseconds every)
    : server_(std::move(server)), post_(std::move(post)), every_(every), thread_([this] { run(); }) {}

JobStatus::~JobStatus() {
  std::unique_lock lock(mutex_);
  ends_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, kLastPatience, [this] { return idle_ && !next_; });
  next_.reset();
  lock.unlock();
  changed_.notify_all();
}

void JobStatus::update(const Progress& progress) {
  const std::lock_guard lock(mutex_);
  const bool first = !next_;
  next_ = progress;
  if (first) changed_.notify_all();
}

std::string JobStatus::failure() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failure_, {});
}

void JobStatus::run() {
  std::unique_lock lock(mutex_);
  Clock::time_point due = {};
  while (true) {
    changed_.wait(lock, [this] { return next_ || ends_; });
    if (!ends_) changed_.wait_until(lock, due, [this] { return ends_; });
    if (!next_) {
      if (ends_) return;
      continue;
    }
    const Progress progress = *std::exchange(next_, std::nullopt);
    idle_ = false;
    lock.unlock();
    due = Clock::now() + every_;
    const Status done = post_(server_, status_json(progress, std::time(nullptr)));
    lock.lock();
    idle_ = true;
    if (!done && !std::exchange(told_, true))
      failure_ = fmt::format(
          "the status of the TrainJob could not be posted to {}: {}; the training goes on, and so do "
          "the attempts",
          server_.url, done.error().message());
    changed_.notify_all();
  }
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
  status_->update(progress_);
}

}  // namespace xoe::train
