// Where the warnings of a pipeline go.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace xoe::capi {

// While the pipeline opens, to the caller's function, which need not outlive that. Where there is such a function,
// later ones wait until they are taken. All others, and those that were not taken, go to standard error. One thread at
// a time.
class Warnings {
 public:
  explicit Warnings(std::function<void(std::string_view)> caller)
      : caller_(std::move(caller)), keeps_(caller_ != nullptr) {}
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  ~Warnings() {
    if (!lines_.empty()) print(lines_);
  }

  void add(std::string_view line) {
    if (caller_) return caller_(line);
    if (!keeps_) return print(std::string(line) + "\n");
    lines_.append(line).append("\n");
  }
  // The caller's function is not called from now on.
  void opened() { caller_ = nullptr; }
  // Each line with its end.
  std::string take() { return std::exchange(lines_, {}); }

 private:
  static void print(const std::string& lines) { std::fputs(("xoe: " + lines).c_str(), stderr); }

  std::function<void(std::string_view)> caller_;
  bool keeps_;
  std::string lines_;
};

}  // namespace xoe::capi
