// Collectives on the memory of GPUs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/nccl/comm.h"
#include "backend/nccl/device.h"
#include "backend/nccl/queue.h"
#include "backend/nccl/reduction.h"
#include "backend/nccl/registrations.h"
#include "backend/nccl/stand_in.h"
#include "backend/net/net.h"

namespace xoe::nccl {

// Of host memory, only words: what ranks tell each other before they call the same.
constexpr std::size_t word_bytes(std::size_t members) noexcept { return (std::size_t{16} << 10) + members * 1024; }

struct NetParts {
  std::shared_ptr<const Libraries> libraries;
  Device device;
  net::Members members;
  std::vector<std::string> names;  // by member: "rank 3 (nodeB, pid 4410)"
  std::unique_ptr<Queue> queue;
  std::unique_ptr<Comm> comm;
  bool registers = false;  // tells NCCL of the callers' buffers
};

class NcclNet final : public net::Net {
 public:
  explicit NcclNet(NetParts parts);
  ~NcclNet() override;

  std::string_view name() const noexcept override { return "nccl"; }
  Status supports(const Collective& collective) const override;
  Status run(const Collective& collective, Clock::time_point deadline) override;
  void abort() noexcept override { parts_.comm->stop(); }

 private:
  struct Buffers {
    const void* in;
    void* out;
  };

  std::size_t size() const noexcept { return parts_.members.ranks.size(); }
  std::size_t self() const noexcept { return static_cast<std::size_t>(parts_.members.self); }
  Status check_places(const Collective& c) const;
  Status on_device(const Collective& c, Clock::time_point deadline);
  Status on_words(const Collective& c, Clock::time_point deadline);
  Status barrier(Clock::time_point deadline);
  Status launch(const Collective& c, const Buffers& b, Clock::time_point deadline);
  Status launch_reduction(const Collective& c, const Buffers& b, Clock::time_point deadline);
  NcclResult move(const Collective& c, const Buffers& b, NcclComm comm) const;
  NcclResult gather(const Collective& c, const Buffers& b, NcclComm comm) const;
  NcclResult exchange(const Collective& c, const Buffers& b, NcclComm comm) const;
  NcclResult reduce(const Collective& c, const Buffers& b, NcclType type, NcclOp op, NcclComm comm) const;
  Status await(Clock::time_point deadline);
  Status give_up(const Collective& c, const Error& error);
  std::string others() const;

  NetParts parts_;
  std::optional<Registrations> registrations_;
  StandIn stand_in_;
  std::optional<Error> cause_;
};

}  // namespace xoe::nccl
