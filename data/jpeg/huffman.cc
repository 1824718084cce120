#include "data/jpeg/huffman.h"

#include <algorithm>
#include <cstddef>

namespace xoe::data::jpeg {
namespace {

// One symbol with its value, as far as the known bits determine them.
struct Coefficient {
  int length = 0;  // of code and value; 0: unknown
  int advance = 0;
  int value = 0;
  int code_length = 0;  // 0: unknown
  int size = 0;
};

// JPEG's signed numbers: the first bit says whether it is positive.
int signed_value(unsigned bits, int size) {
  const int value = static_cast<int>(bits);
  return size > 0 && value < 1 << (size - 1) ? value - (1 << size) + 1 : value;
}

Coefficient coefficient(const LongCode& code, unsigned next, int bits) {
  const LongCode::Symbol symbol = code.find(next << (16 - kLookBits));
  Coefficient result;
  if (symbol.length == 0 || symbol.length > bits) return result;
  const int run = symbol.value >> 4;
  result.size = symbol.value & 15;
  result.code_length = symbol.length;
  result.advance = result.size == 0 && run != 15 ? kEndOfBlock : run + 1;
  const int length = symbol.length + result.size;
  if (length > bits) return result;
  result.length = length;
  const unsigned rest = (next >> (kLookBits - length)) & ((1U << result.size) - 1);
  result.value = signed_value(rest, result.size);
  return result;
}

std::uint64_t half(int value, int shift) { return std::uint64_t{static_cast<std::uint16_t>(value)} << shift; }

}  // namespace

bool LongCode::read(CodeBytes bytes) {
  if (bytes.size() < 16 || bytes.size() > 16 + 256) return false;
  count_ = static_cast<int>(bytes.size()) - 16;
  symbols_.fill(0);
  std::copy(bytes.begin() + 16, bytes.end(), symbols_.begin());
  std::uint32_t next = 0;
  std::uint32_t symbol = 0;
  for (std::size_t length = 1; length <= 16; ++length) {
    const std::uint32_t codes = static_cast<unsigned char>(bytes[length - 1]);
    offset_[length] = symbol - next;
    next += codes;
    symbol += codes;
    // The code of all ones stays free.
    if (codes > 0 && next >= 1U << length) return false;
    limit_[length] = next << (16 - length);
    next <<= 1;
  }
  return symbol == static_cast<std::uint32_t>(count_);
}

bool DcTable::build(CodeBytes bytes) {
  if (!code.read(bytes)) return false;
  if (std::any_of(code.symbols().begin(), code.symbols().end(), [](int size) { return size > 15; })) return false;
  for (unsigned next = 0; next < look.size(); ++next) {
    const LongCode::Symbol symbol = code.find(next << (16 - kDcLookBits));
    const int length = symbol.length + symbol.value;
    look[next] = 0;
    if (symbol.length == 0 || length > kDcLookBits) continue;
    const unsigned rest = (next >> (kDcLookBits - length)) & ((1U << symbol.value) - 1);
    look[next] = static_cast<std::uint32_t>(length) |
                 static_cast<std::uint32_t>(static_cast<std::uint16_t>(signed_value(rest, symbol.value))) << 16;
  }
  return true;
}

bool AcTable::build(CodeBytes bytes) {
  if (!code.read(bytes)) return false;
  constexpr unsigned kMask = (1U << kLookBits) - 1;
  std::vector<Coefficient> single(look.size());
  for (unsigned next = 0; next <= kMask; ++next) single[next] = coefficient(code, next, kLookBits);
  for (unsigned next = 0; next <= kMask; ++next) {
    const Coefficient& first = single[next];
    if (first.length == 0) {
      look[next] = static_cast<std::uint64_t>(first.advance) << 16 | static_cast<std::uint64_t>(first.size) << 24 |
                   static_cast<std::uint64_t>(first.code_length) << 28;
      skip[next] = 0;
      continue;
    }
    int length = first.length;
    int advance = first.advance;
    Coefficient second = first;
    // Unknown bits read as zeros; a coefficient that needs them is not taken.
    for (int taken = 1; advance < 32; ++taken) {
      const Coefficient& more = single[(next << length) & kMask];
      if (more.length == 0 || more.length > kLookBits - length) break;
      length += more.length;
      advance += more.advance;
      if (taken == 1) second = more;
    }
    skip[next] = static_cast<std::uint16_t>(length | advance << 8);
    const bool two = length > first.length;
    const int both = first.length + (two ? second.length : 0);
    look[next] = static_cast<std::uint64_t>(both) | half(first.advance + (two ? second.advance : 0), 8) |
                 half(first.advance, 16) | half(first.value, 32) | half(second.value, 48);
  }
  return true;
}

}  // namespace xoe::data::jpeg
