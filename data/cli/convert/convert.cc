#include "data/cli/convert/convert.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <numeric>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/text.h"
#include "data/cli/convert/manifest.h"
#include "data/cli/require.h"
#include "data/files/listing.h"
#include "data/load/assumed_labels.h"
#include "data/records/example.h"
#include "data/stages/random.h"
#include "data/threads.h"
#include "xoe/data/files.h"

namespace xoe::data {
namespace {

constexpr int kMaxShards = 99999;
constexpr std::int64_t kImagesPerFolderShard = 1000;            // that are flushed together
constexpr auto kProgressEvery = std::chrono::milliseconds(20);  // also the delay of a stop

std::string_view split_name(const ImagePipelineOptions& from) { return from.training ? "train" : "validation"; }

Status check(const ConvertOptions& options) {
  XOE_TRY(require(options.shards >= 0 && options.shards <= kMaxShards, "shards must be 0 to 99999", options.shards));
  XOE_TRY(require(options.threads >= 0 && options.threads <= 1024, "threads must be 0 to 1024", options.threads));
  const ReencodeOptions& reencode = options.reencode;
  XOE_TRY(require(reencode.resize_shorter >= 0 && reencode.resize_shorter <= 16384,
                  "the shorter side must be 1 to 16384 pixels", reencode.resize_shorter));
  XOE_TRY(require(reencode.quality >= 1 && reencode.quality <= 100, "quality must be 1 to 100", reencode.quality));
  XOE_TRY(require(options.from.max_bad >= 0, "max_bad must be 0 or more", options.from.max_bad));
  if (options.to != ConvertTo::kTfRecord && options.compression != Compression::kNone)
    return failure(Code::kInvalidArgument, "only TFRecord files are compressed, not a {}", convert_to_name(options.to));
  return {};
}

// The bytes of all images, estimated from the same few in every run.
std::uint64_t estimate_bytes(const ImageSource& source) {
  constexpr std::int64_t kSample = 32;
  const std::int64_t records = source.records();
  std::string buffer;
  std::uint64_t bytes = 0;
  std::int64_t read = 0;
  for (std::int64_t i = 0; i < std::min(kSample, records); ++i)
    if (const auto record = source.read(i * records / std::min(kSample, records), buffer)) {
      bytes += record->bytes.size();
      ++read;
    }
  return read == 0 ? 0 : bytes / static_cast<std::uint64_t>(read) * static_cast<std::uint64_t>(records);
}

// Replaces characters that would lead to another folder, or hide one.
void make_folder_names(std::vector<std::string>& names) {
  for (std::string& name : names) {
    std::replace(name.begin(), name.end(), '/', '_');
    if (name.starts_with('.')) name.front() = '_';
  }
}

class Conversion {
 public:
  // `options` are settled.
  Conversion(const ConvertOptions& options, const ConvertProgress& progress) : options_(options), progress_(progress) {}

  Result<ConvertReport> run() {
    XOE_TRY(open());
    std::error_code ignored;
    const bool existed = std::filesystem::exists(options_.directory, ignored);
    const Status done = write();
    if (done) return std::move(report_);
    if (fresh_ && error_ && error_->code() == Code::kInvalidArgument) discard();
    // Without a finished shard there is nothing to continue from, so nothing stays.
    if (manifest_ && manifest_->empty() && !has_images()) (void)manifest_->remove();
    if (!existed) ::rmdir(options_.directory.c_str());  // fails unless it is empty
    return failure(done.error());
  }

 private:
  // Wrong options, which no later run can go on with: one with other options begins from the start.
  void discard() const {
    std::error_code ignored;
    for (int shard = 0; shard < layout_.shards; ++shard) std::filesystem::remove_all(layout_.path(shard), ignored);
    (void)manifest_->remove();
  }

  Status write() {
    XOE_TRY(prepare_directory());
    XOE_TRY(write_shards());
    XOE_TRY(write_labels());
    XOE_TRY(manifest_->remove());
    const FinishedShard sum = manifest_->sum();
    report_.images = sum.images;
    report_.skipped = sum.skipped + source_->lost();
    report_.bytes = sum.bytes;
    report_.shards = layout_.shards;
    report_.bad = left_out_.bad.messages();
    report_.missing = source_->missing();
    report_.named = !layout_.class_names.empty();
    report_.missing_parts = left_out_.missing.messages();
    return {};
  }

  Status open() {
    const ImagePipelineOptions& from = options_.from;
    XOE_ASSIGN(source_, open_image_source(from, &left_out_));
    if (source_->multi_label() && options_.to != ConvertTo::kTfRecord)
      return failure(Code::kInvalidArgument,
                     "{}: its images can be of several classes, which a {} cannot express; tfrecord can",
                     from.directory, convert_to_name(options_.to));
    XOE_ASSIGN(report_.assumed_labels, check_assumed_offset(*source_, from.directory, thread_count(options_.threads)));
    keep_names_ =
        source_->own_files() && options_.to != ConvertTo::kTar && (options_.to != ConvertTo::kFolder || names_differ());
    plan();
    return plan_names();
  }

  // Whether no two files of a class have one name, as those of folders within it may.
  bool names_differ() const {
    std::set<std::pair<std::int64_t, std::string>> names;
    std::string buffer;
    for (std::int64_t record = 0; record < source_->records(); ++record) {
      const auto label = source_->label(record, buffer);
      if (!names.emplace(label.value_or(0), base_name(record)).second) return false;
    }
    return true;
  }
  std::string base_name(std::int64_t record) const {
    return std::filesystem::path(source_->name(record)).filename().string();
  }

  void plan() {
    const std::int64_t records = source_->records();
    layout_.to = options_.to;
    layout_.directory = options_.directory;
    layout_.split = split_name(options_.from);
    layout_.compression = options_.compression;
    const int wanted = options_.shards > 0                 ? options_.shards
                       : options_.to == ConvertTo::kFolder ? static_cast<int>(records / kImagesPerFolderShard + 1)
                                                           : suggest_shards(records, estimate_bytes(*source_));
    layout_.shards = static_cast<int>(std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(records, 1)));
    order_.resize(static_cast<std::size_t>(records));
    std::iota(order_.begin(), order_.end(), 0);
    const bool cheap = source_->random_access() || records <= kShuffleBuffer;
    const bool wanted_order =
        options_.order == ConvertOrder::kShuffled || (options_.order == ConvertOrder::kAuto && cheap);
    report_.shuffled = wanted_order && options_.to != ConvertTo::kFolder;
    if (!report_.shuffled) return;
    Random random(options_.seed, 0, 0);
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.bits() % i]);
  }

  Status plan_names() {
    layout_.class_names = source_->class_names();
    if (options_.to != ConvertTo::kFolder) return check_lines();
    make_folder_names(layout_.class_names);
    const std::set<std::string> different(layout_.class_names.begin(), layout_.class_names.end());
    if (different.size() == layout_.class_names.size()) return {};
    return failure(Code::kInvalidArgument, "{}: {} classes have only {} different names, too few for folders",
                   options_.from.directory, layout_.class_names.size(), different.size());
  }

  // Whether each name fits a line of labels.txt.
  Status check_lines() const {
    for (const std::string& name : layout_.class_names)
      if (name.find('\n') != std::string::npos || name.ends_with('\r'))
        return failure(Code::kInvalidArgument,
                       "{}: the name of the class {} has a line break, which labels.txt cannot hold; rename its folder",
                       options_.from.directory, name);
    return {};
  }

  // Identifies a conversion: a run continues one with the same text.
  std::string command() const {
    std::error_code ignored;
    const ReencodeOptions& reencode = options_.reencode;
    std::string words =
        fmt::format("{} images of {}, {}, to {} in {} parts", source_->records(),
                    std::filesystem::absolute(options_.from.directory, ignored).lexically_normal().string(),
                    layout_.split, convert_to_name(options_.to), layout_.shards);
    if (!options_.from.pattern.empty()) words += fmt::format(", of {}", options_.from.pattern);
    if (options_.compression != Compression::kNone)
      words += fmt::format(", {}", compression_name(options_.compression));
    if (report_.shuffled) words += fmt::format(", shuffled by {}", options_.seed);
    if (reencode.resize_shorter > 0)
      words += fmt::format(", resized to {} with quality {}", reencode.resize_shorter, reencode.quality);
    if (source_->multi_label()) words += ", of several classes";
    if (options_.from.image_key != ImageKeys().encoded || options_.from.label_key != ImageKeys().label)
      words += fmt::format(", {} and {}", options_.from.image_key, options_.from.label_key);
    if (options_.from.label_offset != kAutoLabelOffset)
      words += fmt::format(", labels from {}", options_.from.label_offset);
    return words;
  }

  Status prepare_directory() {
    std::error_code error;
    std::filesystem::create_directories(options_.directory, error);
    if (error)
      return failure(Code::kUnavailable, "{}: cannot make the directory: {}", options_.directory, error.message());
    const bool begun = Manifest::exists(options_.directory);
    if (!begun && has_images())
      return failure(Code::kInvalidArgument, "{}: it already holds {} images; choose another directory",
                     options_.directory, layout_.split);
    XOE_TRY(check_labels());
    XOE_ASSIGN(manifest_, Manifest::open(options_.directory, command()));
    fresh_ = !begun;
    remove_left_over();
    return {};
  }
  bool has_images() const {
    std::error_code ignored;
    if (options_.to == ConvertTo::kFolder) {
      const std::string root = layout_.path(0);
      return std::filesystem::exists(root, ignored) && !std::filesystem::is_empty(root, ignored);
    }
    return match_files(options_.directory, fmt::format("{}-*", layout_.split)).has_value();
  }
  // Removes the files that a killed run left.
  void remove_left_over() const {
    const std::string images = options_.to == ConvertTo::kFolder
                                   ? layout_.path(0) + "/*/.*.unfinished-*"
                                   : fmt::format("{}/.{}-*.unfinished-*", options_.directory, layout_.split);
    for (const std::string& pattern : {images, options_.directory + "/..xoe-convert.json.unfinished-*"})
      if (const auto stale = match_paths({pattern}))
        for (const std::string& path : *stale) xoe::remove_unfinished(path);
  }

  std::string labels_path() const { return options_.directory + "/labels.txt"; }
  // Another split that was converted before must have the same class names.
  Status check_labels() const {
    if (options_.to == ConvertTo::kFolder) return {};
    XOE_ASSIGN(const auto there, names_there());
    if (layout_.class_names.empty() || there.empty() || there == layout_.class_names) return {};
    return failure(Code::kInvalidArgument, "{}: its {} classes are not the {} of {}; choose another directory",
                   labels_path(), there.size(), layout_.class_names.size(), options_.from.directory);
  }
  // In labels.txt; none where there is no such file.
  Result<std::vector<std::string>> names_there() const {
    if (!is_there(labels_path())) return std::vector<std::string>();
    return read_names(labels_path());
  }
  // Folders name their classes themselves. Classes without names get numbers.
  Status write_labels() const {
    if (options_.to == ConvertTo::kFolder) return {};
    std::vector<std::string> names = layout_.class_names;
    if (names.empty()) {
      XOE_ASSIGN(const auto there, names_there());
      const std::int64_t classes = std::max<std::int64_t>(manifest_->sum().highest + 1, source_->classes());
      if (std::ssize(there) >= classes) return {};
      for (std::int64_t label = 0; label < classes; ++label) names.push_back(layout_.class_name(label));
    }
    std::string text;
    for (const std::string& name : names) text += name + "\n";
    return write_file(labels_path(), text);
  }

  Status write_shards() {
    for (int shard = 0; shard < layout_.shards; ++shard) {
      const auto kept = is_kept(shard);
      if (!kept) {
        todo_.push_back(shard);
        continue;
      }
      done_ += kept->images + kept->skipped;
      skipped_ += kept->skipped;
      ++report_.kept;
    }
    skipped_ += source_->lost();
    const int threads = std::min(thread_count(options_.threads), static_cast<int>(todo_.size()));
    {
      std::vector<std::jthread> workers;
      workers.reserve(static_cast<std::size_t>(threads));
      running_ = threads;
      for (int i = 0; i < threads; ++i) workers.emplace_back([this] { work(); });
      watch();
    }
    if (error_) return failure(*error_);
    if (!stopped_) return {};
    return failure(Code::kUnavailable, "stopped after {} of {} images; the same command continues from there",
                   done_.load(), source_->records());
  }
  std::optional<FinishedShard> is_kept(int shard) const {
    std::error_code ignored;
    return std::filesystem::exists(layout_.path(shard), ignored) ? manifest_->finished(shard) : std::nullopt;
  }

  // Runs in the caller's thread while the workers run.
  void watch() {
    std::unique_lock lock(mutex_);
    while (running_ > 0) {
      changed_.wait_for(lock, kProgressEvery, [this] { return running_ == 0; });
      lock.unlock();
      if (!stopped_ && !progress_(done_, source_->records())) stopped_ = true;
      lock.lock();
    }
  }

  void work() {
    Reencoder reencoder(options_.reencode);
    std::string buffer;
    for (std::size_t i = next_++; i < todo_.size() && !stopped_; i = next_++) {
      const Status written = write_shard(todo_[i], reencoder, buffer);
      if (written) continue;
      const std::lock_guard lock(mutex_);
      if (!stopped_.exchange(true)) error_ = written.error();
    }
    const std::lock_guard lock(mutex_);
    --running_;
    changed_.notify_one();
  }

  Status write_shard(int shard, Reencoder& reencoder, std::string& buffer) {
    XOE_ASSIGN(const auto writer, create_shard(layout_, shard));
    const auto border = [&](int at) { return source_->records() * at / layout_.shards; };
    FinishedShard facts;
    for (std::int64_t i = border(shard); i < border(shard + 1); ++i, ++done_) {
      if (stopped_) return {};
      const std::int64_t record = order_[static_cast<std::size_t>(i)];
      XOE_ASSIGN(const bool good, write_image(record, *writer, reencoder, buffer, facts));
      ++(good ? facts.images : facts.skipped);
    }
    XOE_TRY(writer->finish());
    facts.bytes = writer->bytes();
    return manifest_->add(shard, facts);
  }

  // False: the image is bad and left out.
  Result<bool> write_image(std::int64_t record, ShardWriter& writer, Reencoder& reencoder, std::string& buffer,
                           FinishedShard& facts) {
    const auto read = source_->read(record, buffer);
    if (!read) return leave_out(read.error());
    const auto fail = [&](const Error& error) {
      return leave_out({error.code(), fmt::format("{}: {}", source_->name(record), error.message())});
    };
    ConvertedImage image{.encoded = {}, .name = {}, .targets = read->targets};
    if (!source_->multi_label()) {
      const auto number = class_of(*source_, read->label, source_->classes());
      if (!number) return fail(number.error());
      image.label = *number;
    }
    auto encoded = reencoder.run(*read);
    if (!encoded) return fail(encoded.error());
    image.encoded = *encoded;
    const std::string name = file_name(record, *encoded);
    image.name = name;
    facts.highest = std::max(facts.highest, image.label);
    XOE_TRY(writer.write(image));
    return true;
  }
  std::string file_name(std::int64_t record, const EncodedImage& encoded) const {
    if (keep_names_) return base_name(record);
    return fmt::format("{}_{:08}{}", layout_.split, record, encoded.encoding().extensions[0]);
  }

  Result<bool> leave_out(const Error& error) {
    const std::int64_t most = options_.from.max_bad;
    if (!may_skip(error)) return failure(error);
    if (most == 0) return failure(error.code(), "{}; {}", error.message(), kMayLeaveOut);
    left_out_.bad.add(error.message());
    if (++skipped_ <= most) return false;
    return failure(Code::kDataLoss, "more than the {} allowed by max_bad; the last one: {}", counted(most, "bad image"),
                   error.message());
  }

  const ConvertOptions& options_;
  const ConvertProgress& progress_;
  LeftOut left_out_;
  SourcePtr source_;
  ShardLayout layout_;
  std::unique_ptr<Manifest> manifest_;
  std::vector<std::int64_t> order_;
  std::vector<int> todo_;
  bool keep_names_ = false;
  bool fresh_ = false;  // no earlier run wrote anything
  ConvertReport report_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::int64_t> done_ = 0;
  std::atomic<std::int64_t> skipped_ = 0;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0;
  std::optional<Error> error_;
};

}  // namespace

int suggest_shards(std::int64_t images, std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kShardBytes = std::uint64_t{128} << 20;
  constexpr std::int64_t kImagesForMore = 64;
  constexpr std::int64_t kSome = 8;
  const auto by_bytes = static_cast<std::int64_t>(bytes / kShardBytes + 1);
  const std::int64_t by_readers = std::clamp<std::int64_t>(images / kImagesForMore, 1, kSome);
  return static_cast<int>(std::min<std::int64_t>(std::max(by_bytes, by_readers), 8192));
}

Result<ConvertReport> convert(const ConvertOptions& wanted, const ConvertProgress& progress) {
  const auto start = std::chrono::steady_clock::now();
  ConvertOptions options = wanted;
  resolve_bad_limit(options.from);
  XOE_TRY(check(options));
  XOE_ASSIGN(ConvertReport report, Conversion(options, progress).run());
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace xoe::data
