#include "core/base/random_token.h"

#include <sys/random.h>

#include <array>
#include <cstdint>

#include "core/base/error.h"

namespace xoe {

Result<std::string> random_token() {
  std::array<std::uint64_t, 2> words{};
  // Requests of up to 256 bytes are neither cut short nor interrupted by signals.
  if (::getrandom(words.data(), sizeof words, 0) != static_cast<ssize_t>(sizeof words))
    return failure(Code::kInternal, "getrandom: {}", errno_text(errno));
  return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

}  // namespace xoe
