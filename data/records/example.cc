#include "data/records/example.h"

#include "core/base/error.h"

namespace xoe::data {
namespace {

// One reference captures all of it, so that std::function does not allocate.
struct ImageSearch {
  const ImageKeys& keys;
  FeatureView encoded;
  FeatureView labels;
  bool has_encoded = false;
  bool has_labels = false;

  void see(const FeatureView& feature) {
    if (feature.name() == keys.encoded) {
      encoded = feature;
      has_encoded = true;
    }
    if (feature.name() == keys.label) {
      labels = feature;
      has_labels = true;
    }
  }
};

// The feature is there, and holds something else.
tl::unexpected<Error> other_feature(const FeatureView& feature, std::string_view key, std::string_view wanted) {
  return failure(Code::kDataLoss, "{} holds {} values of the kind {}, not {}", key, feature.size(),
                 feature_kind_name(feature.kind()), wanted);
}

// Which features there are instead, since most often another program has named them.
tl::unexpected<Error> no_feature(std::string_view example, std::string_view key) {
  constexpr std::size_t kMostNames = 20;
  std::string names;
  std::size_t features = 0;
  const Status seen = for_each_feature(example, [&](const FeatureView& feature) {
    if (++features <= kMostNames) names += fmt::format("{}{:.60}", features > 1 ? ", " : "", feature.name());
  });
  return failure(Code::kDataLoss,
                 "no {} among {} features{}{}; image_key and label_key (--image-key, --label-key) "
                 "tell their names",
                 key, features, seen && features > 0 ? ": " : "", names);
}

}  // namespace

Result<ImageExample> parse_image_labels(std::string_view example, const ImageKeys& keys) {
  ImageSearch search{keys, {}, {}};
  XOE_TRY(for_each_feature(example, [&search](const FeatureView& feature) { search.see(feature); }));
  const auto encoded = search.encoded.only_bytes();
  if (!search.has_encoded) return no_feature(example, keys.encoded);
  if (!encoded) return other_feature(search.encoded, keys.encoded, "the bytes of one image");
  if (!search.has_labels) return no_feature(example, keys.label);
  if (search.labels.kind() != FeatureKind::kIntegers && search.labels.size() > 0)
    return other_feature(search.labels, keys.label, "whole numbers (int64)");
  return ImageExample{*encoded, search.labels.only_integer().value_or(0), search.labels};
}

Result<ImageExample> parse_image_example(std::string_view example, const ImageKeys& keys) {
  XOE_ASSIGN(const ImageExample image, parse_image_labels(example, keys));
  if (image.labels.size() != 1)
    return failure(Code::kDataLoss, "no single {}, but {} values", keys.label, image.labels.size());
  return image;
}

std::string make_image_example(const ImageFields& fields) {
  FeaturesBuilder features;
  features.add_integer("image/height", fields.height)
      .add_integer("image/width", fields.width)
      .add_integer("image/channels", fields.channels)
      .add_bytes("image/colorspace", fields.channels == 1 ? "Gray" : "RGB")
      .add_integer("image/class/label", fields.label)
      .add_bytes("image/class/text", fields.text)
      .add_bytes("image/format", "JPEG")
      .add_bytes("image/filename", fields.filename)
      .add_bytes("image/encoded", fields.encoded);
  return features.to_example();
}

}  // namespace xoe::data
