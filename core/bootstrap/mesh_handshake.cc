#include "core/bootstrap/mesh_handshake.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
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

// Members that are connected to, in ascending order.
std::vector<int> wanted_members(const ConnectOptions& options, int self, int size) {
  std::vector<int> members = options.members;
  if (members.empty())
    for (int member = 0; member < size; ++member) members.push_back(member);
  std::erase(members, self);
  std::ranges::sort(members);
  return members;
}

// Lets the members after this one connect.
class Acceptor {
 public:
  Acceptor(Fd listener, const ConnectOptions& options, std::vector<MemberConnection>& connections, int self,
           std::span<const int> members)
      : wakeup_(::eventfd(0, EFD_CLOEXEC)),
        failed_(::eventfd(0, EFD_CLOEXEC)),
        options_(options),
        connections_(connections),
        members_(std::ranges::upper_bound(members, self), members.end()),
        size_(static_cast<int>(connections.size()) / options.lanes),
        acceptor_(std::move(listener),
                  {.secret = options.secret,
                   .expects = [this](auto member, auto lane) { return expects(member, lane); },
                   .admit = [this](int member, int lane,
                                   MemberConnection connection) { place(member, lane) = std::move(connection); }}) {}

  const std::string& address() const noexcept { return acceptor_.address(); }
  std::size_t unauthenticated() const noexcept { return acceptor_.unauthenticated(); }

  // Until these members after this one have connected, and connected() was called. What ends it before ends the
  // connecting to those before this one, too: see failed().
  Status run() {
    Status outcome = accept_all();
    if (!outcome) ::eventfd_write(failed_.get(), 1);
    return outcome;
  }

  // Before run(), and by any thread while it goes on.
  void set_deadline(Clock::time_point deadline) noexcept { deadline_ = deadline; }
  // Any thread: run() returns soon.
  void stop() noexcept {
    stops_ = true;
    ::eventfd_write(wakeup_.get(), 1);
  }
  // Any thread: this member has connected to all before it.
  void connected() noexcept {
    connected_ = true;
    ::eventfd_write(wakeup_.get(), 1);
  }
  // Readable once run() has failed.
  int failed() const noexcept { return failed_.get(); }

 private:
  Status accept_all() {
    auto check_at = Clock::now() + kCheckInterval;
    while (first_missing() >= 0 || !connected_) {
      if (options_.check && Clock::now() >= check_at) {
        XOE_TRY(options_.check());
        check_at = Clock::now() + kCheckInterval;
      }
      const Clock::time_point deadline = deadline_;
      if (Clock::now() >= deadline && first_missing() >= 0)
        return failure(Code::kTimeout, "{} of {} did not connect", options_.name(first_missing()), size_);
      std::vector<pollfd> entries{{.fd = wakeup_.get(), .events = POLLIN, .revents = 0}};
      acceptor_.add_entries(entries);
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      ::poll(entries.data(), entries.size(), static_cast<int>(std::clamp<std::int64_t>(left, 1, 200)));
      if (stops_) return failure(Code::kUnavailable, "given up");
      if (eventfd_t woken; entries[0].revents != 0) ::eventfd_read(wakeup_.get(), &woken);
      acceptor_.serve(std::span(entries).subspan(1));
    }
    return {};
  }

  MemberConnection& place(int member, int lane) const { return connections_.begin()[lane * size_ + member]; }

  bool expects(std::uint32_t member, std::uint32_t lane) const {
    return member < static_cast<std::uint32_t>(size_) &&
           std::ranges::binary_search(members_, static_cast<int>(member)) &&
           lane < static_cast<std::uint32_t>(options_.lanes) &&
           !place(static_cast<int>(member), static_cast<int>(lane)).socket.valid();
  }

  int first_missing() const {
    for (const int member : members_)
      for (int lane = 0; lane < options_.lanes; ++lane)
        if (!place(member, lane).socket.valid()) return member;
    return -1;
  }

  Fd wakeup_, failed_;
  std::atomic<bool> stops_ = false, connected_ = false;
  std::atomic<Clock::time_point> deadline_ = Clock::time_point::max();
  const ConnectOptions& options_;
  std::vector<MemberConnection>& connections_;
  std::vector<int> members_;  // that connect
  int size_;
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

// Connects to the members before this one: to several at a time where there are many, since each connection takes some
// round trips.
class Connector {
 public:
  struct Outcome {
    Status status;
    bool given_up = false;  // because no member is accepted any more, which is why
  };

  // to: the members before this one.
  Connector(int self, std::vector<int> to, const std::vector<std::string>& addresses, const ConnectOptions& options,
            std::vector<MemberConnection>& connections, Clock::time_point deadline, Acceptor& acceptor)
      : self_(self),
        to_(std::move(to)),
        addresses_(addresses),
        options_(options),
        connections_(connections),
        deadline_(deadline),
        acceptor_(acceptor) {}

  Outcome run() {
    {
      std::vector<std::jthread> helpers;
      const std::size_t wanted = std::min(kMostAtOnce, count() / kForAThread);
      try {
        while (helpers.size() + 1 < wanted) helpers.emplace_back([this] { work(); });
      } catch (const std::system_error&) {  // fewer take longer
      }
      work();
    }
    return outcome_;
  }

 private:
  static constexpr std::size_t kMostAtOnce = 16, kForAThread = 8;

  std::size_t count() const noexcept { return to_.size() * static_cast<std::size_t>(options_.lanes); }

  void work() {
    for (std::size_t i = next_++; i < count(); i = next_++) {
      const int member = to_[i % to_.size()], lane = static_cast<int>(i / to_.size());
      const std::string& address = addresses_[static_cast<std::size_t>(member)];
      auto made = connect_member(
          {.self = self_, .lane = lane, .address = address, .secret = options_.secret, .stop = acceptor_.failed()},
          deadline_);
      if (!made)
        return fail(Error(made.error().code(), fmt::format("cannot connect to {} at {}: {}", options_.name(member),
                                                           address, made.error().message())));
      const std::size_t members = connections_.size() / static_cast<std::size_t>(options_.lanes);
      connections_[static_cast<std::size_t>(lane) * members + static_cast<std::size_t>(member)] = std::move(*made);
    }
  }

  // The first failure counts, and ends the others.
  void fail(Error error) {
    const std::lock_guard lock(mutex_);
    if (!outcome_.status) return;
    outcome_ = {failure(std::move(error)), is_stopped_within(acceptor_.failed(), {})};
    next_ = count();
    acceptor_.stop();
  }

  const int self_;
  const std::vector<int> to_;
  const std::vector<std::string>& addresses_;
  const ConnectOptions& options_;
  std::vector<MemberConnection>& connections_;
  const Clock::time_point deadline_;
  Acceptor& acceptor_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;  // guards outcome_
  Outcome outcome_;
};

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
  const std::vector<int> members = wanted_members(options, self, size);
  Acceptor acceptor(std::move(listener), options, connections, self, members);
  Accepting accepting(acceptor);
  XOE_TRY(accepting.start(deadline));
  XOE_ASSIGN(const auto addresses, exchange(acceptor.address()));
  if (addresses.size() != static_cast<std::size_t>(size))
    return failure(Code::kInternal, "{} addresses of {} members", addresses.size(), size);
  if (options.limit.count() > 0) deadline = std::min<Clock::time_point>(deadline, Clock::now() + options.limit);
  acceptor.set_deadline(deadline);
  Connector connector(self, {members.begin(), std::ranges::upper_bound(members, self)}, addresses, options, connections,
                      deadline, acceptor);
  if (const auto made = connector.run(); !made.status) {
    const Status accepted = accepting.wait();
    return failure(made.given_up ? accepted.error() : made.status.error());
  }
  acceptor.connected();
  XOE_TRY(accepting.wait());
  if (acceptor.unauthenticated() != 0 && options.warn)
    options.warn(
        fmt::format("{}: {} unauthenticated connections were dropped: other programs connect to this job's ports",
                    acceptor.address(), acceptor.unauthenticated()));
  return connections;
}

}  // namespace xoe::bootstrap
