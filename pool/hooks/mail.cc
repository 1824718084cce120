#include "pool/hooks/mail.h"

#include <poll.h>

#include <chrono>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "launch/remote/child_process.h"

namespace xoe::pool {
namespace {

constexpr auto kTimeout = std::chrono::seconds(20);
constexpr std::size_t kMostOutput = 1000;

}  // namespace

Status send_mail(const std::string& command, const std::string& domain, const Notice& notice) {
  remote::Inherited inherited = remote::Inherited::current();
  ::sigemptyset(&inherited.mask);  // the server holds back signals that shall end the command
  XOE_ASSIGN(auto child, remote::ChildProcess::start({"/bin/sh", "-c", command}, inherited));
  std::string mail = mail_of(notice, domain);
  std::string said;
  const auto end = std::chrono::steady_clock::now() + kTimeout;
  while (!child.process.status()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return failure(Code::kTimeout, "the mail command `{}` took longer than {} s", command, kTimeout.count());
    pollfd fds[] = {{.fd = child.process.fd(), .events = POLLIN, .revents = 0},
                    {.fd = child.in.valid() ? child.in.get() : -1, .events = POLLOUT, .revents = 0},
                    {.fd = child.out.valid() ? child.out.get() : -1, .events = POLLIN, .revents = 0},
                    {.fd = child.err.valid() ? child.err.get() : -1, .events = POLLIN, .revents = 0}};
    ::poll(fds, std::size(fds), static_cast<int>(left.count()));
    if (fds[1].revents != 0) remote::write_some(child.in, mail);
    if (mail.empty()) child.in = Fd();
    if (fds[2].revents != 0) said += remote::read_some(child.out);
    if (fds[3].revents != 0) said += remote::read_some(child.err);
    if (said.size() > kMostOutput) said.resize(kMostOutput);
    child.process.reap();
  }
  if (*child.process.status() == 0) return {};
  if (child.err.valid()) said += remote::read_some(child.err);
  return failure(Code::kUnavailable, "the mail command `{}` {}{}{}", command,
                 remote::describe_status(*child.process.status()), said.empty() ? "" : ": ",
                 printable_utf8(trimmed(said)));
}

}  // namespace xoe::pool
