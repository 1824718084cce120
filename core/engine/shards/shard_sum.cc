#include "core/engine/shards/shard_sum.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/engine/shards/shard_tree.h"
#include "core/reduce/reduce.h"

namespace xoe::engine {
namespace {

// Parts begin at a line of the caches, and the tree is added for so many values at a time, which stay in them.
constexpr std::size_t kLine = 16;
constexpr std::size_t kBlock = std::size_t{8} << 10;

void add(float* sum, const float* left, const float* right, std::size_t count) {
  const std::array<void*, 1> outs = {sum};
  const std::array<const void*, 2> ins = {left, right};
  reduce::reduce_into(outs, ins, count, DType::kFloat32, ReduceOp::kSum);
}

void copy(std::span<const ShardPiece> pieces, float* to) {
  for (const ShardPiece& piece : pieces) {
    if (piece.values == nullptr)
      std::fill_n(to, piece.count, 0.0F);
    else
      std::memcpy(to, piece.values, piece.count * sizeof(float));
    to += piece.count;
  }
}

void add(float* sum, std::span<const ShardPiece> pieces) {
  static constexpr std::array<float, kBlock> kZeros{};
  for (const ShardPiece& piece : pieces) {
    for (std::size_t done = 0; piece.values == nullptr && done < piece.count; done += kBlock)
      add(sum + done, sum + done, kZeros.data(), std::min(kBlock, piece.count - done));
    if (piece.values != nullptr) add(sum, sum, piece.values, piece.count);
    sum += piece.count;
  }
}

// Adds up the partial sums of a tree for some of the values.
class TreeOfPartials {
 public:
  struct Leaf {
    ShardRange node;
    float* values;
  };
  // leaves: in order.
  explicit TreeOfPartials(std::vector<Leaf> leaves) : leaves_(std::move(leaves)) {}

  float* first() const noexcept { return leaves_.front().values; }
  // The sum of a node, which takes the place of its first leaf.
  float* sum(ShardRange node, std::size_t begin, std::size_t count) const {
    const auto leaf = std::ranges::lower_bound(leaves_, node.begin, {}, [](const Leaf& one) { return one.node.begin; });
    if (leaf->node == node) return leaf->values + begin;
    const int middle = middle_of(node);
    float* const left = sum({node.begin, middle}, begin, count);
    const float* const right = sum({middle, node.end}, begin, count);
    add(left, left, right, count);
    return left;
  }

 private:
  std::vector<Leaf> leaves_;
};

std::vector<std::vector<ShardRange>> nodes_of_ranks(int shards, int size) {
  std::vector<std::vector<ShardRange>> nodes;
  for (int rank = 0; rank < size; ++rank) nodes.push_back(nodes_within(shards_of_rank(shards, rank, size), shards));
  return nodes;
}

}  // namespace

ShardSum::ShardSum(const std::shared_ptr<Runtime>& runtime, std::string name, int shards, std::size_t count,
                   double scale)
    : runtime_(runtime),
      name_(std::move(name)),
      detail_(fmt::format("{} shards of {} values, scaled by {}", shards, count, scale)),
      shards_(shards),
      count_(count),
      scale_(scale),
      rank_(runtime->topology().rank),
      size_(runtime->topology().size),
      mine_(shards_of_rank(shards, rank_, size_)),
      nodes_(nodes_of_ranks(shards, size_)),
      memory_(std::make_shared<Memory>()),
      next_(mine_.begin) {}

Result<std::unique_ptr<ShardSum>> ShardSum::create(const std::shared_ptr<Runtime>& runtime, std::string name,
                                                   int shards, std::size_t count, double scale) {
  const int size = runtime->topology().size;
  if (shards < size)
    return failure(Code::kInvalidArgument, "{}: {} share {}, and each needs one; use more shards", name,
                   counted(size, "rank"), counted(shards, "logical shard"));
  return std::unique_ptr<ShardSum>(new ShardSum(runtime, std::move(name), shards, count, scale));
}

ShardSum::Part ShardSum::part_of(int rank) const noexcept {
  const std::size_t lines = (count_ + kLine - 1) / kLine;
  const auto first = [&](int number) {
    return std::min(count_, lines * static_cast<std::size_t>(number) / static_cast<std::size_t>(size_) * kLine);
  };
  return {first(rank), first(rank + 1) - first(rank)};
}

Result<SharedBuffer> ShardSum::block(std::size_t count) {
  const auto runtime = runtime_.lock();
  if (runtime == nullptr) return failure(Code::kUnavailable, "{}: the engine was shut down", name_);
  return runtime->shared_buffer(std::max<std::size_t>(count, 1) * sizeof(float));
}

// --- this rank's part of the tree ---

void ShardSum::merge() {
  std::vector<Partial>& partials = memory_->partials;
  while (partials.size() > 1) {
    Partial& left = partials[partials.size() - 2];
    Partial& right = partials.back();
    const ShardRange both{left.node.begin, right.node.end};
    if (!is_node(both, shards_)) return;
    engine::add(left.values.as<float>().data(), left.values.as<float>().data(), right.values.as<float>().data(),
                count_);
    left.node = both;
    memory_->free.push_back(std::move(right.values));
    partials.pop_back();
  }
}

Status ShardSum::add(int shard, std::span<const ShardPiece> pieces) {
  if (phase_ == Phase::kExchanging || phase_ == Phase::kGathering)
    return failure(Code::kInvalidArgument, "{}: shard {} comes while the sum of a step is under way", name_, shard);
  if (phase_ == Phase::kDone) reset();
  if (shard != next_ || shard >= mine_.end)
    return failure(Code::kInvalidArgument, "{}: shard {} comes, and the next one of this rank is {} of [{}, {})", name_,
                   shard, next_, mine_.begin, mine_.end);
  std::size_t given = 0;
  for (const ShardPiece& piece : pieces) given += piece.count;
  if (given != count_)
    return failure(Code::kInvalidArgument, "{}: shard {} has {} values, and should have {}", name_, shard, given,
                   count_);
  std::vector<Partial>& partials = memory_->partials;
  // The right half of a node is added to the left one at once.
  if (!partials.empty() && is_node({partials.back().node.begin, shard + 1}, shards_)) {
    engine::add(partials.back().values.as<float>().data(), pieces);
    partials.back().node.end = shard + 1;
  } else {
    if (memory_->free.empty()) {
      XOE_ASSIGN(SharedBuffer made, block(count_));
      memory_->free.push_back(std::move(made));
    }
    partials.push_back({{shard, shard + 1}, std::move(memory_->free.back())});
    memory_->free.pop_back();
    copy(pieces, partials.back().values.as<float>().data());
  }
  merge();
  ++next_;
  return {};
}

// --- the rest of the tree ---

Result<EngineHandle> ShardSum::submit(const Request& request) {
  const auto runtime = runtime_.lock();
  if (runtime == nullptr) return failure(Code::kUnavailable, "{}: the engine was shut down", name_);
  XOE_ASSIGN(auto submission, runtime->submit(request, Runtime::Use::kWaited));
  return EngineHandle(std::move(submission));
}

// The k-th exchange sends the k-th partial sum of each rank that has so many.
Status ShardSum::start_exchange() {
  const Part own = part_of(rank_);
  std::size_t most = 0, all = 0;
  for (const auto& nodes : nodes_) {
    most = std::max(most, nodes.size());
    all += nodes.size();
  }
  if (memory_->received.data() == nullptr) {
    XOE_ASSIGN(memory_->received, block(all * own.count));
  }
  float* to = memory_->received.as<float>().data();
  const std::string name = name_ + ".exchange ";
  for (std::size_t k = 0; k < most; ++k) {
    const bool sends = k < memory_->partials.size();
    std::vector<std::int64_t> splits;
    for (int rank = 0; rank < size_; ++rank)
      splits.push_back(sends ? static_cast<std::int64_t>(part_of(rank).count) : 0);
    const auto rows = static_cast<std::int64_t>(sends ? count_ : 0);
    const float* const from = memory_->partials[sends ? k : 0].values.as<float>().data();
    const TensorArg tensor{.in = from, .out = to, .dtype = DType::kFloat32, .shape = {&rows, 1}};
    XOE_ASSIGN(EngineHandle operation, submit({.name = name + std::to_string(k),
                                               .op = {.kind = OpKind::kAlltoall, .needs_all_ranks = true},
                                               .tensors = {&tensor, 1},
                                               .splits = splits,
                                               .detail = detail_,
                                               .memory = memory_}));
    operations_.push_back(std::move(operation));
    for (const auto& nodes : nodes_) to += k < nodes.size() ? own.count : 0;
  }
  phase_ = Phase::kExchanging;
  return {};
}

float* ShardSum::finish_tree() {
  const Part own = part_of(rank_);
  float* from = memory_->received.as<float>().data();
  std::vector<TreeOfPartials::Leaf> leaves;
  for (std::size_t k = 0; k < operations_.size(); ++k)
    for (const auto& nodes : nodes_)
      if (k < nodes.size()) {
        leaves.push_back({nodes[k], from});
        from += own.count;
      }
  std::ranges::sort(leaves, {}, [](const TreeOfPartials::Leaf& leaf) { return leaf.node.begin; });
  const TreeOfPartials tree(std::move(leaves));
  for (std::size_t begin = 0; begin < own.count; begin += kBlock) {
    const std::size_t count = std::min(kBlock, own.count - begin);
    float* const sum = tree.sum({0, shards_}, begin, count);
    if (scale_ != 1) reduce::scale(sum, count, DType::kFloat32, scale_);
  }
  return tree.first();
}

Status ShardSum::start_gather(const float* part) {
  const auto rows = static_cast<std::int64_t>(part_of(rank_).count);
  float* const result = memory_->result.as<float>().data();
  const TensorArg tensor{.in = part, .out = result, .dtype = DType::kFloat32, .shape = {&rows, 1}};
  operations_.clear();
  XOE_ASSIGN(EngineHandle operation, submit({.name = name_ + ".sum",
                                             .op = {.kind = OpKind::kAllgather, .needs_all_ranks = true},
                                             .tensors = {&tensor, 1},
                                             .detail = detail_,
                                             .memory = memory_}));
  operations_.push_back(std::move(operation));
  phase_ = Phase::kGathering;
  return {};
}

Result<bool> ShardSum::completed(EngineClock::time_point until) {
  for (EngineHandle& operation : operations_) {
    const auto left = std::max(until - EngineClock::now(), EngineClock::duration::zero());
    Status status = operation.wait_for(left);
    if (!status && status.error().code() == Code::kTimeout) {
      if (!operation.poll()) return false;
      status = operation.wait();  // it has completed: also a timeout of its own
    }
    XOE_TRY(status);
  }
  return true;
}

Result<float*> ShardSum::wait(std::chrono::nanoseconds timeout) {
  const auto now = EngineClock::now();
  const auto until = timeout < EngineClock::time_point::max() - now ? now + timeout : EngineClock::time_point::max();
  if (phase_ == Phase::kAdding && next_ != mine_.end)
    return failure(Code::kInvalidArgument, "{}: shard {} of this rank has not been added in this step", name_, next_);
  const auto advance = [&]() -> Result<bool> {
    if (memory_->result.data() == nullptr && size_ > 1) {
      XOE_ASSIGN(memory_->result, block(count_));
    }
    if (phase_ == Phase::kAdding) XOE_TRY(start_exchange());
    if (phase_ == Phase::kExchanging) {
      XOE_ASSIGN(const bool exchanged, completed(until));
      if (!exchanged) return false;
      XOE_TRY(start_gather(finish_tree()));
    }
    return completed(until);
  };
  if (size_ > 1 && phase_ != Phase::kDone) {
    const Result<bool> done = advance();
    if (!done) {
      reset();
      return failure(done.error());
    }
    if (!*done) return static_cast<float*>(nullptr);
    operations_.clear();
  }
  if (size_ == 1 && scale_ != 1 && phase_ != Phase::kDone)
    reduce::scale(memory_->partials.front().values.as<float>().data(), count_, DType::kFloat32, scale_);
  phase_ = Phase::kDone;
  return (size_ > 1 ? memory_->result : memory_->partials.front().values).as<float>().data();
}

void ShardSum::reset() {
  // Peers may still use what an operation under way has.
  if (!operations_.empty()) memory_ = std::make_shared<Memory>();
  operations_.clear();
  for (Partial& partial : memory_->partials) memory_->free.push_back(std::move(partial.values));
  memory_->partials.clear();
  next_ = mine_.begin;
  phase_ = Phase::kAdding;
}

}  // namespace xoe::engine
