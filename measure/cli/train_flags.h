// The command line of `xoe bench train`, once tf_cnn_benchmarks' flags are translated (tf_cnn_flags.h).
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "measure/cli/output_flags.h"
#include "train/trainer/options.h"
#include "xoe/status.h"

namespace xoe::bench {

struct TrainFlags {
  train::TrainOptions options = {};
  std::string data_name = "imagenet";  // sets image size and classes where they are not given
  int num_batches = 100;               // measured steps of a run
  double num_epochs = 0;               // the same in epochs of the data; 0: num_batches counts
  int num_warmup_batches = 10;
  int display_every = 10;
  int repeat = 1;
  int traced_batches = 10;  // of a further run, which tells how much of the communication is hidden; 0: none
  bool use_fp16 = false;
  bool forward_only = false;
  bool eval = false;
  bool print_training_accuracy = false;
  bool has_warmup = false;         // --lr-warmup is given
  bool reports_at_the_end = true;  // and not each `report_every` steps; complete_flags() finds it out
  std::string variable_update = "replicated";
  std::string optimizer = "sgd";
  std::string trace_file = {};  // for the timeline of the traced run; empty: it is not kept
  OutputFlags out = {};
};

inline constexpr int kMostBatches = 100'000'000;

// Images of an epoch of synthetic data: those of the data set that it stands for; with --eval, of its validation part.
std::int64_t epoch_of(const TrainFlags& flags);

// Adds the verb. Its flags are in `flags` after parsing.
CLI::App* add_train_verb(CLI::App& app, TrainFlags& flags);

// Completes flags.options: steps, sizes by --data-name, defaults. `invalid_argument` names the option.
Status complete_flags(TrainFlags& flags);
// Sets the number of measured steps, and what follows from it.
void set_batches(TrainFlags& flags, int batches);

}  // namespace xoe::bench
