#include "core/engine/messages/socket_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace xoe::engine {

SocketLink::SocketLink(bootstrap::MemberConnection connection, bool encrypt)
    : socket_(std::move(connection.socket)),
      encrypt_(encrypt),
      sealer_(std::move(connection.keys.send)),
      opener_(std::move(connection.keys.receive)) {}

std::size_t SocketLink::write(std::span<const std::byte> bytes) {
  if (closed_ || bytes.empty()) return 0;
  if (encrypt_) {
    if (!flushed()) return 0;
    const std::size_t count = std::min(bytes.size(), bootstrap::kMaxRecord);
    sealer_.seal({reinterpret_cast<const char*>(bytes.data()), count}, out_);
    flushed();
    return count;
  }
  for (;;) {
    const auto count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EINTR) continue;
    closed_ = errno != EAGAIN;
    return 0;
  }
}

bool SocketLink::flushed() {
  std::size_t sent = 0;
  while (sent < out_.size() && !closed_) {
    const auto count = ::send(socket_.get(), out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      closed_ = errno != EAGAIN;
      break;
    }
  }
  out_.erase(0, sent);
  return out_.empty();
}

std::size_t SocketLink::receive(std::span<std::byte> into) {
  while (!closed_) {
    const auto count = ::recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
    if (count > 0) return static_cast<std::size_t>(count);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return 0;
    closed_ = true;
  }
  return 0;
}

// Appends to `plain_` what has arrived. False: nothing has.
bool SocketLink::open_records() {
  std::array<std::byte, 65536> bytes;
  const std::size_t count = receive(bytes);
  if (count == 0) return false;
  plain_.erase(0, given_);
  given_ = 0;
  // What the other end has not sealed ends the connection.
  if (const Status opened = opener_.open({reinterpret_cast<const char*>(bytes.data()), count}, plain_); !opened) {
    closed_ = true;
    reason_ = opened.error().message();
  }
  return true;
}

void SocketLink::look() {
  char byte = 0;
  // The other end of such a link sends nothing.
  if (::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EINTR))
    closed_ = true;
}

std::size_t SocketLink::read(std::span<std::byte> into) {
  if (into.empty()) return 0;
  if (!encrypt_) return receive(into);
  while (given_ == plain_.size() && open_records()) {
  }
  const std::size_t count = std::min(into.size(), plain_.size() - given_);
  std::memcpy(into.data(), plain_.data() + given_, count);
  given_ += count;
  return count;
}

}  // namespace xoe::engine
