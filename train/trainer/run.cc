#include "train/trainer/run.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/ranges.h>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/world_changes.h"
#include "train/trainer/agree.h"
#include "train/trainer/buffers.h"
#include "train/trainer/device.h"
#include "train/trainer/environment.h"
#include "train/trainer/joined_batch_norm.h"
#include "train/trainer/passes.h"
#include "train/trainer/weights.h"
#include "xoe/torch/broadcast.h"

namespace xoe::train {

Run::Run(const TrainOptions& options, Communicator& comm, Listener& listener, const std::atomic<bool>& stop,
         Resizing* resizing)
    : options_(options),
      comm_(comm),
      listener_(listener),
      requests_{stop, resizing},
      state_(resizing != nullptr && resizing->state ? resizing->state : std::make_shared<RankState>()),
      setup_(state_->setup),
      start_(Clock::now()) {
  // It is there until this world is ready for its first step.
  if (resizing != nullptr) resizing->state = state_;
}

Result<Outcome> Run::run() {
  auto outcome = [this]() -> Result<Outcome> {
    try {
      return run_steps();
    } catch (const PassFailed& failed) {
      return failure(failed.error());
    }
  }();
  const bool lost = !outcome && outcome.error().code() == Code::kPeerLost;
  if (!lost || requests_.resizing == nullptr || !requests_.resizing->survives()) return outcome;
  if (finished_) return outcome_;
  auto survived = survive(outcome.error());
  // A run that was asked to stop leaves its state behind instead, see train().
  return requests_.stop.load(std::memory_order_relaxed) ? outcome : survived;
}

Result<Outcome> Run::run_steps() {
  XOE_TRY(prepare());
  keep_finished();
  if (first()) tell_start();
  XOE_TRY(catch_up());
  while (step_ < plan_.total_steps && next_ == After::kStep) {
    XOE_TRY(step());
    XOE_TRY(after_step());
  }
  return next_ == After::kNextWorld ? leave_world() : finish();
}

Status Run::start_engine() {
  std::vector<std::string> warnings;
  auto options = read_engine_options(warnings);
  XOE_TRY(agree(comm_, options ? Status() : failure(options.error())));
  if (first())
    for (const std::string& line : warnings) listener_.warned(line);
  if (!options_.timeline.empty()) options->timeline = options_.timeline;
  XOE_ASSIGN(auto ranks, comm_.split(0, comm_.rank()));
  XOE_ASSIGN(engine_, Engine::create(std::move(*ranks), std::move(*options)));
  return {};
}

Status Run::prepare() {
  auto holders = find_holders(*state_, requests_.resizing != nullptr && requests_.resizing->goes_on, comm_);
  if (!holders) return on_all_ranks(failure(holders.error()));
  goes_on_ = !holders->ranks.empty();
  if (!goes_on_ && first() && requests_.resizing != nullptr && requests_.resizing->version > 0)
    listener_.noted("no rank has a state of the training: it begins as a job does");
  const bool some_have_no_state = goes_on_ && !holders->all;
  if (requests_.resizing != nullptr && !some_have_no_state) requests_.resizing->gone_over();
  options_.resume = options_.resume || goes_on_;
  first_joint_batch_ = goes_on_ ? holders->progress.first_joint_batch
                                : joint_batch_of(options_, {.rank = comm_.rank(), .size = comm_.size()});
  XOE_TRY(prepare_rank(*holders));
  XOE_TRY(on_all_ranks(start_engine()));

  std::optional<Sections> sections;
  if (options_.resume && !goes_on_) {
    auto loaded = load_checkpoint(options_, setup_.data->info(), comm_,
                                  /*any_ranks=*/requests_.resizing != nullptr || has_shards());
    if (!loaded) return on_all_ranks(failure(loaded.error()));
    sections = std::move(*loaded);
    if (!sections && first()) {
      listener_.noted(fmt::format("no checkpoint in {}: starting from the beginning", options_.checkpoint_dir));
    }
  }
  if (sections) {
    if (const std::int64_t first = first_joint_batch_of(*sections); first > 0) first_joint_batch_ = first;
    XOE_TRY(on_all_ranks(agree(comm_, reshard())));
  }
  const std::int64_t images =
      options_.on_resize == OnResize::kKeep ? first_joint_batch_ : joint_batch_of(options_, state_->share);
  plan_ = make_plan(options_, setup_.data->info(), images * options_.accumulate);
  XOE_TRY(prepare_model(*holders, sections));
  XOE_TRY(create_optimizer());
  input_.emplace(setup_, options_, comm_.rank(), comm_.size(), /*resizes=*/requests_.resizing != nullptr);
  trace_.emplace(*engine_, update_->optimizer(), bootstrap::StatusWriter::of_process(Env::process()));
  if (sections) XOE_TRY(restore_checkpoint(*sections));
  if (goes_on_) XOE_TRY(resume(state_->progress, /*same_run=*/true));
  XOE_TRY(begin_ledger());
  if (first()) hold(open_outputs());
  if (step_ < plan_.total_steps) {
    hold(fetch());
    // Other numbers of ranks do not come to the end of the epochs in the same number of steps.
    if (requests_.resizing != nullptr && first_step_ > 0 && held_ && !has_shards())
      if (const auto left = steps_left(options_, setup_.data->info(), input_->get().front()))
        plan_.total_steps = step_ + *left;
  }
  XOE_TRY(on_all_ranks(agree(comm_, held_)));
  if (requests_.resizing != nullptr && some_have_no_state) requests_.resizing->gone_over();
  if (requests_.resizing != nullptr) requests_.resizing->state.reset();
  whole_optimizer_.clear();
  return {};
}

Share Run::share() const noexcept {
  return {.rank = comm_.rank(),
          .size = comm_.size(),
          .local_size = comm_.local_size(),
          .joint_batch = options_.on_resize == OnResize::kKeepGlobalBatch ? first_joint_batch_ : 0};
}

Status Run::reshard() {
  if (state_->share == share()) return {};
  XOE_TRY(setup_.data->reshard(share()));
  state_->share = share();
  return {};
}

Status Run::prepare_rank(const Holders& holders) {
  const auto local = [&]() -> Status {
    XOE_TRY(choose_processors(setup_, options_, comm_.local_rank(), comm_.local_size()));
    if (has_shards() && options_.logical_shards < comm_.size())
      return failure(Code::kInvalidArgument,
                     "{} share {}, and each needs one; --logical-shards must be the most ranks that the job may have, "
                     "at least",
                     counted(comm_.size(), "rank"), counted(options_.logical_shards, "logical shard"));
    if (setup_.data == nullptr) {
      Warn warn;
      if (first()) warn = [&listener = listener_](std::string_view line) { listener.warned(line); };
      XOE_TRY(open_data(setup_, options_, share(), std::move(warn)));
      state_->share = share();
    }
    XOE_TRY(reshard());
    return first() ? check_folders(options_) : Status();
  };
  XOE_TRY(on_all_ranks(agree(comm_, local())));
  if (has_shards()) XOE_TRY(compare_processors());
  // Those that have trained together have the same files.
  if (!holders.all) {
    XOE_TRY(on_all_ranks(agree_on_data(*setup_.data, comm_, goes_on_ ? holders.ranks.front() : 0)));
    const bool has_model = static_cast<bool>(setup_.model);
    XOE_TRY(
        on_all_ranks(agree(comm_, has_model ? Status() : create_model(setup_, options_, setup_.data->info().classes))));
  }
  return {};
}

Status Run::compare_processors() {
  XOE_ASSIGN(const auto all, gather_texts(comm_, processor_text()));
  if (!first()) return {};
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    listener_.warned(
        fmt::format("rank {} computes with {}, rank 0 with {}: the bits may depend on which shards a rank has", rank,
                    all[rank], all[0]));
    break;
  }
  return {};
}

Status Run::prepare_model(const Holders& holders, std::optional<Sections>& sections) {
  if (setup_.optimizer == nullptr) place_model(setup_, options_);
  setup_.model->train(options_.step_kind != StepKind::kEvaluate);
  if (options_.sync_batchnorm && comm_.size() > 1) {
    if (join_batch_norms(*setup_.model, *engine_) == 0 && first())
      listener_.noted(fmt::format("{} has no batch norm, so --sync-batchnorm changes nothing", options_.model));
  } else if (options_.sync_batchnorm) {
    part_batch_norms(*setup_.model);
  }
  if (goes_on_) {
    if (options_.ema > 0 && !state_->average) state_->average.emplace(*setup_.model, options_.ema);
    const Status received = receive_state(*state_, holders, comm_);
    // What has arrived in part is no beginning for a training.
    if (!received && !state_->trained) {
      setup_.model = {};
      setup_.optimizer.reset();
      state_->average.reset();
    }
    return received;
  }
  setup_.optimizer->state().clear();  // of warm_up()
  if (sections) {
    XOE_TRY(restore_model(*sections, options_, setup_.data->info(), comm_.rank(), *setup_.model));
  } else {
    const bool loads = first() && !options_.weights.empty();
    XOE_TRY(on_all_ranks(
        agree(comm_, loads ? load_weights(options_.weights, *setup_.model, options_.new_head) : Status())));
    if (loads && options_.new_head)
      listener_.noted(fmt::format("{}: all weights but those of {}, which is new, for {} classes", options_.weights,
                                  fmt::join(setup_.model->head(), " and "), setup_.data->info().classes));
    XOE_TRY(xoe::torch::broadcast_parameters(*setup_.model, comm_));
  }
  if (options_.ema > 0) state_->average.emplace(*setup_.model, options_.ema);
  return {};
}

Status Run::create_optimizer() {
  if (options_.sharded && goes_on_) whole_optimizer_ = optimizer_bytes(*setup_.optimizer);
  int passes = options_.accumulate;
  if (has_shards()) {
    // Gradients are summed by shards; the optimizer has to do with this rank alone.
    XOE_ASSIGN(shard_sums_, ShardSums::create(*setup_.model, *engine_, options_.logical_shards));
    XOE_ASSIGN(alone_, comm_.split(comm_.rank()));
    passes = shard_sums_->mine().count();
  }
  XOE_ASSIGN(auto optimizer, xoe::torch::DistributedOptimizer::create(
                                 *setup_.optimizer, *setup_.model, alone_ ? *alone_ : comm_,
                                 {.bucket_bytes = static_cast<std::size_t>(options_.bucket_mib * 1024 * 1024),
                                  .backward_passes_per_step = passes,
                                  .average_passes = !has_shards(),
                                  .find_unused = false,  // every parameter of these models is used in each step
                                  .sharded = options_.sharded,
                                  .engine = alone_ ? nullptr : engine_.get()}));
  update_.emplace(options_, std::exchange(state_->average, std::nullopt), std::move(optimizer));
  return {};
}

Status Run::begin_ledger() {
  if (options_.ledger.empty() || !trains()) return {};
  Status held;
  const LedgerStart start = goes_on_          ? LedgerStart::kGoesOn
                            : options_.resume ? LedgerStart::kResumed
                                              : LedgerStart::kNew;
  XOE_TRY(state_->ledger.begin_world(options_.ledger, setup_.data->opened().training, start, step_ + 1, comm_, held));
  hold(held);
  return {};
}

Status Run::open_outputs() {
  XOE_ASSIGN(outputs_, RunOutputs::open(options_, first_step_));
  if (outputs_->folder() && !outputs_->folder()->earlier().empty())
    listener_.noted(fmt::format("the metrics of the run before are in {}", outputs_->folder()->earlier()));
  XOE_TRY(outputs_->started(start_event(), options_));
  if (!outputs_->folder()) return {};
  return write_file(options_.run_dir + "/environment.json",
                    environment_json(options_, Env::process(), libtorch_version()));
}

Status Run::restore_checkpoint(const Sections& sections) {
  const bool has_average = has_weight_average(sections);
  if (update_->average() != nullptr && has_average)
    XOE_TRY(restore_average(sections, options_, setup_.data->info(), comm_.rank(), *update_->average()));
  XOE_ASSIGN(const Progress progress, restore_rest(sections, comm_.rank(), setup_.device, update_->optimizer()));
  XOE_TRY(resume(progress, /*same_run=*/false));
  checkpoint_step_ = step_;
  if (!first()) return {};
  listener_.noted(fmt::format("resumed from step {} in {}", step_, options_.checkpoint_dir));
  if (has_average != (update_->average() != nullptr)) {
    listener_.noted(has_average ? "the averaged weights of the checkpoint are left behind: there is no --ema"
                                : "the checkpoint has no averaged weights: they begin as its weights are");
  }
  if (progress.total_steps != 0 && progress.total_steps != plan_.total_steps) {
    listener_.noted(fmt::format("the number of steps was {} and is now {}, which changes the learning rates",
                                progress.total_steps, plan_.total_steps));
  }
  return {};
}

Status Run::resume(const Progress& progress, bool same_run) {
  step_ = first_step_ = progress.step;
  if (!same_run) state_->ledger.go_on_with(progress.ledger_run);
  update_->set_loss_scale(progress.loss_scale);
  shift_plan(plan_, options_, progress, requests_.resizing != nullptr && !has_shards());
  hold(find_position(progress, same_run));
  if (first() && same_run) tell_resized();
  return {};
}

void Run::tell_resized() {
  Resized resized = describe_resized(options_, plan_, state_->share, step_ + 1);
  if (const auto left_at = requests_.resizing->left_at; left_at != Clock::time_point())
    resized.seconds = seconds_of(Clock::now() - left_at);
  listener_.resized(resized);
}

Status Run::find_position(const Progress& progress, bool same_run) {
  if (!options_.next_epoch || same_run) return input_->restore(progress.position);
  XOE_ASSIGN(const std::int64_t next, input_->start_next_epoch(progress.position));
  if (first()) listener_.noted(fmt::format("the images go on with the start of epoch {}, counted from 0", next));
  return {};
}

Status Run::evaluate() {
  const auto span = trace_->span(Phase::kEvaluation);
  if (outputs_) hold(outputs_->evaluation_begins(step_));
  const at::NoGradGuard no_grad;
  std::optional<WeightAverage::InModel> averaged_weights;
  if (update_->average() != nullptr) averaged_weights.emplace(*update_->average());
  const auto own = copy_buffers(*setup_.model);
  XOE_ASSIGN(const auto averaged, buffers_of_ranks(*setup_.model, has_shards(), comm_));
  set_buffers(*setup_.model, averaged);
  setup_.model->eval();

  std::vector<StepSums> sums;
  const Status local = add_held_out(setup_, options_, my_shards(), sums);
  setup_.model->train(options_.step_kind != StepKind::kEvaluate);
  set_buffers(*setup_.model, own);
  averaged_weights.reset();
  XOE_TRY(on_all_ranks(agree(comm_, local)));

  std::vector<double> values = values_of(sums);
  XOE_TRY(comm_.allreduce(Tensor(values.data(), values.size()), ReduceOp::kSum, {.name = "evaluation sums"}));
  const StepSums all = sums_in(values.data());
  const Evaluation evaluation = {.step = step_,
                                 .epoch = epoch(),
                                 .loss = all.loss / all.images,
                                 .accuracy = all.correct / all.images,
                                 .images = static_cast<std::int64_t>(all.images)};
  outcome_.accuracy = evaluation.accuracy;
  evaluated_step_ = step_;
  if (first()) {
    listener_.evaluated(evaluation);
    if (outputs_) hold(outputs_->evaluated(evaluation));
  }
  return {};
}

Progress Run::progress() const {
  return {.step = step_,
          .total_steps = plan_.total_steps,
          .epoch = epoch(),
          .shift = plan_.shift,
          .position = input_->position(),
          .loss_scale = update_->loss_scale(),
          .first_joint_batch = first_joint_batch_,
          .ledger_run = state_->ledger.run()};
}

Status Run::checkpoint() {
  const auto span = trace_->span(Phase::kCheckpoint);
  auto path = save_checkpoint(options_, setup_.data->info(), progress(), *setup_.model, update_->average(),
                              update_->optimizer(), comm_);
  if (!path) return on_all_ranks(failure(path.error()));
  checkpoint_step_ = step_;
  outcome_.checkpoint = *path;
  if (!first()) return {};
  listener_.noted(fmt::format("checkpoint {}", *path));
  // The training goes on, until the disk is full.
  if (const Status pruned = prune_checkpoints(options_.checkpoint_dir, options_.checkpoint_keep); !pruned)
    listener_.warned(pruned.error().message());
  return {};
}

Status Run::step() {
  const auto begin = Clock::now();
  const double rate = learning_rate(plan_.schedule, step_ - plan_.shift);
  for (auto& group : setup_.optimizer->param_groups()) group.options().set_lr(rate);
  if (trains()) XOE_TRY(update_->optimizer().zero_grad());

  hold(state_->ledger.note(step_ + 1, input_->get()));
  std::optional<ShardStep> shard_step;
  if (has_shards())
    shard_step.emplace(*shard_sums_, step_);
  else
    seed_step(setup_, options_, comm_.rank(), step_);
  Passes passes(setup_, options_, *update_, *trace_, shard_step);
  const std::vector<PassSums> pass_sums = passes.run(input_->get());
  // While a GPU computes; and before exchange(), so that all ranks learn of bad input in the same step.
  if (step_ + 1 < plan_.total_steps) {
    hold(fetch());
  } else {
    input_->note_position();
  }
  const std::vector<StepSums> own = passes.read(pass_sums);
  if (trains()) {
    const auto span = trace_->span(Phase::kPeers);
    if (has_shards()) XOE_TRY(shard_sums_->finish());
    XOE_TRY(update_->optimizer().synchronize());
  }
  bool finite = true;
  if (updates() && update_->scales()) {
    const auto span = trace_->span(Phase::kOptimizer);
    XOE_ASSIGN(finite, update_->finite_gradients());
  }
  XOE_ASSIGN(const StepSums sums, exchange(own, finite));
  if (updates()) {  // an emulated accelerator updates its parameters itself
    const auto span = trace_->span(Phase::kOptimizer);
    const auto told = update_->step(finite, step_ + 1);
    if (!told)
      return told.error().code() == Code::kInvalidArgument ? on_all_ranks(failure(told.error()))
                                                           : failure(told.error());
    if (first() && !told->empty()) listener_.noted(*told);
  }
  ++step_;
  if (has_shards()) engine_->note_step();
  hold(state_->ledger.done(step_));
  keep_finished();
  const StepTimes times = trace_->take();
  const double seconds = seconds_of(Clock::now() - begin);
  meter_.add(sums, times);
  const std::int64_t unmeasured = std::min<std::int64_t>(options_.warmup_steps, (plan_.total_steps - first_step_) / 2);
  if (step_ - first_step_ > unmeasured) meter_.add_speed(sums.images, seconds);
  listener_.measured({.step = step_,
                      .images = sums.images,
                      .loss = sums.loss / sums.images,
                      .accuracy = sums.correct / sums.images,
                      .seconds = seconds,
                      .times = times});
  return {};
}

Status Run::fetch() {
  const auto span = trace_->span(Phase::kInput);
  return input_->fetch();
}

ShardRange Run::my_shards() const noexcept {
  return shards_of_rank(options_.logical_shards, comm_.rank(), comm_.size());
}

std::vector<double> Run::values_of(const std::vector<StepSums>& own) const {
  if (has_shards()) return in_places_of_shards(own, my_shards(), options_.logical_shards);
  StepSums sums;
  for (const StepSums& one : own) sums += one;
  return {sums.loss, sums.correct, sums.images};
}

StepSums Run::sums_in(const double* values) const {
  return sum_of_shards(values, std::max(options_.logical_shards, 1));
}

// The gradients are complete on all ranks here, so that this small reduction hardly waits.
Result<StepSums> Run::exchange(const std::vector<StepSums>& own, bool& finite) {
  const auto span = trace_->span(Phase::kPeers);
  using Next = Resizing::Next;
  const bool asked = requests_.stop.load(std::memory_order_seq_cst);  // first: the launcher publishes before it signals
  const Next next = requests_.resizing != nullptr ? requests_.resizing->next() : Next::kStays;
  // The launcher's signal to a rank that is to leave is not for the others.
  const bool stops = asked && next != Next::kLeaves;
  // The number of ranks that were asked to stop, of those that see that another world is wanted, of those with an
  // error, and of those with gradients that are not finite; then the sums.
  std::vector<double> values = {stops ? 1.0 : 0.0, next != Next::kStays ? 1.0 : 0.0, held_ ? 0.0 : 1.0,
                                finite ? 0.0 : 1.0};
  const auto flags = std::ssize(values);
  std::ranges::copy(values_of(own), std::back_inserter(values));
  const std::int64_t count = std::ssize(values);
  const TensorArg tensor{.in = values.data(), .out = values.data(), .dtype = DType::kFloat64, .shape = {&count, 1}};
  XOE_TRY(engine_->run({.name = "step sums", .tensors = {&tensor, 1}}));
  finite = values[3] == 0;
  const StepSums sums = sums_in(values.data() + flags);
  if (values[2] > 0) {
    XOE_TRY(on_all_ranks(agree(comm_, held_)));
  }
  if (!std::isfinite(sums.loss)) {
    XOE_TRY(
        on_all_ranks(failure(Code::kInvalidArgument,
                             "the loss is {} at step {}; try a smaller --lr (it was {:.4g} here), a longer --lr-warmup "
                             "or --precision fp32",
                             sums.loss / sums.images, step_ + 1, learning_rate(plan_.schedule, step_ - plan_.shift))));
  }
  if (values[1] > 0 && step_ + 1 < plan_.total_steps) next_ = After::kNextWorld;
  if (values[0] > 0) next_ = After::kStop;
  return sums;
}

Status Run::after_step() {
  const bool last = step_ == plan_.total_steps;
  if (first()) listener_.stepped(step_, plan_.total_steps);
  const bool saves = options_.checkpoint_every > 0 && step_ % options_.checkpoint_every == 0;
  postpone(evaluation_due(), saves);
  if (step_ % options_.report_every == 0 || last || next_ != After::kStep) XOE_TRY(report());
  if (last || next_ != After::kStep) return {};
  return evaluate_and_save(evaluation_due(), saves);
}

Status Run::evaluate_and_save(bool evaluates, bool saves) {
  if (evaluates) XOE_TRY(evaluate());
  postpone(false, saves);
  if (saves) XOE_TRY(checkpoint());
  postpone(false, false);
  return {};
}

void Run::postpone(bool evaluation, bool checkpoint) noexcept {
  if (requests_.resizing != nullptr) requests_.resizing->postponed = {evaluation, checkpoint};
}

Status Run::catch_up() {
  if (requests_.resizing == nullptr) return {};
  std::array<std::int64_t, 2> postponed = {requests_.resizing->postponed.evaluation,
                                           requests_.resizing->postponed.checkpoint};
  XOE_TRY(comm_.allreduce(Tensor(postponed.data(), postponed.size()), ReduceOp::kMax, {.name = "postponed work"}));
  return evaluate_and_save(postponed[0] != 0, postponed[1] != 0);
}

Status Run::report() {
  XOE_ASSIGN(Report report, meter_.report(comm_));
  report.step = step_;
  report.epoch = epoch();
  report.rate = learning_rate(plan_.schedule, step_ - plan_.shift - 1);
  report.skipped_images = setup_.data->skipped_images();
  outcome_.loss = report.loss;
  if (first()) {
    listener_.reported(report);
    if (outputs_) hold(outputs_->reported(report));
  }
  return {};
}

// Also after an interruption, since a resumed run starts after this step.
bool Run::evaluation_due() const noexcept {
  if (!options_.evaluate || setup_.data->info().held_out == 0 || evaluated_step_ == step_) return false;
  return step_ == plan_.total_steps || (plan_.eval_interval > 0 && (step_ - plan_.shift) % plan_.eval_interval == 0);
}

// Ranks that leave wait for none of what rank 0 does alone: another program waits for their GPUs.
Result<Outcome> Run::leave_world() {
  XOE_TRY(on_all_ranks(agree(comm_, held_)));
  state_->progress = progress();
  outcome_.resized = true;
  XOE_TRY(update_->optimizer().close());  // gives each rank the whole state of a sharded optimizer
  keep_state();
  close();
  if (!held_) return failure(held_.error());
  return outcome_;
}

void Run::keep_state() {
  input_->keep();
  state_->trained = true;
  requests_.resizing->state = state_;
  requests_.resizing->step = state_->progress.step;
  requests_.resizing->goes_on = true;
  requests_.resizing->left_at = Clock::now();
}

void Run::keep_finished() {
  if (requests_.resizing == nullptr || !requests_.resizing->survives()) return;
  kept_ = Kept{copy_buffers(*setup_.model), progress()};
}

Result<Outcome> Run::survive(const Error& loss) {
  if (kept_) {
    if (options_.sharded)
      return failure(loss.code(),
                     "{}; with --sharded, a rank takes its part of the optimizer's state with it: start again "
                     "with --resume from a checkpoint",
                     loss.message());
    const at::NoGradGuard no_grad;
    set_buffers(*setup_.model, kept_->buffers);
    state_->progress = kept_->progress;
    keep_state();
    world_changes().steps_redone.fetch_add(1, std::memory_order_relaxed);
  }
  requests_.resizing->loss = loss.message();
  outcome_.resized = true;
  close();
  return outcome_;
}

void Run::give_back() {
  trace_.reset();
  if (!update_) return;
  if (auto average = update_->take_average()) state_->average.emplace(std::move(*average));
  update_.reset();
  for (at::Tensor& parameter : setup_.model->parameters()) parameter.mutable_grad().reset();  // memory of this world
  shard_sums_.reset();
  if (whole_optimizer_.empty()) return;
  restore_optimizer(*setup_.optimizer, std::exchange(whole_optimizer_, {}));
}

void Run::close() {
  give_back();
  if (!options_.timeline.empty() && engine_) hold(engine_->stop_timeline());
}

Result<Outcome> Run::finish() {
  const bool again = step_ == first_step_ && !goes_on_;  // a finished run was resumed: only its summary is repeated
  const bool saves = !options_.checkpoint_dir.empty() && checkpoint_step_ != step_ && !again;
  postpone(evaluation_due(), saves);
  // First, because whatever interrupted the run may soon kill it.
  if (saves) XOE_TRY(checkpoint());
  postpone(evaluation_due(), false);
  if (evaluation_due()) XOE_TRY(evaluate());
  postpone(false, false);
  outcome_.interrupted = next_ == After::kStop && step_ < plan_.total_steps;
  outcome_.step = step_;
  outcome_.speed = meter_.speed();
  outcome_.ranks = comm_.size();
  outcome_.share = meter_.share();
  outcome_.seconds = seconds_of(Clock::now() - start_);
  outcome_.timeline = options_.timeline;
  outcome_.input = setup_.data->explain();
  outcome_.metrics = engine_->metrics();
  if (outputs_) {
    if (outputs_->folder()) outcome_.curve = outputs_->folder()->curve_path();
    hold(outputs_->finished(outcome_));
  }
  finished_ = static_cast<bool>(held_);
  XOE_TRY(update_->optimizer().close());
  close();
  XOE_TRY(on_all_ranks(agree(comm_, held_)));
  return outcome_;
}

void Run::tell_start() {
  if (!options_.data_dir.empty() && setup_.data->info().held_out == 0)
    listener_.noted(
        fmt::format("{}: no images are held out for evaluation (a validation split of a directory, such as "
                    "val/ beside train/), so only the accuracy on training images is told",
                    options_.data_dir));
  listener_.started(start_event());
}

RunStart Run::start_event() const {
  RunStart start = describe_run(options_, setup_, plan_, state_->share);
  start.buckets = update_->buckets();
  start.first_step = first_step_;
  return start;
}

Status Run::on_all_ranks(Status status) {
  if (!status) listener_.failed_everywhere();
  return status;
}

void Run::hold(Status status) {
  if (held_ && !status) held_ = std::move(status);
}

double Run::epoch() const noexcept {
  return plan_.steps_per_epoch > 0 ? static_cast<double>(step_ - plan_.shift) / plan_.steps_per_epoch : 0;
}

}  // namespace xoe::train
