// The layout of shared memory. All ranks of a group run the same build, so these are plain structs.
//
// Invariants:
// 1. Each rank owns one ArenaHeader (at the front of its arena) and one RankBlock per group, and is their only writer,
//    except where a member says otherwise. headers, eager and ring belong to the whole group: slots.h says which rank
//    writes where.
// 2. A slot of operation n is written again only after every rank has stored `done` >= n.
// 3. Chunk n % kRingSlots of a ring is written again only after every rank has stored `copied` > n.
// 4. `packed`, `processed` and `copied` count rounds over all operations of the group and never decrease; a rank that
//    reads one with acquire may read the data of the rounds below it.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/backend/fingerprint.h"
#include "core/backend/shm/rank_bits.h"

namespace xoe::shm {

inline constexpr std::size_t kLine = 64;
inline constexpr std::uint64_t kArenaMagic = 0x31616e657261'6f78;  // "xoarena1"

// Operations are numbered modulo 2^32, which a program passes within hours. The numbers begin shortly before that, so
// that every long test passes it, too; not sooner, because a slot that was never used shows the number 0: by then all
// slots of the largest group have been used.
inline constexpr std::uint32_t kBeforeFirst = ~std::uint32_t{0} - (1 << 16);

// The header of operation n lies in slot n % kHeaderSlots until all ranks have completed n.
inline constexpr int kHeaderSlots = 64;
// Small operations also own a payload slot, with the same rule.
inline constexpr int kEagerSlots = 16;
inline constexpr std::size_t kEagerBytes = 32 * 1024;
// Staging rings for private memory: chunks in flight, and bytes of one.
inline constexpr int kRingSlots = 3;
inline constexpr std::size_t kChunkBytes = 256 * 1024;
// What a round of a broadcast fills of one, where ranks do not share cores: see broadcast_elements().
inline constexpr std::size_t kBroadcastPieceBytes = 32 * 1024;
static_assert(kBroadcastPieceBytes <= kChunkBytes);
static_assert(std::uint32_t{0} - kBeforeFirst > std::uint32_t{kHeaderSlots} * kMaxRanks);

inline constexpr std::size_t kInlineBytes = 56;  // payload that fits beside the flag in one line

// How the peers reach an operation's buffers on this rank.
struct Posted {
  std::uint64_t in_offset;      // in this rank's arena, if kInShared
  std::uint64_t out_offset;     // in this rank's arena, if kOutShared
  std::uint64_t largest_block;  // alltoall: elements of the largest block that this rank sends to a peer
  std::uint64_t segments_hash;  // if kSegments: of their counts
  std::uint32_t flags;
};
inline constexpr std::uint32_t kInShared = 1;   // `in` lies in the arena: peers read it there
inline constexpr std::uint32_t kOutShared = 2;  // `out` lies in the arena: peers may write results there
inline constexpr std::uint32_t kEager = 4;      // the whole input lies in the eager slot
inline constexpr std::uint32_t kSegments = 8;  // all segments lie in the arena; the eager slot has their SegmentOffsets
inline constexpr std::uint32_t kLargePieces = 16;  // the root of a broadcast packs whole chunks

struct SegmentOffsets {
  std::uint64_t in;
  std::uint64_t out;
};

// The flag is (operation number << 32 | digest of the fingerprint). It is stored last: a peer that reads it with
// acquire may read the rest and the sender's Fingerprint.
struct alignas(kLine) HeaderSlot {
  std::atomic<std::uint64_t> flag;
  union {
    std::byte payload[kInlineBytes];
    Posted posted;
  };
};
static_assert(sizeof(HeaderSlot) == kLine);

// A futex on which a rank's threads sleep. Its lowest bit: one of them sleeps or is about to; above it: how often they
// were woken.
struct alignas(kLine) WakeupSlot {
  std::atomic<std::uint32_t> word;
};

struct alignas(kLine) FailureRecord {
  std::uint32_t code;
  char message[512];
};

// failed_by: 1 + the rank whose record `failure` is the cause; kAborted is added where it is the record `aborted`.
inline constexpr std::uint32_t kAborted = 1 << 16;

struct RankBlock {
  alignas(kLine) std::atomic<std::uint32_t> done;       // the last operation completed: the slots up to it are not read
  std::atomic<std::uint32_t> busy;                      // 1: the rank is reading or writing the peers' buffers
  alignas(kLine) std::atomic<std::uint64_t> packed;     // rounds whose input the rank has staged
  alignas(kLine) std::atomic<std::uint64_t> processed;  // rounds that the rank has reduced or copied
  alignas(kLine) std::atomic<std::uint64_t> copied;     // rounds whose chunks the rank no longer needs
  // The peers add themselves. leaving: that rank has destroyed its communicator. left: it also never touches this block
  // again; the owner may free it once all ranks are in.
  alignas(kLine) RankBits leaving;
  RankBits left;
  // In the block of the group's rank 0 only; any rank writes it.
  alignas(kLine) std::atomic<std::uint32_t> failed_by;  // which record is the group's first cause: see kAborted
  FailureRecord failure;                                // by the group's thread
  FailureRecord aborted;                                // by any thread that calls abort()
  std::atomic<std::uint32_t> aborting;                  // 1: `aborted` is in use
  Fingerprint fingerprints[kHeaderSlots];               // of this rank's operations; read only when ranks disagree
  HeaderSlot headers[kHeaderSlots];
  alignas(4096) std::byte eager[kEagerSlots][kEagerBytes];
  std::byte ring[kRingSlots][kChunkBytes];
};

struct ArenaHeader {
  std::atomic<std::uint64_t> magic;  // stored last
  std::uint64_t nonce;               // published through the store: shows that this is the published arena
  std::int32_t rank;
  pid_t pid;
  std::uint32_t membarrier;  // 1: this process takes part in membarrier(GLOBAL_EXPEDITED)
  cpu_set_t cpus;            // where it may run
  WakeupSlot wakeup;         // one for all groups of the rank, so that a thread can wait for several groups
  // In the arena of the host's first rank only: the number of sleeping threads of all ranks.
  alignas(kLine) std::atomic<std::uint32_t> sleepers;
};

}  // namespace xoe::shm
