// tf.Example and tf.SequenceExample, the protocol-buffer messages that TFRecord files usually hold: maps from names to
// lists of bytes, floats or 64-bit integers. Read in place, and written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xoe/status.h"

namespace xoe::data {

enum class FeatureKind : std::uint8_t { kEmpty, kBytes, kFloats, kIntegers };
std::string_view feature_kind_name(FeatureKind kind) noexcept;  // "bytes"

// One named list of values, within the parsed message, which must stay.
class FeatureView {
 public:
  FeatureView() = default;

  std::string_view name() const noexcept { return name_; }
  FeatureKind kind() const noexcept { return kind_; }
  std::size_t size() const noexcept { return size_; }  // values

  // Its only value; nullopt when it has another kind or number of values.
  std::optional<std::string_view> only_bytes() const noexcept;
  std::optional<float> only_float() const noexcept;
  std::optional<std::int64_t> only_integer() const noexcept;

  // All values, appended; none where the kind is another.
  void append_to(std::vector<std::string_view>& values) const;
  void append_to(std::vector<float>& values) const;
  void append_to(std::vector<std::int64_t>& values) const;

 private:
  friend class FeatureParser;

  std::string_view name_;
  std::string_view value_;  // the Feature message
  FeatureKind kind_ = FeatureKind::kEmpty;
  std::size_t size_ = 0;
};

// Calls `visit` for each feature in the order of the message, without allocating. Of a name that comes twice the last
// one counts in protocol buffers; here both come. `data_loss`: it is no tf.Example; what came before was visited.
Status for_each_feature(std::string_view example, const std::function<void(const FeatureView&)>& visit);

// The features of an Example, or of one context. At most 1024.
class ExampleView {
 public:
  static Result<ExampleView> parse(std::string_view example);

  // Null when there is none of that name.
  const FeatureView* find(std::string_view name) const noexcept;
  std::span<const FeatureView> features() const noexcept { return features_; }

 private:
  friend class SequenceExampleView;

  Status keep(const FeatureView& feature);

  std::vector<FeatureView> features_;
};

// One list of features, as of the frames of a video; each has no name of its own.
struct FeatureListView {
  std::string_view name;
  std::vector<FeatureView> steps;
};

class SequenceExampleView {
 public:
  static Result<SequenceExampleView> parse(std::string_view example);

  const ExampleView& context() const noexcept { return context_; }
  const FeatureListView* find(std::string_view name) const noexcept;
  std::span<const FeatureListView> lists() const noexcept { return lists_; }

 private:
  ExampleView context_;
  std::vector<FeatureListView> lists_;
};

// Makes the features of a message; the same calls give the same bytes. Names must differ.
class FeaturesBuilder {
 public:
  FeaturesBuilder& add_bytes(std::string_view name, std::string_view value);
  FeaturesBuilder& add_bytes(std::string_view name, std::span<const std::string_view> values);
  FeaturesBuilder& add_floats(std::string_view name, std::span<const float> values);
  FeaturesBuilder& add_integer(std::string_view name, std::int64_t value);
  FeaturesBuilder& add_integers(std::string_view name, std::span<const std::int64_t> values);

  std::string to_example() const;  // tf.Example

 private:
  friend class SequenceExampleBuilder;

  std::string features_;  // tf.Features
};

class SequenceExampleBuilder {
 public:
  FeaturesBuilder& context() noexcept { return context_; }
  // Append a step to a list, which begins with its first one.
  SequenceExampleBuilder& add_bytes(std::string_view list, std::span<const std::string_view> values);
  SequenceExampleBuilder& add_floats(std::string_view list, std::span<const float> values);
  SequenceExampleBuilder& add_integers(std::string_view list, std::span<const std::int64_t> values);

  std::string to_example() const;  // tf.SequenceExample

 private:
  std::string& steps(std::string_view list);

  FeaturesBuilder context_;
  std::vector<std::pair<std::string, std::string>> lists_;  // name, and tf.FeatureList
};

}  // namespace xoe::data
