// Scores of every image of a split, gathered from all ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "train/networks/models.h"
#include "xoe/communicator.h"
#include "xoe/data/images.h"
#include "xoe/stats.h"

namespace chexnet {

inline constexpr int kLabels = 14;

struct SplitScores {
  std::vector<std::string> images;  // names of files, in the order of the table
  at::Tensor scores;                // [images, kLabels], float64
  at::Tensor targets;               // the same, float32

  xoe::Result<xoe::stats::LabelAurocs> aurocs() const;
};

// Images of a batch as a tensor that shares its memory.
at::Tensor pixels_of(const xoe::data::ImageBatch& batch);
at::Tensor targets_of(const xoe::data::ImageBatch& batch);

// Collective. `internal`: an image is missing or came twice.
xoe::Result<SplitScores> score_split(xoe::models::ImageModel& model, xoe::data::ImageIterator& split,
                                     xoe::Communicator& world);

}  // namespace chexnet
