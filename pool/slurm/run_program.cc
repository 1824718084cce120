#include <poll.h>

#include <chrono>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launch/remote/child_process.h"
#include "pool/slurm/agent.h"

namespace xoe::pool::slurm {
namespace {

constexpr auto kTimeout = std::chrono::seconds(60);
constexpr std::size_t kMostOutput = std::size_t{16} << 20;

std::string last_line(const std::string& text) {
  const auto lines = split_text(trimmed(text), '\n');
  return lines.empty() ? std::string() : lines.back();
}

}  // namespace

Result<std::string> run_program(const std::vector<std::string>& words) {
  XOE_ASSIGN(auto child, remote::ChildProcess::start(words, remote::Inherited::current()));
  child.in = Fd();
  std::string out, err;
  const auto end = std::chrono::steady_clock::now() + kTimeout;
  while (child.out.valid() || child.err.valid() || !child.process.status()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return failure(Code::kUnavailable, "{} took longer than 60 s", words[0]);
    pollfd fds[] = {{child.out.get(), POLLIN, 0}, {child.err.get(), POLLIN, 0}, {child.process.fd(), POLLIN, 0}};
    ::poll(fds, 3, static_cast<int>(left.count()));
    if (fds[0].revents != 0) out += remote::read_some(child.out);
    if (fds[1].revents != 0) err += remote::read_some(child.err);
    if (fds[2].revents != 0) child.process.reap();
    if (out.size() > kMostOutput || err.size() > kMostOutput)
      return failure(Code::kUnavailable, "{} prints more than 16 MiB", words[0]);
  }
  if (*child.process.status() == 0) return out.empty() ? err : out;
  return failure(Code::kUnavailable, "{} {}: {}", words[0], remote::describe_status(*child.process.status()),
                 last_line(err));
}

}  // namespace xoe::pool::slurm
