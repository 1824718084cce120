// What two ends that know the same secret send each other, so that others can neither read nor change it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/bytes.h"
#include "core/bootstrap/proof.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// The keys of one end of a connection, for each direction.
struct SessionKeys {
  std::string send, receive;  // kProofBytes long
};

// They follow from the secret and the greeting. Both ends put a fresh nonce into it, so no two connections have a key
// in common.
SessionKeys session_keys(std::string_view secret, End self, std::string_view client_said, std::string_view server_said);

// A record: the 32-bit length of the rest, then ChaCha20-Poly1305 (RFC 8439) of at most kMaxRecord bytes, the length
// being authenticated, too. Records are counted, and the count is the nonce: one that is repeated, left out, or out of
// order does not open.
inline constexpr std::size_t kMaxRecord = std::size_t{64} << 10;

class Sealer {
 public:
  explicit Sealer(std::string key) : key_(std::move(key)) {}
  // Appends the records that carry `plain` to `out`.
  void seal(std::string_view plain, std::string& out);

 private:
  std::string key_;
  std::uint64_t records_ = 0;
};

class Opener {
 public:
  explicit Opener(std::string key) : key_(std::move(key)) {}
  // Appends to `plain` what the whole records among all that has arrived carry. `data_loss`: this is not what the other
  // end sealed; the connection is of no use any more.
  Status open(std::string_view arrived, std::string& plain);

 private:
  std::string key_;
  std::uint64_t records_ = 0;
  FrameBuffer buffer_;
};

}  // namespace xoe::bootstrap
