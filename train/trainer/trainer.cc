#include "train/trainer/trainer.h"

#include <c10/util/Exception.h>

#include <new>

#include "core/base/error.h"
#include "train/trainer/checkpoint.h"
#include "train/trainer/device.h"
#include "train/trainer/joined_batch_norm.h"
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

}  // namespace

Result<Outcome> train(const TrainOptions& options, Communicator& comm, Listener& listener,
                      const std::atomic<bool>& stop, Resizing* resizing) {
  auto outcome = run(options, comm, listener, stop, resizing);
  if (outcome || resizing == nullptr) return outcome;
  return failure(keep_state_of(outcome.error(), options, *resizing));
}

Error keep_state_of(Error error, const TrainOptions& options, const Resizing& resizing) {
  if (!resizing.goes_on || resizing.state.empty() || options.checkpoint_dir.empty()) return error;
  const auto path = keep_state(options, resizing.state);
  return {error.code(),
          fmt::format("{}; {}", error.message(),
                      path ? "the state is in " + *path : "the state could not be written: " + path.error().message())};
}

}  // namespace xoe::train
