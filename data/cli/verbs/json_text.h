// JSON that loses no byte of a name.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace xoe::tools {

// The JSON text of an object. Names of files and classes may be any bytes, strings of JSON are UTF-8: in a string that
// is none, each byte outside of a UTF-8 character becomes \xNN (two lower-case hexadecimal digits) and each backslash
// \\, and the object gets a member "escaped" that lists such strings as JSON Pointers (RFC 6901). An object whose
// strings are all UTF-8 has no such member, and its strings are as they are. `indent` as for dump(): -1 is one line.
std::string json_text(nlohmann::ordered_json object, int indent = -1);

// What json_text() makes of one string.
std::string escape_bytes(std::string_view text);

}  // namespace xoe::tools
