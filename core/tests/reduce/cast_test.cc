// cast() and scale().
#include <gtest/gtest.h>

#include "core/reduce/reduce.h"
#include "core/tests/reduce/reference.h"

namespace xoe {
namespace {

using reference::Bfloat16;
using reference::Float16;
using reference::Float32;
using reference::Float64;

template <class From, class To>
void check_cast(const std::vector<From>& in) {
  std::vector<To> out(in.size());
  reduce::cast(in.data(), From::kDType, out.data(), To::kDType, in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    const To expected = To::narrow(From::widen(in[i]));
    ASSERT_TRUE(reference::same_value(expected, out[i]))
        << dtype_name(From::kDType) << " to " << dtype_name(To::kDType) << ", element " << i << ": "
        << From::widen(in[i]) << " became " << To::widen(out[i]) << ", not " << To::widen(expected);
  }
}

template <class From>
void check_casts(const std::vector<From>& in) {
  check_cast<From, Float16>(in);
  check_cast<From, Bfloat16>(in);
  check_cast<From, Float32>(in);
  check_cast<From, Float64>(in);
}

// Values at, just below and just above every halfway point between neighbours of a 16-bit format.
template <class F, class Half>
std::vector<F> halfway_points() {
  std::vector<F> result;
  for (unsigned bits = 0; bits < 0x7F80; bits += 7) {
    const Half low{static_cast<std::uint16_t>(bits)}, high{static_cast<std::uint16_t>(bits + 1)};
    const double middle = (static_cast<double>(Half::widen(low)) + static_cast<double>(Half::widen(high))) / 2;
    if (!std::isfinite(middle)) continue;
    for (const double sign : {1.0, -1.0}) {
      using T = decltype(F::widen(F{}));
      const T x = static_cast<T>(sign * middle);
      for (const T y : {x, std::nextafter(x, T{0}), std::nextafter(x, std::numeric_limits<T>::infinity())}) {
        result.push_back(F::narrow(y));
      }
    }
  }
  return result;
}

template <class Half>
std::vector<Half> every_value() {
  std::vector<Half> result;
  for (unsigned bits = 0; bits < 0x10000; ++bits) result.push_back({static_cast<std::uint16_t>(bits)});
  return result;
}

TEST(Cast, EveryValueOfSixteenBits) {
  reference::for_each_target([](const char* target) {
    SCOPED_TRACE(target);
    check_casts(every_value<Float16>());
    check_casts(every_value<Bfloat16>());
  });
}

TEST(Cast, RoundsToNearestEvenOnce) {
  reference::for_each_target([](const char* target) {
    SCOPED_TRACE(target);
    check_casts(halfway_points<Float32, Float16>());
    check_casts(halfway_points<Float32, Bfloat16>());
    check_casts(halfway_points<Float64, Float16>());
    check_casts(halfway_points<Float64, Bfloat16>());
  });
}

TEST(Cast, RandomAndSpecialValues) {
  reference::for_each_target([](const char* target) {
    SCOPED_TRACE(target);
    for (const std::size_t count : {0, 1, 7, 16, 100, 100003}) {
      check_casts(reference::numbers<Float32>(count, 1));
      check_casts(reference::numbers<Float64>(count, 2));
    }
  });
}

// A NaN whose payload lies in the digits that get lost must not become an infinity.
TEST(Cast, NanStaysNan) {
  const std::uint32_t bits[] = {0x7F800001, 0xFF800001, 0x7FFFFFFF, 0x7F801FFF};
  for (const DType to : {DType::kFloat16, DType::kBfloat16}) {
    std::uint16_t out[4];
    reduce::cast(bits, DType::kFloat32, out, to, 4);
    for (const std::uint16_t x : out) {
      EXPECT_TRUE(std::isnan(to == DType::kFloat16 ? Float16::widen({x}) : Bfloat16::widen({x})));
    }
  }
}

template <class F>
void check_scale(double factor) {
  for (const std::size_t count : {0, 1, 5, 33, 1000}) {
    const auto before = reference::numbers<F>(count, 3);
    auto after = before;
    reduce::scale(after.data(), count, F::kDType, factor);
    for (std::size_t i = 0; i < count; ++i) {
      const auto x = F::widen(before[i]);
      const F expected = F::narrow(x * static_cast<decltype(x)>(factor));
      ASSERT_TRUE(reference::same_value(expected, after[i])) << dtype_name(F::kDType) << ", element " << i;
    }
  }
}

TEST(Scale, EqualsTheReference) {
  reference::for_each_target([](const char* target) {
    SCOPED_TRACE(target);
    for (const double factor : {0.5, 1.0 / 3, -1024.0}) {
      check_scale<Float16>(factor);
      check_scale<Bfloat16>(factor);
      check_scale<Float32>(factor);
      check_scale<Float64>(factor);
    }
  });
}

}  // namespace
}  // namespace xoe
