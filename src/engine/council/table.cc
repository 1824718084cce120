#include "engine/council/table.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace xoe::engine {

CouncilEntry& NameTable::obtain(std::string_view name) {
  if (CouncilEntry* found = find(name)) return *found;
  auto made = std::make_unique<CouncilEntry>();
  made->label = std::make_shared<const TensorLabel>(TensorLabel{std::string(name), {}});
  return entries_.add(std::move(made));
}

CouncilEntry* NameTable::resolve(const CouncilKey& key) { return key.id ? by_id(*key.id) : &obtain(key.name); }

void NameTable::assign(CouncilEntry& entry) {
  if (free_.empty()) {
    entry.id = id_limit();
    ids_.push_back(&entry);
    return;
  }
  entry.id = free_.top();
  free_.pop();
  ids_[entry.id] = &entry;
}

void NameTable::evict(CouncilEntry& entry) {
  // Whoever has it ready tells it by its name next, with the text that went without saying until now.
  if (entry.local && entry.as_agreed() && entry.own_text.empty()) entry.own_text = entry.text();
  ids_[entry.id] = nullptr;
  free_.push(entry.id);
  entry.id = CouncilEntry::kNone;
  entry.agreed = false;
  if (entry.active == CouncilEntry::kNone) return drop_if_idle(entry);
  entry.label = std::make_shared<const TensorLabel>(TensorLabel{entry.name(), {}});
}

std::vector<std::uint32_t> NameTable::oldest(std::size_t count) const {
  std::vector<const CouncilEntry*> all;
  std::copy_if(ids_.begin(), ids_.end(), std::back_inserter(all), [](const CouncilEntry* e) { return e != nullptr; });
  count = std::min(count, all.size());
  const auto older = [](const CouncilEntry* a, const CouncilEntry* b) {
    return std::pair(a->decided_at, a->id) < std::pair(b->decided_at, b->id);
  };
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(), older);
  std::vector<std::uint32_t> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(all[i]->id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

void NameTable::activate(CouncilEntry& entry) {
  if (entry.active != CouncilEntry::kNone) return;
  entry.active = static_cast<std::uint32_t>(active_.size());
  active_.push_back(&entry);
}

void NameTable::settle(CouncilEntry& entry) {
  entry.local = entry.failed = entry.counted = false;
  entry.stage = CouncilEntry::Stage::kGathering;
  entry.arrived = entry.differing = 0;
  entry.own_text.clear();
  entry.values.clear();
  entry.values.shrink_to_fit();
  if (entry.active != CouncilEntry::kNone) {
    active_.back()->active = entry.active;
    active_[entry.active] = active_.back();
    active_.pop_back();
    entry.active = CouncilEntry::kNone;
  }
  drop_if_idle(entry);
}

void NameTable::drop_if_idle(CouncilEntry& entry) {
  if (entry.known() || entry.active != CouncilEntry::kNone) return;
  const auto label = entry.label;
  entries_.remove(label->name);
}

CouncilValue own_value(const CouncilEntry& entry, int host) {
  return {.signature = entry.own_signature,
          .failed = entry.failed,
          .host = static_cast<std::uint32_t>(host),
          .text = entry.as_agreed() && entry.own_text.empty() ? entry.text() : entry.own_text};
}

void add_value(std::vector<CouncilValue>& values, CouncilValue value) {
  const auto same = [&](const CouncilValue& other) {
    return other.signature == value.signature && other.failed == value.failed &&
           (!value.failed || other.text == value.text);
  };
  const auto found = std::find_if(values.begin(), values.end(), same);
  if (found == values.end()) {
    if (values.size() < kMaxCouncilValues) values.push_back(std::move(value));
  } else if (value.host < found->host) {
    *found = std::move(value);
  }
}

std::string describe(std::vector<CouncilValue> values) {
  std::sort(values.begin(), values.end(), [](const CouncilValue& a, const CouncilValue& b) { return a.host < b.host; });
  std::string text;
  for (const CouncilValue& value : values)
    text += fmt::format("{}host {}: {}", text.empty() ? "" : "; ", value.host, value.text);
  if (values.size() == kMaxCouncilValues) text += "; and maybe more";
  return text;
}

}  // namespace xoe::engine
