#include "measure/cli/collectives/collective_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/command_line/version.h"

namespace xoe::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kJsonVersion = 2;

std::string redop_of(const CollectiveCase& one) {
  return reduces(one.kind) ? std::string(nccl_op_name(one.op)) : "none";
}
int root_of(const CollectiveCase& one) { return one.kind == CollectiveKind::kBroadcast ? one.root : -1; }

std::string timing_text(const CollectiveRow& row, const std::optional<CollectiveTiming>& measured) {
  if (!measured) return std::string(33, ' ');
  const CollectiveTiming& timing = *measured;
  return fmt::format("  {}  {}  {}  {:>6}", fixed_width(timing.us, 7), fixed_width(row.algorithm_bandwidth(timing), 6),
                     fixed_width(row.bus_bandwidth(timing), 6),
                     timing.wrong ? fmt::to_string(*timing.wrong) : std::string("N/A"));
}

Json timing_json(const CollectiveRow& row, const std::optional<CollectiveTiming>& measured) {
  if (!measured) return nullptr;
  const CollectiveTiming& timing = *measured;
  return {{"time", timing.us},
          {"alg_bw", row.algorithm_bandwidth(timing)},
          {"bus_bw", row.bus_bandwidth(timing)},
          {"nwrong", timing.wrong ? Json(static_cast<double>(*timing.wrong)) : Json(nullptr)}};
}

const char* text_of(bool value) { return value ? "true" : "false"; }

}  // namespace

double CollectiveRow::algorithm_bandwidth(const CollectiveTiming& timing) const {
  return timing.us > 0 ? static_cast<double>(one.bytes()) / timing.us * 1e-3 : 0;
}
double CollectiveRow::bus_bandwidth(const CollectiveTiming& timing) const {
  return algorithm_bandwidth(timing) * one.bus_factor();
}

std::size_t CollectiveReport::wrong() const {
  std::size_t sum = 0;
  for (const CollectiveRow& row : rows)
    for (const auto& timing : {row.out_of_place, row.in_place}) sum += timing ? timing->wrong.value_or(0) : 0;
  return sum;
}

double CollectiveReport::average_bus_bandwidth() const {
  double sum = 0;
  std::size_t count = 0;
  for (const CollectiveRow& row : rows)
    for (const auto& timing : {row.out_of_place, row.in_place})
      if (timing) {
        sum += row.bus_bandwidth(*timing);
        ++count;
      }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

std::string fixed_width(double value, int width) {
  for (int digits = 2; digits >= 0; --digits)
    if (std::string text = fmt::format("{:>{}.{}f}", value, width, digits); std::ssize(text) <= width) return text;
  return fmt::format("{:>{}.1e}", value, width);
}

std::string head_lines(const CollectiveReport& report) {
  std::string text = fmt::format("# xoe version {}, backend {}, {} memory{}\n", command_line::version(), report.backend,
                                 report.memory, report.rewrite ? ", rewritten before each collective" : "");
  text += fmt::format("# minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} validation: {}\n#\n",
                      report.low, report.high, report.factor > 1 ? report.factor : report.step,
                      report.factor > 1 ? "factor" : "bytes", report.warmup, report.iterations, report.check ? 1 : 0);
  text += "# Using ranks\n";
  for (const CollectiveRank& rank : report.ranks)
    text += fmt::format("#  Rank {:2} Pid {:6} on {:>10}\n", rank.rank, rank.pid, rank.host);
  const auto line = [&text](const auto&... words) {
    text += fmt::format(
        "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}\n", words...);
  };
  text += fmt::format("#\n# {:>50}           out-of-place                       in-place\n", "");
  line("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
       "#wrong");
  line("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
  return text;
}

std::string row_line(const CollectiveRow& row) {
  const CollectiveCase& one = row.one;
  std::string text = fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", one.bytes(), one.block,
                                 nccl_type_name(one.dtype), redop_of(one), root_of(one));
  text += timing_text(row, row.out_of_place) + timing_text(row, row.in_place);
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

std::string foot_lines(const CollectiveReport& report) {
  return fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g}\n#\n", report.wrong(),
                     report.wrong() == 0 ? "OK" : "FAILED", report.average_bus_bandwidth());
}

Json to_json(const CollectiveReport& report) {
  Json config = {{"nthreads", 1}, {"ngpus", 1}, {"minimum_bytes", report.low}, {"maximum_bytes", report.high}};
  if (report.factor > 1)
    config["step_factor"] = report.factor;
  else
    config["step_bytes"] = report.step;
  config["warmup_iters"] = report.warmup;
  config["iterations"] = report.iterations;
  config["aggregated_iterations"] = 1;
  config["validation"] = report.check ? 1 : 0;
  config["graph"] = 0;
  config["blocking_collectives"] = text_of(true);  // each returns when it is done
  config["parallel_init"] = text_of(false);
  config["backend"] = report.backend;
  config["memory"] = report.memory;
  config["rewrite"] = text_of(report.rewrite);
  config["devices"] = Json::array();
  for (const CollectiveRank& rank : report.ranks)
    config["devices"].push_back({{"rank", rank.rank},
                                 {"group", 0},
                                 {"pid", rank.pid},
                                 {"hostname", rank.host},
                                 {"device", rank.rank},
                                 {"device_hex", ""},
                                 {"device_info", report.memory + " memory"}});
  Json results = Json::array();
  for (const CollectiveRow& row : report.rows)
    results.push_back({{"size", row.one.bytes()},
                       {"count", row.one.block},
                       {"type", nccl_type_name(row.one.dtype)},
                       {"redop", redop_of(row.one)},
                       {"root", fmt::format("{:6}", root_of(row.one))},
                       {"out_of_place", timing_json(row, row.out_of_place)},
                       {"in_place", timing_json(row, row.in_place)},
                       {"actual_iterations", report.iterations},
                       {"experiment_name", collective_name(row.one.kind)}});
  return {{"version", kJsonVersion},
          {"start_time", report.started},
          {"args", report.command},
          {"env", Json::array()},
          {"nccl_version", 0},
          {"xoe_version", command_line::version()},
          {"config", config},
          {"results", results},
          {"out_of_bounds", {{"count", report.wrong()}, {"okay", text_of(report.wrong() == 0)}}},
          {"average_bus_bandwidth", {{"bandwidth", report.average_bus_bandwidth()}, {"okay", "unchecked"}}},
          {"errors", Json::array()},
          {"end_time", report.ended}};
}

}  // namespace xoe::bench
