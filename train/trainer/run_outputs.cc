#include "train/trainer/run_outputs.h"

#include <utility>

#include "core/base/error.h"
#include "train/trainer/scalars.h"

namespace xoe::train {
namespace {

Status first_error(std::initializer_list<Status> all) {
  for (const Status& one : all)
    if (!one) return one;
  return {};
}

// Calls write(output) if there is one.
template <class Output, class Write>
Status with(std::optional<Output>& output, Write write) {
  return output ? write(*output) : Status();
}

}  // namespace

Result<RunOutputs> RunOutputs::open(const TrainOptions& options, std::int64_t first_step) {
  RunOutputs outputs;
  if (!options.run_dir.empty()) {
    XOE_ASSIGN(outputs.folder_, RunFolder::open(options.run_dir, first_step, options.checkpoint_dir));
  }
  if (!options.tensorboard.empty()) {
    XOE_TRY(make_folder(options.tensorboard));
    XOE_ASSIGN(outputs.events_, EventFile::begin(options.tensorboard, first_step));
  }
  if (!options.mlflow.empty()) {
    XOE_ASSIGN(outputs.mlflow_, MlflowRun::open(options, first_step));
  }
  if (!options.mllog.empty()) {
    XOE_ASSIGN(outputs.mlperf_, MlperfLog::open(options.mllog, first_step));
  }
  return outputs;
}

Status RunOutputs::started(const RunStart& start, const TrainOptions& options) {
  images_in_step_ = start.images;
  return first_error({with(folder_, [&](RunFolder& folder) { return folder.started(start); }),
                      with(mlflow_, [&](MlflowRun& run) { return run.started(start); }),
                      with(mlperf_, [&](MlperfLog& log) { return log.started(start, options); })});
}

Status RunOutputs::reported(const Report& report) {
  return first_error(
      {with(folder_, [&](RunFolder& folder) { return folder.reported(report); }),
       with(events_, [&](EventFile& events) { return events.write(report.step, scalars_of(report)); }),
       with(mlflow_, [&](MlflowRun& run) { return run.write(report.step, scalars_of(report)); }),
       with(mlperf_, [&](MlperfLog& log) { return log.reported(report, report.step * images_in_step_); })});
}

Status RunOutputs::evaluation_begins(std::int64_t step) {
  return with(mlperf_, [&](MlperfLog& log) { return log.evaluation_begins(step * images_in_step_); });
}

Status RunOutputs::evaluated(const Evaluation& evaluation) {
  return first_error(
      {with(folder_, [&](RunFolder& folder) { return folder.evaluated(evaluation); }),
       with(events_, [&](EventFile& events) { return events.write(evaluation.step, scalars_of(evaluation)); }),
       with(mlflow_, [&](MlflowRun& run) { return run.write(evaluation.step, scalars_of(evaluation)); }),
       with(mlperf_, [&](MlperfLog& log) { return log.evaluated(evaluation, evaluation.step * images_in_step_); })});
}

Status RunOutputs::finished(const Outcome& outcome) {
  return first_error(
      {with(folder_, [&](RunFolder& folder) { return folder.finished(outcome); }),
       with(mlflow_, [&](MlflowRun& run) { return run.finished(outcome); }),
       with(mlperf_, [&](MlperfLog& log) { return log.finished(outcome, outcome.step * images_in_step_); })});
}

}  // namespace xoe::train
