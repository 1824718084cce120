#include "core/bootstrap/mesh_handshake.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/bootstrap/socket_address.h"

namespace xoe::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kCheckInterval = std::chrono::seconds(1);
// Longer than a member on a busy host takes to authenticate.
constexpr auto kConnectTurn = std::chrono::seconds(5);

// Lets all members after this one connect.
class Acceptor {
 public:
  Acceptor(Fd listener, const ConnectOptions& options, std::vector<MemberConnection>& connections, int self)
      : stop_(::eventfd(0, EFD_CLOEXEC)),
        options_(options),
        connections_(connections),
        self_(self),
        size_(static_cast<int>(connections.size()) / options.lanes),
        acceptor_(std::move(listener),
                  {.secret = options.secret,
                   .expects = [this](auto member, auto lane) { return expects(member, lane); },
                   .admit = [this](int member, int lane,
                                   MemberConnection connection) { place(member, lane) = std::move(connection); }}) {}

  const std::string& address() const noexcept { return acceptor_.address(); }
  std::size_t unauthenticated() const noexcept { return acceptor_.unauthenticated(); }

  // Until all members after this one have connected.
  Status run() {
    auto check_at = Clock::now() + kCheckInterval;
    while (first_missing() >= 0) {
      if (options_.check && Clock::now() >= check_at) {
        XOE_TRY(options_.check());
        check_at = Clock::now() + kCheckInterval;
      }
      const Clock::time_point deadline = deadline_;
      if (Clock::now() >= deadline)
        return failure(Code::kTimeout, "{} of {} did not connect", options_.name(first_missing()), size_);
      std::vector<pollfd> entries{{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
      acceptor_.add_entries(entries);
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      ::poll(entries.data(), entries.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 200)));
      if (entries[0].revents != 0) return failure(Code::kUnavailable, "given up");
      acceptor_.serve(std::span(entries).subspan(1));
    }
    return {};
  }

  // Before run(), and by any thread while it goes on.
  void set_deadline(Clock::time_point deadline) noexcept { deadline_ = deadline; }
  // Any thread: run() returns soon.
  void stop() noexcept { ::eventfd_write(stop_.get(), 1); }

 private:
  MemberConnection& place(int member, int lane) const { return connections_.begin()[lane * size_ + member]; }

  bool expects(std::uint32_t member, std::uint32_t lane) const {
    return member > static_cast<std::uint32_t>(self_) && member < static_cast<std::uint32_t>(size_) &&
           lane < static_cast<std::uint32_t>(options_.lanes) &&
           !place(static_cast<int>(member), static_cast<int>(lane)).socket.valid();
  }

  int first_missing() const {
    for (int member = self_ + 1; member < size_; ++member)
      for (int lane = 0; lane < options_.lanes; ++lane)
        if (!place(member, lane).socket.valid()) return member;
    return -1;
  }

  Fd stop_;
  std::atomic<Clock::time_point> deadline_ = Clock::time_point::max();
  const ConnectOptions& options_;
  std::vector<MemberConnection>& connections_;
  int self_, size_;
  MemberAcceptor acceptor_;
};

// Runs an acceptor in a thread of its own: from before the members know this one's address, so that unauthenticated
// clients cannot fill the queue of the listener.
class Accepting {
 public:
  explicit Accepting(Acceptor& acceptor) : acceptor_(acceptor) {}
  Accepting(const Accepting&) = delete;
  ~Accepting() { acceptor_.stop(); }

  Status start(Clock::time_point deadline) {
    acceptor_.set_deadline(deadline);
    try {
      thread_ = std::jthread([this] { outcome_ = acceptor_.run(); });
      return {};
    } catch (const std::system_error&) {
      return failure(Code::kResourceExhausted, "cannot start a thread (limit of processes?)");
    }
  }
  Status wait() {
    thread_.join();
    return outcome_;
  }

 private:
  Acceptor& acceptor_;
  Status outcome_;
  std::jthread thread_;
};

// A member that has gone since it told its address would be tried until the deadline.
Result<MemberConnection> connect_in_turns(const MemberClient& client, const ConnectOptions& options,
                                          Clock::time_point deadline) {
  while (true) {
    const auto turn = options.check ? std::min<Clock::time_point>(deadline, Clock::now() + kConnectTurn) : deadline;
    auto made = connect_member(client, turn);
    if (made || turn == deadline || Clock::now() + kCheckInterval < turn) return made;
    XOE_TRY(options.check());
  }
}

// To all members before this one.
Status connect_to_members(int self, int size, const std::vector<std::string>& addresses, const ConnectOptions& options,
                          std::vector<MemberConnection>& connections, Clock::time_point deadline) {
  for (int lane = 0; lane < options.lanes; ++lane) {
    for (int member = 0; member < self; ++member) {
      const std::string& address = addresses[static_cast<std::size_t>(member)];
      auto made = connect_in_turns({.self = self, .lane = lane, .address = address, .secret = options.secret}, options,
                                   deadline);
      if (!made)
        return failure(made.error().code(), "cannot connect to {} at {}: {}", options.name(member), address,
                       made.error().message());
      connections.begin()[lane * size + member] = std::move(*made);
    }
  }
  return {};
}

}  // namespace

Result<std::vector<MemberConnection>> connect_members(int self, int size, const Exchange& exchange,
                                                      const ConnectOptions& given, Clock::time_point deadline) {
  ConnectOptions options = given;
  if (!options.name) options.name = [](int member) { return fmt::format("host {}", member); };
  if (options.secret.empty())
    return failure(Code::kInvalidArgument, "connections between hosts require a secret (XOE_SECRET)");
  XOE_ASSIGN(const auto any, SocketAddress::tcp(options.address, 0));
  XOE_ASSIGN(Fd listener, listen_at(any));
  std::vector<MemberConnection> connections(static_cast<std::size_t>(size * options.lanes));
  Acceptor acceptor(std::move(listener), options, connections, self);
  Accepting accepting(acceptor);
  XOE_TRY(accepting.start(deadline));
  XOE_ASSIGN(const auto addresses, exchange(acceptor.address()));
  if (addresses.size() != static_cast<std::size_t>(size))
    return failure(Code::kInternal, "{} addresses of {} members", addresses.size(), size);
  if (options.limit.count() > 0) deadline = std::min<Clock::time_point>(deadline, Clock::now() + options.limit);
  acceptor.set_deadline(deadline);
  XOE_TRY(connect_to_members(self, size, addresses, options, connections, deadline));
  XOE_TRY(accepting.wait());
  if (acceptor.unauthenticated() != 0 && options.warn)
    options.warn(
        fmt::format("{}: {} unauthenticated connections were dropped: other programs connect to this job's ports",
                    acceptor.address(), acceptor.unauthenticated()));
  return connections;
}

}  // namespace xoe::bootstrap
