// One copy of the parameters for all ranks of a host, each rank updating its part of it.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <vector>

#include "buckets.h"
#include "xoe/communicator.h"

namespace xoe::torch {

// When parameters may be read: always, except within the update. Who updates when:
// - A rank writes parameters only between the first and the last meeting of a step.
// - It passes the first meeting (the used-parameters reduction or the barrier in open_update) only when all ranks have
// called step(). So all
//   have left forward and backward, and read no parameter before they leave step() themselves.
// - It leaves step() only past the last meeting (close_update), when all ranks have written all their parts.
class Shards {
 public:
  // Collective. Moves the parameters into shared memory and hands their parts to `optimizer`, with its state.
  static Result<std::unique_ptr<Shards>> create(::torch::optim::Optimizer& optimizer, GradientBuckets& buckets,
                                                Communicator& comm);
  ~Shards();
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  Status open_update();   // gradients of used parameters appear on the optimizer's parts
  Status close_update();  // ... and go; waits for all ranks

  // The sum of squares of this rank's part of the gradients, and its scaling.
  double squared_norm() const;
  void scale_gradients(double factor);

  Status save(::torch::serialize::OutputArchive& archive);  // collective; written on rank 0
  Status load(::torch::serialize::InputArchive& archive);
  Status unshard();  // collective

 private:
  using State = std::unique_ptr<::torch::optim::OptimizerParamState>;
  struct Part {
    Piece piece;
    std::size_t bucket = 0;
    at::Tensor tensor;    // what the optimizer works on: this part of the parameter, flat
    at::Tensor gradient;  // the same part of the gradient
  };

  Shards(::torch::optim::Optimizer& optimizer, GradientBuckets& buckets, Communicator& comm);
  Status move_parameters();
  void make_parts();
  void slice_state();
  Result<std::vector<State>> gather_state();
  Result<std::vector<std::int64_t>> gather_numbers();
  Status gather_field(std::size_t bucket, std::size_t field, const std::vector<std::int64_t>& numbers,
                      std::vector<State>& whole);
  std::size_t columns() const;
  void install_whole(std::vector<State> states);
  void install_parts();
  void make_private();

  ::torch::optim::Optimizer& optimizer_;
  GradientBuckets& buckets_;
  Communicator& comm_;
  State prototype_;                                    // an empty state of this optimizer
  std::vector<std::vector<at::Tensor>> whole_groups_;  // the optimizer's parameters, by group, as they were
  std::vector<std::vector<at::Tensor>> part_groups_;   // ... and this rank's parts of them
  std::vector<Part> parts_;
  std::shared_ptr<SharedBuffer> memory_;   // rank 0's holds the parameters
  std::vector<std::byte*> bucket_starts_;  // where the parameters of each bucket lie
  bool sharded_ = false;
};

}  // namespace xoe::torch
