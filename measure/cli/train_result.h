// What `xoe bench train` measured: the lines that it prints, and the JSON that other verbs read.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "measure/cli/stats.h"
#include "xoe/status.h"

namespace xoe::bench {

// Milliseconds of a mean step; means over ranks.
struct StepParts {
  double input = 0;  // waiting for it
  double forward = 0;
  double backward = 0;
  double exposed = 0;  // communication and waiting for other ranks, with nothing else to do
  double optimizer = 0;
  double rest = 0;
  double hidden = -1;  // communication behind computing, from a run with a timeline; -1: not measured
};

// One run of several.
struct TrainRepeat {
  double images_per_s = 0;        // of all ranks
  double uncertainty = 0;         // standard error over steps
  double jitter = 0;              // 1.4826 x median absolute deviation over steps
  double step_ms = 0;             // mean
  double loss = 0;                // of the last step
  double accuracy = -1;           // on held-out images; -1: not measured
  double training_accuracy = -1;  // of the last step's images; -1: it is not shown
};

struct TrainResult {
  std::string model;
  std::string processor;          // only of a result that was read
  std::string mode = "training";  // "training", "forward-only", "evaluation"
  std::string data = "synthetic";
  std::string device = "cpu";
  std::string optimizer;
  std::string precision = "fp32";
  std::string image_size;
  std::int64_t parameters = 0;
  int batch = 0;  // per rank and pass
  int accumulate = 1;
  int ranks = 1;
  int hosts = 1;
  bool pretended_hosts = false;  // XOE_PRETEND_HOSTS: they are one
  int local_ranks = 1;           // of rank 0's host
  int threads = 1;               // per rank
  int buckets = 0;
  std::string backend;
  double emulated_images_per_s = 0;  // 0: real computing
  int num_batches = 0;
  int num_warmup_batches = 0;
  std::vector<TrainRepeat> repeats;
  StepParts parts;
  std::uint64_t peak_bytes = 0;          // resident host memory of the largest rank
  std::uint64_t reduced_step_bytes = 0;  // that a rank gives to reductions in a step
  std::uint64_t sent_step_bytes = 0;     // that a ring would send from each rank for it: 2 (n - 1) / n of that
  std::string environment;               // JSON: machine, versions, variables, command line

  std::vector<double> speeds() const;
};

// The parts of a step by the names that people read.
std::vector<std::pair<std::string, double>> named_parts(const TrainResult& result);
// "EMULATION: ...", of an emulated accelerator.
std::string emulation_words(const TrainResult& result);
// "Model: resnet50 ..." to the line above the first step.
std::string head_lines(const TrainResult& result);
// "10\timages/sec: 97.2 +/- 0.4 (jitter = 1.1)\t7.312", as in tf_cnn_benchmarks; with the accuracy where it is shown.
std::string step_line(std::int64_t step, const TrainRepeat& so_far);
// "total images/sec: 97.20" between lines.
std::string total_lines(const TrainRepeat& repeat);
// Mean, spread and interval of all runs, the parts of a step, memory, bytes.
std::string summary_lines(const TrainResult& result);

// train_samples_per_sec, train_step_time, param_count and their like are named as in timm's benchmark.py.
nlohmann::ordered_json to_json(const TrainResult& result);
// `invalid_argument` with the name `path`: not the JSON of `xoe bench train`, or values that make no sense.
Result<TrainResult> read_train_result(const std::string& path);
// The same of JSON that `path` has.
Result<TrainResult> train_result_of(const nlohmann::ordered_json& json, const std::string& path);

}  // namespace xoe::bench
