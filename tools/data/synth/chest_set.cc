#include "tools/data/synth/chest_set.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"
#include "data/png/png.h"
#include "data/records/threads.h"
#include "data/source/nih_chest.h"
#include "data/stages/random.h"
#include "tools/data/output_directory.h"
#include "tools/data/require.h"
#include "tools/data/synth/radiograph.h"

namespace xoe::data::synth {
namespace {

constexpr std::int64_t kPerFolder = 5000;
constexpr std::int64_t kImagesInMemory = 256;
constexpr int kPerPatient = 2;

Status check(const ChestSetOptions& options) {
  XOE_TRY(require(options.images >= 1 && options.images <= 1000000, "images must be 1 to 1000000", options.images));
  XOE_TRY(require(options.test >= 0 && options.test <= 1000000, "test images must be 0 to 1000000", options.test));
  XOE_TRY(require(options.size >= 32 && options.size <= 4096, "the size must be 32 to 4096", options.size));
  return require(options.threads >= 0 && options.threads <= 1024, "threads must be 0 to 1024", options.threads);
}

class ChestSet {
 public:
  ChestSet(const ChestSetOptions& options, const Progress& progress, std::string directory)
      : options_(options), progress_(progress), directory_(std::move(directory)) {}

  Result<DataSetReport> make() {
    table_ =
        "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
        "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y],\n";
    const std::int64_t all = options_.images + options_.test;
    for (std::int64_t first = 0; first < all; first += kImagesInMemory) {
      const std::int64_t count = std::min(kImagesInMemory, all - first);
      XOE_TRY(write(first, count));
      if (!progress_(first + count, all))
        return failure(Code::kUnavailable, "stopped after {} images; nothing was kept", first + count);
    }
    XOE_TRY(write_file(directory_ + "/Data_Entry_2017.csv", table_));
    XOE_TRY(write_file(directory_ + "/train_val_list.txt", train_list_));
    if (options_.test > 0) XOE_TRY(write_file(directory_ + "/test_list.txt", test_list_));
    report_.images = options_.images;
    report_.validation = options_.test;
    report_.files = static_cast<int>(all);
    return report_;
  }

 private:
  struct RenderedImage {
    std::string name;
    std::string row;
    std::optional<Result<std::string>> png;
  };

  // The patients of test images come after those of the others.
  std::int64_t patient_of(std::int64_t number) const {
    if (number < options_.images) return number / kPerPatient + 1;
    return (options_.images + kPerPatient - 1) / kPerPatient + (number - options_.images) / kPerPatient + 1;
  }

  RenderedImage render(std::int64_t number) const {
    Random random(options_.seed, 3, static_cast<std::uint64_t>(number));
    std::vector<int> findings;
    for (const double chance : {0.5, 0.4, 0.3}) {
      if (!random.chance(chance)) break;
      findings.push_back(random.integer(0, static_cast<int>(kChestFindings.size()) - 1));
    }
    std::sort(findings.begin(), findings.end());
    findings.erase(std::unique(findings.begin(), findings.end()), findings.end());
    std::string names;
    for (const int finding : findings)
      names += fmt::format("{}{}", names.empty() ? "" : "|", kChestFindings[static_cast<std::size_t>(finding)]);
    const std::int64_t patient = patient_of(number);
    const std::int64_t visit = (number < options_.images ? number : number - options_.images) % kPerPatient;
    RenderedImage image;
    image.name = fmt::format("{:08}_{:03}.png", patient, visit);
    Random person(options_.seed, 4, static_cast<std::uint64_t>(patient));
    const int age = person.integer(18, 90);
    image.row = fmt::format("{},{},{},{},{},{},{},{},{},0.168,0.168,\n", image.name,
                            names.empty() ? "No Finding" : names, visit, patient, age, person.chance(0.5) ? "M" : "F",
                            random.chance(0.6) ? "PA" : "AP", options_.size, options_.size);
    const auto levels = render_radiograph(findings, options_.size, random.bits());
    image.png.emplace(
        encode_png({.width = options_.size, .height = options_.size, .colour = PngColour::kGrey, .samples = levels}));
    return image;
  }

  Status write(std::int64_t first, std::int64_t count) {
    std::vector<RenderedImage> images(static_cast<std::size_t>(count));
    for_each_in_threads(images.size(), thread_count(options_.threads),
                        [&](std::size_t i) { images[i] = render(first + static_cast<std::int64_t>(i)); });
    for (std::int64_t i = 0; i < count; ++i) XOE_TRY(keep(images[static_cast<std::size_t>(i)], first + i));
    return {};
  }

  Status keep(const RenderedImage& image, std::int64_t number) {
    if (!*image.png) return failure(image.png->error());
    const std::string folder = fmt::format("{}/images_{:03}/images", directory_, number / kPerFolder + 1);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return failure(Code::kUnavailable, "{}: cannot make the folder: {}", folder, error.message());
    XOE_ASSIGN(OutputFile file, OutputFile::create(folder + "/" + image.name));
    XOE_TRY(file.write(**image.png));
    XOE_TRY(file.finish_unflushed());
    report_.bytes += (*image.png)->size();
    table_ += image.row;
    (number < options_.images ? train_list_ : test_list_) += image.name + "\n";
    return {};
  }

  const ChestSetOptions& options_;
  const Progress& progress_;
  std::string directory_;
  std::string table_;
  std::string train_list_;
  std::string test_list_;
  DataSetReport report_;
};

}  // namespace

Result<DataSetReport> make_chest_set(const ChestSetOptions& options, const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  XOE_TRY(check(options));
  XOE_ASSIGN(OutputDirectory directory, OutputDirectory::create(options.directory));
  XOE_ASSIGN(DataSetReport report, ChestSet(options, progress, directory.path()).make());
  XOE_TRY(directory.finish());
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace xoe::data::synth
