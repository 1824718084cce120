// xoe data stats: statistics of a data set.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "data/cli/convert/convert.h"
#include "data/cli/image_facts.h"
#include "data/cli/verbs/progress_line.h"
#include "data/cli/verbs/verbs.h"
#include "data/failure_in.h"
#include "data/load/assumed_labels.h"
#include "data/source/formats.h"

namespace xoe::tools {
namespace {

using data::ImageFacts;
using data::ImageRecord;
using Json = nlohmann::ordered_json;

struct StatsRequest {
  data::ImagePipelineOptions from;
  std::int64_t sample = 1000;
  int threads = 0;
  bool json = false;
};

// Minimum, maximum, median and sum of numbers.
class Spread {
 public:
  void add(std::uint64_t value) {
    ++counts_[value];
    sum_ += value;
    ++count_;
  }
  void add(const Spread& other) {
    for (const auto& [value, count] : other.counts_) counts_[value] += count;
    sum_ += other.sum_;
    count_ += other.count_;
  }
  std::uint64_t min() const { return counts_.empty() ? 0 : counts_.begin()->first; }
  std::uint64_t max() const { return counts_.empty() ? 0 : counts_.rbegin()->first; }
  std::uint64_t median() const {
    std::int64_t before = 0;
    for (const auto& [value, count] : counts_)
      if (before += count; 2 * before >= count_) return value;
    return 0;
  }
  std::uint64_t sum() const { return sum_; }

 private:
  std::map<std::uint64_t, std::int64_t> counts_;
  std::uint64_t sum_ = 0;
  std::int64_t count_ = 0;
};

// Mean and deviation of red, green and blue, as fractions of the highest level.
struct Levels {
  std::int64_t images = 0;
  std::int64_t pixels = 0;
  std::array<double, 3> sum = {};
  std::array<double, 3> squares = {};

  void add(const data::Image& image) {
    std::array<std::uint64_t, 3> levels = {};
    std::array<std::uint64_t, 3> squared = {};
    const std::size_t bytes = image.bytes();
    const std::uint8_t* pixel = image.row(0);
    for (std::size_t i = 0; i < bytes; ++i) {
      levels[i % 3] += pixel[i];
      squared[i % 3] += std::uint64_t{pixel[i]} * pixel[i];
    }
    for (std::size_t c = 0; c < 3; ++c) {
      sum[c] += static_cast<double>(levels[c]) / 255;
      squares[c] += static_cast<double>(squared[c]) / (255.0 * 255.0);
    }
    ++images;
    pixels += static_cast<std::int64_t>(bytes / 3);
  }
  void add(const Levels& other) {
    images += other.images;
    pixels += other.pixels;
    for (std::size_t c = 0; c < 3; ++c) {
      sum[c] += other.sum[c];
      squares[c] += other.squares[c];
    }
  }
  double mean(std::size_t channel) const { return pixels == 0 ? 0 : sum[channel] / static_cast<double>(pixels); }
  double deviation(std::size_t channel) const {
    if (pixels == 0) return 0;
    const double mean_value = mean(channel);
    return std::sqrt(std::max(0.0, squares[channel] / static_cast<double>(pixels) - mean_value * mean_value));
  }
};

struct DataSetStatistics {
  std::int64_t images = 0;
  std::int64_t bad = 0;
  std::map<std::int64_t, std::string> first_bad;  // why, by record
  std::optional<Error> wrong;                     // what no image is left out for: the options do not fit the data
  bool confirmed = false;                         // a record names its class as its label does
  std::int64_t unlabelled = 0;                    // images without a class, where an image can have several
  std::map<std::int64_t, std::int64_t> classes;
  std::map<std::string, std::int64_t> formats;
  Spread width;
  Spread height;
  Spread bytes;
  Levels levels;

  void add(const DataSetStatistics& other) {
    images += other.images;
    bad += other.bad;
    first_bad.insert(other.first_bad.begin(), other.first_bad.end());
    if (!wrong) wrong = other.wrong;
    unlabelled += other.unlabelled;
    confirmed = confirmed || other.confirmed;
    for (const auto& [label, count] : other.classes) classes[label] += count;
    for (const auto& [format, count] : other.formats) formats[format] += count;
    width.add(other.width);
    height.add(other.height);
    bytes.add(other.bytes);
    levels.add(other.levels);
  }
};

// Counts on one thread.
class StatisticsCounter {
 public:
  void count(const data::ImageSource& source, std::int64_t record, bool sampled) {
    if (auto counted = try_count(source, record, sampled); !counted) {
      if (!data::may_skip(counted.error()) && !statistics_.wrong) statistics_.wrong = counted.error();
      ++statistics_.bad;
      if (statistics_.first_bad.size() < data::BadRecords::kMostMessages)
        statistics_.first_bad.emplace(record, counted.error().message());
    }
  }
  const DataSetStatistics& statistics() const { return statistics_; }

 private:
  Status try_count(const data::ImageSource& source, std::int64_t record, bool sampled) {
    XOE_ASSIGN(const ImageRecord image, source.read(record, buffer_));
    const auto number =
        source.multi_label() ? Result<std::int64_t>(0) : data::class_of(source, image.label, source.classes());
    if (!number) return data::failure_in(source.name(record), number.error());
    const auto facts = data::read_image_facts(image, codecs_);
    if (!facts) return data::failure_in(source.name(record), facts.error());
    if (!statistics_.confirmed && (sampled || asked_ < kAskedAtLeast)) {
      ++asked_;
      statistics_.confirmed = source.label_confirmed(record, label_buffer_);
    }
    if (sampled)
      if (auto decoded = decode(image, *facts); !decoded) return data::failure_in(source.name(record), decoded.error());
    ++statistics_.images;
    ++statistics_.formats[fmt::format("{}, {}", facts->kind, facts->colour())];
    statistics_.width.add(static_cast<std::uint64_t>(facts->width));
    statistics_.height.add(static_cast<std::uint64_t>(facts->height));
    statistics_.bytes.add(image.bytes.size());
    if (!source.multi_label()) {
      ++statistics_.classes[*number];
      return {};
    }
    bool any = false;
    for (std::size_t i = 0; i < image.targets.size(); ++i)
      if (image.targets[i] != 0) {
        ++statistics_.classes[static_cast<std::int64_t>(i)];
        any = true;
      }
    if (!any) ++statistics_.unlabelled;
    return {};
  }

  Status decode(const ImageRecord& record, const ImageFacts& facts) {
    if (facts.encoding) {
      XOE_TRY(codecs_.of(*facts.encoding).decode(record.bytes, image_));
    } else {
      image_.resize(facts.width, facts.height);
      const auto channels = static_cast<std::size_t>(facts.channels);
      for (std::size_t i = 0; i < record.bytes.size(); ++i)
        for (std::size_t c = 0; c < 3; c += channels)
          image_.row(0)[i / channels * 3 + i % channels + c] = static_cast<std::uint8_t>(record.bytes[i]);
    }
    statistics_.levels.add(image_);
    return {};
  }

  static constexpr int kAskedAtLeast = 64;  // records, whether they name their class

  int asked_ = 0;
  data::Codecs codecs_;
  data::Image image_;
  std::string buffer_;
  std::string label_buffer_;
  DataSetStatistics statistics_;
};

Result<DataSetStatistics> count(const data::ImageSource& source, const StatsRequest& request) {
  constexpr std::int64_t kRecordsPerTask = 64;
  const std::int64_t records = source.records();
  const std::int64_t sample = std::min(request.sample, records);
  std::vector<StatisticsCounter> counters(worker_count(request.threads));
  std::atomic<std::int64_t> done = 0;
  ProgressLine line("xoe data stats", !request.json);
  const bool all = run_all(
      request.threads, static_cast<std::size_t>((records + kRecordsPerTask - 1) / kRecordsPerTask),
      [&](std::size_t thread, std::size_t i) {
        const std::int64_t first = static_cast<std::int64_t>(i) * kRecordsPerTask;
        for (std::int64_t record = first; record < std::min(first + kRecordsPerTask, records); ++record, ++done) {
          counters[thread].count(source, record, record * sample % records < sample);  // evenly spread
        }
      },
      [&] { line.show(done, records, "images"); });
  if (!all || stopped()) return failure(Code::kUnavailable, "stopped after {}", counted(done, "image"));
  DataSetStatistics statistics;
  for (const StatisticsCounter& counter : counters) statistics.add(counter.statistics());
  if (statistics.wrong) return failure(*statistics.wrong);
  return statistics;
}

std::string name_of(const std::vector<std::string>& names, std::int64_t label) {
  if (label < 0 || label >= std::ssize(names)) return std::to_string(label);
  return names[static_cast<std::size_t>(label)];
}

// Files that are no part of the data set, and what was assumed of labels.
std::vector<std::string> notes_of(const StatsRequest& request, const data::ImageSource& source,
                                  const DataSetStatistics& statistics) {
  std::vector<std::string> notes = source.warnings();
  std::ranges::move(source.remarks(), std::back_inserter(notes));
  if (statistics.classes.empty()) return notes;
  const std::int64_t first = source.label_offset();
  const data::LabelsSeen seen{.records = statistics.images,
                              .lowest = first + statistics.classes.begin()->first,
                              .highest = first + statistics.classes.rbegin()->first,
                              .confirmed = statistics.confirmed};
  if (auto assumed = data::describe_assumed_offset(source, request.from.directory, seen); !assumed.empty())
    notes.push_back(std::move(assumed));
  return notes;
}

// As the iterator of images counts them: one more than the highest class, where the layout does not tell.
std::int64_t classes_of(const data::ImageSource& source, const DataSetStatistics& statistics) {
  if (source.classes() > 0 || statistics.classes.empty()) return source.classes();
  const std::int64_t highest = statistics.classes.rbegin()->first;
  return highest < INT64_MAX ? highest + 1 : highest;
}

Json spread(const Spread& numbers) {
  return {{"min", numbers.min()}, {"median", numbers.median()}, {"max", numbers.max()}};
}

void print_json(const StatsRequest& request, const data::ImageSource& source, const DataSetStatistics& statistics,
                const data::LeftOut& left_out) {
  const auto names = source.class_names();
  Json classes = Json::array();
  for (const auto& [label, number] : statistics.classes)
    classes.push_back({{"class", label}, {"name", name_of(names, label)}, {"images", number}});
  const Levels& levels = statistics.levels;
  Json out = {{"path", request.from.directory},
              {"format", source_format_name(request.from.format)},
              {"images", statistics.images},
              {"bad", left_out.bad.count()},
              {"bad_images", left_out.bad.messages()},
              {"missing", left_out.missing.count()},
              {"missing_parts", left_out.missing.messages()},
              {"bytes", statistics.bytes.sum()},
              {"classes", classes_of(source, statistics)},
              {"distinct_labels", statistics.classes.size()},
              {"multi_label", source.multi_label()},
              {"per_class", classes},
              {"width", spread(statistics.width)},
              {"height", spread(statistics.height)},
              {"file_bytes", spread(statistics.bytes)},
              {"formats", statistics.formats},
              {"sampled", levels.images},
              {"mean", {levels.mean(0), levels.mean(1), levels.mean(2)}},
              {"deviation", {levels.deviation(0), levels.deviation(1), levels.deviation(2)}},
              {"suggested_shards", data::suggest_shards(statistics.images, statistics.bytes.sum())}};
  if (source.multi_label()) out["images_without_class"] = statistics.unlabelled;
  if (left_out.bad.count() > 0) out["first_bad"] = left_out.bad.first();
  out["notes"] = notes_of(request, source, statistics);
  fmt::print("{}\n", json_text(out));
}

void print_classes(const data::ImageSource& source, const DataSetStatistics& statistics) {
  constexpr std::size_t kMaxRows = 40;
  constexpr double kWidth = 40;
  const auto names = source.class_names();
  std::int64_t most = 1;
  std::size_t widest = 1;
  for (const auto& [label, number] : statistics.classes) {
    most = std::max(most, number);
    widest = std::clamp(name_of(names, label).size(), widest, std::size_t{24});
  }
  std::size_t rows = 0;
  for (const auto& [label, number] : statistics.classes) {
    if (++rows > kMaxRows) {
      fmt::print("  ... and {} more classes\n", statistics.classes.size() - kMaxRows);
      break;
    }
    const auto length = static_cast<std::size_t>(kWidth * static_cast<double>(number) / static_cast<double>(most));
    fmt::print("  {:<{}.24} {:>8} {:>5.1f} % {}\n", printable_utf8(name_of(names, label)), widest, number,
               100.0 * static_cast<double>(number) / static_cast<double>(statistics.images),
               paint(Paint::kBar, std::string(length, '#')));
  }
  if (source.multi_label()) fmt::print("  {} without a class\n", counted(statistics.unlabelled, "image"));
}

void print_some(std::string_view noun, const data::BadRecords& left_out) {
  if (left_out.count() > 0)
    fmt::print("{}: {}\n", paint(Paint::kBad, counted(left_out.count(), noun) + " left out"),
               printable_utf8(left_out.text()));
}

void print_text(const StatsRequest& request, const data::ImageSource& source, const DataSetStatistics& statistics,
                const data::LeftOut& left_out) {
  const auto row = [](std::string_view what, const Spread& numbers) {
    fmt::print("{:<8}{} to {}, median {}\n", what, numbers.min(), numbers.max(), numbers.median());
  };
  const std::int64_t classes = classes_of(source, statistics);
  fmt::print("{}: {}, {}, {}, {}{}{}\n", request.from.directory, source_format_name(request.from.format),
             counted(statistics.images, "image"), human_bytes(statistics.bytes.sum()), counted(classes, "class"),
             std::ssize(statistics.classes) < classes
                 ? fmt::format(" ({})", counted(std::ssize(statistics.classes), "distinct label"))
                 : "",
             source.multi_label() ? ", several per image" : "");
  print_some("missing part", left_out.missing);
  print_some("bad image", left_out.bad);
  for (const std::string& note : notes_of(request, source, statistics)) fmt::print("{}\n", printable_utf8(note));
  row("width", statistics.width);
  row("height", statistics.height);
  row("bytes", statistics.bytes);
  for (const auto& [format, number] : statistics.formats) fmt::print("{:<8}{} {}\n", "format", number, format);
  const Levels& levels = statistics.levels;
  if (levels.images > 0)
    fmt::print("levels  mean {:.4f} {:.4f} {:.4f}, deviation {:.4f} {:.4f} {:.4f} (of 1, in {})\n", levels.mean(0),
               levels.mean(1), levels.mean(2), levels.deviation(0), levels.deviation(1), levels.deviation(2),
               counted(levels.images, "image"));
  fmt::print("files   suggested for TFRecord or tar: {}\n",
             data::suggest_shards(statistics.images, statistics.bytes.sum()));
  print_classes(source, statistics);
}

Result<int> stats(StatsRequest& request) {
  catch_signals();
  request.from.max_bad = INT64_MAX;
  XOE_ASSIGN(request.from.format, data::detect_source_format(request.from));
  data::LeftOut left_out;
  XOE_ASSIGN(const auto source, data::open_image_source(request.from, &left_out));
  XOE_ASSIGN(const auto statistics, count(*source, request));
  for (const auto& [record, why] : statistics.first_bad) left_out.bad.add(why);
  left_out.bad.add_unnamed(statistics.bad - std::ssize(statistics.first_bad));
  if (statistics.images == 0)
    return failure(Code::kDataLoss, "{}: no image can be read; {}", request.from.directory, left_out.bad.text());
  request.json ? print_json(request, *source, statistics, left_out)
               : print_text(request, *source, statistics, left_out);
  return 0;
}

}  // namespace

void add_stats(CLI::App& app, int& code) {
  CLI::App* verb = app.add_subcommand("stats", "count classes, sizes and kinds of images, and measure their levels");
  const auto request = std::make_shared<StatsRequest>();
  verb->add_option("PATH", request->from.directory, "a data set of any format")->required();
  add_split_option(*verb, request->from.training);
  add_missing_option(*verb, request->from);
  add_setting(*verb, "--sample", request->sample, "images that are decoded for the levels")
      ->check(CLI::NonNegativeNumber);
  add_field_option<&Images::pattern>(*verb, request->from);
  add_field_option<&Images::multi_label>(*verb, request->from);
  add_field_option<&Images::classes>(*verb, request->from);
  add_label_options(*verb, request->from);
  add_number(*verb, "--threads", request->threads, 0, 1024, "0: all cores");
  verb->add_flag("--json", request->json, "print the result as JSON");
  verb->footer("Example:\n  xoe data stats photos --split validation");
  verb->callback([request, &code] { code = finish("stats", stats(*request), request->json); });
}

}  // namespace xoe::tools
