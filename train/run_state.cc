// Beginning, evaluation and checkpoints of a run.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "train/agree.h"
#include "train/buffers.h"
#include "train/run.h"
#include "xoe/torch/broadcast.h"

namespace xoe::train {

// Ranks that find other files would make other numbers of batches, and wait for one another for ever.
Status Run::check_same_data() {
  const DataInfo& mine = setup_.data->info();
  const std::array<std::int64_t, 3> facts = {static_cast<std::int64_t>(mine.fingerprint), mine.batches_per_epoch,
                                             mine.held_out};
  std::vector<std::int64_t> all(facts.size() * static_cast<std::size_t>(comm_.size()));
  XOE_TRY(comm_.allgather(ConstTensor(facts.data(), facts.size()), Tensor(all.data(), all.size())));
  std::string others;
  for (auto theirs = all.begin(); theirs != all.end(); theirs += facts.size()) {
    if (std::equal(all.begin(), all.begin() + facts.size(), theirs)) continue;
    others += fmt::format("{}rank {} ({} batches an epoch and {} images for evaluation)", others.empty() ? "" : ", ",
                          (theirs - all.begin()) / static_cast<std::ptrdiff_t>(facts.size()), theirs[1], theirs[2]);
  }
  if (others.empty()) return {};
  return failure(
      Code::kInvalidArgument,
      "{}: not all ranks have the same records: rank 0 has {} batches an epoch and {} images for evaluation, "
      "but others have {}; give each rank the same files",
      options_.data_dir, all[1], all[2], others);
}

Status Run::prepare() {
  auto local = set_up(options_, comm_);
  XOE_TRY(everywhere(agree(comm_, local ? Status() : failure(local.error()))));
  setup_ = std::move(*local);
  XOE_TRY(everywhere(check_same_data()));
  if (!options_.timeline.empty() && !first()) {
    // Rank 0 has made the file by now.
    if (auto joined = trace::Timeline::open(options_.timeline, comm_.rank(), /*create=*/false)) {
      setup_.timeline = std::move(*joined);
    } else {
      hold(failure(joined.error()));
    }
  }
  trace_.emplace(setup_.timeline.get());
  hold(trace_->name_lanes());
  plan_ = make_plan(options_, setup_.data->info(), comm_.size());

  std::optional<Sections> sections;
  if (options_.resume) {
    auto loaded = load_checkpoint(options_, setup_.data->info(), comm_);
    if (!loaded) return everywhere(failure(loaded.error()));
    sections = std::move(*loaded);
    if (!sections && first()) {
      listener_.noted(fmt::format("no checkpoint in {}: starting from the beginning", options_.checkpoint_dir));
    }
  }
  place_model(setup_, options_);
  if (sections) {
    XOE_TRY(restore_model(*sections, options_, setup_.data->info(), comm_.rank(), *setup_.model));
  } else {
    XOE_TRY(xoe::torch::broadcast_parameters(*setup_.model, comm_));
  }
  XOE_ASSIGN(optimizer_, xoe::torch::DistributedOptimizer::create(
                             *setup_.optimizer, *setup_.model, comm_,
                             {.bucket_bytes = static_cast<std::size_t>(options_.bucket_mib * 1024 * 1024),
                              .backward_passes_per_step = options_.accumulate,
                              .average_passes = true,
                              .find_unused = false,  // every parameter of these models takes part in each step
                              .sharded = options_.sharded,
                              .observer = &*trace_}));
  hold(trace_->name_buckets(*optimizer_));
  if (sections) XOE_TRY(resume(*sections));
  if (first() && !options_.run_dir.empty()) {
    if (auto folder = RunFolder::open(options_.run_dir, first_step_)) {
      folder_ = std::move(*folder);
      hold(folder_->started(start_event()));
    } else {
      hold(failure(folder.error()));
    }
  }
  if (step_ < plan_.total_steps) hold(fetch());
  return everywhere(agree(comm_, held_));
}

Status Run::resume(const Sections& sections) {
  XOE_ASSIGN(Progress progress, restore_rest(sections, comm_.rank(), setup_.device, *optimizer_));
  step_ = first_step_ = checkpoint_step_ = progress.step;
  position_ = std::move(progress.position);
  hold(setup_.data->restore(position_));
  if (!first()) return {};
  listener_.noted(fmt::format("resumed from step {} in {}", step_, options_.checkpoint_dir));
  if (progress.total_steps != 0 && progress.total_steps != plan_.total_steps) {
    listener_.noted(fmt::format("the run was to have {} steps and now has {}: its learning rates change with that",
                                progress.total_steps, plan_.total_steps));
  }
  return {};
}

Status Run::evaluate() {
  const auto span = trace_->span(Phase::kEvaluation);
  const at::NoGradGuard no_grad;
  const auto own = copy_buffers(*setup_.model);
  XOE_ASSIGN(const auto averaged, average_buffers(*setup_.model, comm_));
  set_buffers(*setup_.model, averaged);
  setup_.model->eval();

  StepSums sums;
  Status local = setup_.data->start_held_out();
  while (local) {
    auto batch = setup_.data->next_held_out();
    if (!batch) local = failure(batch.error());
    if (!batch || !*batch) break;
    if ((*batch)->count() == 0) continue;
    const at::Tensor labels = (*batch)->labels.to(setup_.device);
    const Autocast autocast(setup_.device, options_.precision);
    const at::Tensor logits = setup_.model->forward(place_images(setup_, (*batch)->images));
    sums.loss += at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum).item<double>();
    sums.correct += static_cast<double>(logits.argmax(1).eq(labels).sum().item<std::int64_t>());
    sums.images += static_cast<double>((*batch)->count());
  }
  setup_.model->train();
  set_buffers(*setup_.model, own);
  XOE_TRY(everywhere(agree(comm_, local)));

  std::array values = {sums.loss, sums.correct, sums.images};
  XOE_TRY(comm_.allreduce(Tensor(values.data(), values.size()), ReduceOp::kSum, {.name = "evaluation sums"}));
  const Evaluation evaluation = {.step = step_,
                                 .epoch = epoch(),
                                 .loss = values[0] / values[2],
                                 .accuracy = values[1] / values[2],
                                 .images = static_cast<std::int64_t>(values[2])};
  outcome_.accuracy = evaluation.accuracy;
  if (first()) {
    listener_.evaluated(evaluation);
    if (folder_) hold(folder_->evaluated(evaluation));
  }
  return {};
}

Status Run::checkpoint() {
  const auto span = trace_->span(Phase::kCheckpoint);
  auto path = save_checkpoint(options_, setup_.data->info(),
                              {.step = step_, .total_steps = plan_.total_steps, .position = position_}, *setup_.model,
                              *optimizer_, comm_);
  if (!path) return everywhere(failure(path.error()));
  checkpoint_step_ = step_;
  outcome_.checkpoint = *path;
  if (first()) listener_.noted(fmt::format("checkpoint {}", *path));
  return {};
}

}  // namespace xoe::train
