#include "core/base/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "core/base/error.h"
#include "core/base/fd.h"

namespace xoe {

Result<std::string> read_text_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 16384> chunk;
  while (file.valid()) {
    const auto count = ::read(file.get(), chunk.data(), chunk.size());
    if (count == 0) return text;
    if (count > 0)
      text.append(chunk.data(), static_cast<std::size_t>(count));
    else if (errno != EINTR)
      break;
  }
  return failure(Code::kInvalidArgument, "cannot read it: {}", errno_text(errno));
}

}  // namespace xoe
