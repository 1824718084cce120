// TensorBoard's event files: curves that its reader draws. The format is in docs/formats/tfevents.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "train/trainer/files.h"

namespace xoe::train {

struct Scalar {
  std::string_view tag;  // "loss/train": TensorBoard puts the part before the slash above several curves
  double value = 0;
};

class EventFile {
 public:
  // Begins a new file, which TensorBoard reads after those that are in the folder. It forgets what they hold of steps
  // after `first_step`, so that a resumed run has no step twice.
  static Result<EventFile> begin(const std::string& folder, std::int64_t first_step);

  // Values of one step, at the time of this call; written at once, whole or not at all.
  Status write(std::int64_t step, std::span<const Scalar> scalars);

 private:
  explicit EventFile(GrowingFile file) : file_(std::move(file)) {}

  GrowingFile file_;
};

}  // namespace xoe::train
