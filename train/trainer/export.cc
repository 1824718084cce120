#include "train/trainer/export.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <torch/serialize/archive.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "train/networks/models.h"
#include "train/trainer/checkpoint_file.h"
#include "train/trainer/exported_file.h"
#include "train/trainer/files.h"
#include "train/trainer/weights.h"
#include "xoe/data/pixels.h"

namespace xoe::train {
namespace {

struct Weights {
  Exported facts;
  int classes = 0;
  data::ImageSize images = 0;
  NamedTensors tensors = {};
};

Result<Weights> read_facts(const std::string& path, const Sections& sections) {
  const auto damaged = [&path] {
    return failure(Code::kDataLoss, "{} is damaged: it does not say what model it is of", path);
  };
  const auto meta = sections.find("meta");
  if (meta == sections.end() || !sections.contains("model")) return damaged();
  const auto json = nlohmann::json::parse(meta->second, nullptr, /*allow_exceptions=*/false);
  try {
    const auto& run = json.at("run");
    const auto& size = run.at("image size");
    Weights weights;
    weights.facts = {.checkpoint = path, .model = run.at("model"), .step = json.at("step")};
    weights.classes = run.at("classes");
    const auto parsed =
        data::parse_image_size(size.is_string() ? size.get<std::string>() : std::to_string(size.get<int>()));
    if (!parsed) return damaged();
    weights.images = *parsed;
    return weights;
  } catch (const nlohmann::json::exception&) {
    return damaged();
  }
}

Result<Weights> read_weights(const std::string& path) {
  XOE_ASSIGN(const std::string bytes, read_file(path));
  XOE_ASSIGN(const Sections sections, unpack_sections(bytes, path));
  XOE_ASSIGN(Weights weights, read_facts(path, sections));
  XOE_ASSIGN(const auto model,
             models::make_model(weights.facts.model, weights.classes, weights.images.height, weights.images.width));
  ::torch::serialize::InputArchive archive;
  const auto average = sections.find(kAverageSection);
  weights.facts.averaged = average != sections.end();
  const std::string& stored = weights.facts.averaged ? average->second : sections.at("model");
  archive.load_from(stored.data(), stored.size(), c10::kCPU);
  model->load(archive);
  weights.tensors = named_weights(*model);
  weights.facts.tensors = static_cast<std::int64_t>(weights.tensors.size());
  return weights;
}

std::map<std::string, std::string> metadata_of(const Weights& weights) {
  return {{"format", "pt"},
          {"model", weights.facts.model},
          {"classes", std::to_string(weights.classes)},
          {"image_size", fmt::format("{}x{}", weights.images.height, weights.images.width)},
          {"step", std::to_string(weights.facts.step)},
          {"weights", weights.facts.averaged ? "moving average" : "of the step"}};
}

}  // namespace

Result<Exported> export_weights(const std::string& run, const std::string& file) {
  XOE_ASSIGN(const ExportFormat format, check_export_name(file));
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(file, ignored))) return failure(file_exists(file));
  XOE_ASSIGN(const std::string checkpoint, find_checkpoint(run));
  // libtorch reports errors by exceptions, which are converted here.
  try {
    const at::NoGradGuard no_grad;
    XOE_ASSIGN(const Weights weights, read_weights(checkpoint));
    XOE_TRY(write_tensors(weights.tensors, metadata_of(weights), format, file));
    return weights.facts;
  } catch (const c10::Error& error) {
    return failure(Code::kDataLoss, "{} cannot be exported: {}", checkpoint, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return failure(Code::kResourceExhausted, "out of memory while reading {}", checkpoint);
  } catch (const std::exception& error) {
    return failure(Code::kDataLoss, "{} cannot be exported: {}", checkpoint, error.what());
  }
}

}  // namespace xoe::train
