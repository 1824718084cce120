#include "frameworks/python/core/data.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "frameworks/python/core/batch_array.h"
#include "frameworks/python/core/engine.h"
#include "frameworks/python/core/errors.h"
#include "xoe/c_data.h"

namespace xoe::python {
namespace {

template <class T, void (*Free)(T*)>
struct Deleter {
  void operator()(T* object) const noexcept { Free(object); }
};
template <class T, void (*Free)(T*)>
using Owned = std::unique_ptr<T, Deleter<T, Free>>;

using ImagesOptions = Owned<xoe_images_options, xoe_images_options_free>;
using RecordsOptions = Owned<xoe_records_options, xoe_records_options_free>;

// Text as UTF-8; a path may hold other bytes, which os.fsdecode() makes surrogates of.
std::string bytes_of(const nb::str& text) {
  PyObject* const encoded = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape");
  if (encoded == nullptr) throw nb::python_error();
  const nb::bytes bytes = nb::steal<nb::bytes>(encoded);
  return {bytes.c_str(), bytes.size()};
}

// The opposite: what os.fsdecode() makes of a path.
nb::str path_text(const char* path) {
  PyObject* const text = PyUnicode_DecodeUTF8(path, static_cast<Py_ssize_t>(std::strlen(path)), "surrogateescape");
  if (text == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(text);
}

// str() of what is not text: True is 1, a sequence is its items with commas between.
std::string option_text(nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value) ? "1" : "0";
  if (!nb::isinstance<nb::tuple>(value) && !nb::isinstance<nb::list>(value)) return bytes_of(nb::str(value));
  std::string text;
  for (const nb::handle item : value) text += (text.empty() ? "" : ",") + option_text(item);
  return text;
}

template <class Options>
void set_all(Options* options, const nb::dict& values, xoe_status (*set)(Options*, const char*, const char*)) {
  for (const auto& [key, value] : values) {
    const std::string text = option_text(value);
    if (text.find('\0') != std::string::npos)
      raise(XOE_INVALID_ARGUMENT, "the option " + bytes_of(nb::str(key)) + " holds a zero byte");
    check(set(options, bytes_of(nb::str(key)).c_str(), text.c_str()));
  }
}

// Makes a call of the library that fills a text.
template <class Call>
nb::str text_of(const Call& call) {
  char* text = nullptr;
  check(call_released([&] { return call(&text); }));
  return take_text(text);
}

// Finds where the images of a batch were read.
class BatchOrigins {
 public:
  explicit BatchOrigins(xoe_image_batch* batch) : batch_(batch) { xoe_image_batch_retain(batch); }

  // The file, the number within it, and the name in messages.
  nb::tuple at(std::int32_t image) const {
    char* file = nullptr;
    char* name = nullptr;
    std::int64_t record = 0;
    check(xoe_image_batch_origin(batch_.get(), image, &file, &record, &name));
    const std::unique_ptr<char, decltype(&xoe_text_free)> owned(file, xoe_text_free);
    const nb::str name_text = take_text(name);
    return nb::make_tuple(path_text(file), record, name_text);
  }

 private:
  Owned<xoe_image_batch, xoe_image_batch_release> batch_;
};

class Images {
 public:
  // With an engine: on all its ranks, which compare what they open.
  Images(const nb::dict& values, const Engine* engine) {
    xoe_images_options* made = nullptr;
    check(xoe_images_options_create(&made));
    const ImagesOptions options(made);
    set_all(options.get(), values, xoe_images_options_set);
    check(xoe_images_options_warn(options.get(), keep_warning, &warnings_));
    const EnginePtr on = engine == nullptr ? nullptr : engine->get();
    xoe_images* opened = nullptr;
    check(call_released([&] {
      return on ? xoe_images_open_on(on.get(), options.get(), &opened) : xoe_images_open(options.get(), &opened);
    }));
    images_.reset(opened);
  }

  // Of the opening, in a list; then later ones, one line each.
  nb::list warnings() const {
    nb::list lines;
    for (const std::string& line : warnings_) lines.append(text_from(line));
    return lines;
  }
  nb::str later_warnings() {
    return text_of([&](char** lines) { return xoe_images_warnings(get(), lines); });
  }

  // pixels, labels, targets (each an array or None), epoch, index, batches left in the epoch, the images' numbers and
  // origins; None at the end.
  nb::object next() {
    xoe_image_batch* batch = nullptr;
    check(call_released([&] { return xoe_images_next(get(), &batch); }));
    if (batch == nullptr) return nb::none();
    const nb::capsule owner(batch,
                            [](void* held) noexcept { xoe_image_batch_release(static_cast<xoe_image_batch*>(held)); });
    return nb::make_tuple(array(batch->pixels, owner), array(batch->labels, owner), array(batch->targets, owner),
                          batch->epoch, batch->index, batch->left, array(batch->records, owner), BatchOrigins(batch));
  }

  nb::str save() {
    return text_of([&](char** text) { return xoe_images_save(get(), text); });
  }

  void restore(const std::string& text) {
    check(call_released([&] { return xoe_images_restore(get(), text.c_str()); }));
  }

  void start_epoch(std::int64_t epoch) {
    check(call_released([&] { return xoe_images_start_epoch(get(), epoch); }));
  }

  std::int64_t batches_per_epoch() {
    std::int64_t batches = 0;
    check(call_released([&] { return xoe_images_batches_per_epoch(get(), &batches); }));
    return batches;
  }

  void reshard(std::int32_t rank, std::int32_t size, std::int32_t processes) {
    check(call_released([&] { return xoe_images_reshard(get(), rank, size, processes); }));
  }

  std::int64_t records_per_epoch() {
    std::int64_t records = 0;
    check(call_released([&] { return xoe_images_records_per_epoch(get(), &records); }));
    return records;
  }

  nb::dict facts() {
    xoe_images_facts facts;
    xoe_images_facts_init(&facts, sizeof(facts));
    check(call_released([&] { return xoe_images_facts_of(get(), &facts); }));
    nb::dict dict;
    dict["records_per_epoch"] = facts.records_per_epoch;
    dict["batches_per_epoch"] = facts.batches_per_epoch;
    dict["classes"] = facts.classes;
    dict["multi_label"] = facts.multi_label != 0;
    dict["skipped"] = facts.skipped;
    dict["waited"] = static_cast<double>(facts.waited) / 1e9;
    dict["memory_bytes"] = facts.memory_bytes;
    dict["lost"] = facts.lost;
    dict["missing"] = facts.missing;
    return dict;
  }

  nb::str report() {
    return text_of([&](char** text) { return xoe_images_report(get(), text); });
  }

  void close() {
    const nb::gil_scoped_release release;
    images_.reset();
  }

 private:
  static void keep_warning(void* lines, const char* line) {
    static_cast<std::vector<std::string>*>(lines)->emplace_back(line);
  }

  xoe_images* get() const {
    return images_.get();  // null once closed: the library says so
  }

  static nb::object array(const xoe_output& output, const nb::capsule& owner) {
    if (output.data == nullptr && output.ndim == 0) return nb::none();
    return nb::cast(BatchArray(output, owner));
  }

  std::vector<std::string> warnings_;
  Owned<xoe_images, xoe_images_close> images_;
};

class Records {
 public:
  Records(const std::vector<nb::str>& names, const nb::dict& values, const Engine* engine) {
    std::vector<std::string> patterns(names.size());
    std::ranges::transform(names, patterns.begin(), bytes_of);
    xoe_records_options* made = nullptr;
    check(xoe_records_options_create(&made));
    const RecordsOptions options(made);
    set_all(options.get(), values, xoe_records_options_set);
    std::vector<const char*> texts(patterns.size());
    std::ranges::transform(patterns, texts.begin(), [](const std::string& pattern) { return pattern.c_str(); });
    const EnginePtr on = engine == nullptr ? nullptr : engine->get();
    xoe_records* opened = nullptr;
    check(call_released([&] {
      return on ? xoe_records_open_on(on.get(), texts.data(), texts.size(), options.get(), &opened)
                : xoe_records_open(texts.data(), texts.size(), options.get(), &opened);
    }));
    records_.reset(opened);
  }

  // The bytes, the file, the record's number within it; None at the end.
  nb::object next() {
    xoe_record* record = nullptr;
    check(call_released([&] { return xoe_records_next(records_.get(), &record); }));
    if (record == nullptr) return nb::none();
    const Owned<xoe_record, xoe_record_release> owner(record);
    return nb::make_tuple(nb::bytes(record->data, record->size), path_text(record->file), record->number);
  }

  std::int64_t skip(std::int64_t count) {
    std::int64_t passed = 0;
    check(call_released([&] { return xoe_records_skip(records_.get(), count, &passed); }));
    return passed;
  }

  // The file's path, and how many records it has.
  nb::tuple file(std::int64_t number) {
    char* path = nullptr;
    std::int64_t count = 0;
    check(call_released([&] { return xoe_records_file(records_.get(), number, &path, &count); }));
    const std::unique_ptr<char, decltype(&xoe_text_free)> owned(path, xoe_text_free);
    return nb::make_tuple(path_text(path), count);
  }

  nb::str save() {
    return text_of([&](char** text) { return xoe_records_save(records_.get(), text); });
  }

  void restore(const std::string& text) {
    check(call_released([&] { return xoe_records_restore(records_.get(), text.c_str()); }));
  }

  nb::str report() {
    return text_of([&](char** text) { return xoe_records_report(records_.get(), text); });
  }

  void close() {
    const nb::gil_scoped_release release;
    records_.reset();
  }

 private:
  Owned<xoe_records, xoe_records_close> records_;
};

}  // namespace

void bind_data(nb::module_& module) {
  bind_batch_array(module);
  module.def(
      "images_options", [] { return text_of(xoe_images_options_describe); }, "The options of images, as JSON.");
  module.def(
      "records_options", [] { return text_of(xoe_records_options_describe); }, "The options of records, as JSON.");
  nb::class_<BatchOrigins>(module, "BatchOrigins")
      .def("__getitem__", &BatchOrigins::at, nb::arg("image"), "The file, the number within it, and the name.");
  nb::class_<Images>(module, "Images")
      .def(nb::init<const nb::dict&, const Engine*>(), nb::arg("options"), nb::arg("engine").none() = nb::none(),
           "Opens the files and starts the threads; with an engine on all its ranks, which compare what they open.")
      .def("warnings", &Images::warnings, "Lines about what was opened.")
      .def("later_warnings", &Images::later_warnings, "Lines about images that were left out since the last call.")
      .def("next", &Images::next,
           "pixels, labels, targets, epoch, index, left, records, origins of the next batch; None at the end.")
      .def("save", &Images::save)
      .def("restore", &Images::restore, nb::arg("position"))
      .def("start_epoch", &Images::start_epoch, nb::arg("epoch"))
      .def("reshard", &Images::reshard, nb::arg("rank"), nb::arg("size"), nb::arg("processes"))
      .def("records_per_epoch", &Images::records_per_epoch)
      .def("facts", &Images::facts)
      .def("batches_per_epoch", &Images::batches_per_epoch)
      .def("report", &Images::report, "Where the time went, as JSON.")
      .def("close", &Images::close);
  nb::class_<Records>(module, "Records")
      .def(nb::init<const std::vector<nb::str>&, const nb::dict&, const Engine*>(), nb::arg("patterns"),
           nb::arg("options"), nb::arg("engine").none() = nb::none())
      .def("next", &Records::next, "The bytes, the file, and the number of the next record; None at the end.")
      .def("skip", &Records::skip, nb::arg("count"), "Passes over records; gives how many there were.")
      .def("file", &Records::file, nb::arg("number"), "The path of a file, and how many records it has.")
      .def("save", &Records::save)
      .def("restore", &Records::restore, nb::arg("position"))
      .def("report", &Records::report, "What was read and skipped, as JSON.")
      .def("close", &Records::close);
}

}  // namespace xoe::python
