// Collectives over several hosts, in the caller's thread.
//
// Nomenclature of the algorithms:
//   host      the ranks that share memory; hosts are numbered by the first rank on each
//   leader    the first rank of a host
//   rail k    the net of the k-th ranks of all hosts (rails.h)
//   share     the part of an array that one rail carries
//   block     the part of an array that belongs to the ranks of one host (allgather, reduce-scatter)
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <span>

#include "core/backend/hierarchical/operation.h"
#include "core/backend/hierarchical/rails.h"
#include "core/backend/net/buffers.h"

namespace xoe::hierarchical {

// Any collective, by one of the algorithms below.
Status run(Rails& rails, const Operation& op);

Status allreduce(Rails& rails, const Operation& op);
Status broadcast(Rails& rails, const Operation& op);
Status allgather(Rails& rails, const Operation& op);
Status reduce_scatter(Rails& rails, const Operation& op);
// An allreduce or a reduce-scatter with the bits of one host, whatever the placement of the ranks.
Status reduce_in_rank_order(Rails& rails, const Operation& op);

// Divides the sums in the output of `c`, float32 or float64, by the number of ranks.
void average_floats(const Rails& rails, const Collective& c);

// kAny: sums may leave the range of their type. An average is finite where its inputs are, even if their sum is not:
// with kInRange ranks check first, and compute such an average in another way.
enum class Sums : std::uint8_t { kAny, kInRange };
// kInRange: for averages of floats, but of float16, whose sums are float32.
Sums range_of(const Collective& c) noexcept;
// Whether one of a host's sums, float32 or float64, is so large that their sum over all hosts might leave the range.
bool has_large(const Rails& rails, ConstTensor values);
// rails.agree(), and with kInRange whether no host's share has large sums.
Result<bool> agree_on_range(Rails& rails, const Operation& op, ConstTensor share, Sums sums);
// Whether it is true for all ranks of this host. Every rail has a member here, so all hosts come to the same.
Result<bool> all_on_host(Rails& rails, const Operation& op, bool mine);

constexpr bool is_integer(DType dtype) noexcept { return dtype <= DType::kInt64; }
// A sum, an average or a product of float16 or bfloat16: the hosts' results stay in float32 until the last rounding.
bool rounds(const Collective& c) noexcept;

// The input of a collective in float32.
class Widened {
 public:
  explicit Widened(const Collective& c);
  ConstTensor tensor() const noexcept { return {values_.get(), count_}; }

 private:
  std::size_t count_;
  std::unique_ptr<float[]> values_;
};

// A block of more than this for each host is divided among all rails, which takes additional steps.
inline constexpr std::size_t kWorthRails = std::size_t{64} << 10;

// The elements of each host's block. REQUIRES: an allgather or a reduce-scatter.
std::vector<std::size_t> block_counts(const Placement& placement, const Collective& c);

// The shares of the rails in each host's block.
struct BlockShares {
  std::vector<std::size_t> blocks;                // by host: the elements of its block
  std::vector<std::vector<std::size_t>> by_rail;  // by host: the shares of its block, by rail
  std::vector<std::size_t> own;                   // by host: the share of this rank's rail
};
BlockShares block_shares(const Rails& rails, const Collective& c);

inline std::size_t sum(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}
using net::equal_parts;
using net::sum_before;

}  // namespace xoe::hierarchical
