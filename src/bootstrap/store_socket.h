// Unix sockets in the abstract name space, as the store's two ends use them.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string_view>

#include "xoe/status.h"

namespace xoe::bootstrap {

class SocketName {
 public:
  // `invalid_argument` when the name is empty or longer than a socket's may be.
  static Result<SocketName> make(std::string_view name);
  const sockaddr* address() const noexcept { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const noexcept { return size_; }

 private:
  sockaddr_un address_ = {};
  socklen_t size_ = 0;
};

// The process at the other end runs as this user.
bool peer_is_same_user(int socket) noexcept;

}  // namespace xoe::bootstrap
