// An NCCL communicator whose calls end at their deadline, and that can be aborted.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "core/backend/nccl/libraries.h"
#include "core/base/error.h"
#include "xoe/status.h"

namespace xoe::nccl {

using Clock = std::chrono::steady_clock;

struct Membership {
  NcclUniqueId id = {};
  int size = 1;
  int self = 0;
  int device = 0;
};

// One thread at a time, except for stop() and stopped(). Codes: `peer_lost` when NCCL lost a peer, `timeout` past the
// deadline, `unavailable` after stop() and where CUDA or the system fail. After an error only abort() may follow.
class Comm {
 public:
  // As net::Members::check; it may be empty.
  using Check = std::function<Status()>;
  // Returns when all members have joined; with the error of `check`, which is asked each second, when the missing ones
  // will not come. Where NCCL's initialisation blocks (before 2.14) and does not end in time, a thread stays behind
  // that aborts the communicator once it exists. REQUIRES: the thread's device is the membership's.
  static Result<std::unique_ptr<Comm>> join(std::shared_ptr<const Libraries> libraries, const Membership& membership,
                                            Clock::time_point deadline, const Check& check);
  // Finalizes together with the peers, or aborts when they do not take part within a short time.
  ~Comm();

  // Runs body(NcclComm) -> NcclResult as a group of calls; ok: they are enqueued in their streams.
  template <class Body>
  Status launch(Clock::time_point deadline, Body&& body) {
    const NcclApi& nccl = libraries_->nccl;
    return call(deadline, [&](NcclComm comm) {
      if (const NcclResult result = nccl.group_start(); result != NcclResult::kSuccess) return result;
      const NcclResult result = body(comm);
      const NcclResult end = nccl.group_end();  // also after an error, which would leave the group open
      return result == NcclResult::kSuccess || result == NcclResult::kInProgress ? end : result;
    });
  }
  // Runs body(NcclComm) -> NcclResult.
  template <class Body>
  Status call(Clock::time_point deadline, Body&& body) {
    XOE_ASSIGN(const NcclComm comm, begin_call());
    const NcclResult result = body(comm);
    end_call();
    return wait_ready(result, deadline);
  }

  // The asynchronous error that NCCL reports, if any.
  Status async_error() const;
  // Releases the communicator; its kernels on the GPU end.
  void abort() noexcept;

  // Any thread: calls fail from now on, and a call that blocks in NCCL returns.
  void stop() noexcept;
  bool stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }

 private:
  explicit Comm(std::shared_ptr<const Libraries> libraries, int device);
  Status init_non_blocking(const Membership& membership, Clock::time_point deadline, const Check& check);
  Status init_in_thread(const Membership& membership, Clock::time_point deadline, const Check& check);
  Result<NcclComm> begin_call();
  void end_call() noexcept;
  Status wait_ready(NcclResult result, Clock::time_point deadline, const Check& check = {}) const;
  Status status(NcclResult result) const;
  NcclComm take() noexcept;

  const std::shared_ptr<const Libraries> libraries_;
  const int device_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;  // guards comm_ and in_call_ against stop()
  NcclComm comm_ = nullptr;
  bool in_call_ = false;  // a call into NCCL is in progress
};

}  // namespace xoe::nccl
