// A snapshot of environment variables: read once, and replaceable in tests.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "xoe/status.h"

namespace xoe {

class Env {
 public:
  Env() = default;
  explicit Env(std::map<std::string, std::string, std::less<>> values) : values_(std::move(values)) {}
  // The variables of this process.
  static Env process();

  // nullopt for unset and for empty variables.
  std::optional<std::string> text(std::string_view name) const;
  // A whole number within [low, high], nullopt when unset, an error naming the variable when malformed.
  Result<std::optional<std::int64_t>> integer(std::string_view name, std::int64_t low, std::int64_t high) const;
  // Seconds with an optional fraction, > 0.
  Result<std::optional<double>> seconds(std::string_view name) const;
  bool has(std::string_view name) const { return text(name).has_value(); }
  const std::map<std::string, std::string, std::less<>>& all() const noexcept { return values_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace xoe
