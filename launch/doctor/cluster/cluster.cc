#include "launch/doctor/cluster/cluster.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/random_token.h"
#include "core/base/text.h"
#include "launch/doctor/cluster/probe.h"
#include "launch/doctor/facts/tree.h"
#include "launch/doctor/report/report.h"
#include "launch/remote/host_failure.h"

namespace xoe::doctor {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMaxAtOnce = 64;
constexpr int kClockQuestions = 8;
constexpr std::size_t kAllPairs = 8;   // hosts of which all pairs are measured
constexpr std::size_t kMaxLoaded = 4;  // interfaces of a host
constexpr auto kTimeout = milliseconds(2000);
constexpr auto kLoginTimeout = std::chrono::seconds(10);  // on top of the time to connect
constexpr auto kReportTimeout = std::chrono::seconds(60);
constexpr auto kProbeTimeout = milliseconds(5000);
constexpr auto kPollInterval = std::chrono::seconds(1);

Json parsed(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  return json.is_object() ? json : Json::object();
}

double number_at(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_number() ? at->get<double>() : 0;
}

std::string printable_at(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? printable(at->get<std::string>(), 300) : "";
}

// The last line with text.
std::string last_line(std::string_view text) {
  const auto lines = lines_of(text);
  if (lines.empty()) return {};
  // ssh ends its lines with carriage return and newline.
  return printable(std::string_view(lines.back()).substr(0, lines.back().find_last_not_of('\r') + 1), 300);
}

struct Reached {
  HostResult result;
  remote::AgentConnection* agent = nullptr;  // nullptr: not reached, or lost
  bool ready = false;                        // the agent there has become a probe
  std::optional<std::string> answer = {};
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options) : options_(options), inherited_(remote::Inherited::current()) {
    // ssh's messages are compared.
    auto variables = inherited_.env.all();
    variables["LC_ALL"] = "C";
    inherited_.env = Env(std::move(variables));
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  ~Cluster() { remote::disconnect_all(agents_); }

  Result<ClusterResult> run(const Report& here) {
    hosts_.reserve(options_.hosts.size());
    for (std::size_t i = 0; i < options_.hosts.size(); i += kMaxAtOnce)
      reach(i, std::min(i + kMaxAtOnce, options_.hosts.size()));
    for (Reached& host : hosts_)
      if (host.agent != nullptr) read_clock(host);
    announce("reports");
    read_reports();
    ClusterResult result;
    XOE_ASSIGN(result.pairs, measure_pairs());
    for (Reached& host : hosts_) result.hosts.push_back(std::move(host.result));
    result.findings = check_cluster(result.hosts, result.pairs, here);
    return result;
  }

 private:
  void announce(const std::string& step) const {
    if (options_.progress) options_.progress(step);
  }

  void reach(std::size_t from, std::size_t to) {
    announce(fmt::format("ssh to {}", counted(to - from, "host")));
    const auto start = Clock::now();
    for (std::size_t i = from; i < to; ++i) {
      Reached& host = hosts_.emplace_back();
      host.result.name = options_.hosts[i];
      auto agent = remote::connect_agent(host.result.name, remote::LaunchMethod::kSsh, options_.connect, inherited_);
      if (!agent) {
        give_up(host, {.kind = "other", .what = agent.error().message(), .fix = "install an ssh client"}, false);
        continue;
      }
      agents_.push_back(std::move(*agent));
      host.agent = agents_.back().get();
    }
    const auto batch = std::span(hosts_).subspan(from, to - from);
    wait_for(batch, start + options_.connect.start_timeout + kLoginTimeout, [](const Reached& h) { return h.ready; });
    for (Reached& host : batch) {
      if (host.agent == nullptr) continue;
      host.result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
      if (!host.ready) explain(host);
    }
  }

  // Why the host's agent did not become a probe.
  void explain(Reached& host) {
    const remote::AgentConnection& agent = *host.agent;
    if (!host.result.version.empty())
      return give_up(host,
                     {.kind = "version",
                      .what = fmt::format("its Xoe ({}) uses another protocol", host.result.version),
                      .fix = "install the same Xoe on all hosts"},
                     true);
    if (!agent.frames().closed())
      return give_up(host,
                     {.kind = "timeout",
                      .what = "ssh gave no answer in time",
                      .fix = fmt::format("try it by hand: ssh -o BatchMode=yes {} true", host.result.name)},
                     false);
    give_up(host, remote::diagnose(agent, options_.connect), false);
  }

  void give_up(Reached& host, const remote::Diagnosis& diagnosis, bool reached) {
    const std::string stderr_line = host.agent == nullptr ? "" : last_line(host.agent->stderr_tail());
    const bool ended = host.agent != nullptr && host.agent->status();
    host.result.trouble = Finding{
        .id = "hosts.reach." + host.result.name,
        .severity = Severity::kProblem,
        .what = fmt::format("{}: {}{}", host.result.name, diagnosis.what,
                            stderr_line.empty() ? "" : fmt::format(" ({})", stderr_line)),
        .why = "xoe run starts programs on other hosts over ssh, without a password",
        .fix = diagnosis.fix.empty() ? fmt::format("try it by hand: ssh -o BatchMode=yes {} true", host.result.name)
                                     : diagnosis.fix,
        .details = {{"host", host.result.name},
                    {"reached", reached},
                    {"kind", diagnosis.kind},
                    {"code", ended ? remote::exit_code_of(*host.agent->status()) : -1},
                    {"ssh", stderr_line}}};
    drop(host);
  }

  static void drop(Reached& host) {
    if (host.agent != nullptr) host.agent->kill();
    host.agent = nullptr;
  }

  void on_frame(Reached& host, const remote::Frame& frame) {
    using Kind = remote::Frame::Kind;
    switch (frame.kind) {
      case Kind::kHello: {
        const auto hello = remote::decode_hello(frame.text);
        host.result.version = hello ? printable(hello->version, 300) : "unknown";
        host.agent->frames().send({.kind = Kind::kExamine});
        return host.agent->write();
      }
      case Kind::kReady: host.ready = true; return;
      case Kind::kAnswer: host.answer = frame.text; return;
      case Kind::kError:
        return give_up(host,
                       {.kind = "xoe_missing",
                        .what = "reached, but " + printable(frame.text, 300),
                        .fix = "install all of Xoe there too, or say where it is with --xoe-path"},
                       true);
      default: return;
    }
  }

  // Until `done` holds for each host, its connection has ended, or the deadline.
  template <class Done>
  void wait_for(std::span<Reached> hosts, Clock::time_point deadline, Done done) {
    const auto waiting = [&](const Reached& host) {
      return host.agent != nullptr && !done(host) && !host.agent->ended(Clock::now());
    };
    while (Clock::now() < deadline && std::ranges::any_of(hosts, waiting)) {
      remote::poll_agents(agents_, std::min(deadline, Clock::now() + kPollInterval));
      for (Reached& host : hosts_) read_frames(host);
    }
  }

  void read_frames(Reached& host) {
    while (host.agent != nullptr) {
      const auto frame = host.agent->frames().next();
      if (!frame) host.agent->frames().close();
      if (!frame || !*frame) return;
      on_frame(host, **frame);
    }
  }

  static void send(Reached& host, std::string_view request) {
    host.answer.reset();
    host.agent->frames().send({.kind = remote::Frame::Kind::kRequest, .text = request});
    host.agent->write();
  }

  Result<std::string> ask_text(Reached& host, std::string_view request, milliseconds timeout) {
    send(host, request);
    wait_for(std::span(&host, 1), Clock::now() + timeout, [](const Reached& h) { return h.answer.has_value(); });
    if (host.answer) return *std::exchange(host.answer, std::nullopt);
    if (host.agent == nullptr || host.agent->frames().closed())
      return failure(Code::kUnavailable, "it ended without an answer");
    return failure(Code::kTimeout, "no answer within {} ms", timeout.count());
  }

  // The true offset differs from the middle's by at most half of the time that the question took; the quickest counts.
  void read_clock(Reached& host) {
    HostResult& result = host.result;
    for (int i = 0; i < kClockQuestions; ++i) {
      const auto start = Clock::now();
      const std::int64_t before = remote::clock_now();
      const auto answer = ask_text(host, "clock", kTimeout);
      if (!answer) return;
      const double took = std::chrono::duration<double>(Clock::now() - start).count();
      const auto theirs = parsed(*answer).value("clock_ns", Json());
      if (!theirs.is_number_integer()) return;
      if (result.clock_known && took / 2 >= result.clock_bound) continue;
      result.clock_offset = static_cast<double>(theirs.get<std::int64_t>() - before) * 1e-9 - took / 2;
      result.clock_bound = took / 2;
      result.clock_known = true;
    }
  }

  void read_reports() {
    for (Reached& host : hosts_)
      if (host.agent != nullptr) send(host, "report");
    wait_for(hosts_, Clock::now() + kReportTimeout, [](const Reached& h) { return h.answer.has_value(); });
    for (Reached& host : hosts_) {
      if (host.agent == nullptr) continue;
      auto report =
          host.answer ? parse_report(*host.answer) : Result<Report>(failure(Code::kTimeout, "no report came"));
      if (report) {
        host.result.report = std::move(*report);
        continue;
      }
      host.result.report_error = report.error().message();
      drop(host);
    }
  }

  Result<std::vector<Pair>> measure_pairs() {
    std::vector<Reached*> reached;
    for (Reached& host : hosts_)
      if (host.agent != nullptr) reached.push_back(&host);
    std::vector<Pair> pairs;
    for (const auto& [from, to] : pairs_of(reached.size())) {
      announce(fmt::format("network from {} to {}", reached[from]->result.name, reached[to]->result.name));
      XOE_ASSIGN(const std::string token, random_token());
      pairs.push_back({.from = reached[from]->result.name, .to = reached[to]->result.name});
      if (const Status measured = measure(*reached[from], *reached[to], token, pairs.back()); !measured)
        pairs.back().error = measured.error().message();
    }
    return pairs;
  }

  Result<Json> ask(Reached& host, const std::string& request, milliseconds timeout) {
    auto answer = ask_text(host, request, timeout);
    if (!answer) return failure(answer.error().code(), "{}: {}", host.result.name, answer.error().message());
    Json json = parsed(*answer);
    if (const std::string error = printable_at(json, "error"); !error.empty())
      return failure(Code::kUnavailable, "{}: {}", host.result.name, error);
    return json;
  }

  Status measure(Reached& from, Reached& to, const std::string& token, Pair& pair) {
    const auto& addresses = to.result.report->addresses;
    if (addresses.empty()) return failure(Code::kUnavailable, "{} has no address but loopback's", to.result.name);
    std::string words;
    std::string load;
    std::vector<std::string> loaded;  // interfaces, each by its first address
    for (const Address& address : addresses) {
      if (pair.paths.size() == kMaxProbed) break;
      // It comes from another host and goes into a line of words.
      if (address.address.empty() || address.address.find_first_not_of("0123456789abcdefABCDEF.:") != std::string::npos)
        continue;
      if (std::find(loaded.begin(), loaded.end(), address.interface) == loaded.end() && loaded.size() < kMaxLoaded) {
        loaded.push_back(address.interface);
        load += fmt::format("{}{}", load.empty() ? "" : ",", pair.paths.size());
      }
      pair.paths.push_back({.interface = address.interface, .address = address.address});
      words += " " + address.address;
    }
    XOE_ASSIGN(const Json listening, ask(to, "listen " + token, kTimeout));
    XOE_ASSIGN(const Json probed, ask(from,
                                      fmt::format("probe {:.0f} {} {}{}", number_at(listening, "port"), token,
                                                  load.empty() ? "-" : load, words),
                                      kProbeTimeout));
    XOE_ASSIGN(const Json received, ask(to, "received", kTimeout));
    read_paths(probed, received, pair);
    return {};
  }

  static void read_paths(const Json& probed, const Json& received, Pair& pair) {
    const auto list = [](const Json& json, const char* key) {
      const auto at = json.find(key);
      return at != json.end() && at->is_array() ? *at : Json::array();
    };
    const Json addresses = list(probed, "addresses");
    for (std::size_t i = 0; i < pair.paths.size(); ++i) {
      NetworkPath& path = pair.paths[i];
      if (i >= addresses.size() || !addresses[i].is_object()) {
        path.error = "not measured";
        continue;
      }
      path.error = printable_at(addresses[i], "error");
      path.latency = number_at(addresses[i], "latency_s");
    }
    for (const Json& one : list(received, "received")) {
      if (!one.is_object()) continue;
      const double seconds = number_at(one, "seconds");
      const double index = number_at(one, "address");
      if (seconds > 0 && index >= 0 && index < static_cast<double>(pair.paths.size()))
        pair.paths[static_cast<std::size_t>(index)].rate = number_at(one, "bytes") / seconds;
    }
  }

  const ClusterOptions& options_;
  remote::Inherited inherited_;
  std::vector<Reached> hosts_;
  remote::AgentConnections agents_;
};

}  // namespace

std::vector<std::pair<std::size_t, std::size_t>> pairs_of(std::size_t hosts) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  if (hosts < 2) return pairs;
  for (std::size_t from = 0; from < hosts; ++from) {
    if (hosts > kAllPairs) {
      pairs.emplace_back(from, (from + 1) % hosts);
      continue;
    }
    for (std::size_t to = 0; to < hosts; ++to)
      if (from != to) pairs.emplace_back(from, to);
  }
  return pairs;
}

Result<ClusterResult> examine_hosts(const ClusterOptions& options, const Report& here) {
  return Cluster(options).run(here);
}

}  // namespace xoe::doctor
