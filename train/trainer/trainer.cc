#include "train/trainer/trainer.h"

#include <c10/util/Exception.h>

#include <new>

#include "core/base/error.h"
#include "train/trainer/checkpoint.h"
#include "train/trainer/device.h"
#include "train/trainer/joined_batch_norm.h"
#include "train/trainer/rank_state.h"
#include "train/trainer/run.h"

namespace xoe::train {
namespace {

Error from_torch(std::string message) {
  // One line: libtorch adds a stack trace below it.
  message = message.substr(0, message.find('\n'));
  const bool memory =
      message.find("allocate memory") != std::string::npos || message.find("out of memory") != std::string::npos;
  if (memory) {
    return {Code::kResourceExhausted, fmt::format("out of memory: {}; try a smaller --batch or --image-size", message)};
  }
  return {Code::kInternal, fmt::format("libtorch: {}", message)};
}

Result<Outcome> run(const TrainOptions& options, Communicator& comm, Listener& listener, const std::atomic<bool>& stop,
                    Resizing* resizing) {
  // libtorch reports errors by exceptions, which are converted here.
  try {
    load_cuda();
    Run run(options, comm, listener, stop, resizing);
    return run.run();
  } catch (const PassFailed& failed) {
    return failure(failed.error());
  } catch (const std::bad_alloc&) {
    return failure(Code::kResourceExhausted, "out of memory; try a smaller --batch or --image-size");
  } catch (const c10::Error& error) {
    return failure(from_torch(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return failure(from_torch(error.what()));
  }
}

void prepare_model(Setup& setup, const TrainOptions& options, int classes, const Share& share, bool joins) {
  if (classes == 0 || !create_model(setup, options, classes)) {
    setup.model = {};
    return;
  }
  // Which GPU it is depends on the rank that it becomes.
  if (!joins || !choose_processors(setup, options, share.rank, share.local_size) || !setup.device.is_cpu()) return;
  place_model(setup, options);
  warm_up(setup, options);
}

Result<std::string> keep_state(const TrainOptions& options, RankState& state) {
  try {
    XOE_ASSIGN(const Sections sections,
               own_state(options, state.setup.data->info(), state.progress, *state.setup.model,
                         state.average ? &*state.average : nullptr, *state.setup.optimizer, state.share.size));
    return keep_state(options, sections);
  } catch (const std::exception& error) {
    return failure(from_torch(error.what()));
  }
}

}  // namespace

Result<Outcome> train(const TrainOptions& options, Communicator& comm, Listener& listener,
                      const std::atomic<bool>& stop, Resizing* resizing) {
  auto outcome = run(options, comm, listener, stop, resizing);
  if (outcome || resizing == nullptr) return outcome;
  return failure(keep_state_of(outcome.error(), options, *resizing));
}

void prepare_rank(const TrainOptions& options, const Share& share, bool joins, Listener& listener, Resizing& resizing) {
  if (resizing.state) return;
  auto state = std::make_shared<RankState>();
  const auto warn = [&listener](std::string_view line) { listener.warned(line); };
  int classes = synthetic_classes(options);
  if (!options.data_dir.empty()) {
    if (!open_data(state->setup, options, share, share.rank == 0 ? Warn(warn) : Warn())) return;
    state->share = share;
    classes = state->setup.data->info().classes;
  }
  try {
    load_cuda();
    prepare_model(state->setup, options, classes, share, joins);
  } catch (const std::exception&) {
    state->setup.model = {};
    state->setup.optimizer.reset();
  }
  resizing.state = std::move(state);
}

Error keep_state_of(Error error, const TrainOptions& options, const Resizing& resizing) {
  if (!resizing.goes_on || !resizing.state || !resizing.state->trained || options.checkpoint_dir.empty()) return error;
  const auto path = keep_state(options, *resizing.state);
  return {error.code(),
          fmt::format("{}; {}", error.message(),
                      path ? "the state is in " + *path : "the state could not be written: " + path.error().message())};
}

}  // namespace xoe::train
