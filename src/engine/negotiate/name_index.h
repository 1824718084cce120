// A hash table of entries by name, with open addressing, so that a look-up touches few cache lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace xoe::engine {

// Owns its entries. An entry's name() must not change.
template <class Entry>
class NameIndex {
 public:
  Entry* find(std::string_view name) const {
    const std::size_t slot = slot_of(name, hash_of(name));
    return slots_.empty() ? nullptr : slots_[slot].entry.get();
  }

  // REQUIRES: no entry has this name.
  Entry& add(std::unique_ptr<Entry> entry) {
    if ((size_ + 1) * 4 > slots_.size() * 3) grow();
    const std::size_t hash = hash_of(entry->name());
    Slot& slot = slots_[slot_of(entry->name(), hash)];
    slot = {hash, std::move(entry)};
    ++size_;
    return *slot.entry;
  }

  // REQUIRES: an entry has this name.
  void remove(std::string_view name) {
    std::size_t hole = slot_of(name, hash_of(name));
    slots_[hole].entry.reset();
    --size_;
    // Entries that were displaced by a collision move towards their own slots.
    for (std::size_t at = next(hole); slots_[at].entry; at = next(at)) {
      const std::size_t home = slots_[at].hash & mask();
      if (((at - home) & mask()) < ((at - hole) & mask())) continue;
      slots_[hole] = std::move(slots_[at]);
      hole = at;
    }
  }

 private:
  struct Slot {
    std::size_t hash = 0;
    std::unique_ptr<Entry> entry;
  };

  static std::size_t hash_of(std::string_view name) { return std::hash<std::string_view>()(name); }
  std::size_t mask() const { return slots_.size() - 1; }
  std::size_t next(std::size_t at) const { return (at + 1) & mask(); }

  // The slot of the name, or the free slot where it would go.
  std::size_t slot_of(std::string_view name, std::size_t hash) const {
    if (slots_.empty()) return 0;
    std::size_t at = hash & mask();
    while (slots_[at].entry && (slots_[at].hash != hash || slots_[at].entry->name() != name)) at = next(at);
    return at;
  }

  void grow() {
    std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots_.empty() ? 16 : slots_.size() * 2));
    for (Slot& slot : old)
      if (slot.entry) slots_[slot_of(slot.entry->name(), slot.hash)] = std::move(slot);
  }

  std::vector<Slot> slots_;  // a power of two of them
  std::size_t size_ = 0;
};

}  // namespace xoe::engine
