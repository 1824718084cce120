#include "core/command_line/parse/answer_once.h"

#include <signal.h>

#include <ctime>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/bootstrap/launch_env.h"

namespace xoe::tools {
namespace {

void wait_for_the_end() {
  sigset_t ending;
  ::sigemptyset(&ending);
  for (const int signal : {SIGINT, SIGTERM}) ::sigaddset(&ending, signal);
  ::sigprocmask(SIG_BLOCK, &ending, nullptr);
  const timespec timeout = {.tv_sec = 10, .tv_nsec = 0};
  ::sigtimedwait(&ending, nullptr, &timeout);
}

}  // namespace

bool first_of_job() {
  const auto info = bootstrap::read_launch_info(Env::process());
  return !info || info->topology.rank == 0;
}

int answer_once(const Answer& answer) {
  if (first_of_job()) return tell(answer);
  if (answer.code != 0) wait_for_the_end();
  return answer.code;
}

int usage_error(std::string_view name, std::string_view message) {
  return answer_once({.code = kUsageError, .text = fmt::format("{}: {}\n", name, message)});
}

}  // namespace xoe::tools
