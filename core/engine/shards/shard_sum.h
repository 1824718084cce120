// The sum of values over logical shards, whose bits do not depend on the ranks that compute them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/shard_range.h"
#include "core/engine/runtime/runtime.h"
#include "xoe/engine.h"
#include "xoe/memory.h"

namespace xoe::engine {

// Values of a shard. Null: zeros.
struct ShardPiece {
  const float* values = nullptr;
  std::size_t count = 0;
};

// Each shard has the same number of float32 values, which are added along the tree of shard_tree.h: so the sum has the
// same bits for any number of ranks and wherever they are. A rank adds up the nodes of the tree that are its own; then
// each rank gets one part of the values from all others, adds the rest of the tree, and gives the others the result.
//
// One step: add() for each shard of mine(), in order; then wait(). Memory: a block of the values for each level of the
// tree, and one for the result, that the ranks of a host map.
//
// Thread safety: one thread at a time.
class ShardSum {
 public:
  // The same arguments on all ranks of the engine; ranks compare them in wait(). name: the beginning of the names of
  // operations, that no other object of this engine has. scale: multiplies the sum. `invalid_argument`: a rank would
  // have no shard.
  static Result<std::unique_ptr<ShardSum>> create(const std::shared_ptr<Runtime>& runtime, std::string name, int shards,
                                                  std::size_t count, double scale = 1);
  ShardSum(const ShardSum&) = delete;

  int shards() const noexcept { return shards_; }
  std::size_t count() const noexcept { return count_; }
  ShardRange mine() const noexcept { return mine_; }

  // The values of the next shard, as if its pieces lay one after the other; they are not used after the call.
  // `invalid_argument`: another shard's turn, or another number of values. `resource_exhausted`: XOE_ARENA_BYTES are
  // used up.
  Status add(int shard, std::span<const ShardPiece> pieces);

  // The sum over all shards; null: not completed within `timeout`, call it again. Collective. It is good until the
  // next add(), and the caller may change it until then. An error ends the step. `invalid_argument`: shards of this
  // rank are not there; the step goes on then.
  Result<float*> wait(std::chrono::nanoseconds timeout);
  // Gives up on the step.
  void reset();

 private:
  // A sum over a node.
  struct Partial {
    ShardRange node;
    SharedBuffer values;
  };
  // Holds what operations use; they may outlive the step.
  struct Memory {
    std::vector<Partial> partials;   // of this rank, in order
    std::vector<SharedBuffer> free;  // for further ones
    SharedBuffer received;
    SharedBuffer result;
  };
  struct Part {
    std::size_t begin = 0, count = 0;
  };
  enum class Phase : std::uint8_t { kAdding, kExchanging, kGathering, kDone };

  ShardSum(const std::shared_ptr<Runtime>& runtime, std::string name, int shards, std::size_t count, double scale);
  Part part_of(int rank) const noexcept;
  Result<SharedBuffer> block(std::size_t count);
  void merge();
  Status start_exchange();
  // Gives this rank's part of the values, in which the sum is formed.
  float* finish_tree();
  Status start_gather(const float* part);
  // Tells whether all operations have completed before `until`.
  Result<bool> completed(EngineClock::time_point until);
  Result<EngineHandle> submit(const Request& request);

  std::weak_ptr<Runtime> runtime_;
  const std::string name_;
  const std::string detail_;
  const int shards_;
  const std::size_t count_;
  const double scale_;
  const int rank_, size_;
  const ShardRange mine_;
  std::vector<std::vector<ShardRange>> nodes_;  // by rank

  std::shared_ptr<Memory> memory_;
  int next_ = 0;  // shard to be added
  Phase phase_ = Phase::kAdding;
  std::vector<EngineHandle> operations_;
};

}  // namespace xoe::engine
