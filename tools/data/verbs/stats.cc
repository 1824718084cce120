// xoe data stats: what a data set consists of.
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "data/jpeg/jpeg.h"
#include "data/png/png.h"
#include "data/source/formats.h"
#include "tools/data/convert/convert.h"
#include "tools/data/verbs/image_statistics.h"
#include "tools/data/verbs/progress_line.h"
#include "tools/data/verbs/verb.h"
#include "tools/data/verbs/verbs.h"

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

// Of one thread.
class Counter {
 public:
  void count(const data::ImageSource& source, std::int64_t record, bool sampled) {
    if (auto counted = try_count(source, record, sampled); !counted) {
      ++figures_.bad;
      if (figures_.first_bad.empty()) figures_.first_bad = counted.error().message();
    }
  }
  const Figures& figures() const { return figures_; }

 private:
  Status try_count(const data::ImageSource& source, std::int64_t record, bool sampled) {
    XOE_ASSIGN(const ImageRecord image, source.read(record, buffer_));
    const auto named = [&](const Error& error) {
      return failure(error.code(), "{}: {}", source.name(record), error.message());
    };
    const auto facts = data::read_image_facts(image);
    if (!facts) return named(facts.error());
    if (sampled)
      if (auto decoded = decode(image, *facts); !decoded) return named(decoded.error());
    ++figures_.images;
    ++figures_.formats[fmt::format("{}, {}", image_kind_name(facts->kind), facts->colour())];
    figures_.width.add(static_cast<std::uint64_t>(facts->width));
    figures_.height.add(static_cast<std::uint64_t>(facts->height));
    figures_.bytes.add(image.bytes.size());
    if (!source.multi_label()) {
      ++figures_.classes[image.label - source.label_offset()];
      return {};
    }
    bool any = false;
    for (std::size_t i = 0; i < image.targets.size(); ++i)
      if (image.targets[i] != 0) {
        ++figures_.classes[static_cast<std::int64_t>(i)];
        any = true;
      }
    if (!any) ++figures_.unlabelled;
    return {};
  }

  Status decode(const ImageRecord& record, const ImageFacts& facts) {
    if (facts.jpeg()) XOE_TRY(jpeg_.decode(record.bytes, image_));
    if (facts.kind == data::ImageKind::kPng) XOE_TRY(png_.decode(record.bytes, image_));
    if (facts.kind == data::ImageKind::kPixels) {
      image_.resize(facts.width, facts.height);
      const auto channels = static_cast<std::size_t>(facts.channels);
      for (std::size_t i = 0; i < record.bytes.size(); ++i)
        for (std::size_t c = 0; c < 3; c += channels)
          image_.row(0)[i / channels * 3 + i % channels + c] = static_cast<std::uint8_t>(record.bytes[i]);
    }
    figures_.levels.add(image_);
    return {};
  }

  data::JpegDecoder jpeg_;
  data::PngDecoder png_;
  data::Image image_;
  std::string buffer_;
  Figures figures_;
};

Result<Figures> count(const data::ImageSource& source, const StatsRequest& request) {
  constexpr std::int64_t kAtOnce = 64;
  const std::int64_t records = source.records();
  const std::int64_t sample = std::min(request.sample, records);
  std::vector<Counter> counters(threads_of(request.threads));
  std::atomic<std::int64_t> done = 0;
  ProgressLine line("xoe data stats", !request.json);
  const bool all = run_all(
      request.threads, static_cast<std::size_t>((records + kAtOnce - 1) / kAtOnce),
      [&](std::size_t thread, std::size_t i) {
        const std::int64_t first = static_cast<std::int64_t>(i) * kAtOnce;
        for (std::int64_t record = first; record < std::min(first + kAtOnce, records); ++record, ++done) {
          counters[thread].count(source, record, record * sample % records < sample);  // evenly over all
        }
      },
      [&] { line.show(done, records, "images"); });
  if (!all || stopped()) return failure(Code::kUnavailable, "stopped after {} images", done.load());
  Figures figures;
  for (const Counter& counter : counters) figures.add(counter.figures());
  return figures;
}

std::string name_of(const std::vector<std::string>& names, std::int64_t label) {
  return label >= 0 && label < std::ssize(names) ? names[static_cast<std::size_t>(label)] : std::to_string(label);
}

Json spread(const Spread& numbers) {
  return {{"min", numbers.min()}, {"median", numbers.median()}, {"max", numbers.max()}};
}

void print_json(const StatsRequest& request, const data::ImageSource& source, const Figures& figures) {
  const auto names = source.class_names();
  Json classes = Json::array();
  for (const auto& [label, number] : figures.classes)
    classes.push_back({{"class", label}, {"name", name_of(names, label)}, {"images", number}});
  const Levels& levels = figures.levels;
  Json out = {{"path", request.from.directory},
              {"format", source_format_name(request.from.format)},
              {"images", figures.images},
              {"bad", figures.bad + source.lost()},
              {"bytes", figures.bytes.sum()},
              {"classes", std::max<std::int64_t>(source.classes(), std::ssize(figures.classes))},
              {"multi_label", source.multi_label()},
              {"per_class", classes},
              {"width", spread(figures.width)},
              {"height", spread(figures.height)},
              {"file_bytes", spread(figures.bytes)},
              {"formats", figures.formats},
              {"sampled", levels.images},
              {"mean", {levels.mean(0), levels.mean(1), levels.mean(2)}},
              {"deviation", {levels.deviation(0), levels.deviation(1), levels.deviation(2)}},
              {"suggested_shards", data::suggest_shards(figures.images, figures.bytes.sum())}};
  if (source.multi_label()) out["images_without_class"] = figures.unlabelled;
  if (!figures.first_bad.empty()) out["first_bad"] = figures.first_bad;
  fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void print_classes(const data::ImageSource& source, const Figures& figures) {
  constexpr std::size_t kMostRows = 40;
  constexpr double kWidth = 40;
  const auto names = source.class_names();
  std::int64_t most = 1;
  std::size_t widest = 1;
  for (const auto& [label, number] : figures.classes) {
    most = std::max(most, number);
    widest = std::clamp(name_of(names, label).size(), widest, std::size_t{24});
  }
  std::size_t rows = 0;
  for (const auto& [label, number] : figures.classes) {
    if (++rows > kMostRows) {
      fmt::print("  ... and {} more classes\n", figures.classes.size() - kMostRows);
      break;
    }
    const auto length = static_cast<std::size_t>(kWidth * static_cast<double>(number) / static_cast<double>(most));
    fmt::print("  {:<{}.24} {:>8} {:>5.1f} % {}\n", name_of(names, label), widest, number,
               100.0 * static_cast<double>(number) / static_cast<double>(figures.images),
               paint(Paint::kBar, std::string(length, '#')));
  }
  if (source.multi_label()) fmt::print("  {} images are of no class\n", figures.unlabelled);
}

void print_text(const StatsRequest& request, const data::ImageSource& source, const Figures& figures) {
  const auto row = [](std::string_view what, const Spread& numbers) {
    fmt::print("{:<8}{} to {}, median {}\n", what, numbers.min(), numbers.max(), numbers.median());
  };
  fmt::print("{}: {}, {} images, {}, {} classes{}\n", request.from.directory, source_format_name(request.from.format),
             figures.images, human_bytes(figures.bytes.sum()),
             std::max<std::int64_t>(source.classes(), std::ssize(figures.classes)),
             source.multi_label() ? ", several an image" : "");
  if (figures.bad + source.lost() > 0)
    fmt::print("{}: {}\n", paint(Paint::kBad, fmt::format("{} bad ones left out", figures.bad + source.lost())),
               figures.first_bad.empty() ? "xoe data verify names them" : figures.first_bad);
  row("width", figures.width);
  row("height", figures.height);
  row("bytes", figures.bytes);
  for (const auto& [format, number] : figures.formats) fmt::print("{:<8}{} {}\n", "format", number, format);
  const Levels& levels = figures.levels;
  if (levels.images > 0)
    fmt::print("levels  mean {:.4f} {:.4f} {:.4f}, deviation {:.4f} {:.4f} {:.4f} (of 1, in {} images)\n",
               levels.mean(0), levels.mean(1), levels.mean(2), levels.deviation(0), levels.deviation(1),
               levels.deviation(2), levels.images);
  fmt::print("files   {} are suggested for TFRecord or tar\n",
             data::suggest_shards(figures.images, figures.bytes.sum()));
  print_classes(source, figures);
}

int stats(StatsRequest& request) {
  catch_signals();
  request.from.on_error = data::OnError::kSkip;
  request.from.max_bad = INT64_MAX;
  const auto format = data::detect_source_format(request.from);
  if (!format) return fail("stats", format.error(), request.json);
  request.from.format = *format;
  const auto source = data::open_image_source(request.from);
  if (!source) return fail("stats", source.error(), request.json);
  const auto figures = count(**source, request);
  if (!figures) return fail("stats", figures.error(), request.json);
  request.json ? print_json(request, **source, *figures) : print_text(request, **source, *figures);
  return end(0);
}

}  // namespace

void add_stats(CLI::App& app, int& code) {
  CLI::App* verb = app.add_subcommand("stats", "count classes, sizes and kinds of images, and measure their levels");
  const auto request = std::make_shared<StatsRequest>();
  verb->add_option("PATH", request->from.directory, "a data set of any format")->required();
  add_split_option(*verb, request->from.training);
  verb->add_option("--sample", request->sample, "images that are decoded for the levels")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--pattern", request->from.pattern, "of file names, for TFRecord and tar");
  verb->add_flag("--multi-label", request->from.multi_label, "the TFRecords' images can be of several classes");
  verb->add_option("--classes", request->from.classes, "of TFRecords without labels.txt");
  verb->add_option("--threads", request->threads, "0: all cores")->capture_default_str()->check(CLI::Range(0, 1024));
  verb->add_flag("--json", request->json, "print the result as JSON");
  verb->footer("Example:\n  xoe data stats photos --split validation");
  verb->callback([request, &code] { code = stats(*request); });
}

}  // namespace xoe::tools
