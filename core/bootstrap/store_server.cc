// A store server with a thread of its own, and the choice between the launcher's store and rank 0's.
#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <thread>

#include "core/base/error.h"
#include "core/base/random_token.h"
#include "core/bootstrap/proof.h"
#include "core/bootstrap/store.h"
#include "core/bootstrap/store_client.h"
#include "core/bootstrap/store_service.h"

namespace xoe::bootstrap {
namespace {

constexpr std::string_view kFile = "file:";
// All addresses of this host, since it is unknown which one the others can reach.
constexpr std::array<std::string_view, 2> kAnywhere{"tcp:[::]:", "tcp:0.0.0.0:"};

// Two 64-bit FNV-1a sums: enough to distinguish one user's jobs. Both ends authenticate each other.
std::string job_digest(std::string_view job) {
  std::array<std::uint64_t, 2> sums{0xcbf29ce484222325u, 0x84222325cbf29ce4u};
  for (const char c : job)
    for (auto& sum : sums) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return fmt::format("{:016x}{:016x}", sums[0], sums[1]);
}

// Without the secret it cannot be guessed, so that other users cannot take it before rank 0 does.
std::string meeting_name(const LaunchInfo& info) {
  if (info.secret.empty()) return job_digest(info.job);
  std::string name;
  for (const char c : make_key(info.secret, "meeting " + info.job).substr(0, 16))
    name += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return name;
}

Result<std::unique_ptr<StoreServer>> serve_anywhere(std::string_view port, std::string_view secret) {
  auto server = serve_store(fmt::format("{}{}", kAnywhere[0], port), secret);
  if (server || server.error().code() == Code::kUnavailable) return server;
  return serve_store(fmt::format("{}{}", kAnywhere[1], port), secret);  // this host has no IPv6
}

// Set in rank 0's store: all groups of a job meet at the same host and port.
std::string served_key(const LaunchInfo& info) { return "served/" + info.group; }

// The store that rank 0 serves for this group. The one of the group before may still be served there: it ends without
// the key.
Result<std::unique_ptr<Store>> connect_to_rank_0(const SocketAddress& at, const LaunchInfo& info,
                                                 std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const std::array<std::string, 1> key{served_key(info)};
  while (true) {
    const auto left = deadline - std::chrono::steady_clock::now();
    auto store = connect_store(at, info.secret, /*wait=*/true, left);
    if (store && at.remote())
      if (const auto found = (*store)->get_all(key, left); !found) store = failure(found.error());
    if (store || store.error().code() != Code::kPeerLost || std::chrono::steady_clock::now() >= deadline) return store;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// `address`: a unix socket, or "tcp:host:port" of this host.
Result<std::unique_ptr<Store>> serve_as_rank_0(const std::string& address, const LaunchInfo& info,
                                               std::chrono::nanoseconds timeout) {
  const auto serve = [&] {
    const bool remote = address.starts_with("tcp:");
    return remote ? serve_anywhere(address.substr(address.rfind(':') + 1), info.secret)
                  : serve_store(address, info.secret);
  };
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  auto server = serve();
  // The name may still be held by this job's previous group, whose rank 0 is about to leave.
  while (!server && server.error().code() == Code::kUnavailable && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    server = serve();
  }
  if (!server) return failure(server.error());
  XOE_ASSIGN(const auto at, SocketAddress::parse((*server)->address()));
  XOE_ASSIGN(auto store, connect_store(at, info.secret, /*wait=*/false, timeout, std::move(*server)));
  if (at.remote()) XOE_TRY(store->set(served_key(info), ""));
  return store;
}

// Where rank 0 serves the store if the launcher does not.
Result<std::string> rank_0_address(const LaunchInfo& info) {
  if (info.topology.size == info.topology.local_size)
    return fmt::format("unix:@xoe-{}-{}-{}-{}", ::geteuid(), info.launcher, meeting_name(info), info.group);
  if (info.meeting.empty())
    return failure(
        Code::kInvalidArgument,
        "{} ranks on several hosts started by {}, which does not say where they can meet; use xoe run, or set "
        "XOE_MEETING=HOST:PORT to where rank 0 can be reached, or XOE_STORE=file:FOLDER to a folder that all hosts see",
        info.topology.size, info.launcher);
  if (info.secret.empty())
    return failure(Code::kInvalidArgument,
                   "the ranks on several hosts have no secret in common; set XOE_SECRET to the same on all of them");
  return "tcp:" + info.meeting;
}

}  // namespace

StoreServer::StoreServer(std::unique_ptr<StoreService> service, Fd stop)
    : service_(std::move(service)), stop_(std::move(stop)) {}

Result<std::unique_ptr<StoreServer>> StoreServer::start(std::unique_ptr<StoreService> service) {
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return failure(Code::kResourceExhausted, "store: eventfd: {}", errno_text(errno));
  std::unique_ptr<StoreServer> server(new StoreServer(std::move(service), std::move(stop)));
  try {
    server->thread_ = std::jthread([self = server.get()] { self->run(); });
  } catch (const std::system_error&) {
    return failure(Code::kResourceExhausted, "store: cannot start its thread (limit of processes?)");
  }
  return server;
}

StoreServer::~StoreServer() { ::eventfd_write(stop_.get(), 1); }

const std::string& StoreServer::address() const noexcept { return service_->address(); }

void StoreServer::run() {
  std::array<pollfd, 2> entries{pollfd{.fd = service_->fd(), .events = POLLIN, .revents = 0},
                                pollfd{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
  while (true) {
    ::poll(entries.data(), entries.size(), service_->poll_timeout_ms());
    if (entries[1].revents != 0) return;
    service_->serve();
  }
}

Result<std::unique_ptr<StoreServer>> serve_store(std::string_view address, std::string_view secret) {
  std::string chosen(address);
  if (chosen.empty()) {
    XOE_ASSIGN(const auto token, random_token());
    chosen = fmt::format("unix:@xoe-{}-{}", ::geteuid(), token);
  }
  XOE_ASSIGN(const auto at, SocketAddress::parse(chosen));
  XOE_ASSIGN(auto service, StoreService::listen(at, secret));
  return StoreServer::start(std::move(service));
}

Result<std::unique_ptr<Store>> open_store(const LaunchInfo& info, std::chrono::nanoseconds timeout) {
  if (info.store.starts_with(kFile))
    return open_file_store(info.store.substr(kFile.size()), job_digest(info.job), info.topology.rank);
  if (!info.store.empty()) {
    const auto at = SocketAddress::resolve(info.store);
    if (!at) return failure(at.error().code(), "XOE_STORE: {}", at.error().message());
    return connect_store(*at, info.secret, /*wait=*/false, timeout);
  }
  if (info.topology.size == 1) return make_memory_store();
  XOE_ASSIGN(const std::string address, rank_0_address(info));
  if (info.topology.rank == 0) return serve_as_rank_0(address, info, timeout);
  XOE_ASSIGN(const auto at, SocketAddress::resolve(address));
  return connect_to_rank_0(at, info, timeout);
}

}  // namespace xoe::bootstrap
