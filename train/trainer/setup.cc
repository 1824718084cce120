#include "train/trainer/setup.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "train/trainer/agree.h"
#include "train/trainer/buffers.h"
#include "train/trainer/checkpoint_file.h"
#include "train/trainer/files.h"
#include "xoe/data/stages.h"
#include "xoe/torch/layerwise.h"

namespace xoe::train {
namespace {

// Biases and what scales and shifts after a normalisation get neither trust nor decay.
template <class Optimizer, class Options>
std::unique_ptr<::torch::optim::Optimizer> layerwise(const models::ImageModel& model, const Options& options) {
  std::vector<at::Tensor> scaled;
  std::vector<at::Tensor> rest;
  for (const at::Tensor& parameter : model.parameters()) (parameter.dim() > 1 ? scaled : rest).push_back(parameter);
  std::vector<::torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::move(scaled));
  groups.emplace_back(std::move(rest), std::make_unique<Options>(Options(options).weight_decay(0).layerwise(false)));
  return std::make_unique<Optimizer>(groups, options);
}

std::unique_ptr<::torch::optim::Optimizer> make_optimizer(const TrainOptions& options,
                                                          const models::ImageModel& model) {
  const double decay = options.weight_decay.value_or(0);
  if (options.optimizer == OptimizerKind::kLars)
    return layerwise<torch::LARS>(model, torch::LARSOptions(options.lr).momentum(options.momentum).weight_decay(decay));
  if (options.optimizer == OptimizerKind::kLamb)
    return layerwise<torch::LAMB>(model, torch::LAMBOptions(options.lr).weight_decay(decay));
  if (options.optimizer == OptimizerKind::kAdamW) {
    return std::make_unique<::torch::optim::AdamW>(model.parameters(),
                                                   ::torch::optim::AdamWOptions(options.lr).weight_decay(decay));
  }
  return std::make_unique<::torch::optim::SGD>(
      model.parameters(), ::torch::optim::SGDOptions(options.lr).momentum(options.momentum).weight_decay(decay));
}

Status check_checkpoint_folder(const TrainOptions& options) {
  if (options.checkpoint_dir.empty()) return {};
  XOE_TRY(make_folder(options.checkpoint_dir));
  XOE_ASSIGN(const auto stored, list_checkpoints(options.checkpoint_dir));
  if (stored.empty() || options.resume) return {};
  return failure(Code::kInvalidArgument,
                 "{} already holds checkpoints, up to step {}; go on from there with --resume, "
                 "or choose another folder",
                 options.checkpoint_dir, stored.back().step);
}

}  // namespace

Status choose_processors(Setup& setup, const TrainOptions& options, int local_rank, int local_size) {
  setup.threads = set_threads(options.threads, local_size);
  if (setup.optimizer != nullptr) return {};
  XOE_ASSIGN(setup.device, choose_device(options.device, local_rank));
  XOE_TRY(check_precision(setup.device, options.precision));
  if (options.logical_shards > 0 && !setup.device.is_cpu())
    return failure(Code::kUnsupported,
                   "--logical-shards: kernels of GPUs do not give the same bits each time; give --device cpu");
  setup.upload = Upload(setup.device);
  return {};
}

Status open_data(Setup& setup, const TrainOptions& options, const Share& share, Warn warn) {
  if (options.data_dir.empty()) {
    setup.data = synthetic_batches(options, share, setup.device);
  } else {
    XOE_ASSIGN(setup.data, image_batches(options, share, std::move(warn)));
  }
  return {};
}

Status check_folders(const TrainOptions& options) {
  XOE_TRY(check_checkpoint_folder(options));
  return options.resume || options.run_dir.empty() ? Status() : check_free(options.run_dir);
}

Status agree_on_data(BatchSource& data, Communicator& comm, int counter) {
  // Ranks with different files would have different numbers of batches, and wait for each other for ever.
  const data::GatherTexts gather = [&](const std::string& text) { return gather_texts(comm, text); };
  const OpenedSplits mine = data.opened();
  XOE_TRY(data::compare_opened(mine.training, comm.rank(), gather));
  XOE_TRY(data::compare_opened(mine.held_out, comm.rank(), gather));
  // Where only the labels tell the number of classes, one rank reads them for all.
  const auto counted = comm.rank() == counter ? data.count_classes() : Result<int>(0);
  XOE_TRY(agree(comm, counted ? Status() : failure(counted.error())));
  std::int64_t classes = *counted;
  XOE_TRY(comm.broadcast(Tensor(&classes, 1), counter));
  data.set_classes(static_cast<int>(classes));
  return {};
}

Status create_model(Setup& setup, const TrainOptions& options, int classes) {
  at::Generator random = at::detail::getDefaultCPUGenerator();
  random.set_current_seed(options.seed);
  XOE_ASSIGN(setup.model,
             models::make_model(options.model, classes, options.image_size.height, options.image_size.width));
  if (options.checkpoint_activations && setup.model->recompute_blocks(true) == 0)
    return failure(Code::kUnsupported, "{} has no blocks to recompute; leave out --checkpoint-activations",
                   options.model);
  return {};
}

void place_model(Setup& setup, const TrainOptions& options) {
  setup.memory_format = options.memory_format == MemoryFormat::kNchw   ? at::MemoryFormat::Contiguous
                        : options.memory_format == MemoryFormat::kNhwc ? at::MemoryFormat::ChannelsLast
                                                                       : setup.model->memory_format();
  setup.model->to(setup.device);
  for (at::Tensor& parameter : setup.model->parameters()) {
    if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(setup.memory_format));
  }
  setup.model->train(options.step_kind != StepKind::kEvaluate);
  setup.optimizer = make_optimizer(options, *setup.model);
  if (options.emulated_images_per_s > 0) setup.emulated.emplace(*setup.model, options.emulated_images_per_s);
}

namespace {

// Puts parameters, buffers and the default random generator back as they are now.
class AsBefore {
 public:
  explicit AsBefore(Setup& setup)
      : setup_(setup),
        random_(at::detail::getDefaultCPUGenerator()),
        drawn_(random_.clone()),
        buffers_(copy_buffers(*setup.model)) {
    for (const at::Tensor& parameter : setup.model->parameters()) parameters_.push_back(parameter.detach().clone());
  }
  ~AsBefore() {
    const at::NoGradGuard no_grad;
    set_buffers(*setup_.model, buffers_);
    auto kept = parameters_.begin();
    for (const at::Tensor& parameter : setup_.model->parameters()) parameter.copy_(*kept++);
    const std::lock_guard lock(random_.mutex());
    random_.set_state(drawn_.get_state());
  }
  AsBefore(const AsBefore&) = delete;
  AsBefore& operator=(const AsBefore&) = delete;

 private:
  Setup& setup_;
  at::Generator random_, drawn_;
  std::vector<at::Tensor> buffers_, parameters_;
};

}  // namespace

void warm_up(Setup& setup, const TrainOptions& options) {
  const bool trains = options.step_kind == StepKind::kTrain;
  if (setup.emulated) return;
  const AsBefore as_before(setup);
  const at::AutoGradMode for_backward(trains);
  const Autocast autocast(setup.device, options.precision);
  const at::Tensor images = at::zeros({options.batch, 3, options.image_size.height, options.image_size.width});
  const at::Tensor labels = at::zeros({options.batch}, at::kLong).to(setup.device);
  const at::Tensor loss = at::cross_entropy_loss(setup.model->forward(place_images(setup, images)).main, labels);
  if (!trains) return;
  loss.backward();
  setup.optimizer->step();
  for (at::Tensor& parameter : setup.model->parameters()) parameter.mutable_grad().reset();
}

void seed_step(const Setup& setup, const TrainOptions& options, int stream, std::int64_t step) {
  at::Generator random = at::globalContext().defaultGenerator(setup.device);
  const std::lock_guard lock(random.mutex());
  random.set_current_seed(
      mix(mix(mix(options.seed) + static_cast<std::uint64_t>(stream)) + static_cast<std::uint64_t>(step)));
}

at::Tensor place_images(const Setup& setup, const at::Tensor& images) {
  return images.to(setup.device).contiguous(setup.memory_format);
}

std::int64_t joint_batch_of(const TrainOptions& options, const Share& share) noexcept {
  if (options.logical_shards > 0) return std::int64_t{options.logical_shards} * options.batch;
  return share.joint_batch > 0 ? share.joint_batch : std::int64_t{share.size} * options.batch;
}

Plan make_plan(const TrainOptions& options, const DataInfo& data, std::int64_t images_per_step) {
  Plan plan;
  plan.steps_per_epoch = static_cast<double>(data.batches_per_epoch) / options.accumulate;
  plan.total_steps = options.steps > 0 ? options.steps
                                       : std::max<std::int64_t>(1, std::llround(options.epochs * plan.steps_per_epoch));
  if (data.held_out > 0 && options.eval_every > 0) {
    plan.eval_interval = std::max<std::int64_t>(1, std::llround(options.eval_every * plan.steps_per_epoch));
  }
  plan.schedule = make_schedule(options, plan.steps_per_epoch, plan.total_steps, images_per_step);
  return plan;
}

void shift_plan(Plan& plan, const TrainOptions& options, const Progress& progress, bool ranks_change) {
  if (plan.steps_per_epoch <= 0 || options.steps > 0) return;
  plan.shift = progress.shift;
  if (ranks_change && progress.epoch >= 0)
    plan.shift = progress.step - static_cast<std::int64_t>(std::floor(progress.epoch * plan.steps_per_epoch));
  plan.total_steps += plan.shift;
  // The rest of an epoch may be less than a step of these ranks.
  if (ranks_change && progress.step < progress.total_steps && progress.epoch < options.epochs)
    plan.total_steps = std::max(plan.total_steps, progress.step + 1);
}

std::optional<std::int64_t> steps_left(const TrainOptions& options, const DataInfo& data, const Batch& next) noexcept {
  constexpr double kMostEpochs = 1e9;
  if (options.epochs > kMostEpochs) return std::nullopt;
  const auto epochs = static_cast<std::int64_t>(options.epochs);
  if (data.batches_per_epoch == 0 || options.steps > 0 || static_cast<double>(epochs) != options.epochs)
    return std::nullopt;
  const std::int64_t batches = next.left + 1 + (epochs - 1 - next.epoch) * data.batches_per_epoch;
  return (std::max<std::int64_t>(batches, 0) + options.accumulate - 1) / options.accumulate;
}

Resized describe_resized(const TrainOptions& options, const Plan& plan, const Share& share, std::int64_t first_step) {
  const std::int64_t joint = joint_batch_of(options, share);
  // Shards stay whole.
  const std::int64_t unit = options.logical_shards > 0 ? options.batch : 1, units = joint / unit;
  return {.first_step = first_step,
          .ranks = share.size,
          .images = joint * options.accumulate,
          .least = units / share.size * unit * options.accumulate,
          .most = data::share_of(units, 0, share.size) * unit * options.accumulate,
          .policy = std::string(on_resize_name(options.on_resize.value_or(OnResize::kScaleRate))),
          .peak_rate = plan.schedule.peak};
}

RunStart describe_run(const TrainOptions& options, const Setup& setup, const Plan& plan, const Share& share) {
  RunStart start;
  start.model = options.model;
  for (const at::Tensor& parameter : setup.model->parameters()) start.parameters += parameter.numel();
  start.device = setup.device.str();
  start.data = options.data_dir.empty() ? "synthetic" : options.data_dir;
  start.classes = setup.data->info().classes;
  start.image_size = options.image_size;
  start.held_out = setup.data->info().held_out;
  start.ranks = share.size;
  start.batch = options.logical_shards > 0
                    ? options.batch
                    : static_cast<int>(data::share_of(joint_batch_of(options, share), 0, share.size));
  start.logical_shards = options.logical_shards;
  start.images = joint_batch_of(options, share) * options.accumulate;
  start.accumulate = options.accumulate;
  start.threads = setup.threads;
  start.sharded = options.sharded;
  start.peak_rate = plan.schedule.peak;
  start.total_steps = plan.total_steps;
  if (!options.checkpoint_dir.empty()) start.checkpoints = std::filesystem::absolute(options.checkpoint_dir);
  if (!options.run_dir.empty()) start.run_dir = std::filesystem::absolute(options.run_dir);
  start.steps_per_epoch = std::llround(plan.steps_per_epoch);
  return start;
}

namespace {

void add_batch(const Setup& setup, const TrainOptions& options, const Batch& batch, StepSums& sums) {
  if (batch.count() == 0) return;
  const at::Tensor labels = batch.labels.to(setup.device);
  const Autocast autocast(setup.device, options.precision);
  const at::Tensor logits = setup.model->forward(place_images(setup, batch.images)).main;
  sums.loss += at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum).item<double>();
  sums.correct += static_cast<double>(logits.argmax(1).eq(labels).sum().item<std::int64_t>());
  sums.images += static_cast<double>(batch.count());
}

}  // namespace

Status add_held_out(Setup& setup, const TrainOptions& options, ShardRange shards, std::vector<StepSums>& sums) {
  XOE_TRY(setup.data->start_held_out());
  sums.assign(static_cast<std::size_t>(std::max(shards.count(), 1)), {});
  std::int64_t left = setup.data->info().held_out;  // of all ranks
  for (;;) {
    XOE_ASSIGN(const auto batch, setup.data->next_held_out());
    if (!batch) return {};
    if (options.logical_shards == 0) {
      add_batch(setup, options, *batch, sums.front());
      continue;
    }
    const std::int64_t joint = std::min<std::int64_t>(left, std::int64_t{options.logical_shards} * options.batch);
    left -= joint;
    for (const Batch& part : cut_into_shards(*batch, joint, options.logical_shards, shards))
      add_batch(setup, options, part, sums[static_cast<std::size_t>(part.shard - shards.begin)]);
  }
}

}  // namespace xoe::train
