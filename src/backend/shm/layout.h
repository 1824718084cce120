// What lies in shared memory. All ranks of a group run the same build, so these are plain structs.
// Each rank owns one ArenaHeader (at the front of its arena) and one RankBlock per group; it alone writes them, except
// where a member says otherwise. headers, eager and ring are the group's together: slots.h says who writes where.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backend/backend.h"

namespace xoe::shm {

inline constexpr std::size_t kLine = 64;
inline constexpr int kMaxRanks = 64;
inline constexpr std::uint64_t kArenaMagic = 0x31616e657261'6f78;  // "xoarena1"

// Operations in flight: the header of operation n lies in slot n % kHeaderSlots until all ranks have completed n.
inline constexpr int kHeaderSlots = 64;
// Small operations also own a payload slot, with the same rule.
inline constexpr int kEagerSlots = 16;
inline constexpr std::size_t kEagerBytes = 32 * 1024;
// Staging rings for private memory: chunks in flight, and bytes of one.
inline constexpr int kRingSlots = 3;
inline constexpr std::size_t kChunkBytes = 256 * 1024;

inline constexpr std::size_t kInlineBytes = 56;  // payload that fits beside the flag in one line

// Arguments of an operation as the peers show them when they disagree.
struct alignas(kLine) Description {
  CollectiveKind kind;
  DType dtype;
  ReduceOp op;
  std::int32_t root;
  std::uint64_t count;
  std::uint64_t counts_hash;
  std::uint64_t first_counts[4];
  std::uint64_t name_hash;
  std::uint32_t name_length;  // of what `name` holds of it
  char name[52];
};
static_assert(sizeof(Description) == 2 * kLine);

// How the peers reach an operation's buffers on this rank.
struct Posted {
  std::uint64_t in_offset;   // in this rank's arena, if kInShared
  std::uint64_t out_offset;  // likewise, if kOutShared
  std::uint64_t piece;       // alltoall: largest piece in elements that this rank sends. kPieces: hash of the counts
  std::uint32_t flags;
};
inline constexpr std::uint32_t kInShared = 1;   // `in` lies in the arena: peers read it there
inline constexpr std::uint32_t kOutShared = 2;  // `out` lies in the arena: peers may write results there
inline constexpr std::uint32_t kEager = 4;      // the whole input lies in the eager slot
inline constexpr std::uint32_t kPieces =
    8;  // several arrays, all in the arena: their PieceOffsets lie in the eager slot

struct PieceOffsets {
  std::uint64_t in;
  std::uint64_t out;
};

// The flag is (operation number << 32 | signature) and is stored last: who reads it with acquire may read the rest, and
// the sender's Description.
struct alignas(kLine) HeaderSlot {
  std::atomic<std::uint64_t> flag;
  union {
    std::byte payload[kInlineBytes];
    Posted posted;
  };
};
static_assert(sizeof(HeaderSlot) == kLine);

// Where a rank sleeps. Peers write `word` to wake it.
struct alignas(kLine) Bell {
  std::atomic<std::uint32_t> word;
  std::atomic<std::uint32_t> asleep;
};

struct alignas(kLine) FailureRecord {
  std::uint32_t code;
  char message[512];
};

// failed_by: 1 + the rank whose `failure` it is, or this and 1 + the rank where it was `told`.
inline constexpr std::uint32_t kTold = 1 << 16;

struct RankBlock {
  alignas(kLine) std::atomic<std::uint32_t> done;       // operations completed: it reads nothing of theirs any more
  std::atomic<std::uint32_t> busy;                      // 1: it is reading or writing the peers' buffers
  alignas(kLine) std::atomic<std::uint64_t> packed;     // rounds whose input it has staged
  alignas(kLine) std::atomic<std::uint64_t> processed;  // rounds that it has reduced or copied
  alignas(kLine) std::atomic<std::uint64_t> copied;     // rounds of which it needs no chunk any more
  // Written by the peers, one bit each. leaving: that rank destroyed its communicator. left: and it will
  // not touch this block again, so that the owner may free it once all have.
  alignas(kLine) std::atomic<std::uint64_t> leaving;
  std::atomic<std::uint64_t> left;
  // In the block of the group's rank 0 only; any rank writes it.
  alignas(kLine) std::atomic<std::uint32_t> failed_by;  // whose record is the group's first cause: see kTold
  FailureRecord failure;
  FailureRecord told;                      // by another thread than the group's
  std::atomic<std::uint32_t> tells;        // 1: `told` is taken
  Description descriptions[kHeaderSlots];  // of this rank's operations; read only when ranks disagree
  HeaderSlot headers[kHeaderSlots];
  alignas(4096) std::byte eager[kEagerSlots][kEagerBytes];
  std::byte ring[kRingSlots][kChunkBytes];
};

struct ArenaHeader {
  std::atomic<std::uint64_t> magic;  // stored last
  std::uint64_t nonce;               // published through the store: proves that this is the arena that was meant
  std::int32_t rank;
  pid_t pid;
  std::uint32_t membarrier;  // 1: this process takes part in membarrier(GLOBAL_EXPEDITED)
  cpu_set_t cpus;            // where it may run
  Bell bell;                 // one for all groups of the rank: who works for several of them sleeps once
  // In the arena of the job's rank 0 only: how many sleep, of all ranks.
  alignas(kLine) std::atomic<std::uint32_t> sleepers;
};

}  // namespace xoe::shm
