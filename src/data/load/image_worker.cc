#include "data/load/image_worker.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace xoe::data {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

tl::unexpected<Error> named(const ImageSource& source, std::int64_t record, const Error& error) {
  return failure(error.code(), "{}: {}", source.name(record), error.message());
}

}  // namespace

Status ImageWorker::label(const ImageRecord& record, const Places& places) const {
  if (places.label == nullptr) {
    if (record.targets.size() != static_cast<std::size_t>(recipe_.classes))
      return failure(Code::kDataLoss, "{} targets where there are {} classes", record.targets.size(), recipe_.classes);
    std::copy(record.targets.begin(), record.targets.end(), places.targets);
    return {};
  }
  const std::int64_t most = std::int64_t{recipe_.classes} - 1 + recipe_.label_offset;
  if (record.label < recipe_.label_offset || record.label > most)
    return failure(Code::kDataLoss, "label {}; the {} classes have labels {} to {}", record.label, recipe_.classes,
                   recipe_.label_offset, most);
  *places.label = record.label - recipe_.label_offset;
  return {};
}

Status ImageWorker::make(const RecordRef& ref, const Places& places) {
  const auto start = Clock::now();
  XOE_ASSIGN(const ImageRecord record, source_->read(ref.record, buffer_));
  read_.add(seconds_since(start), record.bytes.size());
  if (const Status labelled = label(record, places); !labelled) return named(*source_, ref.record, labelled.error());
  const auto decoding = Clock::now();
  // Keyed by the record, so that its pixels do not depend on who makes it.
  const std::uint64_t key =
      mix(recipe_.seed, static_cast<std::uint64_t>(ref.epoch), static_cast<std::uint64_t>(ref.record));
  if (const Status made = make_image(tools_, recipe_.making, record, key, places.pixels); !made)
    return named(*source_, ref.record, made.error());
  const auto side = static_cast<std::size_t>(recipe_.making.size);
  decode_.add(seconds_since(decoding), 3 * side * side * dtype_size(recipe_.making.dtype));
  return {};
}

std::vector<StepReport> ImageWorker::no_steps() { return {{.name = "read"}, {.name = "decode, resize"}}; }

void ImageWorker::add_steps(std::vector<StepReport>& steps) const {
  read_.add_to(steps[0]);
  decode_.add_to(steps[1]);
}

}  // namespace xoe::data
