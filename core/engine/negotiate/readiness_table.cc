#include "core/engine/negotiate/readiness_table.h"

#include <algorithm>
#include <bit>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace xoe::engine {

struct alignas(64) TableHeader {
  std::atomic<std::uint32_t> lock;                // 1 + the rank that makes entries
  alignas(64) std::atomic<std::uint32_t> joined;  // number of ranks
  std::atomic<std::uint32_t> swept;               // those of them that have completed what waited for them
  std::atomic<std::int32_t> last_joined;
  alignas(64) std::atomic<std::uint32_t> growths;
  std::uint64_t segments[kMaxGrowths + 1];  // their blocks; of segment 0 unused
};

namespace {

constexpr int kBucketEntries = 16;  // their tags share a cache line; a name may lie in either of two buckets
constexpr std::uint64_t kBeingLogged = ~std::uint64_t{0};
constexpr std::uint64_t kOneArrival = 1;

// TableEntry::state.
constexpr std::uint32_t arrivals_of(std::uint64_t state) { return static_cast<std::uint32_t>(state & 0xffff); }
constexpr std::uint32_t generation_of(std::uint64_t state) {
  return static_cast<std::uint32_t>(state >> 16 & 0xffffff);
}
constexpr std::uint32_t version_of(std::uint64_t state) { return static_cast<std::uint32_t>(state >> 40); }
constexpr std::uint64_t make_state(std::uint32_t v, std::uint32_t g, std::uint32_t count) {
  return std::uint64_t{v & 0xffffff} << 40 | std::uint64_t{g & 0xffffff} << 16 | count;
}
// Of an entry that was never used. Generations and versions wrap, those of a name of each step within hours; they begin
// shortly before that, so that every program passes it early.
constexpr std::uint64_t kFirstState = make_state(0xffffff - 15, 0xffffff - 200, 0);
// The value of RankSubmission::generation for an arrival: never 0.
constexpr std::uint32_t mark_of(std::uint32_t g) { return (g & 0xffffff) + 1; }

constexpr std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32) | 1; }

LogKind run_kind(const OpDescriptor& op) {
  return op.kind == OpKind::kBarrier && op.internal == InternalKind::kNone ? LogKind::kBarrier : LogKind::kRun;
}

bool sends_root(const OpDescriptor& op) { return op.kind == OpKind::kBroadcast || op.kind == OpKind::kBroadcastBytes; }

// Of the tensors after the first, whose rows OpDescriptor::first_dim has.
bool same_sizes(const RankSubmission& submission, std::span<const TensorSize> sizes) {
  for (std::size_t i = 1; i < std::min(sizes.size(), kListedTensors); ++i)
    if (submission.sizes[i].count != sizes[i].count) return false;
  return true;
}

void write_submission(RankSubmission& submission, const ReadinessTable::Arrival& arrival) {
  const bool same_as_before = submission.text_length != 0 && submission.signature == arrival.signature &&
                              submission.op.first_dim == arrival.op.first_dim && same_sizes(submission, arrival.sizes);
  submission.arrived_ns = arrival.now_ns;
  if (same_as_before) return;
  submission.signature = arrival.signature;
  submission.op = arrival.op;
  std::copy_n(arrival.sizes.begin(), std::min(arrival.sizes.size(), kListedTensors), submission.sizes);
  submission.text_length = static_cast<std::uint32_t>(arrival.text().copy(submission.text, sizeof submission.text));
}

}  // namespace

int ReadinessTable::rounded(int capacity) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::clamp(capacity, 32, kMaxLogEntries))));
}

ReadinessTable::ReadinessTable(SharedLayout& memory, HostBlocks& blocks, int capacity, int rank,
                               std::vector<int> set_ranks, LogRing complete, LogRing log)
    : capacity_(rounded(capacity)),
      rank_(rank),
      ranks_(static_cast<int>(set_ranks.size())),
      set_ranks_(std::move(set_ranks)),
      blocks_(blocks),
      header_(memory.take<TableHeader>()),
      status_(memory.take<RankStatus>(static_cast<std::size_t>(ranks_))),
      first_(memory, capacity_, ranks_),
      complete_(complete),
      log_(log) {}

// --- segments ---

ReadinessTable::Segment::Segment(SharedLayout& memory, int entry_count, int ranks) {
  const auto count = static_cast<std::size_t>(entry_count);
  tags = memory.take<std::atomic<std::uint32_t>>(count);
  entries = memory.take<TableEntry>(count);
  submissions = memory.take<RankSubmission>(count * 2 * static_cast<std::size_t>(ranks));
}

int ReadinessTable::growths() const noexcept {
  return static_cast<int>(header_->growths.load(std::memory_order_seq_cst));
}

ReadinessTable::Segment ReadinessTable::later_segment(int segment) const noexcept {
  SharedLayout memory(blocks_.block_address(header_->segments[segment]));
  return {memory, entries_of(segment), ranks_};
}

ReadinessTable::Segment ReadinessTable::at(const Segment& segment, int offset) const noexcept {
  Segment part = segment;
  part.tags += offset;
  part.entries += offset;
  part.submissions += static_cast<std::ptrdiff_t>(offset) * 2 * ranks_;
  return part;
}

ReadinessTable::Segment ReadinessTable::place(int index) const noexcept {
  if (index < capacity_) [[likely]]
    return at(first_, index);
  const int segment = std::bit_width(static_cast<unsigned>(index / capacity_));
  return at(later_segment(segment), index - first_entry(segment));
}

// REQUIRES: this rank holds the lock.
Status ReadinessTable::grow() {
  const int segment = growths() + 1;
  if (entries() > kMaxLogEntries / 2)
    return failure(Code::kResourceExhausted, "{} operations in flight are the most that a process set takes",
                   entries());
  SharedLayout layout(nullptr);
  [[maybe_unused]] const Segment measured(layout, entries_of(segment), ranks_);
  const auto arc = static_cast<std::uint32_t>(segment);
  const bool two_rings = !complete_.same_as(log_);
  const std::size_t arc_bytes = complete_.arc_bytes(arc);
  const auto block = blocks_.allocate_block(layout.bytes() + arc_bytes * (two_rings ? 2 : 1));
  if (!block)
    return failure(block.error().code(), "no room for the names of more than {} operations in flight: {}", entries(),
                   block.error().message());
  const std::uint64_t arcs = *block + layout.bytes();
  complete_.start_arc(arc, arcs);
  if (two_rings) log_.start_arc(arc, arcs + arc_bytes);
  header_->segments[segment] = *block;
  header_->growths.store(arc, std::memory_order_seq_cst);
  return {};
}

RankSubmission& ReadinessTable::submission_at(int index, std::uint32_t gen, int rank) const noexcept {
  const auto within = static_cast<std::ptrdiff_t>(gen & 1) * ranks_ + rank;
  if (index < capacity_) [[likely]]
    return first_.submissions[static_cast<std::ptrdiff_t>(index) * 2 * ranks_ + within];
  return place(index).submissions[within];
}

bool ReadinessTable::has_arrived(int index, std::uint32_t gen, int rank) const noexcept {
  return submission_at(index, gen, rank).generation.load(std::memory_order_acquire) == mark_of(gen);
}

// --- names ---

// Its first entry, in the segment.
int ReadinessTable::bucket(std::uint64_t hash, int segment) const noexcept {
  return static_cast<int>(hash % static_cast<std::uint64_t>(entries_of(segment) / kBucketEntries)) * kBucketEntries;
}

int ReadinessTable::look_up_in(int segment, const std::uint64_t (&hashes)[2], std::uint32_t& version) const noexcept {
  const Segment in = segment == 0 ? first_ : later_segment(segment);
  for (const std::uint64_t hash : hashes)
    for (int i = bucket(hash, segment), end = i + kBucketEntries; i < end; ++i) {
      if (in.tags[i].load(std::memory_order_acquire) != tag_of(hashes[0])) continue;
      const TableEntry& candidate = in.entries[i];
      version = version_of(candidate.state.load(std::memory_order_acquire));
      if ((version & 1) == 0 && candidate.hashes[0].load(std::memory_order_acquire) == hashes[0] &&
          candidate.hashes[1].load(std::memory_order_acquire) == hashes[1])
        return first_entry(segment) + i;
    }
  return -1;
}

int ReadinessTable::look_up(const std::uint64_t (&hashes)[2], std::uint32_t& version) const noexcept {
  int found = look_up_in(0, hashes, version);
  for (int segment = 1; found < 0 && segment <= growths(); ++segment) found = look_up_in(segment, hashes, version);
  return found;
}

std::uint64_t ReadinessTable::completed_by_all() const noexcept {
  std::uint64_t lowest = kBeingLogged;
  for (int r = 0; r < ranks_; ++r) lowest = std::min(lowest, status(r).completed.load(std::memory_order_acquire));
  return lowest;
}

// A free entry of the name's two buckets in a segment, else the one that has been idle for longest, else -1. state:
// what the entry must still have when it is taken, for its end was read after it.
int ReadinessTable::choose_entry(int segment, const std::uint64_t (&hashes)[2], std::uint64_t& state) const noexcept {
  const Segment in = segment == 0 ? first_ : later_segment(segment);
  const std::uint64_t completed = completed_by_all();
  int oldest = -1;
  std::uint64_t oldest_end = 0;
  for (int k = 0; k < kBucketEntries; ++k)
    for (const std::uint64_t hash : hashes) {
      const int i = bucket(hash, segment) + k;
      const std::uint64_t seen = in.entries[i].state.load(std::memory_order_acquire);
      const std::uint64_t end = in.entries[i].last_end.load(std::memory_order_acquire);
      const bool free = in.tags[i].load(std::memory_order_relaxed) == 0;
      if (arrivals_of(seen) != 0 || (version_of(seen) & 1) != 0 || end > completed) continue;
      if (!free && oldest >= 0 && end >= oldest_end) continue;
      oldest = i;
      oldest_end = end;
      state = seen;
      if (free) return first_entry(segment) + i;
    }
  return oldest < 0 ? -1 : first_entry(segment) + oldest;
}

Result<ReadinessTable::EntryRef> ReadinessTable::find(std::string_view name, const std::function<bool()>& gave_up) {
  const std::uint64_t hashes[2] = {hash_text(name), hash_text(name, 0x9e3779b97f4a7c15u)};
  EntryRef found;
  if (found.entry = look_up(hashes, found.version); found.entry >= 0) [[likely]]
    return found;
  unsigned turns = 0;
  for (std::uint32_t free = 0;
       !header_->lock.compare_exchange_weak(free, static_cast<std::uint32_t>(rank_) + 1, std::memory_order_acq_rel);
       free = 0) {
    if (++turns % 64 == 0 && gave_up())
      return failure(Code::kPeerLost, "'{}': another rank has held the table of names for too long", name);
    std::this_thread::yield();
  }
  Result<EntryRef> made = make_entry(name, hashes);
  header_->lock.store(0, std::memory_order_release);
  return made;
}

// REQUIRES: this rank holds the lock.
Result<ReadinessTable::EntryRef> ReadinessTable::make_entry(std::string_view name, const std::uint64_t (&hashes)[2]) {
  EntryRef made;
  if (made.entry = look_up(hashes, made.version); made.entry >= 0) return made;  // by another rank, meanwhile
  while (true) {
    std::uint64_t state = 0;
    int chosen = -1;
    for (int segment = 0; chosen < 0 && segment <= growths(); ++segment) chosen = choose_entry(segment, hashes, state);
    if (chosen < 0) {
      if (const Status grown = grow(); !grown) return failure(grown.error());
      continue;
    }
    TableEntry& e = entry(chosen);
    const std::uint64_t before = state == 0 ? kFirstState : state;
    const std::uint64_t writing = make_state(version_of(before) + 1, generation_of(before) + 1, 0);
    if (!e.state.compare_exchange_strong(state, writing, std::memory_order_acq_rel)) continue;
    e.hashes[0].store(hashes[0], std::memory_order_release);
    e.hashes[1].store(hashes[1], std::memory_order_release);
    const std::size_t length = std::min(name.size(), kShownNameBytes);
    for (std::size_t i = 0; i < length; ++i) e.name[i].store(name[i], std::memory_order_relaxed);
    e.name_length.store(static_cast<std::uint32_t>(length), std::memory_order_relaxed);
    e.is_cut.store(name.size() > length ? 1 : 0, std::memory_order_relaxed);
    made = {chosen, (version_of(writing) + 1) & 0xffffff};
    e.state.store(make_state(made.version, generation_of(writing), 0), std::memory_order_release);
    place(chosen).tags->store(tag_of(hashes[0]), std::memory_order_release);
    return made;
  }
}

std::string ReadinessTable::name(int index) const {
  const TableEntry& e = entry(index);
  std::string text(e.name_length.load(std::memory_order_relaxed), ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = e.name[i].load(std::memory_order_relaxed);
  return text;
}

std::string ReadinessTable::unique_name(int index) const {
  std::string text = name(index);
  if (entry(index).is_cut.load(std::memory_order_relaxed) != 0)
    text += fmt::format("~{:016x}", entry(index).hashes[1].load(std::memory_order_acquire));
  return text;
}

// --- arriving ---

bool ReadinessTable::arrive(EntryRef ref, const Arrival& arrival, std::atomic<std::uint8_t>& generation) {
  TableEntry& e = entry(ref.entry);
  status(rank_).last_entry.store(ref.entry + 1, std::memory_order_release);
  std::uint64_t state = e.state.load(std::memory_order_acquire);
  std::uint32_t marked = 0;  // the mark that this rank's submission has already
  while (true) {
    if (version_of(state) != ref.version) return false;
    const std::uint32_t g = generation_of(state);
    if (marked != mark_of(g)) {
      RankSubmission& submission = submission_at(ref.entry, g, rank_);
      write_submission(submission, arrival);
      // Before the mark: from then on others may complete the entry, and this rank's progress look for the generation.
      generation.store(static_cast<std::uint8_t>(g), std::memory_order_relaxed);
      submission.generation.store(marked = mark_of(g), std::memory_order_release);
    }
    const bool last = arrivals_of(state) + 1 == static_cast<std::uint32_t>(ranks_);
    if (arrivals_of(state) == 0) e.last_end.store(kBeingLogged, std::memory_order_relaxed);
    const std::uint64_t next = last ? make_state(version_of(state), g + 1, 0) : state + kOneArrival;
    if (!e.state.compare_exchange_strong(state, next, std::memory_order_seq_cst)) {
      // A rank has completed it without this rank's arrival: it saw this mark, and that other ranks have joined.
      if (version_of(state) == ref.version && generation_of(state) != (g & 0xffffff)) return true;
      continue;
    }
    if (last)
      publish(ref.entry, g);
    else if (header_->joined.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      complete_with_joined(ref.entry, next);
    return true;
  }
}

void ReadinessTable::complete_with_joined(int index, std::uint64_t state) noexcept {
  TableEntry& e = entry(index);
  while (arrivals_of(state) != 0) {
    const std::uint32_t g = generation_of(state);
    for (int r = 0; r < ranks_; ++r)
      if (!has_arrived(index, g, r) && status(r).joined.load(std::memory_order_acquire) == 0) return;
    if (e.state.compare_exchange_strong(state, make_state(version_of(state), g + 1, 0), std::memory_order_seq_cst))
      return publish(index, g);
  }
}

LogKind ReadinessTable::kind_of(const LineSubmissions& all) const noexcept {
  const RankSubmission* first = nullptr;
  bool any_joined = false;
  bool root_joined = false;
  for (int r = 0; r < ranks_; ++r) {
    const RankSubmission* const submission = all.of(r);
    if (submission == nullptr) {
      any_joined = true;
    } else if (first == nullptr) {
      first = submission;
    } else if (first->signature != submission->signature) {
      return LogKind::kMismatch;
    }
  }
  if (any_joined && sends_root(first->op)) {
    const auto root = std::find(set_ranks_.begin(), set_ranks_.end(), first->op.root);
    root_joined = root != set_ranks_.end() && all.of(static_cast<int>(root - set_ranks_.begin())) == nullptr;
  }
  if (root_joined || (any_joined && needs_every_rank(first->op))) return LogKind::kJoinForbids;
  return run_kind(first->op);
}

void ReadinessTable::publish(int index, std::uint32_t g) noexcept {
  const LogLine line{kind_of({&submission_at(index, g, 0), mark_of(g)}), index, static_cast<std::uint8_t>(g)};
  if (complete_.same_as(log_)) return log_line(line);
  complete_.fill(complete_.reserve(), line);
}

void ReadinessTable::log_line(LogLine line) noexcept {
  const std::uint64_t position = log_.reserve();
  if (line.kind != LogKind::kAllJoined) entry(line.entry).last_end.store(position + 1, std::memory_order_release);
  log_.fill(position, line);
}

void ReadinessTable::join() {
  status(rank_).joined.store(1, std::memory_order_release);
  const auto all = static_cast<std::uint32_t>(ranks_);
  if (header_->joined.fetch_add(1, std::memory_order_seq_cst) + 1 == all) header_->last_joined.store(rank_);
  for (int i = 0, end = entries(); i < end; ++i)
    if (const auto state = entry(i).state.load(std::memory_order_seq_cst); arrivals_of(state) != 0)
      complete_with_joined(i, state);
  // The line about the join must follow all lines that need the ranks that have joined, so the last rank to get here
  // adds it.
  if (header_->swept.fetch_add(1, std::memory_order_seq_cst) + 1 < all) return;
  for (int r = 0; r < ranks_; ++r) status(r).joined.store(0, std::memory_order_relaxed);
  header_->swept.store(0, std::memory_order_relaxed);
  header_->joined.store(0, std::memory_order_seq_cst);
  complete_.fill(complete_.reserve(), {LogKind::kAllJoined, set_rank(header_->last_joined.load()), 0});
}

// --- reading ---

ReadinessTable::LineSubmissions ReadinessTable::submissions(const LogLine& line) const noexcept {
  // The line has the low bits of a generation that has passed.
  const std::uint32_t last = generation_of(entry(line.entry).state.load(std::memory_order_acquire)) - 1;
  const std::uint32_t full = last - ((last - line.generation) & 0xff);
  return {&submission_at(line.entry, full, 0), mark_of(full)};
}

const RankSubmission& ReadinessTable::agreed(const LogLine& line) const noexcept {
  const LineSubmissions all = submissions(line);
  for (int r = 0; r < ranks_; ++r)
    if (const RankSubmission* found = all.of(r); found != nullptr) return *found;
  return submission_at(line.entry, line.generation, 0);
}

std::vector<int> ReadinessTable::missing(int index, std::uint8_t own_generation) const {
  const std::uint32_t g = generation_of(entry(index).state.load(std::memory_order_acquire));
  std::vector<int> ranks;
  if (static_cast<std::uint8_t>(g) != own_generation) return ranks;
  for (int r = 0; r < ranks_; ++r)
    if (!has_arrived(index, g, r) && status(r).joined.load(std::memory_order_acquire) == 0) ranks.push_back(r);
  return ranks;
}

Result<LogLine> ReadinessTable::add_agreed(std::string_view name, std::uint64_t signature, const OpDescriptor& op,
                                           std::span<const TensorSize> sizes) {
  XOE_ASSIGN(const EntryRef found, find(name, [] { return false; }));
  // No rank arrives here before all have joined, so this generation is as good as complete.
  std::atomic<std::uint64_t>& state = entry(found.entry).state;
  const std::uint64_t seen = state.load(std::memory_order_acquire);
  const std::uint32_t g = generation_of(seen);
  RankSubmission& submission = submission_at(found.entry, g, 0);
  submission.signature = signature;
  submission.op = op;
  submission.text_length = 0;  // so that the next arrival writes the submission again
  std::copy_n(sizes.begin(), std::min(sizes.size(), kListedTensors), submission.sizes);
  state.store(make_state(version_of(seen), g + 1, 0), std::memory_order_seq_cst);
  return LogLine{run_kind(op), found.entry, static_cast<std::uint8_t>(g)};
}

}  // namespace xoe::engine
