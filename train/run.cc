#include "train/run.h"

#include <ATen/ops/cross_entropy_loss.h>

#include <cmath>

#include "base/error.h"
#include "train/agree.h"
#include "xoe/torch/broadcast.h"

namespace xoe::train {
namespace {

constexpr auto kFlushEvery = std::chrono::seconds(2);

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Run::StepSums& Run::StepSums::operator+=(const StepSums& other) noexcept {
  stop += other.stop;
  failed += other.failed;
  loss += other.loss;
  correct += other.correct;
  images += other.images;
  return *this;
}

Run::Run(const TrainOptions& options, Communicator& comm, Listener& listener, const std::atomic<bool>& stop)
    : options_(options), comm_(comm), listener_(listener), stop_(stop), start_(Clock::now()), last_flush_(start_) {}

Result<Outcome> Run::run() {
  XOE_TRY(prepare());
  if (first()) listener_.started(start_event());
  XOE_TRY(loop());
  return finish();
}

Status Run::loop() {
  while (step_ < plan_.total_steps && !stopping_) {
    XOE_TRY(step());
    XOE_TRY(after_step());
  }
  return {};
}

Status Run::step() {
  const auto begin = Clock::now();
  const double rate = learning_rate(plan_.schedule, step_);
  for (auto& group : setup_.optimizer->param_groups()) group.options().set_lr(rate);
  XOE_TRY(optimizer_->zero_grad());

  StepSums sums;
  XOE_TRY(forward_backward(sums));
  {
    const auto span = trace_->span(Phase::kPeers);
    XOE_TRY(optimizer_->synchronize());
  }
  // Before the ranks compare notes, so that they learn of bad input together.
  if (step_ + 1 < plan_.total_steps) {
    hold(fetch());
  } else {
    keep_position();
  }
  XOE_TRY(exchange(sums));
  {
    const auto span = trace_->span(Phase::kOptimizer);
    XOE_TRY(optimizer_->step());
  }
  ++step_;
  sums_ += sums;
  times_ += trace_->take();
  const std::int64_t unmeasured = std::min<std::int64_t>(options_.warmup_steps, (plan_.total_steps - first_step_) / 2);
  if (step_ - first_step_ > unmeasured) speed_.add(sums.images, seconds(Clock::now() - begin));
  return {};
}

Status Run::forward_backward(StepSums& sums) {
  for (const Batch& batch : batches_) {
    at::Tensor loss;
    {
      const auto span = trace_->span(Phase::kForward);
      const Autocast autocast(setup_.device, options_.precision);
      const at::Tensor labels = batch.labels.to(setup_.device);
      const at::Tensor logits = setup_.model->forward(place_images(setup_, batch.images));
      loss = at::cross_entropy_loss(logits, labels, {}, at::Reduction::Mean, -100, options_.label_smoothing);
      const auto count = static_cast<double>(batch.count());
      sums.images += count;
      sums.loss += loss.item<double>() * count;
      sums.correct += static_cast<double>(logits.argmax(1).eq(labels).sum().item<std::int64_t>());
    }
    const auto span = trace_->span(Phase::kBackward);
    loss.backward();
  }
  return {};
}

Status Run::fetch() {
  const auto span = trace_->span(Phase::kInput);
  keep_position();
  batches_.clear();
  for (int pass = 0; pass < options_.accumulate; ++pass) {
    XOE_ASSIGN(Batch batch, setup_.data->next());
    batches_.push_back(std::move(batch));
  }
  return {};
}

void Run::keep_position() {
  if (!options_.checkpoint_dir.empty()) position_ = setup_.data->save();
}

// The gradients are complete on all ranks here, so that this small reduction finds them side by side.
Status Run::exchange(StepSums& sums) {
  const auto span = trace_->span(Phase::kPeers);
  std::array values = {stop_.load(std::memory_order_relaxed) ? 1.0 : 0.0, held_ ? 0.0 : 1.0, sums.loss, sums.correct,
                       sums.images};
  XOE_TRY(comm_.allreduce(Tensor(values.data(), values.size()), ReduceOp::kSum, {.name = "step sums"}));
  sums = {.stop = values[0], .failed = values[1], .loss = values[2], .correct = values[3], .images = values[4]};
  if (sums.failed > 0) return everywhere(agree(comm_, held_));
  if (!std::isfinite(sums.loss)) {
    return everywhere(
        failure(Code::kInvalidArgument,
                "the loss is {} at step {}; try a smaller --lr (it was {:.4g} here), a longer --lr-warmup "
                "or --precision fp32",
                sums.loss / sums.images, step_ + 1, learning_rate(plan_.schedule, step_)));
  }
  stopping_ = sums.stop > 0;
  return {};
}

Status Run::after_step() {
  const bool last = step_ == plan_.total_steps;
  if (first()) listener_.stepped(step_, plan_.total_steps);
  if (step_ % options_.report_every == 0 || last || stopping_) XOE_TRY(report());
  if (evaluation_due() && !stopping_ && !last) XOE_TRY(evaluate());
  if (options_.checkpoint_every > 0 && step_ % options_.checkpoint_every == 0 && !stopping_ && !last) {
    XOE_TRY(checkpoint());
  }
  return {};
}

Status Run::report() {
  const std::array<double, 4> mine = {times_.data, times_.compute, times_.peers, times_.optimizer};
  std::vector<double> all(mine.size() * static_cast<std::size_t>(comm_.size()));
  XOE_TRY(comm_.allgather(ConstTensor(mine.data(), mine.size()), Tensor(all.data(), all.size())));

  Report report = {.step = step_,
                   .epoch = epoch(),
                   .loss = sums_.loss / sums_.images,
                   .accuracy = sums_.correct / sums_.images,
                   .rate = learning_rate(plan_.schedule, step_ - 1),
                   .speed = speed_.stats(),
                   .ranks = comm_.size(),
                   .skipped_images = setup_.data->skipped_images(),
                   .share = {},
                   .rank_shares = {}};
  StepTimes mean;
  for (std::size_t i = 0; i < all.size(); i += mine.size()) {
    const StepTimes times = {.data = all[i], .compute = all[i + 1], .peers = all[i + 2], .optimizer = all[i + 3]};
    report.rank_shares.push_back(shares(times));
    mean += times;
  }
  report.share = shares(mean);
  all_times_ += mean;
  times_ = {};
  sums_ = {};
  outcome_.loss = report.loss;
  if (first()) {
    listener_.reported(report);
    if (folder_) hold(folder_->reported(report));
  }
  if (setup_.timeline && Clock::now() - last_flush_ > kFlushEvery) {
    hold(setup_.timeline->flush());
    last_flush_ = Clock::now();
  }
  return {};
}

// Also of an interrupted run: who resumes it begins after this step.
bool Run::evaluation_due() const noexcept {
  if (setup_.data->info().held_out == 0) return false;
  return step_ == plan_.total_steps || (plan_.eval_interval > 0 && step_ % plan_.eval_interval == 0);
}

Result<Outcome> Run::finish() {
  const bool again = step_ == first_step_;  // a finished run was resumed: only its last words are repeated
  // First, because who interrupts may have little patience.
  if (!options_.checkpoint_dir.empty() && checkpoint_step_ != step_ && !again) XOE_TRY(checkpoint());
  if (evaluation_due()) XOE_TRY(evaluate());
  outcome_.interrupted = stopping_ && step_ < plan_.total_steps;
  outcome_.step = step_;
  outcome_.speed = speed_.stats();
  outcome_.ranks = comm_.size();
  outcome_.share = shares(all_times_);
  outcome_.seconds = seconds(Clock::now() - start_);
  outcome_.timeline = options_.timeline;
  outcome_.input = setup_.data->explain();
  XOE_TRY(optimizer_->close());
  optimizer_.reset();
  if (setup_.timeline) hold(setup_.timeline->flush());
  if (folder_) {
    outcome_.curve = folder_->curve_path();
    hold(folder_->finished(outcome_));
  }
  XOE_TRY(everywhere(agree(comm_, held_)));
  return outcome_;
}

RunStart Run::start_event() const {
  RunStart start;
  start.model = options_.model;
  for (const at::Tensor& parameter : setup_.model->parameters()) start.parameters += parameter.numel();
  start.device = setup_.device.str();
  start.data = options_.data_dir.empty() ? "synthetic" : options_.data_dir;
  start.classes = setup_.data->info().classes;
  start.image_size = options_.image_size;
  start.ranks = comm_.size();
  start.batch = options_.batch;
  start.accumulate = options_.accumulate;
  start.threads = setup_.threads;
  start.buckets = optimizer_->bucket_count();
  start.sharded = options_.sharded;
  start.peak_rate = plan_.schedule.peak;
  start.first_step = first_step_;
  start.total_steps = plan_.total_steps;
  start.steps_per_epoch = std::llround(plan_.steps_per_epoch);
  return start;
}

Status Run::everywhere(Status status) {
  if (!status) listener_.failed_everywhere();
  return status;
}

void Run::hold(Status status) {
  if (held_ && !status) held_ = std::move(status);
}

double Run::epoch() const noexcept {
  return plan_.steps_per_epoch > 0 ? static_cast<double>(step_) / plan_.steps_per_epoch : 0;
}

}  // namespace xoe::train
