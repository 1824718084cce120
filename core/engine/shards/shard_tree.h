// The binary tree over logical shards that says in which order their values are added.
#pragma once

#include <vector>

#include "core/base/shard_range.h"

namespace xoe::engine {

// A node stands for a range of shards; the root for all of them. The left half of a node has the largest power of two
// of shards that is less than the node's own number, so that the left halves are whole trees. The value of a node is
// that of its left half plus that of its right half. REQUIRES: node.count() >= 2.
int middle_of(ShardRange node) noexcept;

// Tells whether a range is a node of the tree over `shards`.
bool is_node(ShardRange range, int shards) noexcept;

// The largest nodes within a range, in order: what one who has these shards alone can add up.
std::vector<ShardRange> nodes_within(ShardRange range, int shards);

}  // namespace xoe::engine
