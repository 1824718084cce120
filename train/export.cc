#include "train/export.h"

#include <ATen/core/Dict.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/serialize/archive.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"
#include "models/models.h"
#include "train/checkpoint_file.h"
#include "train/exported_file.h"
#include "train/files.h"
#include "train/safetensors.h"
#include "xoe/data/pixels.h"

namespace xoe::train {
namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct Weights {
  Exported facts;
  int classes = 0;
  data::ImageSize images = 0;
  NamedTensors tensors = {};
};

std::string_view bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

// In the order of Python's state_dict(): a module's parameters, its buffers, its children.
void collect(const ::torch::nn::Module& module, const std::string& prefix, NamedTensors& to) {
  const auto keep = [&](const std::string& name, const at::Tensor& tensor) {
    to.emplace_back(prefix + name, tensor.detach().clone(at::MemoryFormat::Contiguous));
  };
  for (const auto& parameter : module.named_parameters(/*recurse=*/false)) keep(parameter.key(), parameter.value());
  for (const auto& buffer : module.named_buffers(/*recurse=*/false)) keep(buffer.key(), buffer.value());
  for (const auto& child : module.named_children()) collect(*child.value(), prefix + child.key() + ".", to);
}

Result<Weights> read_facts(const std::string& path, const Sections& sections) {
  const auto damaged = [&path] {
    return failure(Code::kDataLoss, "{} is damaged: it does not say what model it is of", path);
  };
  const auto meta = sections.find("meta");
  if (meta == sections.end() || !sections.contains("model")) return damaged();
  const auto json = nlohmann::json::parse(meta->second, nullptr, /*allow_exceptions=*/false);
  try {
    const auto& run = json.at("run");
    const auto& size = run.at("image size");
    Weights weights;
    weights.facts = {.checkpoint = path, .model = run.at("model"), .step = json.at("step")};
    weights.classes = run.at("classes");
    const auto parsed =
        data::parse_image_size(size.is_string() ? size.get<std::string>() : std::to_string(size.get<int>()));
    if (!parsed) return damaged();
    weights.images = *parsed;
    return weights;
  } catch (const nlohmann::json::exception&) {
    return damaged();
  }
}

Result<Weights> read_weights(const std::string& path) {
  XOE_ASSIGN(const std::string bytes, read_file(path));
  XOE_ASSIGN(const Sections sections, unpack_sections(bytes, path));
  XOE_ASSIGN(Weights weights, read_facts(path, sections));
  XOE_ASSIGN(const auto model,
             models::make_model(weights.facts.model, weights.classes, weights.images.height, weights.images.width));
  ::torch::serialize::InputArchive archive;
  const std::string& stored = sections.at("model");
  archive.load_from(stored.data(), stored.size(), c10::kCPU);
  model->load(archive);
  collect(*model, "", weights.tensors);
  for (auto& [name, tensor] : weights.tensors) name = models::common_name(weights.facts.model, name);
  weights.facts.tensors = static_cast<std::int64_t>(weights.tensors.size());
  return weights;
}

// A zip file as torch.save() makes it: a pickled dictionary of tensors, and a record for each tensor's bytes.
Status write_torch(const Weights& weights, OutputFile& file) {
  c10::Dict<std::string, at::Tensor> dictionary;
  for (const auto& [name, tensor] : weights.tensors) dictionary.insert(name, tensor);
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

Status write_safetensors(const Weights& weights, OutputFile& file) {
  std::vector<SafeTensor> tensors;
  for (const auto& [name, tensor] : weights.tensors) {
    const bool whole = tensor.scalar_type() == at::kLong;
    if (!whole && tensor.scalar_type() != at::kFloat)
      return failure(Code::kInternal, "{} is of a type that is not expected in a checkpoint", name);
    tensors.push_back(
        {.name = name, .dtype = whole ? "I64" : "F32", .shape = tensor.sizes().vec(), .bytes = tensor.nbytes()});
  }
  XOE_ASSIGN(
      const std::string header,
      safetensors_header(tensors, {{"format", "pt"},
                                   {"model", weights.facts.model},
                                   {"classes", std::to_string(weights.classes)},
                                   {"image_size", fmt::format("{}x{}", weights.images.height, weights.images.width)},
                                   {"step", std::to_string(weights.facts.step)}}));
  XOE_TRY(file.write(header));
  for (const auto& [name, tensor] : weights.tensors) XOE_TRY(file.write(bytes_of(tensor)));
  return {};
}

Error already_exists(const std::string& path) {
  return {Code::kInvalidArgument, fmt::format("{} exists; choose another name, or remove it first", path)};
}

Status write_weights(const Weights& weights, ExportFormat format, const std::string& path) {
  XOE_ASSIGN(OutputFile file, OutputFile::create(path));
  XOE_TRY(format == ExportFormat::kTorch ? write_torch(weights, file) : write_safetensors(weights, file));
  XOE_ASSIGN(const bool created, file.finish_new());
  return created ? Status() : failure(already_exists(path));
}

}  // namespace

Result<Exported> export_weights(const std::string& run, const std::string& file) {
  XOE_ASSIGN(const ExportFormat format, check_export_name(file));
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(file, ignored))) return failure(already_exists(file));
  XOE_ASSIGN(const std::string checkpoint, find_checkpoint(run));
  // libtorch reports errors by exceptions, which are converted here.
  try {
    const at::NoGradGuard no_grad;
    XOE_ASSIGN(const Weights weights, read_weights(checkpoint));
    XOE_TRY(write_weights(weights, format, file));
    return weights.facts;
  } catch (const c10::Error& error) {
    return failure(Code::kDataLoss, "{} cannot be exported: {}", checkpoint, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return failure(Code::kResourceExhausted, "out of memory while reading {}", checkpoint);
  } catch (const std::exception& error) {
    return failure(Code::kDataLoss, "{} cannot be exported: {}", checkpoint, error.what());
  }
}

}  // namespace xoe::train
