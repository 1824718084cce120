// The plot of a training run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace xoe::train {

struct CurvePoint {
  std::int64_t step = 0;
  double value = 0;
};

struct Curve {
  std::string title;                 // "resnet18, 2 ranks x batch 32"
  std::vector<CurvePoint> loss;      // training loss, by step
  std::vector<CurvePoint> accuracy;  // on held-out images, 0 to 1; may be empty
};

// An SVG with loss (points and smoothed) and held-out accuracy over steps.
std::string curve_svg(const Curve& curve);

}  // namespace xoe::train
