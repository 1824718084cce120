#include "core/engine/negotiate/name_table.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace xoe::engine {

NameEntry* NameTable::find(std::string_view name) {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

NameEntry& NameTable::obtain(std::string_view name) {
  if (NameEntry* found = find(name)) return *found;
  NameEntry& made = entries_[std::string(name)];
  made.label = std::make_shared<const TensorLabel>(TensorLabel{std::string(name), {}});
  return made;
}

NameEntry* NameTable::resolve(const NameKey& key) { return key.id ? by_id(*key.id) : &obtain(key.name); }

void NameTable::assign(NameEntry& entry) {
  if (free_.empty()) {
    entry.id = id_limit();
    ids_.push_back(&entry);
    return;
  }
  entry.id = free_.top();
  free_.pop();
  ids_[entry.id] = &entry;
}

void NameTable::evict(NameEntry& entry) {
  // A host that has it ready reports it by name next, and then needs the text, which the id stood for until now.
  if (entry.local && entry.as_agreed() && entry.own_text.empty()) entry.own_text = entry.text();
  ids_[entry.id] = nullptr;
  free_.push(entry.id);
  entry.id = NameEntry::kNone;
  entry.agreed = false;
  if (entry.active == NameEntry::kNone) return drop_if_idle(entry);
  entry.label = std::make_shared<const TensorLabel>(TensorLabel{entry.name(), {}});
}

std::vector<std::uint32_t> NameTable::oldest(std::size_t count) const {
  std::vector<const NameEntry*> all;
  std::copy_if(ids_.begin(), ids_.end(), std::back_inserter(all), [](const NameEntry* e) { return e != nullptr; });
  count = std::min(count, all.size());
  const auto older = [](const NameEntry* a, const NameEntry* b) {
    return std::pair(a->decided_at, a->id) < std::pair(b->decided_at, b->id);
  };
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(), older);
  std::vector<std::uint32_t> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(all[i]->id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

void NameTable::activate(NameEntry& entry) {
  if (entry.active != NameEntry::kNone) return;
  entry.active = static_cast<std::uint32_t>(active_.size());
  active_.push_back(&entry);
}

void NameTable::reset(NameEntry& entry) {
  entry.local = entry.failed = false;
  entry.stage = NameEntry::Stage::kGathering;
  entry.arrived = entry.differing = 0;
  entry.own_text.clear();
  entry.values.clear();
  entry.values.shrink_to_fit();
  if (entry.active != NameEntry::kNone) {
    active_.back()->active = entry.active;
    active_[entry.active] = active_.back();
    active_.pop_back();
    entry.active = NameEntry::kNone;
  }
  drop_if_idle(entry);
}

void NameTable::drop_if_idle(NameEntry& entry) {
  if (entry.known() || entry.active != NameEntry::kNone) return;
  entries_.erase(entries_.find(entry.name()));
}

HostValue own_value(const NameEntry& entry, int host) {
  return {.signature = entry.own_signature,
          .failed = entry.failed,
          .host = static_cast<std::uint32_t>(host),
          .text = entry.as_agreed() && entry.own_text.empty() ? entry.text() : entry.own_text};
}

void add_value(std::vector<HostValue>& values, HostValue value) {
  const auto same = [&](const HostValue& other) {
    return other.signature == value.signature && other.failed == value.failed &&
           (!value.failed || other.text == value.text);
  };
  const auto found = std::find_if(values.begin(), values.end(), same);
  if (found == values.end()) {
    if (values.size() < kMaxValues) values.push_back(std::move(value));
  } else if (value.host < found->host) {
    *found = std::move(value);
  }
}

std::string describe(std::vector<HostValue> values) {
  std::sort(values.begin(), values.end(), [](const HostValue& a, const HostValue& b) { return a.host < b.host; });
  std::string text;
  for (const HostValue& value : values)
    text += fmt::format("{}host {}: {}", text.empty() ? "" : "; ", value.host, value.text);
  if (values.size() == kMaxValues) text += "; and maybe more";
  return text;
}

}  // namespace xoe::engine
