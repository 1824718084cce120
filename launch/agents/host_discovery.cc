#include "launch/agents/host_discovery.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "launch/remote/program.h"

namespace xoe::launch {
namespace {

constexpr auto kEvery = std::chrono::seconds(1);
constexpr auto kTimeout = std::chrono::seconds(60);
constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::size_t kQuoted = 200;

// Exit codes of shells.
constexpr int kShellCannotRun = 126;
constexpr int kShellNoProgram = 127;

// The first word of a shell command that sets no variable.
std::string program_in(std::string_view command) {
  for (const std::string& word : words_of(command))
    if (word.find('=') == std::string::npos) return word;
  return {};
}

std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const auto begin = text.rfind('\n');
  if (begin != std::string_view::npos) text.remove_prefix(begin + 1);
  return printable_utf8(shortened_utf8(text, kQuoted));
}

}  // namespace

Result<std::vector<remote::Host>> parse_discovered(std::string_view text, int slots_per_host) {
  std::vector<remote::Host> hosts;
  for (std::string line : split_text(text, '\n')) {
    const auto begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    line = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
    const auto parsed = remote::parse_hosts(line);
    if (!parsed || parsed->size() != 1)
      return failure(Code::kInvalidArgument, "\"{}\" is not a host, or HOST:SLOTS",
                     printable_utf8(shortened_utf8(line, kQuoted)));
    remote::Host host = parsed->front();
    // Brackets hold the colons of an address.
    const auto colon = line.find(':', line.find(']') == std::string::npos ? 0 : line.find(']'));
    if (colon == std::string::npos) host.slots = slots_per_host;
    if (host.slots > kMaxRanksPerHost)
      return failure(Code::kInvalidArgument, "host {} has {}; at most {} ranks run on one host", host.name,
                     counted(host.slots, "slot"), kMaxRanksPerHost);
    if (std::ranges::find(hosts, host.name, &remote::Host::name) == hosts.end()) hosts.push_back(std::move(host));
  }
  return hosts;
}

HostDiscovery::HostDiscovery(const ElasticOptions& options, const remote::Inherited& inherited)
    : options_(options), inherited_(inherited) {}

void HostDiscovery::add_to(std::vector<pollfd>& polled) const {
  if (!child_) return;
  for (const int fd : {child_->out.get(), child_->err.get(), child_->process.fd()})
    polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
}

HostDiscovery::Clock::time_point HostDiscovery::next_turn() const { return child_ ? started_ + kTimeout : next_; }

void HostDiscovery::pump(Clock::time_point now) {
  if (!child_) return now >= next_ ? start(now) : void();
  // A script that has ended has written all that it will: half of a list would be taken for hosts that are gone.
  child_->process.reap();
  for (auto* const from : {&child_->out, &child_->err})
    while (from->valid() && out_.size() <= kMostBytes && err_.size() <= kMostBytes) {
      const std::string bytes = remote::read_some(*from);
      if (bytes.empty()) break;
      (from == &child_->out ? out_ : err_) += bytes;
    }
  if (out_.size() > kMostBytes || err_.size() > kMostBytes || now >= started_ + kTimeout) {
    child_->process.kill();
    complain(now >= started_ + kTimeout ? fmt::format("it has not ended after {}", human_seconds(kTimeout))
                                        : "it prints more than 1 MiB");
    child_.reset();
    next_ = now + kEvery;
  } else if (child_->process.status()) {  // a process that it left running may hold its output
    end(now);
  }
}

void HostDiscovery::start(Clock::time_point now) {
  out_.clear();
  err_.clear();
  started_ = now;
  auto child = remote::ChildProcess::start({"/bin/sh", "-c", options_.discovery}, inherited_);
  next_ = now + kEvery;
  if (!child) return complain(child.error().message());
  child_.emplace(std::move(*child));
  child_->in = Fd();
}

void HostDiscovery::end(Clock::time_point now) {
  const int status = *child_->process.status();
  child_.reset();
  next_ = now + kEvery;
  hopeless_ = why_hopeless(status);
  if (status != 0)
    return complain(remote::describe_status(status) + (err_.empty() ? std::string() : ": " + last_line(err_)));
  auto hosts = parse_discovered(out_, options_.slots_per_host);
  if (!hosts) return complain(hosts.error().message());
  complained_.clear();
  answer_ = std::move(*hosts);
}

// The shell says with its exit code that it cannot run a program. The script that it runs may say so too, of one that
// it calls, which may be there in a moment.
std::optional<std::string> HostDiscovery::why_hopeless(int status) const {
  const int code = remote::exit_code_of(status);
  if (code != kShellCannotRun && code != kShellNoProgram) return std::nullopt;
  const auto found = remote::find_program(program_in(options_.discovery), inherited_.env);
  if (found) return std::nullopt;
  return fmt::format("--host-discovery-script {}: {}; name a program that is there and may be executed (chmod +x)",
                     options_.discovery, found.error().message());
}

void HostDiscovery::complain(std::string why) {
  if (why == complained_) return;
  complained_ = why;
  problem_ = fmt::format("--host-discovery-script {}: {}", options_.discovery, why);
}

}  // namespace xoe::launch
