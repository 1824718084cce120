#include "data/files/encoding.h"

#include <fmt/format.h>

#include <cstddef>
#include <vector>

#include "data/files/listing.h"

namespace xoe::data {
namespace {

// traits_of() takes the number of an encoding for the place of its row.
static_assert([] {
  for (std::size_t i = 0; i < kEncodings.size(); ++i)
    if (kEncodings[i].encoding != static_cast<Encoding>(i)) return false;
  return true;
}());

std::string list(const std::vector<std::string>& names, std::string_view word) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : fmt::format(" {} ", word);
    text += names[i];
  }
  return text;
}

template <class Found>
bool any_extension(const Found& found) {
  for (const EncodingTraits& one : kEncodings)
    for (const std::string_view extension : one.extensions)
      if (!extension.empty() && found(extension)) return true;
  return false;
}

}  // namespace

std::optional<Encoding> encoding_of(std::string_view bytes) noexcept {
  for (const EncodingTraits& one : kEncodings)
    if (bytes.starts_with(one.begin)) return one.encoding;
  return std::nullopt;
}

bool is_image_name(std::string_view name) noexcept {
  return any_extension([name](std::string_view known) { return has_extension(name, known); });
}

bool is_image_extension(std::string_view extension) noexcept {
  return any_extension([extension](std::string_view known) { return known.substr(1) == extension; });
}

std::string encoding_names(std::string_view word) {
  std::vector<std::string> names;
  for (const EncodingTraits& one : kEncodings) names.emplace_back(one.name);
  return list(names, word);
}

std::string encoding_extensions(std::string_view word) {
  std::vector<std::string> names;
  any_extension([&names](std::string_view known) {
    names.emplace_back(known);
    return false;
  });
  return list(names, word);
}

}  // namespace xoe::data
