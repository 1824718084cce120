#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

#include "core/base/text.h"
#include "data/failure_in.h"
#include "data/files/encoding.h"
#include "data/files/image_tree.h"
#include "data/files/listing.h"
#include "data/files/tar.h"
#include "data/records/record_file.h"
#include "data/records/record_index.h"
#include "data/source/formats.h"
#include "data/source/other_files.h"
#include "data/threads.h"

namespace xoe::data {
namespace {

constexpr std::uint64_t kMaxLabelBytes = 32;
// For archives of folders, which are more common than WebDataset's.
constexpr std::string_view kLayout =
    "each image needs a .cls file of the same name, next to it, with the number of its class; an "
    "archive of folders of classes is read unpacked";

struct Sample {
  std::string key;
  TarMember image;
  std::int64_t label = 0;
};

struct Archive {
  std::string path;
  std::shared_ptr<const OpenFile> file;  // null where there are too many to keep all open
  std::uint64_t bytes = 0;
  std::vector<Sample> samples;
  bool gzip = false;
  std::vector<RestartPoint> restarts;  // of a GZIP file
};

// "dir/0001.seg.PNG": "dir/0001" and "seg.png".
std::pair<std::string, std::string> split_name(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t dot = name.find('.', slash == std::string::npos ? 0 : slash + 1);
  if (dot == std::string::npos) return {name, {}};
  std::string extension = name.substr(dot + 1);
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return {name.substr(0, dot), std::move(extension)};
}

// Makes samples of the members of one archive: those that follow each other with the same key.
class ArchiveIndex {
 public:
  ArchiveIndex(const std::shared_ptr<const OpenFile>& file, const ImagePipelineOptions& options, BadRecords* bad)
      : options_(options),
        bad_(bad),
        reader_(archive_bytes(file, &points_)),
        archive_{.path = file->path,
                 .file = file,
                 .bytes = file->bytes,
                 .samples = {},
                 .gzip = is_gzip(*file),
                 .restarts = {}} {}

  Result<Archive> make() {
    for (bool more = true; more;) {
      auto member = reader_.next();
      if (!member) {
        const Error error(member.error().code(),
                          fmt::format("{}: header at byte {}: {}", path(), reader_.offset(), member.error().message()));
        XOE_TRY(lose(error));
        if (auto found = reader_.resynchronise(); !found) {
          if (archive_.gzip && found.error().code() == Code::kDataLoss)
            break;  // the stream is broken: the rest is lost
          return failure_in(path(), found.error());
        }
        continue;
      }
      more = member->has_value();
      if (more) XOE_TRY(take(**member));
    }
    XOE_TRY(finish_sample());
    // Where a GZIP file ends within an image shows only behind it.
    std::erase_if(archive_.samples, [end = reader_.size().value_or(UINT64_MAX)](const Sample& sample) {
      return sample.image.offset + sample.image.bytes > end;
    });
    archive_.restarts = points_.take();
    return std::move(archive_);
  }
  std::int64_t lost() const { return lost_; }

 private:
  const std::string& path() const { return archive_.path; }

  Status lose(const Error& error) {
    if (error.code() == Code::kUnavailable) return failure(error);
    if (bad_ != nullptr) bad_->add(error.message());
    if (++lost_ <= options_.max_bad) return {};
    return failure(error.code(), "{}; {}", error.message(), kMayLeaveOut);
  }

  Status take(const TarMember& member) {
    // macOS puts one with a file's attributes in front of each.
    if (member.name.substr(member.name.rfind('/') + 1).starts_with("._")) return {};
    auto [key, extension] = split_name(member.name);
    if (key != sample_.key) {
      XOE_TRY(finish_sample());
      sample_ = {.key = std::move(key), .image = {}};
    }
    if (damaged_) return {};
    const bool image = is_image_extension(extension);
    if (!image && extension != "cls") {
      if (is_unreadable_image_name(member.name)) other_image_ = member.name;
      return {};
    }
    if (!member.instead.empty())
      return lose_sample({Code::kDataLoss, fmt::format("{}: {}: {}, which holds no data to read; write the archive "
                                                       "with whole files (tar --dereference --hard-dereference, "
                                                       "without --sparse)",
                                                       path(), member.name, member.instead)});
    return image ? take_image(member) : take_label(member);
  }
  Status take_label(const TarMember& member) {
    const auto label = read_label(member);
    if (!label) return lose_sample(label.error());
    if (has_label_ && sample_.label != *label)
      return lose_sample({Code::kDataLoss, fmt::format("{}: sample {} has two labels, {} and {}", path(), sample_.key,
                                                       sample_.label, *label)});
    sample_.label = *label;
    has_label_ = true;
    return {};
  }
  Status take_image(const TarMember& member) {
    if (!sample_.image.name.empty())
      return lose_sample({Code::kDataLoss, fmt::format("{}: sample {} has several images", path(), sample_.key)});
    if (member.bytes > kMaxRecordBytes)
      return lose_sample({Code::kDataLoss, fmt::format("{}: {}: an image of {} bytes; at most {} are read", path(),
                                                       member.name, member.bytes, kMaxRecordBytes)});
    sample_.image = member;
    return {};
  }
  // Counts it once, whatever else is wrong with it.
  Status lose_sample(const Error& error) {
    damaged_ = true;
    return lose(error);
  }
  // A sample without an image or without a label is none; members that are neither, such as a README, are left alone.
  Status finish_sample() {
    const bool has_image = !sample_.image.name.empty();
    const bool had_label = std::exchange(has_label_, false);
    const std::string other_image = std::exchange(other_image_, {});
    Sample sample = std::exchange(sample_, {});
    if (std::exchange(damaged_, false)) return {};
    if (has_image == had_label) {
      if (has_image) archive_.samples.push_back(std::move(sample));
      return {};
    }
    if (had_label && !other_image.empty())
      return lose({Code::kDataLoss,
                   fmt::format("{}: {}: not a {}, which alone are read", path(), other_image, encoding_names("or"))});
    return lose(
        {Code::kDataLoss,
         fmt::format("{}: sample {} has no {}{}{}", path(), sample.key, has_image ? "label (.cls)" : "image",
                     archive_.samples.empty() ? "; " : "", archive_.samples.empty() ? kLayout : std::string_view())});
  }
  Result<std::int64_t> read_label(const TarMember& member) const {
    std::array<char, kMaxLabelBytes> text;
    if (member.bytes > text.size())
      return failure(Code::kDataLoss, "{}: {}: a label of {} bytes", path(), member.name, member.bytes);
    if (auto got = reader_.read(member, text.data()); !got)
      return failure(got.error().code(), "{}: {}: {}", path(), member.name, got.error().message());
    std::string_view digits(text.data(), member.bytes);
    while (digits.ends_with('\n') || digits.ends_with('\r') || digits.ends_with(' ')) digits.remove_suffix(1);
    std::int64_t label = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), label);
    if (error != std::errc() || end != digits.data() + digits.size())
      return failure(Code::kDataLoss, "{}: {}: the label is no number", path(), member.name);
    return label;
  }

  const ImagePipelineOptions& options_;
  BadRecords* bad_;
  RestartPoints points_;
  TarReader reader_;
  Archive archive_;
  Sample sample_;
  bool has_label_ = false;
  std::string other_image_;  // of the sample, in a format that is not read
  bool damaged_ = false;     // the sample, and counted
  std::int64_t lost_ = 0;
};

class TarImages final : public ImageSource {
 public:
  // warnings: of describe_other_files().
  TarImages(std::string root, std::vector<Archive> archives, std::int64_t lost, int label_offset,
            std::vector<std::string> warnings)
      : root_(std::move(root)),
        archives_(std::move(archives)),
        lost_(lost),
        label_offset_(label_offset),
        warnings_(std::move(warnings)) {
    for (const Archive& archive : archives_)
      first_.push_back(first_.back() + static_cast<std::int64_t>(archive.samples.size()));
  }

  std::int64_t records() const noexcept override { return first_.back(); }
  std::size_t groups() const noexcept override { return archives_.size(); }
  std::int64_t first(std::size_t group) const noexcept override { return first_[group]; }
  bool random_access() const noexcept override {
    return std::ranges::none_of(archives_, [](const Archive& archive) { return archive.gzip; });
  }
  int classes() const noexcept override { return 0; }
  int label_offset() const noexcept override { return label_offset_; }
  std::int64_t lost() const noexcept override { return lost_; }
  std::vector<std::string> warnings() const override { return warnings_; }
  std::size_t files() const noexcept override { return archives_.size(); }
  OpenedFile file(std::size_t number) const override {
    const Archive& archive = archives_[number];
    return {.name = name_below(root_, archive.path),
            .bytes = archive.bytes,
            .records = static_cast<std::int64_t>(archive.samples.size())};
  }

  Result<ImageRecord> read(std::int64_t record, std::string& buffer) const override {
    const auto [archive, sample] = where(record);
    auto got = read_image(archive, sample.image, buffer);
    if (!got) return failure_in(name(record), got.error());
    return ImageRecord{.bytes = buffer, .label = sample.label, .targets = {}};
  }
  Result<std::int64_t> label(std::int64_t record, std::string&) const override { return where(record).second.label; }
  std::string name(std::int64_t record) const override {
    const auto [archive, sample] = where(record);
    return fmt::format("{}: {} at byte {}", archive.path, sample.image.name, sample.image.offset);
  }
  ImageOrigin origin(std::int64_t record) const override {
    const Archive& archive = where(record).first;
    return {archive.path, record - first_[static_cast<std::size_t>(&archive - archives_.data())], name(record)};
  }

 private:
  static Status read_image(const Archive& archive, const TarMember& image, std::string& buffer) {
    std::shared_ptr<const OpenFile> file = archive.file;
    if (!file) {
      XOE_ASSIGN(OpenFile opened, OpenFile::open(archive.path));
      file = std::make_shared<const OpenFile>(std::move(opened));
    }
    if (archive.gzip) {
      const auto source = inflate_source_near(file, Compression::kGzip, archive.restarts, image.offset);
      XOE_TRY(source->seek(image.offset));
      buffer.clear();
      return append_bytes(*source, image.bytes, buffer);
    }
    buffer.resize(image.bytes);
    return file->read_at(image.offset, buffer.data(), buffer.size());
  }
  std::pair<const Archive&, const Sample&> where(std::int64_t record) const {
    const auto after = std::upper_bound(first_.begin(), first_.end(), record);
    const auto at = static_cast<std::size_t>(after - first_.begin()) - 1;
    return {archives_[at], archives_[at].samples[static_cast<std::size_t>(record - first_[at])]};
  }

  std::string root_;
  std::vector<Archive> archives_;
  std::vector<std::int64_t> first_ = {0};
  std::int64_t lost_;
  int label_offset_;
  std::vector<std::string> warnings_;
};

// The archives of a directory whose names, without their ending, match.
Result<std::vector<std::string>> match_archives(const std::string& directory, std::string_view stem) {
  std::vector<std::string> paths;
  for (const std::string_view ending : {".tar", ".tar.gz", ".tgz"})
    if (auto found = match_files(directory, fmt::format("{}{}", stem, ending)))
      paths.insert(paths.end(), found->begin(), found->end());
  if (paths.empty())
    return failure(Code::kUnavailable, "{}: no file matches {}.tar, {}.tar.gz or {}.tgz", directory, stem, stem, stem);
  std::ranges::sort(paths);
  return paths;
}

// Archives of the validation split: "val" begins their names or a word in it, as it does not in "interval.tar".
std::vector<std::string> held_out_archives(const std::string& directory) {
  std::vector<std::string> paths;
  for (const std::string_view stem : {"val*", "*[!a-zA-Z]val*"})
    if (const auto found = match_archives(directory, stem)) paths.insert(paths.end(), found->begin(), found->end());
  std::ranges::sort(paths);
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  const auto training = match_archives(directory, "*train*");
  return without(std::move(paths), training ? *training : std::vector<std::string>());
}

Result<std::vector<std::string>> find_archives(const ImagePipelineOptions& options) {
  if (!is_directory(options.directory)) return std::vector<std::string>{options.directory};
  if (!options.pattern.empty()) return match_files(options.directory, options.pattern);
  if (!options.training) {
    auto held_out = held_out_archives(options.directory);
    return held_out.empty() ? match_archives(options.directory, "*val*") : std::move(held_out);
  }
  if (auto found = match_archives(options.directory, "*train*")) return found;
  XOE_ASSIGN(auto all, match_archives(options.directory, "*"));
  auto others = without(all, held_out_archives(options.directory));
  return others.empty() ? std::move(all) : std::move(others);
}

bool has_tar_split(const ImagePipelineOptions& options) {
  if (options.training) return find_archives(options).has_value();
  // Archives that are all of one split are for training.
  const auto held_out = held_out_archives(options.directory);
  const auto all = match_archives(options.directory, "*");
  return !held_out.empty() && all && held_out.size() < all->size();
}

// An archive and how much of it is lost.
Result<std::pair<Archive, std::int64_t>> open_archive(const std::string& path, const ImagePipelineOptions& options,
                                                      BadRecords* bad, bool keep_open) {
  XOE_ASSIGN(OpenFile opened, OpenFile::open(path));
  ArchiveIndex index(std::make_shared<const OpenFile>(std::move(opened)), options, bad);
  XOE_ASSIGN(Archive archive, index.make());
  if (!keep_open) archive.file.reset();
  return std::pair(std::move(archive), index.lost());
}

bool is_tar(const std::string&, bool, const Listing& contents) {
  return std::any_of(contents.files.begin(), contents.files.end(), is_archive_name);
}

Result<SourcePtr> open_tar(const ImagePipelineOptions& options, MissingData& missing, BadRecords* bad) {
  XOE_ASSIGN(auto paths, find_archives(options));
  keep_shards(options, paths, missing);
  XOE_TRY(missing.check(options.directory));
  std::vector<std::optional<Result<std::pair<Archive, std::int64_t>>>> opened(paths.size());
  for_each_in_threads(paths.size(), options.threads, [&](std::size_t i) {
    opened[i].emplace(open_archive(paths[i], options, bad, paths.size() <= kMaxOpenFiles));
  });
  std::vector<Archive> archives;
  std::int64_t lost = 0;
  for (auto& one : opened) {
    if (!*one) return failure(one->error());
    auto& [archive, its_lost] = **one;
    if (archive.samples.empty() && its_lost == 0 && archive.path != options.directory)
      missing.add(archive.path, "no sample in it");
    archives.push_back(std::move(archive));
    lost += its_lost;
  }
  XOE_TRY(missing.check(options.directory));
  if (std::all_of(archives.begin(), archives.end(), [](const Archive& one) { return one.samples.empty(); }))
    return failure(Code::kUnavailable, "{}: no sample of an image and a .cls file in {}; {}", options.directory,
                   counted(std::ssize(paths), "archive"),
                   bad != nullptr && bad->count() > 0 ? bad->text() : std::string(kLayout));
  const auto all_archives = [](const std::string& directory) {
    return match_archives(directory, "*").value_or(std::vector<std::string>());
  };
  auto warnings = describe_other_files(options, paths, {.candidates = all_archives, .split = find_archives});
  return std::make_unique<TarImages>(options.directory, std::move(archives), lost, label_offset_of(options, 0),
                                     std::move(warnings));
}

}  // namespace

constinit const SourceLayout kTarFormat = {SourceFormat::kTar, "tar", is_tar, has_tar_split, open_tar};

}  // namespace xoe::data
