// Collectives over a mesh. Every member sends each other one its part at once, so that all parts meet where they are
// reduced, and are reduced in the order of ranks: the bits are those that shared memory gives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backend/gloo/mesh.h"
#include "backend/net/net.h"
#include "backend/net/shards.h"

namespace xoe::gloo {

class GlooNet final : public net::Net {
 public:
  // mesh: nullptr for a group of one.
  GlooNet(net::Members members, std::unique_ptr<Mesh> mesh);

  std::string_view name() const noexcept override { return "gloo"; }
  Status supports(const Collective& collective) const override;
  Status run(const Collective& collective, Clock::time_point deadline) override;
  void abort() noexcept override;

 private:
  using Piece = net::Shards::Piece;

  Status dispatch(const Collective& c);
  Status alone(const Collective& c) const;
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
  // Waits for so many messages of each member.
  Status finish(Lane lane);

  // Elements of a shard in one message.
  std::size_t segment() const noexcept;
  Piece piece(int m, std::size_t round) const noexcept { return shards_.piece(m, round); }
  std::byte* scratch(std::size_t bytes);
  std::byte* inbox(int m, std::size_t round) noexcept;
  int member_at(int distance) const noexcept { return (self_ + distance) % size_; }

  const net::Members members_;
  const int self_, size_;
  const std::unique_ptr<Mesh> mesh_;
  std::atomic<bool> aborted_{false};
  std::uint64_t turn_ = 0;  // number of collectives so far
  std::uint64_t slot_ = 0;  // of this collective; its low bits are free

  // Of this collective; kept so that nothing is allocated for the next one.
  std::size_t width_ = 1;  // bytes of an element
  net::Shards shards_;
  std::vector<const void*> ins_;
  std::vector<std::size_t> sent_, received_;  // messages under way, by member
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace xoe::gloo
