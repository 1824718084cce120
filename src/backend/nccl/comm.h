// One communicator of NCCL: nobody waits in it for good, and whoever gives up releases it.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "backend/nccl/libraries.h"
#include "base/error.h"
#include "xoe/status.h"

namespace xoe::nccl {

using Clock = std::chrono::steady_clock;

struct Seat {
  NcclUniqueId id = {};
  int size = 1;
  int self = 0;
  int device = 0;
};

// One thread at a time, except for stop() and stopped(). Codes: `peer_lost` when NCCL saw a peer go, `timeout` past the
// deadline, `unavailable` after stop() and where CUDA or the system fail. After any of them only abort() is left.
class Comm {
 public:
  // Returns when all members have joined. Where NCCL's own joining blocks (before 2.14) it stays behind in a thread
  // that gives up whatever comes of it. REQUIRES: the thread's device is the seat's.
  static Result<std::unique_ptr<Comm>> join(std::shared_ptr<const Libraries> libraries, const Seat& seat,
                                            Clock::time_point deadline);
  // With its peers while they are there, for a little while; else by itself.
  ~Comm();

  // Runs body(NcclComm) -> NcclResult as a group of calls; ok: they are in their streams.
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
    XOE_ASSIGN(const NcclComm comm, enter());
    const NcclResult result = body(comm);
    leave();
    return settle(result, deadline);
  }

  // What went wrong meanwhile, as far as NCCL knows.
  Status health() const;
  // Releases the communicator; what is under way on the GPU ends.
  void abort() noexcept;

  // Any thread: calls fail from now on, and one that blocks within NCCL comes back.
  void stop() noexcept;
  bool stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }

 private:
  explicit Comm(std::shared_ptr<const Libraries> libraries, int device);
  Status join_at_once(const Seat& seat, Clock::time_point deadline);
  Status join_in_thread(const Seat& seat, Clock::time_point deadline);
  Result<NcclComm> enter();
  void leave() noexcept;
  Status settle(NcclResult result, Clock::time_point deadline) const;
  Status status(NcclResult result) const;
  NcclComm take() noexcept;

  const std::shared_ptr<const Libraries> libraries_;
  const int device_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;  // of comm_ and inside_, where stop() needs them
  NcclComm comm_ = nullptr;
  bool inside_ = false;  // a call is in NCCL
};

}  // namespace xoe::nccl
