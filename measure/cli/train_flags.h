// The command line of `xoe bench train`: twelve flags of tf_cnn_benchmarks, and others.
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
  int num_warmup_batches = 10;
  int display_every = 10;
  int repeat = 1;
  int traced_batches = 10;  // of a further run, which tells how much of the communication is hidden; 0: none
  bool use_fp16 = false;
  bool forward_only = false;
  bool eval = false;
  std::string optimizer = "sgd";
  OutputFlags out = {};
};

// Adds the verb. Its flags are in `flags` after parsing.
CLI::App* add_train_verb(CLI::App& app, TrainFlags& flags);

// Completes flags.options: steps, sizes by --data-name, defaults. `invalid_argument` names the option.
Status complete_flags(TrainFlags& flags);

}  // namespace xoe::bench
