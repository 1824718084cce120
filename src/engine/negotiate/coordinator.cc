#include "engine/negotiate/coordinator.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace xoe::engine {
namespace {

CoordinatorOptions sane(CoordinatorOptions options) {
  options.fanout = std::clamp(options.fanout, 1, 32);
  options.cache_capacity = std::clamp<std::size_t>(options.cache_capacity, 1, std::size_t{1} << 20);
  options.unit_tensors = std::max<std::size_t>(options.unit_tensors, 1);
  return options;
}

}  // namespace

Coordinator::Coordinator(int host, int hosts, Options options) : host_(host), hosts_(hosts), options_(sane(options)) {
  while (children_ < options_.fanout && child(children_) < hosts_) ++children_;
  all_children_ = static_cast<std::uint32_t>((std::uint64_t{1} << children_) - 1);
  child_units_.assign(static_cast<std::size_t>(children_), 0);
}

std::vector<int> Coordinator::neighbours() const {
  std::vector<int> hosts;
  if (!is_root()) hosts.push_back(parent());
  for (int i = 0; i < children_; ++i) hosts.push_back(child(i));
  return hosts;
}

void Coordinator::ready(std::string_view name, std::uint64_t signature, std::string_view text) {
  NameEntry& entry = table_.obtain(name.substr(0, kMaxNameBytes));
  if (entry.local) return;
  entry.own_signature = signature;
  entry.own_text.clear();
  if (!entry.agreed || entry.signature != signature) entry.own_text = text.substr(0, kMaxTextBytes);
  submitted(entry);
}

void Coordinator::fail_local(std::string_view name, std::string_view text) {
  NameEntry& entry = table_.obtain(name.substr(0, kMaxNameBytes));
  if (entry.local) return;
  entry.failed = true;
  entry.own_signature = 0;
  entry.own_text = text.substr(0, kMaxTextBytes);
  submitted(entry);
}

void Coordinator::joined(int last_rank) {
  if (joined_) return;
  joined_ = true;
  last_rank_ = last_rank;
  if (replay_)
    deviate();
  else
    check_all_complete();
}

void Coordinator::leave_replay() {
  if (replay_) deviate();
}

Status Coordinator::receive(int from_host, std::span<const std::byte> message) {
  if (!state_) return state_;
  if (!is_root() && from_host == parent()) {
    auto reader = DownReader::open(message);
    if (!reader) return state_ = failure(reader.error());
    while (reader->more()) {
      const auto record = reader->next(table_.id_limit());
      if (!record) return state_ = failure(record.error());
      XOE_TRY(apply(*record));
    }
    down_.raw(records_of(message));
    return {};
  }
  const std::int64_t index = std::int64_t{from_host} - child(0);
  if (index < 0 || index >= children_) return fail("a message from a host that is no neighbour");
  const auto decoded = decode_up(message, table_.id_limit());
  if (!decoded) return state_ = failure(decoded.error());
  return receive_up(static_cast<int>(index), *decoded);
}

std::vector<Outgoing> Coordinator::take_messages() {
  std::vector<Outgoing> messages;
  if (!state_) return messages;
  if (!is_root())
    if (auto report = take_report()) messages.push_back({parent(), std::move(*report)});
  if (down_.empty()) return messages;
  for (int i = 0; i < children_; ++i) messages.push_back({child(i), encode_down(down_.bytes())});
  down_.clear();
  return messages;
}

std::vector<Decision> Coordinator::take_decisions() { return std::exchange(decisions_, {}); }

std::vector<int> Coordinator::missing_hosts(std::string_view name) {
  std::vector<int> hosts;
  const NameEntry* entry = table_.find(name);
  if (entry == nullptr) return hosts;
  if (!entry->local && !joined_) hosts.push_back(host_);
  const bool planned = replay_ && entry->known() && replay_->holds(*entry);
  for (int i = 0; i < children_; ++i) {
    const bool has_it = planned ? child_units_[static_cast<std::size_t>(i)] > replay_->unit_of(*entry)
                                : ((entry->arrived | children_joined_) >> i & 1) != 0;
    if (!has_it) hosts.push_back(child(i));
  }
  return hosts;
}

bool Coordinator::held_back(std::string_view name) {
  const NameEntry* entry = table_.find(name);
  return replay_ && entry != nullptr && entry->local && entry->known() && replay_->holds(*entry) &&
         replay_->unit_of(*entry) >= replay_->ready();
}

Status Coordinator::fail(std::string_view what) {
  return state_ = failure(Code::kInternal,
                          "negotiation between hosts, at host " + std::to_string(host_) + ": " + std::string(what));
}

}  // namespace xoe::engine
