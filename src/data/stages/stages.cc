#include "xoe/data/stages.h"

namespace xoe::data {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// SplitMix64's finaliser (Steele, Lea, Flood 2014).
std::uint64_t scramble(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

ShardPlan plan_shard(std::int64_t total, int rank, int size, int batch, Remainder remainder) {
  const std::int64_t joint = std::int64_t{size} * batch;
  switch (remainder) {
    case Remainder::kDrop: return {total / joint * batch, total / joint};
    case Remainder::kPad: return {divide_up(total, joint) * batch, divide_up(total, joint)};
    case Remainder::kKeep: break;
  }
  const std::int64_t mine = total > rank ? divide_up(total - rank, size) : 0;
  return {mine, divide_up(divide_up(total, size), batch)};
}

bool may_skip(const Error& error) noexcept {
  return error.code() == Code::kDataLoss || error.code() == Code::kResourceExhausted ||
         error.code() == Code::kUnavailable;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c) noexcept {
  return scramble(scramble(scramble(a) ^ b) ^ c);
}

}  // namespace xoe::data
