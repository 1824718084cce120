// What a rank keeps while others come, leave and are lost: its data, its model, its optimizer, and how far they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/trainer/checkpoint.h"
#include "train/trainer/setup.h"
#include "train/trainer/step_ledger.h"
#include "train/trainer/weight_average.h"

namespace xoe::train {

struct RankState {
  Setup setup = {};
  std::optional<WeightAverage> average = {};  // of setup.model; between worlds, and before the first step of one
  // Of the last step that is finished. Model, optimizer and average are as that step left them where `trained`.
  Progress progress = {};
  bool trained = false;  // false: a newcomer, or a run that has not begun
  Share share = {};      // of setup.data
  StepLedger ledger = {};
};

}  // namespace xoe::train
