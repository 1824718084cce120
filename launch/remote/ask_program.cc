#include "launch/remote/ask_program.h"

#include <poll.h>

#include <array>

#include "core/base/error.h"
#include "launch/remote/child_process.h"

namespace xoe::remote {

constexpr std::size_t kMostOutput = std::size_t{1} << 20;

using Clock = std::chrono::steady_clock;

Result<Answer> ask_program(const std::vector<std::string>& command, const Inherited& inherited,
                           std::chrono::milliseconds timeout) {
  XOE_ASSIGN(auto child, ChildProcess::start(command, inherited));
  child.in = Fd();
  const auto deadline = Clock::now() + timeout;
  Answer answer;
  while (child.out.valid() || child.err.valid() || child.process.fd() >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      answer.in_time = false;
      return answer;
    }
    std::array<pollfd, 3> waits = {pollfd{child.out.get(), POLLIN, 0}, pollfd{child.err.get(), POLLIN, 0},
                                   pollfd{child.process.fd(), POLLIN, 0}};
    ::poll(waits.data(), waits.size(), static_cast<int>(left.count()));
    if (child.out.valid()) answer.out += read_some(child.out);
    if (child.err.valid()) answer.err += read_some(child.err);
    if (answer.out.size() + answer.err.size() > kMostOutput)
      return failure(Code::kInternal, "{} prints too much", command.front());
    if (waits[2].revents != 0) child.process.reap();
  }
  answer.status = child.process.status().value_or(0);
  return answer;
}

}  // namespace xoe::remote
