// Collectives between hosts, on an engine that is not ours: Gloo, MPI, NCCL.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "xoe/status.h"

namespace xoe::net {

using Clock = std::chrono::steady_clock;

// A group of ranks on one engine, in order. One thread at a time, except for abort(); different nets of a process are
// independent of each other.
class Net {
 public:
  // Takes no part in anything any more; peers in the middle of a collective with this rank may fail.
  virtual ~Net() = default;

  virtual std::string_view name() const noexcept = 0;
  // Ok, or `unsupported` with the reason and what to do instead.
  virtual Status supports(const Collective& collective) const = 0;

  // Blocks until done. Counts and roots refer to members; `segments` is only used with GPU memory. `in` and `out` as
  // Communicator has them: the same memory, in place, or apart. All members get the same bits. Errors: `timeout` past
  // the deadline, `peer_lost` when the engine saw a peer go (naming it by its rank in the job where it can),
  // `unavailable` after abort(). Any of them ends the net: later calls fail with the same, and the collective's buffers
  // are used no more.
  virtual Status run(const Collective& collective, Clock::time_point deadline) = 0;

  // Any thread: whoever is in run() comes back soon.
  virtual void abort() noexcept = 0;
};

// Every member gives some bytes and gets everybody's, by member. It is how the members of a new group learn each
// other's addresses.
using Exchange = std::function<Result<std::vector<std::string>>(std::string mine)>;

struct Members {
  std::vector<int> ranks;  // in the job, by member
  int self = 0;            // a member
};

// What the user chose; empty: the engine chooses.
struct NetOptions {
  std::string address = {};     // of this host's interface that the others reach, as a number
  std::string interfaces = {};  // names or networks (10.0.0.0/8), separated by commas
  int local_rank = 0;           // among this host's ranks: chooses the GPU
};

// One engine in this process.
class Provider {
 public:
  virtual ~Provider() = default;
  virtual std::string_view name() const noexcept = 0;
  // In words, for `xoe doctor` and the log: "Open MPI 4.1.4, thread multiple".
  virtual std::string describe() const = 0;
  // False: its nets take GPU memory, and of host memory only a few KiB: what ranks tell each other.
  virtual bool moves_host_memory() const noexcept { return true; }
  // Any thread: what stands in `stream` (a cudaStream_t) now, to be waited for by a collective that gets its address as
  // one of Collective::after. All addresses must be memory of this rank's GPU. Kept until the collective is done.
  virtual Result<std::shared_ptr<const void>> admit(std::span<const void* const> addresses, void* stream);
  // The calling thread is going to work for nets of this provider alone.
  virtual void take_thread() noexcept {}
  // Collective over the members, within the deadline.
  virtual Result<std::unique_ptr<Net>> connect(const Members& members, const Exchange& exchange,
                                               Clock::time_point deadline) = 0;
  // An exchange among all processes that the engine's own launcher started, by their rank there: for jobs without a
  // store. `unsupported` where the engine has none.
  virtual Result<Exchange> bootstrap() = 0;
};

}  // namespace xoe::net
