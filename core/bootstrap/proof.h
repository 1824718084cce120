// Mutual authentication of the two ends of a connection, without sending the job's secret.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "xoe/status.h"

namespace xoe::bootstrap {

inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kProofBytes = 32;

// Random bytes, so that no proof is valid twice.
std::string make_nonce();

enum class End : char { kServer = 'S', kClient = 'C' };

// HMAC-SHA-256 (RFC 2104), keyed with the secret, of the end and both nonces.
std::string make_proof(std::string_view secret, End end, std::string_view client_nonce, std::string_view server_nonce);

// A key that follows from the secret, and of which no other purpose's key follows. kProofBytes long.
std::string make_key(std::string_view secret, std::string_view purpose);

}  // namespace xoe::bootstrap
