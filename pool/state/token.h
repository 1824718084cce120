// Tokens: random words that prove who asks. The pool keeps only their hashes.
#pragma once

#include <string>
#include <string_view>

#include "pool/model/state.h"
#include "xoe/status.h"

namespace xoe::pool {

// BLAKE2b-256 in hexadecimal digits. Tokens are random, so neither salt nor a slow hash is needed.
std::string hash_of_token(std::string_view token);

// `invalid_argument` for a lease's token, which its client chooses, that others could guess: 32 to 128 characters of
// letters, digits, "-" and "_".
Status check_token(std::string_view token);

// HMAC-SHA256 of a text, in hexadecimal digits.
std::string signature_of(std::string_view text, std::string_view secret);

// nullptr: no user has it.
const User* user_with_token(const State& state, std::string_view token);

}  // namespace xoe::pool
