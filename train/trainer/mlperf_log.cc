#include "train/trainer/mlperf_log.h"

#include <array>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/process_use.h"
#include "train/trainer/wall_clock.h"

namespace xoe::train {
namespace {

using Json = nlohmann::ordered_json;

enum class Kind : std::uint8_t { kPoint, kBegin, kEnd };

std::string line(Kind kind, std::string_view key, const Json& value, Json metadata = Json::object(),
                 std::int64_t time_ms = now_ms()) {
  constexpr std::array kNames = {"POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"};
  // The place in the source, which readers want to see.
  metadata["file"] = "xoe train";
  metadata["lineno"] = 1;
  const Json json = {{"namespace", ""}, {"time_ms", time_ms}, {"event_type", kNames[static_cast<std::size_t>(kind)]},
                     {"key", key},      {"value", value},     {"metadata", std::move(metadata)}};
  return ":::MLLOG " + json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

// Lines in a list take their times in the order of the list; operands of + would take them in any.
std::string joined(std::initializer_list<std::string> lines) {
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

std::string point(std::string_view key, const Json& value, Json metadata = Json::object()) {
  return line(Kind::kPoint, key, value, std::move(metadata));
}

Json samples(std::int64_t images) { return {{"samples_count", images}}; }

Json at_epoch(double epoch, std::int64_t images) {
  Json metadata = samples(images);
  if (epoch > 0) metadata["epoch_num"] = epoch;
  return metadata;
}

}  // namespace

Result<MlperfLog> MlperfLog::open(const std::string& path, std::int64_t first_step) {
  XOE_ASSIGN(auto file, GrowingFile::open(path, /*append=*/first_step > 0));
  const auto age = static_cast<std::int64_t>(std::llround(process_age_seconds() * 1e3));
  XOE_TRY(file.append(joined(
      {point("cache_clear", false), line(Kind::kBegin, "init_start", nullptr, Json::object(), now_ms() - age)})));
  return MlperfLog(std::move(file));
}

Status MlperfLog::started(const RunStart& start, const TrainOptions& options) {
  const std::int64_t images = start.images;
  block_start_ = start.first_step * images;
  return file_.append(joined({
      point("submission_benchmark", start.model),
      point("submission_division", "open"),
      point("seed", options.seed),
      point("global_batch_size", images),
      point("gradient_accumulation_steps", start.accumulate),
      point("opt_name", optimizer_name(options.optimizer)),
      point("opt_base_learning_rate", start.peak_rate),
      point("opt_learning_rate_warmup_epochs", options.lr_warmup_epochs),
      point("opt_weight_decay", options.weight_decay.value_or(0)),
      // Of an epoch; synthetic data have none.
      point("train_samples", images * (start.steps_per_epoch > 0 ? start.steps_per_epoch : start.total_steps)),
      point("eval_samples", start.held_out),
      line(Kind::kEnd, "init_stop", nullptr),
      line(Kind::kBegin, "run_start", nullptr),
      line(Kind::kBegin, "block_start", nullptr, samples(block_start_)),
  }));
}

Status MlperfLog::reported(const Report& report, std::int64_t images) {
  Json stats = {{"train_loss", report.loss}, {"learning_rate", report.rate}};
  if (report.speed.mean > 0) stats["throughput"] = report.speed.mean;  // images/s; else not measured yet
  Json metadata = at_epoch(report.epoch, images);
  metadata["step"] = report.step;
  return file_.append(point("tracked_stats", stats, std::move(metadata)));
}

Status MlperfLog::evaluation_begins(std::int64_t images) {
  return file_.append(joined({line(Kind::kEnd, "block_stop", nullptr, samples(std::exchange(block_start_, images))),
                              line(Kind::kBegin, "eval_start", nullptr, samples(images))}));
}

Status MlperfLog::evaluated(const Evaluation& evaluation, std::int64_t images) {
  const Json metadata = at_epoch(evaluation.epoch, images);
  return file_.append(
      joined({point("eval_accuracy", evaluation.accuracy, metadata), line(Kind::kEnd, "eval_stop", nullptr, metadata),
              line(Kind::kBegin, "block_start", nullptr, samples(images))}));
}

Status MlperfLog::finished(const Outcome& outcome, std::int64_t images) {
  Json metadata = samples(images);
  metadata["status"] = outcome.interrupted ? "aborted" : "success";
  return file_.append(joined({line(Kind::kEnd, "block_stop", nullptr, samples(block_start_)),
                              line(Kind::kEnd, "run_stop", nullptr, std::move(metadata))}));
}

}  // namespace xoe::train
