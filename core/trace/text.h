// Writes numbers and names into a trace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace xoe::trace {

// Much faster than a format string, which matters where every event of a step is written.
void append_number(std::string& out, std::uint64_t number);
// As the inside of a JSON string. Bytes that are no UTF-8 become '?': viewers refuse files with such bytes.
void append_json_text(std::string& out, std::string_view text);
// Nanoseconds as microseconds, exactly: "1234.567".
void append_us(std::string& out, std::int64_t ns);
// The same into memory with room for 25 characters; returns the end.
char* put_us(char* to, std::int64_t ns) noexcept;
// At most `limit` bytes, cut between two characters, with "..." at the cut.
std::string shortened_text(std::string_view text, std::size_t limit);

}  // namespace xoe::trace
