// The events of a training run, reported on the training thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/trainer/speed.h"
#include "xoe/data/pixels.h"

namespace xoe::train {

struct RunStart {
  std::string model = {};
  std::int64_t parameters = 0;
  std::string device = {};  // "cpu", "cuda"
  std::string data = {};    // a folder, or "synthetic"
  int classes = 0;
  std::int64_t held_out = 0;  // images for evaluation; 0: there are none
  data::ImageSize image_size = 0;
  int ranks = 1;
  int batch = 0;           // per rank and backward pass; of the first ranks, where others have one image less
  int logical_shards = 0;  // in a step, of `batch` images each; 0: none
  int accumulate = 1;
  std::int64_t images = 0;  // of all ranks in a step
  int threads = 1;          // per rank
  int buckets = 0;
  bool sharded = false;
  double peak_rate = 0;
  std::int64_t first_step = 0;  // > 0: resumed
  std::int64_t total_steps = 0;
  std::int64_t steps_per_epoch = 0;  // 0: no epochs
  std::string checkpoints = {};      // their folder, an absolute path; empty: none
  std::string run_dir = {};          // an absolute path; empty: none
};

// The training goes on with other ranks.
struct Resized {
  std::int64_t first_step = 0;  // of theirs
  int ranks = 1;
  std::int64_t images = 0;  // of all ranks in a step
  std::int64_t least = 0;   // of a rank
  std::int64_t most = 0;
  std::string policy = {};  // what stays
  double peak_rate = 0;
  double seconds = -1;  // since this rank left the world before; -1: it was in none
};

// Covers the steps since the previous report; speed covers all measured steps.
struct Report {
  std::int64_t step = 0;  // finished so far
  double epoch = 0;
  double loss = 0;      // mean over ranks and steps
  double accuracy = 0;  // of training images
  double rate = 0;      // learning rate
  SpeedStats speed;     // images/s of all ranks together
  int ranks = 1;
  double images = 0;                // of all ranks in a step, mean of the steps
  std::int64_t skipped_images = 0;  // damaged images so far
  StepTimes share;                  // mean of all ranks
  std::vector<StepTimes> rank_shares;
};

// One step of one rank.
struct StepSample {
  std::int64_t step = 0;  // counted from 1
  double images = 0;      // of all ranks
  double loss = 0;        // mean of all ranks
  double accuracy = 0;    // of all ranks' images
  double seconds = 0;     // from the start of the step to its end
  StepTimes times;
};

struct Evaluation {
  std::int64_t step = 0;
  double epoch = 0;
  double loss = 0;
  double accuracy = 0;
  std::int64_t images = 0;
};

struct Outcome {
  bool interrupted = false;
  bool resized = false;  // it goes on with another number of ranks
  std::int64_t step = 0;
  double loss = 0;       // of the last report
  double accuracy = -1;  // of the last evaluation; -1: none
  SpeedStats speed;
  int ranks = 1;
  StepTimes share;    // of the whole run, mean of all ranks
  std::string input;  // rank 0's report of its input pipeline; may be empty
  double seconds = 0;
  std::string checkpoint;  // the last one written; empty: none
  std::string curve;       // path of the plot; empty: none
  std::string timeline;
  std::string metrics;  // the engine's counters on this rank at the end, as Engine::metrics() prints them
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual void started(const RunStart&) {}
  // On every rank, with its own times.
  virtual void measured(const StepSample&) {}
  virtual void stepped(std::int64_t /*step*/, std::int64_t /*total*/) {}
  virtual void resized(const Resized&) {}
  virtual void reported(const Report&) {}
  virtual void evaluated(const Evaluation&) {}
  virtual void warned(std::string_view /*message*/) {}  // "photos: 1 bad image left out: ..."
  virtual void noted(std::string_view /*message*/) {}   // "checkpoint runs/a/step-00000040.ckpt"
  // On every rank: the error that train() is about to return is the same on all of them.
  virtual void failed_everywhere() {}
};

}  // namespace xoe::train
