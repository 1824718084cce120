#include "engine/negotiate/host_leader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace xoe::engine {
namespace {

constexpr std::chrono::milliseconds kPatience(5);
constexpr char kBlobMark =
    '\x01';  // behind it: descriptor and sizes, in hexadecimal digits, for hosts that have joined

struct Blob {
  OpDescriptor op;
  TensorSize sizes[kListedTensors];
};
static_assert(std::is_trivially_copyable_v<Blob>);

std::string to_text(const RankSubmission& submitted) {
  Blob blob{};
  blob.op = submitted.op;
  std::copy_n(submitted.sizes, kListedTensors, blob.sizes);
  std::string text(submitted.text, submitted.text_length);
  text += kBlobMark;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&blob);
  for (std::size_t i = 0; i < sizeof blob; ++i) fmt::format_to(std::back_inserter(text), "{:02x}", bytes[i]);
  return text;
}

bool from_text(std::string_view text, Blob& blob) {
  const auto mark = text.find(kBlobMark);
  if (mark == std::string_view::npos || text.size() - mark - 1 < 2 * sizeof blob) return false;
  auto* bytes = reinterpret_cast<unsigned char*>(&blob);
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  for (std::size_t i = 0; i < sizeof blob; ++i) {
    const char high = text[mark + 1 + 2 * i], low = text[mark + 2 + 2 * i];
    bytes[i] = static_cast<unsigned char>(digit(high) << 4 | digit(low));
  }
  return true;
}

// Without the parts that are not for people.
std::string readable(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != kBlobMark) {
      result += text[i];
      continue;
    }
    i += std::min(2 * sizeof(Blob), text.size() - 1 - i);
  }
  return result;
}

}  // namespace

HostLeader::HostLeader(ReadinessTable& table, int host, int hosts, std::unique_ptr<HostLink> link,
                       std::function<std::string(const LogLine&)> describe)
    : table_(table),
      coordinator_(host, hosts, {.cache_capacity = static_cast<std::size_t>(table.capacity())}),
      link_(std::move(link)),
      describe_(std::move(describe)) {}

void HostLeader::submit(const LogLine& line) {
  if (line.kind == LogKind::kAllJoined) return coordinator_.joined(line.entry);
  std::string name = table_.unique_name(line.entry);
  if (line.kind == LogKind::kMismatch || line.kind == LogKind::kJoinForbids) {
    coordinator_.fail_local(name, describe_(line));
  } else {
    const RankSubmission& submitted = table_.agreed(line);
    coordinator_.ready(name, submitted.signature, to_text(submitted));
  }
  undecided_.emplace(std::move(name), line);
}

LogLine HostLeader::line_of(const DecidedTensor& tensor) {
  LogLine line;
  if (const auto mine = undecided_.find(tensor.name()); mine != undecided_.end()) {
    line = mine->second;
    undecided_.erase(mine);
  } else {  // all ranks here have joined
    Blob blob{};
    if (from_text(tensor.text(), blob)) line = table_.install(tensor.name(), tensor.signature, blob.op, blob.sizes);
  }
  if (!tensor.error.empty()) {
    line.kind = LogKind::kMismatch;
    table_.set_error(line, readable(tensor.error));
  }
  return line;
}

void HostLeader::decide(const Decision& decision) {
  for (const DecidedTensor& tensor : decision.tensors) table_.append(line_of(tensor));
  if (decision.joined) table_.append({LogKind::kAllJoined, *decision.joined, 0});
  table_.seal_all(seal_number_++, static_cast<std::uint16_t>(decision.knobs));
}

Result<bool> HostLeader::advance(bool may_decide, std::uint16_t knobs) {
  bool moved = false;
  LogLine line;
  while (table_.take_ready(ready_position_, line)) {
    submit(line);
    moved = true;
  }
  while (auto incoming = link_->receive()) {
    XOE_TRY(coordinator_.receive(incoming->from_host, incoming->message));
    moved = true;
  }
  if (may_decide && coordinator_.has_ready()) coordinator_.flush(knobs);
  for (const Decision& decision : coordinator_.take_decisions()) {
    decide(decision);
    moved = true;
  }
  for (Outgoing& message : coordinator_.take_messages()) link_->send(message.to_host, std::move(message.bytes));
  return link_->pump() || moved;
}

bool HostLeader::held_back() {
  const auto is_held = [&] {
    return std::any_of(undecided_.begin(), undecided_.end(),
                       [&](const auto& u) { return coordinator_.held_back(u.first); });
  };
  if (!coordinator_.replaying() || undecided_.empty() || !table_.somebody_sleeps() || !is_held()) {
    held_since_ = {};
    return false;
  }
  const auto now = EngineClock::now();
  if (held_since_ == EngineClock::time_point{}) held_since_ = now;
  if (now - held_since_ < kPatience) return true;
  coordinator_.leave_replay();
  held_since_ = {};
  return false;
}

}  // namespace xoe::engine
