// Files of weights, as other programs write and read them.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/bytes.h"
#include "train/tests/folder_test.h"
#include "train/trainer/checkpoint_file.h"
#include "train/trainer/exported_file.h"
#include "train/trainer/files.h"
#include "train/trainer/run_folder.h"
#include "train/trainer/safetensors.h"
#include "train/trainer/state_dict.h"

namespace xoe::train {
namespace {

TEST(Safetensors, AHeaderSaysWhereEachTensorIs) {
  const std::vector<SafeTensor> tensors = {{"a.weight", "F32", {2, 3}, 24}, {"count", "I64", {}, 8}};
  const std::string header = safetensors_header(tensors, {{"format", "pt"}}).value();
  const std::string text =
      R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("count":{"dtype":"I64","shape":[],"data_offsets":[24,32]}})";
  ASSERT_EQ(header.size() % 8, 0U);
  EXPECT_EQ(static_cast<std::size_t>(static_cast<unsigned char>(header[0])), header.size() - 8);
  EXPECT_TRUE(std::string_view(header).substr(8).starts_with(text)) << header;
  EXPECT_EQ(header.find_first_not_of(' ', 8 + text.size()), std::string::npos);
  EXPECT_EQ(safetensors_header({}, {}).value().substr(8), "{}      ");
}

TEST(Safetensors, AHeaderThatCannotBeRightIsRefused) {
  for (const SafeTensor& wrong : {SafeTensor{"a", "F32", {2, 3}, 20}, SafeTensor{"a", "F33", {1}, 4},
                                  SafeTensor{"a", "F32", {-1}, 0}, SafeTensor{"__metadata__", "U8", {1}, 1},
                                  SafeTensor{"a", "F64", {std::int64_t{1} << 40, std::int64_t{1} << 40}, 0}}) {
    const std::vector<SafeTensor> one = {wrong};
    const auto header = safetensors_header(one, {});
    ASSERT_FALSE(header);
    EXPECT_EQ(header.error().code(), Code::kInvalidArgument);
    EXPECT_NE(header.error().message().find(wrong.name), std::string::npos);
  }
  const std::vector<SafeTensor> twice = {{"a", "U8", {1}, 1}, {"a", "U8", {1}, 1}};
  EXPECT_FALSE(safetensors_header(twice, {}));
}

TEST(Safetensors, AHeaderIsReadAgain) {
  const std::vector<SafeTensor> tensors = {
      {"b.weight", "F32", {2, 3}, 24}, {"a", "I64", {}, 8}, {"none", "F64", {0}, 0}};
  const std::string header = safetensors_header(tensors, {{"format", "pt"}}).value();
  const auto read = parse_safetensors_header(header + std::string(32, 'x')).value();
  EXPECT_EQ(read.bytes, header.size());
  ASSERT_EQ(read.tensors.size(), 3U);
  EXPECT_EQ(read.tensors[0].name, "b.weight");
  EXPECT_EQ(read.tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(read.tensors[1].dtype, "I64");
  EXPECT_EQ(read.tensors[2].name, "none");
}

TEST(Safetensors, ADamagedFileIsRefused) {
  const auto file = [](std::string json, std::size_t bytes) {
    std::string text;
    append_little<std::uint64_t>(text, json.size());
    return text + json + std::string(bytes, 'x');
  };
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  ASSERT_TRUE(parse_safetensors_header(file(good, 8)));
  for (
      const std::string& bad :
      {std::string("1234567"), std::string(8, '\xff'), file(good, 7), file(good, 9), file("[]", 0), file("{", 0),
       file(good, 8).substr(0, 30), file(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8),
       file(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
       file(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
       file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
       file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})", 16),
       file(
           R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
           8),
       file(R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", 8), file(R"({"a":8})", 8)}) {
    const auto read = parse_safetensors_header(bad);
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error().code(), Code::kDataLoss);
  }
}

// {"w": tensor} as Python's pickle writes it, of a storage of `elements` floats.
std::string pickled(std::string_view shape, std::string_view strides, char elements,
                    std::string_view offset = "K\x01") {
  using std::string_literals::operator""s;
  return "\x80\x02}(X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"s +
         "X\x01\0\0\0"s + "0" + "X\x03\0\0\0"s + "cpuK" + elements + "tQ" + std::string(offset) + std::string(shape) +
         std::string(strides) + "\x89" + "ccollections\nOrderedDict\n)RtRu.";
}

TEST(StateDict, TensorsAreReadAndBoundsChecked) {
  const auto read = parse_state_dict(pickled("K\x02K\x03\x86", "K\x03K\x01\x86", 7));
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), 1U);
  const StoredTensor& tensor = read->front();
  EXPECT_EQ(tensor.name, "w");
  EXPECT_EQ(tensor.dtype, "F32");
  EXPECT_EQ(tensor.record, "0");
  EXPECT_EQ(tensor.offset, 1);
  EXPECT_EQ(tensor.storage_elements, 7);
  EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(tensor.strides, (std::vector<std::int64_t>{3, 1}));
  for (const auto& bad : {pickled("K\x02K\x03\x86", "K\x03K\x01\x86", 6),              // one element too many
                          pickled("K\x02K\x03\x86", "K\x04K\x01\x86", 7),              // the last one beyond
                          pickled("K\xffK\x03\x86", std::string("K\0K\0\x86", 5), 7),  // many from few
                          pickled("J\xff\xff\xff\xff\x85", "K\x01\x85", 7),            // a negative size
                          pickled("K\x02\x85", "K\x01\x85", 7, "J\xff\xff\xff\xff"), pickled("K\x02\x85", ")", 7)}) {
    const auto refused = parse_state_dict(bad);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kDataLoss);
    EXPECT_NE(refused.error().message().find("beyond its bytes"), std::string::npos) << refused.error().message();
  }
}

// An ordered dictionary of these pairs as Python 2's pickle writes it, with a tensor t whose hooks are such a
// dictionary.
std::string pickled_by_python_2(const std::string& pairs) {
  return "\x80\x02"
         "ccollections\nOrderedDict\nq\x01]q\x02" +
         pairs + "\x85R}U\x09_metadataNsb.";
}
const std::string kTensorOfPython2 =
    "ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\nU\x01"
    "0U\x03"
    "cpuK\x07NtQK\x01K\x02K\x03\x86K\x03K\x01"
    "\x86\x89h\x01]\x85RtR";

TEST(StateDict, OrderedDictionariesOfPython2AreRead) {
  const std::string both = "(](U\x01v" + kTensorOfPython2 + "e](U\x01w" + kTensorOfPython2 + "ee";
  const auto read = parse_state_dict(pickled_by_python_2(both));
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ(read->at(0).name, "v");
  EXPECT_EQ(read->at(1).name, "w");
  EXPECT_EQ(read->at(1).shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(read->at(1).storage_elements, 7);
  // One pair is appended alone; a pair may be a tuple.
  const auto one = parse_state_dict(pickled_by_python_2("U\x01w" + kTensorOfPython2 +
                                                        "\x86"
                                                        "a"));
  ASSERT_TRUE(one) << one.error().message();
  EXPECT_EQ(one->size(), 1U);
  EXPECT_TRUE(parse_state_dict(pickled_by_python_2("")).value().empty());
  for (const std::string wrong : {"K\x01"
                                  "a",
                                  "](U\x01we"
                                  "a",
                                  "](U\x01wNNe"
                                  "a"}) {
    const auto refused = parse_state_dict(pickled_by_python_2(wrong));
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().code(), Code::kDataLoss);
  }
  const auto number = parse_state_dict("ccollections\nOrderedDict\nK\x01\x85R.");
  EXPECT_FALSE(number);
}

TEST(StateDict, ASmallFileMakesFewValues) {
  const auto message = [](const std::string& pickle) {
    const auto read = parse_state_dict(pickle);
    return read ? std::string() : read.error().message();
  };
  EXPECT_NE(message("}" + std::string(1'100'000, ')')).find("more than 1000000 operations"), std::string::npos);
  // A tuple of 1,000 pairs, of which each further dictionary has all.
  std::string dicts = "(";
  for (int i = 0; i < 1000; ++i) dicts += ")N\x86";
  dicts += "t\x85q\x01";
  for (int i = 0; i < 1100; ++i) dicts += "ccollections\nOrderedDict\nh\x01R";
  EXPECT_NE(message(dicts).find("more than 1000000 operations"), std::string::npos);
  EXPECT_NE(message("}X" + std::string("\xe8\x03\0\0", 4) + std::string(1000, 'a') + "Ns.").find("not a name"),
            std::string::npos);
}

TEST(StateDict, PartsOfAStorageAreUnsupported) {
  std::string part = kTensorOfPython2;
  part.replace(part.find("NtQ"), 1,
               "(U\x01"
               "1K\x01K\x02t");
  const auto read = parse_state_dict(pickled_by_python_2("U\x01w" + part +
                                                         "\x86"
                                                         "a"));
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message().find("a storage that is a part of another one"), std::string::npos)
      << read.error().message();
}

TEST(StateDict, OtherPicklesAreRefused) {
  const std::string whole = pickled("K\x02\x85", "K\x01\x85", 7);
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(parse_state_dict(whole.substr(0, length))) << length;
  const auto code = parse_state_dict(
      "\x80\x02"
      "cos\nsystem\n(X\x04\x00\x00\x00trueR.");
  ASSERT_FALSE(code);
  const std::string call = std::string(
      "\x80\x02"
      "cos\nsystem\n)R.");
  EXPECT_NE(parse_state_dict(call).error().message().find("it holds os.system; only"), std::string::npos);
  // A dictionary within itself, and values within values.
  EXPECT_FALSE(parse_state_dict(std::string("}q\x01X\x01\x00\x00\x00wh\x01s.", 13)));
  EXPECT_FALSE(parse_state_dict("}X" + std::string("\x01\x00\x00\x00wN", 6) + std::string(100'000, '\x85') + "s."));
}

// As torch.save() wrote it before PyTorch 1.6, on a machine of this order of bytes or of the other.
std::string legacy(bool little = true) {
  using std::string_literals::operator""s;
  return "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03."s +
         "\x80\x02}(X\x0d\0\0\0little_endian"s + (little ? "\x88" : "\x89") + "u." +
         pickled("K\x02K\x03\x86", "K\x03K\x01\x86", 7) + "\x80\x02](U\x01"s + "0e.\x07\0\0\0\0\0\0\0"s +
         std::string(28, 'f');
}

TEST(StateDict, FilesFromBeforeZipFilesAreRead) {
  const std::string file = legacy();
  ASSERT_TRUE(is_legacy_state_dict(file));
  EXPECT_FALSE(is_legacy_state_dict(file.substr(1)));
  const auto read = parse_legacy_state_dict(file);
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->tensors.size(), 1U);
  EXPECT_EQ(read->tensors[0].name, "w");
  EXPECT_EQ(read->storages.at("0"), std::string(28, 'f'));
  for (std::size_t length = 0; length < file.size(); ++length) {
    const auto cut = parse_legacy_state_dict(file.substr(0, length));
    ASSERT_FALSE(cut) << length;
    EXPECT_EQ(cut.error().code(), Code::kDataLoss) << length;
  }
  EXPECT_NE(parse_legacy_state_dict(legacy(false)).error().message().find("highest byte first"), std::string::npos);
  // A list of records without that of the tensor, one with a record that no tensor has, and one within itself.
  const auto with_list = [&](std::string_view records) {
    std::string other = file;
    return other.replace(other.find("](U\x01"
                                    "0e."),
                         7, records);
  };
  EXPECT_FALSE(parse_legacy_state_dict(with_list("].")));
  EXPECT_FALSE(
      parse_legacy_state_dict(with_list("](U\x01"
                                        "1e.")));
  EXPECT_FALSE(
      parse_legacy_state_dict(with_list("]q\x01h\x01"
                                        "a.")));
}

TEST(ExportedFile, TheEndingSaysTheFormat) {
  EXPECT_EQ(check_export_name("a/model.pt").value(), ExportFormat::kTorch);
  EXPECT_EQ(check_export_name("model.pth").value(), ExportFormat::kTorch);
  EXPECT_EQ(check_export_name("model.v2.safetensors").value(), ExportFormat::kSafetensors);
  for (const char* name : {"model", "model.onnx", "model.pt/", ".pt"}) EXPECT_FALSE(check_export_name(name)) << name;
}

TEST_F(FolderTest, ACheckpointIsFoundByFileFolderAndRun) {
  const std::string checkpoints = folder_ + "/checkpoints";
  const std::string run = folder_ + "/run";
  EXPECT_NE(find_checkpoint(run).error().message().find("there is no " + run), std::string::npos);
  ASSERT_TRUE(RunFolder::open(run, 0)->started({}));
  EXPECT_NE(find_checkpoint(run).error().message().find("--checkpoint"), std::string::npos);
  ASSERT_TRUE(RunFolder::open(run, 0)->started({.checkpoints = checkpoints}));
  EXPECT_NE(find_checkpoint(run).error().message().find(checkpoints), std::string::npos);
  fs::create_directories(checkpoints);
  for (const int step : {5, 20}) ASSERT_TRUE(write_sections(checkpoint_path(checkpoints, step), {}));
  const std::string newest = checkpoint_path(checkpoints, 20);
  EXPECT_EQ(find_checkpoint(run).value(), newest);
  EXPECT_EQ(find_checkpoint(checkpoints).value(), newest);
  EXPECT_EQ(find_checkpoint(checkpoint_path(checkpoints, 5)).value(), checkpoint_path(checkpoints, 5));
}

}  // namespace
}  // namespace xoe::train
