#include "capi/data_options.h"

#include "capi/data_objects.h"
#include "capi/structs.h"

namespace xoe::capi {
namespace {

using data::Augmentation;
using data::BatchMixing;
using data::ImagePipelineOptions;
using data::InterleaveOptions;
using data::RecordOptions;

constexpr Field<ImagePipelineOptions> kImages[] = {
    option<&ImagePipelineOptions::directory>("directory"),
    option<&ImagePipelineOptions::format>("format"),
    option<&ImagePipelineOptions::pattern>("pattern"),
    option<&ImagePipelineOptions::batch>("batch"),
    option<&ImagePipelineOptions::image_size>("image_size"),
    option<&ImagePipelineOptions::rank>("rank"),
    option<&ImagePipelineOptions::size>("size"),
    option_as<ThreadsForm, &ImagePipelineOptions::threads>("threads"),
    option<&ImagePipelineOptions::processes>("processes"),
    option<&ImagePipelineOptions::shuffle_buffer>("shuffle_buffer"),
    option<&ImagePipelineOptions::shard_by_file>("shard_by_file"),
    option<&ImagePipelineOptions::prefetch>("prefetch"),
    option_as<BytesForm, &ImagePipelineOptions::memory_budget>("memory_budget"),
    option<&ImagePipelineOptions::seed>("seed"),
    option<&ImagePipelineOptions::training>("training"),
    option<&ImagePipelineOptions::epochs>("epochs"),
    option<&ImagePipelineOptions::remainder>("remainder"),
    option<&ImagePipelineOptions::on_error>("on_error"),
    option<&ImagePipelineOptions::max_bad>("max_bad"),
    option<&ImagePipelineOptions::image_key>("image_key"),
    option<&ImagePipelineOptions::label_key>("label_key"),
    option<&ImagePipelineOptions::multi_label>("multi_label"),
    option<&ImagePipelineOptions::classes>("classes"),
    option<&ImagePipelineOptions::min_area>("min_area"),
    option<&ImagePipelineOptions::label_offset>("label_offset"),
    option<&ImagePipelineOptions::quality>("quality"),
    option<&ImagePipelineOptions::dtype>("dtype"),
    option<&ImagePipelineOptions::layout>("layout"),
    option<&ImagePipelineOptions::augmentation, &Augmentation::colour_jitter>("colour_jitter"),
    option<&ImagePipelineOptions::augmentation, &Augmentation::rand_augment>("rand_augment"),
    option<&ImagePipelineOptions::augmentation, &Augmentation::erasing>("random_erasing"),
    option<&ImagePipelineOptions::augmentation, &Augmentation::mixing, &BatchMixing::mixup_alpha>("mixup_alpha"),
    option<&ImagePipelineOptions::augmentation, &Augmentation::mixing, &BatchMixing::cutmix_alpha>("cutmix_alpha"),
    option<&ImagePipelineOptions::augmentation, &Augmentation::mixing, &BatchMixing::cutmix_probability>(
        "cutmix_probability"),
    option<&ImagePipelineOptions::mean>("mean"),
    option<&ImagePipelineOptions::deviation>("deviation"),
};

constexpr Field<RecordsOptions> kRecords[] = {
    option<&RecordsOptions::rank>("rank"),
    option<&RecordsOptions::size>("size"),
    option<&RecordsOptions::shard_by_file>("shard_by_file"),
    option<&RecordsOptions::shuffle_files>("shuffle_files"),
    option<&RecordsOptions::shuffle_buffer>("shuffle_buffer"),
    option<&RecordsOptions::interleave, &InterleaveOptions::cycle_length>("cycle_length"),
    option<&RecordsOptions::interleave, &InterleaveOptions::block_length>("block_length"),
    option_as<ThreadsForm, &RecordsOptions::interleave, &InterleaveOptions::threads>("threads"),
    option<&RecordsOptions::interleave, &InterleaveOptions::processes>("processes"),
    option<&RecordsOptions::interleave, &InterleaveOptions::ahead>("ahead"),
    option<&RecordsOptions::seed>("seed"),
    option<&RecordsOptions::epochs>("epochs"),
    option<&RecordsOptions::reading, &RecordOptions::compression>("compression"),
    option<&RecordsOptions::reading, &RecordOptions::on_error>("on_error"),
    option<&RecordsOptions::reading, &RecordOptions::max_bad>("max_bad"),
    option_as<BytesForm, &RecordsOptions::reading, &RecordOptions::block_bytes>("block_bytes"),
};

template <class Object>
Status create(Object** options) {
  XOE_TRY(need(options, "options"));
  *options = new Object();
  return {};
}

template <class Object, class Fields>
Status set(Object* options, const char* key, const char* value, const Fields& fields, std::string_view what) {
  XOE_TRY(need(options, "options"));
  XOE_TRY(need(key, "key"));
  XOE_TRY(need(value, "value"));
  const std::lock_guard lock(options->mutex);
  return set_option(fields, what, options->options, key, value);
}

template <class Object, class Fields>
Status text_of(const Object* options, const Fields& fields, char** text) {
  XOE_TRY(need(options, "options"));
  const std::lock_guard lock(options->mutex);
  return copy_text(options_text(fields, options->options), text);
}

}  // namespace

}  // namespace xoe::capi

using namespace xoe::capi;  // NOLINT(google-build-using-namespace)

extern "C" {

xoe_status xoe_images_options_create(xoe_images_options** options) {
  return guard([&] { return create(options); });
}
xoe_status xoe_images_options_set(xoe_images_options* options, const char* key, const char* value) {
  return guard([&] { return set(options, key, value, kImages, "images"); });
}
xoe_status xoe_images_options_text(const xoe_images_options* options, char** text) {
  return guard([&] { return text_of(options, kImages, text); });
}
void xoe_images_options_free(xoe_images_options* options) { delete options; }

xoe_status xoe_records_options_create(xoe_records_options** options) {
  return guard([&] { return create(options); });
}
xoe_status xoe_records_options_set(xoe_records_options* options, const char* key, const char* value) {
  return guard([&] { return set(options, key, value, kRecords, "records"); });
}
xoe_status xoe_records_options_text(const xoe_records_options* options, char** text) {
  return guard([&] { return text_of(options, kRecords, text); });
}
void xoe_records_options_free(xoe_records_options* options) { delete options; }

}  // extern "C"
