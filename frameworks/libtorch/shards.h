// A copy of the parameters that all ranks of a host share; each rank updates its part.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <vector>

#include "frameworks/libtorch/gradients.h"
#include "frameworks/libtorch/shard_layout.h"
#include "xoe/communicator.h"
#include "xoe/torch/layerwise.h"

namespace xoe::torch {

// Parameters may be read at any time except during the update. Invariants:
// - A rank writes parameters only between the first and the last synchronization of a step.
// - It passes the first one (the used-parameters reduction, or the barrier in open_update) only when all ranks have
// called
//   step(), so that all have left forward and backward, and read no parameter until they leave step() themselves.
// - It leaves step() only after the last one (close_update), when all ranks have written all their parts.
class Shards {
 public:
  // Collective. Moves the parameters into shared memory and hands their parts to `optimizer`, with its state.
  static Result<std::unique_ptr<Shards>> create(::torch::optim::Optimizer& optimizer, Gradients& gradients,
                                                Communicator& comm);
  ~Shards();
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  Status open_update();  // gradients of used parameters appear on the optimizer's parts
  // The step of an optimizer that needs norms of whole parameters. Collective.
  Status update(LayerwiseOptimizer& optimizer);
  Status close_update();  // removes the gradients again; waits for all ranks

  // The sum of squares of this rank's part of the gradients, and its scaling.
  double squared_norm() const;
  void scale_gradients(double factor);
  void clip_gradients(double largest);

  Status save(::torch::serialize::OutputArchive& archive);  // collective; written on rank 0
  Status load(::torch::serialize::InputArchive& archive);
  Status unshard();  // collective

 private:
  using State = std::unique_ptr<::torch::optim::OptimizerParamState>;
  struct Part {
    ParameterSlice slice;
    std::size_t bucket = 0;
    at::Tensor tensor;    // this part of the parameter, flat: what the optimizer updates
    at::Tensor gradient;  // the same part of the gradient
  };

  Shards(::torch::optim::Optimizer& optimizer, Gradients& gradients, Communicator& comm);
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
  Gradients& gradients_;
  Communicator& comm_;
  State prototype_;                                    // an empty state of this optimizer
  std::vector<std::vector<at::Tensor>> whole_groups_;  // the optimizer's original parameters, by group
  std::vector<std::vector<at::Tensor>> part_groups_;   // this rank's parts of them
  std::vector<Part> parts_;
  std::shared_ptr<SharedBuffer> memory_;   // rank 0's memory holds the parameters
  std::vector<std::byte*> bucket_starts_;  // the first parameter of each bucket
  bool sharded_ = false;
};

}  // namespace xoe::torch
