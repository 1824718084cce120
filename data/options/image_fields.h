// The options of the image pipeline as a table: names, ranges, and what each means to people. The C interface, Python,
// the help, the reference and the checks of open_images() come from it.
#pragma once

#include <tuple>

#include "core/describe/field.h"
#include "data/options/forms.h"
#include "xoe/data/images.h"

namespace xoe::data {

constexpr auto fields_of(const PixelOptions*) {
  using O = PixelOptions;
  using describe::field;
  return std::tuple(field<&O::interpolation>("interpolation", {.what = "how images are resized", .option = true}),
                    field<&O::antialias>(
                        "antialias", {.what = "an image that shrinks is an average over all its pixels, as torchvision "
                                              "makes it; false: it keeps only those near each pixel of the result",
                                      .option = true}),
                    field<&O::exif_orientation>("exif_orientation",
                                                {.what = "JPEGs are turned as their EXIF data say", .option = true}),
                    field<&O::max_pixels>("max_pixels", {.what = "of an image; a larger one counts as bad",
                                                         .least = 1,
                                                         .most = static_cast<double>(std::int64_t{1} << 40),
                                                         .option = true}));
}

namespace image_options {

using O = ImagePipelineOptions;
using describe::field;
inline constexpr double kMany = 1024;

constexpr auto which_images() {
  return std::tuple(
      field<&O::directory>(
          "directory",
          {.what = "with TFRecord files, a folder for each class, NIH ChestX-ray14, MNIST or tar files, or "
                   "one file of records",
           .group = "Which images"}),
      field<&O::format>("format", {.what = "auto: what the directory holds"}),
      field<&O::pattern>("pattern", {.what = "of file names, with * and ?, for TFRecord and tar; empty: train-*, "
                                             "validation-* and the like"}),
      field<&O::training>("training",
                          {.what = "images are shuffled, cropped and flipped at random; false: they come in "
                                   "the order of the files, and the centre is cropped"}),
      field<&O::split>("split", {.what = "auto: train when training, else validation; test is a part of ChestX-ray14"}),
      field<&O::validation_share>(
          "validation_share",
          {.what =
               "ChestX-ray14 alone: the share of the patients of train_val_list.txt whose images are the validation "
               "split, the same for every seed; 0: test_list.txt is",
           .least = 0,
           .below = 1}),
      field<&O::rank>("rank", {.what = "this rank, below size", .least = 0}),
      field<&O::size>("size", {.what = "ranks that share the images", .least = 1}),
      field<&O::seed>("seed", {.what = "of the order and of random changes"}),
      field<&O::shuffle_buffer>(
          "shuffle_buffer",
          {.what = "records to draw from; auto: all of them where each can be read by itself, else 10000",
           .least = 0,
           .automatic = kAutoShuffle}),
      field<&O::shard_by_file>("shard_by_file",
                               {.what = "each rank reads files of its own, as far as equal shares allow"}),
      field<&O::epochs>("epochs", {.what = "after which the sequence ends; 0: never", .least = 0}),
      field<&O::remainder>("remainder",
                           {.what = "records of an epoch that fill no batch on all ranks: drop (auto, when "
                                    "training), pad from the epoch's beginning, or keep as shorter batches "
                                    "(auto, when not)"}),
      field<&O::allow_missing>("allow_missing",
                               {.what = "files that should be there and are not are left out, with a warning"}),
      field<&O::on_error>("on_error", {.what = "skip: as max_bad=100"}),
      field<&O::max_bad>("max_bad",
                         {.what = "images of an epoch and rank that cannot be read and are left out; auto: 0, "
                                  "with on_error=skip 100",
                          .least = 0,
                          .automatic = kAutoBad}));
}

constexpr auto labels() {
  return std::tuple(
      field<&O::label_offset>("label_offset", {.what = "the label stored for class 0; auto: 1 in TFRecord files (told "
                                                       "where it is not certain), else 0",
                                               .automatic = kAutoLabelOffset,
                                               .group = "Labels"}),
      field<&O::image_key>("image_key", {.what = "the feature of TFRecords that has the image"}),
      field<&O::label_key>("label_key", {.what = "the feature of TFRecords that has the label"}),
      field<&O::multi_label>("multi_label", {.what = "the label feature lists several classes: batches have targets"}),
      field<&O::classes>("classes",
                         {.what = "number of classes; 0: from names or labels.txt, else not known until they are "
                                  "counted",
                          .least = 0}));
}

constexpr auto pixels() {
  return std::tuple_cat(
      std::tuple(field<&O::batch>(
                     "batch", {.what = "images of a rank in a batch", .least = 1, .most = 1 << 20, .group = "Pixels"}),
                 field<&O::joint_batch>("joint_batch",
                                        {.what = "images of all ranks in a batch, which share them out as evenly as "
                                                 "they can; 0: size times batch",
                                         .least = 0,
                                         .most = 1 << 30}),
                 field<&O::shards>("shards", {.what = "logical shards of `batch` images that a batch of all ranks "
                                                      "consists of, for any number of ranks; 0: none",
                                              .least = 0,
                                              .most = 1 << 20}),
                 field<&O::image_size>("image_size", {.what = "height and width of what is delivered: 224, or 192x256",
                                                      .placeholder = "SIZE"}),
                 field<&O::whole>("whole",
                                  {.what = "the whole image becomes image_size, in training and evaluation: no crop"})),
      describe::fields_below<&O::pixels>(),
      std::tuple(field<&O::quality>("quality", {.what = "fast: 8 % less CPU time, 0.34 of 255 levels off on average"}),
                 field<&O::dtype>("dtype", {.what = "uint8 is 0 to 255, not normalised"}),
                 field<&O::layout>("layout", {.what = "nhwc: channels last"}),
                 field<&O::mean>("mean", {.what = "of red, green and blue, of values within 0 to 1"}),
                 field<&O::deviation>("deviation", {.what = "of red, green and blue, as mean"})));
}

constexpr auto random_changes() {
  return std::tuple(
      field<&O::min_area>("min_area", {.what = "the share of the image that a crop covers at least",
                                       .most = 1,
                                       .above = 0,
                                       .group = "Random changes, in training alone"}),
      field<&O::flip>("flip", {.what = "images are mirrored with probability 1/2"}),
      field<&O::augmentation, &Augmentation::colour_jitter>("colour_jitter"),
      field<&O::augmentation, &Augmentation::rand_augment>("rand_augment"),
      field<&O::augmentation, &Augmentation::erasing>("random_erasing"),
      field<&O::augmentation, &Augmentation::mixing, &BatchMixing::mixup_alpha>(
          "mixup_alpha",
          {.what = "of mixup; 0: never. Batches have targets then; where the files do not tell the number "
                   "of classes and `classes` does not, each rank reads every record for it at opening"}),
      field<&O::augmentation, &Augmentation::mixing, &BatchMixing::cutmix_alpha>("cutmix_alpha",
                                                                                 {.what = "the same of CutMix"}),
      field<&O::augmentation, &Augmentation::mixing, &BatchMixing::cutmix_probability>(
          "cutmix_probability", {.what = "of CutMix for a batch, where both may be"}));
}

constexpr auto work() {
  return std::tuple(
      field<&O::threads>("threads",
                         {.what = "that decode; auto: as many as needed, up to this rank's share of the host's "
                                  "CPUs; 0: the caller does the work",
                          .least = 0,
                          .most = kMany,
                          .automatic = kAutoThreads,
                          .group = "Work"}),
      field<&O::processes>("processes", {.what = "ranks of this host, which share its CPUs", .least = 1}),
      field<&O::prefetch>("prefetch",
                          {.what = "batches made ahead; with threads=auto the least", .least = 0, .most = kMany}),
      field<&O::memory_budget>("memory_budget",
                               {.what = "of batches ahead with threads=auto; 0: 1 GiB", .is_bytes = true}));
}

}  // namespace image_options

constexpr auto fields_of(const ImagePipelineOptions*) {
  using namespace image_options;  // NOLINT(google-build-using-namespace)
  return std::tuple_cat(which_images(), labels(), pixels(), random_changes(), work());
}

}  // namespace xoe::data
