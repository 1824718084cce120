// Collectives between hosts, by a library: Gloo, MPI, NCCL.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/gpu_transport.h"
#include "core/backend/net/gpu_staging.h"
#include "core/base/error.h"
#include "xoe/status.h"

namespace xoe::net {

using Clock = std::chrono::steady_clock;

// A group of ranks, its members. One thread at a time, except for abort(); different nets of a process are independent
// of each other.
class Net {
 public:
  // Leaves the net; peers in the middle of a collective with this rank may fail.
  virtual ~Net() = default;

  virtual std::string_view name() const noexcept = 0;
  // Ok, or `unsupported` with the reason and an alternative.
  virtual Status supports(const Collective& collective) const = 0;

  // Blocks until done. Counts and roots refer to members; `segments` is only used with GPU memory. `in` and `out` are
  // as in Communicator: the same memory, in place, or apart. All members get the same bits. Errors: `timeout` past the
  // deadline, `peer_lost` when the library saw a peer go (with its rank in the job where known), `unavailable` after
  // abort(). Each of them ends the net: later calls fail with the same error, and the collective's buffers are no
  // longer in use.
  virtual Status run(const Collective& collective, Clock::time_point deadline) = 0;

  // Any thread. A thread in run() returns soon.
  virtual void abort() noexcept = 0;
};

// Every member passes some bytes and receives those of all, by member. The members of a new net exchange their
// addresses with it.
using Exchange = std::function<Result<std::vector<std::string>>(const std::string& mine)>;

struct Members {
  std::vector<int> ranks;   // in the job, by member
  int self = 0;             // a member
  std::string secret = {};  // which only the job's ranks know: providers that connect by themselves prove it
  // An error when the members that are still missing will not come. Any thread. Empty: it is not known.
  std::function<Status()> check = {};
};

// The user's choices; empty: the library chooses.
struct NetOptions {
  std::string address = {};     // numeric, of this host's interface that the other hosts reach
  std::string interfaces = {};  // names or networks (10.0.0.0/8), separated by commas
  int local_rank = 0;           // chooses the GPU
  std::string gpu = "nccl";     // nccl: NCCL must load; auto: a GPU will do; staged: NCCL is not even tried
  bool encrypt = false;         // what leaves this host; only Gloo's provider can
  std::function<void(const std::string&)> warn = {};  // receives warnings, one line each
};

// One library in this process.
class Provider {
 public:
  virtual ~Provider() = default;
  virtual std::string_view name() const noexcept = 0;
  // For `xoe doctor` and the log: "Open MPI 4.1.4, thread multiple".
  virtual std::string describe() const = 0;
  // False: its nets move GPU memory, and only a few KiB of host memory, for the headers that ranks exchange.
  virtual bool moves_host_memory() const noexcept { return true; }
  // Marks the work that is in `stream` (a cudaStream_t) now; a collective that gets the mark's address in
  // Collective::after waits for that work. All addresses passed must be memory of this rank's GPU. The caller keeps the
  // mark until the collective is done. Any thread.
  virtual Result<std::shared_ptr<const void>> admit(std::span<const void* const>, void* /*stream*/) {
    return failure(Code::kUnsupported, "{} does not take GPU memory", name());
  }
  // Later work in `stream` waits for the events of LaunchListener::launched(). Any thread.
  virtual Status order(void* /*stream*/, std::span<const std::shared_ptr<const void>> /*events*/) {
    return failure(Code::kUnsupported, "{} does not take GPU memory", name());
  }
  // What other ranks must know of this one's GPU; without a request, rank and staging bytes.
  virtual Result<RankGpu> rank_gpu() { return failure(Code::kUnsupported, "{} knows no GPU", name()); }
  // Pinned memory of `slots` parts of `slot_bytes`. ring: called by any thread when copies may be done, also after the
  // staging is gone. Made and used by a thread that take_thread() was called on.
  virtual Result<std::unique_ptr<GpuStaging>> make_staging(std::size_t /*slots*/, std::size_t /*slot_bytes*/,
                                                           const std::function<void()>& /*ring*/) {
    return failure(Code::kUnsupported, "{} does not copy GPU memory", name());
  }
  // The calling thread will work for nets of this provider only.
  virtual void take_thread() noexcept {}
  // Collective over the members, within the deadline. What one member can find out before it needs the others, all are
  // told by the exchange, and fail; after that a member may fail alone.
  virtual Result<std::unique_ptr<Net>> connect(const Members& members, const Exchange& exchange,
                                               Clock::time_point deadline) = 0;
  // An exchange among all processes that the library's own launcher started, by their rank there: for jobs without a
  // store. `unsupported` where the library has no launcher.
  virtual Result<Exchange> bootstrap() = 0;
};

}  // namespace xoe::net
