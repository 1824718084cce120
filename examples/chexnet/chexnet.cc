// CheXNet (P. Rajpurkar et al., 2017) in libtorch: trains with a weighted cross-entropy on several ranks, stops when
// the validation patients' mean AUROC no longer grows, and tests the best network on test_list.txt.
// docs/guide/chexnet.md.
#include <ATen/Parallel.h>
#include <ATen/ops/log_sigmoid.h>
#include <torch/optim/adamw.h>
#include <torch/serialize.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>
#include <sstream>
#include <stdexcept>

#include "chexnet/detector.h"
#include "chexnet/evaluate.h"
#include "chexnet/options.h"
#include "train/trainer/weights.h"
#include "xoe/torch.h"
#include "xoe/xoe.h"

namespace chexnet {
namespace {

using xoe::data::ImageBatch;
using xoe::data::ImageIterator;
using xoe::data::Split;

constexpr std::array<const char*, kLabels> kNames = {
    "Atelectasis", "Cardiomegaly", "Effusion",           "Infiltration",  "Mass",
    "Nodule",      "Pneumonia",    "Pneumothorax",       "Consolidation", "Edema",
    "Emphysema",   "Fibrosis",     "Pleural_Thickening", "Hernia"};

// The mean and deviation of red, green and blue in ImageNet.
constexpr std::array kImageNetMean = {0.485F, 0.456F, 0.406F};
constexpr std::array kImageNetDeviation = {0.229F, 0.224F, 0.225F};

void check(const xoe::Status& status) {
  if (!status) throw std::runtime_error(status.error().to_string());
}

template <class T>
T need(xoe::Result<T> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
  return std::move(*result);
}

// A file appears whole or not at all.
template <class Write>
void save_file(const std::string& path, const Write& write) {
  write(path + ".new");
  std::filesystem::rename(path + ".new", path);
}

// Where training stands after an epoch.
struct Progress {
  std::int64_t epoch = 0;  // epochs that have ended
  double best = 0;         // validation AUROC
  std::int64_t since = 0;  // epochs since then
  double seconds = 0;
};

class Training {
 public:
  Training(const Options& options, xoe::Communicator& world)
      : options_(options),
        world_(world),
        train_(open(Split::kTrain, true)),
        validation_(open(Split::kValidation, false)),
        model_(make_model()),
        adam_(model_->parameters(), torch::optim::AdamWOptions(options.lr).weight_decay(0.01)) {
    check(xoe::torch::broadcast_parameters(*model_, world));
    optimizer_.emplace(need(xoe::torch::DistributedOptimizer::create(adam_, *model_, world)));
    weigh_labels();
    resume();
  }

  void run() {
    while (progress_.epoch < options_.epochs && progress_.since < options_.patience) {
      const auto started = std::chrono::steady_clock::now();
      const double loss = train_epoch();
      average_buffers();
      const SplitScores scores = need(score_split(*model_, *validation_, world_));
      const double auroc = need(scores.aurocs()).mean;
      ++progress_.epoch;
      ++progress_.since;
      progress_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
      const bool better = auroc > progress_.best;
      if (better) {
        progress_.best = auroc;
        progress_.since = 0;
      }
      if (world_.rank() == 0) {
        std::printf("epoch %ld: loss %.4f, validation AUROC %.4f%s, %.0f s\n", static_cast<long>(progress_.epoch), loss,
                    auroc, better ? " (best)" : "", progress_.seconds);
        std::fflush(stdout);
      }
      save(better);
    }
    test();
  }

 private:
  std::unique_ptr<ImageIterator> open(Split split, bool training) const {
    // torchvision's weights of these two networks are for numbers from -1 to 1.
    const bool symmetric = options_.model == "googlenet" || options_.model == "inception_v3";
    const bool of_imagenet = !options_.weights.empty() && !symmetric;
    const float deviation = options_.weights.empty() ? 0.25F : 0.5F;
    // A rank has batch / size images of a step, so the joint batch does not depend on the number of ranks.
    return need(xoe::data::open_images(
        {.directory = options_.folder,
         .batch = options_.batch / world_.size(),
         .image_size = options_.image_size,
         .rank = world_.rank(),
         .size = world_.size(),
         .threads = xoe::data::kAutoThreads,
         .processes = world_.local_size(),
         .seed = static_cast<std::uint64_t>(options_.seed),
         .training = training,
         .split = split,
         .validation_share = options_.validation_share,
         .whole = true,
         .flip = options_.flip,
         .mean = of_imagenet ? kImageNetMean : std::array{0.5F, 0.5F, 0.5F},
         .deviation = of_imagenet ? kImageNetDeviation : std::array{deviation, deviation, deviation}}));
  }

  xoe::models::ModelHandle make_model() const {
    torch::manual_seed(static_cast<std::uint64_t>(options_.seed));
    if (options_.model == "detector") return std::make_shared<Detector>(kLabels, options_.image_size);
    auto model = need(xoe::models::make_model(options_.model, kLabels, options_.image_size, options_.image_size));
    // The other ranks get rank 0's.
    if (!options_.weights.empty() && world_.rank() == 0)
      check(xoe::train::load_weights(options_.weights, *model, /*new_head=*/true));
    return model;
  }

  // Of positives and of negatives: the share of the other class, so that both weigh the same (CheXNet's).
  void weigh_labels() {
    const at::Tensor counts = at::zeros({kLabels + 1}, at::kDouble);
    const auto all = open(Split::kTrain, false);
    for (std::int64_t i = 0; i < all->batches_per_epoch(); ++i) {
      const ImageBatch batch = *need(all->next());
      if (batch.count > 0) counts.narrow(0, 0, kLabels).add_(targets_of(batch).sum(0));
      counts[kLabels] += batch.count;
    }
    check(xoe::torch::allreduce(counts, world_, xoe::ReduceOp::kSum));
    negative_ = (counts.narrow(0, 0, kLabels) / counts[kLabels]).to(at::kFloat);
    positive_ = 1 - negative_;
  }

  at::Tensor loss_of(const at::Tensor& logits, const at::Tensor& targets) const {
    const at::Tensor each =
        positive_ * targets * at::log_sigmoid(logits) + negative_ * (1 - targets) * at::log_sigmoid(-logits);
    return -each.sum(1).mean();
  }

  // Up in a line, then down along a cosine.
  double rate_at(std::int64_t step) const {
    constexpr double kWarmup = 0.15;
    const double share = static_cast<double>(step) / static_cast<double>(options_.epochs * train_->batches_per_epoch());
    if (share < kWarmup) return options_.lr * share / kWarmup;
    return options_.lr * (1 + std::cos(std::numbers::pi * (share - kWarmup) / (1 - kWarmup))) / 2;
  }

  double train_epoch() {
    torch::manual_seed(static_cast<std::uint64_t>(options_.seed * 1000 + progress_.epoch));  // of dropout
    check(train_->start_epoch(progress_.epoch));
    const std::int64_t steps = train_->batches_per_epoch();
    double total = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      const ImageBatch batch = *need(train_->next());
      at::Tensor targets = targets_of(batch);
      if (options_.shuffle_labels) targets = targets.roll(1, 0);  // never an image's own
      adam_.param_groups().front().options().set_lr(rate_at(progress_.epoch * steps + step));
      check(optimizer_->zero_grad());
      const at::Tensor loss = loss_of(model_->forward(pixels_of(batch)).main, targets);
      loss.backward();
      check(optimizer_->step());
      total += loss.item<double>();
    }
    return need(xoe::torch::allreduce_metric(total / static_cast<double>(steps), world_));
  }

  // Batch norm's statistics, over the ranks: what is tested is what is saved.
  void average_buffers() {
    for (const at::Tensor& buffer : model_->buffers())
      if (buffer.is_floating_point()) check(xoe::torch::allreduce(buffer, world_));
  }

  std::string path(const char* name) const { return options_.run + "/" + name; }

  std::string options_text() const {
    std::string text;
    for (const auto& [name, value] : options_.facts()) text += name + "=" + value + " ";
    return text;
  }

  // The checkpoint is complete once checkpoint.pt is renamed; an epoch that is trained again writes the same best.pt.
  void save(bool better) {
    torch::serialize::OutputArchive state;
    torch::serialize::OutputArchive optimizer;
    check(optimizer_->save_state(optimizer));
    if (world_.rank() != 0) return;
    if (better) save_file(path("best.pt"), [&](const std::string& file) { save_model(file); });
    torch::serialize::OutputArchive model;
    model_->save(model);
    state.write("model", model);
    state.write("optimizer", optimizer);
    state.write("options", c10::IValue(options_text()));
    state.write("epoch", c10::IValue(progress_.epoch));
    state.write("best", c10::IValue(progress_.best));
    state.write("since", c10::IValue(progress_.since));
    state.write("seconds", c10::IValue(progress_.seconds));
    save_file(path("checkpoint.pt"), [&](const std::string& file) { state.save_to(file); });
  }

  void save_model(const std::string& file) const {
    torch::serialize::OutputArchive archive;
    model_->save(archive);
    archive.save_to(file);
  }

  void resume() {
    if (!std::filesystem::exists(path("checkpoint.pt"))) {
      std::filesystem::create_directories(options_.run);
      return;
    }
    torch::serialize::InputArchive state;
    state.load_from(path("checkpoint.pt"));
    c10::IValue value;
    state.read("options", value);
    if (value.toStringRef() != options_text())
      throw std::runtime_error(path("checkpoint.pt") + " is of other options: " + value.toStringRef() +
                               "; use them, or another --run");
    torch::serialize::InputArchive part;
    state.read("model", part);
    model_->load(part);
    torch::serialize::InputArchive optimizer;
    state.read("optimizer", optimizer);
    check(optimizer_->load_state(optimizer));
    state.read("epoch", value);
    progress_.epoch = value.toInt();
    state.read("best", value);
    progress_.best = value.toDouble();
    state.read("since", value);
    progress_.since = value.toInt();
    state.read("seconds", value);
    progress_.seconds = value.toDouble();
    if (world_.rank() == 0) std::printf("goes on after epoch %ld\n", static_cast<long>(progress_.epoch));
  }

  void test() {
    check(world_.barrier());  // rank 0 has written best.pt
    torch::serialize::InputArchive best;
    best.load_from(path("best.pt"));
    model_->load(best);
    const auto split = open(Split::kTest, false);
    const SplitScores scores = need(score_split(*model_, *split, world_));
    if (world_.rank() == 0) report(scores);
  }

  void report(const SplitScores& scores) const {
    const auto found = need(scores.aurocs());
    nlohmann::ordered_json targets = nlohmann::ordered_json::array();
    nlohmann::ordered_json columns = nlohmann::ordered_json::array();
    for (std::size_t k = 0; k < kLabels; ++k) {
      if (found.labels[k]) {
        const auto interval = found.labels[k]->interval();
        std::printf("%-20s%.4f   %.4f to %.4f\n", kNames[k], found.labels[k]->value, interval.low, interval.high);
      } else {
        std::printf("%-20s%s\n", kNames[k], "too few images with it");
      }
      std::string text;
      std::vector<float> column;
      for (std::int64_t i = 0; i < scores.targets.size(0); ++i) {
        const auto at = static_cast<std::int64_t>(k);
        text += scores.targets[i][at].item<float>() > 0.5F ? '1' : '0';
        column.push_back(scores.scores[i][at].item<float>());
      }
      targets.push_back(text);
      columns.push_back(column);
    }
    const auto interval = found.interval();
    std::printf("%-20s%.4f   %.4f to %.4f\n", "mean", found.mean, interval.low, interval.high);
    nlohmann::ordered_json facts = options_.facts();
    facts["ranks"] = std::to_string(world_.size());
    facts["epochs trained"] = std::to_string(progress_.epoch);
    facts["seconds"] = std::to_string(std::lround(progress_.seconds));
    const nlohmann::ordered_json all = {
        {"format", 1},
        {"title", "CheXNet: " + options_.model},
        {"data", std::filesystem::absolute(options_.folder).lexically_normal().string()},
        {"split", "test_list.txt, " + std::to_string(scores.images.size()) + " images; " +
                      std::to_string(std::lround(100 * options_.validation_share)) +
                      " % of the other patients for validation"},
        {"facts", facts},
        {"labels", kNames},
        {"images", scores.images},
        {"targets", targets},
        {"scores", columns}};
    save_file(path("scores.json"), [&](const std::string& file) { std::ofstream(file) << all.dump() << "\n"; });
  }

  const Options& options_;
  xoe::Communicator& world_;
  std::unique_ptr<ImageIterator> train_;
  std::unique_ptr<ImageIterator> validation_;
  xoe::models::ModelHandle model_;
  torch::optim::AdamW adam_;
  std::optional<xoe::torch::DistributedOptimizer> optimizer_;
  at::Tensor positive_;  // weights of the loss
  at::Tensor negative_;
  Progress progress_;
};

}  // namespace
}  // namespace chexnet

int main(int argc, char** argv) {
  const auto options = chexnet::parse_options(argc, argv);
  if (!options) {
    std::fprintf(stderr, "example_chexnet: %s\n\n%s", options.error().message().c_str(), chexnet::kUsage);
    return 2;
  }
  auto world = xoe::init();
  if (!world) {
    std::fprintf(stderr, "%s\n", world.error().to_string().c_str());
    return 1;
  }
  try {
    if (options->batch % world->size() != 0) throw std::runtime_error("--batch is no multiple of the ranks");
    at::set_num_threads(1);
    chexnet::Training(*options, *world).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", world->rank(), error.what());
    return 1;
  }
}
