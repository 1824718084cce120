// Errors as values. Nothing in Xoe throws across its API, exits or prints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>  // the one header from outside: std::expected is C++23

namespace xoe {

// What the caller does next is what tells one code from another.
enum class Code : std::uint8_t {
  kInvalidArgument,    // fix the call
  kUnsupported,        // choose another way
  kTimeout,            // abort and re-form the group
  kPeerLost,           // abort and re-form the group
  kDataLoss,           // do not retry blindly: bytes are missing or corrupt
  kResourceExhausted,  // free something or ask for less
  kUnavailable,        // a file, host or program is not there; fix the environment
  kInternal,           // a bug in Xoe; please report it
};

// The snake_case name of a code, e.g. "peer_lost".
std::string_view code_name(Code code) noexcept;

// A failure: its code, and one line that says what, with whom and how far.
class Error {
 public:
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  Code code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  // "peer_lost: allreduce #17: rank 3 (pid 4410) ended"
  std::string to_string() const;

 private:
  Code code_;
  std::string message_;
};

// Either a value or an Error. `value()` on an error throws std::exception (programs that want to
// end there may use it); libraries test with `if (!result)` and forward `result.error()`.
template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

using Status = Result<void>;

// `return failure(Code::kTimeout, "...")` from any function that returns Result<T> or Status.
inline tl::unexpected<Error> failure(Error error) { return tl::unexpected<Error>(std::move(error)); }
inline tl::unexpected<Error> failure(Code code, std::string message) {
  return tl::unexpected<Error>(Error(code, std::move(message)));
}

}  // namespace xoe
