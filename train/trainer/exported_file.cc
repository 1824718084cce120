#include "train/trainer/exported_file.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "train/trainer/checkpoint_file.h"
#include "train/trainer/files.h"

namespace xoe::train {
namespace {

namespace fs = std::filesystem;

// The folder of checkpoints that a run's metrics.jsonl names last; empty: none.
std::string checkpoints_of_run(const std::string& run) {
  const auto metrics = read_file(run + "/metrics.jsonl");
  if (!metrics) return {};
  std::string folder;
  for (const std::string& line : split_text(*metrics, '\n')) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("checkpoints") && json["checkpoints"].is_string())
      folder = json["checkpoints"];
  }
  return folder;
}

}  // namespace

Result<ExportFormat> check_export_name(const std::string& path) {
  const std::string ending = fs::path(path).extension();
  if (ending == ".pt" || ending == ".pth") return ExportFormat::kTorch;
  if (ending == ".safetensors") return ExportFormat::kSafetensors;
  return failure(Code::kInvalidArgument, "expected a name that ends in .pt or .pth (torch.load) or in .safetensors");
}

Error file_exists(const std::string& path) {
  return {Code::kInvalidArgument, fmt::format("{} exists; choose another name, or remove it first", path)};
}

Result<std::string> find_checkpoint(const std::string& run) {
  std::error_code error;
  const auto status = fs::status(run, error);
  if (!fs::exists(status)) return failure(Code::kInvalidArgument, "there is no {}", run);
  if (!fs::is_directory(status)) return run;
  XOE_ASSIGN(const auto own, list_checkpoints(run));
  if (!own.empty()) return own.back().path;
  const std::string folder = checkpoints_of_run(run);
  if (folder.empty())
    return failure(Code::kInvalidArgument, "{} holds no checkpoint; xoe train --checkpoint DIR writes them", run);
  XOE_ASSIGN(const auto stored, list_checkpoints(folder));
  if (!stored.empty()) return stored.back().path;
  return failure(Code::kInvalidArgument, "{} is of a run with its checkpoints in {}, where there is none", run, folder);
}

}  // namespace xoe::train
