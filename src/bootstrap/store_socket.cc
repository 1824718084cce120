#include "bootstrap/store_socket.h"

#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "base/error.h"

namespace xoe::bootstrap {

Result<SocketName> SocketName::make(std::string_view name) {
  SocketName made;
  constexpr std::size_t kMost = sizeof made.address_.sun_path - 1;
  if (name.empty() || name.size() > kMost)
    return failure(Code::kInvalidArgument, "store: socket name \"{}\" must have 1 to {} bytes", name, kMost);
  made.address_.sun_family = AF_UNIX;
  std::memcpy(made.address_.sun_path + 1, name.data(), name.size());  // the zero byte before makes it abstract
  made.size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return made;
}

bool peer_is_same_user(int socket) noexcept {
  ucred peer = {};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

}  // namespace xoe::bootstrap
