// Batches of images.
#include <algorithm>
#include <array>
#include <atomic>

#include <nlohmann/json.hpp>

#include "frameworks/c/compare_on.h"
#include "frameworks/c/data_options.h"
#include "frameworks/c/objects.h"
#include "frameworks/c/structs.h"

namespace xoe::capi {
namespace {

static_assert(XOE_NCHW == static_cast<int>(data::Layout::kNchw) && XOE_NHWC == static_cast<int>(data::Layout::kNhwc));
static_assert(offsetof(xoe_image_batch, records) == 112);  // what the first version had

constexpr std::size_t kFirstFactsSize = 56;
static_assert(sizeof(xoe_images_facts) >= kFirstFactsSize);

// The C struct, with the objects that its pointers point to.
struct OwnedBatch : xoe_image_batch {
  OwnedBatch(data::ImageBatch from, int classes, bool multi_label)
      : xoe_image_batch{}, batch(std::move(from)), rows{batch.count, classes} {
    if (batch.layout == data::Layout::kNchw)
      images = {batch.count, batch.channels, batch.height, batch.width};
    else
      images = {batch.count, batch.height, batch.width, batch.channels};
    struct_size = sizeof(xoe_image_batch);
    pixels = {batch.pixels.get(), images.data(), 4, static_cast<std::int32_t>(batch.dtype)};
    if (!multi_label) labels = {batch.labels.data(), rows.data(), 1, XOE_INT64};
    if (multi_label || !batch.targets.empty()) targets = {batch.targets.data(), rows.data(), 2, XOE_FLOAT32};
    layout = static_cast<std::int32_t>(batch.layout);
    count = batch.count;
    epoch = batch.epoch;
    index = batch.index;
    left = batch.left;
    records = {batch.records.data(), rows.data(), 1, XOE_INT64};
  }

  data::ImageBatch batch;
  std::array<std::int64_t, 4> images = {};  // shapes
  std::array<std::int64_t, 2> rows;
  std::atomic<std::int64_t> owners = 1;
};

Result<data::ImagePipelineOptions> copy_of(const xoe_images_options* options) {
  XOE_TRY(need(options, "options"));
  const std::lock_guard lock(options->mutex);
  return options->options;
}

// engine: whose ranks share the images and compare what they opened; null: none.
Status open(xoe_engine* engine, const xoe_images_options* options, xoe_images** images) {
  XOE_ASSIGN(auto chosen, copy_of(options));
  XOE_TRY(need(images, "images"));
  if (engine != nullptr) {
    const Topology& topology = engine->engine->topology();
    chosen.rank = topology.rank;
    chosen.size = topology.size;
    if (chosen.processes == 1) chosen.processes = topology.local_size;
  }
  auto made = std::make_unique<xoe_images>(chosen);
  auto opened = data::open_images(chosen);
  if (engine != nullptr)
    XOE_TRY(compare_on(*engine, opened ? Result<data::OpenedData>((*opened)->opened()) : failure(opened.error())));
  XOE_ASSIGN(made->iterator, std::move(opened));
  made->warnings.opened();
  *images = made.release();
  return {};
}

// with() for images, which no other thread uses meanwhile: body(ImageIterator&).
template <class Body>
xoe_status with_images(xoe_images* images, Body&& body) noexcept {
  return with(images, "images", [&](xoe_images& it) -> Status {
    const std::lock_guard lock(it.mutex);
    return body(*it.iterator);
  });
}

Status origin_of(const xoe_image_batch* batch, std::int32_t image, char** file, std::int64_t* record, char** name) {
  XOE_TRY(need(batch, "batch"));
  XOE_TRY(check_number(image, 0, std::int64_t{batch->count} - 1, "image"));
  data::ImageOrigin origin = static_cast<const OwnedBatch*>(batch)->batch.origin(image);
  if (record != nullptr) *record = origin.record;
  if (name != nullptr) XOE_TRY(copy_text(std::move(origin.name), name));
  return file == nullptr ? Status() : copy_text(std::move(origin.file), file);
}

Status facts_of(data::ImageIterator& from, xoe_images_facts* facts) {
  XOE_TRY(need(facts, "facts"));
  if (facts->struct_size < kFirstFactsSize)
    return failure(Code::kInvalidArgument, "facts: struct_size is {}, must be {} at least; call its _init() first",
                   facts->struct_size, kFirstFactsSize);
  XOE_ASSIGN(const int classes, from.count_classes());
  const xoe_images_facts all = {.struct_size = facts->struct_size,
                                .records_per_epoch = from.records_per_epoch(),
                                .batches_per_epoch = from.batches_per_epoch(),
                                .classes = classes,
                                .multi_label = from.multi_label() ? 1 : 0,
                                .skipped = from.skipped(),
                                .waited = static_cast<std::int64_t>(1e9 * from.waited_seconds()),
                                .memory_bytes = from.memory_bytes(),
                                .lost = from.lost(),
                                .missing = from.missing()};
  std::memcpy(facts, &all, std::min(facts->struct_size, sizeof(all)));
  return {};
}

// With the keys of `xoe data bench --explain --json`.
std::string json_of(const data::PipelineReport& report) {
  using Json = nlohmann::ordered_json;
  Json steps = Json::array();
  for (const data::StepReport& step : report.steps)
    steps.push_back(
        {{"name", step.name}, {"thread_seconds", step.seconds}, {"count", step.count}, {"bytes", step.bytes}});
  const data::ThreadPoolStats& making = report.making;
  const Json out = {{"steps", std::move(steps)},
                    {"threads", making.threads},
                    {"most_threads", making.most_threads},
                    {"cpus", report.cpus},
                    {"depth", making.depth},
                    {"most_depth", making.most_depth},
                    {"batches", making.taken},
                    {"batches_ready", making.ready},
                    {"batch_bytes", report.batch_bytes},
                    {"busy_thread_seconds", making.working + making.pulling},
                    {"idle_thread_seconds", making.idle},
                    {"waited_seconds", making.waited},
                    {"seconds", making.seconds},
                    {"images", report.elements},
                    {"images_per_s", report.elements_per_second()},
                    {"capacity_images_per_s", report.capacity()},
                    {"stall_share", report.stall_share()},
                    {"last_tuning", making.last_tuning},
                    {"words", data::explain(report)}};
  return out.dump();
}

}  // namespace
}  // namespace xoe::capi

using xoe::Status;
using xoe::capi::copy_text;
using xoe::capi::give;
using xoe::capi::guard;
using xoe::capi::json_of;
using xoe::capi::need;
using xoe::capi::OwnedBatch;
using xoe::capi::with_engine;
using xoe::capi::with_images;
using xoe::data::ImageIterator;

extern "C" {

xoe_status xoe_images_open(const xoe_images_options* options, xoe_images** images) {
  return guard([&] { return xoe::capi::open(nullptr, options, images); });
}

xoe_status xoe_images_open_on(xoe_engine* engine, const xoe_images_options* options, xoe_images** images) {
  return with_engine(engine, [&](xoe::Engine&) { return xoe::capi::open(engine, options, images); });
}

void xoe_images_close(xoe_images* images) { xoe::capi::destroy(images); }

xoe_status xoe_images_next(xoe_images* images, xoe_image_batch** batch) {
  return with_images(images, [&](ImageIterator& it) -> Status {
    XOE_TRY(need(batch, "batch"));
    const xoe::bootstrap::StatusWait wait(images->launcher, xoe::bootstrap::WaitKind::kData);
    XOE_ASSIGN(auto made, it.next());
    *batch = made ? new OwnedBatch(std::move(*made), it.classes(), it.multi_label()) : nullptr;
    return {};
  });
}

void xoe_image_batch_retain(xoe_image_batch* batch) {
  if (batch != nullptr) static_cast<OwnedBatch*>(batch)->owners.fetch_add(1, std::memory_order_relaxed);
}

void xoe_image_batch_release(xoe_image_batch* batch) {
  if (batch == nullptr) return;
  auto* const owned = static_cast<OwnedBatch*>(batch);
  if (owned->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete owned;
}

xoe_status xoe_image_batch_origin(const xoe_image_batch* batch, int32_t image, char** file, int64_t* record,
                                  char** name) {
  return guard([&] { return xoe::capi::origin_of(batch, image, file, record, name); });
}

xoe_status xoe_images_save(xoe_images* images, char** text) {
  return with_images(images, [&](const ImageIterator& it) { return copy_text(it.save().to_text(), text); });
}

xoe_status xoe_images_restore(xoe_images* images, const char* text) {
  return with_images(images, [&](ImageIterator& it) -> Status {
    XOE_TRY(need(text, "text"));
    XOE_ASSIGN(xoe::data::State state, xoe::data::State::from_text(text));
    return it.restore(std::move(state));
  });
}

xoe_status xoe_images_start_epoch(xoe_images* images, int64_t epoch) {
  return with_images(images, [&](ImageIterator& it) { return it.start_epoch(epoch); });
}

xoe_status xoe_images_reshard(xoe_images* images, int32_t rank, int32_t size, int32_t processes) {
  return with_images(images, [&](ImageIterator& it) { return it.reshard(rank, size, processes, 0); });
}

void xoe_images_facts_init(xoe_images_facts* facts, size_t struct_size) {
  xoe::capi::init_struct(facts, xoe_images_facts{}, struct_size);
}

xoe_status xoe_images_facts_of(xoe_images* images, xoe_images_facts* facts) {
  return with_images(images, [&](ImageIterator& it) { return xoe::capi::facts_of(it, facts); });
}

xoe_status xoe_images_batches_per_epoch(xoe_images* images, int64_t* batches) {
  return with_images(images, [&](const ImageIterator& it) { return give(it.batches_per_epoch(), batches, "batches"); });
}

xoe_status xoe_images_records_per_epoch(xoe_images* images, int64_t* records) {
  return with_images(images, [&](const ImageIterator& it) { return give(it.records_per_epoch(), records, "records"); });
}

xoe_status xoe_images_warnings(xoe_images* images, char** lines) {
  return with_images(images, [&](ImageIterator& it) {
    it.warn_of_skipped();
    return copy_text(images->warnings.take(), lines);
  });
}

xoe_status xoe_images_report(xoe_images* images, char** json) {
  return with_images(images, [&](const ImageIterator& it) { return copy_text(json_of(it.report()), json); });
}

}  // extern "C"
