#include "core/engine/negotiate/cross_host_agreement.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include "core/base/error.h"

namespace xoe::engine {

// An error that hosts have decided. Written by the leader, read by ranks that get to its line.
struct alignas(64) CrossHostAgreement::ErrorText {
  std::atomic<std::uint32_t> sequence;  // odd while it is written; 0: never
  std::atomic<std::uint32_t> line;      // entry << 8 | generation
  std::atomic<std::uint32_t> length;    // kVoid: the line is now that of another error
  std::atomic<char> text[2036];
};

namespace {

constexpr std::size_t kErrorTexts = 64;
constexpr std::uint32_t kVoid = ~std::uint32_t{0};

std::uint32_t line_key(const LogLine& line) { return static_cast<std::uint32_t>(line.entry) << 8 | line.generation; }

// Follows a description, for hosts all of whose ranks have joined: they run the operation without having submitted it.
constexpr char kTermsMark = '\x01';
struct Terms {
  OpDescriptor op;
  TensorSize sizes[kListedTensors];
};
static_assert(std::is_trivially_copyable_v<Terms>);

std::string with_terms(const RankSubmission& submission) {
  Terms terms{};
  terms.op = submission.op;
  std::copy_n(submission.sizes, kListedTensors, terms.sizes);
  std::string text(submission.description());
  text += kTermsMark;
  return text.append(reinterpret_cast<const char*>(&terms), sizeof terms);
}

bool read_terms(std::string_view text, Terms& terms) {
  const auto mark = text.find(kTermsMark);
  if (mark == std::string_view::npos || text.size() - mark - 1 < sizeof terms) return false;
  std::memcpy(&terms, text.data() + mark + 1, sizeof terms);
  return true;
}

std::string without_terms(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == kTermsMark)
      i += sizeof(Terms);
    else
      result += text[i];
  return result;
}

}  // namespace

CrossHostAgreement::CrossHostAgreement(SharedLayout& memory, HostBlocks& blocks, AgreementMembers members, int capacity,
                                       std::unique_ptr<LeaderChannel> channel)
    : Agreement(memory, blocks, std::move(members), capacity,
                LogRing(memory, blocks, ReadinessTable::rounded(capacity))),
      errors_(memory.take<ErrorText>(kErrorTexts)),
      channel_(std::move(channel)),
      coordinator_(members_.host(), *std::max_element(members_.hosts.begin(), members_.hosts.end()) + 1,
                   {.cache_capacity = static_cast<std::size_t>(table_.capacity())}) {}

void CrossHostAgreement::submit(const LogLine& line) {
  if (line.kind == LogKind::kAllJoined) return coordinator_.joined(line.entry);
  std::string name = table_.unique_name(line.entry);
  if (line.kind == LogKind::kMismatch || line.kind == LogKind::kJoinForbids) {
    coordinator_.fail_local(name, describe_mismatch(line));
  } else {
    const RankSubmission& agreed = table_.agreed(line);
    coordinator_.ready(name, agreed.signature, with_terms(agreed));
  }
  undecided_.emplace(std::move(name), line);
}

Result<LogLine> CrossHostAgreement::line_of(const DecidedTensor& tensor) {
  LogLine line;
  if (const auto own = undecided_.find(tensor.name()); own != undecided_.end()) {
    line = own->second;
    undecided_.erase(own);
  } else {  // all ranks here have joined
    Terms terms{};
    if (read_terms(tensor.text(), terms)) {
      XOE_ASSIGN(line, table_.add_agreed(tensor.name(), tensor.signature, terms.op, terms.sizes));
    }
  }
  if (!tensor.error.empty()) {
    line.kind = LogKind::kMismatch;
    set_error(line, without_terms(tensor.error));
  }
  return line;
}

// A rank of this host may be far behind: one that has joined holds up no barrier of the others.
bool CrossHostAgreement::has_room(const Decision& decision) const noexcept {
  const std::uint64_t end = log_.ring().tail() + decision.tensors.size() + 1;
  const std::uint64_t completed = table_.completed_by_all();
  return end - completed <= log_.ring().size() / 2 || log_.ring().tail() == completed;
}

Status CrossHostAgreement::apply(const Decision& decision) {
  for (const DecidedTensor& tensor : decision.tensors) {
    XOE_ASSIGN(const LogLine line, line_of(tensor));
    table_.log_line(line);
  }
  if (decision.joined) table_.log_line({LogKind::kAllJoined, *decision.joined, 0});
  log_.seal_all(static_cast<std::uint16_t>(decision.knobs));
  return {};
}

Result<bool> CrossHostAgreement::progress(bool may_seal) {
  if (channel_ == nullptr) return false;
  bool moved = false;
  for (LogLine line; table_.complete().read(complete_position_, line); moved = true) {
    ++complete_position_;
    submit(line);
  }
  while (auto incoming = channel_->receive()) {
    XOE_TRY(coordinator_.receive(incoming->from_host, incoming->message));
    moved = true;
  }
  if (may_seal) {
    coordinator_.raise_cache_capacity(static_cast<std::size_t>(table_.entries()));
    coordinator_.flush(knobs());
  }
  for (Decision& decision : coordinator_.take_decisions()) decided_.push_back(std::move(decision));
  for (; !decided_.empty() && has_room(decided_.front()); decided_.pop_front()) {
    XOE_TRY(apply(decided_.front()));
    moved = true;
  }
  for (Outgoing& message : coordinator_.take_messages()) channel_->send(message.to_host, std::move(message.bytes));
  return channel_->progress() || moved;
}

void CrossHostAgreement::set_error(const LogLine& line, std::string_view text) noexcept {
  // A line has 8 bits of its entry's generation. An error of 256 uses of the name ago, which all ranks have passed,
  // must not be told in this one's place.
  for (std::size_t i = 0; i < kErrorTexts; ++i) {
    ErrorText& old = errors_[i];
    if (old.sequence.load(std::memory_order_relaxed) == 0 || old.line.load(std::memory_order_relaxed) != line_key(line))
      continue;
    old.sequence.fetch_add(1, std::memory_order_acq_rel);
    old.length.store(kVoid, std::memory_order_release);
    old.sequence.fetch_add(1, std::memory_order_acq_rel);
  }
  ErrorText& error = errors_[next_error_++ % kErrorTexts];
  error.sequence.fetch_add(1, std::memory_order_acq_rel);
  error.line.store(line_key(line), std::memory_order_release);
  const std::size_t length = std::min(text.size(), std::size(error.text));
  for (std::size_t i = 0; i < length; ++i) error.text[i].store(text[i], std::memory_order_release);
  error.length.store(static_cast<std::uint32_t>(length), std::memory_order_release);
  error.sequence.fetch_add(1, std::memory_order_acq_rel);
}

std::string CrossHostAgreement::error(const LogLine& line, std::string_view name) const {
  for (std::size_t i = 0; i < kErrorTexts; ++i) {
    const ErrorText& error = errors_[i];
    const auto before = error.sequence.load(std::memory_order_acquire);
    if (before == 0 || error.line.load(std::memory_order_acquire) != line_key(line)) continue;
    std::string text;
    const std::size_t length = error.length.load(std::memory_order_acquire);
    if (length > std::size(error.text)) continue;
    for (std::size_t k = 0; k < length; ++k) text += error.text[k].load(std::memory_order_acquire);
    if (before % 2 == 0 && error.sequence.load(std::memory_order_acquire) == before) return text;
  }
  return fmt::format("'{}': ranks disagree", name);  // later errors have taken the text's place
}

std::optional<std::vector<MissingRank>> CrossHostAgreement::missing(int entry, std::uint8_t generation) {
  std::vector<MissingRank> missing = missing_on_host(entry, generation);
  if (!missing.empty() || channel_ == nullptr) return missing;
  // Complete on this host: the leader knows the hosts below it in the tree that lack it.
  for (const int host : coordinator_.missing_hosts(table_.unique_name(entry)))
    for (std::size_t r = 0; r < members_.hosts.size(); ++r)
      if (members_.hosts[r] == host)
        missing.push_back({members_.world_ranks[r], "on a host where not all ranks have submitted it"});
  return missing;
}

}  // namespace xoe::engine
