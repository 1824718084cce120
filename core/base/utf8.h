// UTF-8, of text that anybody may have written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace xoe {

// The bytes of the UTF-8 character at the start of `text`; 0: there is none.
std::size_t utf8_length(std::string_view text);
// The text as one line, with U+FFFD in place of control characters and of bytes that are no UTF-8. For data: it may
// have hidden characters.
std::string utf8_line(std::string_view text);

// Control characters, bytes that are no UTF-8, and characters of Unicode that turn the direction, break the line, or do
// not show by themselves (Default_Ignorable_Code_Point). Scripts and emoji need some of the last: U+200C, U+200D and
// U+FE00 to U+FE0F do not count after a character beyond ASCII.
bool has_hidden_characters(std::string_view text);
// The text as one line for people to read, with U+FFFD in their place.
std::string printable_utf8(std::string_view text);

// The beginning of the text, of at most `most` bytes, that cuts no UTF-8 character.
std::string_view shortened_utf8(std::string_view text, std::size_t most);

}  // namespace xoe
