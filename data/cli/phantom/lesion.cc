#include "data/cli/phantom/lesion.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace xoe::data::synth {
namespace {

// From 0.70 to 0.95 in equal steps, in about the order in which CheXNet finds them hard.
constexpr double step(int number) { return 0.70 + 0.25 * number / 13; }

// Counts: X. Wang et al., ChestX-ray8, CVPR 2017, as released: 112,120 images.
constexpr std::array<LesionKind, 14> kKinds = {{
    {"Atelectasis", 11559, step(6), Form::kBand, 0, 1},
    {"Cardiomegaly", 2776, step(12), Form::kDisc, 0, 2},
    {"Effusion", 13317, step(8), Form::kBand, 1, 0},
    {"Infiltration", 19894, step(0), Form::kDisc, 1, 1},
    {"Mass", 5782, step(7), Form::kDisc, 1, 2},
    {"Nodule", 6331, step(2), Form::kDisc, 1, 3},
    {"Pneumonia", 1431, step(1), Form::kDisc, 2, 0},
    {"Pneumothorax", 5302, step(10), Form::kColumn, 2, 1},
    {"Consolidation", 4667, step(3), Form::kDisc, 2, 2},
    {"Edema", 2303, step(9), Form::kColumn, 2, 3},
    {"Emphysema", 2516, step(13), Form::kColumn, 3, 0},
    {"Fibrosis", 1686, step(5), Form::kColumn, 3, 1},
    {"Pleural_Thickening", 3385, step(4), Form::kBand, 3, 2},
    {"Hernia", 227, step(11), Form::kDisc, 3, 3},
}};

// Of a point with coordinates from -1 to 1; edges are a pixel wide, and a box has `side` pixels.
double level(Form form, double x, double y, int side) {
  const auto inside = [side](double distance) { return std::clamp(distance * side / 2 + 0.5, 0.0, 1.0); };
  switch (form) {
    case Form::kBand: return inside(0.4 - std::abs(y));
    case Form::kColumn: return inside(0.4 - std::abs(x));
    case Form::kDisc: break;
  }
  return inside(0.8 - std::hypot(x, y));
}

}  // namespace

std::string_view form_name(Form form) noexcept {
  switch (form) {
    case Form::kBand: return "band";
    case Form::kColumn: return "column";
    case Form::kDisc: break;
  }
  return "disc";
}

double LesionKind::prevalence() const noexcept { return static_cast<double>(published) / kPublishedImages; }

const std::array<LesionKind, 14>& lesion_kinds() noexcept { return kKinds; }

void add_lesion(const LesionKind& kind, int place, double contrast, std::vector<double>& image, int size) {
  const int region = size / kRegions;
  const int side = region / 2;
  const int grid =
      region /
      (2 * kPlaces);  // places lie so far apart; below the last one there is room, where whitening smears the form
  const int top = kind.row * region + place / kPlaces * grid;
  const int left = kind.column * region + place % kPlaces * grid;
  const auto at = [side](int i) { return (2 * i + 1.0) / side - 1; };
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x)
      image[static_cast<std::size_t>(top + y) * static_cast<std::size_t>(size) + static_cast<std::size_t>(left + x)] +=
          contrast * level(kind.form, at(x), at(y), side);
}

}  // namespace xoe::data::synth
