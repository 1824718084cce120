#include "core/bootstrap/proof.h"

#include <sodium.h>

#include <initializer_list>

namespace xoe::bootstrap {
namespace {

static_assert(kProofBytes == crypto_auth_hmacsha256_BYTES);

constexpr std::string_view kConnection = "xoe connection 1\n", kKey = "xoe key 1\n";

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

std::string hmac(std::string_view secret, std::initializer_list<std::string_view> parts) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes_of(secret), secret.size());
  for (const std::string_view part : parts) crypto_auth_hmacsha256_update(&state, bytes_of(part), part.size());
  std::string code(kProofBytes, '\0');
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(code.data()));
  return code;
}

}  // namespace

std::string make_nonce() {
  [[maybe_unused]] static const int ready = ::sodium_init();
  std::string nonce(kNonceBytes, '\0');
  ::randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string make_proof(std::string_view secret, End end, std::string_view client_nonce, std::string_view server_nonce) {
  const char role = static_cast<char>(end);
  return hmac(secret, {kConnection, std::string_view(&role, 1), client_nonce, server_nonce});
}

std::string make_key(std::string_view secret, std::string_view purpose) { return hmac(secret, {kKey, purpose}); }

}  // namespace xoe::bootstrap
