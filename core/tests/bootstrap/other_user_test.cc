// Within a host the kernel tells who is at the other end: a process of another user gets nothing, even if it knows the
// secret.
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <utility>

#include "core/base/fd.h"
#include "core/base/random_token.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/store.h"
#include "core/bootstrap/store_client.h"
#include "core/bootstrap/store_protocol.h"

namespace xoe::bootstrap {
namespace {

using namespace std::chrono_literals;

SocketAddress some_address() { return SocketAddress::parse("unix:@xoe-test-" + random_token().value()).value(); }

// A child process of another user; it ends with what `body` returns, or is killed.
class OtherUser {
 public:
  explicit OtherUser(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    constexpr uid_t kNobody = 65534;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Not setresuid(): after fork() from a process with threads only system calls are safe.
    ::_exit(::syscall(SYS_setresuid, kNobody, kNobody, kNobody) == 0 ? body() : 100);
  }
  OtherUser(const OtherUser&) = delete;
  ~OtherUser() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  // The exit code, or -1.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
};

class AnotherUser : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  }
};

TEST_F(AnotherUser, IsNotServedThoughItKnowsTheSecret) {
  const SocketAddress address = some_address();
  const auto served = serve_store(address.text(), "right").value();
  ASSERT_TRUE(connect_store(address, "right", /*wait=*/false, 5s));
  std::string hello;
  append_hello(hello, "right");
  OtherUser user([&] {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::connect(socket, address.address(), address.size()) != 0) return 101;
    (void)::send(socket, hello.data(), hello.size(), MSG_NOSIGNAL);
    char answer = 0;
    return ::recv(socket, &answer, 1, 0) > 0 ? 1 : 0;
  });
  EXPECT_EQ(user.wait(), 0);
}

TEST_F(AnotherUser, WhoTookTheNameIsToldNothing) {
  const SocketAddress address = some_address();
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), address.address(), address.size()), 0);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  // The kernel notes the user who calls listen().
  OtherUser user([&] {
    if (::listen(listener.get(), 8) != 0 || ::write(ready[1], "!", 1) != 1) return 101;
    const int client = ::accept(listener.get(), nullptr, nullptr);
    char byte = 0;
    return ::recv(client, &byte, 1, 0) > 0 ? 1 : 0;
  });
  ::close(ready[1]);
  char byte = 0;
  const auto told = ::read(ready[0], &byte, 1);
  ::close(ready[0]);
  ASSERT_EQ(told, 1);
  const auto store = connect_store(address, "right", /*wait=*/false, 2s);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code(), Code::kUnavailable);
  EXPECT_THAT(store.error().message(), testing::HasSubstr("another user"));
  EXPECT_EQ(user.wait(), 0);
}

}  // namespace
}  // namespace xoe::bootstrap
