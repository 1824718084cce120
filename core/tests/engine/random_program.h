// Programs made from a seed: the same text on all ranks, submitted by each in an order of its own, and checked against
// results that are computed the plain way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "xoe/engine.h"

namespace xoe::testing {

using Random = std::mt19937_64;

// Uniform in [low, high].
inline int pick(Random& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
}
inline bool chance(Random& random, int percent) { return pick(random, 1, 100) <= percent; }

struct ProgramOp {
  OpKind kind = OpKind::kAllreduce;
  std::string name;  // empty: unnamed
  int set = 0;       // index into Program::sets
  DType dtype = DType::kFloat32;
  ReduceOp reduce = ReduceOp::kSum;
  Compression compression = Compression::kNone;
  int root = 0;  // in the set
  double prescale = 1;
  std::vector<std::int64_t> row;  // all dimensions but the first
  int rows = 1;
  int tensors = 1;
  int odd_rank = -1;  // set rank that submits something else: everybody gets an error
  std::uint64_t salt = 0;

  std::int64_t row_elements() const {
    std::int64_t n = 1;
    for (const auto d : row) n *= d;
    return n;
  }
  // Rows that a set rank gives.
  int rows_of(int rank) const {
    const bool differs =
        kind == OpKind::kAllgather || kind == OpKind::kSparseAllreduce || kind == OpKind::kBroadcastBytes;
    return differs ? (rows + rank * 3) % 7 : rows;
  }
};

struct ProgramRound {
  std::vector<ProgramOp> ops;
  // The number of ops that each rank has data for before it joins; empty: no rank joins.
  std::vector<int> has_data;
};

struct Program {
  int ranks = 1;
  int threads = 1;         // that submit, on each rank
  std::vector<int> hosts;  // by rank; empty: one
  EngineOptions options;
  std::vector<std::vector<int>> sets;  // 0: the world
  std::vector<ProgramRound> rounds;
};

Program make_program(std::uint64_t seed, int ranks);

// Runs it on this rank. Empty: all is as it should be.
std::string run_program(Engine& engine, const Program& program, std::uint64_t seed);

}  // namespace xoe::testing
