#include "pool/state/token.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "core/base/constant_time.h"
#include "core/base/error.h"

namespace xoe::pool {

std::string hash_of_token(std::string_view token) {
  std::array<unsigned char, 32> hash;
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(token.data()), token.size(),
                     nullptr, 0);
  return fmt::format("{:02x}", fmt::join(hash, ""));
}

std::string signature_of(std::string_view text, std::string_view secret) {
  const auto bytes = [](std::string_view of) { return reinterpret_cast<const unsigned char*>(of.data()); };
  crypto_auth_hmacsha256_state state;
  std::array<unsigned char, crypto_auth_hmacsha256_BYTES> sum;
  crypto_auth_hmacsha256_init(&state, bytes(secret), secret.size());
  crypto_auth_hmacsha256_update(&state, bytes(text), text.size());
  crypto_auth_hmacsha256_final(&state, sum.data());
  return fmt::format("{:02x}", fmt::join(sum, ""));
}

Status check_token(std::string_view token) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  if (token.size() >= 32 && token.size() <= 128 && std::ranges::all_of(token, allowed)) return {};
  return failure(Code::kInvalidArgument,
                 "token: 32 to 128 random letters and digits are needed, for example of `openssl rand -hex 16`");
}

const User* user_with_token(const State& state, std::string_view token) {
  const std::string hash = hash_of_token(token);
  for (const auto& [name, user] : state.users)
    if (equal_in_constant_time(user.token_hash, hash)) return &user;
  return nullptr;
}

}  // namespace xoe::pool
