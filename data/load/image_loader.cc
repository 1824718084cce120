#include "data/load/image_loader.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/base/shard_range.h"
#include "data/failure_in.h"
#include "data/files/missing.h"
#include "data/image/augment/batch.h"
#include "data/load/count_classes.h"

namespace xoe::data {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

enum Tensor : std::size_t { kPixels, kLabels, kRecordNumbers };

std::vector<TensorSpec> specs_of(const ImagePipelineOptions& options, bool multi_label) {
  const ImageSize size = options.image_size;
  const TensorSpec pixels{options.dtype, {3, size.height, size.width}};  // only their number counts
  const TensorSpec number{DType::kInt64, {}};
  if (multi_label) return {pixels, {DType::kFloat32, {options.classes}}, number};
  return {pixels, number, number};
}

}  // namespace

Status ImageWorker::write_label(const ImageRecord& record, const Output& output) const {
  const int classes = plan_.options.classes;
  if (output.label == nullptr) {
    if (record.targets.size() != static_cast<std::size_t>(classes))
      return failure(Code::kDataLoss, "{} targets for {} classes", record.targets.size(), classes);
    std::copy(record.targets.begin(), record.targets.end(), output.targets);
    return {};
  }
  XOE_ASSIGN(*output.label, class_of(*source_, record.label, classes));
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
  decode_.add(seconds_since(decoding),
              3 * static_cast<std::size_t>(transform.size.pixels()) * dtype_size(transform.dtype));
  return {};
}

ImageLoader::ImageLoader(std::shared_ptr<const ImageSource> source, ImagePlan plan)
    : source_(std::move(source)), plan_(std::move(plan)) {}

Result<std::unique_ptr<ImageLoader>> ImageLoader::open(std::shared_ptr<const ImageSource> source, ImagePlan plan) {
  std::unique_ptr<ImageLoader> loader(new ImageLoader(std::move(source), std::move(plan)));
  loader->plan_.batching.left_out = [loader = loader.get()](const Error& error) { loader->bad_.add(error.message()); };
  loader->plan_.files_fingerprint = files_fingerprint(loader->opened());
  XOE_TRY(loader->start());
  return loader;
}

Status ImageLoader::start() {
  workers_.clear();
  for (int i = 0; i < std::max(plan_.batching.threads, 1); ++i)
    workers_.push_back(std::make_unique<ImageWorker>(source_, plan_));
  const auto transform = [this, multi_label = multi_label()](const RecordRef& ref, std::span<void* const> places,
                                                             int worker) {
    ImageWorker::Output output{.pixels = places[kPixels]};
    if (multi_label)
      output.targets = static_cast<float*>(places[kLabels]);
    else
      output.label = static_cast<std::int64_t*>(places[kLabels]);
    *static_cast<std::int64_t*>(places[kRecordNumbers]) = ref.record;
    if (take_made(ref, places)) return Status();
    return workers_[static_cast<std::size_t>(worker)]->run(ref, output);
  };
  const ImagePipelineOptions& options = plan_.options;
  const auto shard =
      shard_batches(record_order(source_, options),
                    {options.rank, options.size, options.batch, plan_.remainder, options.joint_batch, options.shards});
  specs_ = specs_of(options, multi_label());
  XOE_ASSIGN(tensors_,
             map_and_batch<RecordRef>(repeat(shard, options.epochs), options.batch, specs_, transform, plan_.batching));
  first_ = tensors_->save();
  return {};
}

Status ImageLoader::reshard(int rank, int size, int processes, std::int64_t joint_batch) {
  ImagePlan plan = plan_;
  plan.options.rank = rank;
  plan.options.size = size;
  plan.options.processes = processes;
  plan.options.joint_batch = joint_batch;
  XOE_TRY(plan_for_rank(plan, source_->records()));
  plan.batching.waits = true;  // for the restore()
  const std::size_t in_flight =
      tensors_->end([this](std::int64_t epoch, std::span<const std::shared_ptr<void>> tensors, std::size_t place) {
        if (!plan_.options.training) return;
        const auto at = [&](Tensor tensor) {
          return std::shared_ptr<const void>(
              tensors[tensor], static_cast<const char*>(tensors[tensor].get()) + place * specs_[tensor].bytes());
        };
        made_.add(epoch, *static_cast<const std::int64_t*>(at(kRecordNumbers).get()),
                  {.pixels = at(kPixels), .label = at(kLabels)});
      });
  made_until_ += static_cast<std::int64_t>(in_flight) * images_of_a_batch();
  tensors_.reset();  // its threads use the plan and the workers
  plan_ = std::move(plan);
  return start();
}

std::int64_t ImageLoader::images_of_a_batch() const noexcept {
  const ImagePipelineOptions& options = plan_.options;
  return options.joint_batch > 0 ? options.joint_batch : std::int64_t{options.size} * options.batch;
}

void ImageLoader::keep(const ImageBatch& batch) {
  if (!plan_.options.training || mixes()) return;
  const std::size_t bytes = specs_[kPixels].bytes();
  for (std::size_t i = 0; i < batch.records.size(); ++i) {
    MadeImage image{.pixels = {batch.pixels, static_cast<const char*>(batch.pixels.get()) + i * bytes}, .label = {}};
    if (multi_label()) {
      const auto classes = static_cast<std::size_t>(plan_.options.classes);
      const auto targets = std::make_shared<std::vector<float>>(batch.targets.data() + i * classes,
                                                                batch.targets.data() + (i + 1) * classes);
      image.label = {targets, targets->data()};
    } else {
      image.label = std::make_shared<std::int64_t>(batch.labels[i]);
    }
    made_.add(batch.epoch, batch.records[i], std::move(image));
  }
  made_until_ += images_of_a_batch();
}

bool ImageLoader::take_made(const RecordRef& ref, std::span<void* const> places) {
  const auto made = made_.take(ref.epoch, ref.record);
  if (!made) return false;
  std::memcpy(places[kPixels], made->pixels.get(), specs_[kPixels].bytes());
  std::memcpy(places[kLabels], made->label.get(), specs_[kLabels].bytes());
  return true;
}

Result<std::optional<ImageBatch>> ImageLoader::next() {
  auto made = tensors_->next();
  if (!made) return failure(explain_bad(made.error()));
  auto& tensors = *made;
  if (made_until_ > 0 && (made_until_ = std::max<std::int64_t>(made_until_ - images_of_a_batch(), 0)) == 0)
    made_.clear();
  if (!tensors || tensors->left == 0) warn_of_skipped();
  if (!tensors) return std::nullopt;
  const ImagePipelineOptions& options = plan_.options;
  ImageBatch batch;
  const auto count = static_cast<std::size_t>(tensors->count);
  if (multi_label()) {
    const auto* targets = tensors->data<float>(kLabels);
    batch.targets.assign(targets, targets + count * static_cast<std::size_t>(options.classes));
  } else {
    const auto* labels = tensors->data<std::int64_t>(kLabels);
    batch.labels.assign(labels, labels + count);
  }
  batch.pixels = std::move(tensors->tensors[kPixels]);
  batch.dtype = options.dtype;
  batch.layout = options.layout;
  batch.count = tensors->count;
  batch.height = options.image_size.height;
  batch.width = options.image_size.width;
  batch.epoch = tensors->epoch;
  batch.index = tensors->index;
  batch.left = tensors->left;
  const auto* records = tensors->data<std::int64_t>(kRecordNumbers);
  batch.records.assign(records, records + count);
  batch.origins = source_;
  mix_images(batch);
  return std::optional<ImageBatch>(std::move(batch));
}

void ImageLoader::warn_of_skipped() {
  const std::string left_out = bad_.take();
  if (left_out.empty()) return;
  const ImagePipelineOptions& options = plan_.options;
  const std::string rank = options.size > 1 ? fmt::format(", rank {}", options.rank) : std::string();
  warn(options, fmt::format("{}{}: {}", options.directory, rank, left_out));
}

Error ImageLoader::explain_bad(const Error& error) const {
  if (!may_skip(error) || plan_.options.max_bad > 0) return error;
  return {error.code(), fmt::format("{}; {}", error.message(), kMayLeaveOut)};
}

bool ImageLoader::mixes() const noexcept {
  const BatchMixing& mixing = plan_.options.augmentation.mixing;
  return plan_.options.training && (mixing.mixup_alpha > 0 || mixing.cutmix_alpha > 0);
}

// In the caller's thread: it needs the whole batch. Each rank, or each logical shard, draws its own numbers.
void ImageLoader::mix_images(ImageBatch& batch) {
  const ImagePipelineOptions& options = plan_.options;
  if (!mixes() || batch.count == 0) return;
  const auto classes = static_cast<std::size_t>(options.classes);
  if (batch.targets.empty()) {
    batch.targets.resize(batch.labels.size() * classes);
    for (std::size_t i = 0; i < batch.labels.size(); ++i)
      batch.targets[i * classes + static_cast<std::size_t>(batch.labels[i])] = 1;
  }
  if (options.shards == 0) return mix_part(batch, options.rank, 0, batch.count);
  const ShardRange mine = shards_of_rank(options.shards, options.rank, options.size);
  const int each = batch.count / mine.count();
  for (int i = 0; i < mine.count(); ++i) mix_part(batch, mine.begin + i, i * each, each);
}

void ImageLoader::mix_part(ImageBatch& batch, int stream, int begin, int count) {
  const ImagePipelineOptions& options = plan_.options;
  const auto first = static_cast<std::size_t>(begin);
  Random random(mix(options.seed, static_cast<std::uint64_t>(stream)), static_cast<std::uint64_t>(batch.epoch),
                static_cast<std::uint64_t>(batch.index));
  apply(draw_mixing(random, options.augmentation.mixing, batch.width, batch.height),
        FloatImages{.data = batch.floats() + first * 3 * static_cast<std::size_t>(batch.width * batch.height),
                    .count = count,
                    .channels = 3,
                    .height = batch.height,
                    .width = batch.width,
                    .layout = batch.layout},
        SoftLabels{.data = batch.targets.data() + first * static_cast<std::size_t>(options.classes),
                   .classes = options.classes},
        scratch_);
}

Result<int> ImageLoader::count_classes() {
  if (classes() == 0) {
    XOE_ASSIGN(counted_, data::count_classes(*source_, plan_.options));
  }
  return classes();
}

OpenedData ImageLoader::opened() const {
  return {.where = plan_.options.directory,
          .records = source_->records(),
          .batches = plan_.batches_per_epoch,
          .labels = source_->labels_fingerprint(),
          .order = plan_.order_fingerprint,
          .files = source_->files(),
          .file = [source = source_](std::size_t number) { return source->file(number); }};
}

PipelineReport ImageLoader::report() const {
  PipelineReport report = report_of(tensors_->stages(), plan_.options.processes);
  report.making = tensors_->stats();
  report.steps = ImageWorker::no_steps();
  for (const auto& worker : workers_) worker->add_steps(report.steps);
  report.elements = report.making.tasks;
  const ImagePipelineOptions& options = plan_.options;
  report.batch_bytes =
      3 * options.image_size.pixels() * options.batch * static_cast<std::int64_t>(dtype_size(options.dtype));
  return report;
}

Status ImageLoader::start_epoch(std::int64_t epoch) {
  if (epoch < 0) return failure(Code::kInvalidArgument, "start_epoch: epoch {}: they count from 0", epoch);
  State state = first_;
  XOE_TRY(state.set("batches.skipped", tensors_->skipped()));
  XOE_TRY(state.set("batches.epoch", epoch));
  XOE_TRY(state.set("repeat.epoch", epoch));
  return tensors_->restore(std::move(state));
}

State ImageLoader::save() const {
  State state = tensors_->save();
  state.push("images.seed", static_cast<std::int64_t>(plan_.options.seed));
  state.push("images.order", static_cast<std::int64_t>(plan_.order_fingerprint));
  state.push("images.records", source_->records());
  state.push("images.files", static_cast<std::int64_t>(plan_.files_fingerprint));
  return state;
}

Status ImageLoader::restore(State state) {
  const auto files = state.pop("images.files");  // earlier versions saved none
  XOE_ASSIGN(const auto records, state.pop("images.records"));
  XOE_ASSIGN(const auto order, state.pop("images.order"));
  XOE_ASSIGN(const auto seed, state.pop("images.seed"));
  if (records != source_->records())
    return failure(Code::kInvalidArgument,
                   "saved position: of data with {} records; here are {}, so these are other data", records,
                   source_->records());
  if (seed != static_cast<std::int64_t>(plan_.options.seed))
    return failure(Code::kInvalidArgument, "saved position: of seed {}; here it is {}", seed, plan_.options.seed);
  if (order != static_cast<std::int64_t>(plan_.order_fingerprint))
    return failure(Code::kInvalidArgument,
                   "saved position: of other data, such as files that were written again with as many records, or of "
                   "another order (training, shuffle_buffer, shard_by_file)");
  if (files && *files != static_cast<std::int64_t>(plan_.files_fingerprint))
    return failure(
        Code::kInvalidArgument,
        "saved position: of other data with as many records: names, sizes or numbers of records of the files "
        "in {} have changed since. Only with the files as they were can the epoch go on; start_epoch() begins "
        "one with these",
        plan_.options.directory);
  return tensors_->restore(std::move(state));
}

}  // namespace xoe::data
