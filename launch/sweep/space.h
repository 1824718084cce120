// What `xoe sweep` tries: the values of each parameter, and the trials that follow from them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xoe/status.h"

namespace xoe::launch {

// A parameter has values, or a range from which they are drawn.
struct Parameter {
  std::string name = {};
  std::vector<std::string> values = {};
  double low = 0;
  double high = 0;
  enum class Scale : std::uint8_t { kLinear, kLogarithmic, kWhole } scale = Scale::kLinear;

  bool is_range() const noexcept { return values.empty(); }
};

// "lr=0.1,0.05", "lr=1e-4..1e-1", "lr=log:1e-4..1e-1", "layers=int:2..8". `invalid_argument` says what was expected.
Result<Parameter> parse_parameter(std::string_view text);

// The value of each parameter, in the order of the parameters.
using Trial = std::vector<std::pair<std::string, std::string>>;

inline constexpr int kMostTrials = 100'000;

// Every combination of the values, the last parameter's varying fastest. `invalid_argument`: a parameter has a range,
// or there are too many.
Result<std::vector<Trial>> all_trials(const std::vector<Parameter>& parameters);
// So many trials, drawn independently; the same for the same seed. Of values alone no combination is drawn twice, so
// there may be fewer.
std::vector<Trial> drawn_trials(const std::vector<Parameter>& parameters, std::size_t count, std::uint64_t seed);

// "lr=0.1 layers=3"
std::string text_of(const Trial& trial);

}  // namespace xoe::launch
