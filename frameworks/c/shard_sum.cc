// Sums over logical shards.
#include <chrono>
#include <memory>
#include <vector>

#include "core/engine/shards/shard_sum.h"
#include "frameworks/c/error.h"
#include "frameworks/c/objects.h"

namespace xoe::capi {
namespace {

using engine::ShardPiece;
using engine::ShardSum;

constexpr std::int32_t kMostShards = 1 << 20;
constexpr std::size_t kMostValues = std::size_t{1} << 48;  // more than memory can hold; their bytes can be counted

Status create(Engine& engine, const char* name, std::int32_t shards, std::size_t count, double scale,
              xoe_shard_sum** sum) {
  XOE_TRY(need(name, "name"));
  XOE_TRY(need(sum, "sum"));
  if (shards < 1 || shards > kMostShards)
    return failure(Code::kInvalidArgument, "shards is {}, must be 1 to {}", shards, kMostShards);
  if (count > kMostValues)
    return failure(Code::kInvalidArgument, "count is {}, must be {} at most", count, kMostValues);
  auto made = std::make_unique<xoe_shard_sum>();
  XOE_ASSIGN(made->sum, ShardSum::create(engine.runtime(), name, shards, count, scale));
  *sum = made.release();
  return {};
}

Status add(ShardSum& sum, std::int32_t shard, const float* const* values, const std::size_t* counts,
           std::size_t pieces) {
  if (pieces > 0) XOE_TRY(need(values, "values"));
  if (pieces > 0) XOE_TRY(need(counts, "counts"));
  std::vector<ShardPiece> given(pieces);
  std::size_t room = sum.count();
  for (std::size_t i = 0; i < pieces; ++i) {
    if (counts[i] > room)
      return failure(Code::kInvalidArgument, "shard {} has more than {} values", shard, sum.count());
    room -= counts[i];
    given[i] = {values[i], counts[i]};
  }
  return sum.add(shard, given);
}

// with() for a sum: body(ShardSum&).
template <class Body>
xoe_status with_sum(const xoe_shard_sum* sum, Body&& body) noexcept {
  return with(sum, "sum", [&](const xoe_shard_sum& it) -> Status { return body(*it.sum); });
}

}  // namespace
}  // namespace xoe::capi

using xoe::Code;
using xoe::failure;
using xoe::Status;
using xoe::capi::give;
using xoe::capi::need;
using xoe::capi::with_engine;
using xoe::capi::with_sum;
using xoe::engine::ShardSum;

extern "C" {

xoe_status xoe_shard_sum_create(xoe_engine* engine, const char* name, int32_t shards, size_t count, double scale,
                                xoe_shard_sum** sum) {
  return with_engine(engine, [&](xoe::Engine& it) { return xoe::capi::create(it, name, shards, count, scale, sum); });
}

void xoe_shard_sum_free(xoe_shard_sum* sum) { xoe::capi::destroy(sum); }

xoe_status xoe_shard_sum_range(const xoe_shard_sum* sum, int32_t* begin, int32_t* end) {
  return with_sum(sum, [&](const ShardSum& it) -> Status {
    XOE_TRY(give(it.mine().begin, begin, "begin"));
    return give(it.mine().end, end, "end");
  });
}

xoe_status xoe_shard_sum_add(xoe_shard_sum* sum, int32_t shard, const float* const* values, const size_t* counts,
                             size_t pieces) {
  return with_sum(sum, [&](ShardSum& it) { return xoe::capi::add(it, shard, values, counts, pieces); });
}

xoe_status xoe_shard_sum_wait(xoe_shard_sum* sum, int64_t timeout, float** result) {
  return with_sum(sum, [&](ShardSum& it) -> Status {
    XOE_TRY(need(result, "result"));
    if (timeout < 0) return failure(Code::kInvalidArgument, "timeout is {}, must be 0 at least", timeout);
    XOE_ASSIGN(*result, it.wait(std::chrono::nanoseconds(timeout)));
    return {};
  });
}

xoe_status xoe_shard_sum_reset(xoe_shard_sum* sum) {
  return with_sum(sum, [](ShardSum& it) -> Status {
    it.reset();
    return {};
  });
}

}  // extern "C"
