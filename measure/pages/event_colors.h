// The colours of events, the same in pages and in pictures: those of Okabe and Ito, which colour-blind people can tell
// apart, and two more.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace xoe::pages {

inline constexpr std::array<std::string_view, 10> kEventColors = {
    "#56b4e9", "#e69f00", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#b08d57", "#9aa5b1", "#8fbf8f"};

// "forward" of "forward: conv1".
std::string_view first_word(std::string_view name) noexcept;

// Gives the place of an event's colour in kEventColors, by the first word of its name.
std::size_t event_color(std::string_view name) noexcept;

// Gives the colour of all events of a lane of this name, or of spans of this category; nullopt: each event has the
// colour of its own name.
std::optional<std::size_t> lane_color(std::string_view name, bool spans) noexcept;

}  // namespace xoe::pages
