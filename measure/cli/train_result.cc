#include "measure/cli/train_result.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "core/base/utf8.h"
#include "measure/pages/facts.h"

namespace xoe::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kRule = "----------------------------------------------------------------\n";
constexpr std::string_view kBenchmark = "xoe bench train";
constexpr double kLargest = 1e15;  // that a table and a plot can show

double rounded(double value, double digits) { return std::round(value * digits) / digits; }

// Reads members of a JSON object, and remembers the first that is wrong.
class Members {
 public:
  explicit Members(const Json& json) : json_(json) {}

  void text(const char* name, std::string& value) {
    if (const Json* found = find(name, [](const Json& one) { return one.is_string(); }))
      value = printable_utf8(found->get<std::string>());
  }
  void number(const char* name, double& value, double low = 0) {
    const auto fits = [low](const Json& one) {
      return one.is_number() && one.get<double>() >= low && one.get<double>() <= kLargest;
    };
    if (const Json* found = find(name, fits)) value = *found;
  }
  template <class Int>
  void integer(const char* name, Int& value, std::int64_t low) {
    const auto fits = [low](const Json& one) {
      return one.is_number_integer() && one >= low && one <= std::numeric_limits<Int>::max();
    };
    if (const Json* found = find(name, fits)) value = *found;
  }
  const std::string& wrong() const { return wrong_; }

 private:
  template <class Fits>
  const Json* find(const char* name, Fits fits) {
    const auto found = json_.find(name);
    if (found != json_.end() && fits(*found)) return &*found;
    if (wrong_.empty()) wrong_ = found == json_.end() ? fmt::format("no {}", name) : fmt::format("a bad {}", name);
    return nullptr;
  }

  const Json& json_;
  std::string wrong_;
};

Json repeat_json(const TrainRepeat& repeat) {
  Json json = {{"images_per_s", repeat.images_per_s},
               {"uncertainty", repeat.uncertainty},
               {"jitter", repeat.jitter},
               {"step_ms", repeat.step_ms},
               {"loss", repeat.loss}};
  if (repeat.accuracy >= 0) json["accuracy"] = repeat.accuracy;
  return json;
}

Json parts_json(const StepParts& parts) {
  return {{"input", parts.input},
          {"forward", parts.forward},
          {"backward", parts.backward},
          {"communication_exposed", parts.exposed},
          {"communication_hidden", parts.hidden < 0 ? Json(nullptr) : Json(parts.hidden)},
          {"optimizer", parts.optimizer},
          {"rest", parts.rest}};
}

double mean_step_ms(const TrainResult& result) {
  double sum = 0;
  for (const TrainRepeat& repeat : result.repeats) sum += repeat.step_ms;
  return sum / static_cast<double>(result.repeats.size());
}

// Fills everything but the repeats; returns what is wrong, or nothing.
std::string read_members(const Json& json, TrainResult& result) {
  Members top(json);
  top.text("model", result.model);
  top.text("mode", result.mode);
  top.text("data", result.data);
  top.text("device", result.device);
  top.text("precision", result.precision);
  top.text("optimizer", result.optimizer);
  top.integer("parameters", result.parameters, 1);
  top.number("emulated_images_per_s", result.emulated_images_per_s);
  top.integer("reduced_bytes_per_step", result.reduced_step_bytes, 0);
  top.integer("peak_memory_bytes", result.peak_bytes, 0);
  if (!top.wrong().empty()) return top.wrong();
  const auto prefix = result.mode == "training" ? "train" : "infer";
  top.integer(fmt::format("{}_batch_size", prefix).c_str(), result.batch, 1);
  if (const auto size = json.find("image_size"); size != json.end() && size->is_string())
    result.image_size = printable_utf8(size->get<std::string>());
  const auto topology = json.find("topology"), parts = json.find("step_parts_ms");
  if (topology == json.end() || !topology->is_object()) return "no topology";
  if (parts == json.end() || !parts->is_object()) return "no step_parts_ms";
  Members place(*topology);
  place.integer("ranks", result.ranks, 1);
  place.integer("hosts", result.hosts, 1);
  place.integer("local_ranks", result.local_ranks, 1);
  place.integer("threads", result.threads, 1);
  place.integer("buckets", result.buckets, 0);
  place.text("backend", result.backend);
  result.pretended_hosts = topology->value("pretended_hosts", Json()) == Json(true);
  Members times(*parts);
  times.number("input", result.parts.input);
  times.number("forward", result.parts.forward);
  times.number("backward", result.parts.backward);
  times.number("communication_exposed", result.parts.exposed);
  times.number("optimizer", result.parts.optimizer);
  if (const auto hidden = parts->find("communication_hidden"); hidden != parts->end() && hidden->is_number())
    result.parts.hidden = *hidden;
  for (const Members* one : {&top, &place, &times})
    if (!one->wrong().empty()) return one->wrong();
  return {};
}

}  // namespace

std::vector<double> TrainResult::speeds() const {
  std::vector<double> speeds;
  for (const TrainRepeat& repeat : repeats) speeds.push_back(repeat.images_per_s);
  return speeds;
}

std::vector<std::pair<std::string, double>> named_parts(const TrainResult& result) {
  const StepParts& parts = result.parts;
  const bool training = result.mode == "training";
  std::vector<std::pair<std::string, double>> named = {{"input", parts.input}, {"forward", parts.forward}};
  if (training) named.emplace_back("backward", parts.backward);
  named.emplace_back(training ? "communication, exposed" : "waiting for other ranks", parts.exposed);
  if (training) named.emplace_back("optimizer", parts.optimizer);
  named.emplace_back("rest", parts.rest);
  if (parts.hidden >= 0) named.emplace_back("communication, hidden (in addition)", parts.hidden);
  return named;
}

std::string emulation_words(const TrainResult& result) {
  return fmt::format(
      "EMULATION: each rank sleeps as an accelerator of {:g} images/s would compute; communication is real",
      result.emulated_images_per_s);
}

std::string head_lines(const TrainResult& result) {
  std::string text;
  const auto line = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("{:<13}{}\n", name, value);
  };
  line("Model:", fmt::format("{} ({:.2f} M parameters)", result.model, static_cast<double>(result.parameters) * 1e-6));
  line("Dataset:", fmt::format("{}, images {}", result.data, result.image_size));
  line("Mode:", result.mode);
  line("Batch size:", fmt::format("{} global", std::int64_t{result.batch} * result.accumulate * result.ranks));
  line("", fmt::format("{} per rank", result.batch));
  line("Num batches:", fmt::format("{}, after {} of warm-up", result.num_batches, result.num_warmup_batches));
  line("Ranks:", fmt::format("{} on {}, {} of {}, {} each", result.ranks,
                             counted(result.hosts, result.pretended_hosts ? "pretended host" : "host"), result.device,
                             result.backend, counted(result.threads, "thread")));
  line("Optimizer:", fmt::format("{}, {}", result.optimizer, result.precision));
  if (result.emulated_images_per_s > 0) text += emulation_words(result) + "\n";
  return text;
}

std::string step_line(std::int64_t step, const TrainRepeat& so_far) {
  std::string line = fmt::format("{}\timages/sec: {:.1f} +/- {:.1f} (jitter = {:.1f})\t{:.3f}", step,
                                 so_far.images_per_s, so_far.uncertainty, so_far.jitter, so_far.loss);
  if (so_far.training_accuracy >= 0) line += fmt::format("\t{:.3f}", so_far.training_accuracy);
  return line;
}

std::string total_lines(const TrainRepeat& repeat) {
  std::string text(kRule);
  if (repeat.accuracy >= 0) text += fmt::format("Accuracy @ 1 = {:.4f}\n", repeat.accuracy);
  return text + fmt::format("total images/sec: {:.2f}\n{}", repeat.images_per_s, kRule);
}

std::string summary_lines(const TrainResult& result) {
  const Spread spread = spread_of(result.speeds());
  std::string text;
  if (spread.count > 1)
    text += fmt::format(
        "{} runs: {:.2f} images/s, 95 % interval {:.2f} to {:.2f}, deviation {:.2f}, {:.2f} to {:.2f}\n", spread.count,
        spread.mean, spread.confidence.low, spread.confidence.high, spread.deviation, spread.lowest, spread.highest);
  const double step = mean_step_ms(result);
  text += fmt::format("A step takes {:.3f} ms, mean of {}:\n", step, counted(result.ranks, "rank"));
  for (const auto& [name, ms] : named_parts(result))
    text += fmt::format("  {:<34} {:>10.3f} ms {:>6.1f} %\n", name, ms, step > 0 ? ms / step * 100 : 0);
  text += fmt::format("Peak memory {} a rank", human_bytes(result.peak_bytes));
  if (result.reduced_step_bytes > 0)
    text += fmt::format("; {} of gradients reduced a step, {} sent by each rank of a ring",
                        human_bytes(result.reduced_step_bytes), human_bytes(result.sent_step_bytes));
  text += '\n';
  if (result.emulated_images_per_s > 0) text += emulation_words(result) + "\n";
  return text;
}

Json to_json(const TrainResult& result) {
  const Spread spread = spread_of(result.speeds());
  const bool training = result.mode == "training";
  const std::string prefix = training ? "train" : "infer";
  const StepParts& parts = result.parts;
  Json json = {{"benchmark", kBenchmark}, {"model", result.model}};
  json[prefix + "_samples_per_sec"] = rounded(spread.mean, 100);
  json[prefix + "_step_time"] = rounded(mean_step_ms(result), 1000);
  if (training) {
    json["train_fwd_time"] = rounded(parts.forward, 1000);
    json["train_bwd_time"] = rounded(parts.backward, 1000);
    json["train_opt_time"] = rounded(parts.optimizer, 1000);
  }
  json[prefix + "_batch_size"] = result.batch;
  json[prefix + "_img_size"] = result.image_size.find('x') == std::string::npos
                                   ? Json(parse_integer(result.image_size).value_or(0))
                                   : Json(result.image_size);
  json["param_count"] = rounded(static_cast<double>(result.parameters) * 1e-6, 100);
  json["parameters"] = result.parameters;
  json["image_size"] = result.image_size;
  json["mode"] = result.mode;
  json["data"] = result.data;
  json["device"] = result.device;
  json["optimizer"] = result.optimizer;
  json["precision"] = result.precision;
  json["emulated_images_per_s"] = result.emulated_images_per_s;
  json["num_batches"] = result.num_batches;
  json["num_warmup_batches"] = result.num_warmup_batches;
  json["accumulate"] = result.accumulate;
  json["images_per_s"] = {{"mean", spread.mean},          {"deviation", spread.deviation},
                          {"low", spread.confidence.low}, {"high", spread.confidence.high},
                          {"lowest", spread.lowest},      {"highest", spread.highest}};
  for (const TrainRepeat& repeat : result.repeats) json["repeats"].push_back(repeat_json(repeat));
  json["step_parts_ms"] = parts_json(parts);
  json["peak_memory_bytes"] = result.peak_bytes;
  json["reduced_bytes_per_step"] = result.reduced_step_bytes;
  json["ring_sent_bytes_per_step"] = result.sent_step_bytes;
  json["topology"] = {{"ranks", result.ranks},
                      {"hosts", result.hosts},
                      {"pretended_hosts", result.pretended_hosts},
                      {"local_ranks", result.local_ranks},
                      {"threads", result.threads},
                      {"buckets", result.buckets},
                      {"backend", result.backend}};
  if (const Json environment = Json::parse(result.environment, nullptr, /*allow_exceptions=*/false);
      environment.is_object())
    json["environment"] = environment;
  return json;
}

Result<TrainResult> read_train_result(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text) return failure(Code::kInvalidArgument, "{}: {}", path, text.error().message());
  return train_result_of(pages::parse_shallow(*text), path);
}

Result<TrainResult> train_result_of(const Json& json, const std::string& path) {
  const auto refuse = [&path](std::string_view why) {
    return failure(Code::kInvalidArgument, "{}: {}; give files of `xoe bench train --output`", path, why);
  };
  if (!json.is_object() || json.value("benchmark", Json()) != Json(kBenchmark))
    return refuse("this is no result of `xoe bench train`");
  TrainResult result;
  if (const std::string wrong = read_members(json, result); !wrong.empty()) return refuse("it has " + wrong);
  if (const auto machine = json.find("environment"); machine != json.end() && machine->is_object()) {
    result.environment = machine->dump(-1, ' ', false, Json::error_handler_t::replace);
    if (const auto name = machine->find("processor"); name != machine->end() && name->is_string())
      result.processor = printable_utf8(name->get<std::string>());
  }
  const auto repeats = json.find("repeats");
  if (repeats == json.end() || !repeats->is_array() || repeats->empty()) return refuse("it has no repeats");
  for (const Json& one : *repeats) {
    TrainRepeat repeat;
    Members members(one);
    if (one.is_object()) {
      members.number("images_per_s", repeat.images_per_s, 1e-9);
      members.number("step_ms", repeat.step_ms, 0);
    }
    if (!one.is_object() || !members.wrong().empty()) return refuse("a repeat is broken");
    result.repeats.push_back(repeat);
  }
  return result;
}

}  // namespace xoe::bench
