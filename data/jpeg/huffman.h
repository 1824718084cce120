// Huffman codes as look-up tables.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/jpeg/frame.h"

namespace xoe::data::jpeg {

inline constexpr int kLookBits = 11;     // of AC codes with their values
inline constexpr int kDcLookBits = 10;   // of DC codes with their values
inline constexpr int kEndOfBlock = 128;  // an advance that leaves the block from any coefficient

// A canonical code, for the symbols that the look-up tables do not hold.
class LongCode {
 public:
  struct Symbol {
    int length = 0;  // 0: no code starts like this
    int value = 0;
  };

  // False for bytes that libjpeg-turbo refuses.
  bool read(CodeBytes bytes);

  // `next`: the next 16 bits.
  Symbol find(unsigned next, int shortest = 1) const noexcept {
    for (int length = shortest; length <= 16; ++length) {
      const auto i = static_cast<std::size_t>(length);
      if (next < limit_[i]) return {length, symbols_[((next >> (16 - length)) + offset_[i]) & 255]};
    }
    return {};
  }
  const std::array<std::uint8_t, 256>& symbols() const noexcept { return symbols_; }
  int count() const noexcept { return count_; }

 private:
  std::array<std::uint32_t, 17> limit_ = {};  // the first 16 bits of what comes after the codes of a length
  std::array<std::uint32_t, 17> offset_ = {};
  std::array<std::uint8_t, 256> symbols_ = {};
  int count_ = 0;
};

struct DcTable {
  LongCode code;
  // Bits 0-7: length of code and value, 0 when they do not fit; 16-31: value.
  std::array<std::uint32_t, 1 << kDcLookBits> look;

  bool build(CodeBytes bytes);
};

struct AcTable {
  LongCode code;
  // One or two coefficients with all their bits. Bits 0-7: length of all; 8-15: advance over both; 16-23: advance to
  // the first; 32-47: first value; 48-63: second, or the first again. Where not even the first fits, length and advance
  // over both are 0; then 24-27: size of the value; 28-31: length of its code, or 0 when that does not fit either.
  std::array<std::uint64_t, 1 << kLookBits> look;
  // As many coefficients as fit, for skipping. Bits 0-7: length; 8-15: advance.
  std::array<std::uint16_t, 1 << kLookBits> skip;

  bool build(CodeBytes bytes);
};

// Keeps built tables, because most files share a few.
template <class Table>
class TableCache {
 public:
  // nullptr: the bytes are no code. A table stays valid until kKept others have been asked for.
  const Table* find(CodeBytes bytes) {
    for (Entry& entry : entries_)
      if (entry.bytes == bytes) {
        entry.used = ++clock_;
        return entry.table.get();
      }
    if (entries_.size() < kKept) entries_.push_back({{}, std::make_unique<Table>(), 0});
    Entry* oldest = &entries_.front();
    for (Entry& entry : entries_)
      if (entry.used < oldest->used) oldest = &entry;
    oldest->bytes.clear();
    if (!oldest->table->build(bytes)) return nullptr;
    oldest->bytes = bytes;
    oldest->used = ++clock_;
    return oldest->table.get();
  }

 private:
  static constexpr std::size_t kKept = 8;  // more than one image has
  struct Entry {
    std::string bytes;
    std::unique_ptr<Table> table;
    std::uint64_t used = 0;
  };
  std::vector<Entry> entries_;
  std::uint64_t clock_ = 0;
};

}  // namespace xoe::data::jpeg
