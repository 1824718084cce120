// Trains an image classifier, alone or together with other ranks.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "train/events.h"
#include "train/options.h"
#include "xoe/communicator.h"

namespace xoe::train {

// For a job whose number of ranks changes while it runs: train() returns when it shall, and is called again in the next
// world.
struct Resizing {
  std::function<bool()> wished;  // whether the launcher wants another world; any rank may be the first to see it
  std::function<bool()> leaves;  // whether this rank is not in that world
  bool goes_on = false;          // train() has returned to this process in an earlier world
  // What was due when the ranks left the last world, and is done first in the next one.
  struct {
    bool evaluation = false, checkpoint = false;
  } due = {};
  std::string state = {};  // of one rank at least: what the run goes on from; empty: its beginning, or a checkpoint
};

// The version of libtorch: "2.15.0".
std::string_view libtorch_version() noexcept;

// Collective: all ranks pass the same options. `options` come from complete_options(). Once `stop` is set on any rank,
// all ranks finish the same step, write a checkpoint (if a folder is set) and return with outcome.interrupted.
//
// Batch norm uses each rank's own statistics in training, unless options.sync_batchnorm; evaluation and the
// checkpoint's model use their means over ranks. A resumed run gives bit-identical results to one that was not
// interrupted.
//
// Sets libtorch's threads and its default generator in this process. The listener is called on rank 0, except for
// failed_everywhere().
//
// Errors: of input, of files, of peers; a loss that is not finite is `invalid_argument` and says at which step.
//
// resizing: where the number of ranks may change; on all ranks or none. Once a rank sees that it shall, all ranks
// finish the same step and return with outcome.resized; resizing->state then is the whole state, for the next call, on
// rank 0 or, if that leaves, on all ranks. Where that call fails before its first step, the ranks that had it write it
// as a checkpoint (if a folder is set). `data_loss`: all ranks that had it have left.
Result<Outcome> train(const TrainOptions& options, Communicator& comm, Listener& listener,
                      const std::atomic<bool>& stop, Resizing* resizing = nullptr);

}  // namespace xoe::train
