// xoe pool run: acquires, runs a program, releases whatever happens.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "base/error.h"
#include "base/fd.h"
#include "remote/spawn.h"
#include "tools/pool/held_signals.h"
#include "tools/pool/verbs.h"

namespace xoe::tools::pool {
namespace {

using Clock = std::chrono::steady_clock;

struct RunOptions {
  Connection connection = {};
  LeaseOptions lease = {};
  bool or_cpu = false;
  int checkpoint_signal = 0;
  Span grace = std::chrono::seconds(30);
  std::vector<std::string> program = {};
};

void say(const std::string& what) { fmt::print(stderr, "xoe pool run: {}\n", what); }

// The signals that the loop takes one by one.
sigset_t taken_signals() {
  sigset_t set = HeldSignals::ending_signals();
  for (const int signal : {SIGCHLD, SIGUSR1, SIGUSR2}) ::sigaddset(&set, signal);
  return set;
}

// In this process's group, so that the terminal stays the program's.
Result<pid_t> start(const std::vector<std::string>& program, const sigset_t& mask) {
  std::vector<char*> argv = remote::c_strings(program);
  int failed[2];
  if (::pipe2(failed, O_CLOEXEC) != 0) return failure(Code::kUnavailable, "no pipe: {}", errno_text(errno));
  const Fd in(failed[0]);
  Fd out(failed[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return failure(Code::kUnavailable, "cannot start {}: {}", program[0], errno_text(errno));
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // without its lease it must not go on
    if (::getppid() != parent) ::_exit(127);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    std::signal(SIGPIPE, SIG_DFL);
    std::signal(SIGXFSZ, SIG_DFL);
    ::execvp(argv[0], argv.data());
    const int error = errno;
    [[maybe_unused]] const auto written = ::write(failed[1], &error, sizeof error);
    ::_exit(127);
  }
  out = Fd();
  int error = 0;
  if (::read(in.get(), &error, sizeof error) != sizeof error) return pid;
  ::waitpid(pid, nullptr, 0);
  return failure(Code::kInvalidArgument, "cannot start {}: {}", program[0], errno_text(error));
}

// Watches the program and its lease. The lease may end before the program: then the program is ended.
class Watch {
 public:
  Watch(Client& client, const RunOptions& options, Json lease, pid_t pid)
      : client_(client), options_(options), lease_(std::move(lease)), pid_(pid) {}

  // Returns the program's wait status.
  int wait() {
    const sigset_t set = taken_signals();
    for (;;) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) return status;
      const timespec second = {1, 0};
      siginfo_t info = {};
      const int signal = ::sigtimedwait(&set, &info, &second);
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
    const auto reply = client_.get(fmt::format("/v1/leases/{}", lease_.at("id").get<std::int64_t>()));
    if (reply && reply->ok()) lease_ = reply->body.at("lease");
    if (lease_.at("state") == "ended") return end("its lease has ended: " + lease_.value("why", ""));
    tell("give_way", [&] {
      const Json& by = lease_.at("give_way").at("by");
      say(by.is_null() ? "a more important lease waits; please release these GPUs soon"
                       : "a more important lease waits; this one ends at " + local_time(by));
      if (options_.checkpoint_signal != 0) ::kill(pid_, options_.checkpoint_signal);
    });
    if (lease_.value("expiry_warned", false) && !warned_) {
      warned_ = true;
      say(fmt::format("the lease ends at {}; `xoe pool renew {}` keeps it", local_time(lease_.at("expires")),
                      lease_.at("id").get<std::int64_t>()));
    }
    const std::string idle = lease_.value("idle", "busy");
    if (idle != idle_ && idle == "warned") say("its GPUs are idle; they will be taken back");
    if (idle == "signalled") return end("its GPUs were idle for too long");
    idle_ = idle;
    const double left = lease_.at("expires").get<double>() -
                        std::chrono::duration<double>(xoe::pool::system_now().time_since_epoch()).count();
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
  Json told_ = {};
  bool warned_ = false;
  std::string idle_ = "busy";
  Clock::time_point next_look_ = Clock::now();
  std::optional<Clock::time_point> kill_at_;
};

int run_program(Client& client, const RunOptions& options, const Json& lease, const sigset_t& before) {
  const sigset_t set = taken_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  const auto pid = start(options.program, before);
  if (!pid) {
    fail(pid.error());
    return 127;
  }
  return remote::exit_code_of(Watch(client, options, lease, *pid).wait());
}

int run_on_cpu(const RunOptions& options, const std::string& why, const sigset_t& before) {
  say(fmt::format("no GPU ({}): {} runs on the CPU", why, options.program[0]));
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  std::vector<char*> argv = remote::c_strings(options.program);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::execvp(argv[0], argv.data());
  fail(Error(Code::kInvalidArgument, fmt::format("cannot start {}: {}", options.program[0], errno_text(errno))));
  return 127;
}

int run(const RunOptions& options) {
  const HeldSignals held;
  auto client = connect(options.connection);
  if (!client) return fail(client.error());
  const auto reply = acquire(*client, options.connection, options.lease, "/v1/leases");
  if (!reply && options.or_cpu && !HeldSignals::any())
    return run_on_cpu(options, reply.error().message(), held.before());
  if (!reply) return fail(reply.error());
  if (!reply->ok()) return fail(*reply);
  const Json& lease = reply->body.at("lease");
  const auto id = lease.at("id").get<std::int64_t>();
  if (lease.at("state") != "open") {
    if (options.or_cpu) return run_on_cpu(options, lease.value("why", ""), held.before());
    say(lease.value("why", ""));
    return kNoGpu;
  }
  say(fmt::format("lease {} until {}: {}", id, local_time(lease.at("expires")), visible_devices(lease)));
  ::setenv(visible_variable(lease), visible_devices(lease).c_str(), 1);
  ::setenv("XOE_POOL_LEASE", std::to_string(id).c_str(), 1);
  // Its looks must not keep it from passing signals on while the server does not answer.
  auto watcher = connect(options.connection, Span(0));
  const int code = watcher ? run_program(*watcher, options, lease, held.before()) : fail(watcher.error());
  release(*client, options.connection, id);
  return code;
}

}  // namespace

void add_run(CLI::App& app, int& code) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* const verb = app.add_subcommand("run", "take GPUs, run a program with them, give them back");
  add_connection_options(*verb, options->connection);
  add_lease_options(*verb, options->lease);
  verb->add_flag("--or-cpu", options->or_cpu, "without a GPU to give, run it on the CPU");
  verb->add_option_function<std::string>(
          "--checkpoint-signal",
          [options](const std::string& name) { options->checkpoint_signal = name == "USR1" ? SIGUSR1 : SIGUSR2; },
          "for the program when it shall give way")
      ->check(CLI::IsMember({"USR1", "USR2"}))
      ->type_name("USR1|USR2");
  add_span_option(*verb, "--grace", options->grace, "between SIGTERM and SIGKILL, and before the lease's end");
  verb->add_option("PROGRAM", options->program, "after --, with its arguments")->required();
  verb->callback([options, &code] { code = run(*options); });
}

}  // namespace xoe::tools::pool
