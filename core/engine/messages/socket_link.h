// Bytes to a rank on another host, over a TCP connection that only one end writes to.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/fd.h"
#include "core/bootstrap/member_connection.h"
#include "core/engine/messages/byte_link.h"

namespace xoe::engine {

class SocketLink final : public ByteLink {
 public:
  // encrypt: both ends agree on it.
  SocketLink(bootstrap::MemberConnection connection, bool encrypt);

  std::size_t write(std::span<const std::byte> bytes) override;
  bool flushed() override;
  std::size_t read(std::span<std::byte> into) override;
  bool closed() const noexcept override { return closed_ && given_ == plain_.size(); }
  void look() override;
  std::string_view reason() const noexcept override { return reason_; }
  int descriptor() const noexcept override { return socket_.get(); }

 private:
  std::size_t receive(std::span<std::byte> into);
  bool open_records();

  Fd socket_;
  const bool encrypt_;
  bool closed_ = false;
  std::string reason_;
  bootstrap::Sealer sealer_;
  bootstrap::Opener opener_;
  std::string out_;        // sealed, not sent yet
  std::string plain_;      // opened
  std::size_t given_ = 0;  // of `plain_`
};

}  // namespace xoe::engine
