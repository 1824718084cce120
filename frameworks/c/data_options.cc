// Options of the input pipeline by name: one line of a table for each.
#include "frameworks/c/data_options.h"

#include <array>
#include <charconv>
#include <concepts>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/describe/field.h"
#include "frameworks/c/structs.h"

namespace xoe::capi {
namespace {

// ---- Text forms: how values of a type are parsed and printed, and what they may be

template <class T>
struct Form;

template <>
struct Form<std::string> {
  static std::optional<std::string> read(std::string_view text) { return std::string(text); }
  static std::string write(const std::string& value) { return value; }
  static std::string choices() { return "any text"; }
};

template <std::integral T>
struct Form<T> {
  static std::optional<T> read(std::string_view text) {
    T value{};
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
    return value;
  }
  static std::string write(T value) { return std::to_string(value); }
  static std::string choices() {
    return fmt::format("a whole number from {} to {}", std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  }
};

template <>
struct Form<bool> {
  static std::optional<bool> read(std::string_view text) {
    if (text == "1" || text == "true") return true;
    if (text == "0" || text == "false") return false;
    return std::nullopt;
  }
  static std::string write(bool value) { return value ? "1" : "0"; }
  static std::string choices() { return "0, 1, false or true"; }
};

template <>
struct Form<double> {
  static std::optional<double> read(std::string_view text) { return parse_number(text); }
  static std::string write(double value) { return fmt::format("{}", value); }
  static std::string choices() { return "a number"; }
};

template <>
struct Form<data::ImageSize> {
  static std::optional<data::ImageSize> read(std::string_view text) { return data::parse_image_size(text); }
  static std::string write(data::ImageSize value) { return data::to_text(value); }
  static std::string choices() { return "pixels of a side, or HEIGHTxWIDTH"; }
};

// `count` numbers, separated by commas.
std::optional<std::vector<double>> numbers_of(std::string_view text, std::size_t count) {
  std::vector<double> numbers;
  for (const std::string& part : split_text(text, ',')) {
    const auto number = parse_number(part);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers.size() == count ? std::optional(std::move(numbers)) : std::nullopt;
}

// Values of several numbers, separated by commas.
template <>
struct Form<std::array<float, 3>> {
  static std::optional<std::array<float, 3>> read(std::string_view text) {
    const auto numbers = numbers_of(text, 3);
    if (!numbers) return std::nullopt;
    const auto at = [&numbers](std::size_t i) { return static_cast<float>((*numbers)[i]); };
    return std::array{at(0), at(1), at(2)};
  }
  static std::string write(const std::array<float, 3>& value) {
    return fmt::format("{},{},{}", value[0], value[1], value[2]);
  }
  static std::string choices() { return "three numbers, separated by commas"; }
};
template <>
struct Form<data::ColourJitter> {
  static std::optional<data::ColourJitter> read(std::string_view text) {
    const auto numbers = numbers_of(text, 4);
    if (!numbers) return std::nullopt;
    const auto& n = *numbers;
    return data::ColourJitter{.brightness = n[0], .contrast = n[1], .saturation = n[2], .hue = n[3]};
  }
  static std::string write(const data::ColourJitter& value) {
    return fmt::format("{},{},{},{}", value.brightness, value.contrast, value.saturation, value.hue);
  }
  static std::string choices() { return "BRIGHTNESS,CONTRAST,SATURATION,HUE"; }
};
template <>
struct Form<data::RandAugment> {
  static std::optional<data::RandAugment> read(std::string_view text) {
    const auto parts = split_text(text, ',');
    if (parts.size() != 3) return std::nullopt;
    const auto operations = Form<int>::read(parts[0]);
    const auto magnitude = Form<int>::read(parts[1]);
    const auto bins = Form<int>::read(parts[2]);
    if (!operations || !magnitude || !bins) return std::nullopt;
    return data::RandAugment{.operations = *operations, .magnitude = *magnitude, .bins = *bins};
  }
  static std::string write(const data::RandAugment& value) {
    return fmt::format("{},{},{}", value.operations, value.magnitude, value.bins);
  }
  static std::string choices() { return "OPERATIONS,MAGNITUDE,BINS, whole numbers"; }
};
template <>
struct Form<data::RandomErasing> {
  static std::optional<data::RandomErasing> read(std::string_view text) {
    constexpr std::string_view kNoise = ",noise";
    const bool noise = text.ends_with(kNoise);
    if (noise) text.remove_suffix(kNoise.size());
    const auto numbers = numbers_of(text, noise ? 5 : 6);
    if (!numbers) return std::nullopt;
    const auto& n = *numbers;
    return data::RandomErasing{.probability = n[0],
                               .area = {n[1], n[2]},
                               .ratio = {n[3], n[4]},
                               .noise = noise,
                               .value = noise ? 0 : static_cast<float>(n[5])};
  }
  static std::string write(const data::RandomErasing& value) {
    return fmt::format("{},{},{},{},{},{}", value.probability, value.area[0], value.area[1], value.ratio[0],
                       value.ratio[1], value.noise ? "noise" : fmt::format("{}", value.value));
  }
  static std::string choices() { return "PROBABILITY,AREA,AREA,RATIO,RATIO,VALUE, where VALUE may be noise"; }
};

// names[value]; empty: there are fewer names.
template <std::size_t kCount>
std::string_view pick(const std::string_view (&names)[kCount], auto value) {
  const auto index = static_cast<std::size_t>(value);
  return index < kCount ? names[index] : std::string_view();
}

// The names of an enumeration's values, which count from 0; empty: there is no such value.
std::string_view name_of(data::SourceFormat value) { return data::source_format_name(value); }
std::string_view name_of(data::Compression value) {
  return value <= data::Compression::kZlib ? data::compression_name(value) : "";
}
std::string_view name_of(DType value) { return static_cast<int>(value) < kDTypeCount ? dtype_name(value) : ""; }
std::string_view name_of(data::Remainder value) { return pick({"drop", "pad", "keep"}, value); }
std::string_view name_of(data::Split value) { return pick({"train", "validation", "test"}, value); }
std::string_view name_of(data::OnError value) { return pick({"fail", "skip"}, value); }
std::string_view name_of(data::Quality value) { return pick({"exact", "fast"}, value); }
std::string_view name_of(data::Interpolation value) { return data::interpolation_name(value); }
std::string_view name_of(data::Layout value) { return pick({"nchw", "nhwc"}, value); }

template <class T>
requires std::is_enum_v<T>
struct Form<T> {
  static std::optional<T> read(std::string_view text) {
    for (int i = 0; !name_of(T(i)).empty(); ++i)
      if (name_of(T(i)) == text) return T(i);
    return std::nullopt;
  }
  static std::string write(T value) { return std::string(name_of(value)); }
  static std::string choices() {
    std::string all(name_of(T(0)));
    for (int i = 1; !name_of(T(i)).empty(); ++i) all.append(", ").append(name_of(T(i)));
    return all;
  }
};

// An option may be left open ("auto") or turned off ("off").
template <class T>
struct Form<std::optional<T>> {
  static constexpr std::string_view kUnset = std::is_enum_v<T> ? "auto" : "off";
  static std::optional<std::optional<T>> read(std::string_view text) {
    if (text == kUnset) return std::optional<T>();
    const std::optional<T> value = Form<T>::read(text);
    if (!value) return std::nullopt;
    return value;
  }
  static std::string write(const std::optional<T>& value) {
    return value ? Form<T>::write(*value) : std::string(kUnset);
  }
  static std::string choices() { return fmt::format("{}, or {}", kUnset, Form<T>::choices()); }
};

// A number, or "auto" for kAutoThreads and the like.
template <auto kAuto>
struct AutoForm {
  using T = std::remove_const_t<decltype(kAuto)>;
  static std::optional<T> read(std::string_view text) { return text == "auto" ? kAuto : Form<T>::read(text); }
  static std::string write(T value) { return value == kAuto ? "auto" : std::to_string(value); }
  static std::string choices() { return "auto, or " + Form<T>::choices(); }
};
using BadForm = AutoForm<data::kAutoBad>;
using ThreadsForm = AutoForm<data::kAutoThreads>;
using ShuffleForm = AutoForm<data::kAutoShuffle>;
using OffsetForm = AutoForm<data::kAutoLabelOffset>;

// Bytes, with an optional unit.
struct BytesForm {
  static std::optional<std::size_t> read(std::string_view text) { return parse_bytes(text); }
  static std::string write(std::size_t value) { return std::to_string(value); }
  static std::string choices() { return "bytes, as in 1048576, 512K or 2GiB"; }
};

// ---- Tables

template <class Options>
struct Field {
  std::string_view key;
  bool (*set)(Options& options, std::string_view value);  // false: not one of the choices
  std::string (*text)(const Options& options);
  std::string (*choices)();
};

// A line of a table, for a value that is not written in the Form of its type.
template <class F, auto kFirst, auto... kRest>
constexpr auto option_as(std::string_view key) {
  using Options = decltype(describe::owner_of(kFirst));
  return Field<Options>{key,
                        [](Options& options, std::string_view value) {
                          auto read = F::read(value);
                          if (read) describe::member_of<kFirst, kRest...>(options) = std::move(*read);
                          return read.has_value();
                        },
                        [](const Options& options) { return F::write(describe::member_of<kFirst, kRest...>(options)); },
                        F::choices};
}
// option<&Options::batch>("batch"), option<&Options::interleave, &InterleaveOptions::ahead>("ahead"): a line of a
// table.
template <auto kFirst, auto... kRest>
constexpr auto option(std::string_view key) {
  using Options = decltype(describe::owner_of(kFirst));
  using T = std::remove_cvref_t<decltype(describe::member_of<kFirst, kRest...>(std::declval<Options&>()))>;
  return option_as<Form<T>, kFirst, kRest...>(key);
}

template <class Options>
using Table = std::type_identity_t<std::span<const Field<Options>>>;

template <class Options>
Status set_option(Table<Options> fields, std::string_view what, Options& options, std::string_view key,
                  std::string_view value) {
  std::string all;
  for (const Field<Options>& field : fields) {
    if (field.key == key) {
      if (field.set(options, value)) return {};
      return failure(Code::kInvalidArgument, "{}: option {} is '{:.100}'; it may be {}", what, key, value,
                     field.choices());
    }
    all.append(all.empty() ? "" : ", ").append(field.key);
  }
  return failure(Code::kInvalidArgument, "{}: there is no option '{:.100}'; there are {}", what, key, all);
}

template <class Options>
std::string options_text(Table<Options> fields, const Options& options) {
  std::string text;
  for (const Field<Options>& field : fields) text += fmt::format("{}={}\n", field.key, field.text(options));
  return text;
}

using data::Augmentation;
using data::BatchMixing;
using data::ImagePipelineOptions;
using data::InterleaveOptions;
using data::PixelOptions;
using data::RecordOptions;

constexpr Field<ImagePipelineOptions> kImages[] = {
    option<&ImagePipelineOptions::directory>("directory"),
    option<&ImagePipelineOptions::format>("format"),
    option<&ImagePipelineOptions::pattern>("pattern"),
    option<&ImagePipelineOptions::batch>("batch"),
    option<&ImagePipelineOptions::image_size>("image_size"),
    option<&ImagePipelineOptions::rank>("rank"),
    option<&ImagePipelineOptions::size>("size"),
    option_as<ThreadsForm, &ImagePipelineOptions::threads>("threads"),
    option<&ImagePipelineOptions::processes>("processes"),
    option_as<ShuffleForm, &ImagePipelineOptions::shuffle_buffer>("shuffle_buffer"),
    option<&ImagePipelineOptions::shard_by_file>("shard_by_file"),
    option<&ImagePipelineOptions::prefetch>("prefetch"),
    option_as<BytesForm, &ImagePipelineOptions::memory_budget>("memory_budget"),
    option<&ImagePipelineOptions::seed>("seed"),
    option<&ImagePipelineOptions::training>("training"),
    option<&ImagePipelineOptions::split>("split"),
    option<&ImagePipelineOptions::validation_share>("validation_share"),
    option<&ImagePipelineOptions::epochs>("epochs"),
    option<&ImagePipelineOptions::remainder>("remainder"),
    option<&ImagePipelineOptions::allow_missing>("allow_missing"),
    option<&ImagePipelineOptions::on_error>("on_error"),
    option_as<BadForm, &ImagePipelineOptions::max_bad>("max_bad"),
    option<&ImagePipelineOptions::image_key>("image_key"),
    option<&ImagePipelineOptions::label_key>("label_key"),
    option<&ImagePipelineOptions::multi_label>("multi_label"),
    option<&ImagePipelineOptions::classes>("classes"),
    option<&ImagePipelineOptions::whole>("whole"),
    option<&ImagePipelineOptions::flip>("flip"),
    option<&ImagePipelineOptions::min_area>("min_area"),
    option_as<OffsetForm, &ImagePipelineOptions::label_offset>("label_offset"),
    option<&ImagePipelineOptions::pixels, &PixelOptions::interpolation>("interpolation"),
    option<&ImagePipelineOptions::pixels, &PixelOptions::antialias>("antialias"),
    option<&ImagePipelineOptions::pixels, &PixelOptions::exif_orientation>("exif_orientation"),
    option<&ImagePipelineOptions::pixels, &PixelOptions::max_pixels>("max_pixels"),
    option<&ImagePipelineOptions::quality>("quality"),
    option<&ImagePipelineOptions::dtype>("dtype"),
    option<&ImagePipelineOptions::layout>("layout"),
    option<&ImagePipelineOptions::augmentation, &Augmentation::colour_jitter>("colour_jitter"),
    option<&ImagePipelineOptions::augmentation, &Augmentation::rand_augment>("rand_augment"),
    option<&ImagePipelineOptions::augmentation, &Augmentation::erasing>("random_erasing"),
    option<&ImagePipelineOptions::augmentation, &Augmentation::mixing, &BatchMixing::mixup_alpha>("mixup_alpha"),
    option<&ImagePipelineOptions::augmentation, &Augmentation::mixing, &BatchMixing::cutmix_alpha>("cutmix_alpha"),
    option<&ImagePipelineOptions::augmentation, &Augmentation::mixing, &BatchMixing::cutmix_probability>(
        "cutmix_probability"),
    option<&ImagePipelineOptions::mean>("mean"),
    option<&ImagePipelineOptions::deviation>("deviation"),
};

constexpr Field<RecordsOptions> kRecords[] = {
    option<&RecordsOptions::rank>("rank"),
    option<&RecordsOptions::size>("size"),
    option<&RecordsOptions::shard_by_file>("shard_by_file"),
    option<&RecordsOptions::shuffle_files>("shuffle_files"),
    option<&RecordsOptions::shuffle_buffer>("shuffle_buffer"),
    option<&RecordsOptions::interleave, &InterleaveOptions::cycle_length>("cycle_length"),
    option<&RecordsOptions::interleave, &InterleaveOptions::block_length>("block_length"),
    option_as<ThreadsForm, &RecordsOptions::interleave, &InterleaveOptions::threads>("threads"),
    option<&RecordsOptions::interleave, &InterleaveOptions::processes>("processes"),
    option<&RecordsOptions::interleave, &InterleaveOptions::ahead>("ahead"),
    option<&RecordsOptions::seed>("seed"),
    option<&RecordsOptions::epochs>("epochs"),
    option<&RecordsOptions::allow_missing>("allow_missing"),
    option<&RecordsOptions::reading, &RecordOptions::compression>("compression"),
    option<&RecordsOptions::reading, &RecordOptions::on_error>("on_error"),
    option_as<BadForm, &RecordsOptions::reading, &RecordOptions::max_bad>("max_bad"),
    option_as<BytesForm, &RecordsOptions::reading, &RecordOptions::block_bytes>("block_bytes"),
};

template <class Object>
Status create(Object** options) {
  XOE_TRY(need(options, "options"));
  *options = new Object();
  return {};
}

template <class Object, class Fields>
Status set(Object* options, const char* key, const char* value, const Fields& fields, std::string_view what) {
  XOE_TRY(need(options, "options"));
  XOE_TRY(need(key, "key"));
  XOE_TRY(need(value, "value"));
  const std::lock_guard lock(options->mutex);
  return set_option(fields, what, options->options, key, value);
}

template <class Object, class Fields>
Status text_of(const Object* options, const Fields& fields, char** text) {
  XOE_TRY(need(options, "options"));
  const std::lock_guard lock(options->mutex);
  return copy_text(options_text(fields, options->options), text);
}

}  // namespace
}  // namespace xoe::capi

using namespace xoe::capi;  // NOLINT(google-build-using-namespace)

extern "C" {

xoe_status xoe_images_options_create(xoe_images_options** options) {
  return guard([&] { return create(options); });
}
xoe_status xoe_images_options_set(xoe_images_options* options, const char* key, const char* value) {
  return guard([&] { return set(options, key, value, kImages, "images"); });
}
xoe_status xoe_images_options_text(const xoe_images_options* options, char** text) {
  return guard([&] { return text_of(options, kImages, text); });
}
xoe_status xoe_images_options_warn(xoe_images_options* options, xoe_warn warn, void* user) {
  return guard([&]() -> xoe::Status {
    XOE_TRY(need(options, "options"));
    const std::lock_guard lock(options->mutex);
    options->options.warn = nullptr;
    if (warn != nullptr)
      options->options.warn = [warn, user](std::string_view line) { warn(user, std::string(line).c_str()); };
    return {};
  });
}
void xoe_images_options_free(xoe_images_options* options) { delete options; }

xoe_status xoe_records_options_create(xoe_records_options** options) {
  return guard([&] { return create(options); });
}
xoe_status xoe_records_options_set(xoe_records_options* options, const char* key, const char* value) {
  return guard([&] { return set(options, key, value, kRecords, "records"); });
}
xoe_status xoe_records_options_text(const xoe_records_options* options, char** text) {
  return guard([&] { return text_of(options, kRecords, text); });
}
void xoe_records_options_free(xoe_records_options* options) { delete options; }

}  // extern "C"
