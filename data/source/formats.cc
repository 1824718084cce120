#include "data/source/formats.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "data/files/encoding.h"
#include "data/files/foreign.h"
#include "data/options/check_ranges.h"

namespace xoe::data {
namespace {

// In the order in which they are tried: kTfRecordFormat takes any single file, kFolderFormat looks into folders.
constexpr std::array kFormats = {&kNihChestFormat, &kIdxFormat, &kTarFormat, &kTfRecordFormat, &kFolderFormat};

const SourceLayout* format_of(SourceFormat format) {
  const auto known =
      std::find_if(kFormats.begin(), kFormats.end(), [format](const auto* one) { return one->format == format; });
  return known == kFormats.end() ? nullptr : *known;
}

// For formats `training` alone says which images.
void resolve_split(ImagePipelineOptions& options) {
  if (options.split) options.training = *options.split == Split::kTrain;
}

// Lists of patients are ChestX-ray14's.
Status check_split(const ImagePipelineOptions& options, SourceFormat format) {
  if (format == SourceFormat::kNihChest) return {};
  if (options.validation_share > 0)
    return failure(Code::kInvalidArgument, "{}: validation_share is for the patients of ChestX-ray14, not for {}",
                   options.directory, source_format_name(format));
  if (options.split == Split::kTest)
    return failure(Code::kInvalidArgument, "{}: only ChestX-ray14 has the split test; {} has train and validation",
                   options.directory, source_format_name(format));
  return {};
}

}  // namespace

std::string_view source_format_name(SourceFormat format) noexcept {
  if (format == SourceFormat::kAuto) return "auto";
  const SourceLayout* known = format_of(format);
  return known == nullptr ? "" : known->name;
}

Result<SourceFormat> detect_source_format(const ImagePipelineOptions& options) {
  if (options.format != SourceFormat::kAuto) return options.format;
  if (!options.pattern.empty()) return is_archive_name(options.pattern) ? SourceFormat::kTar : SourceFormat::kTfRecord;
  const std::string& path = options.directory;
  const bool directory = is_directory(path);
  Listing contents;
  if (directory) {
    XOE_ASSIGN(contents, list_directory(path));
  } else {
    if (const auto kind = foreign_kind(path); !kind.empty())
      return failure(Code::kUnavailable,
                     "{}: {}, not a file of records; files by themselves are TFRecord files, .tar and .tar.gz archives "
                     "and idx files, and images lie in a folder for each class: name the folder above those",
                     path, kind);
    contents.files.push_back(path.substr(path.rfind('/') + 1));
  }
  for (const SourceLayout* format : kFormats)
    if (format->recognises(path, directory, contents)) return format->format;
  const bool images = std::ranges::any_of(contents.files, is_image_name);
  return failure(
      Code::kUnavailable,
      "{}: no data set of images that is known: no train-*, *.tfrecord, *.tfrec or *.record files, .tar or .tar.gz "
      "archives, idx files, Data_Entry_2017*.csv or folders of {} files{}{}",
      path, encoding_extensions("and"), images ? "; its images lie in no folder: each class needs one" : "",
      contents.files.empty() || images ? ""
                                       : "; where its files are TFRecord files or archives of other names, the option "
                                         "pattern (--pattern) names them");
}

Status check_no_label_offset(const ImagePipelineOptions& options, std::string_view layout) {
  if (label_offset_of(options, 0) == 0) return {};
  return failure(Code::kInvalidArgument, "{}: label_offset is {}, but {} have names, not numbers", options.directory,
                 options.label_offset, layout);
}

std::vector<std::string> without(std::vector<std::string> paths, const std::vector<std::string>& others) {
  std::erase_if(paths, [&](const std::string& path) { return std::ranges::binary_search(others, path); });
  return paths;
}

Status both(Status first, Status second) {
  if (first) return second;
  if (second) return first;
  return failure(first.error().code(), "{}. Besides: {}", first.error().message(), second.error().message());
}

Result<SourcePtr> open_image_source(ImagePipelineOptions options, LeftOut* left_out) {
  resolve_split(options);
  resolve_bad_limit(options);
  XOE_TRY(check_ranges(options));
  XOE_ASSIGN(const SourceFormat chosen, detect_source_format(options));
  const SourceLayout* format = format_of(chosen);
  if (format == nullptr)
    return failure(Code::kInvalidArgument, "images: there is no format {}", static_cast<int>(chosen));
  XOE_TRY(check_split(options, chosen));
  MissingData missing(options.allow_missing, left_out == nullptr ? nullptr : &left_out->missing);
  XOE_ASSIGN(SourcePtr source, format->open(options, missing, left_out == nullptr ? nullptr : &left_out->bad));
  XOE_TRY(missing.check(options.directory));
  source->set_missing(missing.count());
  return source;
}

void keep_shards(const ImagePipelineOptions& options, std::vector<std::string>& paths, MissingData& missing) {
  if (!is_directory(options.directory)) return;
  const auto wanted = [&](const std::string& path) {
    return options.pattern.empty() || matches(path.substr(path.rfind('/') + 1), options.pattern);
  };
  find_absent_shards(paths, wanted, missing);
  (void)keep_files(paths, options.threads, missing);
}

bool has_split(const ImagePipelineOptions& wanted) {
  ImagePipelineOptions options = wanted;
  resolve_split(options);
  if (!options.training && (!options.pattern.empty() || !is_directory(options.directory))) return false;
  const auto chosen = detect_source_format(options);
  const SourceLayout* format = chosen ? format_of(*chosen) : nullptr;
  return format != nullptr && format->has_split(options);
}

}  // namespace xoe::data
