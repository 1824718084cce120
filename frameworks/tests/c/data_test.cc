// The C interface of the input pipeline gives what the C++ one does, byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "core/testing/places.h"
#include "data/png/png.h"
#include "data/tests/record_files.h"
#include "data/tests/rendered_images.h"
#include "xoe/c_data.h"

namespace xoe::data::test {
namespace {

using ::testing::HasSubstr;

struct Freed {
  void operator()(xoe_images_options* options) const { xoe_images_options_free(options); }
  void operator()(xoe_images* images) const { xoe_images_close(images); }
  void operator()(xoe_image_batch* batch) const { xoe_image_batch_release(batch); }
  void operator()(xoe_records_options* options) const { xoe_records_options_free(options); }
  void operator()(xoe_records* records) const { xoe_records_close(records); }
  void operator()(xoe_record* record) const { xoe_record_release(record); }
  void operator()(char* text) const { xoe_text_free(text); }
};
template <class T>
using Owned = std::unique_ptr<T, Freed>;

// The object that a call gives out through its last argument.
template <class T>
Owned<T> given(auto&& call) {
  T* object = nullptr;
  EXPECT_EQ(call(&object), XOE_OK) << xoe_last_error();
  return Owned<T>(object);
}

using Choices = std::map<std::string, std::string>;

Choices in_words(const std::string& directory = rendered().path()) {
  return {{"directory", directory}, {"batch", "4"}, {"image_size", "16"},
          {"threads", "0"},         {"seed", "3"},  {"epochs", "2"}};
}

Owned<xoe_images> open_in_c(const Choices& choices) {
  const auto options = given<xoe_images_options>(xoe_images_options_create);
  for (const auto& [key, value] : choices)
    EXPECT_EQ(xoe_images_options_set(options.get(), key.c_str(), value.c_str()), XOE_OK) << xoe_last_error();
  return given<xoe_images>([&](auto** images) { return xoe_images_open(options.get(), images); });
}

Owned<xoe_image_batch> next_of(const Owned<xoe_images>& images) {
  return given<xoe_image_batch>([&](auto** batch) { return xoe_images_next(images.get(), batch); });
}

std::vector<std::int64_t> shape_of(const xoe_output& tensor) { return {tensor.shape, tensor.shape + tensor.ndim}; }

void expect_same(const xoe_image_batch& got, const ImageBatch& expected) {
  const std::int64_t n = expected.count;
  const std::int64_t c = expected.channels;
  const std::int64_t h = expected.height;
  const std::int64_t w = expected.width;
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shape_of(got.pixels), expected.layout == Layout::kNchw ? (Shape{n, c, h, w}) : (Shape{n, h, w, c}));
  EXPECT_EQ(got.pixels.dtype, static_cast<int>(expected.dtype));
  EXPECT_EQ(got.layout, static_cast<int>(expected.layout));
  EXPECT_EQ(got.count, expected.count);
  EXPECT_EQ(got.epoch, expected.epoch);
  EXPECT_EQ(got.index, expected.index);
  const std::size_t bytes = static_cast<std::size_t>(n * c * h * w) * dtype_size(expected.dtype);
  EXPECT_EQ(std::memcmp(got.pixels.data, expected.pixels.get(), bytes), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got.pixels.data) % 64, 0U);
  if (expected.targets.empty() || !expected.labels.empty()) {
    EXPECT_EQ(shape_of(got.labels), (Shape{n}));
    EXPECT_EQ(got.labels.dtype, XOE_INT64);
    EXPECT_EQ(std::memcmp(got.labels.data, expected.labels.data(), static_cast<std::size_t>(n) * 8), 0);
  } else {
    EXPECT_EQ(got.labels.ndim, 0);
    EXPECT_EQ(got.labels.data, nullptr);
  }
  if (expected.targets.empty()) {
    EXPECT_EQ(got.targets.ndim, 0);
    EXPECT_EQ(got.targets.data, nullptr);
  } else {
    EXPECT_EQ(shape_of(got.targets), (Shape{n, static_cast<std::int64_t>(expected.targets.size()) / n}));
    EXPECT_EQ(got.targets.dtype, XOE_FLOAT32);
    EXPECT_EQ(std::memcmp(got.targets.data, expected.targets.data(), expected.targets.size() * 4), 0);
  }
}

void expect_same(const Choices& choices, const ImagePipelineOptions& options) {
  const auto images = open_in_c(choices);
  const auto expected = open_images(options).value();
  int batches = 0;
  for (;; ++batches) {
    const auto got = next_of(images);
    const auto wanted = expected->next().value();
    ASSERT_EQ(got == nullptr, !wanted);
    if (!wanted) break;
    expect_same(*got, *wanted);
  }
  EXPECT_GT(batches, 0);
}

TEST(CData, BatchesAreThoseOfCpp) {
  expect_same(in_words(), small());
  for (const DType dtype : {DType::kUint8, DType::kFloat16, DType::kBfloat16}) {
    auto choices = in_words();
    choices["dtype"] = dtype_name(dtype);
    choices["layout"] = "nhwc";
    choices["quality"] = "fast";
    choices["threads"] = "3";
    auto options = small();
    options.dtype = dtype;
    options.layout = Layout::kNhwc;
    options.quality = Quality::kFast;
    expect_same(choices, options);
  }
}

// Every option that changes what is delivered, each for itself.
TEST(CData, OptionsReachThePipeline) {
  using Options = ImagePipelineOptions;
  const std::vector<std::tuple<Choices, void (*)(Options&)>> changes = {
      {{{"format", "tfrecord"}, {"pattern", "train-*1-of-*"}}, [](Options& o) { o.pattern = "train-*1-of-*"; }},
      {{{"rank", "1"}, {"size", "2"}}, [](Options& o) { o.rank = 1, o.size = 2; }},
      {{{"rank", "1"}, {"size", "2"}, {"shard_by_file", "true"}},
       [](Options& o) { o.rank = 1, o.size = 2, o.shard_by_file = true; }},
      {{{"shuffle_buffer", "5"}}, [](Options& o) { o.shuffle_buffer = 5; }},
      {{{"training", "0"}}, [](Options& o) { o.training = false; }},
      {{{"remainder", "pad"}}, [](Options& o) { o.remainder = Remainder::kPad; }},
      {{{"whole", "true"}}, [](Options& o) { o.whole = true; }},
      {{{"flip", "0"}}, [](Options& o) { o.flip = false; }},
      {{{"min_area", "0.9"}}, [](Options& o) { o.min_area = 0.9; }},
      {{{"image_size", "16x24"}}, [](Options& o) { o.image_size = ImageSize(16, 24); }},
      {{{"interpolation", "bicubic"}}, [](Options& o) { o.pixels.interpolation = Interpolation::kBicubic; }},
      {{{"antialias", "false"}}, [](Options& o) { o.pixels.antialias = false; }},
      {{{"label_offset", "0"}, {"classes", "6"}}, [](Options& o) { o.label_offset = 0, o.classes = 6; }},
      {{{"mean", "0,0.5,1"}, {"deviation", "1,2,3"}},
       [](Options& o) {
         o.mean = {0, 0.5F, 1}, o.deviation = {1, 2, 3};
       }},
      {{{"colour_jitter", "0.4,0.3,0.2,0.1"}},
       [](Options& o) {
         o.augmentation.colour_jitter = ColourJitter{0.4, 0.3, 0.2, 0.1};
       }},
      {{{"rand_augment", "3,7,20"}},
       [](Options& o) {
         o.augmentation.rand_augment = RandAugment{3, 7, 20};
       }},
      {{{"random_erasing", "0.9,0.1,0.2,0.5,2,noise"}},
       [](Options& o) {
         o.augmentation.erasing = RandomErasing{0.9, {0.1, 0.2}, {0.5, 2}, true, 0};
       }},
      {{{"random_erasing", "1,0.1,0.2,0.5,2,0.5"}},
       [](Options& o) {
         o.augmentation.erasing = RandomErasing{1, {0.1, 0.2}, {0.5, 2}, false, 0.5F};
       }},
      {{{"mixup_alpha", "0.2"}, {"cutmix_alpha", "1"}, {"cutmix_probability", "0.4"}},
       [](Options& o) {
         o.augmentation.mixing = {0.2, 1, 0.4};
       }},
      {{{"threads", "auto"}, {"memory_budget", "1M"}, {"processes", "2"}, {"prefetch", "3"}}, [](Options&) {}},
  };
  for (const auto& [extra, change] : changes) {
    auto choices = in_words();
    for (const auto& [key, value] : extra) choices[key] = value;
    auto options = small();
    change(options);
    SCOPED_TRACE(extra.begin()->first);
    expect_same(choices, options);
  }
}

TEST(CData, SeveralClassesAreTargets) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.file("images"));
  std::string table = "Image Index,Finding Labels,Follow-up #,Patient ID\n";
  std::string listed;
  const std::vector<std::string> findings = {"No Finding", "Cardiomegaly", "Cardiomegaly|Effusion", "Hernia"};
  const std::vector<std::uint8_t> grey(std::size_t{20} * 20, 90);
  const std::string png = encode_png({.width = 20, .height = 20, .colour = PngColour::kGrey, .samples = grey}).value();
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const std::string name = "0000000" + std::to_string(i) + "_000.png";
    put_file(scratch.file("images/" + name), png);
    table += name + "," + findings[i] + ",0,1\n";
    listed += name + "\n";
  }
  put_file(scratch.file("Data_Entry_2017.csv"), table);
  put_file(scratch.file("train_val_list.txt"), listed);
  expect_same(in_words(scratch.path()), small(scratch.path()));
  xoe_images_facts facts;
  xoe_images_facts_init(&facts, sizeof(facts));
  ASSERT_EQ(xoe_images_facts_of(open_in_c(in_words(scratch.path())).get(), &facts), XOE_OK);
  EXPECT_EQ(facts.multi_label, 1);
  EXPECT_EQ(facts.classes, 14);
}

TEST(CData, OriginsAreThoseOfCpp) {
  const auto images = open_in_c(in_words());
  const auto expected = open_images(small()).value();
  const auto got = next_of(images);
  const auto wanted = expected->next().value();
  ASSERT_EQ(shape_of(got->records), std::vector<std::int64_t>{wanted->count});
  EXPECT_EQ(std::memcmp(got->records.data, wanted->records.data(), wanted->records.size() * 8), 0);
  for (int i = 0; i < wanted->count; ++i) {
    std::int64_t record = -1;
    char* file = nullptr;
    char* name = nullptr;
    ASSERT_EQ(xoe_image_batch_origin(got.get(), i, &file, &record, &name), XOE_OK);
    EXPECT_EQ(file, wanted->origin(i).file);
    EXPECT_EQ(name, wanted->origin(i).name);
    EXPECT_EQ(record, wanted->origin(i).record);
    xoe_text_free(file);
    xoe_text_free(name);
  }
  EXPECT_EQ(xoe_image_batch_origin(got.get(), 0, nullptr, nullptr, nullptr), XOE_OK);
  for (const int image : {-1, wanted->count})
    EXPECT_EQ(xoe_image_batch_origin(got.get(), image, nullptr, nullptr, nullptr), XOE_INVALID_ARGUMENT);
}

// Only facts that need them read the records.
TEST(CData, BatchesAreCountedWithoutReading) {
  const Damaged damaged({3});
  std::filesystem::remove(damaged.directory() + "/labels.txt");
  const auto images = open_in_c(in_words(damaged.directory()));
  std::int64_t batches = 0;
  ASSERT_EQ(xoe_images_batches_per_epoch(images.get(), &batches), XOE_OK) << xoe_last_error();
  EXPECT_EQ(batches, kImages / 4);
  xoe_images_facts facts;
  xoe_images_facts_init(&facts, sizeof(facts));
  EXPECT_EQ(xoe_images_facts_of(images.get(), &facts), XOE_DATA_LOSS);
  EXPECT_THAT(xoe_last_error(), HasSubstr(damaged.name(3)));
}

// A position of one interface is one of the other.
TEST(CData, PositionsAreThoseOfCpp) {
  const auto images = open_in_c(in_words());
  for (int i = 0; i < 7; ++i) next_of(images);
  const auto text = given<char>([&](auto** to) { return xoe_images_save(images.get(), to); });
  const auto expected = open_images(small()).value();
  ASSERT_TRUE(expected->restore(State::from_text(text.get()).value()));
  expect_same(*next_of(images), **expected->next());
}

TEST(CData, DamageIsNamedOrCounted) {
  const Damaged damaged({5});
  auto choices = in_words(damaged.directory());
  const auto failing = open_in_c(choices);
  xoe_status status = XOE_OK;
  xoe_image_batch* batch = nullptr;
  while ((status = xoe_images_next(failing.get(), &batch)) == XOE_OK && batch != nullptr)
    xoe_image_batch_release(batch);
  EXPECT_EQ(status, XOE_DATA_LOSS);
  EXPECT_THAT(xoe_last_error(), HasSubstr(damaged.name(5)));
  choices["on_error"] = "skip";
  choices["max_bad"] = "1";
  const auto skipping = open_in_c(choices);
  while (next_of(skipping) != nullptr) continue;
  xoe_images_facts facts;
  xoe_images_facts_init(&facts, sizeof(facts));
  ASSERT_EQ(xoe_images_facts_of(skipping.get(), &facts), XOE_OK);
  EXPECT_EQ(facts.skipped, 2) << "once in each epoch";
}

// After the opening, warnings wait until they are asked for, and the function that opening was given is not called.
TEST(CData, BadImagesAreToldOfWhenAsked) {
  const Damaged damaged({5});
  auto choices = in_words(damaged.directory());
  choices["max_bad"] = "1";
  const auto options = given<xoe_images_options>(xoe_images_options_create);
  for (const auto& [key, value] : choices)
    ASSERT_EQ(xoe_images_options_set(options.get(), key.c_str(), value.c_str()), XOE_OK);
  auto lines = std::make_unique<std::vector<std::string>>();
  const auto keep = [](void* user, const char* line) { static_cast<std::vector<std::string>*>(user)->push_back(line); };
  ASSERT_EQ(xoe_images_options_warn(options.get(), keep, lines.get()), XOE_OK);
  const auto images = given<xoe_images>([&](auto** to) { return xoe_images_open(options.get(), to); });
  EXPECT_TRUE(lines->empty());
  lines.reset();
  const auto told = [&images] {
    return std::string(given<char>([&](auto** to) { return xoe_images_warnings(images.get(), to); }).get());
  };
  EXPECT_EQ(told(), "");
  while (next_of(images) != nullptr) continue;
  EXPECT_THAT(told(),
              ::testing::AllOf(HasSubstr("1 bad image left out: " + damaged.name(5)), ::testing::EndsWith("\n")));
  EXPECT_EQ(told(), "");
}

// ---- Records

Owned<xoe_records> open_records(const std::vector<std::string>& patterns, const Choices& choices) {
  const auto options = given<xoe_records_options>(xoe_records_options_create);
  for (const auto& [key, value] : choices)
    EXPECT_EQ(xoe_records_options_set(options.get(), key.c_str(), value.c_str()), XOE_OK) << xoe_last_error();
  std::vector<const char*> names;
  for (const std::string& pattern : patterns) names.push_back(pattern.c_str());
  return given<xoe_records>(
      [&](auto** records) { return xoe_records_open(names.data(), names.size(), options.get(), records); });
}

Owned<xoe_record> next_of(const Owned<xoe_records>& records) {
  return given<xoe_record>([&](auto** record) { return xoe_records_next(records.get(), record); });
}

std::vector<std::string> drain(const Owned<xoe_records>& records) {
  std::vector<std::string> all;
  while (const auto record = next_of(records)) all.emplace_back(static_cast<const char*>(record->data), record->size);
  return all;
}

// Five files, part-1 to part-5, with 7, 14, 21, 28 and 35 records; all records in the files' order.
std::vector<std::string> five_files(const Scratch& scratch) {
  std::vector<std::string> all;
  for (std::size_t file = 1; file <= 5; ++file) {
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < 7 * file; ++i) sizes.push_back(20 * (file + 1) + i);
    for (std::string& record : write_records(scratch.file("part-" + std::to_string(file)), sizes))
      all.push_back(std::move(record));
  }
  return all;
}

TEST(CRecords, ComeInOrderWithTheirPlaces) {
  const Scratch scratch;
  const auto expected = five_files(scratch);
  const std::vector<std::string> patterns = {scratch.file("part-[1-2]"), scratch.file("part-*")};
  EXPECT_EQ(drain(open_records(patterns, {{"epochs", "1"}})), expected);
  const auto records = open_records(patterns, {{"epochs", "1"}});
  const auto first = next_of(records);
  const auto second = next_of(records);
  EXPECT_EQ(second->file, scratch.file("part-1"));
  EXPECT_EQ(second->number, 1);
  EXPECT_EQ(second->offset, first->size + 16);
}

TEST(CRecords, EveryShardingGivesEachRecordOnce) {
  const Scratch scratch;
  auto expected = five_files(scratch);
  std::sort(expected.begin(), expected.end());
  for (const bool by_file : {true, false})
    for (const int size : {1, 2, 3, 7}) {
      if (by_file && size > 5) continue;
      std::vector<std::string> all;
      for (int rank = 0; rank < size; ++rank)
        for (std::string& record :
             drain(open_records({scratch.file("part-[1-5]")}, {{"epochs", "1"},
                                                               {"rank", std::to_string(rank)},
                                                               {"size", std::to_string(size)},
                                                               {"shard_by_file", by_file ? "1" : "0"},
                                                               {"shuffle_files", "1"},
                                                               {"cycle_length", "2"},
                                                               {"threads", rank == 0   ? "0"
                                                                           : rank == 1 ? "2"
                                                                                       : "auto"},
                                                               {"shuffle_buffer", "9"},
                                                               {"seed", "5"}})))
          all.push_back(std::move(record));
      std::sort(all.begin(), all.end());
      EXPECT_EQ(all, expected) << by_file << " " << size;
    }
}

TEST(CRecords, ResumeFromEveryPosition) {
  const Scratch scratch;
  five_files(scratch);
  for (const char* buffer : {"0", "10"}) {
    const Choices choices = {{"epochs", "2"},       {"shuffle_files", "1"},    {"cycle_length", "3"},
                             {"block_length", "2"}, {"threads", "1"},          {"seed", "8"},
                             {"block_bytes", "64"}, {"shuffle_buffer", buffer}};
    const auto open = [&] { return open_records({scratch.file("part-*")}, choices); };
    const auto expected = drain(open());
    ASSERT_EQ(expected.size(), 210U);
    for (std::size_t at = 0; at <= expected.size(); at += 13) {
      const auto first = open();
      for (std::size_t i = 0; i < at; ++i) next_of(first);
      const auto text = given<char>([&](auto** to) { return xoe_records_save(first.get(), to); });
      const auto second = open();
      ASSERT_EQ(xoe_records_restore(second.get(), text.get()), XOE_OK) << xoe_last_error();
      EXPECT_EQ(drain(second), std::vector(expected.begin() + static_cast<std::ptrdiff_t>(at), expected.end()));
    }
  }
}

TEST(CRecords, RefuseWhatCannotBe) {
  const Scratch scratch;
  five_files(scratch);
  const auto few = open_records({scratch.file("part-[12]")}, {});
  const auto text = given<char>([&](auto** to) { return xoe_records_save(few.get(), to); });
  const auto all = open_records({scratch.file("part-*")}, {});
  EXPECT_EQ(xoe_records_restore(all.get(), text.get()), XOE_INVALID_ARGUMENT);
  EXPECT_THAT(xoe_last_error(), HasSubstr("of 2 files; here are 5"));
  const auto options = given<xoe_records_options>(xoe_records_options_create);
  const std::string pattern = scratch.file("part-*");
  const char* const patterns[] = {pattern.c_str()};
  xoe_records* records = nullptr;
  ASSERT_EQ(xoe_records_options_set(options.get(), "size", "6"), XOE_OK);
  EXPECT_EQ(xoe_records_open(patterns, 1, options.get(), &records), XOE_INVALID_ARGUMENT);
  EXPECT_THAT(xoe_last_error(), HasSubstr("5 files are too few for 6 ranks"));
  for (const auto& [key, value] : Choices{{"rank", "6"},
                                          {"cycle_length", "0"},
                                          {"ahead", "0"},
                                          {"processes", "0"},
                                          {"threads", "-2"},
                                          {"block_bytes", "0"}}) {
    const auto fresh = given<xoe_records_options>(xoe_records_options_create);
    ASSERT_EQ(xoe_records_options_set(fresh.get(), key.c_str(), value.c_str()), XOE_OK);
    EXPECT_EQ(xoe_records_open(patterns, 1, fresh.get(), &records), XOE_INVALID_ARGUMENT) << key;
    EXPECT_THAT(xoe_last_error(), HasSubstr(key));
  }
}

// Records and images: an error that says how to go on, and the option that does.
TEST(CData, MissingFilesAreErrorsUnlessAllowed) {
  const Scratch scratch;
  std::filesystem::copy(rendered().path(), scratch.path(), std::filesystem::copy_options::recursive);
  std::string removed;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path()))
    if (entry.path().filename().string().starts_with("train-")) removed = std::max(removed, entry.path().string());
  std::filesystem::remove(removed);
  const auto options = given<xoe_images_options>(xoe_images_options_create);
  for (const auto& [key, value] : in_words(scratch.path()))
    ASSERT_EQ(xoe_images_options_set(options.get(), key.c_str(), value.c_str()), XOE_OK);
  xoe_images* images = nullptr;
  EXPECT_EQ(xoe_images_open(options.get(), &images), XOE_DATA_LOSS);
  EXPECT_THAT(xoe_last_error(), HasSubstr(removed + ": absent"));
  ASSERT_EQ(xoe_images_options_set(options.get(), "allow_missing", "1"), XOE_OK);
  std::vector<std::string> lines;
  const auto keep = [](void* user, const char* line) { static_cast<std::vector<std::string>*>(user)->push_back(line); };
  ASSERT_EQ(xoe_images_options_warn(options.get(), keep, &lines), XOE_OK);
  const auto opened = given<xoe_images>([&](auto** to) { return xoe_images_open(options.get(), to); });
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr(removed + ": absent"));
  xoe_images_facts facts;
  xoe_images_facts_init(&facts, sizeof(facts));
  ASSERT_EQ(xoe_images_facts_of(opened.get(), &facts), XOE_OK);
  EXPECT_EQ(facts.missing, 1);

  const std::string pattern = scratch.file("train-*");
  const char* const patterns[] = {pattern.c_str()};
  xoe_records* records = nullptr;
  EXPECT_EQ(xoe_records_open(patterns, 1, nullptr, &records), XOE_DATA_LOSS);
  EXPECT_THAT(xoe_last_error(), HasSubstr(removed + ": absent"));
  const auto left = open_records({pattern}, {{"allow_missing", "1"}, {"epochs", "1"}});
  EXPECT_FALSE(drain(left).empty());
  const auto json = given<char>([&](auto** to) { return xoe_records_report(left.get(), to); });
  EXPECT_THAT(json.get(), HasSubstr(R"("missing":1,"missing_files":[")" + removed + ": absent"));
}

TEST(CRecords, DamageIsNamedOrCounted) {
  const Scratch scratch;
  write_records(scratch.file("part"), {40, 40, 40});
  std::string bytes = read_file(scratch.file("part"));
  bytes[(40 + 16) + 12 + 5] ^= 1;
  put_file(scratch.file("part"), bytes);
  const auto failing = open_records({scratch.file("part")}, {});
  EXPECT_NE(next_of(failing), nullptr);
  for (int i = 0; i < 2; ++i) {
    xoe_record* record = nullptr;
    EXPECT_EQ(xoe_records_next(failing.get(), &record), XOE_DATA_LOSS);
    EXPECT_THAT(xoe_last_error(), HasSubstr(scratch.file("part") + ": record 1 at byte 56"));
  }
  const auto skipping = open_records({scratch.file("part")}, {{"on_error", "skip"}, {"epochs", "1"}});
  EXPECT_EQ(drain(skipping).size(), 2U);
  const auto json = given<char>([&](auto** to) { return xoe_records_report(skipping.get(), to); });
  EXPECT_THAT(json.get(), HasSubstr(R"("files":1,"records":2,"bad":1,"messages":[")"));
}

// Over all files of an epoch, and by itself.
TEST(CRecords, TheLimitIsOfAnEpoch) {
  const Scratch scratch;
  for (const char* name : {"part-1", "part-2", "part-3"}) {
    write_records(scratch.file(name), {40, 40, 40});
    std::string bytes = read_file(scratch.file(name));
    bytes[(40 + 16) + 12 + 5] ^= 1;
    put_file(scratch.file(name), bytes);
  }
  const auto read = [&scratch](const std::string& most) {
    const auto records = open_records({scratch.file("part-*")}, {{"max_bad", most}, {"epochs", "2"}});
    for (;;) {
      xoe_record* record = nullptr;
      if (xoe_records_next(records.get(), &record) != XOE_OK) return std::string(xoe_last_error());
      if (record == nullptr) return std::string();
      xoe_record_release(record);
    }
  };
  EXPECT_EQ(read("3"), "");
  EXPECT_THAT(read("2"), ::testing::AllOf(HasSubstr("3 bad records in epoch 0, more than the 2 allowed by max_bad"),
                                          HasSubstr(scratch.file("part-1") + ": record 1")));
}

// The program in C, over the rendered files.
TEST(CData, TheProgramInCPasses) {
  const std::string program = built_file("data_c_test");
  const std::string directory = rendered().path();
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl(program.c_str(), program.c_str(), directory.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace xoe::data::test
