#include "core/engine/negotiate/coordinator.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/engine/negotiate/op_descriptor.h"

namespace xoe::engine {

using Stage = NameEntry::Stage;

namespace {

CoordinatorOptions sane(CoordinatorOptions options) {
  options.fanout = std::clamp(options.fanout, 1, 32);
  options.cache_capacity = std::max<std::size_t>(options.cache_capacity, 1);
  return options;
}

bool needs_all(std::uint64_t signature) { return (signature & kNeedsEveryRank) != 0; }

NameKey key_of(const NameEntry& entry) {
  if (entry.known()) return {.id = entry.id, .name = {}};
  return {.id = {}, .name = entry.name()};
}

}  // namespace

Coordinator::Coordinator(int host, int hosts, CoordinatorOptions options)
    : host_(host),
      options_(sane(options)),
      tree_{.hosts = hosts, .fanout = options_.fanout},
      children_(tree_.children(host)) {
  all_children_ = static_cast<std::uint32_t>((std::uint64_t{1} << children_) - 1);
}

Status Coordinator::fail(std::string_view reason) {
  return state_ = failure(Code::kInternal, "negotiation between hosts, at host {}: {}", host_, reason);
}

// --- what this host's ranks submit ---

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
  check_all_complete();
}

void Coordinator::submitted(NameEntry& entry) {
  entry.local = true;
  table_.activate(entry);
  check_complete(entry);
}

// --- messages ---

Status Coordinator::receive(int from_host, std::span<const std::byte> message) {
  if (!state_) return state_;
  if (!is_root() && from_host == parent()) {
    auto records = decode_down(message);
    if (!records) return state_ = failure(records.error());
    while (records->more()) {
      const auto record = next_record(*records, table_.id_limit());
      if (!record) return state_ = failure(record.error());
      XOE_TRY(std::visit([this](const auto& one) { return apply(one); }, *record));
    }
    down_.raw(records_of(message));
    return {};
  }
  const std::int64_t index = std::int64_t{from_host} - child(0);
  if (index < 0 || index >= children_) return fail("a message from a host that is no neighbour");
  const auto report = decode_report(message, table_.id_limit());
  if (!report) return state_ = failure(report.error());
  return accept(static_cast<int>(index), *report);
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
  for (int i = 0; i < children_; ++i)
    if (((entry->arrived | children_joined_) >> i & 1) == 0) hosts.push_back(child(i));
  return hosts;
}

// --- gathering ---

void Coordinator::check_complete(NameEntry& entry) {
  const bool here = entry.local || joined_;
  if (entry.stage != Stage::kGathering || !here || !entry.undecided()) return;
  if ((entry.arrived | children_joined_) != all_children_) return;
  entry.stage = Stage::kComplete;
  complete_.push_back(&entry);
}

void Coordinator::check_all_complete() {
  for (NameEntry* entry : table_.active()) check_complete(*entry);
}

std::vector<HostValue> Coordinator::values_of(const NameEntry& entry) const {
  std::vector<HostValue> values = entry.values;
  if (entry.local) add_value(values, own_value(entry, host_));
  for (std::uint32_t left = entry.arrived & ~entry.differing; left != 0; left &= left - 1) {
    const int host = child(std::countr_zero(left));
    add_value(values, {.signature = entry.signature, .host = static_cast<std::uint32_t>(host), .text = entry.text()});
  }
  const std::uint32_t joined = all_children_ & ~entry.arrived;
  const bool needed =
      std::any_of(values.begin(), values.end(), [](const HostValue& v) { return needs_all(v.signature); });
  if (needed && (joined != 0 || !entry.local))
    add_value(values, {.failed = true,
                       .host = static_cast<std::uint32_t>(entry.local ? child(std::countr_zero(joined)) : host_),
                       .text = "its ranks have joined, and this operation needs data from them"});
  return values;
}

void Coordinator::add_to(Report& report, NameEntry& entry) {
  entry.stage = Stage::kReported;
  // A host that has joined reports values, so that the sender of an id has always submitted the value that it stands
  // for.
  const bool lacks_data = needs_all(entry.signature) && entry.arrived != all_children_;
  if (entry.local && entry.as_agreed() && entry.differing == 0 && !lacks_data) return report.known.push_back(entry.id);
  report.others.push_back({key_of(entry), values_of(entry)});
}

std::optional<std::vector<std::byte>> Coordinator::take_report() {
  Report report{.epoch = epoch_, .applied = applied_, .known = {}, .others = {}, .joined = {}};
  for (NameEntry* entry : std::exchange(complete_, {})) add_to(report, *entry);
  std::sort(report.known.begin(), report.known.end());
  if (subtree_joined() && !std::exchange(join_reported_, true)) report.joined = last_rank_;
  if (report.known.empty() && report.others.empty() && !report.joined) return std::nullopt;
  return encode(report);
}

Status Coordinator::accept(int child_index, const Report& report) {
  if (report.epoch > epoch_) return fail("a report from an epoch that has not begun");
  // The sender reports again once it learns of this epoch.
  if (report.epoch < epoch_) return {};
  if (report.applied > applied_) return fail("a report about a decision that was not taken");
  const std::uint32_t bit = std::uint32_t{1} << child_index;
  for (const std::uint32_t id : report.known) {
    NameEntry* entry = table_.by_id(id);
    if (entry == nullptr || !entry->agreed) return fail("a report about an unknown id");
    // Decided without the sender, which had joined and calls it ready after all.
    if (entry->decided_at > report.applied) continue;
    XOE_TRY(arrive(*entry, bit));
  }
  for (const Report::Other& other : report.others) {
    NameEntry* entry = table_.resolve(other.key);
    if (entry == nullptr) return fail("a report about an unknown id");
    if (entry->decided_at > report.applied) continue;
    for (const HostValue& value : other.values) add_value(entry->values, value);
    entry->differing |= bit;
    XOE_TRY(arrive(*entry, bit));
  }
  if (report.joined) {
    children_joined_ |= bit;
    last_rank_ = *report.joined;
    check_all_complete();
  }
  return {};
}

Status Coordinator::arrive(NameEntry& entry, std::uint32_t child_bit) {
  if (entry.arrived & child_bit) return fail("a tensor reported twice");
  entry.arrived |= child_bit;
  table_.activate(entry);
  check_complete(entry);
  return {};
}

// --- deciding ---

bool Coordinator::has_ready() const { return is_root() && state_ && (!complete_.empty() || subtree_joined()); }

void Coordinator::flush(std::uint64_t knobs) {
  if (!has_ready()) return;
  DecisionRecord record{.sequence = applied_, .knobs = knobs, .known = {}, .named = {}, .errors = {}, .joined = {}};
  for (NameEntry* entry : std::exchange(complete_, {})) add_to(record, *entry);
  std::sort(record.known.begin(), record.known.end());
  if (subtree_joined()) record.joined = last_rank_;
  announce(record);
  evict_oldest();
}

void Coordinator::announce(const DownRecord& record) {
  append(down_, record);
  // The root announces only what it can apply; if it could not, state_ has the error.
  (void)std::visit([this](const auto& one) { return apply(one); }, record);
}

void Coordinator::add_to(DecisionRecord& record, NameEntry& entry) {
  std::vector<HostValue> values = values_of(entry);
  HostValue& first = values.front();
  if (values.size() > 1 || first.failed) {
    std::string text = fmt::format("'{}': ranks disagree: {}", entry.name(), describe(std::move(values)));
    text.resize(std::min(text.size(), kMaxErrorBytes));
    record.errors.push_back({key_of(entry), 0, std::move(text)});
  } else if (entry.agreed && entry.signature == first.signature) {
    record.known.push_back(entry.id);
  } else {
    record.named.push_back({key_of(entry), first.signature, std::move(first.text)});
  }
}

void Coordinator::raise_cache_capacity(std::size_t names) noexcept {
  options_.cache_capacity = std::max(options_.cache_capacity, names);
}

void Coordinator::evict_oldest() {
  const std::size_t capacity = options_.cache_capacity;
  if (!state_ || table_.known() <= capacity) return;
  // Several at a time, since an eviction makes hosts report everything undecided again.
  announce(EvictionRecord{.epoch = epoch_ + 1, .ids = table_.oldest(table_.known() - (capacity - capacity / 8))});
}

// --- applying ---

Status Coordinator::apply(const DecisionRecord& record) {
  if (record.sequence != applied_) return fail("a decision out of sequence");
  Decision decision{.sequence = applied_, .knobs = record.knobs, .tensors = {}, .joined = record.joined};
  decision.tensors.reserve(record.known.size() + record.named.size() + record.errors.size());
  for (const std::uint32_t id : record.known) XOE_TRY(decide(table_.by_id(id), {}, decision));
  for (const auto& named : record.named) XOE_TRY(apply_named(named, false, decision));
  for (const auto& named : record.errors) XOE_TRY(apply_named(named, true, decision));
  ++applied_;
  if (record.joined) {
    if (!is_root() && !join_reported_) return fail("a join before this host had joined");
    joined_ = join_reported_ = false;
    children_joined_ = 0;
  }
  decisions_.push_back(std::move(decision));
  return {};
}

Status Coordinator::apply_named(const DecisionRecord::Named& named, bool is_error, Decision& decision) {
  NameEntry* entry = table_.resolve(named.key);
  if (entry == nullptr) return fail("a decision about an unknown id");
  if (!named.key.id && entry->known()) return fail("a second id for " + entry->name());
  if (!entry->known()) table_.assign(*entry);
  if (is_error) return decide(entry, named.text, decision);
  entry->agreed = true;
  entry->signature = named.signature;
  entry->label = std::make_shared<const TensorLabel>(TensorLabel{entry->name(), named.text});
  return decide(entry, {}, decision);
}

Status Coordinator::decide(NameEntry* entry, std::string error, Decision& decision) {
  if (entry == nullptr) return fail("a decision about an unknown id");
  const bool reported = is_root() || entry->stage == Stage::kReported || join_reported_;
  if (!reported || (!entry->local && !joined_))
    return fail("a decision about " + entry->name() + ", which is not ready");
  if (entry->stage == Stage::kComplete) std::erase(complete_, entry);
  entry->decided_at = applied_ + 1;
  DecidedTensor& tensor = decision.tensors.emplace_back();
  tensor.label = entry->label;
  if (error.empty()) tensor.signature = entry->signature;
  tensor.error = std::move(error);
  table_.reset(*entry);
  return {};
}

Status Coordinator::apply(const EvictionRecord& record) {
  if (record.epoch != epoch_ + 1) return fail("an epoch out of sequence");
  for (const std::uint32_t id : record.ids) {
    NameEntry* entry = table_.by_id(id);
    if (entry == nullptr) return fail("an eviction of an unknown id");
    table_.evict(*entry);
  }
  epoch_ = record.epoch;
  complete_.clear();
  children_joined_ = 0;
  join_reported_ = false;
  for (NameEntry* entry : std::vector(table_.active())) {
    entry->arrived = entry->differing = 0;
    entry->values.clear();
    entry->stage = Stage::kGathering;
    if (!entry->local) table_.reset(*entry);
  }
  check_all_complete();
  return {};
}

}  // namespace xoe::engine
