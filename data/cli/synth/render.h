// Renders images that a network can classify, and that cost a decoder as much as photographs.
#pragma once

#include <cstdint>
#include <string>

#include "data/image/image.h"

namespace xoe::data::synth {

inline constexpr int kMaxClasses = 1000;

// The features of a class. With up to 10 classes each of the three identifies it; beyond that only all of them
// together.
struct Kind {
  int shape = 0;
  int texture = 0;
  int digit = 0;
};
// REQUIRES: 0 <= label < kMaxClasses.
Kind kind_of(int label) noexcept;
std::string kind_name(int label);  // "star-bricks-3"

// The fine structure of an image, which accounts for most of a JPEG's bytes.
struct Film {
  double grain_min = 0.01;  // noise of each pixel, its strength drawn between these two; 1: from black to white
  double grain_max = 0.05;
  double detail = 0;  // brightness noise of all scales down to two pixels, power 1/f^2 as in photographs
};

// An image of the class: its shape with its texture and its digit, at a random position in random colours and light,
// among plain shapes, on a cloudy background, with grain. Depends only on the arguments.
void render(int label, int width, int height, std::uint64_t key, Image& image, Film film = {});

}  // namespace xoe::data::synth
