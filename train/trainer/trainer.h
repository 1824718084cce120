// Trains an image classifier, alone or together with other ranks.
#pragma once

#include <atomic>

#include "train/trainer/batches.h"
#include "train/trainer/events.h"
#include "train/trainer/options.h"
#include "train/trainer/resizing.h"
#include "xoe/communicator.h"

namespace xoe::train {

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
// finish the same step and return with outcome.resized; resizing->state then is what this rank keeps for the next call:
// data, model and optimizer, in their memory. Ranks without them get the state from those that have it. Where that call
// fails before its first step, the ranks that had it write it as a checkpoint (if a folder is set). `data_loss`: all
// ranks that had it have left. With resizing->survives, ranks that lose a peer return in the same way, each with the
// state of the last step that it has finished: the next call goes on from the latest of them. A sharded optimizer's
// state is lost with a rank.
Result<Outcome> train(const TrainOptions& options, Communicator& comm, Listener& listener,
                      const std::atomic<bool>& stop, Resizing* resizing = nullptr);

// Opens the data and makes the model before this rank joins the others, which would wait for it meanwhile. `share`: as
// it is likely to be. joins: a training that has begun, whose state it gets; on a CPU it then runs a pass, too. Leaves
// out what fails, since train() does the same and tells the error on all ranks.
void prepare_rank(const TrainOptions& options, const Share& share, bool joins, Listener& listener, Resizing& resizing);

// For an error after which no other world follows: writes the state that the training was to go on from, which is in no
// other place, as a checkpoint (if a folder is set). Returns the error, which says so.
Error keep_state_of(Error error, const TrainOptions& options, const Resizing& resizing);

}  // namespace xoe::train
