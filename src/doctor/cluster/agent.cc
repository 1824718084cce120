#include "doctor/agent.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "doctor/channel.h"
#include "doctor/probe.h"
#include "doctor/report.h"
#include "doctor/tree.h"

namespace xoe::doctor {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kIdle = std::chrono::minutes(2);
constexpr int kServeEvery = 100;  // ms between looks at clients that may be too late
constexpr std::size_t kLongestRequest = 8192;

class Agent {
 public:
  Agent(int in, int out, const ExamineOptions& options) : in_(in), out_(out), options_(options) {}

  Status run() {
    auto idle_since = Clock::now();
    while (true) {
      std::vector<pollfd> entries = {{in_, POLLIN, 0}};
      if (server_) server_->entries(entries);
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(idle_since + kIdle - Clock::now()).count();
      if (left <= 0) return failure(Code::kTimeout, "no request for two minutes");
      ::poll(entries.data(), entries.size(), server_ ? kServeEvery : static_cast<int>(left));
      if (server_) server_->serve();
      if (entries[0].revents == 0) continue;
      char part[4096];
      const auto count = ::read(in_, part, sizeof part);
      if (count <= 0) return {};
      text_.append(part, static_cast<std::size_t>(count));
      idle_since = Clock::now();
      XOE_TRY(answer_all());
    }
  }

 private:
  Status answer_all() {
    for (auto end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
      const std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      XOE_TRY(write_line(std::string(kAnswerMark) + answer(line)));
    }
    if (text_.size() > kLongestRequest)
      return failure(Code::kInvalidArgument, "a request of more than {} bytes", text_.size());
    return {};
  }

  Status write_line(std::string line) {
    line += '\n';
    for (std::size_t written = 0; written < line.size();) {
      const auto count = ::write(out_, line.data() + written, line.size() - written);
      if (count <= 0) return failure(Code::kUnavailable, "cannot write an answer: {}", errno_text(errno));
      written += static_cast<std::size_t>(count);
    }
    return {};
  }

  std::string answer(const std::string& line) {
    const auto words = words_of(line);
    const std::string verb = words.empty() ? "" : words[0];
    if (verb == "hello") return dumped({{"protocol", kProtocol}, {"xoe", options_.version}});
    if (verb == "clock") {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      return dumped({{"clock_ns", std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()}});
    }
    if (verb == "report") return report();
    if (verb == "listen" && words.size() == 2) return listen(words[1]);
    if (verb == "probe" && words.size() >= 5) return probe(words);
    if (verb == "received") return received();
    return error_text("no such request");
  }

  static std::string error_text(const std::string& message) { return dumped({{"error", message}}); }

  std::string report() {
    const auto report = examine(options_);
    return report ? dumped(json_of(*report)) : error_text(report.error().message());
  }

  std::string listen(const std::string& token) {
    server_.reset();
    auto server = ProbeServer::listen(token);
    if (!server) return error_text(server.error().message());
    server_.emplace(std::move(*server));
    return dumped({{"port", server_->port()}});
  }

  static std::string probe(const std::vector<std::string>& words) {
    const auto port = parse_integer(words[1]);
    if (!port || *port < 1 || *port > 65535 || words[2].size() != kTokenBytes)
      return error_text("no such port or token");
    std::vector<int> load;
    for (const std::string& number : split_text(words[3], ','))
      if (const auto value = parse_integer(number);
          value && *value >= 0 && *value < static_cast<std::int64_t>(kMostProbed))
        load.push_back(static_cast<int>(*value));
    Json list = Json::array();
    for (const ProbedAddress& one :
         probe_addresses({words.begin() + 4, words.end()}, static_cast<int>(*port), words[2], load))
      list.push_back(
          {{"address", one.address}, {"error", one.error}, {"latency_s", one.latency}, {"loaded", one.loaded}});
    return dumped({{"addresses", std::move(list)}});
  }

  std::string received() {
    Json list = Json::array();
    if (server_) {
      for (const Received& one : server_->finish())
        list.push_back({{"address", one.address}, {"bytes", one.bytes}, {"seconds", one.seconds}});
    }
    server_.reset();
    return dumped({{"received", std::move(list)}});
  }

  int in_;
  int out_;
  const ExamineOptions& options_;
  std::string text_;
  std::optional<ProbeServer> server_;
};

}  // namespace

Status run_agent(int in, int out, const ExamineOptions& options) { return Agent(in, out, options).run(); }

}  // namespace xoe::doctor
