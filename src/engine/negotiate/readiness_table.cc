#include "engine/negotiate/readiness_table.h"

#include <algorithm>
#include <bit>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "engine/negotiate/table_layout.h"

namespace xoe::engine {
namespace {

constexpr int kBucket = 16;  // entries whose tags share a cache line; a name may lie in either of two buckets
constexpr std::uint64_t kBeingLogged = ~std::uint64_t{0};

constexpr std::uint64_t kOneArrival = 1;
constexpr std::size_t align(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
constexpr std::size_t ring_size(int capacity) { return std::bit_ceil(static_cast<std::size_t>(capacity) * 2 + 64); }

int round_capacity(int capacity) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(capacity, 32))));
}

// A rank without the tensor could not take part.
bool forbids_join(const OpDescriptor& op) {
  return op.kind == OpKind::kAlltoall || op.internal != InternalKind::kNone || op.tensors > kListedTensors ||
         (op.tensors > 1 && (op.compression.kind == Compression::kPowerSgd || op.kind == OpKind::kReduceScatter));
}

bool same_as_before(const RankSubmission& submitted, const ReadinessTable::Arrival& arrival) {
  return submitted.text_length != 0 && submitted.signature == arrival.signature &&
         submitted.op.first_dim == arrival.op.first_dim;
}

bool sends_root(const OpDescriptor& op) { return op.kind == OpKind::kBroadcast || op.kind == OpKind::kBroadcastBytes; }

}  // namespace

std::size_t ReadinessTable::bytes(int capacity, int ranks) {
  const auto n = static_cast<std::size_t>(round_capacity(capacity));
  const auto size = static_cast<std::size_t>(ranks);
  return align(sizeof(TableHeader)) + size * sizeof(RankNote) + n * sizeof(std::uint32_t) + n * sizeof(Entry) +
         n * 2 * size * sizeof(RankSubmission) + kErrorTexts * sizeof(ErrorText) +
         3 * ring_size(round_capacity(capacity)) * sizeof(std::uint64_t);
}

ReadinessTable::ReadinessTable(std::byte* memory, int capacity, int rank, std::vector<int> set_ranks, bool many_hosts)
    : capacity_(round_capacity(capacity)),
      rank_(rank),
      ranks_(static_cast<int>(set_ranks.size())),
      set_ranks_(std::move(set_ranks)),
      ring_mask_(ring_size(capacity_) - 1) {
  const auto ranks = static_cast<std::size_t>(ranks_);
  const auto n = static_cast<std::size_t>(capacity_);
  const auto take = [&memory](std::size_t bytes) { return std::exchange(memory, memory + align(bytes)); };
  header_ = reinterpret_cast<TableHeader*>(take(sizeof(TableHeader)));
  notes_ = reinterpret_cast<RankNote*>(take(ranks * sizeof(RankNote)));
  tags_ = reinterpret_cast<std::atomic<std::uint32_t>*>(take(n * sizeof(std::uint32_t)));
  entries_ = reinterpret_cast<Entry*>(take(n * sizeof(Entry)));
  submissions_ = reinterpret_cast<RankSubmission*>(take(n * 2 * ranks * sizeof(RankSubmission)));
  const auto ring = [&] {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(take((ring_mask_ + 1) * sizeof(std::uint64_t)));
  };
  errors_ = reinterpret_cast<ErrorText*>(take(kErrorTexts * sizeof(ErrorText)));
  log_ = {&header_->log_tail, ring()};
  seals_ = ring();
  ready_ = many_hosts ? Ring{&header_->ready_tail, ring()} : log_;
}

RankNote& ReadinessTable::note(int rank) const noexcept { return notes_[rank]; }
void ReadinessTable::completed(std::uint64_t position) noexcept {
  note(rank_).completed.store(position, std::memory_order_release);
}
std::atomic<std::uint32_t>& ReadinessTable::knobs() const noexcept { return header_->knobs; }

RankSubmission& ReadinessTable::submission_at(int index, std::uint32_t gen, int rank) const noexcept {
  return submissions_[(static_cast<std::size_t>(index) * 2 + (gen & 1)) * static_cast<std::size_t>(ranks_) +
                      static_cast<std::size_t>(rank)];
}

// --- names ---

int ReadinessTable::look_up(const std::uint64_t (&hashes)[2], std::uint32_t& found_version) const noexcept {
  const auto tag = static_cast<std::uint32_t>(hashes[0] >> 32) | 1;
  for (const std::uint64_t hash : hashes) {
    const int bucket = static_cast<int>(hash % static_cast<std::uint64_t>(capacity_ / kBucket)) * kBucket;
    for (int i = bucket; i < bucket + kBucket; ++i) {
      if (tags_[i].load(std::memory_order_acquire) != tag) continue;
      const Entry& candidate = entry(i);
      found_version = version(candidate.state.load(std::memory_order_acquire));
      if ((found_version & 1) == 0 && candidate.hashes[0].load(std::memory_order_acquire) == hashes[0] &&
          candidate.hashes[1].load(std::memory_order_acquire) == hashes[1])
        return i;
    }
  }
  return -1;
}

std::uint64_t ReadinessTable::everywhere_completed() const noexcept {
  std::uint64_t lowest = kBeingLogged;
  for (int r = 0; r < ranks_; ++r) lowest = std::min(lowest, note(r).completed.load(std::memory_order_acquire));
  return lowest;
}

// A free entry of the name's two buckets, else the one that has been idle for longest, else -1. state: what it must
// still be when it is taken, for its end was read after it.
int ReadinessTable::choose_victim(const std::uint64_t (&hashes)[2], std::uint64_t& state) const noexcept {
  const std::uint64_t all_completed = everywhere_completed();
  int oldest = -1;
  std::uint64_t oldest_end = 0;
  for (int k = 0; k < kBucket; ++k)
    for (const std::uint64_t hash : hashes) {
      const int i = static_cast<int>(hash % static_cast<std::uint64_t>(capacity_ / kBucket)) * kBucket + k;
      const std::uint64_t seen = entry(i).state.load(std::memory_order_acquire);
      const std::uint64_t end = entry(i).last_end.load(std::memory_order_acquire);
      const bool free = tags_[i].load(std::memory_order_relaxed) == 0;
      if (arrived(seen) != 0 || (version(seen) & 1) != 0 || end > all_completed) continue;
      if (!free && oldest >= 0 && end >= oldest_end) continue;
      oldest = i;
      oldest_end = end;
      state = seen;
      if (free) return i;
    }
  return oldest;
}

Result<ReadinessTable::Place> ReadinessTable::find(std::string_view name, const std::function<bool()>& gave_up) {
  const std::uint64_t hashes[2] = {hash_text(name), hash_text(name, 0x9e3779b97f4a7c15u)};
  Place place;
  if (place.entry = look_up(hashes, place.version); place.entry >= 0) [[likely]]
    return place;
  unsigned turns = 0;
  for (std::uint32_t free = 0;
       !header_->lock.compare_exchange_weak(free, static_cast<std::uint32_t>(rank_) + 1, std::memory_order_acq_rel);
       free = 0) {
    if (++turns % 64 == 0 && gave_up())
      return failure(Code::kPeerLost, "'{}': another rank has held the table of names for too long", name);
    std::this_thread::yield();
  }
  place.entry = look_up(hashes, place.version);  // somebody else may have made it meanwhile
  while (place.entry < 0) {
    std::uint64_t state = 0;
    const int victim = choose_victim(hashes, state);
    if (victim < 0) {
      header_->lock.store(0, std::memory_order_release);
      return failure(Code::kResourceExhausted,
                     "no place for the name '{}': too many of the {} that are kept are in use by operations under way; "
                     "raise cache_capacity",
                     name, capacity_);
    }
    Entry& e = entry(victim);
    // A generation of its own for each name: what a late arrival of the last one has marked counts for nothing.
    const std::uint64_t writing = make_state(version(state) + 1, generation(state) + 1, 0);
    if (!e.state.compare_exchange_strong(state, writing, std::memory_order_acq_rel)) continue;
    e.hashes[0].store(hashes[0], std::memory_order_release);
    e.hashes[1].store(hashes[1], std::memory_order_release);
    const std::size_t length = std::min(name.size(), kNameBytes);
    for (std::size_t i = 0; i < length; ++i) e.name[i].store(name[i], std::memory_order_relaxed);
    e.name_length.store(static_cast<std::uint32_t>(length), std::memory_order_relaxed);
    e.is_cut.store(name.size() > length ? 1 : 0, std::memory_order_relaxed);
    place = {victim, (version(writing) + 1) & 0xffffff};
    e.state.store(make_state(place.version, generation(writing), 0), std::memory_order_release);
    tags_[victim].store(static_cast<std::uint32_t>(hashes[0] >> 32) | 1, std::memory_order_release);
  }
  header_->lock.store(0, std::memory_order_release);
  return place;
}

std::string ReadinessTable::name(int index) const {
  const Entry& e = entry(index);
  std::string text(e.name_length.load(std::memory_order_relaxed), ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = e.name[i].load(std::memory_order_relaxed);
  return text;
}

std::string ReadinessTable::unique_name(int index) const {
  std::string full = name(index);
  if (entry(index).is_cut.load(std::memory_order_relaxed) != 0)
    full += fmt::format("~{:016x}", entry(index).hashes[1].load(std::memory_order_acquire));
  return full;
}

// --- arriving ---

void ReadinessTable::write_submission(RankSubmission& submitted, const Arrival& arrival) const {
  submitted.signature = arrival.signature;
  submitted.op = arrival.op;
  std::copy_n(arrival.sizes.begin(), std::min(arrival.sizes.size(), kListedTensors), submitted.sizes);
  submitted.text_length = static_cast<std::uint32_t>(arrival.text().copy(submitted.text, sizeof submitted.text));
}

bool ReadinessTable::arrive(Place place, const Arrival& arrival, std::atomic<std::uint8_t>& gen) {
  Entry& e = entry(place.entry);
  std::uint64_t state = e.state.load(std::memory_order_acquire);
  std::uint32_t marked = 0;  // what the submission says already
  while (true) {
    if (version(state) != place.version) return false;
    const std::uint32_t g = generation(state);
    if (marked != mark(g)) {
      RankSubmission& submitted = submission_at(place.entry, g, rank_);
      if (!same_as_before(submitted, arrival)) write_submission(submitted, arrival);
      submitted.arrived_ns = arrival.now_ns;
      // Before the mark: from then on others may complete the entry, and this rank's driver look for the submission.
      gen.store(static_cast<std::uint8_t>(g), std::memory_order_relaxed);
      submitted.generation.store(marked = mark(g), std::memory_order_release);
    }
    const bool last = arrived(state) + 1 == static_cast<std::uint32_t>(ranks_);
    if (arrived(state) == 0) e.last_end.store(kBeingLogged, std::memory_order_relaxed);
    const std::uint64_t next = last ? make_state(version(state), g + 1, 0) : state + kOneArrival;
    if (!e.state.compare_exchange_strong(state, next, std::memory_order_seq_cst)) {
      // It was completed without this rank's count: by one that had seen this submission, and that some ranks have
      // joined.
      if (version(state) == place.version && generation(state) != (g & 0xffffff)) return true;
      continue;
    }
    if (last)
      publish(place.entry, g);
    else if (header_->joined.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      complete_with_joined(place.entry, next);
    return true;
  }
}

void ReadinessTable::complete_with_joined(int index, std::uint64_t state) noexcept {
  Entry& e = entry(index);
  while (arrived(state) != 0) {
    const std::uint32_t g = generation(state);
    for (int r = 0; r < ranks_; ++r)
      if (submission_at(index, g, r).generation.load(std::memory_order_acquire) != mark(g) &&
          note(r).joined.load(std::memory_order_acquire) == 0)
        return;
    if (e.state.compare_exchange_strong(state, make_state(version(state), g + 1, 0), std::memory_order_seq_cst))
      return publish(index, g);
  }
}

LogKind ReadinessTable::verdict(int index, std::uint32_t g) const noexcept {
  const RankSubmission* first = nullptr;
  bool somebody_joined = false;
  bool root_joined = false;
  for (int r = 0; r < ranks_; ++r) {
    const RankSubmission& submitted = submission_at(index, g, r);
    if (submitted.generation.load(std::memory_order_acquire) != mark(g)) {
      somebody_joined = true;
    } else if (first == nullptr) {
      first = &submitted;
    } else if (first->signature != submitted.signature) {
      return LogKind::kMismatch;
    }
  }
  if (somebody_joined && sends_root(first->op)) {
    const auto root = std::find(set_ranks_.begin(), set_ranks_.end(), first->op.root);
    root_joined = root != set_ranks_.end() &&
                  submission_at(index, g, static_cast<int>(root - set_ranks_.begin())).generation.load() != mark(g);
  }
  if (root_joined || (somebody_joined && forbids_join(first->op))) return LogKind::kJoinForbids;
  return first->op.kind == OpKind::kBarrier && first->op.internal == InternalKind::kNone ? LogKind::kBarrier
                                                                                         : LogKind::kRun;
}

void ReadinessTable::publish(int index, std::uint32_t g) noexcept {
  const LogLine line{verdict(index, g), index, static_cast<std::uint8_t>(g)};
  push(ready_, line);
}

void ReadinessTable::join() {
  note(rank_).joined.store(1, std::memory_order_release);
  const auto all = static_cast<std::uint32_t>(ranks_);
  if (header_->joined.fetch_add(1, std::memory_order_seq_cst) + 1 == all) header_->last_joined.store(rank_);
  for (int i = 0; i < capacity_; ++i)
    if (const auto state = entry(i).state.load(std::memory_order_seq_cst); arrived(state) != 0)
      complete_with_joined(i, state);
  // Nothing may follow in the log that needs those who have joined, so it is for the last one that has swept to say.
  if (header_->swept.fetch_add(1, std::memory_order_seq_cst) + 1 < all) return;
  for (int r = 0; r < ranks_; ++r) note(r).joined.store(0, std::memory_order_relaxed);
  header_->swept.store(0, std::memory_order_relaxed);
  header_->joined.store(0, std::memory_order_seq_cst);
  push(ready_, {LogKind::kAllJoined, set_rank(header_->last_joined.load()), 0});
}

const RankSubmission* ReadinessTable::submission(const LogLine& line, int rank) const noexcept {
  const RankSubmission& submitted = submission_at(line.entry, line.generation, rank);
  // The line has the low bits of a generation that has passed.
  const std::uint32_t last = generation(entry(line.entry).state.load(std::memory_order_acquire)) - 1;
  const std::uint32_t full = last - ((last - line.generation) & 0xff);
  return submitted.generation.load(std::memory_order_acquire) == mark(full) ? &submitted : nullptr;
}

const RankSubmission& ReadinessTable::agreed(const LogLine& line) const noexcept {
  for (int r = 0; r < ranks_; ++r)
    if (const RankSubmission* found = submission(line, r); found != nullptr) return *found;
  return submission_at(line.entry, line.generation, 0);  // from install()
}

std::vector<int> ReadinessTable::missing(int index, std::uint8_t own_generation) const {
  const std::uint32_t g = generation(entry(index).state.load(std::memory_order_acquire));
  std::vector<int> ranks;
  if (static_cast<std::uint8_t>(g) != own_generation) return ranks;
  for (int r = 0; r < ranks_; ++r)
    if (submission_at(index, g, r).generation.load(std::memory_order_acquire) != mark(g) &&
        note(r).joined.load(std::memory_order_acquire) == 0)
      ranks.push_back(r);
  return ranks;
}

}  // namespace xoe::engine
