// The certificates that a system trusts.
#pragma once

#include <string>

#include "core/base/env.h"

namespace xoe::pool {

// The file that holds them where OpenSSL does not look: a wheel's OpenSSL looks where Debian keeps them, and other
// systems keep them elsewhere. Empty: OpenSSL finds them by itself, or the system has none. Tests give a `root` other
// than "".
std::string system_certificates(const Env& env, const std::string& root = {});

}  // namespace xoe::pool
