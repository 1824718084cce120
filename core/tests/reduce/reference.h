// What core/reduce must compute, written the slow and obvious way: 16-bit floats through real-number arithmetic.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "hwy/targets.h"
#include "xoe/tensor.h"

namespace xoe::reference {

// Runs body once for each instruction set that this machine has.
template <class Body>
void for_each_target(const Body& body) {
  for (const std::int64_t all = hwy::SupportedTargets(); const std::int64_t target : {HWY_SCALAR, HWY_AVX2, HWY_AVX3}) {
    if ((all & target) == 0 && target != HWY_SCALAR) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// A binary format by its numbers.
struct Format {
  int digits;        // of the fraction
  int min_exponent;  // of the smallest normal number
  double largest;
};
inline constexpr Format kFloat16Format{10, -14, 65504.0};
inline constexpr Format kBfloat16Format{7, -126, 0x1.FEp127};

inline double decode(std::uint16_t bits, Format f) {
  const int exponent_bits = 15 - f.digits;
  const int exponent = (bits >> f.digits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << f.digits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    if (fraction != 0) return std::numeric_limits<double>::quiet_NaN();
    return sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, f.min_exponent - f.digits);
  return sign * std::ldexp((1 << f.digits) + fraction, exponent - 1 + f.min_exponent - f.digits);
}

// Round to nearest even. NaN gives one NaN; compare with same_value().
inline std::uint16_t encode(double x, Format f) {
  const int infinity = ((1 << (15 - f.digits)) - 1) << f.digits;
  const int sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return static_cast<std::uint16_t>(infinity | 1);
  if (std::isinf(x)) return static_cast<std::uint16_t>(sign | infinity);
  const int exponent = x == 0 ? f.min_exponent : std::max(std::ilogb(x), f.min_exponent);
  const double grid = std::ldexp(1.0, exponent - f.digits);
  const double units = std::nearbyint(std::fabs(x) / grid);
  if (units * grid > f.largest) return static_cast<std::uint16_t>(sign | infinity);
  // `units` of a normal number holds the leading one, which adds one to the exponent field.
  return static_cast<std::uint16_t>(sign | (((exponent - f.min_exponent) << f.digits) + static_cast<int>(units)));
}

struct Float16 {
  std::uint16_t bits;
  static constexpr DType kDType = DType::kFloat16;
  static float widen(Float16 x) { return static_cast<float>(decode(x.bits, kFloat16Format)); }
  static Float16 narrow(double x) { return {encode(x, kFloat16Format)}; }
};

struct Bfloat16 {
  std::uint16_t bits;
  static constexpr DType kDType = DType::kBfloat16;
  static float widen(Bfloat16 x) { return static_cast<float>(decode(x.bits, kBfloat16Format)); }
  static Bfloat16 narrow(double x) { return {encode(x, kBfloat16Format)}; }
};

struct Float32 {
  float value;
  static constexpr DType kDType = DType::kFloat32;
  static float widen(Float32 x) { return x.value; }
  static Float32 narrow(double x) { return {static_cast<float>(x)}; }
};

struct Float64 {
  double value;
  static constexpr DType kDType = DType::kFloat64;
  static double widen(Float64 x) { return x.value; }
  static Float64 narrow(double x) { return {x}; }
};

// Equal bits, or NaN both.
template <class F>
bool same_value(F a, F b) {
  if (std::isnan(F::widen(a)) || std::isnan(F::widen(b))) return std::isnan(F::widen(a)) && std::isnan(F::widen(b));
  return std::memcmp(&a, &b, sizeof(F)) == 0;
}

// Every kind of number: random bits, moderate values, and the special ones.
template <class F>
std::vector<F> numbers(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0.0, 4.0);
  const double kInf = std::numeric_limits<double>::infinity();
  const double special[] = {0.0,   -0.0,   kInf,     -kInf, std::nan(""), 1e-7,  -6e-8,
                            65504, -65504, 65519.99, 3e38,  1e-40,        -1e-45};
  std::vector<F> result(count);
  for (F& x : result) {
    const auto kind = random() % 8;
    const std::uint64_t bits = random();
    if (kind == 0) {
      std::memcpy(&x, &bits, sizeof(F));
    } else if (kind == 1) {
      x = F::narrow(special[bits % std::size(special)]);
    } else {
      x = F::narrow(normal(random));
    }
  }
  return result;
}

// A buffer of n elements that starts `offset` bytes past an aligned address.
template <class F>
class Shifted {
 public:
  Shifted(const std::vector<F>& from, std::size_t offset) : bytes_(from.size() * sizeof(F) + offset), offset_(offset) {
    if (!from.empty()) std::memcpy(bytes_.data() + offset_, from.data(), from.size() * sizeof(F));
  }
  void* data() { return bytes_.data() + offset_; }
  F operator[](std::size_t i) const {
    F x;
    std::memcpy(&x, bytes_.data() + offset_ + i * sizeof(F), sizeof(F));
    return x;
  }

 private:
  std::vector<unsigned char> bytes_;
  std::size_t offset_;
};

}  // namespace xoe::reference
