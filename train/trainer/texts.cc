#include "train/trainer/texts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "train/trainer/size_json.h"

namespace xoe::train {
namespace {

using Json = nlohmann::ordered_json;

std::string speed_text(const SpeedStats& speed) {
  return fmt::format("images/sec: {:.1f} +/- {:.1f} (jitter = {:.1f})", speed.mean, speed.uncertainty, speed.jitter);
}

std::string share_text(const StepTimes& share) {
  return fmt::format("data {:.1f}% compute {:.0f}% peers {:.0f}% optimizer {:.0f}%", share.data * 100,
                     share.compute * 100, share.peers * 100, share.optimizer * 100);
}

// Of the table that grows while a run goes on: 75 columns, so that a line fits 80 with the launcher's "[0] ".
template <class... Columns>
std::string report_row(const Columns&... columns) {
  return fmt::format("{:<7} {:>8} {:>6} {:>8} {:>7} {:>8}  {:>5} {:>7} {:>5} {:>5}", columns...);
}

Json share_json(const StepTimes& share) {
  return {{"data", share.data}, {"compute", share.compute}, {"peers", share.peers}, {"optimizer", share.optimizer}};
}

void add_speed(Json& json, const SpeedStats& speed, int ranks) {
  json["images_per_s"] = speed.mean;
  json["images_per_s_uncertainty"] = speed.uncertainty;
  json["images_per_s_jitter"] = speed.jitter;
  json["images_per_s_per_rank"] = speed.mean / ranks;
}

std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string report_header() {
  return report_row("step", "images/s", "+/-", "per rank", "loss", "accuracy", "data", "compute", "peers", "optim");
}

std::string report_line(const Report& report) {
  const auto number = [](double value, int digits) { return fmt::format("{:.{}f}", value, digits); };
  const auto percent = [&](double share, int digits) { return number(share * 100, digits) + "%"; };
  return report_row(fmt::to_string(report.step), number(report.speed.mean, 1), number(report.speed.uncertainty, 1),
                    number(report.speed.mean / report.ranks, 1), number(report.loss, 4), number(report.accuracy, 3),
                    percent(report.share.data, 1), percent(report.share.compute, 0), percent(report.share.peers, 0),
                    percent(report.share.optimizer, 0));
}

std::string evaluation_line(const Evaluation& evaluation) {
  return fmt::format("step {} (epoch {:.4g}): held-out accuracy {:.4f}, loss {:.4f} on {}", evaluation.step,
                     evaluation.epoch, evaluation.accuracy, evaluation.loss, counted(evaluation.images, "image"));
}

std::string start_lines(const RunStart& start) {
  std::string text = fmt::format("{} ({:.1f} M parameters), {}, images {}x{}, {}\n", start.model,
                                 static_cast<double>(start.parameters) * 1e-6, counted(start.classes, "class"),
                                 start.image_size.height, start.image_size.width, start.data);
  const std::string ranks = counted(start.ranks, "rank");
  const std::string batches =
      start.logical_shards > 0
          ? fmt::format("{}, {} x batch {}", ranks, counted(start.logical_shards, "logical shard"), start.batch)
          : fmt::format("{} x batch {}{}", ranks, start.batch,
                        start.accumulate > 1 ? fmt::format(" x {} passes", start.accumulate) : "");
  text += fmt::format("{}, {} with {} each", batches, start.device, counted(start.threads, "thread"));
  if (start.logical_shards == 0) text += fmt::format(", {}", counted(start.buckets, "gradient bucket"));
  text += start.sharded ? ", sharded optimizer\n" : "\n";
  text += fmt::format("steps {} to {}", start.first_step + 1, start.total_steps);
  if (start.steps_per_epoch > 0) text += fmt::format(" ({} an epoch)", start.steps_per_epoch);
  return text + fmt::format(", learning rate up to {:.4g}", start.peak_rate);
}

std::string outcome_lines(const Outcome& outcome) {
  std::string text = "----------------------------------------------------------------\n";
  text += fmt::format("{} at step {} after {:.1f} s\ntime: {}\n", outcome.interrupted ? "interrupted" : "done",
                      outcome.step, outcome.seconds, share_text(outcome.share));
  if (outcome.accuracy >= 0) text += fmt::format("held-out accuracy: {:.4f}\n", outcome.accuracy);
  if (!outcome.input.empty()) text += fmt::format("input: {}\n", outcome.input);
  if (!outcome.checkpoint.empty()) text += fmt::format("checkpoint: {}\n", outcome.checkpoint);
  if (!outcome.curve.empty()) text += fmt::format("curve: {}\n", outcome.curve);
  if (!outcome.timeline.empty()) text += fmt::format("timeline: {}\n", outcome.timeline);
  return text + fmt::format("{} ({:.2f} per rank)\ntotal images/sec: {:.2f}", speed_text(outcome.speed),
                            outcome.speed.mean / outcome.ranks, outcome.speed.mean);
}

std::string resized_lines(const Resized& resized) {
  std::string text = fmt::format("step {} is the first with {}", resized.first_step, counted(resized.ranks, "rank"));
  if (resized.seconds >= 0) text += fmt::format(", {:.3f} s after the last one", resized.seconds);
  const std::string each = resized.least == resized.most ? std::to_string(resized.least)
                                                         : fmt::format("{} or {}", resized.least, resized.most);
  return text + fmt::format("\na step has {} ({}): {} for each rank; the learning rate is up to {:.4g}",
                            counted(resized.images, "image"), resized.policy, each, resized.peak_rate);
}

std::string summary_line(const std::string& name, const Outcome& outcome) {
  return fmt::format("{}: accuracy={} images_per_s={:.1f} curve={} timeline={}", name,
                     outcome.accuracy < 0 ? "none" : fmt::format("{:.4f}", outcome.accuracy), outcome.speed.mean,
                     outcome.curve.empty() ? "none" : outcome.curve,
                     outcome.timeline.empty() ? "none" : outcome.timeline);
}

std::string start_json(const RunStart& start) {
  Json json = {{"event", "start"},
               {"model", start.model},
               {"parameters", start.parameters},
               {"device", start.device},
               {"data", start.data},
               {"classes", start.classes},
               {"held_out_images", start.held_out},
               {"image_size", size_json(start.image_size)},
               {"ranks", start.ranks},
               {"batch", start.batch},
               {"accumulate", start.accumulate},
               {"threads", start.threads},
               {"buckets", start.buckets},
               {"sharded", start.sharded},
               {"peak_rate", start.peak_rate},
               {"first_step", start.first_step},
               {"total_steps", start.total_steps},
               {"steps_per_epoch", start.steps_per_epoch}};
  if (start.logical_shards > 0) json["logical_shards"] = start.logical_shards;
  if (!start.checkpoints.empty()) json["checkpoints"] = start.checkpoints;
  if (!start.run_dir.empty()) json["run_dir"] = start.run_dir;
  return line_of(json);
}

std::string resized_json(const Resized& resized) {
  Json json = {{"event", "resized"},       {"first_step", resized.first_step},
               {"ranks", resized.ranks},   {"images_per_step", resized.images},
               {"policy", resized.policy}, {"peak_rate", resized.peak_rate}};
  if (resized.seconds >= 0) json["seconds"] = resized.seconds;
  return line_of(json);
}

std::string report_json(const Report& report) {
  Json json = {{"event", "report"},           {"step", report.step},
               {"epoch", report.epoch},       {"loss", report.loss},
               {"accuracy", report.accuracy}, {"rate", report.rate},
               {"ranks", report.ranks},       {"images_per_step", report.images}};
  add_speed(json, report.speed, report.ranks);
  json["skipped_images"] = report.skipped_images;
  json["share"] = share_json(report.share);
  for (const StepTimes& share : report.rank_shares) json["rank_shares"].push_back(share_json(share));
  return line_of(json);
}

std::string evaluation_json(const Evaluation& evaluation) {
  return line_of({{"event", "evaluation"},
                  {"step", evaluation.step},
                  {"epoch", evaluation.epoch},
                  {"loss", evaluation.loss},
                  {"accuracy", evaluation.accuracy},
                  {"images", evaluation.images}});
}

std::string outcome_json(const Outcome& outcome) {
  Json json = {{"event", "end"},       {"interrupted", outcome.interrupted},
               {"step", outcome.step}, {"seconds", outcome.seconds},
               {"loss", outcome.loss}, {"accuracy", outcome.accuracy < 0 ? Json(nullptr) : Json(outcome.accuracy)}};
  add_speed(json, outcome.speed, outcome.ranks);
  json["share"] = share_json(outcome.share);
  json["input"] = outcome.input;
  json["checkpoint"] = outcome.checkpoint;
  json["curve"] = outcome.curve;
  json["timeline"] = outcome.timeline;
  return line_of(json);
}

}  // namespace xoe::train
