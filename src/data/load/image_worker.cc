#include "data/load/image_worker.h"

#include <algorithm>
#include <chrono>

#include "data/failure_in.h"

namespace xoe::data {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

Status ImageWorker::write_label(const ImageRecord& record, const Output& output) const {
  const int classes = plan_.options.classes;
  if (output.label == nullptr) {
    if (record.targets.size() != static_cast<std::size_t>(classes))
      return failure(Code::kDataLoss, "{} targets for {} classes", record.targets.size(), classes);
    std::copy(record.targets.begin(), record.targets.end(), output.targets);
    return {};
  }
  const int lowest = plan_.options.label_offset;
  const std::int64_t highest = std::int64_t{classes} - 1 + lowest;
  if (record.label < lowest || record.label > highest)
    return failure(Code::kDataLoss, "label {}; the {} classes have labels {} to {}", record.label, classes, lowest,
                   highest);
  *output.label = record.label - lowest;
  return {};
}

Status ImageWorker::run(const RecordRef& ref, const Output& output) {
  const auto start = Clock::now();
  XOE_ASSIGN(const ImageRecord record, source_->read(ref.record, buffer_));
  read_.add(seconds_since(start), record.bytes.size());
  if (const Status labelled = write_label(record, output); !labelled)
    return failure_in(source_->name(ref.record), labelled.error());
  const auto decoding = Clock::now();
  // Keyed by the record, so that its pixels do not depend on the thread or rank.
  const std::uint64_t key =
      mix(plan_.options.seed, static_cast<std::uint64_t>(ref.epoch), static_cast<std::uint64_t>(ref.record));
  const ImageTransform& transform = plan_.transform;
  if (const Status done = transformer_.run(transform, record, key, output.pixels); !done)
    return failure_in(source_->name(ref.record), done.error());
  const auto side = static_cast<std::size_t>(transform.size);
  decode_.add(seconds_since(decoding), 3 * side * side * dtype_size(transform.dtype));
  return {};
}

std::vector<StepReport> ImageWorker::no_steps() { return {{.name = "read"}, {.name = "decode, resize"}}; }

void ImageWorker::add_steps(std::vector<StepReport>& steps) const {
  read_.add_to(steps[0]);
  decode_.add_to(steps[1]);
}

}  // namespace xoe::data
