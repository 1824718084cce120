#include "core/command_line/parse/answer_once.h"

#include <signal.h>

#include <chrono>
#include <ctime>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/bootstrap/launch_env.h"
#include "core/bootstrap/world_page.h"

namespace xoe::tools {
namespace {

constexpr auto kLongest = std::chrono::seconds(10);
constexpr timespec kTurn = {.tv_sec = 0, .tv_nsec = 20'000'000};

// A job that goes on without a rank that failed ends none of the others: its world changes instead.
void wait_for_the_end() {
  sigset_t ending;
  ::sigemptyset(&ending);
  for (const int signal : {SIGINT, SIGTERM}) ::sigaddset(&ending, signal);
  ::sigprocmask(SIG_BLOCK, &ending, nullptr);
  const auto world = bootstrap::WorldView::of_process(Env::process());
  const auto changed = [&] { return world && world->change(0) != bootstrap::WorldView::Change::kStay; };
  const auto until = std::chrono::steady_clock::now() + kLongest;
  while (!changed() && std::chrono::steady_clock::now() < until)
    if (::sigtimedwait(&ending, nullptr, &kTurn) >= 0) return;
}

}  // namespace

bool first_of_job() {
  const auto info = bootstrap::read_launch_info(Env::process());
  return !info || info->topology.rank == 0;
}

int answer_once(const Answer& answer) {
  // A rank that joins a running job reports its mistake itself: rank 0 did not make it.
  const auto world = bootstrap::WorldView::of_process(Env::process());
  if (first_of_job() || (world && world->is_newcomer())) return tell(answer);
  if (answer.code != 0) wait_for_the_end();
  return answer.code;
}

int usage_error(std::string_view name, std::string_view message) {
  return answer_once({.code = kUsageError, .text = fmt::format("{}: {}\n", name, message)});
}

}  // namespace xoe::tools
