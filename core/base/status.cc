#include "xoe/status.h"

namespace xoe {

std::string_view code_name(Code code) noexcept {
  switch (code) {
    case Code::kInvalidArgument: return "invalid_argument";
    case Code::kUnsupported: return "unsupported";
    case Code::kTimeout: return "timeout";
    case Code::kPeerLost: return "peer_lost";
    case Code::kDataLoss: return "data_loss";
    case Code::kResourceExhausted: return "resource_exhausted";
    case Code::kUnavailable: return "unavailable";
    case Code::kInternal: return "internal";
  }
  return "unknown";
}

std::string Error::to_string() const { return std::string(code_name(code_)) + ": " + message_; }

}  // namespace xoe
