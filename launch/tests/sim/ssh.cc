#include "launch/tests/sim/ssh.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/fd.h"
#include "core/bootstrap/socket_address.h"
#include "launch/remote/child_process.h"
#include "launch/remote/spawn.h"

namespace xoe::launch::sim_tests {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kNoConnection = 255;
constexpr std::size_t kLongestFrame = std::size_t{1} << 20;
// The first byte of a frame from there: what the agent wrote, or its exit code.
constexpr char kOut = 'o', kErr = 'e', kCode = 'c';

void append_frame(std::string& to, char kind, std::string_view bytes) {
  append_little(to, static_cast<std::uint32_t>(bytes.size() + 1));
  to += kind;
  to += bytes;
}

bool is_ready(const pollfd& entry) { return (entry.revents & (POLLIN | POLLHUP | POLLERR)) != 0; }

// One agent, on behalf of an ssh that has connected.
void serve(Fd socket) {
  auto started = remote::ChildProcess::start({"/sim/xoe", "agent"}, remote::Inherited::current());
  if (!started) return;
  std::string in, out;
  while (started->out.valid() || !started->process.status() || !out.empty()) {
    std::array<pollfd, 4> entries{
        pollfd{.fd = socket.get(), .events = static_cast<short>(out.empty() ? POLLIN : POLLIN | POLLOUT), .revents = 0},
        pollfd{.fd = started->out.get(), .events = POLLIN, .revents = 0},
        pollfd{.fd = started->err.get(), .events = POLLIN, .revents = 0},
        pollfd{.fd = started->process.fd(), .events = POLLIN, .revents = 0}};
    ::poll(entries.data(), entries.size(), in.empty() ? -1 : 10);
    if (is_ready(entries[0])) in += remote::read_some(socket);
    if (started->in.valid()) remote::write_some(started->in, in);
    if (!socket.valid()) started->in = Fd();
    if (is_ready(entries[1]))
      if (const std::string bytes = remote::read_some(started->out); !bytes.empty()) append_frame(out, kOut, bytes);
    if (is_ready(entries[2]))
      if (const std::string bytes = remote::read_some(started->err); !bytes.empty()) append_frame(out, kErr, bytes);
    if (is_ready(entries[3])) started->process.reap();
    if (socket.valid())
      remote::write_some(socket, out);
    else
      out.clear();
  }
  append_frame(out, kCode, std::string(1, static_cast<char>(remote::exit_code_of(*started->process.status()))));
  if (socket.valid()) remote::write_some(socket, out);
}

}  // namespace

int sshd(int, char**) {
  ::signal(SIGPIPE, SIG_IGN);
  const auto listener = bootstrap::listen_at(bootstrap::SocketAddress::tcp("0.0.0.0", 22).value());
  if (!listener) return 1;
  while (true) {
    pollfd entry{.fd = listener->get(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, -1);
    Fd socket(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) std::thread([made = std::move(socket)]() mutable { serve(std::move(made)); }).detach();
  }
}

int ssh(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  const std::string host = argv[argc - 2];
  const auto at = bootstrap::SocketAddress::resolve("tcp:" + host + ":22");
  auto connected = at ? bootstrap::connect_to(*at, false, Clock::now() + 600s) : Result<Fd>(failure(at.error()));
  if (!connected) {
    std::fprintf(stderr, "ssh: connect to host %s port 22: %s\n", host.c_str(), connected.error().message().c_str());
    return kNoConnection;
  }
  Fd socket = std::move(*connected), in(::dup(STDIN_FILENO)), out(::dup(STDOUT_FILENO)), err(::dup(STDERR_FILENO));
  std::string to_host;
  FrameBuffer frames;
  while (socket.valid()) {
    std::array<pollfd, 2> entries{pollfd{.fd = socket.get(),
                                         .events = static_cast<short>(to_host.empty() ? POLLIN : POLLIN | POLLOUT),
                                         .revents = 0},
                                  pollfd{.fd = in.get(), .events = POLLIN, .revents = 0}};
    ::poll(entries.data(), entries.size(), -1);
    if (is_ready(entries[1])) to_host += remote::read_some(in);
    if (is_ready(entries[0])) frames.append(remote::read_some(socket));
    remote::write_some(socket, to_host);
    if (!in.valid() && to_host.empty()) ::shutdown(socket.get(), SHUT_WR);
    while (const auto frame = frames.next(kLongestFrame)) {
      if (frame->front() == kCode) return static_cast<unsigned char>(frame->back());
      std::string bytes(frame->substr(1));
      remote::write_some(frame->front() == kOut ? out : err, bytes);
    }
  }
  return kNoConnection;
}

}  // namespace xoe::launch::sim_tests
