// Options of the input pipeline by name.
#include "frameworks/c/data_options.h"

#include <string_view>
#include <tuple>

#include "core/describe/option_list.h"
#include "core/describe/text.h"
#include "data/options/image_fields.h"
#include "frameworks/c/structs.h"

namespace xoe::capi {

constexpr auto fields_of(const RecordsOptions*) {
  using O = RecordsOptions;
  using data::InterleaveOptions;
  using data::RecordOptions;
  using describe::field;
  return std::tuple(
      field<&O::rank>("rank", {.what = "this rank, below size", .least = 0}),
      field<&O::size>("size", {.what = "ranks that share the records", .least = 1}),
      field<&O::shard_by_file>("shard_by_file",
                               {.what = "a rank reads every size-th file, so that each is read by one; "
                                        "needs as many files as ranks. false: it reads all files, and "
                                        "takes every size-th record"}),
      field<&O::shuffle_files>("shuffle_files",
                               {.what = "files come in an order drawn by (seed, epoch); false: sorted"}),
      field<&O::shuffle_buffer>("shuffle_buffer",
                                {.what = "records to draw from by (seed, epoch); 0 keeps the order", .least = 0}),
      field<&O::interleave, &InterleaveOptions::cycle_length>(
          "cycle_length", {.what = "files that take turns; 1: one after the other", .least = 1}),
      field<&O::interleave, &InterleaveOptions::block_length>(
          "block_length", {.what = "records of a file before the next one's turn", .least = 1}),
      field<&O::seed>("seed", {.what = "of the order"}),
      field<&O::epochs>("epochs", {.what = "after which the sequence ends; 0: never", .least = 0}),
      field<&O::reading, &RecordOptions::compression>("compression", {.what = "auto: by the file's first bytes"}),
      field<&O::allow_missing>("allow_missing",
                               {.what = "links that lead nowhere, folders, pipes, empty files and absent "
                                        "shards are left out, and not an error"}),
      field<&O::reading, &RecordOptions::on_error>("on_error", {.what = "skip: as max_bad=100"}),
      field<&O::reading, &RecordOptions::max_bad>(
          "max_bad", {.what = "damaged places of an epoch that are left out; auto: 0, with on_error=skip 100",
                      .least = 0,
                      .automatic = data::kAutoBad}),
      field<&O::interleave, &InterleaveOptions::threads>(
          "threads", {.what = "that read ahead; auto: as many as needed, up to the CPUs of this process; 0: the caller "
                              "reads",
                      .least = 0,
                      .automatic = data::kAutoThreads}),
      field<&O::interleave, &InterleaveOptions::processes>(
          "processes", {.what = "ranks of this host, which share its CPUs", .least = 1}),
      field<&O::interleave, &InterleaveOptions::ahead>(
          "ahead", {.what = "records that threads read ahead of each file", .least = 1}),
      field<&O::reading, &RecordOptions::block_bytes>("block_bytes",
                                                      {.what = "that are read at once", .is_bytes = true}));
}

namespace {

template <class Object>
Status create(Object** options) {
  XOE_TRY(need(options, "options"));
  *options = new Object();
  return {};
}

template <class Object>
Status set(Object* options, const char* key, const char* value, std::string_view what) {
  XOE_TRY(need(options, "options"));
  XOE_TRY(need(key, "key"));
  XOE_TRY(need(value, "value"));
  const std::lock_guard lock(options->mutex);
  return describe::set_by_name(options->options, what, key, value);
}

template <class Object>
Status text_of(const Object* options, char** text) {
  XOE_TRY(need(options, "options"));
  const std::lock_guard lock(options->mutex);
  return copy_text(describe::text_of(options->options), text);
}

template <class Options>
Status describe_all(char** json) {
  XOE_TRY(need(json, "json"));
  return copy_text(describe::options_json<Options>().dump(), json);
}

}  // namespace
}  // namespace xoe::capi

using namespace xoe::capi;  // NOLINT(google-build-using-namespace)

extern "C" {

xoe_status xoe_images_options_create(xoe_images_options** options) {
  return guard([&] { return create(options); });
}
xoe_status xoe_images_options_set(xoe_images_options* options, const char* key, const char* value) {
  return guard([&] { return set(options, key, value, "images"); });
}
xoe_status xoe_images_options_text(const xoe_images_options* options, char** text) {
  return guard([&] { return text_of(options, text); });
}
xoe_status xoe_images_options_describe(char** json) {
  return guard([&] { return describe_all<xoe::data::ImagePipelineOptions>(json); });
}
xoe_status xoe_images_options_warn(xoe_images_options* options, xoe_warn warn, void* user) {
  return guard([&]() -> xoe::Status {
    XOE_TRY(need(options, "options"));
    const std::lock_guard lock(options->mutex);
    options->options.warn = nullptr;
    if (warn != nullptr)
      options->options.warn = [warn, user](std::string_view line) { warn(user, std::string(line).c_str()); };
    return {};
  });
}
void xoe_images_options_free(xoe_images_options* options) { delete options; }

xoe_status xoe_records_options_create(xoe_records_options** options) {
  return guard([&] { return create(options); });
}
xoe_status xoe_records_options_set(xoe_records_options* options, const char* key, const char* value) {
  return guard([&] { return set(options, key, value, "records"); });
}
xoe_status xoe_records_options_text(const xoe_records_options* options, char** text) {
  return guard([&] { return text_of(options, text); });
}
xoe_status xoe_records_options_describe(char** json) {
  return guard([&] { return describe_all<RecordsOptions>(json); });
}
void xoe_records_options_free(xoe_records_options* options) { delete options; }

}  // extern "C"
