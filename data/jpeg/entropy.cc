#include "data/jpeg/entropy.h"

#include <bit>
#include <cstring>

#include "data/jpeg/idct.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/jpeg/entropy.cc"
#include "hwy/foreach_target.h"  // before highway.h: compiles this file once per instruction set
#include "hwy/highway.h"

// There are no vectors here, but shifts by a variable are three times as fast with BMI2.
HWY_BEFORE_NAMESPACE();
namespace xoe::data::jpeg::HWY_NAMESPACE {
namespace {

// Offsets of coefficients in a block. Coefficients behind the block go to the DC's offset, which is written last.
constexpr std::array<std::uint8_t, 256> offsets() {
  std::array<std::uint8_t, 256> result = {};
  for (std::size_t k = 0; k < kNaturalOrder.size(); ++k)
    result[k] = static_cast<std::uint8_t>(offset_in_block(kNaturalOrder[k]));
  return result;
}
constexpr std::array<std::uint8_t, 256> kOffsets = offsets();

HWY_INLINE std::uint64_t load_big_endian(const std::uint8_t* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
  return word;
}

class Bits {
 public:
  Bits(const std::uint8_t* bytes, std::uint64_t bit) : bytes_(bytes) { seek(bit); }

  HWY_INLINE std::uint64_t position() const { return 8 * static_cast<std::uint64_t>(at_ - bytes_) - count_; }
  void seek(std::uint64_t bit) {
    at_ = bytes_ + bit / 8;
    bits_ = load_big_endian(at_) << (bit % 8);
    count_ = 56 - bit % 8;
    at_ += 7;
  }
  // Afterwards at least 56 bits are loaded. The bits behind the counted ones are valid, too, so or-ing them twice is
  // fine.
  HWY_INLINE void refill() {
    bits_ |= load_big_endian(at_) >> count_;
    at_ += (63 - count_) >> 3;
    count_ |= 56;
  }
  HWY_INLINE std::uint64_t peek(int n) const { return bits_ >> (64 - n); }
  // REQUIRES: n bits are loaded; n < 64.
  HWY_INLINE void drop(std::uint64_t n) {
    bits_ <<= n;
    count_ -= n;
  }
  // Drops as many bits as the lowest byte of a table's entry says. The shift uses the lowest six bits only, so it need
  // not wait for a mask.
  HWY_INLINE void drop_entry(std::uint64_t entry) {
    bits_ <<= entry & 63;
    count_ -= entry & 255;
  }
  // `size` bits as JPEG's signed number; 0 <= size <= 15.
  HWY_INLINE int take_signed(int size) {
    const auto negative = static_cast<std::uint64_t>(~static_cast<std::int64_t>(bits_) >> 63);
    const std::uint64_t magnitude = ((bits_ ^ negative) >> 1) >> (63 - size);
    drop(static_cast<std::uint64_t>(size));
    return static_cast<int>(static_cast<std::int64_t>((magnitude ^ negative) - negative));
  }

 private:
  std::uint64_t bits_ = 0;  // the next bit is the uppermost
  std::uint64_t count_ = 0;
  const std::uint8_t* bytes_;
  const std::uint8_t* at_ = nullptr;
};

constexpr std::size_t kNoCode = SIZE_MAX;

// The result of the rare paths. By value, because a reader whose address is taken would live in memory.
struct Step {
  Bits bits;
  std::size_t k;  // the last coefficient filled, or kNoCode
};

// The next symbol of an AC code, with a value of any length.
template <bool kStore>
HWY_NOINLINE Step slow_coefficient(Bits bits, const LongCode& code, std::size_t k, std::int16_t* block) {
  bits.refill();
  const LongCode::Symbol symbol = code.find(static_cast<unsigned>(bits.peek(16)));
  if (symbol.length == 0) return {bits, kNoCode};
  bits.drop(static_cast<std::uint64_t>(symbol.length));
  const auto run = static_cast<std::size_t>(symbol.value >> 4);
  const int size = symbol.value & 15;
  if (size == 0 && run != 15) return {bits, kEndOfBlock};
  k += run + 1;
  if (k > 63) return {bits, kNoCode};
  const int value = bits.take_signed(size);
  if constexpr (kStore) block[kOffsets[k]] = static_cast<std::int16_t>(value);
  return {bits, k};
}

// A look-up of `length` bits behind coefficient k crossed the block's end: into the next block, or the bits are
// damaged.
template <bool kStore>
HWY_NOINLINE Step look_again(Bits bits, const LongCode& code, std::uint64_t length, std::size_t k,
                             std::int16_t* block) {
  bits.seek(bits.position() - length);
  Step step{bits, k};
  while (step.k < 63) step = slow_coefficient<kStore>(step.bits, code, step.k, block);
  return step;
}

// A coefficient that is too long for a look-up, although most often its code is not.
template <bool kStore>
HWY_INLINE Step long_value(Bits bits, const AcTable& table, std::size_t k, std::int16_t* block) {
  const std::uint64_t entry = table.look[bits.peek(kLookBits)];
  const std::uint64_t code_length = (entry >> 28) & 15;
  if (code_length == 0) return slow_coefficient<kStore>(bits, table.code, k, block);
  bits.refill();
  bits.drop(code_length);
  const int value = bits.take_signed(static_cast<int>((entry >> 24) & 15));
  k += (entry >> 16) & 255;
  if constexpr (kStore) block[kOffsets[k]] = static_cast<std::int16_t>(value);
  return {bits, k};
}

// A block ends with its last coefficient, or with an end mark before it.
HWY_INLINE bool ends_well(std::size_t k) { return k == 63 || (k >= kEndOfBlock && k < kEndOfBlock + 63); }

// Look-ups between two refills, which load at least 56 bits: four, and one of the DC before them.
constexpr int kLooks = 4;
static_assert(kDcLookBits + kLooks * kLookBits <= 56);

HWY_INLINE bool skip_coefficients(Bits& bits, const AcTable& table) {
  std::size_t k = 0;
  for (;;) {
    for (int i = 0; i < kLooks; ++i) {
      const std::uint64_t entry = table.skip[bits.peek(kLookBits)];
      const std::size_t before = k;
      if (entry == 0) [[unlikely]] {
        const Step step = long_value<false>(bits, table, k, nullptr);
        bits = step.bits;
        k = step.k;
        if (k >= 63) return k == 63 || k == kEndOfBlock;
        break;
      }
      bits.drop_entry(entry);
      k += entry >> 8;
      if (k >= 63) {
        if (ends_well(k)) [[likely]]
          return true;
        const Step step = look_again<false>(bits, table.code, entry & 63, before, nullptr);
        bits = step.bits;
        return step.k != kNoCode;
      }
    }
    bits.refill();
  }
}

HWY_INLINE bool read_coefficients(Bits& bits, const AcTable& table, std::int16_t* block) {
  std::size_t k = 0;
  for (;;) {
    for (int i = 0; i < kLooks; ++i) {
      const std::uint64_t entry = table.look[bits.peek(kLookBits)];
      const std::size_t before = k;
      if ((entry & 63) == 0) [[unlikely]] {
        const Step step = long_value<true>(bits, table, k, block);
        bits = step.bits;
        k = step.k;
        if (k >= 63) return k == 63 || k == kEndOfBlock;
        break;
      }
      bits.drop_entry(entry);
      const std::size_t first = k + ((entry >> 16) & 255);
      k += (entry >> 8) & 255;
      block[kOffsets[first]] = static_cast<std::int16_t>(entry >> 32);
      block[kOffsets[k]] = static_cast<std::int16_t>(entry >> 48);
      if (k >= 63) {
        if (ends_well(k)) [[likely]]
          return true;
        const Step step = look_again<true>(bits, table.code, entry & 63, before, block);
        bits = step.bits;
        return step.k != kNoCode;
      }
    }
    bits.refill();
  }
}

HWY_INLINE bool read_dc(Bits& bits, const DcTable& table, std::int32_t& difference) {
  const std::uint32_t entry = table.look[bits.peek(kDcLookBits)];
  if ((entry & 63) != 0) [[likely]] {
    bits.drop_entry(entry);
    difference = static_cast<std::int16_t>(entry >> 16);
    return true;
  }
  const LongCode::Symbol symbol = table.code.find(static_cast<unsigned>(bits.peek(16)));
  if (symbol.length == 0) return false;
  bits.drop(static_cast<std::uint64_t>(symbol.length));
  difference = bits.take_signed(symbol.value);
  bits.refill();
  return true;
}

template <bool kStore>
bool decode(const std::uint8_t* bytes, std::uint64_t end_bit, const McuPlan& plan, std::size_t first_mcu,
            std::size_t mcus, EntropyState& state) {
  Bits bits(bytes, state.bit);
  std::array<std::int32_t, 3> dc = state.dc;
  for (std::size_t mcu = first_mcu; mcu < first_mcu + mcus; ++mcu) {
    for (std::size_t b = 0; b < plan.blocks; ++b) {
      const McuPlan::Block& block = plan.block[b];
      bits.refill();
      std::int32_t difference;
      if (!read_dc(bits, *block.dc, difference)) return false;
      const std::int32_t sum = dc[block.component] + difference;
      // Encoders stay within 1024; beyond 8192 each of libjpeg-turbo's kernels overflows in its own way.
      const std::int32_t value = sum * block.dc_step;
      if (value < -8192 || value > 8191) return false;
      dc[block.component] = sum;
      if constexpr (kStore) {
        std::int16_t* coefficients = block.coefficients + block_start(block.first + mcu * block.step);
        if (!read_coefficients(bits, *block.ac, coefficients)) return false;
        coefficients[0] = static_cast<std::int16_t>(sum);
      } else {
        if (!skip_coefficients(bits, *block.ac)) return false;
      }
    }
    if (bits.position() > end_bit) return false;
  }
  state = {bits.position(), dc};
  return true;
}

}  // namespace

bool decode_mcus(const std::uint8_t* bytes, std::uint64_t end_bit, const McuPlan& plan, std::ptrdiff_t first_mcu,
                 std::size_t mcus, EntropyState& state) {
  if (first_mcu < 0) return decode<false>(bytes, end_bit, plan, 0, mcus, state);
  return decode<true>(bytes, end_bit, plan, static_cast<std::size_t>(first_mcu), mcus, state);
}

}  // namespace xoe::data::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace xoe::data::jpeg {

HWY_EXPORT(decode_mcus);

bool decode_mcus(const std::uint8_t* bytes, std::uint64_t end_bit, const McuPlan& plan, std::ptrdiff_t first_mcu,
                 std::size_t mcus, EntropyState& state) {
  return HWY_DYNAMIC_DISPATCH(decode_mcus)(bytes, end_bit, plan, first_mcu, mcus, state);
}

}  // namespace xoe::data::jpeg
#endif
