// Renders pictures that a network can tell apart, and that cost a decoder what photographs do.
#pragma once

#include <cstdint>
#include <string>

#include "data/image/image.h"

namespace xoe::data::synth {

inline constexpr int kMaxClasses = 1000;

// What distinguishes a class: with up to 10 classes each of the three alone; beyond that only their combination.
struct Kind {
  int shape = 0;
  int texture = 0;
  int digit = 0;
};
// REQUIRES: 0 <= label < kMaxClasses.
Kind kind_of(int label) noexcept;
std::string kind_name(int label);  // "star-bricks-3"

// The fine structure of a picture, which is most of a JPEG's bytes.
struct Film {
  double grain_min = 0.01;  // independent from pixel to pixel, drawn between these two; 1 would be black to white
  double grain_max = 0.05;
  double detail = 0;  // brightness noise of all scales down to two pixels, power 1/f^2 as in photographs
};

// A picture of the class: its shape with its texture and its digit, in random colours, place and light, among plain
// shapes, before a cloudy background, with grain. Depends on the arguments alone.
void render(int label, int width, int height, std::uint64_t key, Image& image, Film film = {});

}  // namespace xoe::data::synth
