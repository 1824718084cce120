#include "pool/server/request_collector.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

namespace xoe::pool {
namespace {

constexpr auto kLookAround = std::chrono::milliseconds(100);  // for connections whose time is over
constexpr std::uint64_t kWake = 0;                            // no number of a connection
constexpr Span kDrainTime = std::chrono::seconds(2);
constexpr int kMostReads = 16;            // of one connection before others have their turn
constexpr std::size_t kOtherFiles = 128;  // that the process may open beside connections
constexpr std::size_t kEnough = 8192;     // connections
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kTooLate = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

std::size_t most_connections(std::size_t wanted) {
  rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) files.rlim_cur = 1024;
  const std::size_t possible = files.rlim_cur > 2 * kOtherFiles ? files.rlim_cur - kOtherFiles : kOtherFiles;
  return std::min(wanted == 0 ? kEnough : wanted, possible);
}

}  // namespace

RequestCollector::RequestCollector(const CollectorOptions& options, Admit admit, Serve serve)
    : options_(options),
      admit_(std::move(admit)),
      serve_(std::move(serve)),
      most_(most_connections(options.connections)),
      ready_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      threads_(options.threads),
      report_threads_(options.report_threads),
      worker_([this](const std::stop_token& stop) { work(stop); }) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kWake;
  ::epoll_ctl(ready_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
}

RequestCollector::~RequestCollector() { end(); }

void RequestCollector::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    std::erase_if(entries_, [](const auto& item) { return item.second->collecting; });
  }
  worker_.request_stop();
  wake();
  if (worker_.joinable()) worker_.join();
  threads_.shutdown();
  report_threads_.shutdown();
}

void RequestCollector::add(Fd socket) {
  const std::lock_guard lock(mutex_);
  if (ending_) return;
  if (entries_.size() >= most_) {
    auto oldest = entries_.end();
    for (auto each = entries_.begin(); each != entries_.end(); ++each)
      if (each->second->collecting && (oldest == entries_.end() || each->second->since < oldest->second->since))
        oldest = each;
    if (oldest == entries_.end()) return;  // all are being served
    entries_.erase(oldest);
  }
  if (entries_.empty()) wake();
  const std::uint64_t id = next_++;
  const auto added = entries_.emplace(id, std::make_unique<Entry>(std::move(socket), options_.tls)).first;
  if (!await_more(id, *added->second, EPOLL_CTL_ADD)) entries_.erase(added);
}

bool RequestCollector::await_more(std::uint64_t id, Entry& entry, int operation) {
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT;
  event.data.u64 = id;
  return ::epoll_ctl(ready_.get(), operation, entry.connection.socket(), &event) == 0;
}

// False: the connection is over.
bool RequestCollector::collect(std::uint64_t id, Entry& entry) {
  if (entry.draining) return drain(id, entry);
  Connection& connection = entry.connection;
  RequestExtent& request = connection.request;
  for (;;) {
    if (request.head == 0)
      request = extent_of(connection.received, std::exchange(entry.searched, connection.received.size()));
    // The one that serves a request whose body is too large says so.
    const std::size_t body = request.body > options_.max_body ? 0 : request.body;
    if (request.head > 0) {
      const bool whole = connection.received.size() >= request.head + body;
      if (whole || (body > options_.small_body && !entry.admitted)) {
        enqueue(id, entry, whole);
        return true;
      }
      if (request.wants_continue && !std::exchange(entry.continued, true) && !connection.send(kContinue, Span(0)))
        return false;
    }
    const bool begins = connection.received.empty();
    const Connection::Got got = connection.receive(request.head == 0 ? kMaxHead : request.head + body);
    if (got == Connection::Got::kEnd) return false;
    if (got == Connection::Got::kNothing) return await_more(id, entry, EPOLL_CTL_MOD);
    if (begins) entry.since = Clock::now();
  }
}

void RequestCollector::enqueue(std::uint64_t id, Entry& entry, bool whole) {
  entry.collecting = false;
  ConnectionThreads& threads = entry.connection.request.is_report ? report_threads_ : threads_;
  threads.enqueue([this, id, &entry, whole] { whole ? serve(id, entry) : admit(id, entry); });
}

void RequestCollector::admit(std::uint64_t id, Entry& entry) {
  if (!admit_(std::string_view(entry.connection.received).substr(0, entry.connection.request.head)))
    return serve(id, entry);
  entry.admitted = true;
  take_back(id, entry);
}

void RequestCollector::serve(std::uint64_t id, Entry& entry) {
  const bool goes_on = serve_(entry.connection);
  if (!goes_on) return close(id, entry);
  entry.connection.request = {};
  entry.searched = 0;
  entry.admitted = entry.continued = false;
  take_back(id, entry);
}

void RequestCollector::take_back(std::uint64_t id, Entry& entry) {
  const std::lock_guard lock(mutex_);
  entry.since = Clock::now();
  entry.collecting = true;
  if (ending_ || !collect(id, entry)) entries_.erase(id);
}

void RequestCollector::close(std::uint64_t id, Entry& entry) {
  entry.connection.finish();
  const std::lock_guard lock(mutex_);
  entry.since = Clock::now();
  entry.collecting = entry.draining = true;
  if (ending_ || !drain(id, entry)) entries_.erase(id);
}

// A socket that is closed with unread bytes resets its connection, and the client may never see its answer.
bool RequestCollector::drain(std::uint64_t id, Entry& entry) {
  Connection::Got got = Connection::Got::kSome;
  for (int i = 0; i < kMostReads && got == Connection::Got::kSome; ++i) {
    entry.connection.received.clear();
    got = entry.connection.receive(kMaxHead);
  }
  return got != Connection::Got::kEnd && await_more(id, entry, EPOLL_CTL_MOD);
}

void RequestCollector::drop_silent_ones() {
  const auto now = Clock::now();
  std::erase_if(entries_, [&](const auto& item) {
    Entry& entry = *item.second;
    if (!entry.collecting) return false;
    const bool begun = !entry.draining && !entry.connection.received.empty();
    const Span timeout = entry.draining ? kDrainTime : begun ? options_.request_timeout : options_.idle_timeout;
    if (now - entry.since < timeout) return false;
    if (!begun || !entry.connection.send(kTooLate, Span(0))) return true;
    entry.connection.finish();
    entry.since = now;
    entry.draining = true;
    return !drain(item.first, entry);
  });
}

void RequestCollector::wake() { ::eventfd_write(wake_.get(), 1); }

void RequestCollector::work(const std::stop_token& stop) {
  std::array<epoll_event, 64> events;
  auto checked = Clock::now();
  bool any = false;  // without a connection, there is no time to look at
  while (!stop.stop_requested()) {
    const int count = ::epoll_wait(ready_.get(), events.data(), static_cast<int>(events.size()),
                                   any ? static_cast<int>(kLookAround.count()) : -1);
    const std::lock_guard lock(mutex_);
    any = !entries_.empty();
    for (int i = 0; i < count; ++i) {
      const std::uint64_t number = events[static_cast<std::size_t>(i)].data.u64;
      if (eventfd_t ignored = 0; number == kWake) ::eventfd_read(wake_.get(), &ignored);
      const auto found = entries_.find(number);
      if (found == entries_.end() || !found->second->collecting) continue;  // it was dropped meanwhile
      if (!collect(found->first, *found->second)) entries_.erase(found);
    }
    if (Clock::now() - checked < kLookAround) continue;
    checked = Clock::now();
    drop_silent_ones();
  }
}

}  // namespace xoe::pool
