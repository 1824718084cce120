#include "capi/data_options.h"

#include "capi/structs.h"

namespace xoe::capi {
namespace {

// names[value]; empty: there are fewer names.
template <std::size_t kCount>
std::string_view pick(const std::string_view (&names)[kCount], auto value) {
  const auto index = static_cast<std::size_t>(value);
  return index < kCount ? names[index] : std::string_view();
}

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

using data::Augmentation;
using data::BatchMixing;
using data::ImagePipelineOptions;
using data::InterleaveOptions;
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
    option<&ImagePipelineOptions::shuffle_buffer>("shuffle_buffer"),
    option<&ImagePipelineOptions::shard_by_file>("shard_by_file"),
    option<&ImagePipelineOptions::prefetch>("prefetch"),
    option_as<BytesForm, &ImagePipelineOptions::memory_budget>("memory_budget"),
    option<&ImagePipelineOptions::seed>("seed"),
    option<&ImagePipelineOptions::training>("training"),
    option<&ImagePipelineOptions::epochs>("epochs"),
    option<&ImagePipelineOptions::remainder>("remainder"),
    option<&ImagePipelineOptions::on_error>("on_error"),
    option<&ImagePipelineOptions::max_bad>("max_bad"),
    option<&ImagePipelineOptions::image_key>("image_key"),
    option<&ImagePipelineOptions::label_key>("label_key"),
    option<&ImagePipelineOptions::multi_label>("multi_label"),
    option<&ImagePipelineOptions::classes>("classes"),
    option<&ImagePipelineOptions::min_area>("min_area"),
    option<&ImagePipelineOptions::label_offset>("label_offset"),
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
    option<&RecordsOptions::reading, &RecordOptions::compression>("compression"),
    option<&RecordsOptions::reading, &RecordOptions::on_error>("on_error"),
    option<&RecordsOptions::reading, &RecordOptions::max_bad>("max_bad"),
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

std::string_view name_of(data::Remainder value) { return pick({"drop", "pad", "keep"}, value); }
std::string_view name_of(data::OnError value) { return pick({"fail", "skip"}, value); }
std::string_view name_of(data::Quality value) { return pick({"exact", "fast"}, value); }
std::string_view name_of(data::Layout value) { return pick({"nchw", "nhwc"}, value); }

std::optional<std::array<float, 3>> Form<std::array<float, 3>>::read(std::string_view text) {
  const auto numbers = numbers_of(text, 3);
  if (!numbers) return std::nullopt;
  const auto at = [&numbers](std::size_t i) { return static_cast<float>((*numbers)[i]); };
  return std::array{at(0), at(1), at(2)};
}
std::string Form<std::array<float, 3>>::write(const std::array<float, 3>& value) {
  return fmt::format("{},{},{}", value[0], value[1], value[2]);
}
std::string Form<std::array<float, 3>>::choices() { return "three numbers, separated by commas"; }

std::optional<data::ColourJitter> Form<data::ColourJitter>::read(std::string_view text) {
  const auto numbers = numbers_of(text, 4);
  if (!numbers) return std::nullopt;
  const auto& n = *numbers;
  return data::ColourJitter{.brightness = n[0], .contrast = n[1], .saturation = n[2], .hue = n[3]};
}
std::string Form<data::ColourJitter>::write(const data::ColourJitter& value) {
  return fmt::format("{},{},{},{}", value.brightness, value.contrast, value.saturation, value.hue);
}
std::string Form<data::ColourJitter>::choices() { return "BRIGHTNESS,CONTRAST,SATURATION,HUE"; }

std::optional<data::RandAugment> Form<data::RandAugment>::read(std::string_view text) {
  const auto parts = split_text(text, ',');
  if (parts.size() != 3) return std::nullopt;
  const auto operations = Form<int>::read(parts[0]);
  const auto magnitude = Form<int>::read(parts[1]);
  const auto bins = Form<int>::read(parts[2]);
  if (!operations || !magnitude || !bins) return std::nullopt;
  return data::RandAugment{.operations = *operations, .magnitude = *magnitude, .bins = *bins};
}
std::string Form<data::RandAugment>::write(const data::RandAugment& value) {
  return fmt::format("{},{},{}", value.operations, value.magnitude, value.bins);
}
std::string Form<data::RandAugment>::choices() { return "OPERATIONS,MAGNITUDE,BINS, whole numbers"; }

std::optional<data::RandomErasing> Form<data::RandomErasing>::read(std::string_view text) {
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
std::string Form<data::RandomErasing>::write(const data::RandomErasing& value) {
  return fmt::format("{},{},{},{},{},{}", value.probability, value.area[0], value.area[1], value.ratio[0],
                     value.ratio[1], value.noise ? "noise" : fmt::format("{}", value.value));
}
std::string Form<data::RandomErasing>::choices() {
  return "PROBABILITY,AREA,AREA,RATIO,RATIO,VALUE, where VALUE may be noise";
}

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
