#include "backend/nccl/comm.h"

#include <condition_variable>
#include <system_error>
#include <thread>
#include <utility>

#include "backend/nccl/device.h"
#include "backend/nccl/pause.h"

namespace xoe::nccl {
namespace {

// Peers that leave too are given so long.
constexpr std::chrono::seconds kFarewell(2);

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

// A call that blocks, in its own thread.
struct Joining {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false, given_up = false;
  NcclResult result = NcclResult::kInProgress;
  NcclComm comm = nullptr;
};

void join_and_tell(const Libraries& libraries, const Seat& seat, Joining& joining) {
  NcclComm comm = nullptr;
  const OnDevice scope(libraries.cuda, seat.device);
  const NcclResult result = libraries.nccl.comm_init_rank(&comm, seat.size, seat.id, seat.self);
  const std::lock_guard lock(joining.mutex);
  joining.done = true;
  joining.result = result;
  joining.comm = comm;
  if (joining.given_up && result == NcclResult::kSuccess) (void)libraries.nccl.comm_abort(comm);
  joining.ended.notify_all();
}

}  // namespace

Comm::Comm(std::shared_ptr<const Libraries> libraries, int device)
    : libraries_(std::move(libraries)), device_(device) {}

Result<std::unique_ptr<Comm>> Comm::join(std::shared_ptr<const Libraries> libraries, const Seat& seat,
                                         Clock::time_point deadline) {
  std::unique_ptr<Comm> comm(new Comm(std::move(libraries), seat.device));
  const Status joined = comm->libraries_->features.non_blocking ? comm->join_at_once(seat, deadline)
                                                                : comm->join_in_thread(seat, deadline);
  if (joined) return comm;
  comm->abort();
  return failure(joined.error());
}

Status Comm::join_at_once(const Seat& seat, Clock::time_point deadline) {
  NcclConfig config;
  config.blocking = 0;
  const NcclResult result = libraries_->nccl.comm_init_rank_config(&comm_, seat.size, seat.id, seat.self, &config);
  return settle(result, deadline);
}

Status Comm::join_in_thread(const Seat& seat, Clock::time_point deadline) {
  const auto joining = std::make_shared<Joining>();
  try {
    std::thread([libraries = libraries_, seat, joining] { join_and_tell(*libraries, seat, *joining); }).detach();
  } catch (const std::system_error&) {
    return failure(Code::kResourceExhausted, "cannot start a thread (limit of processes?)");
  }
  std::unique_lock lock(joining->mutex);
  joining->given_up = !joining->ended.wait_until(lock, deadline, [&] { return joining->done; });
  if (joining->given_up) return failure(Code::kTimeout, "not all members joined within the deadline");
  if (joining->result == NcclResult::kSuccess) comm_ = joining->comm;
  return status(joining->result);
}

Comm::~Comm() {
  const NcclComm comm = take();
  if (comm == nullptr) return;
  const NcclApi& nccl = libraries_->nccl;
  const OnDevice scope(libraries_->cuda, device_);
  NcclResult result = NcclResult::kSuccess;
  if (libraries_->features.non_blocking && !stopped()) {
    const Clock::time_point deadline = Clock::now() + kFarewell;
    result = nccl.comm_finalize(comm);
    for (Pause pause; result == NcclResult::kInProgress && Clock::now() < deadline; pause())
      if (const NcclResult asked = nccl.comm_get_async_error(comm, &result); asked != NcclResult::kSuccess)
        result = asked;
  }
  if (result == NcclResult::kSuccess && !stopped())
    (void)nccl.comm_destroy(comm);
  else
    (void)nccl.comm_abort(comm);
}

Result<NcclComm> Comm::enter() {
  const std::lock_guard lock(mutex_);
  if (stopped() || comm_ == nullptr) return stopped_failure();
  inside_ = true;
  return comm_;
}

void Comm::leave() noexcept {
  const std::lock_guard lock(mutex_);
  inside_ = false;
}

NcclComm Comm::take() noexcept {
  const std::lock_guard lock(mutex_);
  return std::exchange(comm_, nullptr);
}

// A call that does not block is on its way until the communicator says otherwise; it takes no other one meanwhile.
Status Comm::settle(NcclResult result, Clock::time_point deadline) const {
  for (Pause pause; result == NcclResult::kInProgress; pause()) {
    if (stopped()) return stopped_failure();
    if (Clock::now() >= deadline) return failure(Code::kTimeout, "NCCL was not ready at the deadline");
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

Status Comm::health() const {
  if (stopped()) return stopped_failure();
  NcclResult result = NcclResult::kSuccess;
  if (const NcclResult asked = libraries_->nccl.comm_get_async_error(comm_, &result); asked != NcclResult::kSuccess)
    result = asked;
  Status found = status(result);
  // A connection that breaks, before 2.13.
  if (!found && result == NcclResult::kSystemError) return failure(Code::kPeerLost, found.error().message());
  return found;
}

void Comm::abort() noexcept {
  stopped_.store(true, std::memory_order_release);
  if (const NcclComm comm = take(); comm != nullptr) (void)libraries_->nccl.comm_abort(comm);
}

// Calls that do not block see `stopped_` by themselves.
void Comm::stop() noexcept {
  NcclComm blocked = nullptr;
  {
    const std::lock_guard lock(mutex_);
    stopped_.store(true, std::memory_order_release);
    if (inside_ && !libraries_->features.non_blocking) blocked = std::exchange(comm_, nullptr);
  }
  if (blocked != nullptr) (void)libraries_->nccl.comm_abort(blocked);
}

}  // namespace xoe::nccl
