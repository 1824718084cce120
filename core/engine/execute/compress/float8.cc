#include "core/engine/execute/compress/codecs.h"

#include <algorithm>

#include "core/engine/execute/compress/e4m3.h"
#include "core/engine/execute/compress/feedback.h"

namespace xoe::engine {
namespace {

Tensor as_tensor(std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size(), DType::kUint8}; }

}  // namespace

void Float8::plan(std::size_t count, int rank, int size) {
  const auto own_rank = static_cast<std::size_t>(rank), ranks = static_cast<std::size_t>(size);
  if (starts_.size() == ranks + 1 && starts_.back() == count && rank_ == own_rank) return;
  rank_ = own_rank;
  shard_residual_.clear();
  const std::size_t blocks = e4m3_blocks(count);
  starts_.assign(1, 0);
  bytes_.clear();
  byte_starts_.clear();
  std::size_t total = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::size_t own = blocks / ranks + (r < blocks % ranks ? 1 : 0);
    const std::size_t begin = starts_.back(), end = std::min(count, begin + own * kE4m3Block);
    starts_.push_back(end);
    bytes_.push_back(e4m3_bytes(end - begin));
    byte_starts_.push_back(total);
    total += bytes_.back();
  }
  own_bytes_.assign(ranks, bytes_[rank_]);
}

void Float8::encode_shards(std::span<float> values) {
  if (error_feedback_) fit_residual(residual_, values.size());
  for (std::size_t r = 0; r < bytes_.size(); ++r) {
    const std::size_t begin = starts_[r], count = starts_[r + 1] - begin;
    std::byte* out = scratch_->wire.data() + byte_starts_[r];
    if (error_feedback_)
      e4m3_encode_run(values.subspan(begin, count), std::span(residual_).subspan(begin, count), out);
    else
      e4m3_encode_run(values.subspan(begin, count), out);
  }
}

void Float8::sum_shard() {
  e4m3_decode_run(scratch_->received.data(), scratch_->sum);
  for (std::size_t r = 1; r < bytes_.size(); ++r)
    e4m3_add_run(scratch_->received.data() + r * bytes_[rank_], scratch_->sum);
  std::byte* out = scratch_->wire.data() + byte_starts_[rank_];
  if (error_feedback_) {
    fit_residual(shard_residual_, scratch_->sum.size());
    e4m3_encode_run(scratch_->sum, shard_residual_, out);
  } else {
    e4m3_encode_run(scratch_->sum, out);
  }
}

Task Float8::allreduce(Communicator& comm, std::span<float> values) {
  if (comm.size() == 1 || values.empty()) co_return Status();
  plan(values.size(), comm.rank(), comm.size());
  scratch_->wire.resize(byte_starts_.back() + bytes_.back());
  scratch_->received.resize(bytes_.size() * bytes_[rank_]);
  scratch_->sum.resize(starts_[rank_ + 1] - starts_[rank_]);
  encode_shards(values);
  XOE_CO_TRY(comm.start_alltoall(as_tensor(scratch_->wire), bytes_, as_tensor(scratch_->received), own_bytes_));
  sum_shard();
  const ConstTensor own(scratch_->wire.data() + byte_starts_[rank_], bytes_[rank_], DType::kUint8);
  XOE_CO_TRY(comm.start_allgather(own, as_tensor(scratch_->wire), bytes_));
  for (std::size_t r = 0; r < bytes_.size(); ++r)
    e4m3_decode_run(scratch_->wire.data() + byte_starts_[r], values.subspan(starts_[r], starts_[r + 1] - starts_[r]));
  co_return Status();
}

}  // namespace xoe::engine
