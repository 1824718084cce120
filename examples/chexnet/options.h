// The command line of the example.
#pragma once

#include <map>
#include <string>

#include "xoe/status.h"

namespace chexnet {

struct Options {
  std::string folder;                 // of the data
  std::string run;                    // of the checkpoint and of scores.json
  std::string model = "densenet121";  // or "detector", or another of xoe::models
  std::string weights;                // a file of weights that training begins with; empty: random ones
  int image_size = 224;               // pixels, of height and width
  int batch = 64;                     // images of all ranks in a step
  int epochs = 20;
  double lr = 0.001;              // the highest, of AdamW
  int patience = 5;               // epochs without a better validation AUROC before training ends
  double validation_share = 0.1;  // of the patients of train_val_list.txt
  bool flip = false;              // mirror training images at random
  bool shuffle_labels = false;    // a control: train on other images' labels
  int seed = 1;

  // What the result depends on, by its name on the command line.
  std::map<std::string, std::string> facts() const;
};

extern const char* const kUsage;

// `invalid_argument`: names the word that is wrong.
xoe::Result<Options> parse_options(int argc, char** argv);

}  // namespace chexnet
