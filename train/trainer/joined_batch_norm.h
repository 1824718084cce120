// Batch norm over the images of all ranks.
#pragma once

#include <exception>
#include <utility>

#include "train/networks/models.h"
#include "xoe/engine.h"
#include "xoe/status.h"

namespace xoe::train {

// Ends a pass in which an exchange with the other ranks failed: libtorch calls them from within.
class PassFailed : public std::exception {
 public:
  explicit PassFailed(Error error) : error_(std::move(error)) {}
  const Error& error() const noexcept { return error_; }
  const char* what() const noexcept override { return error_.message().c_str(); }

 private:
  Error error_;
};

// The network's batch norms take statistics over the ranks of `engine`, which outlives their passes; these throw
// PassFailed. How many there are.
int join_batch_norms(const models::ImageModel& model, Engine& engine);
// They take this rank's own statistics again.
void part_batch_norms(const models::ImageModel& model);

}  // namespace xoe::train
