// UTF-8, of text that anybody may have written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace xoe {

// The bytes of the UTF-8 character at the start of `text`; 0: there is none.
std::size_t utf8_length(std::string_view text);
// The text as UTF-8 of one line: control characters and bytes that are no UTF-8 become U+FFFD.
std::string printable_utf8(std::string_view text);

// The beginning of the text, of at most `most` bytes, that cuts no UTF-8 character.
std::string_view shortened_utf8(std::string_view text, std::size_t most);

}  // namespace xoe
