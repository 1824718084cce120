// Measures collectives among the ranks of a communicator.
#pragma once

#include <cstdint>

#include "measure/cli/collectives/collective_table.h"
#include "xoe/communicator.h"

namespace xoe::bench {

enum class Memory : std::uint8_t {
  kPrivate,  // of each process
  kShared,   // from Communicator::shared_buffer(): ranks of a host reduce it in place
};

// Of the ranks' times.
enum class AverageOf : std::uint8_t { kRank0, kMean, kMin, kMax };

struct MeasureOptions {
  int iterations = 20;
  int warmup = 5;
  bool check = true;
  // Each rank stores fresh values to its whole input before each collective, not timed, as training does: a buffer that
  // stays in a cache is reduced faster.
  bool rewrite = false;
  Memory memory = Memory::kPrivate;
  AverageOf average = AverageOf::kMean;
};

// Collective; all ranks get the same row. Errors: those of the collectives; `resource_exhausted` without memory.
Result<CollectiveRow> measure_collective(Communicator& comm, const CollectiveCase& one, const MeasureOptions& options);

}  // namespace xoe::bench
