#include "doctor/cluster.h"

#include <sys/random.h>

#include <algorithm>

#include "base/error.h"
#include "doctor/agent.h"
#include "doctor/channel.h"
#include "doctor/probe.h"
#include "doctor/report.h"

namespace xoe::doctor {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMostAtOnce = 64;
constexpr int kClockQuestions = 8;
constexpr std::size_t kAllPairs = 8;    // hosts of which all pairs are measured
constexpr std::size_t kMostLoaded = 4;  // interfaces of a host
constexpr auto kPatience = milliseconds(2000);
constexpr auto kLoginPatience = std::chrono::seconds(10);  // beside the time to connect
constexpr auto kProbePatience = milliseconds(5000);

Result<std::string> new_token() {
  std::uint8_t bytes[kTokenBytes / 2];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    return failure(Code::kUnavailable, "the kernel gives no random bytes: {}", errno_text(errno));
  std::string token;
  for (const std::uint8_t byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

Json parsed(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  return json.is_object() ? json : Json::object();
}

double number_at(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_number() ? at->get<double>() : 0;
}

std::string text_at(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? shown(at->get<std::string>(), 300) : "";
}

struct Reached {
  HostResult result;
  std::optional<Channel> channel;
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options) : options_(options) {}

  Result<ClusterResult> run(const Report& here) {
    for (std::size_t i = 0; i < options_.hosts.size(); i += kMostAtOnce)
      XOE_TRY(reach(i, std::min(i + kMostAtOnce, options_.hosts.size())));
    for (Reached& host : hosts_)
      if (host.channel) read_clock(host);
    tell("reports");
    read_reports();
    ClusterResult result;
    XOE_ASSIGN(result.pairs, measure_pairs());
    for (Reached& host : hosts_) result.hosts.push_back(std::move(host.result));
    result.findings = check_cluster(result.hosts, result.pairs, here);
    return result;
  }

 private:
  void tell(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  Status reach(std::size_t from, std::size_t to) {
    tell(fmt::format("ssh to {} host{}", to - from, to - from == 1 ? "" : "s"));
    const auto start = Clock::now();
    std::vector<Channel*> channels;
    hosts_.reserve(options_.hosts.size());
    for (std::size_t i = from; i < to; ++i) {
      XOE_ASSIGN(Channel channel, Channel::start(ssh_arguments(options_.ssh, options_.hosts[i])));
      hosts_.push_back({.result = {.name = options_.hosts[i]}, .channel = std::move(channel)});
      channels.push_back(&*hosts_.back().channel);
      // Where it has ended already, what it said tells why.
      [[maybe_unused]] const Status sent = channels.back()->send("hello");
    }
    Channel::wait(channels, start + std::chrono::seconds(options_.ssh.connect_timeout) + kLoginPatience);
    for (std::size_t i = from; i < to; ++i)
      greet(hosts_[i], std::chrono::duration<double>(Clock::now() - start).count());
    return {};
  }

  void greet(Reached& host, double seconds) const {
    HostResult& result = host.result;
    if (const auto answer = host.channel->take()) {
      const Json hello = parsed(*answer);
      result.seconds = seconds;
      result.version = text_at(hello, "xoe");
      if (number_at(hello, "protocol") == kProtocol) return;
      result.trouble =
          Finding{.id = "hosts.reach." + result.name,
                  .state = State::kProblem,
                  .what = fmt::format("{}: its Xoe ({}) speaks another protocol", result.name, result.version),
                  .why = "all hosts of a job need the same version",
                  .fix = "install the same Xoe on all hosts",
                  .details = {{"host", result.name}, {"reached", true}, {"kind", "version"}}};
    } else {
      const int code = host.channel->code(host.channel->ended() ? milliseconds(500) : milliseconds(0));
      result.trouble = reach_problem(result.name, code, host.channel->error(), options_.ssh);
    }
    host.channel.reset();
  }

  // The true offset differs from the middle's by at most half of the time that the question took; the quickest counts.
  static void read_clock(Reached& host) {
    HostResult& result = host.result;
    for (int i = 0; i < kClockQuestions; ++i) {
      using std::chrono::system_clock;
      const auto start = Clock::now();
      const auto before = system_clock::now();
      const auto answer = host.channel->ask("clock", kPatience);
      if (!answer) return;
      const double took = std::chrono::duration<double>(Clock::now() - start).count();
      const auto theirs = parsed(*answer).value("clock_ns", Json());
      if (!theirs.is_number_integer()) return;
      if (result.clock_known && took / 2 >= result.clock_bound) continue;
      const auto ours = std::chrono::duration_cast<std::chrono::nanoseconds>(before.time_since_epoch()).count();
      result.clock_offset = static_cast<double>(theirs.get<std::int64_t>() - ours) * 1e-9 - took / 2;
      result.clock_bound = took / 2;
      result.clock_known = true;
    }
  }

  void read_reports() {
    std::vector<Channel*> channels;
    for (Reached& host : hosts_) {
      if (!host.channel) continue;
      if (host.channel->send("report")) channels.push_back(&*host.channel);
    }
    Channel::wait(channels, Clock::now() + options_.report_patience);
    for (Reached& host : hosts_) {
      if (!host.channel) continue;
      const auto answer = host.channel->take();
      auto report = answer ? parse_report(*answer) : Result<Report>(failure(Code::kTimeout, "no report came"));
      if (report) {
        host.result.report = std::move(*report);
        continue;
      }
      host.result.report_error = report.error().message();
      host.channel.reset();
    }
  }

  Result<std::vector<Pair>> measure_pairs() {
    std::vector<Reached*> reached;
    for (Reached& host : hosts_)
      if (host.channel) reached.push_back(&host);
    std::vector<Pair> pairs;
    for (const auto& [from, to] : pairs_of(reached.size())) {
      tell(fmt::format("network from {} to {}", reached[from]->result.name, reached[to]->result.name));
      XOE_ASSIGN(const std::string token, new_token());
      pairs.push_back({.from = reached[from]->result.name, .to = reached[to]->result.name});
      if (const Status measured = measure(*reached[from], *reached[to], token, pairs.back()); !measured)
        pairs.back().error = measured.error().message();
    }
    return pairs;
  }

  static Result<Json> ask(Reached& host, const std::string& request, milliseconds patience) {
    auto answer = host.channel->ask(request, patience);
    if (!answer) return failure(answer.error().code(), "{}: {}", host.result.name, answer.error().message());
    Json json = parsed(*answer);
    if (const std::string error = text_at(json, "error"); !error.empty())
      return failure(Code::kUnavailable, "{}: {}", host.result.name, error);
    return json;
  }

  static Status measure(Reached& from, Reached& to, const std::string& token, Pair& pair) {
    const auto& addresses = to.result.report->addresses;
    if (addresses.empty()) return failure(Code::kUnavailable, "{} has no address but loopback's", to.result.name);
    std::string words;
    std::string load;
    std::vector<std::string> loaded;  // interfaces, each by its first address
    for (const Address& address : addresses) {
      if (pair.ways.size() == kMostProbed) break;
      // From another host; it goes into a line of words.
      if (address.address.empty() || address.address.find_first_not_of("0123456789abcdefABCDEF.:") != std::string::npos)
        continue;
      if (std::find(loaded.begin(), loaded.end(), address.interface) == loaded.end() && loaded.size() < kMostLoaded) {
        loaded.push_back(address.interface);
        load += fmt::format("{}{}", load.empty() ? "" : ",", pair.ways.size());
      }
      pair.ways.push_back({.interface = address.interface, .address = address.address});
      words += " " + address.address;
    }
    XOE_ASSIGN(const Json listening, ask(to, "listen " + token, kPatience));
    XOE_ASSIGN(const Json probed, ask(from,
                                      fmt::format("probe {:.0f} {} {}{}", number_at(listening, "port"), token,
                                                  load.empty() ? "-" : load, words),
                                      kProbePatience));
    XOE_ASSIGN(const Json received, ask(to, "received", kPatience));
    read_ways(probed, received, pair);
    return {};
  }

  static void read_ways(const Json& probed, const Json& received, Pair& pair) {
    const auto list = [](const Json& json, const char* key) {
      const auto at = json.find(key);
      return at != json.end() && at->is_array() ? *at : Json::array();
    };
    const Json ways = list(probed, "addresses");
    for (std::size_t i = 0; i < pair.ways.size(); ++i) {
      Way& way = pair.ways[i];
      if (i >= ways.size() || !ways[i].is_object()) {
        way.error = "not measured";
        continue;
      }
      way.error = text_at(ways[i], "error");
      way.latency = number_at(ways[i], "latency_s");
    }
    for (const Json& one : list(received, "received")) {
      if (!one.is_object()) continue;
      const double seconds = number_at(one, "seconds");
      const double index = number_at(one, "address");
      if (seconds > 0 && index >= 0 && index < static_cast<double>(pair.ways.size()))
        pair.ways[static_cast<std::size_t>(index)].rate = number_at(one, "bytes") / seconds;
    }
  }

  const ClusterOptions& options_;
  std::vector<Reached> hosts_;
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
