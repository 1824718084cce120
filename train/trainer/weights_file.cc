#include "train/trainer/weights_file.h"

#include <ATen/core/Dict.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "train/trainer/files.h"
#include "train/trainer/safetensors.h"
#include "train/trainer/state_dict.h"

namespace xoe::train {
namespace {

// By the names that safetensors have for them.
constexpr std::array<std::pair<std::string_view, at::ScalarType>, 9> kTypes = {{{"BOOL", at::kBool},
                                                                                {"U8", at::kByte},
                                                                                {"I8", at::kChar},
                                                                                {"F16", at::kHalf},
                                                                                {"BF16", at::kBFloat16},
                                                                                {"I32", at::kInt},
                                                                                {"F32", at::kFloat},
                                                                                {"I64", at::kLong},
                                                                                {"F64", at::kDouble}}};

// Of one of these names.
const std::pair<std::string_view, at::ScalarType>* find_type(std::string_view name) {
  return std::ranges::find(kTypes, name, [](const auto& pair) { return pair.first; });
}

std::string_view bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

Result<NamedTensors> read_safetensors(std::string_view bytes) {
  XOE_ASSIGN(const SafeHeader header, parse_safetensors_header(bytes));
  NamedTensors tensors;
  std::size_t begin = header.bytes;
  for (const SafeTensor& entry : header.tensors) {
    const auto* const type = find_type(entry.dtype);
    const at::Tensor tensor = at::empty(entry.shape, type->second);
    // An empty tensor has no address.
    if (entry.bytes > 0) std::memcpy(tensor.mutable_data_ptr(), bytes.data() + begin, entry.bytes);
    begin += entry.bytes;
    tensors.emplace_back(entry.name, tensor);
  }
  return tensors;
}

// Tensors of a state dict, of which several may lie in one storage: it is read once.
class StoredTensors {
 public:
  using Read = std::function<Result<at::Tensor>(const StoredTensor&)>;  // one-dimensional: the storage of this tensor
  // file_bytes: a file has its tensors' bytes, but for tensors that share some.
  StoredTensors(std::size_t file_bytes, Read read) : left_(2 * file_bytes), read_(std::move(read)) {}

  Status add(const StoredTensor& stored) {
    const auto* const type = find_type(stored.dtype);
    auto found = storages_.find(stored.record);
    if (found == storages_.end()) {
      XOE_ASSIGN(at::Tensor storage, read_(stored));
      found = storages_.emplace(stored.record, std::move(storage)).first;
    }
    const at::Tensor& storage = found->second;
    if (storage.scalar_type() != type->second || storage.numel() != stored.storage_elements)
      return failure(Code::kDataLoss, "{} and another tensor have the same bytes, as different types or sizes",
                     stored.name);
    const at::Tensor tensor = storage.as_strided(stored.shape, stored.strides, stored.offset);
    if (tensor.nbytes() > left_)
      return failure(Code::kDataLoss, "up to {}, tensors have more than twice the file's bytes", stored.name);
    left_ -= tensor.nbytes();
    tensors_.emplace_back(stored.name, tensor.contiguous());
    return {};
  }
  NamedTensors take() && { return std::move(tensors_); }

 private:
  std::size_t left_;  // bytes of further tensors
  Read read_;
  std::map<std::string, at::Tensor> storages_;
  NamedTensors tensors_;
};

// A record that is compressed could be of any size.
Status check_size(caffe2::serialize::PyTorchStreamReader& reader, const std::string& record, std::size_t& left) {
  const std::size_t size = reader.getRecordSize(record);
  if (size > left) return failure(Code::kDataLoss, "up to {}, its records have more than twice its bytes", record);
  left -= size;
  return {};
}

Result<at::Tensor> read_storage(const StoredTensor& stored, caffe2::serialize::PyTorchStreamReader& reader) {
  const auto* const type = find_type(stored.dtype);
  auto [data, size] = reader.getRecord("data/" + stored.record);
  if (size / c10::elementSize(type->second) < static_cast<std::size_t>(stored.storage_elements))
    return failure(Code::kDataLoss, "{} is cut off", stored.name);
  const auto kept = std::make_shared<c10::DataPtr>(std::move(data));
  return at::from_blob(
      kept->get(), {stored.storage_elements}, [kept](void* /*bytes*/) {}, at::TensorOptions(type->second));
}

// Lets libtorch's reader of zip files read from memory.
class Bytes : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  std::size_t size() const override { return bytes_.size(); }
  std::size_t read(std::uint64_t from, void* to, std::size_t count, const char* /*what*/) const override {
    return from > bytes_.size() ? 0 : bytes_.copy(static_cast<char*>(to), count, from);
  }

 private:
  std::string_view bytes_;
};

Result<NamedTensors> read_legacy(std::string_view bytes) {
  XOE_ASSIGN(const LegacyStateDict stored, parse_legacy_state_dict(bytes));
  StoredTensors tensors(bytes.size(), [&stored](const StoredTensor& one) -> Result<at::Tensor> {
    at::Tensor storage = at::empty({one.storage_elements}, find_type(one.dtype)->second);
    // The file's bytes need not lie where such numbers may. An empty tensor has no address.
    if (one.storage_elements > 0)
      std::memcpy(storage.mutable_data_ptr(), stored.storages.at(one.record).data(), storage.nbytes());
    return storage;
  });
  for (const StoredTensor& one : stored.tensors) XOE_TRY(tensors.add(one));
  return std::move(tensors).take();
}

Result<NamedTensors> read_torch(std::string_view bytes) {
  if (is_legacy_state_dict(bytes)) return read_legacy(bytes);
  caffe2::serialize::PyTorchStreamReader reader(std::make_shared<Bytes>(bytes));
  std::size_t left = 2 * bytes.size();
  XOE_TRY(check_size(reader, "data.pkl", left));
  const auto [pickle, size] = reader.getRecord("data.pkl");
  XOE_ASSIGN(const auto stored, parse_state_dict({static_cast<const char*>(pickle.get()), size}));
  StoredTensors tensors(bytes.size(), [&](const StoredTensor& one) -> Result<at::Tensor> {
    XOE_TRY(check_size(reader, "data/" + one.record, left));
    return read_storage(one, reader);
  });
  for (const StoredTensor& one : stored) XOE_TRY(tensors.add(one));
  return std::move(tensors).take();
}

// A zip file as torch.save() makes it: a pickled dictionary of tensors, and a record for each tensor's bytes.
Status write_torch(const NamedTensors& tensors, OutputFile& file) {
  c10::Dict<std::string, at::Tensor> dictionary;
  for (const auto& [name, tensor] : tensors) dictionary.insert(name, tensor);
  std::string pickled;
  std::vector<at::Tensor> stored;
  const auto number_of = [&stored](const at::Tensor& tensor) {
    stored.push_back(tensor);
    return std::to_string(stored.size() - 1);
  };
  ::torch::jit::Pickler pickler([&pickled](const char* data, std::size_t size) { pickled.append(data, size); }, nullptr,
                                nullptr, nullptr, number_of, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(c10::IValue(dictionary));
  pickler.stop();

  Status written;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, std::size_t size) {
    if (written) written = file.write({static_cast<const char*>(data), size});
    return size;
  });
  writer.writeRecord("data.pkl", pickled.data(), pickled.size());
  constexpr std::string_view kOrder = "little";
  writer.writeRecord("byteorder", kOrder.data(), kOrder.size());
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const std::string_view bytes = bytes_of(stored[i]);
    writer.writeRecord(fmt::format("data/{}", i), bytes.data(), bytes.size());
  }
  writer.writeEndOfFile();
  return written;
}

Status write_safetensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata,
                         OutputFile& file) {
  std::vector<SafeTensor> entries;
  for (const auto& [name, tensor] : tensors) {
    const auto* const type =
        std::ranges::find(kTypes, tensor.scalar_type(), [](const auto& pair) { return pair.second; });
    if (type == kTypes.end())
      return failure(Code::kInternal, "{} is of a type that safetensors files do not have", name);
    entries.push_back(
        {.name = name, .dtype = std::string(type->first), .shape = tensor.sizes().vec(), .bytes = tensor.nbytes()});
  }
  XOE_ASSIGN(const std::string header, safetensors_header(entries, metadata));
  XOE_TRY(file.write(header));
  for (const auto& [name, tensor] : tensors) XOE_TRY(file.write(bytes_of(tensor)));
  return {};
}

}  // namespace

Result<NamedTensors> read_tensors(const std::string& path) {
  XOE_ASSIGN(const ExportFormat format, check_export_name(path));
  XOE_ASSIGN(const std::string bytes, read_file(path));
  const auto unreadable = [&](std::string_view why) {
    return failure(Code::kDataLoss, "{} cannot be read as {}: {}", path,
                   format == ExportFormat::kTorch ? "a state dict of PyTorch" : "safetensors", why);
  };
  // libtorch reports errors by exceptions, which are converted here.
  try {
    auto tensors = format == ExportFormat::kTorch ? read_torch(bytes) : read_safetensors(bytes);
    if (!tensors) return unreadable(tensors.error().message());
    return tensors;
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    return unreadable(text.substr(0, text.find('\n')));
  } catch (const std::bad_alloc&) {
    return failure(Code::kResourceExhausted, "out of memory while reading {}", path);
  } catch (const std::exception& error) {
    return unreadable(error.what());
  }
}

Status write_tensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata,
                     ExportFormat format, const std::string& path) {
  XOE_ASSIGN(OutputFile file, OutputFile::create(path));
  XOE_TRY(format == ExportFormat::kTorch ? write_torch(tensors, file) : write_safetensors(tensors, metadata, file));
  XOE_ASSIGN(const bool created, file.finish_new());
  return created ? Status() : failure(file_exists(path));
}

}  // namespace xoe::train
