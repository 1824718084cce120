#include "core/engine/shards/shard_tree.h"

#include <bit>

namespace xoe::engine {
namespace {

void collect(ShardRange node, ShardRange range, std::vector<ShardRange>& nodes) {
  if (node.end <= range.begin || range.end <= node.begin) return;
  if (range.begin <= node.begin && node.end <= range.end) {
    nodes.push_back(node);
    return;
  }
  const int middle = middle_of(node);
  collect({node.begin, middle}, range, nodes);
  collect({middle, node.end}, range, nodes);
}

}  // namespace

int middle_of(ShardRange node) noexcept {
  return node.begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(node.count() - 1)));
}

bool is_node(ShardRange range, int shards) noexcept {
  ShardRange node{0, shards};
  while (node != range && node.count() > 1) {
    const int middle = middle_of(node);
    if (range.begin < middle && middle < range.end) return false;
    node = range.end <= middle ? ShardRange{node.begin, middle} : ShardRange{middle, node.end};
  }
  return node == range;
}

std::vector<ShardRange> nodes_within(ShardRange range, int shards) {
  std::vector<ShardRange> nodes;
  if (range.count() > 0) collect({0, shards}, range, nodes);
  return nodes;
}

}  // namespace xoe::engine
