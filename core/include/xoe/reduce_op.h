// The reductions: one row for each, which kernels, NCCL's plan, hosts, C and Python read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace xoe {

enum class ReduceOp : std::uint8_t {
  kSum,      // integers wrap modulo 2^bits
  kAverage,  // sum / size; integers truncate toward zero; not for bool
  kMin,
  kMax,
  kProduct,  // integers wrap
};

struct ReduceOpTraits {
  ReduceOp op;
  std::string_view name;                  // "sum"; a zero byte follows
  double (*combine)(double a, double b);  // of two exact numbers; an average divides by their number at the end
  double neutral;                         // combine(neutral, x) is x; infinities stand for the limits of the type
  bool linear;   // a factor of the inputs is one of the result: it can be scaled, compressed and differentiated
  bool selects;  // the result is one of the inputs, so that nothing is rounded
  std::optional<ReduceOp> of_bools;  // kMax for "or", kMin for "and"; none where it has no meaning
};

// In the order of the numbers, which C has too.
inline constexpr std::array kReduceOps = {
    ReduceOpTraits{.op = ReduceOp::kSum,
                   .name = "sum",
                   .combine = [](double a, double b) { return a + b; },
                   .neutral = 0,
                   .linear = true,
                   .selects = false,
                   .of_bools = ReduceOp::kMax},
    ReduceOpTraits{.op = ReduceOp::kAverage,
                   .name = "average",
                   .combine = [](double a, double b) { return a + b; },
                   .neutral = 0,
                   .linear = true,
                   .selects = false,
                   .of_bools = std::nullopt},
    ReduceOpTraits{.op = ReduceOp::kMin,
                   .name = "min",
                   .combine = [](double a, double b) { return a < b ? a : b; },
                   .neutral = std::numeric_limits<double>::infinity(),
                   .linear = false,
                   .selects = true,
                   .of_bools = ReduceOp::kMin},
    ReduceOpTraits{.op = ReduceOp::kMax,
                   .name = "max",
                   .combine = [](double a, double b) { return a > b ? a : b; },
                   .neutral = -std::numeric_limits<double>::infinity(),
                   .linear = false,
                   .selects = true,
                   .of_bools = ReduceOp::kMax},
    ReduceOpTraits{.op = ReduceOp::kProduct,
                   .name = "product",
                   .combine = [](double a, double b) { return a * b; },
                   .neutral = 1,
                   .linear = false,
                   .selects = false,
                   .of_bools = ReduceOp::kMin},
};
inline constexpr int kReduceOpCount = static_cast<int>(kReduceOps.size());

constexpr const ReduceOpTraits& traits_of(ReduceOp op) noexcept { return kReduceOps[static_cast<std::size_t>(op)]; }

// "sum"; "unknown" for a number that is no reduction.
constexpr std::string_view reduce_op_name(ReduceOp op) noexcept {
  return static_cast<std::size_t>(op) < kReduceOps.size() ? traits_of(op).name : "unknown";
}

static_assert([] {
  for (std::size_t i = 0; i < kReduceOps.size(); ++i)
    if (kReduceOps[i].op != static_cast<ReduceOp>(i)) return false;
  return true;
}());

}  // namespace xoe
