// xoe pool run: acquires, runs a program, releases whatever happens.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/machine.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "launch/remote/children.h"
#include "launch/remote/spawn.h"
#include "pool/cli/extra_gpus.h"
#include "pool/cli/held_signals.h"
#include "pool/cli/lease_reaper.h"
#include "pool/cli/start_program.h"
#include "pool/cli/verbs.h"
#include "pool/core/names.h"
#include "pool/core/wall_clock.h"
#include "pool/enforce/device_rule.h"
#include "pool/hooks/notice.h"

namespace xoe::tools::pool {
namespace {

using Clock = std::chrono::steady_clock;

using xoe::pool::DeviceRule;

struct RunOptions {
  Connection connection = {};
  LeaseOptions lease = {};
  std::string host = {};  // empty: this one
  std::optional<int> extra_priority = {};
  bool ranks = false;
  bool device_rule = false;
  bool or_cpu = false;
  int checkpoint_signal = 0;
  Span grace = std::chrono::seconds(30);
  std::vector<std::string> program = {};
};

// Of processes that the program left: to end by themselves, then by SIGTERM, and then by SIGKILL.
constexpr auto kLeftAlone = std::chrono::milliseconds(100);
constexpr auto kLeftoversGrace = std::chrono::seconds(5);
constexpr auto kKillTimeout = std::chrono::seconds(10);
// After a server that did not answer.
constexpr auto kLookLater = std::chrono::seconds(5);

void say(const std::string& what) { fmt::print(stderr, "xoe pool run: {}\n", xoe::printable_utf8(what)); }

// The signals that the loop takes one by one.
sigset_t taken_signals() {
  sigset_t set = HeldSignals::ending_signals();
  for (const int signal : {SIGCHLD, SIGUSR1, SIGUSR2}) ::sigaddset(&set, signal);
  return set;
}

// Watches the program and its lease. The lease may end before the program: then the program is ended.
class Watch {
 public:
  // extras: nullptr where there are none.
  Watch(Client& client, const RunOptions& options, Json lease, pid_t pid, ExtraGpus* extras)
      : client_(client), options_(options), lease_(std::move(lease)), pid_(pid), extras_(extras) {}

  // Returns the program's wait status.
  int wait() {
    const sigset_t set = taken_signals();
    for (;;) {
      int status = 0;
      // Others are what the program left.
      for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;)
        if (ended == pid_) return status;
      auto pause = std::chrono::nanoseconds(std::chrono::seconds(1));
      if (extras_ != nullptr)
        pause =
            std::clamp<std::chrono::nanoseconds>(extras_->turn() - Clock::now(), std::chrono::nanoseconds(0), pause);
      const timespec time = {pause / std::chrono::seconds(1), pause.count() % 1000000000};
      siginfo_t info = {};
      const int signal = ::sigtimedwait(&set, &info, &time);
      // The terminal sent Ctrl-C to the program, too.
      if (signal > 0 && signal != SIGCHLD && info.si_code <= 0) ::kill(pid_, signal);
      if (signal != SIGCHLD) look();
    }
  }

 private:
  void look() {
    const auto now = Clock::now();
    if (kill_at_ && now >= *kill_at_) ::kill(pid_, SIGKILL);
    if (kill_at_ || now < next_look_) return;
    next_look_ = now + std::chrono::seconds(2);
    const auto reply = client_.get(fmt::format("/v1/leases/{}", id_of(lease_)));
    if (reply && reply->ok())
      lease_ = reply->body.at("lease");
    else
      next_look_ = Clock::now() + kLookLater;
    if (lease_.at("state") == "ended") return end(xoe::pool::ended_sentence("its lease", lease_.value("why", "")));
    tell("give_way", [&] {
      const Json& by = lease_.at("give_way").at("by");
      say(by.is_null() ? "a more important lease waits; please release these GPUs soon"
                       : "a more important lease waits; this one ends at " + local_time(by));
      if (options_.checkpoint_signal != 0) ::kill(pid_, options_.checkpoint_signal);
    });
    if (lease_.value("expiry_warned", false) && !warned_) {
      warned_ = true;
      const Json* const expires = member_of(lease_, "expires");
      say(fmt::format("the lease ends {}; `xoe pool renew {}` keeps it",
                      expires == nullptr ? "soon" : "at " + local_time(*expires), id_of(lease_)));
    }
    const std::string idle = lease_.value("idle", "busy");
    if (idle != idle_ && idle == "warned") say("its GPUs are idle; they will be taken back");
    if (idle == "signalled") return end("its GPUs were idle for too long");
    idle_ = idle;
    const Json* const expires = member_of(lease_, "expires");
    if (expires == nullptr) return;
    const double left =
        expires->get<double>() - std::chrono::duration<double>(client_.now().time_since_epoch()).count();
    if (left <= std::chrono::duration<double>(options_.grace).count()) end("its lease is about to end");
  }

  template <class Do>
  void tell(const char* field, Do&& act) {
    if (!lease_.contains(field) || told_ == lease_.at(field)) return;
    told_ = lease_.at(field);
    act();
  }

  void end(const std::string& why) {
    say(fmt::format("{}; the program is asked to end", why));
    ::kill(pid_, SIGTERM);
    kill_at_ = Clock::now() + options_.grace;
  }

  Client& client_;
  const RunOptions& options_;
  Json lease_;
  pid_t pid_;
  ExtraGpus* extras_;
  Json told_ = {};
  bool warned_ = false;
  std::string idle_ = "busy";
  Clock::time_point next_look_ = Clock::now();
  std::optional<Clock::time_point> kill_at_;
};

// Processes that the program left running still use its GPUs. `older`: that are none of its.
void end_leftovers(const std::vector<pid_t>& older, std::chrono::nanoseconds grace) {
  const auto begin = Clock::now();
  const auto kill_at = begin + kLeftAlone + grace;
  std::set<pid_t> asked;
  for (auto now = begin; now < kill_at + kKillTimeout; now = Clock::now()) {
    std::vector<pid_t> left;
    for (const pid_t child : remote::children_of_this_process())
      if (std::ranges::find(older, child) == older.end() && ::waitpid(child, nullptr, WNOHANG) == 0)
        left.push_back(child);
    if (left.empty()) return;
    if (asked.empty() && now >= begin + kLeftAlone)
      say(fmt::format("the program left {} running, which {} ended", counted(std::ssize(left), "process"),
                      left.size() == 1 ? "is" : "are"));
    for (const pid_t child : left) {
      if (now >= kill_at)
        ::kill(child, SIGKILL);
      else if (now >= begin + kLeftAlone && asked.insert(child).second)
        ::kill(child, SIGTERM);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  say("a process that the program left running cannot be ended");
}

// The command to start: the program, or `xoe run` with one rank for each GPU.
std::vector<std::string> command_line(const RunOptions& options, const std::vector<std::string>& of_ranks) {
  if (!options.ranks) return options.program;
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<std::string> words = {(folder / "xoe").string(), "run"};
  words.insert(words.end(), of_ranks.begin(), of_ranks.end());
  words.insert(words.end(), options.program.begin(), options.program.end());
  return words;
}

int run_program(Client& client, const RunOptions& options, const Json& lease, const LeaseReaper& reaper,
                const sigset_t& before, const std::vector<std::string>& program, int passed, ExtraGpus* extras) {
  std::optional<DeviceRule> rule;
  if (options.device_rule) {
    auto made = DeviceRule::create(device_rule_name(::getpid()), lease.at("gpus"));
    if (!made) return fail(made.error());
    rule.emplace(std::move(*made));
  }
  const sigset_t set = taken_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  const auto older = remote::children_of_this_process();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const auto pid = start_program(program, before, passed, rule ? &*rule : nullptr);
  if (!pid) {
    fail(pid.error());
    return 127;
  }
  reaper.runs(*pid);
  const int status = Watch(client, options, lease, *pid, extras).wait();
  end_leftovers(older, std::min<std::chrono::nanoseconds>(options.grace, kLeftoversGrace));
  return remote::exit_code_of(status);
}

// The request for one of the GPUs beyond those that are needed.
LeaseOptions extra_request(const RunOptions& options) {
  LeaseOptions one = options.lease;
  one.request["gpus"] = 1;
  one.request["same_nvlink"] = false;
  one.request["wait"] = true;
  one.request["yields"] = true;
  one.request["priority"] = options.extra_priority.value_or(options.lease.request.value("priority", 0) - 1);
  return one;
}

// The options of `xoe run` for the lease's GPUs: on this host, or, where it has others, too, on all of its hosts, this
// one's ranks first.
Result<std::vector<std::string>> rank_words(const RunOptions& options, const Json& lease) {
  const std::vector<std::string> here = lease.at("gpus");
  if (!options.lease.request.value("any_host", false))
    return std::vector<std::string>{"--devices", fmt::format("{}", fmt::join(here, ","))};
  const std::string own = host_name("localhost");
  std::vector<std::pair<std::string, std::vector<std::string>>> places;
  for (const auto& [name, gpus] : lease.at("gpus_by_host").items()) {
    const bool is_own = name == options.host;
    // The name becomes a word of ssh's command line.
    const bool is_name = !name.empty() && name[0] != '-' && std::ranges::all_of(name, [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
    });
    if (!is_own && !is_name)
      return failure(
          Code::kUnsupported,
          "lease {} has GPUs of the host \"{}\", which is no name that ssh could reach: start its agent with "
          "--host NAME",
          id_of(lease), name);
    places.emplace(is_own ? places.begin() : places.end(), is_own ? own : name, gpus);
  }
  std::vector<std::string> hosts;
  std::vector<std::string> devices;
  for (const auto& [name, gpus] : places) {
    hosts.push_back(fmt::format("{}:{}", name, gpus.size()));
    devices.insert(devices.end(), gpus.begin(), gpus.end());
  }
  return std::vector<std::string>{"-H", fmt::format("{}", fmt::join(hosts, ",")), "--devices",
                                  fmt::format("{}", fmt::join(devices, ","))};
}

// One rank for each GPU, and further ones while there are GPUs for them.
int run_ranks(Client& patient, Client& client, const RunOptions& options, const Json& lease, const LeaseReaper& reaper,
              const sigset_t& before) {
  if (visible_variable(lease) != std::string_view("CUDA_VISIBLE_DEVICES"))
    return fail(Error(Code::kUnsupported, "the ranks of xoe run use NVIDIA's GPUs; --type names such ones"));
  std::vector<std::string> gpus = lease.at("gpus");
  const int extra = options.lease.most_gpus - static_cast<int>(gpus.size());
  if (options.lease.most_gpus == 0 || extra == 0) {
    const auto words = rank_words(options, lease);
    if (!words) return fail(words.error());
    return run_program(client, options, lease, reaper, before, command_line(options, *words), -1, nullptr);
  }
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(Error(Code::kUnavailable, fmt::format("no socket: {}", errno_text(errno))));
  const Fd theirs(ends[1]);
  ExtraGpus extras(client, options.connection, reaper, extra_request(options), extra, Fd(ends[0]), options.grace, say);
  for (std::string& gpu : extras.take_at_once()) gpus.push_back(std::move(gpu));
  say(fmt::format("{} to begin with, {} at most", counted(std::ssize(gpus), "rank"), options.lease.most_gpus));
  const int code = run_program(client, options, lease, reaper, before,
                               command_line(options, {"--devices", fmt::format("{}", fmt::join(gpus, ",")), "--resize",
                                                      fmt::format("{}:{}", theirs.get(), options.lease.most_gpus)}),
                               theirs.get(), &extras);
  extras.give_back_all(patient);
  return code;
}

int run_on_cpu(const RunOptions& options, const std::string& why, const sigset_t& before) {
  const auto dash = std::ranges::find(options.program, "--");  // after the options of `xoe run`
  const bool is_behind = options.ranks && dash != options.program.end() && dash + 1 != options.program.end();
  say(fmt::format("no GPU ({}): {} runs on the CPU", why, is_behind ? dash[1] : options.program[0]));
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  const auto words = command_line(options, {"-np", std::to_string(options.lease.request.value("gpus", 1))});
  std::vector<char*> argv = remote::c_strings(words);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::execvp(argv[0], argv.data());
  fail(Error(Code::kInvalidArgument, fmt::format("cannot start {}: {}", options.program[0], errno_text(errno))));
  return 127;
}

Status check(const RunOptions& options) {
  if (options.lease.most_gpus > 0 && !options.ranks)
    return failure(Code::kInvalidArgument,
                   "--gpus {}:{} is for a training whose ranks come and go: xoe run --pool --gpus {}:{} PROGRAM",
                   options.lease.request.value("gpus", 1), options.lease.most_gpus,
                   options.lease.request.value("gpus", 1), options.lease.most_gpus);
  const bool any_host = options.lease.request.value("any_host", false);
  if (any_host && !options.ranks)
    return failure(
        Code::kInvalidArgument,
        "--any-host: the program runs on this host; for ranks on several, xoe run --pool --any-host PROGRAM");
  if (any_host && (options.device_rule || options.lease.most_gpus > 0))
    return failure(Code::kUnsupported, "--any-host: {} is for GPUs of this host",
                   options.device_rule ? "--device-rule" : "--gpus MIN:MAX");
  if (options.device_rule && options.lease.most_gpus > 0)
    return failure(Code::kUnsupported, "--device-rule is for a fixed number of GPUs, not for --gpus MIN:MAX");
  return {};
}

// The program runs here, so GPUs of another host are of no use to it. An agent may have given this host another name,
// but then it has told which machine it is on.
Result<std::string> name_of_this_host(Client& client) {
  XOE_ASSIGN(const auto status, client.get("/v1/status"));
  if (!status.ok()) return failure(Code::kUnavailable, "{}", status.message());
  const std::string own = host_name("localhost"), machine = machine_identity();
  std::vector<std::string> all, here;
  for (const Json& host : status.body.at("hosts")) {
    const std::string name = host.at("name");
    if (name == own) return own;
    all.push_back(name);
    if (!machine.empty() && host.value("machine", "") == machine) here.push_back(name);
  }
  if (here.size() == 1) return here.front();
  if (!here.empty())
    return failure(Code::kInvalidArgument,
                   "this host, {}, has several names in the pool: say with --host which one's GPUs to take: {}", own,
                   fmt::join(here, ", "));
  return failure(
      Code::kInvalidArgument,
      "the pool knows no host {}, and GPUs of other hosts are of no use here: start `xoe pool agent` on this "
      "host, or say with --host which of the pool's hosts it is: {}",
      own, all.empty() ? "it has none" : fmt::format("{}", fmt::join(all, ", ")));
}

// A host of the pool whose agent has told that it is another machine than this one.
Status check_is_here(Client& client, const std::string& host) {
  XOE_ASSIGN(const auto status, client.get("/v1/status"));
  if (!status.ok()) return failure(Code::kUnavailable, "{}", status.message());
  const std::string own = machine_identity();
  for (const Json& known : status.body.at("hosts")) {
    const std::string machine = known.value("machine", "");
    if (known.at("name") != host || !known.value("online", false) || own.empty() || machine.empty()) continue;
    // An agent or this program may be in a container.
    if (xoe::start_of_machine(machine) == xoe::start_of_machine(own)) continue;
    return failure(
        Code::kInvalidArgument,
        "--host: {} is another machine, and the program would run on this one: start `xoe pool run` there, or "
        "let `xoe pool acquire --host {}` hold its GPUs",
        host, host);
  }
  return {};
}

Status take_from_this_host(Client& client, RunOptions& options) {
  if (options.device_rule) options.lease.request["device_rule"] = true;
  const bool any_host = options.lease.request.value("any_host", false);
  if (options.host.empty()) {
    const auto name = name_of_this_host(client);
    if (!name && !any_host) return failure(name.error());
    if (name) options.host = *name;
  } else {
    XOE_TRY(check_is_here(client, options.host));
  }
  if (!any_host) options.lease.request["host"] = options.host;
  return {};
}

int run(RunOptions options) {
  if (const Status good = check(options); !good) return fail(good.error());
  const HeldSignals held;
  auto client = connect(options.connection);
  if (!client && options.or_cpu) return run_on_cpu(options, client.error().message(), held.before());
  if (!client) return fail(client.error());
  if (const Status here = take_from_this_host(*client, options); !here)
    return options.or_cpu ? run_on_cpu(options, here.error().message(), held.before()) : fail(here.error());
  const auto reaper = LeaseReaper::start(options.connection);
  if (!reaper) return fail(reaper.error());
  auto reply = acquire(*client, options.connection, options.lease, "/v1/leases",
                       [&](std::int64_t lease) { reaper->holds(lease); });
  // What could not be given back, the reaper gives back once this process has ended or runs another program.
  if (!reply && options.or_cpu && !HeldSignals::any())
    return run_on_cpu(options, reply.error().message(), held.before());
  if (!reply) return fail(reply.error());
  if (!reply->ok()) return fail(*reply);
  await_devices(*client, *reply);
  const Json& lease = reply->body.at("lease");
  const auto id = id_of(lease);
  if (lease.at("state") != "open") {
    reaper->gave_back(id);
    if (options.or_cpu) return run_on_cpu(options, lease.value("why", ""), held.before());
    say(lease.value("why", ""));
    return kNoGpu;
  }
  say(fmt::format("lease {}{}: {}", id, end_text(lease), visible_devices(lease)));
  ::setenv(visible_variable(lease), visible_devices(lease).c_str(), 1);
  ::setenv("XOE_POOL_LEASE", std::to_string(id).c_str(), 1);
  ::setenv(kRunVariable, run_mark(::getpid()).c_str(), 1);
  // Its looks must not keep it from passing signals on while the server does not answer.
  auto watcher = connect_briefly(options.connection);
  const int code = !watcher ? fail(watcher.error())
                   : options.ranks
                       ? run_ranks(*client, *watcher, options, lease, *reaper, held.before())
                       : run_program(*watcher, options, lease, *reaper, held.before(), options.program, -1, nullptr);
  // The reaper tries longer.
  if (const Status released = release(*client, options.connection, id); !released)
    say(released.error().message());
  else
    reaper->gave_back(id);
  return code;
}

}  // namespace

void add_run(CLI::App& app, int& code) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* const verb = app.add_subcommand("run", "take GPUs, run a program with them, give them back");
  add_connection_options(*verb, options->connection);
  add_lease_options(*verb, options->lease);
  verb->add_option("--host", options->host, "this host's name in the pool: its GPUs are taken")
      ->type_name("NAME")
      ->default_str("the one that its agent reports under");
  verb->add_flag("--ranks", options->ranks,
                 "PROGRAM is what follows `xoe run`: one rank for each GPU; --gpus may be MIN:MAX");
  verb->add_flag("--device-rule", options->device_rule,
                 "the program cannot open other GPUs, by a rule of a cgroup; needs root");
  verb->add_option_function<int>(
          "--extra-priority", [options](const int& priority) { options->extra_priority = priority; },
          "of the GPUs beyond MIN, which are given back when a more important lease waits")
      ->type_name("INT")
      ->default_str("one less than --priority");
  verb->add_flag("--or-cpu", options->or_cpu, "without a GPU to give, run it on the CPU");
  verb->add_option_function<std::string>(
          "--checkpoint-signal",
          [options](const std::string& name) { options->checkpoint_signal = name == "USR1" ? SIGUSR1 : SIGUSR2; },
          "signal for the program when the lease must give way")
      ->check(CLI::IsMember({"USR1", "USR2"}))
      ->type_name("USR1|USR2");
  add_span_option(*verb, "--grace", options->grace, "between SIGTERM and SIGKILL, and before the lease's end");
  add_program(*verb, options->program, "after --, with its arguments");
  verb->callback([options, &code] { code = run(*options); });
}

}  // namespace xoe::tools::pool
