#include "measure/cli/simulate.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <random>

#include "core/base/error.h"
#include "core/base/text_file.h"

namespace xoe::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kBucketBytes = 25 * 1024 * 1024;  // the trainer's default

// The fraction of `random` in (0, 1).
double fraction(std::mt19937_64& random) { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; }

// Normally distributed, by Box and Muller: the standard library's numbers differ between implementations.
double normal(std::mt19937_64& random) {
  const double radius = std::sqrt(-2 * std::log(fraction(random)));
  return radius * std::cos(2 * std::numbers::pi * fraction(random));
}

// The factor by which the slowest of `ranks` computes longer than the mean.
double slowest(int ranks, double noise, std::mt19937_64& random) {
  double most = -INFINITY;
  for (int rank = 0; rank < ranks; ++rank) most = std::max(most, normal(random));
  return std::exp(noise * most);
}

CostModel draw_model(const MeasuredFabric& fabric, std::mt19937_64& random) {
  if (fabric.points.empty()) return {};
  std::vector<CostPoint> points;
  for (std::size_t i = 0; i < fabric.points.size(); ++i)
    points.push_back(fabric.points[random() % fabric.points.size()]);
  // All of one size tell latency and bandwidth not apart.
  const bool same = std::ranges::all_of(points, [&](const CostPoint& one) { return one.bytes == points[0].bytes; });
  return fit_cost(same ? fabric.points : points, fabric.fabric);
}

double reduction_seconds(const CostModel& model, Fabric fabric, int ranks, double bytes) {
  return ranks < 2 ? 0 : predict_seconds(model, fabric, {.ranks = ranks, .work = 0, .bytes = bytes, .seconds = {}});
}

struct StepTime {
  double whole = 0;
  double exposed = 0;  // beyond a mean rank's computing
};

StepTime simulate_step(const StepProfile& profile, double slow, double bucket_seconds) {
  double done = 0;
  for (int bucket = 0; bucket < profile.buckets; ++bucket) {
    const double ready = slow * (profile.forward + profile.backward * (bucket + 1) / profile.buckets);
    done = std::max(done, ready) + bucket_seconds;
  }
  return {.whole = done + profile.rest, .exposed = done - profile.forward - profile.backward};
}

}  // namespace

Result<MeasuredFabric> read_fabric(const std::string& path, Fabric fabric) {
  const auto text = read_text_file(path);
  if (!text) return failure(Code::kInvalidArgument, "{}: {}", path, text.error().message());
  const auto refuse = [&path](std::string_view why) {
    return failure(Code::kInvalidArgument, "{}: {}; give a file of `xoe bench collectives all_reduce --output`", path,
                   why);
  };
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const Json none;
  const auto member = [&none](const Json& of, const char* name) -> const Json& {
    const auto found = of.is_object() ? of.find(name) : of.end();
    return of.is_object() && found != of.end() ? *found : none;
  };
  const Json& devices = member(member(json, "config"), "devices");
  const Json& results = member(json, "results");
  if (!devices.is_array() || !results.is_array()) return refuse("this has no results of collectives");
  if (devices.size() < 2 || devices.size() > kMostRanks) return refuse("it has no two ranks");
  MeasuredFabric measured{.points = {}, .fabric = fabric};
  for (const Json& row : results) {
    const Json& name = member(row, "experiment_name");
    if (name.is_string() && name != "all_reduce" && name != "AllReduce") continue;
    for (const char* place : {"out_of_place", "in_place"}) {
      const Json& us = member(member(row, place), "time");
      const Json& size = member(row, "size");
      if (!us.is_number() || !size.is_number() || !(us > 0) || !(size > 0)) continue;
      measured.points.push_back({.ranks = static_cast<int>(devices.size()),
                                 .work = 0,
                                 .bytes = size.get<double>(),
                                 .rounds = 1,
                                 .seconds = {us.get<double>() * 1e-6}});
    }
  }
  const auto is_first = [&](const CostPoint& one) { return one.bytes == measured.points.front().bytes; };
  if (std::ranges::all_of(measured.points, is_first)) return refuse("it has fewer than two sizes of all_reduce");
  return measured;
}

MeasuredFabric fabric_of(double latency, double bytes_per_second) {
  MeasuredFabric fabric;
  for (const double bytes : {8.0, 1e9})  // two ranks: two rounds, and each byte once
    fabric.points.push_back(
        {.ranks = 2, .work = 0, .bytes = bytes, .rounds = 1, .seconds = {2 * latency + bytes / bytes_per_second}});
  return fabric;
}

StepProfile profile_of(const TrainResult& result) {
  const StepParts& parts = result.parts;
  const Spread speed = spread_of(result.speeds());
  const double bytes = static_cast<double>(result.parameters) * 4;
  StepProfile profile = {
      .forward = parts.forward * 1e-3,
      .backward = parts.backward * 1e-3,
      .rest = (parts.input + parts.optimizer + parts.rest) * 1e-3,
      .noise = 0,
      .bytes = bytes,
      .buckets = result.buckets > 0 ? result.buckets : static_cast<int>(std::ceil(bytes / kBucketBytes)),
      .images = static_cast<double>(result.batch) * result.accumulate,
      .runs = {}};
  for (const TrainRepeat& repeat : result.repeats) {
    profile.runs.push_back(repeat.images_per_s / speed.mean);
    profile.noise += repeat.jitter / repeat.images_per_s / static_cast<double>(result.repeats.size());
  }
  return profile;
}

SimulatedSize simulate(const StepProfile& profile, const MeasuredFabric& network, const MeasuredFabric& local,
                       int ranks, const SimulationOptions& options) {
  const int in_host = std::min(ranks, options.ranks_per_host);
  SimulatedSize size = {.ranks = ranks, .hosts = (ranks + in_host - 1) / in_host, .interval = {}};
  // Of its own for each size, so that one size's numbers do not depend on the others.
  std::mt19937_64 random(options.seed + static_cast<std::uint64_t>(ranks) * 0x9E3779B97F4A7C15U);
  std::vector<double> speeds;
  const double bucket = profile.bytes / profile.buckets;
  for (int draw = 0; draw < options.draws; ++draw) {
    const CostModel links = draw_model(network, random);
    const CostModel memory = draw_model(local, random);
    const double run = profile.runs[random() % profile.runs.size()];
    const double seconds = reduction_seconds(memory, local.fabric, in_host, bucket) +
                           reduction_seconds(links, network.fabric, size.hosts, bucket);
    double whole = 0;
    for (int step = 0; step < options.steps; ++step) {
      const StepTime time = simulate_step(profile, slowest(ranks, profile.noise, random) / run, seconds);
      whole += time.whole / options.steps;
      size.exposed_ms += time.exposed * 1e3 / options.steps / options.draws;
    }
    speeds.push_back(profile.images * ranks / whole);
  }
  size.exposed_ms = std::max(0.0, size.exposed_ms);  // ranks that were lucky have less than none
  size.images_per_s = quantile_of(speeds, 0.5);
  size.interval = middle_of(speeds);
  const double alone = profile.images / (profile.forward + profile.backward + profile.rest);
  size.efficiency = size.images_per_s / (alone * ranks);
  return size;
}

}  // namespace xoe::bench
