#include "train/trainer/checkpoint.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "train/trainer/agree.h"
#include "train/trainer/buffers.h"
#include "train/trainer/files.h"
#include "train/trainer/size_json.h"

namespace xoe::train {
namespace {

using Json = nlohmann::ordered_json;

// The properties that must not change when a run is resumed, in the order of messages.
Json identity(const TrainOptions& options, const DataInfo& data, int size) {
  Json same = {{"model", options.model},
               {"classes", data.classes},
               {"image size", size_json(options.image_size)},
               {"ranks", size},
               {"batch", options.batch},
               {"accumulate", options.accumulate},
               {"optimizer", optimizer_name(options.optimizer)},
               {"data", options.data_dir.empty() ? "synthetic" : "images"},
               {"seed", options.seed}};
  if (options.logical_shards > 0) same["logical shards"] = options.logical_shards;
  return same;
}

std::string archive_bytes(::torch::serialize::OutputArchive& archive) {
  std::string bytes;
  archive.save_to([&bytes](const void* data, std::size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  return bytes;
}

// Loads tensors to `device`, wherever they were when they were written: that device may be missing, or another rank's.
::torch::serialize::InputArchive open_archive(const std::string& bytes, c10::Device device = c10::kCPU) {
  ::torch::serialize::InputArchive archive;
  archive.load_from(bytes.data(), bytes.size(), device);
  return archive;
}

std::string rank_section(int rank) { return fmt::format("rank.{}", rank); }

// Of this rank, or of one whose part it takes.
const std::string& section_of_rank(const Sections& sections, int rank) {
  int ranks = 1;
  while (sections.contains(rank_section(ranks))) ++ranks;
  return sections.at(rank_section(rank % ranks));
}

std::string rank_bytes(const Progress& progress, const models::ImageModel& model, const WeightAverage* average) {
  ::torch::serialize::OutputArchive archive;
  archive.write("position", c10::IValue(progress.position));
  archive.write("random", at::detail::getDefaultCPUGenerator().get_state());
  archive.write("buffers", c10::IValue(copy_buffers(model)));
  if (average != nullptr) archive.write("average buffers", c10::IValue(average->buffers()));
  return archive_bytes(archive);
}

// Like Module::save(), but of copies: an archive holds a tensor's whole storage, and a sharded parameter's storage is
// its bucket.
void archive_module(const ::torch::nn::Module& module, ::torch::serialize::OutputArchive& archive) {
  const auto copy = [](const at::Tensor& tensor) { return tensor.detach().clone(at::MemoryFormat::Contiguous); };
  for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
    archive.write(parameter.key(), copy(parameter.value()));
  }
  for (const auto& buffer : module.named_buffers(/*recurse=*/false)) {
    archive.write(buffer.key(), copy(buffer.value()), /*is_buffer=*/true);
  }
  for (const auto& child : module.named_children()) {
    if (!child.value()->is_serializable()) continue;
    ::torch::serialize::OutputArchive inner(archive.compilation_unit());
    archive_module(*child.value(), inner);
    archive.write(child.key(), inner);
  }
}

// The model in the format of a plain libtorch program, with `buffers` instead of this rank's.
std::string model_bytes(const models::ImageModel& model, const std::vector<at::Tensor>& buffers) {
  const auto own = copy_buffers(model);
  set_buffers(model, buffers);
  ::torch::serialize::OutputArchive archive;
  archive_module(model, archive);
  std::string bytes = archive_bytes(archive);
  set_buffers(model, own);
  return bytes;
}

Status write_checkpoint(const TrainOptions& options, const std::string& path, const Sections& sections) {
  XOE_TRY(make_folder(options.checkpoint_dir));
  return write_sections(path, sections);
}

Status check_identity(const Sections& sections, const Json& mine, const std::string& path) {
  const auto meta = sections.find("meta");
  const auto json = meta == sections.end() ? Json() : Json::parse(meta->second, nullptr, false);
  if (!json.is_object() || !json.contains("run") || !json.contains("step")) {
    return failure(Code::kDataLoss, "{} is damaged: it does not say what run it is of", path);
  }
  const Json& theirs = json["run"];
  for (const auto& [key, value] : mine.items()) {
    if (theirs.contains(key) && theirs[key] == value) continue;
    return failure(Code::kInvalidArgument,
                   "{} is of a run with {} {}, this one has {}; use the same, or another folder", path, key,
                   theirs.contains(key) ? theirs[key].dump() : "unknown", value.dump());
  }
  return {};
}

Result<std::string> read_newest(const TrainOptions& options, const Json& mine) {
  XOE_ASSIGN(const auto stored, list_checkpoints(options.checkpoint_dir));
  if (stored.empty()) return std::string();
  const std::string& path = stored.back().path;
  XOE_ASSIGN(std::string bytes, read_file(path));
  XOE_ASSIGN(const Sections sections, unpack_sections(bytes, path));
  XOE_TRY(check_identity(sections, mine, path));
  return bytes;
}

// The parameters of a section with a model, in the model's order. They are loaded into another model and copied:
// loading replaces the storage, and with it device and memory format.
Status load_parameters(const std::string& bytes, const TrainOptions& options, const DataInfo& data,
                       const std::vector<at::Tensor>& target) {
  XOE_ASSIGN(const auto stored,
             models::make_model(options.model, data.classes, options.image_size.height, options.image_size.width));
  auto archive = open_archive(bytes);
  stored->load(archive);
  const auto source = stored->parameters();
  for (std::size_t i = 0; i < target.size(); ++i) target[i].copy_(source.at(i));
  return {};
}

std::vector<at::Tensor> tensors_of_rank(const Sections& sections, int rank, const std::string& name) {
  auto own = open_archive(section_of_rank(sections, rank));
  c10::IValue tensors;
  own.read(name, tensors);
  return tensors.toTensorVector();
}

Json progress_json(const Progress& progress) {
  return {{"step", progress.step},
          {"total_steps", progress.total_steps},
          {"epoch", progress.epoch},
          {"shift", progress.shift},
          {"loss_scale", progress.loss_scale.scale()},
          {"loss_scale_steps", progress.loss_scale.good_steps()},
          {"first_joint_batch", progress.first_joint_batch},
          {"ledger_run", progress.ledger_run}};
}

Progress progress_of(const nlohmann::json& meta, std::string position) {
  return {.step = meta.at("step"),
          .total_steps = meta.value("total_steps", std::int64_t{0}),
          .epoch = meta.value("epoch", -1.0),
          .shift = meta.value("shift", std::int64_t{0}),
          .position = std::move(position),
          .loss_scale =
              meta.contains("loss_scale") ? LossScale(meta.at("loss_scale"), meta.at("loss_scale_steps")) : LossScale(),
          .first_joint_batch = meta.value("first_joint_batch", std::int64_t{0}),
          .ledger_run = meta.value("ledger_run", std::int64_t{0})};
}

Sections common_sections(const TrainOptions& options, const DataInfo& data, const Progress& progress, int ranks,
                         ::torch::serialize::OutputArchive& optimizer) {
  Sections sections;
  Json meta = progress_json(progress);
  meta["run"] = identity(options, data, ranks);
  sections["meta"] = meta.dump();
  sections["optimizer"] = archive_bytes(optimizer);
  return sections;
}

}  // namespace

Result<Sections> own_state(const TrainOptions& options, const DataInfo& data, const Progress& progress,
                           models::ImageModel& model, WeightAverage* average,
                           const ::torch::optim::Optimizer& optimizer, int ranks) {
  const at::NoGradGuard no_grad;
  ::torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  Sections sections = common_sections(options, data, progress, ranks, archive);
  sections["model"] = model_bytes(model, copy_buffers(model));
  sections[rank_section(0)] = rank_bytes(progress, model, average);
  if (average != nullptr) {
    const WeightAverage::InModel in_model(*average);
    sections[std::string(kAverageSection)] = model_bytes(model, copy_buffers(model));
  }
  return sections;
}

Result<Sections> gather_state(const TrainOptions& options, const DataInfo& data, const Progress& progress,
                              models::ImageModel& model, WeightAverage* average,
                              xoe::torch::DistributedOptimizer& optimizer, Communicator& comm) {
  const at::NoGradGuard no_grad;
  ::torch::serialize::OutputArchive optimizer_archive;
  XOE_TRY(optimizer.save_state(optimizer_archive));
  XOE_ASSIGN(const auto buffers, buffers_of_ranks(model, options.logical_shards > 0, comm));
  std::string averaged;
  if (average != nullptr) {
    const WeightAverage::InModel in_model(*average);
    XOE_ASSIGN(const auto average_buffers, buffers_of_ranks(model, options.logical_shards > 0, comm));
    if (comm.rank() == 0) averaged = model_bytes(model, average_buffers);
  }
  const std::string mine = rank_bytes(progress, model, average);
  XOE_ASSIGN(const Gathered ranks, comm.allgather(ConstTensor(mine.data(), mine.size(), DType::kUint8)));

  if (comm.rank() != 0) return Sections();
  Sections sections = common_sections(options, data, progress, comm.size(), optimizer_archive);
  sections["model"] = model_bytes(model, buffers);
  if (average != nullptr) sections[std::string(kAverageSection)] = std::move(averaged);
  const auto* bytes = reinterpret_cast<const char*>(ranks.data.data());
  for (int rank = 0; rank < comm.size(); ++rank) {
    const std::size_t count = ranks.counts[static_cast<std::size_t>(rank)];
    sections[rank_section(rank)].assign(bytes, count);
    bytes += count;
  }
  return sections;
}

Result<std::string> save_checkpoint(const TrainOptions& options, const DataInfo& data, const Progress& progress,
                                    models::ImageModel& model, WeightAverage* average,
                                    xoe::torch::DistributedOptimizer& optimizer, Communicator& comm) {
  XOE_ASSIGN(const Sections sections, gather_state(options, data, progress, model, average, optimizer, comm));
  const std::string path = checkpoint_path(options.checkpoint_dir, progress.step);
  XOE_TRY(agree(comm, comm.rank() == 0 ? write_checkpoint(options, path, sections) : Status()));
  return path;
}

Result<std::optional<Sections>> load_checkpoint(const TrainOptions& options, const DataInfo& data, Communicator& comm,
                                                bool any_ranks) {
  std::string bytes;
  Status read;
  if (comm.rank() == 0) {
    Json mine = identity(options, data, comm.size());
    if (any_ranks) mine.erase("ranks");
    if (auto newest = read_newest(options, mine)) {
      bytes = std::move(*newest);
    } else {
      read = failure(newest.error());
    }
  }
  XOE_TRY(agree(comm, read));
  XOE_TRY(broadcast_bytes(comm, bytes));
  if (bytes.empty()) return std::nullopt;
  XOE_ASSIGN(Sections sections, unpack_sections(bytes, "the checkpoint as received from rank 0"));
  return sections;
}

Result<std::string> keep_state(const TrainOptions& options, const Sections& sections) {
  const auto meta = nlohmann::json::parse(sections.at("meta"));
  std::string path = checkpoint_path(options.checkpoint_dir, meta.at("step"));
  XOE_TRY(write_checkpoint(options, path, sections));
  return path;
}

Status restore_model(const Sections& sections, const TrainOptions& options, const DataInfo& data, int rank,
                     models::ImageModel& model) {
  const at::NoGradGuard no_grad;
  XOE_TRY(load_parameters(sections.at("model"), options, data, model.parameters()));
  set_buffers(model, tensors_of_rank(sections, rank, "buffers"));
  return {};
}

bool has_weight_average(const Sections& sections) { return sections.contains(kAverageSection); }

std::int64_t first_joint_batch_of(const Sections& sections) {
  return progress_of(nlohmann::json::parse(sections.at("meta")), {}).first_joint_batch;
}

Status restore_average(const Sections& sections, const TrainOptions& options, const DataInfo& data, int rank,
                       WeightAverage& average) {
  const at::NoGradGuard no_grad;
  XOE_TRY(load_parameters(sections.find(kAverageSection)->second, options, data, average.parameters()));
  const auto buffers = tensors_of_rank(sections, rank, "average buffers");
  for (std::size_t i = 0; i < average.buffers().size(); ++i) average.buffers()[i].copy_(buffers.at(i));
  return {};
}

Result<Progress> restore_rest(const Sections& sections, int rank, c10::Device device,
                              xoe::torch::DistributedOptimizer& optimizer) {
  auto archive = open_archive(sections.at("optimizer"), device);
  // libtorch would replace the command line's options by the saved ones.
  auto& groups = optimizer.wrapped().param_groups();
  std::vector<std::unique_ptr<::torch::optim::OptimizerOptions>> wanted;
  for (auto& group : groups) wanted.push_back(group.options().clone());
  XOE_TRY(optimizer.load_state(archive));
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].set_options(std::move(wanted.at(i)));
  auto own = open_archive(section_of_rank(sections, rank));
  at::Tensor random;
  own.read("random", random);
  at::Generator(at::detail::getDefaultCPUGenerator()).set_state(random);
  c10::IValue position;
  own.read("position", position);
  return progress_of(nlohmann::json::parse(sections.at("meta")), position.toStringRef());
}

std::string progress_text(const Progress& progress) {
  Json json = progress_json(progress);
  json["position"] = progress.position;
  return json.dump();
}

Progress progress_of(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  return progress_of(json, json.at("position"));
}

std::string optimizer_bytes(const ::torch::optim::Optimizer& optimizer) {
  ::torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  return archive_bytes(archive);
}

void restore_optimizer(::torch::optim::Optimizer& optimizer, const std::string& bytes) {
  auto archive = open_archive(bytes);
  optimizer.state().clear();  // load() adds
  optimizer.load(archive);
}

}  // namespace xoe::train
