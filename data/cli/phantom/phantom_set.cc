#include "data/cli/phantom/phantom_set.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "data/cli/output_directory.h"
#include "data/cli/phantom/field.h"
#include "data/cli/phantom/lesion.h"
#include "data/cli/phantom/observer.h"
#include "data/cli/require.h"
#include "data/image/augment/plan.h"
#include "data/stages/random.h"
#include "data/threads.h"

namespace xoe::data::synth {
namespace {

constexpr int kFindings = 14;
constexpr double kMiddle = 128;  // grey level of the noise's mean
constexpr double kLevels = 15;   // of a deviation of the white noise: lesions and noise clip at 0 and 255 almost never
constexpr int kMostSize = 1024;
constexpr int kCalibrationSamples = 10000;  // at most
// Streams of random numbers.
enum Stream : std::uint64_t { kPatients = 10, kLabels, kPixels, kCalibration, kMonteCarlo };

Status check(const PhantomSetOptions& options) {
  XOE_TRY(require(options.images >= 1 && options.images <= 1000000, "images must be 1 to 1000000", options.images));
  XOE_TRY(require(options.test >= 0 && options.test <= 1000000, "test images must be 0 to 1000000", options.test));
  XOE_TRY(require(options.size >= kLeastSize && options.size <= kMostSize && options.size % kLeastSize == 0,
                  "the size must be a multiple of 32 from 32 to 1024", options.size));
  XOE_TRY(require(options.samples >= 1000 && options.samples <= 10000000, "samples must be 1000 to 10000000",
                  options.samples));
  XOE_TRY(require(options.threads >= 0 && options.threads <= 1024, "threads must be 0 to 1024", options.threads));
  if (options.wrong_labels >= 0 && options.wrong_labels <= 0.5) return {};
  return failure(Code::kInvalidArgument, "the share of wrong labels must be 0 to 0.5, not {}", options.wrong_labels);
}

// One to eleven images a patient, 3.6 in the mean, as in ChestX-ray14; no patient is in both lists.
std::vector<NihPlace> places_of(const PhantomSetOptions& options) {
  constexpr double kAnother = 0.74;
  constexpr int kMostVisits = 11;
  Random random(options.seed, kPatients, 0);
  std::vector<NihPlace> places;
  std::int64_t patient = 0;
  for (const std::int64_t count : {options.images, options.test}) {
    int visit = kMostVisits;
    for (std::int64_t i = 0; i < count; ++i) {
      if (i == 0 || ++visit >= kMostVisits || !random.chance(kAnother)) {
        ++patient;
        visit = 0;
      }
      places.push_back({.number = std::ssize(places), .patient = patient, .visit = visit});
    }
  }
  return places;
}

class PhantomSet {
 public:
  explicit PhantomSet(const PhantomSetOptions& options) : options_(options), labels_(kFindings) {
    for (const LesionKind& kind : lesion_kinds()) observers_.emplace_back(kind, options.size);
    for_each_in_threads(kFindings, thread_count(options.threads), [this](std::size_t k) { labels_[k] = label(k); });
    scores_.resize(static_cast<std::size_t>(options.test) * kFindings);
  }

  // Of a test image the scores are kept. Thread safety: different images at a time.
  NihImage render(const NihPlace& place) {
    Random chance(options_.seed, kLabels, static_cast<std::uint64_t>(place.number));
    Random noise(options_.seed, kPixels, static_cast<std::uint64_t>(place.number));
    const auto side = static_cast<std::size_t>(options_.size);
    NihImage image{.findings = {}, .frontal = chance.chance(0.6), .levels = std::vector<std::uint8_t>(side * side)};
    std::vector<double> pixels(side * side);
    for (double& pixel : pixels) pixel = draw_normal(noise);
    colour(pixels, options_.size);
    for (int k = 0; k < kFindings; ++k)
      if (add_finding(k, chance, pixels)) image.findings.push_back(k);
    for (std::size_t i = 0; i < pixels.size(); ++i)
      image.levels[i] = static_cast<std::uint8_t>(std::clamp(std::round(kMiddle + kLevels * pixels[i]), 0.0, 255.0));
    if (place.number >= options_.images) observe(image.levels, place.number - options_.images);
    return image;
  }

  const std::vector<PhantomLabel>& labels() const { return labels_; }
  double mean_ideal_auroc() const {
    double sum = 0;
    for (const PhantomLabel& one : labels_) sum += one.ideal_auroc;
    return sum / kFindings;
  }

  std::string description() const {
    nlohmann::ordered_json labels = nlohmann::ordered_json::array();
    for (std::size_t k = 0; k < kFindings; ++k) {
      const LesionKind& kind = lesion_kinds()[k];
      labels.push_back({{"label", kind.finding},
                        {"form", form_name(kind.form)},
                        {"region", {kind.row, kind.column}},
                        {"prevalence", kind.prevalence()},
                        {"contrast", labels_[k].contrast},
                        {"ideal_auroc", labels_[k].ideal_auroc},
                        {"monte_carlo_error", labels_[k].monte_carlo_error}});
    }
    const nlohmann::ordered_json all = {
        {"format", 1},
        {"what", "phantoms, rendered by xoe data make-xray; nothing medical follows from them"},
        {"images", options_.images},
        {"test", options_.test},
        {"size", options_.size},
        {"seed", options_.seed},
        {"noise", {{"correlation", kCorrelation}, {"white_deviation", kLevels}, {"mean", kMiddle}}},
        {"regions", kRegions},
        {"places", kPlaces},
        {"strengths", kStrengths},
        {"wrong_labels", options_.wrong_labels},
        {"samples", options_.samples},
        {"mean_ideal_auroc", mean_ideal_auroc()},
        {"labels", labels}};
    return all.dump(1) + "\n";
  }

  // A line for each test image: its name, then the logarithms of likelihood ratios.
  std::string score_table(std::span<const NihPlace> test) const {
    std::string table = "Image Index";
    for (const PhantomLabel& one : labels_) table += "," + one.finding;
    table += "\n";
    for (std::size_t i = 0; i < test.size(); ++i) {
      table += fmt::format("{:08}_{:03}.png", test[i].patient, test[i].visit);
      for (std::size_t k = 0; k < kFindings; ++k) table += fmt::format(",{:.6g}", scores_[i * kFindings + k]);
      table += "\n";
    }
    return table;
  }

 private:
  PhantomLabel label(std::size_t k) const {
    const LesionKind& kind = lesion_kinds()[k];
    const auto stream = [&](Stream one) { return Random(options_.seed, one, k).bits(); };
    const double contrast = observers_[k].contrast_for(kind.difficulty, std::min(kCalibrationSamples, options_.samples),
                                                       stream(kCalibration));
    const stats::Auroc clean = observers_[k].monte_carlo(contrast, options_.samples, stream(kMonteCarlo));
    const double ideal = auroc_with_wrong_labels(clean.value, options_.wrong_labels, kind.prevalence());
    return {.finding = std::string(kind.finding),
            .contrast = contrast,
            .ideal_auroc = ideal,
            .monte_carlo_error = clean.deviation() * (ideal - 0.5) / (clean.value - 0.5)};
  }

  // Whether the table says that it is there.
  bool add_finding(int k, Random& chance, std::vector<double>& pixels) const {
    const LesionKind& kind = lesion_kinds()[static_cast<std::size_t>(k)];
    const double prevalence = kind.prevalence();
    const bool present = chance.chance(prevalence);
    const bool wrong =
        chance.chance(present ? options_.wrong_labels : options_.wrong_labels * prevalence / (1 - prevalence));
    const int place = chance.integer(0, kPlaces * kPlaces - 1);
    const double strength =
        kStrengths[static_cast<std::size_t>(chance.integer(0, static_cast<int>(kStrengths.size()) - 1))];
    if (present)
      add_lesion(kind, place, labels_[static_cast<std::size_t>(k)].contrast * strength, pixels, options_.size);
    return present != wrong;
  }

  void observe(std::span<const std::uint8_t> levels, std::int64_t test) {
    std::vector<double> white;
    for (const std::uint8_t one : levels) white.push_back((one - kMiddle) / kLevels);
    whiten(white, options_.size);
    for (std::size_t k = 0; k < kFindings; ++k)
      scores_[static_cast<std::size_t>(test) * kFindings + k] = observers_[k].score(white, labels_[k].contrast);
  }

  const PhantomSetOptions& options_;
  std::vector<IdealObserver> observers_;
  std::vector<PhantomLabel> labels_;
  std::vector<double> scores_;  // [test, kFindings]
};

}  // namespace

Result<PhantomSetReport> make_phantom_set(const PhantomSetOptions& options, const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  XOE_TRY(check(options));
  XOE_ASSIGN(OutputDirectory directory, OutputDirectory::create(options.directory));
  PhantomSet phantoms(options);
  const std::vector<NihPlace> places = places_of(options);
  XOE_ASSIGN(DataSetReport files, write_nih_layout(
                                      directory.path(), options, places,
                                      [&](const NihPlace& place) { return phantoms.render(place); }, progress));
  XOE_TRY(write_file(directory.path() + "/phantoms.json", phantoms.description()));
  if (options.test > 0) {
    const auto test = std::span(places).subspan(static_cast<std::size_t>(options.images));
    XOE_TRY(write_file(directory.path() + "/ideal_scores.csv", phantoms.score_table(test)));
  }
  XOE_TRY(directory.finish());
  files.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return PhantomSetReport{.files = files, .labels = phantoms.labels(), .mean_ideal_auroc = phantoms.mean_ideal_auroc()};
}

}  // namespace xoe::data::synth
