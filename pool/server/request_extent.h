// What has to be known of a request of HTTP before it is there as a whole.
#pragma once

#include <cstddef>
#include <string_view>

namespace xoe::pool {

inline constexpr std::size_t kMaxHead = 32 << 10;  // bytes of a request line and its headers

struct RequestExtent {
  std::size_t head = 0;         // bytes, with the empty line; 0: it has not come yet
  std::size_t body = 0;         // bytes; 0 where the head does not tell, or what it tells is not understood
  bool is_report = false;       // an agent's
  bool wants_continue = false;  // its client waits for "100 Continue" before it sends the body
};

// `searched`: so many bytes were seen to have no end of the head. A head that is too long counts as complete: the
// one that serves the request judges whether it is one.
RequestExtent extent_of(std::string_view received, std::size_t searched = 0);

// The first header of this name, in any case; empty: there is none.
std::string_view header_of(std::string_view head, std::string_view name);

}  // namespace xoe::pool
