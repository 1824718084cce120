#include "core/backend/nccl/comm.h"

#include <algorithm>
#include <condition_variable>
#include <system_error>
#include <thread>
#include <utility>

#include "core/backend/nccl/backoff.h"
#include "core/backend/nccl/device.h"

namespace xoe::nccl {
namespace {

// How long peers have to finalize too.
constexpr std::chrono::seconds kFinalizeTimeout(2);
constexpr std::chrono::seconds kCheckEvery(1);

Code code_of(NcclResult result) noexcept {
  switch (result) {
    case NcclResult::kRemoteError: return Code::kPeerLost;
    case NcclResult::kTimeout: return Code::kTimeout;
    case NcclResult::kInvalidArgument:
    case NcclResult::kInvalidUsage: return Code::kInvalidArgument;
    default: return Code::kUnavailable;
  }
}

tl::unexpected<Error> stopped_failure() { return failure(Code::kUnavailable, "aborted"); }

// A blocking initialisation in its own thread.
struct PendingInit {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false, abandoned = false;
  NcclResult result = NcclResult::kInProgress;
  NcclComm comm = nullptr;
};

void init_blocking(const Libraries& libraries, const Membership& membership, PendingInit& pending) {
  NcclComm comm = nullptr;
  const DeviceScope scope(libraries, membership.device);
  const NcclResult result = libraries.nccl.comm_init_rank(&comm, membership.size, membership.id, membership.self);
  const std::lock_guard lock(pending.mutex);
  pending.done = true;
  pending.result = result;
  pending.comm = comm;
  if (pending.abandoned && result == NcclResult::kSuccess) (void)libraries.nccl.comm_abort(comm);
  pending.ended.notify_all();
}

}  // namespace

Comm::Comm(std::shared_ptr<const Libraries> libraries, int device)
    : libraries_(std::move(libraries)), device_(device) {}

Result<std::unique_ptr<Comm>> Comm::join(std::shared_ptr<const Libraries> libraries, const Membership& membership,
                                         Clock::time_point deadline, const Check& check) {
  std::unique_ptr<Comm> comm(new Comm(std::move(libraries), membership.device));
  const Status joined = comm->libraries_->features.non_blocking ? comm->init_non_blocking(membership, deadline, check)
                                                                : comm->init_in_thread(membership, deadline, check);
  if (joined) return comm;
  comm->abort();
  return failure(joined.error());
}

Status Comm::init_non_blocking(const Membership& membership, Clock::time_point deadline, const Check& check) {
  NcclConfig config;
  config.blocking = 0;
  const NcclResult result =
      libraries_->nccl.comm_init_rank_config(&comm_, membership.size, membership.id, membership.self, &config);
  return wait_ready(result, deadline, check);
}

Status Comm::init_in_thread(const Membership& membership, Clock::time_point deadline, const Check& check) {
  const auto pending = std::make_shared<PendingInit>();
  try {
    std::thread([libraries = libraries_, membership, pending] {
      init_blocking(*libraries, membership, *pending);
    }).detach();
  } catch (const std::system_error&) {
    return failure(Code::kResourceExhausted, "cannot start a thread (limit of processes?)");
  }
  std::unique_lock lock(pending->mutex);
  for (Status expected; !pending->done;) {
    const auto now = Clock::now();
    pending->abandoned = !expected || now >= deadline;
    if (!expected) return expected;
    if (pending->abandoned) return failure(Code::kTimeout, "not all members joined within the deadline");
    pending->ended.wait_until(lock, std::min(deadline, now + kCheckEvery), [&] { return pending->done; });
    if (pending->done || !check) continue;
    lock.unlock();
    expected = check();
    lock.lock();
  }
  if (pending->result == NcclResult::kSuccess) comm_ = pending->comm;
  return status(pending->result);
}

Comm::~Comm() {
  const NcclComm comm = take();
  if (comm == nullptr) return;
  const NcclApi& nccl = libraries_->nccl;
  const DeviceScope scope(*libraries_, device_);
  NcclResult result = NcclResult::kSuccess;
  if (libraries_->features.non_blocking && !stopped()) {
    const Clock::time_point deadline = Clock::now() + kFinalizeTimeout;
    result = nccl.comm_finalize(comm);
    for (Backoff backoff; result == NcclResult::kInProgress && Clock::now() < deadline; backoff())
      if (const NcclResult asked = nccl.comm_get_async_error(comm, &result); asked != NcclResult::kSuccess)
        result = asked;
  }
  if (result == NcclResult::kSuccess && !stopped())
    (void)nccl.comm_destroy(comm);
  else
    (void)nccl.comm_abort(comm);
}

Result<NcclComm> Comm::begin_call() {
  const std::lock_guard lock(mutex_);
  if (stopped() || comm_ == nullptr) return stopped_failure();
  in_call_ = true;
  return comm_;
}

void Comm::end_call() noexcept {
  const std::lock_guard lock(mutex_);
  in_call_ = false;
}

NcclComm Comm::take() noexcept {
  const std::lock_guard lock(mutex_);
  return std::exchange(comm_, nullptr);
}

// A non-blocking call is in progress until the communicator reports otherwise, and allows no other call until then.
Status Comm::wait_ready(NcclResult result, Clock::time_point deadline, const Check& check) const {
  auto next_check = check ? Clock::now() + kCheckEvery : Clock::time_point::max();
  for (Backoff backoff; result == NcclResult::kInProgress; backoff()) {
    if (stopped()) return stopped_failure();
    const auto now = Clock::now();
    if (now >= deadline) return failure(Code::kTimeout, "NCCL was not ready at the deadline");
    if (now >= next_check) {
      XOE_TRY(check());
      next_check = now + kCheckEvery;
    }
    if (const NcclResult asked = libraries_->nccl.comm_get_async_error(comm_, &result); asked != NcclResult::kSuccess)
      result = asked;
  }
  return stopped() ? Status(stopped_failure()) : status(result);
}

Status Comm::status(NcclResult result) const {
  if (result == NcclResult::kSuccess || result == NcclResult::kInProgress) return {};
  const NcclApi& nccl = libraries_->nccl;
  const char* const more = nccl.get_last_error != nullptr && comm_ != nullptr ? nccl.get_last_error(comm_) : nullptr;
  const bool has_more = more != nullptr && *more != '\0';
  return failure(code_of(result), "NCCL: {}{}{}{}", nccl.get_error_string(result), has_more ? " (" : "",
                 has_more ? more : "", has_more ? ")" : "");
}

Status Comm::async_error() const {
  if (stopped()) return stopped_failure();
  NcclResult result = NcclResult::kSuccess;
  if (const NcclResult asked = libraries_->nccl.comm_get_async_error(comm_, &result); asked != NcclResult::kSuccess)
    result = asked;
  Status found = status(result);
  // Before 2.13: a broken connection.
  if (!found && result == NcclResult::kSystemError) return failure(Code::kPeerLost, found.error().message());
  return found;
}

void Comm::abort() noexcept {
  stopped_.store(true, std::memory_order_release);
  if (const NcclComm comm = take(); comm != nullptr) (void)libraries_->nccl.comm_abort(comm);
}

// Non-blocking calls poll `stopped_` themselves.
void Comm::stop() noexcept {
  NcclComm blocked = nullptr;
  {
    const std::lock_guard lock(mutex_);
    stopped_.store(true, std::memory_order_release);
    if (in_call_ && !libraries_->features.non_blocking) blocked = std::exchange(comm_, nullptr);
  }
  if (blocked != nullptr) (void)libraries_->nccl.comm_abort(blocked);
}

}  // namespace xoe::nccl
