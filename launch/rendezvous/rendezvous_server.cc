#include "launch/rendezvous/rendezvous_server.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/bootstrap/socket_address.h"
#include "launch/output/report.h"
#include "launch/plan/cores.h"
#include "launch/rendezvous/member_exit.h"

namespace xoe::launch {
namespace {

constexpr auto kTurn = std::chrono::milliseconds(200);
constexpr auto kKeepalive = std::chrono::seconds(2);
constexpr int kWrongUsage = 2;
// Where fewer members than all are enough: for others that are about to join.
constexpr auto kLastCall = std::chrono::seconds(5);

// IPv4 too, where the kernel has IPv6 at all.
Result<Fd> listen_everywhere(std::uint16_t port) {
  XOE_ASSIGN(const auto both, bootstrap::SocketAddress::tcp("::", port));
  if (auto listener = bootstrap::listen_at(both)) return listener;
  XOE_ASSIGN(const auto four, bootstrap::SocketAddress::tcp("0.0.0.0", port));
  return bootstrap::listen_at(four);
}

}  // namespace

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::listen(const Membership& membership,
                                                                   const std::string& secret,
                                                                   const std::string& version, Say say) {
  auto listener = listen_everywhere(membership.port);
  if (!listener)
    return failure(listener.error().code(), "--rendezvous: {}; another port: --rendezvous HOST:PORT",
                   listener.error().message());
  return std::unique_ptr<RendezvousServer>(
      new RendezvousServer(std::move(*listener), membership, secret, version, std::move(say)));
}

RendezvousServer::RendezvousServer(Fd listener, const Membership& membership, const std::string& secret,
                                   std::string version, Say say)
    : membership_(membership),
      version_(std::move(version)),
      say_(std::move(say)),
      hosts_(static_cast<std::size_t>(membership.count)),
      greeted_(hosts_.size()),
      names_(hosts_.size()),
      acceptor_(
          std::move(listener),
          {.secret = secret,
           .expects = [this](auto member, auto lane) { return member > 0 && member < hosts_.size() && lane == 0; },
           .admit = [this](int member, int /*lane*/,
                           bootstrap::MemberConnection connection) { admit(member, std::move(connection)); },
           .name = std::string(kRendezvousName)}) {}

// One that comes again was restarted: what it had before is gone.
void RendezvousServer::admit(int member, bootstrap::MemberConnection connection) {
  const auto at = static_cast<std::size_t>(member);
  if (greeted_[at])
    say_(
        fmt::format("another process has joined as member {}, in place of the one of host {}; each has a number of its "
                    "own (--node-rank)",
                    member, hosts_[at].hello.hostname));
  hosts_[at] = {.agent = remote::joined_agent(fmt::format("of member {}", member),
                                              remote::FrameConnection(std::move(connection), true))};
  greeted_[at] = false;
}

tl::expected<std::vector<JoinedHost>, remote::HostFailure> RendezvousServer::run(std::chrono::nanoseconds timeout,
                                                                                 SignalSource& signals) {
  const auto began = Clock::now();
  auto progress = began + kWaitingEvery;
  while (!enough(Clock::now())) {
    wait(signals);
    const auto now = Clock::now();
    for (std::size_t member = 1; member < hosts_.size(); ++member)
      if (hosts_[member].agent) serve(member, now);
    while (const auto signal = signals.next())
      if (*signal == SIGINT || *signal == SIGTERM || *signal == SIGQUIT || *signal == SIGHUP)
        fail({.lines = {fmt::format("member 0 (host {}) got {} before all members had joined", remote::this_hostname(),
                                    signal_name(*signal))},
              .exit_code = 128 + *signal});
    if (failure_.exit_code == 0 && now - began >= timeout)
      fail(
          {.lines = {fmt::format("{} not joined within {} (--rendezvous-timeout): not started, with another secret, or "
                                 "without a way to port {} here",
                                 missing_text(), human_seconds(timeout), membership_.port)},
           .exit_code = kRetryHere});
    if (failure_.exit_code != 0) return give_up();
    if (now >= progress) {
      progress = now + kWaitingEvery;
      say_(fmt::format("waits for the others: {} of {} members are here after {}; {} not joined yet", joined() + 1,
                       hosts_.size(), human_seconds(std::chrono::round<std::chrono::seconds>(now - began)),
                       missing_text()));
    }
  }
  return take_greeted();
}

bool RendezvousServer::enough(Clock::time_point now) {
  const std::size_t here = joined() + 1;
  if (std::exchange(counted_, here) != here) counted_at_ = now;
  return here == hosts_.size() || (std::cmp_greater_equal(here, membership_.least) && now - counted_at_ >= kLastCall);
}

// Members on one machine have the same name.
std::vector<JoinedHost> RendezvousServer::take_greeted() {
  const auto like = [this](std::size_t member, const std::string& name) {
    return name == remote::this_hostname() ||
           std::ranges::any_of(hosts_,
                               [&](const JoinedHost& other) {
                                 return &other != &hosts_[member] && other.agent && other.hello.hostname == name;
                               }) ||
           std::ranges::find(names_, name) != names_.end();
  };
  for (std::size_t member = 1; member < hosts_.size(); ++member) {
    const std::string& name = hosts_[member].hello.hostname;
    if (greeted_[member] && names_[member].empty())
      names_[member] = like(member, name) ? fmt::format("{}#{}", name, member) : name;
  }
  std::vector<JoinedHost> taken;
  for (std::size_t member = 1; member < hosts_.size(); ++member) {
    if (!greeted_[member]) continue;
    hosts_[member].agent->rename(names_[member]);
    taken.push_back(std::exchange(hosts_[member], JoinedHost()));
    greeted_[member] = false;
  }
  return taken;
}

void RendezvousServer::add_to(std::vector<pollfd>& polled) {
  for (const JoinedHost& host : hosts_)
    if (host.agent) host.agent->add_to(polled);
  first_ = polled.size();
  acceptor_.add_entries(polled);
  entries_ = polled.size() - first_;
}

std::vector<JoinedHost> RendezvousServer::pump(const std::vector<pollfd>& polled) {
  for (const JoinedHost& host : hosts_)
    if (host.agent) host.agent->pump(polled);
  acceptor_.serve(std::span(polled).subspan(first_, entries_));
  for (std::size_t member = 1; member < hosts_.size(); ++member) {
    if (!hosts_[member].agent) continue;
    serve(member, Clock::now());
    const auto failure = std::exchange(failure_, {.lines = {}, .exit_code = 0});
    if (failure.exit_code == 0) continue;
    for (const std::string& line : failure.lines) say_(line);
    // What came with its hello may have ended the connection already.
    if (hosts_[member].agent) refuse(*hosts_[member].agent, failure);
    hosts_[member] = {};
  }
  return take_greeted();
}

void RendezvousServer::refuse(remote::AgentConnection& agent, const remote::HostFailure& why) {
  agent.frames().send({.kind = remote::Frame::Kind::kOutcome,
                       .value = member_code_of_start(why.exit_code),
                       .text = why.lines.empty() ? std::string() : why.lines.front()});
  agent.write();
  agent.hang_up();
}

void RendezvousServer::wait(SignalSource& signals) {
  polled_.assign(1, {.fd = signals.fd(), .events = POLLIN, .revents = 0});
  for (const JoinedHost& host : hosts_)
    if (host.agent) host.agent->add_to(polled_);
  const std::size_t first = polled_.size();
  acceptor_.add_entries(polled_);
  ::poll(polled_.data(), polled_.size(), static_cast<int>(kTurn.count()));
  for (const JoinedHost& host : hosts_)
    if (host.agent) host.agent->pump(polled_);
  acceptor_.serve(std::span(polled_).subspan(first));
}

void RendezvousServer::serve(std::size_t member, Clock::time_point now) {
  remote::FrameConnection& frames = hosts_[member].agent->frames();
  while (true) {
    const auto frame = frames.next();
    if (!frame) frames.close();
    if (!frame || !*frame) break;
    if ((*frame)->kind == remote::Frame::Kind::kHello) on_hello(member, (*frame)->text);
  }
  if (frames.closed()) {
    if (greeted_[member])
      say_(fmt::format("member {} (host {}) has left; waits for it", member, hosts_[member].hello.hostname));
    hosts_[member] = {};
    greeted_[member] = false;
    return;
  }
  if (frames.reader().greeted()) frames.keep_alive(now, kKeepalive);
  frames.write();
}

void RendezvousServer::on_hello(std::size_t member, std::string_view text) {
  JoinedHost& host = hosts_[member];
  auto hello = remote::decode_hello(text);
  if (hello && !hello->hostname.empty()) host.agent->rename(hello->hostname);
  if (!hello || hello->version != version_) {
    auto failure = remote::explain_version(*host.agent, hello ? hello->version : "of another kind", version_, {});
    failure.exit_code = kWrongUsage;
    return fail(failure);
  }
  if (hello->ranks != membership_.ranks)
    return fail(
        {.lines = {fmt::format("member {} (host {}) is to run {}, and this one {}; give all members the same -np",
                               member, hello->hostname, counted(hello->ranks, "rank"), membership_.ranks)},
         .exit_code = kWrongUsage});
  host.hello = std::move(*hello);
  greeted_[member] = true;
}

void RendezvousServer::fail(const remote::HostFailure& failure) {
  failure_.lines.insert(failure_.lines.end(), failure.lines.begin(), failure.lines.end());
  if (failure_.exit_code == 0) failure_.exit_code = failure.exit_code;
}

// "members 1,3-5 have"
std::string RendezvousServer::missing_text() const {
  std::vector<int> missing;
  for (std::size_t member = 1; member < hosts_.size(); ++member)
    if (!greeted_[member]) missing.push_back(static_cast<int>(member));
  return missing.size() == 1 ? fmt::format("member {} has", missing.front())
                             : fmt::format("members {} have", cpu_list_text(std::move(missing)));
}

std::size_t RendezvousServer::joined() const { return static_cast<std::size_t>(std::ranges::count(greeted_, true)); }

tl::unexpected<remote::HostFailure> RendezvousServer::give_up() {
  remote::AgentConnections agents;
  for (JoinedHost& host : hosts_)
    if (host.agent) agents.push_back(std::move(host.agent));
  remote::Outcome told{.code = member_code_of_start(failure_.exit_code),
                       .lines = fmt::format("{}", fmt::join(failure_.lines, "\n"))};
  remote::tell_outcome(agents, [&told](std::size_t) { return told; });
  return tl::unexpected(failure_);
}

}  // namespace xoe::launch
