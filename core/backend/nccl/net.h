// Collectives on the memory of GPUs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/nccl/comm.h"
#include "core/backend/nccl/device.h"
#include "core/backend/nccl/gpu_stream.h"
#include "core/backend/nccl/placeholder_buffers.h"
#include "core/backend/nccl/reduction.h"
#include "core/backend/nccl/registrations.h"
#include "core/backend/net/net.h"

namespace xoe::nccl {

// Host memory is only for small messages, by which ranks agree before a collective.
constexpr std::size_t staging_bytes(std::size_t members) noexcept { return (std::size_t{16} << 10) + members * 1024; }

struct NetParts {
  std::shared_ptr<const Libraries> libraries;
  Device device;
  net::Members members;
  std::vector<std::string> names;  // by member: "rank 3 (nodeB, pid 4410)"
  std::unique_ptr<GpuStream> stream;
  std::unique_ptr<Comm> comm;
  bool registers = false;  // registers the callers' buffers with NCCL
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
  Status check_memory(const Collective& c) const;
  Status run_on_gpu(const Collective& c, Clock::time_point deadline);
  Status run_through_staging(const Collective& c, Clock::time_point deadline);
  Status barrier(Clock::time_point deadline);
  Status launch(const Collective& c, const Buffers& b, Clock::time_point deadline);
  Status launch_reduction(const Collective& c, const Buffers& b, Clock::time_point deadline);
  NcclResult move(const Collective& c, const Buffers& b, NcclComm comm) const;
  NcclResult gather(const Collective& c, const Buffers& b, NcclComm comm) const;
  NcclResult exchange(const Collective& c, const Buffers& b, NcclComm comm) const;
  NcclResult reduce(const Collective& c, const Buffers& b, NcclType type, NcclOp op, NcclComm comm) const;
  Status wait_done(Clock::time_point deadline);
  Status abort_collective(const Collective& c, const Error& error);
  std::string other_members() const;

  NetParts parts_;
  std::optional<Registrations> registrations_;
  PlaceholderBuffers placeholders_;
  std::optional<Error> cause_;
};

}  // namespace xoe::nccl
