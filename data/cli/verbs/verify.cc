// xoe data verify: reads every byte of data sets.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "data/cli/image_facts.h"
#include "data/cli/verbs/progress_line.h"
#include "data/cli/verbs/verbs.h"
#include "data/files/listing.h"
#include "data/records/example.h"
#include "data/records/record_stream.h"
#include "data/source/formats.h"
#include "xoe/data/example.h"

namespace xoe::tools {
namespace {

using data::ImageRecord;
using data::SourceFormat;
using Json = nlohmann::ordered_json;

struct Finding {
  std::string file;
  std::optional<std::int64_t> record;   // of a record file, from 0
  std::optional<std::uint64_t> offset;  // of that record, in the file or in the decompressed bytes
  std::string problem;
};

// Counts all findings, and keeps the first ones by file and offset. Thread safety: any thread at any time.
class Findings {
 public:
  static constexpr std::size_t kMaxKept = 100;

  void add(Finding finding) {
    const std::lock_guard lock(mutex_);
    ++count_;
    kept_.push_back(std::move(finding));
    if (kept_.size() >= 20 * kMaxKept) sort();
  }
  void add_unnamed(std::int64_t more) { count_ += more; }
  std::int64_t count() const { return count_; }
  // The first ones by file and offset, independent of the threads.
  std::vector<Finding> first() {
    const std::lock_guard lock(mutex_);
    sort();
    return kept_;
  }

 private:
  void sort() {
    const auto key = [](const Finding& one) { return std::tie(one.file, one.record, one.offset, one.problem); };
    std::sort(kept_.begin(), kept_.end(), [&key](const Finding& a, const Finding& b) { return key(a) < key(b); });
    if (kept_.size() > kMaxKept) kept_.resize(kMaxKept);
  }

  std::mutex mutex_;
  std::vector<Finding> kept_;
  std::atomic<std::int64_t> count_ = 0;
};

struct VerifyRequest {
  std::vector<std::string> paths;
  data::ImagePipelineOptions from;  // how images and labels are named
  bool label_key_given = false;
  bool decode = false;
  bool first = false;
  int threads = 0;
  bool json = false;
};

// Decoders and buffers of one thread.
struct Checker {
  data::Codecs codecs;
  data::Image image;
  std::string buffer;

  Status check(const ImageRecord& record, bool decode) {
    XOE_ASSIGN(const data::ImageFacts facts, data::read_image_facts(record, codecs));
    if (!decode || !facts.encoding) return {};
    return codecs.of(*facts.encoding).decode(record.bytes, image);
  }
};

class Verification {
 public:
  explicit Verification(const VerifyRequest& request) : request_(request), checkers_(worker_count(request.threads)) {}

  Status run() {
    for (const std::string& path : request_.paths) XOE_TRY(plan(path));
    ProgressLine line("xoe data verify", !request_.json);
    const auto show = [&] {
      line.show(share(), fmt::format("{}, {} bad", counted(static_cast<std::int64_t>(records_.load()), "record"),
                                     findings_.count()));
    };
    const auto work = [&](std::size_t thread, std::size_t i) {
      if (!enough()) tasks_[i](checkers_[thread]);
    };
    if (run_all(request_.threads, tasks_.size(), work, show) && !stopped()) return {};
    return failure(Code::kUnavailable, "stopped after {}, {} of them bad", counted(records_, "record"),
                   findings_.count());
  }

  std::size_t files() const { return files_; }
  std::int64_t records() const { return records_; }
  std::uint64_t bytes() const { return bytes_; }
  Findings& findings() { return findings_; }
  // Files that are no part of the data sets, and records in which no image was looked for.
  std::vector<std::string> notes() const {
    std::vector<std::string> notes = notes_;
    if (without_image_ > 0)
      notes.push_back(fmt::format("{} without {}: their images, if there are any, were not looked at (--image-key)",
                                  counted(without_image_, "record"), request_.from.image_key));
    if (labels_of_0_ > 0)
      notes.push_back(
          fmt::format("{} with a label 0, where labels should count from 1: if they count from 0, "
                      "--label-offset 0 must be said wherever they are read",
                      counted(labels_of_0_, "record")));
    return notes;
  }

 private:
  using Task = std::function<void(Checker&)>;

  // Of one record file.
  struct RecordTally {
    std::string path;
    std::int64_t classes = 0;        // 0: not known
    std::int64_t without_image = 0;  // records
    std::string features;            // of the first of those
  };

  bool enough() const { return stopped() || (request_.first && findings_.count() > 0); }
  // All tasks count the same; the task of a record file counts in fractions while it is read.
  double share() const { return done_ / static_cast<double>(std::max<std::size_t>(tasks_.size(), 1)); }
  void add_share(double more) {
    for (double now = done_; !done_.compare_exchange_weak(now, now + more);) {
    }
  }

  Status plan(const std::string& path) {
    if (!data::is_there(path)) return failure(Code::kUnavailable, "{}: there is no such file or folder", path);
    XOE_ASSIGN(const SourceFormat format, data::detect_source_format({.directory = path}));
    if (format == SourceFormat::kTfRecord) return plan_record_files(path);
    const bool whole = format == SourceFormat::kTar || !data::is_directory(path);
    const auto train = open(path, format, true, !whole);
    if (whole) return {};
    const auto validation = open(path, format, false, train);
    if (!train && !validation) return failure(Code::kUnavailable, "{}: neither split can be opened", path);
    return {};
  }

  Status plan_record_files(const std::string& path) {
    data::BadRecords bad;
    data::MissingData missing(true, &bad);
    XOE_ASSIGN(const auto files, record_files(path, missing));
    const bool directory = data::is_directory(path);
    const std::filesystem::path folder =
        directory ? std::filesystem::path(path) : std::filesystem::path(path).parent_path();
    const std::string names = (folder / "labels.txt").string();
    if (directory && data::is_there(names))
      if (const auto size = data::size_of_file(names); !size) missing.add(names, size.error().message());
    add(bad, path);
    const auto classes = data::read_names(names);
    if (!classes && classes.error().code() == Code::kDataLoss) findings_.add({path, {}, {}, classes.error().message()});
    files_ += files.size();
    for (const std::string& file : files)
      tasks_.emplace_back([this, file, count = classes ? std::ssize(*classes) : 0](Checker& checker) {
        check_records(file, count, checker);
      });
    return {};
  }

  // False: the data set lacks this split, which is no error.
  bool open(const std::string& path, SourceFormat format, bool training, bool may_lack) {
    data::ImagePipelineOptions options{.directory = path,
                                       .format = format,
                                       .training = training,
                                       .allow_missing = true,
                                       .max_bad = INT64_MAX,
                                       .label_offset = request_.from.label_offset};
    if (format == SourceFormat::kTar)
      options.pattern = data::is_directory(path) ? "*.t[ag][rz]*" : "";  // compressed, too
    data::LeftOut left_out;
    auto opened = data::open_image_source(options, &left_out);
    add(left_out.missing, path);
    add(left_out.bad, path);
    if (!opened) {
      const bool said = left_out.missing.count() + left_out.bad.count() > 0;
      const bool lacks = may_lack && !said && !data::has_split(options);
      if (!lacks) findings_.add({path, {}, {}, opened.error().message()});
      return !lacks;
    }
    for (const auto& notes : {(*opened)->warnings(), (*opened)->remarks()})
      notes_.insert(notes_.end(), notes.begin(), notes.end());
    sources_.push_back(std::move(*opened));
    plan_records(*sources_.back());
    return true;
  }

  void add(const data::BadRecords& bad, const std::string& path) {
    for (std::string& message : bad.messages()) findings_.add({path, {}, {}, std::move(message)});
    findings_.add_unnamed(bad.count() - std::ssize(bad.messages()));
  }

  void plan_records(const data::ImageSource& source) {
    constexpr std::int64_t kRecordsPerTask = 64;
    files_ += source.own_files() ? static_cast<std::size_t>(source.records()) : source.groups();
    for (std::int64_t first = 0; first < source.records(); first += kRecordsPerTask)
      tasks_.emplace_back([this, &source, first](Checker& checker) {
        const std::int64_t end = std::min(first + kRecordsPerTask, source.records());
        for (std::int64_t record = first; record < end && !enough(); ++record) check_record(source, record, checker);
        add_share(1);
      });
  }

  void check_record(const data::ImageSource& source, std::int64_t record, Checker& checker) {
    const auto read = source.read(record, checker.buffer);
    Status checked = read ? checker.check(*read, request_.decode) : Status(failure(read.error()));
    ++records_;
    if (read) bytes_ += read->bytes.size();
    if (checked && !source.multi_label())
      if (const auto number = data::class_of(source, read->label, source.classes()); !number)
        checked = failure(number.error());
    if (!checked) findings_.add({source.name(record), {}, {}, checked.error().message()});
  }

  void check_records(const std::string& path, std::int64_t classes, Checker& checker) {
    constexpr std::size_t kStreamBlock = std::size_t{1} << 20;
    auto stream = data::RecordStream::open(path, data::Compression::kAuto, kStreamBlock);
    const auto file = data::OpenFile::open(path);
    if (file && file->bytes == 0) {
      findings_.add({path, {}, {}, "empty"});
      return add_share(1);
    }
    if (!stream || !file) {
      findings_.add({path, {}, {}, (stream ? file.error() : stream.error()).message()});
      return add_share(1);
    }
    double seen = 0;
    RecordTally tally{.path = path, .classes = classes, .features = {}};
    for (std::int64_t number = 0; !enough() && step(*stream, tally, number, checker); ++number) {
      // In a compressed file the offset is one of decompressed bytes, so this is too high.
      const double now = std::min(1.0, static_cast<double>(stream->offset()) / static_cast<double>(file->bytes));
      add_share(now - std::exchange(seen, now));
    }
    bytes_ += file->bytes;
    add_share(1 - seen);
    add(tally);
  }
  // Where every image was to be decoded, records without one are not right.
  void add(const RecordTally& tally) {
    if (tally.without_image == 0) return;
    if (!request_.decode) {
      without_image_ += tally.without_image;
      return;
    }
    findings_.add({tally.path,
                   {},
                   {},
                   fmt::format("{} without an image in the feature {}, so there was none to decode; {}",
                               counted(tally.without_image, "record"), request_.from.image_key,
                               tally.features.empty() ? "there are no features"
                                                      : "--image-key names the right one of " + tally.features)});
  }
  // False: the end.
  bool step(data::RecordStream& stream, RecordTally& tally, std::int64_t number, Checker& checker) {
    const std::uint64_t offset = stream.offset();
    const auto place = stream.locate();
    if (place && !*place) return false;
    const auto bytes = place ? stream.take(**place) : Result<std::string_view>(failure(place.error()));
    std::string problem;
    if (place && stream.offset() != offset) ++records_;  // as a whole, though its data may be wrong: no rest of one
    if (bytes) {
      if (auto checked = check_example(*bytes, tally, checker); !checked) problem = checked.error().message();
    } else {
      problem = bytes.error().message();
      if (!stream.broken() && stream.offset() == offset) {
        (void)stream.resynchronise();  // a failure shows as broken()
        problem += fmt::format("; unreadable up to byte {}", stream.offset());
      }
      if (stream.broken()) problem += "; the rest of the file cannot be read";
    }
    if (!problem.empty()) findings_.add({tally.path, number, offset, std::move(problem)});
    return !stream.broken();
  }
  Status check_example(std::string_view bytes, RecordTally& tally, Checker& checker) {
    XOE_ASSIGN(const auto example, data::ExampleView::parse(bytes));
    const data::FeatureView* encoded = example.find(request_.from.image_key);
    const auto image = encoded != nullptr ? encoded->only_bytes() : std::nullopt;
    if (image) {
      XOE_TRY(checker.check({.bytes = *image, .targets = {}}, request_.decode));
    } else if (tally.without_image++ == 0) {
      for (const data::FeatureView& feature : example.features())
        tally.features += (tally.features.empty() ? "" : ", ") + std::string(feature.name());
    }
    return check_labels(example, tally.classes);
  }
  // Records need not have labels, unless --label-key says so.
  Status check_labels(const data::ExampleView& example, std::int64_t classes) {
    const data::FeatureView* feature = example.find(request_.from.label_key);
    const bool numbers = feature != nullptr && feature->kind() == data::FeatureKind::kIntegers;
    if (feature != nullptr && !numbers && feature->size() > 0)
      return failure(Code::kDataLoss, "the feature {} holds values of the kind {}, not whole numbers (int64)",
                     request_.from.label_key, feature_kind_name(feature->kind()));
    if (!numbers && request_.label_key_given)
      return failure(Code::kDataLoss, "no whole number in the feature {}", request_.from.label_key);
    if (!numbers) return {};
    std::vector<std::int64_t> labels;
    feature->append_to(labels);
    const std::int64_t lowest = data::label_offset_of(request_.from, 1);
    const bool assumed = request_.from.label_offset == data::kAutoLabelOffset;
    for (const std::int64_t label : labels) {
      if (label == 0 && assumed) {
        ++labels_of_0_;
      } else if (label < lowest) {
        return failure(Code::kDataLoss, "label {}; they count from {}", label, lowest);
      } else if (classes > 0 && static_cast<std::uint64_t>(label) - static_cast<std::uint64_t>(lowest) >=
                                    static_cast<std::uint64_t>(classes)) {
        return failure(Code::kDataLoss, "label {}; the {} have labels {} to {}", label, counted(classes, "class"),
                       lowest, lowest + classes - 1);
      } else if (label >= data::kMaxClasses) {
        return failure(Code::kDataLoss, "label {}; at most {} classes are supported", label, data::kMaxClasses);
      }
    }
    return {};
  }

  const VerifyRequest& request_;
  std::vector<Checker> checkers_;
  std::vector<data::SourcePtr> sources_;
  std::vector<Task> tasks_;
  Findings findings_;
  std::vector<std::string> notes_;
  std::size_t files_ = 0;
  std::atomic<std::int64_t> records_ = 0;
  std::atomic<std::int64_t> without_image_ = 0;  // records of other features, which need not be images
  std::atomic<std::int64_t> labels_of_0_ = 0;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<double> done_ = 0;
};

std::string location_of(const Finding& finding) {
  if (!finding.record) return finding.file;
  return data::record_name(finding.file, *finding.record, finding.offset.value_or(0));
}

void print_json(const VerifyRequest& request, Verification& verification) {
  Json out = {{"files", verification.files()},          {"records", verification.records()},
              {"bytes", verification.bytes()},          {"decoded", request.decode},
              {"bad", verification.findings().count()}, {"findings", Json::array()},
              {"notes", verification.notes()}};
  for (const Finding& finding : verification.findings().first()) {
    Json one = {{"file", finding.file}};
    if (finding.record) one["record"] = *finding.record;
    if (finding.offset) one["offset"] = *finding.offset;
    one["problem"] = finding.problem;
    out["findings"].push_back(std::move(one));
  }
  fmt::print("{}\n", json_text(out));
}

void print_text(const VerifyRequest& request, Verification& verification) {
  const std::int64_t bad = verification.findings().count();
  const auto first = verification.findings().first();
  for (const Finding& finding : first) {
    const std::string place = location_of(finding);
    // Messages of a source name its file already.
    const bool named = finding.problem.starts_with(finding.file);
    fmt::print("{} {}\n", paint(Paint::kBad, "bad"),
               printable_utf8(named ? finding.problem : place + ": " + finding.problem));
  }
  if (bad > static_cast<std::int64_t>(first.size())) fmt::print("... and {} more\n", bad - std::ssize(first));
  for (const std::string& note : verification.notes()) fmt::print("note {}\n", printable_utf8(note));
  fmt::print("{}, {}, {}: {}\n", counted(static_cast<std::int64_t>(verification.files()), "file"),
             counted(verification.records(), "record"), human_bytes(verification.bytes()),
             bad > 0 ? paint(Paint::kBad, fmt::format("{} bad", bad))
                     : paint(Paint::kGood, request.decode ? "no damage, every image decodes" : "no damage"));
}

Result<int> verify(const VerifyRequest& request) {
  catch_signals();
  Verification verification(request);
  XOE_TRY(verification.run());
  request.json ? print_json(request, verification) : print_text(request, verification);
  return verification.findings().count() > 0 ? kFailed : 0;
}

}  // namespace

void add_verify(CLI::App& app, int& code) {
  CLI::App* verb = app.add_subcommand("verify", "look for damage: checksums, examples, headers, missing files, images");
  const auto request = std::make_shared<VerifyRequest>();
  verb->add_option("PATH", request->paths, "data sets or files of any format, compressed too")->required();
  verb->add_flag("--decode", request->decode, "decode every image in full, too");
  add_label_options(*verb, request->from);
  verb->add_flag("--first", request->first, "stop at the first bad one");
  add_number(*verb, "--threads", request->threads, 0, 1024, "0: all cores");
  verb->add_flag("--json", request->json, "print the result as JSON");
  verb->footer(
      "Lists up to 100 bad places with file, record and byte. Exit code 1 if there is any.\n\nExample:\n"
      "  xoe data verify --decode data");
  verb->callback([request, verb, &code] {
    request->label_key_given = verb->count("--label-key") > 0;
    code = finish("verify", verify(*request), request->json);
  });
}

}  // namespace xoe::tools
