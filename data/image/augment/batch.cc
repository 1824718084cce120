#include "data/image/augment/batch.h"

#include <algorithm>

namespace xoe::data {
namespace {

// Calls body(offset, length) for the runs of floats that make up a box, in the order of channels and rows.
template <class Body>
void each_run(const FloatImages& images, const PixelRect& box, const Body& body) {
  const auto width = static_cast<std::size_t>(images.width);
  const auto height = static_cast<std::size_t>(images.height);
  const auto channels = static_cast<std::size_t>(images.channels);
  const auto x = static_cast<std::size_t>(box.x);
  const auto run = static_cast<std::size_t>(box.width);
  const auto bottom = static_cast<std::size_t>(box.bottom());
  if (images.layout == Layout::kNhwc) {
    for (auto y = static_cast<std::size_t>(box.y); y < bottom; ++y) body((y * width + x) * channels, run * channels);
    return;
  }
  for (std::size_t c = 0; c < channels; ++c)
    for (auto y = static_cast<std::size_t>(box.y); y < bottom; ++y) body((c * height + y) * width + x, run);
}

// Calls body(item, item before) from the last item to the first; `last` keeps the original last item.
template <class Body>
void each_pair(float* data, std::size_t count, std::size_t size, std::vector<float>& last, const Body& body) {
  last.assign(data + (count - 1) * size, data + count * size);
  for (std::size_t i = count - 1; i > 0; --i) body(data + i * size, data + (i - 1) * size);
  body(data, last.data());
}

void mix(float* data, std::size_t count, std::size_t size, double share, std::vector<float>& scratch) {
  const auto own = static_cast<float>(share);
  const auto other = static_cast<float>(1 - share);
  each_pair(data, count, size, scratch, [&](float* item, const float* before) {
    for (std::size_t i = 0; i < size; ++i) item[i] = before[i] * other + item[i] * own;
  });
}

}  // namespace

void apply(const ErasingPlan& plan, const FloatImages& image) {
  Random random(plan.noise_key);
  each_run(image, plan.box, [&](std::size_t at, std::size_t length) {
    if (!plan.noise) {
      std::fill_n(image.data + at, length, plan.value);
      return;
    }
    for (std::size_t i = at; i < at + length; ++i) image.data[i] = static_cast<float>(draw_normal(random));
  });
}

void apply(const MixingPlan& plan, const FloatImages& images, const SoftLabels& labels, std::vector<float>& scratch) {
  const auto count = static_cast<std::size_t>(images.count);
  const auto classes = static_cast<std::size_t>(labels.classes);
  if (count == 0) return;
  if (const auto* mixup = std::get_if<MixupPlan>(&plan)) {
    mix(images.data, count, images.elements(), mixup->share, scratch);
    mix(labels.data, count, classes, mixup->share, scratch);
  } else if (const auto* cutmix = std::get_if<CutmixPlan>(&plan)) {
    each_pair(images.data, count, images.elements(), scratch, [&](float* image, const float* before) {
      each_run(images, cutmix->box,
               [&](std::size_t at, std::size_t length) { std::copy_n(before + at, length, image + at); });
    });
    mix(labels.data, count, classes, cutmix->share, scratch);
  }
}

}  // namespace xoe::data
