// "Did you mean ...?"
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace xoe {

// The candidate that `word` was probably meant to be: few letters differ, or `word` is its beginning. Empty: none.
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> candidates);

// "; did you mean WORD?", or `otherwise` where no candidate is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates,
                         std::string_view otherwise = {});

}  // namespace xoe
