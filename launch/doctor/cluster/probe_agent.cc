#include "launch/doctor/cluster/probe_agent.h"

#include <poll.h>

#include <chrono>
#include <optional>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launch/doctor/cluster/probe.h"
#include "launch/doctor/report/report.h"
#include "launch/remote/frame_connection.h"

namespace xoe::doctor {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = remote::Frame::Kind;
constexpr auto kIdleTimeout = std::chrono::minutes(2);
constexpr int kServeEvery = 100;  // ms between checks for clients that are too late

class ProbeAgent {
 public:
  ProbeAgent(Fd in, Fd out, const ExamineOptions& options)
      : frames_(std::move(in), std::move(out), false), options_(options) {}

  Status run() {
    frames_.send({.kind = Kind::kReady});
    while (true) {
      frames_.write();
      if (frames_.closed()) return {};
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(frames_.heard() + kIdleTimeout - Clock::now());
      if (left.count() <= 0) return failure(Code::kTimeout, "no request for two minutes");
      std::vector<pollfd> entries = {{frames_.in(), POLLIN, 0},
                                     {frames_.wants_to_write() ? frames_.out() : -1, POLLOUT, 0}};
      if (server_) server_->entries(entries);
      ::poll(entries.data(), entries.size(), server_ ? kServeEvery : static_cast<int>(left.count()));
      if (server_) server_->serve();
      frames_.read();
      XOE_TRY(answer_all());
    }
  }

 private:
  Status answer_all() {
    while (true) {
      XOE_ASSIGN(const auto frame, frames_.next());
      if (!frame) return {};
      if (frame->kind == Kind::kRequest)
        frames_.send({.kind = Kind::kAnswer, .text = answer(std::string(frame->text))});
    }
  }

  std::string answer(const std::string& line) {
    const auto words = words_of(line);
    const std::string verb = words.empty() ? "" : words[0];
    if (verb == "clock") return to_line({{"clock_ns", remote::clock_now()}});
    if (verb == "report") return report();
    if (verb == "listen" && words.size() == 2) return listen(words[1]);
    if (verb == "probe" && words.size() >= 5) return probe(words);
    if (verb == "received") return received();
    return error_text("no such request");
  }

  static std::string error_text(const std::string& message) { return to_line({{"error", message}}); }

  std::string report() {
    const auto report = examine(options_);
    return report ? to_line(json_of(*report)) : error_text(report.error().message());
  }

  std::string listen(const std::string& token) {
    server_.reset();
    auto server = ProbeServer::listen(token);
    if (!server) return error_text(server.error().message());
    server_.emplace(std::move(*server));
    return to_line({{"port", server_->port()}});
  }

  static std::string probe(const std::vector<std::string>& words) {
    const auto port = parse_integer(words[1]);
    if (!port || *port < 1 || *port > 65535 || words[2].size() != kTokenBytes)
      return error_text("no such port or token");
    std::vector<int> load;
    for (const std::string& number : split_text(words[3], ','))
      if (const auto value = parse_integer(number);
          value && *value >= 0 && *value < static_cast<std::int64_t>(kMaxProbed))
        load.push_back(static_cast<int>(*value));
    Json list = Json::array();
    for (const ProbedAddress& one :
         probe_addresses({words.begin() + 4, words.end()}, static_cast<int>(*port), words[2], load))
      list.push_back(
          {{"address", one.address}, {"error", one.error}, {"latency_s", one.latency}, {"loaded", one.loaded}});
    return to_line({{"addresses", std::move(list)}});
  }

  std::string received() {
    Json list = Json::array();
    if (server_) {
      for (const Received& one : server_->finish())
        list.push_back({{"address", one.address}, {"bytes", one.bytes}, {"seconds", one.seconds}});
    }
    server_.reset();
    return to_line({{"received", std::move(list)}});
  }

  remote::FrameConnection frames_;
  const ExamineOptions& options_;
  std::optional<ProbeServer> server_;
};

}  // namespace

Status answer_requests(Fd in, Fd out, const ExamineOptions& options) {
  return ProbeAgent(std::move(in), std::move(out), options).run();
}

}  // namespace xoe::doctor
