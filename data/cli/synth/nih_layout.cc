#include "data/cli/synth/nih_layout.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "data/png/png.h"
#include "data/source/nih_chest.h"
#include "data/stages/random.h"
#include "data/threads.h"

namespace xoe::data::synth {
namespace {

constexpr std::int64_t kPerFolder = 5000;

struct Encoded {
  std::string name;
  std::string row;
  std::optional<Result<std::string>> png;
};

class NihLayout {
 public:
  NihLayout(const std::string& directory, const NihSetOptions& options,
            const std::function<NihImage(const NihPlace&)>& render)
      : directory_(directory), options_(options), render_(render) {}

  Result<DataSetReport> write(std::span<const NihPlace> places, const Progress& progress) {
    table_ =
        "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
        "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y],\n";
    const auto all = std::ssize(places);
    for (std::int64_t first = 0; first < all; first += kImagesInMemory) {
      const std::int64_t count = std::min(kImagesInMemory, all - first);
      XOE_TRY(write_some(places.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count))));
      if (!progress(first + count, all))
        return failure(Code::kUnavailable, "stopped after {} images; nothing was kept", first + count);
    }
    XOE_TRY(write_file(directory_ + "/Data_Entry_2017.csv", table_));
    XOE_TRY(write_file(directory_ + "/train_val_list.txt", train_list_));
    if (all > options_.images) XOE_TRY(write_file(directory_ + "/test_list.txt", test_list_));
    report_.images = options_.images;
    report_.validation = all - options_.images;
    report_.files = static_cast<int>(all);
    return report_;
  }

 private:
  Encoded encode(const NihPlace& place) const {
    const NihImage image = render_(place);
    std::string names;
    for (const int finding : image.findings)
      names += fmt::format("{}{}", names.empty() ? "" : "|", kChestFindings[static_cast<std::size_t>(finding)]);
    Random person(options_.seed, 4, static_cast<std::uint64_t>(place.patient));
    const int age = person.integer(18, 90);
    Encoded encoded;
    encoded.name = fmt::format("{:08}_{:03}.png", place.patient, place.visit);
    encoded.row = fmt::format(
        "{},{},{},{},{},{},{},{},{},0.168,0.168,\n", encoded.name, names.empty() ? "No Finding" : names, place.visit,
        place.patient, age, person.chance(0.5) ? "M" : "F", image.frontal ? "PA" : "AP", options_.size, options_.size);
    encoded.png.emplace(encode_png(
        {.width = options_.size, .height = options_.size, .colour = PngColour::kGrey, .samples = image.levels}));
    return encoded;
  }

  Status write_some(std::span<const NihPlace> places) {
    std::vector<Encoded> images(places.size());
    for_each_in_threads(images.size(), thread_count(options_.threads),
                        [&](std::size_t i) { images[i] = encode(places[i]); });
    for (std::size_t i = 0; i < images.size(); ++i) XOE_TRY(keep(images[i], places[i].number));
    return {};
  }

  Status keep(const Encoded& image, std::int64_t number) {
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

  const std::string& directory_;
  const NihSetOptions& options_;
  const std::function<NihImage(const NihPlace&)>& render_;
  std::string table_;
  std::string train_list_;
  std::string test_list_;
  DataSetReport report_;
};

}  // namespace

Result<DataSetReport> write_nih_layout(const std::string& directory, const NihSetOptions& options,
                                       std::span<const NihPlace> places,
                                       const std::function<NihImage(const NihPlace&)>& render,
                                       const Progress& progress) {
  return NihLayout(directory, options, render).write(places, progress);
}

}  // namespace xoe::data::synth
