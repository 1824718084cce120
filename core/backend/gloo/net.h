// Collectives over a mesh. Every member sends its parts to all others at once; each part is reduced by one member, in
// the order of ranks, so that the bits equal those of the shared-memory backend.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/backend/gloo/mesh.h"
#include "core/backend/net/net.h"
#include "core/backend/net/shards.h"

namespace xoe::gloo {

class GlooNet final : public net::Net {
 public:
  // mesh: nullptr for a group of one.
  GlooNet(net::Members members, std::unique_ptr<Mesh> mesh);

  std::string_view name() const noexcept override { return "gloo"; }
  Status supports(const Collective& collective) const override { return check_host_memory(collective, "gloo"); }
  Status run(const Collective& collective, Clock::time_point deadline) override;
  void abort() noexcept override;

 private:
  using Chunk = net::Shards::Chunk;

  Status dispatch(const Collective& c);
  Status run_alone(const Collective& c) const;
  Status allreduce_at_once(const Collective& c);
  Status reduce_shards(const Collective& c, bool gather);
  Status post_reduce(const Collective& c, std::size_t round);
  Status finish_reduce(const Collective& c, std::size_t round, void* out);
  Status post_gather(std::byte* out, std::size_t round);
  Status broadcast_at_once(const Collective& c);
  Status broadcast_in_shards(const Collective& c);
  Status allgather(const Collective& c);
  Status alltoall(const Collective& c);
  Status barrier();
  // Waits until received_ and sent_ are 0.
  Status finish(Channel channel);

  // Elements.
  std::size_t chunk_size() const noexcept;
  Chunk chunk(int m, std::size_t round) const noexcept { return shards_.chunk(m, round); }
  std::byte* scratch(std::size_t bytes);
  std::byte* inbox(int m, std::size_t round) noexcept;
  int member_at(int distance) const noexcept { return (self_ + distance) % size_; }

  const net::Members members_;
  const int self_, size_;
  const std::unique_ptr<Mesh> mesh_;
  std::atomic<bool> aborted_{false};
  std::uint64_t turn_ = 0;  // collectives so far
  std::uint64_t slot_ = 0;  // of this collective; the low bits are free for its steps

  // State of the current collective, kept so that the next one allocates nothing.
  std::size_t width_ = 1;  // bytes of an element
  net::Shards shards_;
  std::vector<const void*> ins_;
  std::vector<std::size_t> sent_, received_;  // messages in flight, by member
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace xoe::gloo
