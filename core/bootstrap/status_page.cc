#include "core/bootstrap/status_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <optional>

#include "core/base/bytes.h"
#include "core/base/error.h"

namespace xoe::bootstrap {
namespace detail {

// Written by one rank. `wait` holds the time at which the present wait began, and in its lowest bits a WaitKind; 0:
// none. A note is good while its own `wait` is that of the slot and `sequence` is even and does not change.
struct alignas(64) StatusSlot {
  std::atomic<std::uint64_t> format;  // kFormat, from the launcher
  std::atomic<std::int64_t> pid;      // of the writer; 0: none yet
  std::atomic<std::uint64_t> steps;
  std::atomic<std::uint64_t> operations;
  std::atomic<std::uint64_t> wait;
  std::array<std::atomic<std::int64_t>, 3> waited_ns;  // by WaitKind
  alignas(64) std::atomic<std::uint32_t> sequence;
  std::atomic<std::uint32_t> missing_count;
  std::atomic<std::uint64_t> note_wait;
  std::array<std::atomic<std::int32_t>, kMostMissing> missing;
  std::array<std::atomic<char>, kMostTensorName> tensor;
};

}  // namespace detail

namespace {

using detail::StatusSlot;
using Clock = StatusPage::Clock;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<char>::is_always_lock_free);

constexpr std::uint64_t kFormat = 0x31737574617473;  // "status1"; another layout gets another number
constexpr std::size_t kMostRanks = 4096;

std::uint64_t nanoseconds(Clock::time_point time) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count());
}

constexpr std::uint64_t kKindBits = 3;
std::uint64_t wait_word(WaitKind kind, Clock::time_point since) {
  return kind == WaitKind::kNone ? 0 : (nanoseconds(since) & ~kKindBits) | static_cast<std::uint64_t>(kind);
}
WaitKind kind_of(std::uint64_t word) {
  const auto kind = word & kKindBits;
  return kind > static_cast<std::uint64_t>(WaitKind::kData) ? WaitKind::kNone : static_cast<WaitKind>(kind);
}
std::chrono::nanoseconds since(std::uint64_t word, Clock::time_point now) {
  const auto begun = static_cast<std::int64_t>(word & ~kKindBits);
  return std::chrono::nanoseconds(std::max<std::int64_t>(0, static_cast<std::int64_t>(nanoseconds(now)) - begun));
}

Result<StatusSlot*> map_slots(int fd, std::size_t ranks) {
  void* const memory = ::mmap(nullptr, ranks * sizeof(StatusSlot), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return failure(Code::kResourceExhausted, "cannot map memory: {}", errno_text(errno));
  return static_cast<StatusSlot*>(memory);
}

void read_note(const StatusSlot& slot, std::uint64_t wait, RankFacts& facts) {
  const auto before = slot.sequence.load(std::memory_order_acquire);
  if (before % 2 != 0 || slot.note_wait.load(std::memory_order_acquire) != wait) return;
  std::string tensor;
  for (const auto& letter : slot.tensor) {
    const char c = letter.load(std::memory_order_acquire);
    if (c == '\0') break;
    tensor.push_back(c);
  }
  std::vector<int> missing;
  const auto count = std::min<std::size_t>(slot.missing_count.load(std::memory_order_acquire), kMostMissing);
  for (std::size_t i = 0; i < count; ++i) missing.push_back(slot.missing[i].load(std::memory_order_acquire));
  if (slot.sequence.load(std::memory_order_acquire) != before) return;
  facts.tensor = std::move(tensor);
  facts.missing = std::move(missing);
}

RankFacts read_slot(const StatusSlot& slot, Clock::time_point now) {
  const std::uint64_t wait = slot.wait.load(std::memory_order_acquire);
  const auto waited = [&](WaitKind kind) {
    return std::chrono::nanoseconds(slot.waited_ns[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed)) +
           (kind_of(wait) == kind ? since(wait, now) : std::chrono::nanoseconds(0));
  };
  RankFacts facts{.joined = slot.pid.load(std::memory_order_relaxed) != 0,
                  .steps = slot.steps.load(std::memory_order_relaxed),
                  .operations = slot.operations.load(std::memory_order_relaxed),
                  .peers = waited(WaitKind::kPeers),
                  .data = waited(WaitKind::kData),
                  .wait = kind_of(wait)};
  if (facts.wait == WaitKind::kNone) return facts;
  facts.waited = since(wait, now);
  if (facts.wait == WaitKind::kPeers) read_note(slot, wait, facts);
  return facts;
}

}  // namespace

// --- the launcher's side ---

Result<StatusPage> StatusPage::create(std::size_t ranks) {
  StatusPage page;
  page.fd_ = Fd(::memfd_create("xoe-status", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto bytes = static_cast<off_t>(ranks * sizeof(StatusSlot));
  // Sealed, so that no rank can cut it off below the launcher.
  if (!page.fd_.valid() || ::ftruncate(page.fd_.get(), bytes) != 0 ||
      ::fcntl(page.fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return failure(Code::kResourceExhausted, "cannot make memory for the ranks' status: {}", errno_text(errno));
  XOE_ASSIGN(page.slots_, map_slots(page.fd_.get(), ranks));
  page.ranks_ = ranks;
  for (std::size_t i = 0; i < ranks; ++i) page.slots_[i].format.store(kFormat, std::memory_order_release);
  page.path_ = fmt::format("/proc/{}/fd/{}", ::getpid(), page.fd_.get());
  return page;
}

StatusPage::StatusPage(StatusPage&& other) noexcept
    : fd_(std::move(other.fd_)),
      path_(std::move(other.path_)),
      slots_(std::exchange(other.slots_, nullptr)),
      ranks_(std::exchange(other.ranks_, 0)) {}

StatusPage::~StatusPage() {
  if (slots_ != nullptr) ::munmap(slots_, ranks_ * sizeof(StatusSlot));
}

std::vector<RankFacts> StatusPage::facts(Clock::time_point now) const {
  std::vector<RankFacts> all;
  for (std::size_t i = 0; i < ranks_; ++i) all.push_back(read_slot(slots_[i], now));
  return all;
}

// --- the rank's side ---

StatusWriter StatusWriter::of_process(const Env& env) {
  StatusWriter writer;
  const auto path = env.text(kStatusVariable);
  const auto rank = env.integer("XOE_LOCAL_RANK", 0, kMostRanks - 1);
  const auto size = env.integer("XOE_SIZE", 1, INT32_MAX);
  if (!path || !rank || !*rank || !size || !*size) return writer;
  const Fd file(::open(path->c_str(), O_RDWR | O_CLOEXEC));
  struct stat facts = {};
  if (!file.valid() || ::fstat(file.get(), &facts) != 0) return writer;
  const std::size_t ranks = static_cast<std::size_t>(facts.st_size) / sizeof(StatusSlot);
  const auto own = static_cast<std::size_t>(**rank);
  if (own >= ranks || ranks > kMostRanks) return writer;
  const auto slots = map_slots(file.get(), ranks);
  if (!slots) return writer;
  const std::shared_ptr<StatusSlot> all(*slots,
                                        [ranks](StatusSlot* memory) { ::munmap(memory, ranks * sizeof(StatusSlot)); });
  StatusSlot& slot = all.get()[own];
  if (slot.format.load(std::memory_order_acquire) != kFormat) return writer;
  // A rank that was restarted does not wait as the one before did.
  const std::int64_t pid = ::getpid();
  if (slot.pid.exchange(pid, std::memory_order_acq_rel) != pid) slot.wait.store(0, std::memory_order_release);
  writer.slot_ = std::shared_ptr<StatusSlot>(all, &slot);
  writer.job_size_ = static_cast<int>(**size);
  return writer;
}

void StatusWriter::step() noexcept {
  if (slot_ != nullptr) slot_->steps.fetch_add(1, std::memory_order_relaxed);
}

void StatusWriter::count_operation() noexcept {
  slot_->operations.store(slot_->operations.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

WaitKind StatusWriter::begin(WaitKind kind) noexcept {
  if (slot_ == nullptr) return WaitKind::kNone;
  const auto now = Clock::now();
  const std::uint64_t before = slot_->wait.exchange(wait_word(kind, now), std::memory_order_acq_rel);
  const WaitKind outer = kind_of(before);
  if (outer != WaitKind::kNone)
    slot_->waited_ns[static_cast<std::size_t>(outer)].fetch_add(since(before, now).count(), std::memory_order_relaxed);
  return outer;
}

void StatusWriter::end(WaitKind outer) noexcept {
  if (slot_ != nullptr) (void)begin(outer);
}

void StatusWriter::explain(std::string_view tensor, std::span<const int> missing) noexcept {
  if (slot_ == nullptr) return;
  StatusSlot& slot = *slot_;
  slot.sequence.fetch_add(1, std::memory_order_acq_rel);
  slot.note_wait.store(slot.wait.load(std::memory_order_acquire), std::memory_order_release);
  const std::size_t count = std::min(missing.size(), kMostMissing);
  slot.missing_count.store(static_cast<std::uint32_t>(count), std::memory_order_release);
  for (std::size_t i = 0; i < count; ++i) slot.missing[i].store(missing[i], std::memory_order_release);
  for (std::size_t i = 0; i < kMostTensorName; ++i)
    slot.tensor[i].store(i < tensor.size() ? tensor[i] : '\0', std::memory_order_release);
  slot.sequence.fetch_add(1, std::memory_order_acq_rel);
}

// --- messages between launchers ---

std::string encode_facts(std::span<const RankFacts> facts) {
  ByteWriter out;
  out.varint(facts.size());
  for (const RankFacts& one : facts) {
    out.varint(one.joined ? 1 : 0);
    out.varint(one.steps);
    out.varint(one.operations);
    for (const auto time : {one.peers, one.data, one.waited}) out.varint(static_cast<std::uint64_t>(time.count()));
    out.varint(static_cast<std::uint64_t>(one.wait));
    out.varint_text(one.tensor);
    out.varint(one.missing.size());
    for (const int rank : one.missing) out.varint(static_cast<std::uint64_t>(rank));
  }
  return std::move(out).take();
}

Result<std::vector<RankFacts>> decode_facts(std::string_view text) {
  ByteReader in(text);
  const auto time = [&in] { return std::chrono::nanoseconds(static_cast<std::int64_t>(in.varint(INT64_MAX))); };
  std::vector<RankFacts> all(in.varint_count(9));
  for (RankFacts& one : all) {
    one.joined = in.varint(1) != 0;
    one.steps = in.varint();
    one.operations = in.varint();
    one.peers = time();
    one.data = time();
    one.waited = time();
    one.wait = static_cast<WaitKind>(in.varint(static_cast<std::uint64_t>(WaitKind::kData)));
    one.tensor = in.varint_text(kMostTensorName);
    one.missing.resize(std::min<std::size_t>(in.varint(kMostMissing), kMostMissing));
    for (int& rank : one.missing) rank = static_cast<int>(in.varint(INT32_MAX));
  }
  if (!in.at_end()) return failure(Code::kInvalidArgument, "a malformed message about ranks");
  return all;
}

}  // namespace xoe::bootstrap
