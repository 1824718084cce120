#include "bootstrap/proof.h"

#include <sodium.h>

namespace xoe::bootstrap {
namespace {

static_assert(kProofBytes == crypto_auth_hmacsha256_BYTES);

constexpr std::string_view kPurpose = "xoe connection 1\n";

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

}  // namespace

std::string make_nonce() {
  [[maybe_unused]] static const int ready = ::sodium_init();
  std::string nonce(kNonceBytes, '\0');
  ::randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string make_proof(std::string_view secret, End end, std::string_view client_nonce, std::string_view server_nonce) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes_of(secret), secret.size());
  const char role = static_cast<char>(end);
  for (const std::string_view part : {kPurpose, std::string_view(&role, 1), client_nonce, server_nonce})
    crypto_auth_hmacsha256_update(&state, bytes_of(part), part.size());
  std::string proof(kProofBytes, '\0');
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(proof.data()));
  return proof;
}

}  // namespace xoe::bootstrap
