#include "pool/tests/sim/lab.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/text.h"
#include "pool/cli/xoe_pool.h"
#include "pool/tests/sim/world.h"

namespace xoe::pool::sim_tests {
namespace {

using sim::kSecond;

constexpr int kPort = 7711;
constexpr sim::Time kEnds = 15 * kSecond;         // of a process that was told to; a client asks the server for ten
constexpr sim::Time kGrants = 60 * kSecond;       // once all is free, seen by the agents, and known to be so
constexpr sim::Time kUndisturbed = 20 * kSecond;  // after which a server has done what was due
constexpr std::int64_t kEpoch = 1'790'000'000;    // of the simulated clocks

double seconds(sim::Time time) { return static_cast<double>(time) / 1e9; }

// Whether nothing goes wrong from this kind on.
bool is_calm(const Schedule& schedule, const std::set<std::size_t>& without, Event::Kind from) {
  for (std::size_t i = 0; i < schedule.events.size(); ++i)
    if (!without.contains(i) && schedule.events[i].kind >= from) return false;
  return true;
}

void write_token(const std::string& home, const std::string& token) {
  const std::string path = home + "/.config/xoe/pool-token";
  std::filesystem::create_directories(home + "/.config/xoe");
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr || std::fputs(token.c_str(), file) < 0 || std::fclose(file) != 0) std::abort();
  ::chmod(path.c_str(), 0600);
}

}  // namespace

Lab::Lab(Schedule schedule, const std::set<std::size_t>& without, std::string folder, sim::Time look_every)
    : schedule_(std::move(schedule)),
      without_(without),
      folder_(std::move(folder)),
      look_every_(look_every),
      ledger_(schedule_, is_calm(schedule_, without, Kind::kKillClient),
              is_calm(schedule_, without, Kind::kKillServer)) {}

// With XOE_SIM_TRAP a debugger stops here, where all threads are as they were.
void Lab::problem(std::string text) {
  if (std::getenv("XOE_SIM_TRAP") != nullptr) __builtin_trap();
  outcome_.problems.push_back(std::move(text));
}

void Lab::tell(const std::string& line) {
  told_.emplace(sim::now(), fmt::format("{:9.3f} *** {}\n", seconds(sim::now()), line));
}

std::string Lab::home_of(int user) const { return fmt::format("{}/u{}", folder_, user); }

sim::Time Lab::wall(std::size_t host) const { return kEpoch * kSecond + sim::now() + ahead_[host]; }

pid_t Lab::command(int host, const std::string& home, const std::string& user, std::vector<std::string> words) const {
  words.insert(words.begin(), "/sim/xoe-pool");
  return hosts_[static_cast<std::size_t>(host)].start(words, {"HOME=" + home, "USER=" + user, "PATH=/sim"});
}

std::string Lab::admin(std::vector<std::string> words, bool may_fail) {
  const std::string what = fmt::format("{}", fmt::join(words, " "));
  const pid_t pid = command(0, folder_ + "/admin", "root", std::move(words));
  if (!sim::wait_for_end(pid, 60 * kSecond)) {
    problem(fmt::format("`{}` does not end", what));
    return {};
  }
  if (sim::facts_of(pid).status != 0 && !may_fail) problem(fmt::format("`{}` fails: {}", what, sim::output_of(pid)));
  return std::string(trimmed(sim::output_of(pid)));
}

void Lab::start_server() {
  std::vector<std::string> words = {"serve", "--port", std::to_string(kPort)};
  words.insert(words.end(), schedule_.rules.begin(), schedule_.rules.end());
  server_ = {.pid = command(0, folder_ + "/admin", "root", std::move(words)), .began = sim::now()};
  disturbed_ = sim::now();
}

void Lab::start_agent(std::size_t host) {
  const int failures = agents_[host].failures;
  agents_[host] = {.pid = command(static_cast<int>(host), fmt::format("{}/agent{}", folder_, host), "root",
                                  {"agent", "--interval", fmt::format("{:.3f}", seconds(schedule_.report_interval))}),
                   .began = sim::now(),
                   .failures = failures};
}

void Lab::set_up() {
  hosts_.push_back(sim::add_host("server", "10.0.0.1"));
  ahead_.push_back(0);
  for (std::size_t i = 1; i <= schedule_.gpus.size(); ++i) {
    hosts_.push_back(sim::add_host(fmt::format("h{}", i), fmt::format("10.0.0.{}", i + 1)));
    hosts_.back().tunnel(kPort, hosts_[0]);
    world->gpus[hosts_.back().name()] = schedule_.gpus[i - 1];
    ahead_.push_back(0);
  }
  std::filesystem::create_directories(folder_ + "/admin");
  start_server();
  for (int i = 0; i < 100 && sim::output_of(server_.pid).find("listens on") == std::string::npos; ++i)
    sim::sleep_for(100 * sim::kMilli);
  for (std::size_t i = 0; i < schedule_.teams.size(); ++i) {
    const Team& team = schedule_.teams[i];
    admin({"team", fmt::format("t{}", i), "--quota", std::to_string(team.quota),
           team.may_borrow ? "--borrowing" : "--no-borrowing"});
  }
  for (int i = 0; i < std::ssize(schedule_.users); ++i) {
    const User& user = schedule_.users[static_cast<std::size_t>(i)];
    std::vector<std::string> words = {"user", fmt::format("u{}", i), "--max-priority",
                                      "3",    "--max-gpus",          std::to_string(user.max_gpus)};
    if (user.team >= 0) words.insert(words.end(), {"--team", fmt::format("t{}", user.team)});
    write_token(home_of(i), admin(std::move(words)));
  }
  agents_.resize(hosts_.size());
  for (std::size_t i = 1; i < hosts_.size(); ++i) {
    write_token(fmt::format("{}/agent{}", folder_, i), admin({"user", fmt::format("agent{}", i), "--role", "agent"}));
    start_agent(i);
  }
  sim::sleep_for(schedule_.report_interval);
}

// As a system's services are: what ends is started again.
void Lab::keep_service(Service& service, std::size_t host, const std::function<void()>& start, const char* what) {
  if (!hosts_[host].is_on() || !sim::facts_of(service.pid).ended || sim::now() < service.back_at) return;
  if (!service.may_end)
    problem(fmt::format("at {:.3f} s {} of {} has ended by itself with status {:x}", seconds(sim::now()), what,
                        hosts_[host].name(), sim::facts_of(service.pid).status));
  start();
}

void Lab::keep_running() {
  keep_service(
      server_, 0, [this] { start_server(); }, "the server");
  for (std::size_t i = 1; i < hosts_.size(); ++i)
    keep_service(
        agents_[i], i, [this, i] { start_agent(i); }, "the agent");
  if (!serves()) disturbed_ = sim::now();
  for (std::size_t i = 1; i < hosts_.size(); ++i)
    if (hosts_[i].is_on() && !sim::facts_of(agents_[i].pid).ended && !stopped_.contains(agents_[i].pid) &&
        !paused_.contains(i) && !cut_.contains(i))
      ledger_.could_report(hosts_[i].name(), sim::now());
}

bool Lab::serves() const {
  return hosts_[0].is_on() && !sim::facts_of(server_.pid).ended && !stopped_.contains(server_.pid) &&
         !paused_.contains(0);
}

pid_t Lab::start_client(const Event& event, std::vector<std::string> words, std::string purpose) {
  const pid_t pid = command(event.host, home_of(event.user), fmt::format("u{}", event.user), std::move(words));
  clients_.push_back({.pid = pid, .event = event, .purpose = std::move(purpose)});
  if (const sim::Time soon = std::exchange(kills_next_, 0); soon > 0)
    after(soon, [this, pid] {
      tell(fmt::format("pid {} is killed", pid));
      sim::signal_process(pid, SIGKILL);
    });
  if (schedule_.patience > 0)
    after(schedule_.patience, [pid] {
      if (!sim::facts_of(pid).ended) sim::signal_process(pid, SIGTERM);
    });
  return pid;
}

// What an `acquire` or a `run` says of its lease.
void Lab::take_output(const Client& client, const std::string& output) {
  static const auto* const kAcquired = new std::regex(
      R"((?:export XOE_POOL_LEASE=(\d+) CUDA_VISIBLE_DEVICES=(\S+))|(?:xoe pool run: lease (\d+) until [^:]*:\d\d:\d\d: (\S+)))");
  std::smatch found;
  static const auto* const kReserved = new std::regex(R"(lease (\d+): [^\n]*in the queue)");
  if (client.event.kind == Kind::kReserve && std::regex_search(output, found, *kReserved))
    leases_[client.event.user].push_back(std::stoll(found[1]));
  if (!std::regex_search(output, found, *kAcquired)) return;
  const bool is_run = found[3].matched;
  const std::int64_t id = std::stoll(found[is_run ? 3 : 1]);
  ledger_.acknowledge(id, split_text(std::string(found[is_run ? 4 : 2]), ','));
  leases_[client.event.user].push_back(id);
}

void Lab::collect_clients() {
  for (std::size_t i = clients_.size(); i-- > 0;) {
    const Client& client = clients_[i];
    if (!sim::facts_of(client.pid).ended) continue;
    take_output(client, sim::output_of(client.pid));
    if (!client.purpose.empty()) ledger_.run_ended(client.purpose, sim::now());
    clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Lab::look() {
  looked_ = sim::now();
  collect_clients();
  const std::string mark = commit_mark(database());
  if (mark.empty() || mark != mark_) {
    auto read = read_snapshot(database(), folder_ + "/copy.db", ledger_.last_event(), ledger_.first_lease());
    if (!read) return problem("the database cannot be read: " + read.error().message());
    seen_ = std::move(*read);
    mark_ = mark;
  }
  bytes_ = seen_.bytes;
  ledger_.look(seen_, sim::now(), serves() && sim::now() - disturbed_ > kUndisturbed);
  seen_.events.clear();
}

// Until then, or for half a second.
void Lab::pass(sim::Time until) {
  until = std::min(until, sim::now() + std::max<sim::Time>(kSecond / 2, look_every_ / 20));
  while (!actions_.empty() && actions_.begin()->first <= until) {
    const auto first = actions_.begin();
    if (first->first > sim::now()) sim::sleep_for(first->first - sim::now());
    const auto action = first->second;
    actions_.erase(first);
    action();
  }
  if (sim::now() < until) sim::sleep_for(until - sim::now());
  keep_running();
  if (sim::now() - looked_ >= look_every_) look();
}

void Lab::heal() {
  auto rest = std::move(actions_);
  actions_.clear();
  for (const auto& [at, action] : rest) action();
  for (const pid_t pid : stopped_) sim::signal_process(pid, SIGCONT);
  stopped_.clear();
  server_.back_at = 0;
  for (Service& agent : agents_) agent.back_at = 0;
  tell("all is whole again");
  const sim::Time until = sim::now() + 10 * kSecond;
  while (sim::now() < until) pass(until);
}

void Lab::end_clients() {
  collect_clients();
  for (const Client& client : clients_) sim::signal_process(client.pid, SIGTERM);
  const sim::Time until = sim::now() + kEnds + 60 * kSecond;  // a program has 30 s after SIGTERM
  while (!clients_.empty() && sim::now() < until) {
    pass(until);
    collect_clients();
  }
  for (const Client& client : clients_)
    problem(fmt::format("`{}` (pid {}) does not end", to_text(client.event), client.pid));
  for (const auto& one : sim::running())
    if (one.name == "training") sim::signal_process(one.pid, SIGKILL);
}

// Leases that are left are revoked; then each host gives all of its GPUs.
void Lab::check_recovery() {
  look();
  // Some end meanwhile by themselves.
  for (const std::int64_t id : ledger_.open())
    admin({"revoke", std::to_string(id), "--why", "revoked in the simulation"}, true);
  for (std::size_t host = 1; host < hosts_.size(); ++host) {
    const pid_t pid = command(static_cast<int>(host), folder_ + "/admin", "root",
                              {"acquire", "--gpus", std::to_string(schedule_.gpus[host - 1]), "--host",
                               hosts_[host].name(), "--for", "1h", "--wait", "--priority", "100"});
    const sim::Time until = sim::now() + kGrants + 2 * schedule_.report_interval + schedule_.host_timeout;
    while (!sim::facts_of(pid).ended && sim::now() < until) pass(until);
    const std::string said = sim::output_of(pid);
    if (said.find("export XOE_POOL_LEASE") == std::string::npos)
      problem(fmt::format("all is whole again, and {} does not give its {} GPUs: {}", hosts_[host].name(),
                          schedule_.gpus[host - 1], trimmed(said)));
  }
  look();
  admin({"status"});
  admin({"usage", "--days", "366"});
}

void Lab::check_ends() {
  std::vector<pid_t> told;
  for (Service* service : {&server_}) told.push_back(service->pid);
  for (std::size_t i = 1; i < agents_.size(); ++i) told.push_back(agents_[i].pid);
  for (const pid_t pid : told) sim::signal_process(pid, SIGTERM);
  const sim::Time until = sim::now() + kEnds;
  for (const pid_t pid : told)
    if (!sim::wait_for_end(pid, std::max<sim::Time>(until - sim::now(), 0)))
      problem(fmt::format("{} of {} does not end", pid == server_.pid ? "the server" : "the agent",
                          sim::facts_of(pid).host));
  sim::sleep_for(20 * kSecond);
  for (const auto& one : sim::running()) problem(fmt::format("{} (pid {}) is left on {}", one.name, one.pid, one.host));
}

sim::Outcome Lab::run() {
  sim::add_program("xoe-pool", &xoe::tools::run_pool);
  sim::add_program("training", &training);
  set_up();
  const sim::Time begun = sim::now();
  outcome_.events = schedule_.events.size();
  for (std::size_t i = 0; i < schedule_.events.size(); ++i)
    if (!without_.contains(i)) plan(i);
  while (sim::now() < begun + schedule_.length) pass(begun + schedule_.length);
  heal();
  end_clients();
  check_recovery();
  check_ends();
  auto last = read_snapshot(database(), folder_ + "/copy.db", ledger_.last_event(), 0);
  if (!last)
    problem("the database cannot be read: " + last.error().message());
  else
    ledger_.conclude(*last, schedule_.gpus.size());
  const auto most = 200 + 14 * ledger_.leases() + 4 * static_cast<std::size_t>(sim::now() / (60 * kSecond));
  if (last && static_cast<std::size_t>(last->lines) > most)
    problem(fmt::format("the audit log has {} lines of {} leases", last->lines, ledger_.leases()));
  for (const std::string& one : ledger_.problems) outcome_.problems.push_back(one);
  for (const std::string& one : world->problems) outcome_.problems.push_back(one);
  tell_all();
  return std::move(outcome_);
}

void Lab::tell_all() {
  std::multimap<std::string, std::string> lines;
  for (const auto& [at, line] : told_) lines.emplace(line.substr(0, 9), line);
  for (const sim::Host& host : hosts_)
    for (const std::string& line : split_text(host.output(), '\n'))
      if (line.size() > 10)
        lines.emplace(line.substr(0, 9),
                      fmt::format("{} {:>6}: {}\n", line.substr(0, 9), host.name(), line.substr(10)));
  for (const auto& [at, line] : lines) outcome_.story += line;
  outcome_.story += "the audit log:\n" + ledger_.audit;
  outcome_.story += fmt::format("{} leases, {} lines, {} bytes, {:.0f} s, {} calls, digest {:x}\n", ledger_.leases(),
                                ledger_.last_event(), bytes_, seconds(sim::now()), sim::calls(), sim::digest());
}

}  // namespace xoe::pool::sim_tests
