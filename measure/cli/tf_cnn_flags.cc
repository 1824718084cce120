#include "measure/cli/tf_cnn_flags.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::bench {
namespace {

using Form = TfCnnFlag::Form;
using Answer = TfCnnFlag::Answer;

std::string value_in(const TfCnnValues& all, std::string_view name) {
  const auto found = all.find(name);
  return found == all.end() ? std::string() : found->second;
}

double number_in(const TfCnnValues& all, std::string_view name) {
  return parse_number(value_in(all, name)).value_or(0);
}

std::string dashed(std::string_view name) {
  std::string text = "--" + std::string(name);
  std::ranges::replace(text, '_', '-');
  return text;
}

tl::unexpected<Error> refused(std::string_view name, std::string_view value, std::string_view why) {
  return failure(Code::kInvalidArgument, "{}{}{}: {}", dashed(name), value.empty() ? "" : "=", value, why);
}

TfCnnWords one_word(std::string word) {
  TfCnnWords found;
  found.words.push_back(std::move(word));
  return found;
}

TfCnnWords only_note(std::string_view note) { return {.note = std::string(note)}; }

constexpr char kBatchSize[] = "--batch-size=";
constexpr char kCheckpointEvery[] = "--checkpoint-every=";
constexpr char kCheckpointKeep[] = "--checkpoint-keep=";
constexpr char kClipValue[] = "--clip-value=";
constexpr char kDataThreads[] = "--data-threads=";
constexpr char kNumBatches[] = "--num-batches=";
constexpr char kNumEpochs[] = "--num-epochs=";
constexpr char kSeed[] = "--seed=";
constexpr char kThreads[] = "--threads=";

template <const char* kOption>
Result<TfCnnWords> as(const std::string& value, const TfCnnValues& /*all*/) {
  return one_word(kOption + value);
}

// The same where 0 asks for what happens without the flag.
template <const char* kOption>
Result<TfCnnWords> as_if_not_0(const std::string& value, const TfCnnValues& /*all*/) {
  return value == "0" ? TfCnnWords() : one_word(kOption + value);
}

bool evaluates(const TfCnnValues& all) { return value_in(all, "eval") == "true"; }

// A flag of evaluation becomes the option of any run; without --eval there is no evaluation.
template <const char* kOption>
Result<TfCnnWords> of_evaluation(const std::string& value, const TfCnnValues& all) {
  if (evaluates(all)) return one_word(kOption + value);
  return only_note("nothing is evaluated without --eval");
}

// With --eval the flag of evaluation takes the place of that of training.
Result<TfCnnWords> batch_size(const std::string& value, const TfCnnValues& all) {
  const std::string of_eval = value_in(all, "eval_batch_size");
  if (evaluates(all) && !of_eval.empty() && of_eval != "0") return TfCnnWords();
  return one_word(kBatchSize + value);
}

template <const char* kOption>
Result<TfCnnWords> length(const std::string& value, const TfCnnValues& all) {
  if (evaluates(all) && !(value_in(all, "num_eval_batches").empty() && value_in(all, "num_eval_epochs").empty()))
    return TfCnnWords();
  return one_word(kOption + value);
}

Result<TfCnnWords> num_gpus(const std::string& value, const TfCnnValues& /*all*/) {
  if (value == "1") return TfCnnWords();
  return refused(
      "num_gpus", value,
      fmt::format("a rank has one GPU; start `xoe run -np {} xoe bench train ...`", value == "0" ? "N" : value));
}

Result<TfCnnWords> device(const std::string& value, const TfCnnValues& /*all*/) {
  if (value == "gpu" || value == "GPU") return one_word("--device=cuda");
  return one_word("--device=" + (value == "CPU" ? "cpu" : value));
}

Result<TfCnnWords> data_format(const std::string& value, const TfCnnValues& /*all*/) {
  if (value == "NCHW") return one_word("--memory-format=nchw");
  if (value == "NHWC") return one_word("--memory-format=nhwc");
  return refused("data_format", value, "choose NCHW or NHWC");
}

Result<TfCnnWords> model(const std::string& value, const TfCnnValues& /*all*/) {
  const auto name = network_of_tf_cnn(value);
  return name ? Result<TfCnnWords>(one_word("--model=" + *name)) : refused("model", value, name.error().message());
}

Result<TfCnnWords> optimizer(const std::string& value, const TfCnnValues& /*all*/) {
  if (value == "adam" || value == "rmsprop")
    return refused("optimizer", value, "it is not here; choose sgd, momentum, adamw, lars or lamb");
  return one_word("--optimizer=" + value);
}

Result<TfCnnWords> variable_update(const std::string& value, const TfCnnValues& /*all*/) {
  TfCnnWords found = one_word("--variable-update=" + value);
  if (value == "parameter_server" || value == "distributed_replicated")
    found.note = "each rank has all variables, and ranks average gradients among themselves; there is no server";
  return found;
}

constexpr std::string_view kNoRealImages = "without --data-dir there are no images that it could change";

Result<TfCnnWords> resize_method(const std::string& value, const TfCnnValues& all) {
  if (value_in(all, "data_dir").empty()) return only_note(kNoRealImages);
  if (value == "area") return one_word("--interpolation=area");
  if (value == "bilinear" || value == "bicubic")
    return TfCnnWords{.words = {"--interpolation=" + value, "--no-antialias"}};
  return refused("resize_method", value, "choose bilinear, bicubic or area");
}

// Switches that change real images in a way that this pipeline does not have.
Result<TfCnnWords> of_real_images(std::string_view name, std::string_view why, const std::string& value,
                                  const TfCnnValues& all) {
  if (value == "false") return TfCnnWords();
  if (value_in(all, "data_dir").empty()) return only_note(kNoRealImages);
  return refused(name, "", why);
}

Result<TfCnnWords> distortions(const std::string& value, const TfCnnValues& all) {
  return of_real_images("distortions", "no colours are distorted; without it images are cropped and mirrored at random",
                        value, all);
}

Result<TfCnnWords> ml_perf(const std::string& value, const TfCnnValues& all) {
  return of_real_images("ml_perf", "the pipeline normalises in one way only; see docs/guide/data.md", value, all);
}

Result<TfCnnWords> repeat_cached_sample(const std::string& value, const TfCnnValues& all) {
  return of_real_images("datasets_repeat_cached_sample", "leave out --data-dir for one batch that is made once", value,
                        all);
}

bool has_pieces(const TfCnnValues& all) { return !value_in(all, "piecewise_learning_rate_schedule").empty(); }
bool decays(const TfCnnValues& all) {
  return number_in(all, "num_epochs_per_decay") > 0 && number_in(all, "learning_rate_decay_factor") > 0;
}

// A schedule of rates, which begins at once unless the command line has a warm-up.
TfCnnWords schedule_of(const std::string& rates, const TfCnnValues& all) {
  const std::string warmup = value_in(all, "num_learning_rate_warmup_epochs");
  return {.words = {"--lr-schedule=" + rates, "--lr-warmup=" + (warmup.empty() ? "0" : warmup)}};
}

Result<TfCnnWords> piecewise_rates(const std::string& value, const TfCnnValues& all) {
  return value.empty() ? TfCnnWords() : schedule_of(value, all);
}

// The rate times the factor, again and again, and never below the least one: "0.1;30;0.01;60;0.001;...".
Result<TfCnnWords> decaying_rates(const std::string& value, const TfCnnValues& all) {
  if (!decays(all)) return TfCnnWords();
  constexpr int kMostPieces = 200;
  const double epochs = number_in(all, "num_epochs_per_decay");
  const double factor = number_in(all, "learning_rate_decay_factor");
  double rate = number_in(all, "init_learning_rate");
  if (!(factor < 1) || !(rate > 0))
    return refused("num_epochs_per_decay", value,
                   "needs --init-learning-rate above 0, and --learning-rate-decay-factor below 1");
  std::string rates = fmt::format("{}", rate);
  for (int i = 1; i < kMostPieces && rate > number_in(all, "minimum_learning_rate"); ++i) {
    rate = std::max(rate * factor, number_in(all, "minimum_learning_rate"));
    rates += fmt::format(";{};{}", i * epochs, rate);
  }
  return schedule_of(rates, all);
}

Result<TfCnnWords> of_decay(const std::string& /*value*/, const TfCnnValues& all) {
  return decays(all) ? TfCnnWords()
                     : only_note(
                           "the rate falls only with both --num-epochs-per-decay and "
                           "--learning-rate-decay-factor");
}

Result<TfCnnWords> init_learning_rate(const std::string& value, const TfCnnValues& all) {
  return decays(all) ? TfCnnWords() : one_word("--init-learning-rate=" + value);
}

Result<TfCnnWords> warmup_epochs(const std::string& value, const TfCnnValues& all) {
  return has_pieces(all) || decays(all) ? TfCnnWords() : one_word("--lr-warmup=" + value);
}

Result<TfCnnWords> resnet_base_lr(const std::string& value, const TfCnnValues& all) {
  if (!value_in(all, "init_learning_rate").empty() || has_pieces(all)) return only_note("another flag says the rates");
  return one_word("--init-learning-rate=" + value);
}

// Summaries are TensorBoard's files, in the folder of checkpoints.
Result<TfCnnWords> save_summaries_steps(const std::string& value, const TfCnnValues& all) {
  if (value == "0") return TfCnnWords();
  const std::string folder = value_in(all, "train_dir");
  if (folder.empty() || number_in(all, "summary_verbosity") < 1)
    return only_note("summaries are written only with --train-dir and --summary-verbosity");
  return TfCnnWords{.words = {"--tensorboard=" + folder, "--report-every=" + value}};
}

constexpr std::string_view kGraph = "libtorch runs operations one after the other; there is no graph of TensorFlow";
constexpr std::string_view kGraphFile =
    "there is no graph of TensorFlow that could be written; --trace-file writes a timeline";
constexpr std::string_view kAllocator = "libtorch has an allocator of its own";
constexpr std::string_view kPipeline = "the input pipeline tunes itself; --data-threads sets its threads";
constexpr std::string_view kGrouping = "gradients are reduced in buckets; --bucket-mb sets their size";
constexpr std::string_view kThreading = "ranks are processes, with threads of their own";
constexpr std::string_view kCluster =
    "processes do not find each other by it; start `xoe run -np N -H HOST:SLOTS,... xoe bench train ...`";
constexpr std::string_view kEvaluation = "a benchmark does not evaluate between steps; `xoe train --eval-every X` does";
constexpr std::string_view kOpenMp = "libtorch computes with oneDNN, and its threads are GNU's OpenMP";
constexpr std::string_view kNoRmsProp = "the optimizer rmsprop is not here";
constexpr std::string_view kNoAdam = "the optimizer adam is not here; adamw has 0.9, 0.999 and 1e-8";
constexpr std::string_view kScaling = "bfloat16 needs no loss scale; that of --precision fp16 adapts itself";
constexpr std::string_view kTensorRt = "there is no TensorRT here";

constexpr std::array kFlags{
    TfCnnFlag{"adam_beta1", Form::kValue, Answer::kIgnored, kNoAdam, "0.9"},
    TfCnnFlag{"adam_beta2", Form::kValue, Answer::kIgnored, kNoAdam, "0.999"},
    TfCnnFlag{"adam_epsilon", Form::kValue, Answer::kIgnored, kNoAdam, "1e-8"},
    TfCnnFlag{"agg_small_grads_max_bytes", Form::kValue, Answer::kIgnored, kGrouping, "0"},
    TfCnnFlag{"agg_small_grads_max_group", Form::kValue, Answer::kIgnored, kGrouping},
    TfCnnFlag{"all_reduce_spec", Form::kValue, Answer::kIgnored, "`xoe run --backend` chooses what reduces"},
    TfCnnFlag{"allow_growth", Form::kSwitch, Answer::kIgnored, kAllocator},
    TfCnnFlag{"allreduce_merge_scope", Form::kValue, Answer::kIgnored, kGrouping, "1"},
    TfCnnFlag{"autotune_threshold", Form::kValue, Answer::kIgnored,
              "the number of warm-up steps is that of --num-warmup-batches"},
    TfCnnFlag{"backbone_model_path", Form::kValue, Answer::kRefused, "it is for networks that find objects"},
    TfCnnFlag{"batch_group_size", Form::kValue, Answer::kIgnored, kPipeline, "1"},
    TfCnnFlag{"batch_size", Form::kValue, Answer::kOwn, "but for --eval with --eval-batch-size", "", &batch_size},
    TfCnnFlag{"batchnorm_persistent", Form::kSwitch, Answer::kIgnored, "cuDNN and oneDNN choose algorithms"},
    TfCnnFlag{"benchmark_log_dir", Form::kValue, Answer::kIgnored, "--output FILE writes the result as JSON"},
    TfCnnFlag{"benchmark_test_id", Form::kValue, Answer::kIgnored, "--output FILE names the result"},
    TfCnnFlag{"collect_eval_results_async", Form::kSwitch, Answer::kIgnored, "it is for networks that find objects",
              "false"},
    TfCnnFlag{"compact_gradient_transfer", Form::kSwitch, Answer::kIgnored,
              "gradients are reduced as they are, in float32", "false"},
    TfCnnFlag{"compute_lr_on_cpu", Form::kSwitch, Answer::kIgnored, "rates are computed on the CPU"},
    TfCnnFlag{"controller_host", Form::kValue, Answer::kRefused, kCluster},
    TfCnnFlag{"cross_replica_sync", Form::kSwitch, Answer::kRefused, "ranks take each step together", "true"},
    TfCnnFlag{"data_dir", Form::kValue, Answer::kOwn},
    TfCnnFlag{"data_format", Form::kValue, Answer::kBecomes, "--memory-format", "", &data_format},
    TfCnnFlag{"data_name", Form::kValue, Answer::kOwn},
    TfCnnFlag{"datasets_num_private_threads", Form::kValue, Answer::kBecomes, "--data-threads", "",
              &as_if_not_0<kDataThreads>},
    TfCnnFlag{"datasets_parallel_interleave_cycle_length", Form::kValue, Answer::kIgnored, kPipeline},
    TfCnnFlag{"datasets_parallel_interleave_prefetch", Form::kValue, Answer::kIgnored, kPipeline},
    TfCnnFlag{"datasets_prefetch_buffer_size", Form::kValue, Answer::kIgnored, kPipeline},
    TfCnnFlag{"datasets_repeat_cached_sample", Form::kSwitch, Answer::kBecomes, "nothing, if it is off", "",
              &repeat_cached_sample},
    TfCnnFlag{"datasets_sloppy_parallel_interleave", Form::kSwitch, Answer::kIgnored,
              "the order of images is always the same", "false"},
    TfCnnFlag{"datasets_use_caching", Form::kSwitch, Answer::kIgnored, "files stay in the page cache of the system",
              "false"},
    TfCnnFlag{"datasets_use_prefetch", Form::kSwitch, Answer::kIgnored, kPipeline, "true"},
    TfCnnFlag{"debugger", Form::kValue, Answer::kRefused, "there is no debugger of TensorFlow here"},
    TfCnnFlag{"device", Form::kValue, Answer::kOwn, "`gpu` is `cuda`", "", &device},
    TfCnnFlag{"display_every", Form::kValue, Answer::kOwn},
    TfCnnFlag{"display_perf_ewma", Form::kValue, Answer::kIgnored, "lines show the mean since the warm-up"},
    TfCnnFlag{"distort_color_in_yiq", Form::kSwitch, Answer::kIgnored, "no colours are distorted"},
    TfCnnFlag{"distortions", Form::kSwitch, Answer::kBecomes, "nothing, if it is off", "", &distortions},
    TfCnnFlag{"enable_optimizations", Form::kSwitch, Answer::kIgnored, kGraph},
    TfCnnFlag{"eval", Form::kSwitch, Answer::kOwn},
    TfCnnFlag{"eval_batch_size", Form::kValue, Answer::kBecomes, "--batch-size, with --eval", "0",
              &of_evaluation<kBatchSize>},
    TfCnnFlag{"eval_dir", Form::kValue, Answer::kIgnored, "results are printed; --output FILE keeps them"},
    TfCnnFlag{"eval_during_training_at_specified_epochs", Form::kValue, Answer::kRefused, kEvaluation},
    TfCnnFlag{"eval_during_training_at_specified_steps", Form::kValue, Answer::kRefused, kEvaluation},
    TfCnnFlag{"eval_during_training_every_n_epochs", Form::kValue, Answer::kRefused, kEvaluation},
    TfCnnFlag{"eval_during_training_every_n_steps", Form::kValue, Answer::kRefused, kEvaluation},
    TfCnnFlag{"eval_interval_secs", Form::kValue, Answer::kRefused, "a benchmark evaluates once", "0"},
    TfCnnFlag{"force_gpu_compatible", Form::kSwitch, Answer::kIgnored, kAllocator},
    TfCnnFlag{"forward_only", Form::kSwitch, Answer::kOwn},
    TfCnnFlag{"fp16_enable_auto_loss_scale", Form::kSwitch, Answer::kIgnored, kScaling},
    TfCnnFlag{"fp16_inc_loss_scale_every_n", Form::kValue, Answer::kIgnored, kScaling},
    TfCnnFlag{"fp16_loss_scale", Form::kValue, Answer::kIgnored, kScaling},
    TfCnnFlag{"fp16_vars", Form::kSwitch, Answer::kRefused, "weights are kept in float32", "false"},
    TfCnnFlag{"freeze_when_forward_only", Form::kSwitch, Answer::kIgnored, kGraph, "false"},
    TfCnnFlag{"fuse_decode_and_crop", Form::kSwitch, Answer::kIgnored,
              "an image is decoded as far as its crop needs it", "true"},
    TfCnnFlag{"gpu_indices", Form::kValue, Answer::kRefused, "set CUDA_VISIBLE_DEVICES"},
    TfCnnFlag{"gpu_kt_max_bytes", Form::kValue, Answer::kIgnored, kAllocator, "0"},
    TfCnnFlag{"gpu_kt_max_interval", Form::kValue, Answer::kIgnored, kAllocator, "0"},
    TfCnnFlag{"gpu_kt_max_pending", Form::kValue, Answer::kIgnored, kAllocator, "0"},
    TfCnnFlag{"gpu_memory_frac_for_testing", Form::kValue, Answer::kIgnored, kAllocator, "0"},
    TfCnnFlag{"gpu_thread_mode", Form::kValue, Answer::kIgnored, kThreading},
    TfCnnFlag{"gradient_clip", Form::kValue, Answer::kBecomes, "--clip-value", "", &as<kClipValue>},
    TfCnnFlag{"gradient_repacking", Form::kValue, Answer::kIgnored, kGrouping, "0"},
    TfCnnFlag{"graph_file", Form::kValue, Answer::kRefused, kGraphFile},
    TfCnnFlag{"hierarchical_copy", Form::kSwitch, Answer::kIgnored,
              "NCCL or shared memory reduce; no copies are arranged by hand", "false"},
    TfCnnFlag{"horovod_device", Form::kValue, Answer::kIgnored,
              "gradients are reduced where they are: by NCCL on GPUs, in shared memory on CPUs"},
    TfCnnFlag{"init_learning_rate", Form::kValue, Answer::kOwn, "for 256 images; as it is with the flags of decay", "",
              &init_learning_rate},
    TfCnnFlag{"input_preprocessor", Form::kValue, Answer::kRefused,
              "there is one; --data-dir tells the format by itself", "default|imagenet|cifar10"},
    TfCnnFlag{"job_name", Form::kValue, Answer::kRefused, kCluster},
    TfCnnFlag{"kmp_affinity", Form::kValue, Answer::kIgnored, kOpenMp},
    TfCnnFlag{"kmp_blocktime", Form::kValue, Answer::kIgnored, kOpenMp},
    TfCnnFlag{"kmp_settings", Form::kValue, Answer::kIgnored, kOpenMp},
    TfCnnFlag{"learning_rate_decay_factor", Form::kValue, Answer::kBecomes, "--lr-schedule", "0", &of_decay},
    TfCnnFlag{"local_parameter_device", Form::kValue, Answer::kIgnored,
              "each rank keeps its variables where it computes"},
    TfCnnFlag{"loss_type_to_report", Form::kValue, Answer::kIgnored,
              "the loss that is shown is without that of weight decay", "base_loss"},
    TfCnnFlag{"max_ckpts_to_keep", Form::kValue, Answer::kBecomes, "--checkpoint-keep", "", &as<kCheckpointKeep>},
    TfCnnFlag{"minimum_learning_rate", Form::kValue, Answer::kBecomes, "--lr-schedule", "0", &of_decay},
    TfCnnFlag{"mkl", Form::kSwitch, Answer::kIgnored, kOpenMp, "false"},
    TfCnnFlag{"ml_perf", Form::kSwitch, Answer::kBecomes, "nothing, if it is off", "", &ml_perf},
    TfCnnFlag{"ml_perf_compliance_logging", Form::kSwitch, Answer::kRefused,
              "`xoe train --mllog FILE` writes MLPerf's log", "false"},
    TfCnnFlag{"model", Form::kValue, Answer::kOwn, "the names below mean networks of `xoe bench train`", "", &model},
    TfCnnFlag{"momentum", Form::kValue, Answer::kOwn},
    TfCnnFlag{"multi_device_iterator_max_buffer_size", Form::kValue, Answer::kIgnored, kPipeline},
    TfCnnFlag{"network_topology", Form::kValue, Answer::kIgnored, "the topology is found, not told"},
    TfCnnFlag{"num_batches", Form::kValue, Answer::kOwn, "but for --eval with --num-eval-batches or --num-eval-epochs",
              "", &length<kNumBatches>},
    TfCnnFlag{
        "num_epochs", Form::kValue, Answer::kOwn,
        "of the data's images; of synthetic data: 1,281,167, or 50,000 with --data-name cifar10; with --eval of the "
        "held-out images: 50,000 or 10,000",
        "", &length<kNumEpochs>},
    TfCnnFlag{"num_epochs_per_decay", Form::kValue, Answer::kBecomes, "--lr-schedule", "0", &decaying_rates},
    TfCnnFlag{"num_eval_batches", Form::kValue, Answer::kBecomes, "--num-batches, with --eval", "",
              &of_evaluation<kNumBatches>},
    TfCnnFlag{"num_eval_epochs", Form::kValue, Answer::kBecomes, "--num-epochs, with --eval", "",
              &of_evaluation<kNumEpochs>},
    TfCnnFlag{"num_gpus", Form::kValue, Answer::kBecomes, "nothing, if it is 1; `xoe run -np N` otherwise", "",
              &num_gpus},
    TfCnnFlag{"num_inter_threads", Form::kValue, Answer::kIgnored,
              "operations run one after the other; --threads sets the threads within them", "0"},
    TfCnnFlag{"num_intra_threads", Form::kValue, Answer::kBecomes, "--threads", "", &as_if_not_0<kThreads>},
    TfCnnFlag{"num_learning_rate_warmup_epochs", Form::kValue, Answer::kBecomes, "--lr-warmup", "", &warmup_epochs},
    TfCnnFlag{"num_warmup_batches", Form::kValue, Answer::kOwn},
    TfCnnFlag{"optimizer", Form::kValue, Answer::kOwn, "`adam` and `rmsprop` are not here", "", &optimizer},
    TfCnnFlag{"partitioned_graph_file_prefix", Form::kValue, Answer::kRefused, kGraphFile},
    TfCnnFlag{"per_gpu_thread_count", Form::kValue, Answer::kIgnored, kThreading, "0"},
    TfCnnFlag{"piecewise_learning_rate_schedule", Form::kValue, Answer::kBecomes, "--lr-schedule", "",
              &piecewise_rates},
    TfCnnFlag{"print_training_accuracy", Form::kSwitch, Answer::kOwn,
              "a further column; the accuracy of the largest logit only"},
    TfCnnFlag{"ps_hosts", Form::kValue, Answer::kRefused, kCluster},
    TfCnnFlag{"resize_method", Form::kValue, Answer::kBecomes, "--interpolation and --no-antialias", "",
              &resize_method},
    TfCnnFlag{"resnet_base_lr", Form::kValue, Answer::kBecomes, "--init-learning-rate", "", &resnet_base_lr},
    TfCnnFlag{"rewriter_config", Form::kValue, Answer::kIgnored, kGraph},
    TfCnnFlag{"rmsprop_decay", Form::kValue, Answer::kIgnored, kNoRmsProp},
    TfCnnFlag{"rmsprop_epsilon", Form::kValue, Answer::kIgnored, kNoRmsProp},
    TfCnnFlag{"rmsprop_momentum", Form::kValue, Answer::kIgnored, kNoRmsProp},
    TfCnnFlag{"save_model_secs", Form::kValue, Answer::kRefused,
              "--save-model-steps N writes a checkpoint each N steps", "0"},
    TfCnnFlag{"save_model_steps", Form::kValue, Answer::kBecomes, "--checkpoint-every", "", &as<kCheckpointEvery>},
    TfCnnFlag{"save_summaries_steps", Form::kValue, Answer::kBecomes, "--tensorboard and --report-every", "",
              &save_summaries_steps},
    TfCnnFlag{"server_protocol", Form::kValue, Answer::kIgnored, "`xoe run --backend` chooses what ranks talk over",
              "grpc"},
    TfCnnFlag{"single_l2_loss_op", Form::kSwitch, Answer::kIgnored, "weight decay is part of the optimizer", "false"},
    TfCnnFlag{"sparse_to_dense_grads", Form::kSwitch, Answer::kIgnored, "no network here has sparse gradients"},
    TfCnnFlag{"staged_vars", Form::kSwitch, Answer::kIgnored, "each rank keeps its variables where it computes",
              "false"},
    TfCnnFlag{"stop_at_top_1_accuracy", Form::kValue, Answer::kRefused, kEvaluation},
    TfCnnFlag{"summary_verbosity", Form::kValue, Answer::kIgnored,
              "of any level, summaries have the loss, the rate and the speed", "0|1"},
    TfCnnFlag{"sync_on_finish", Form::kSwitch, Answer::kIgnored, "a step ends when its loss is read"},
    TfCnnFlag{"task_index", Form::kValue, Answer::kRefused, kCluster, "0"},
    TfCnnFlag{"tf_random_seed", Form::kValue, Answer::kBecomes, "--seed", "", &as<kSeed>},
    TfCnnFlag{"tfprof_file", Form::kValue, Answer::kRefused, kGraphFile},
    TfCnnFlag{"timestamped_allocator", Form::kSwitch, Answer::kIgnored, kAllocator, "false"},
    TfCnnFlag{"trace_file", Form::kValue, Answer::kOwn, "the timeline of the run that --traced-batches adds"},
    TfCnnFlag{"train_dir", Form::kValue, Answer::kOwn, "a new folder: a run does not go on from its checkpoints"},
    TfCnnFlag{"trt_max_workspace_size_bytes", Form::kValue, Answer::kIgnored, kTensorRt},
    TfCnnFlag{"trt_mode", Form::kValue, Answer::kRefused, kTensorRt},
    TfCnnFlag{"use_chrome_trace_format", Form::kSwitch, Answer::kRefused, "timelines have this format only", "true"},
    TfCnnFlag{"use_datasets", Form::kSwitch, Answer::kIgnored, kPipeline, "true"},
    TfCnnFlag{"use_fp16", Form::kSwitch, Answer::kOwn, "bfloat16, unless --precision says fp16"},
    TfCnnFlag{"use_numa_affinity", Form::kSwitch, Answer::kIgnored, "`xoe run` binds ranks", "false"},
    TfCnnFlag{"use_python32_barrier", Form::kSwitch, Answer::kIgnored, kThreading},
    TfCnnFlag{"use_resource_vars", Form::kSwitch, Answer::kIgnored, kGraph},
    TfCnnFlag{"use_tf_layers", Form::kSwitch, Answer::kIgnored, kGraph},
    TfCnnFlag{"use_unified_memory", Form::kSwitch, Answer::kIgnored, kAllocator, "false"},
    TfCnnFlag{"variable_consistency", Form::kValue, Answer::kRefused, "each step has the variables of the step before",
              "strong"},
    TfCnnFlag{"variable_update", Form::kValue, Answer::kOwn,
              "`independent` takes one rank; the others average gradients over all ranks", "", &variable_update},
    TfCnnFlag{"weight_decay", Form::kValue, Answer::kOwn, "5e-5 unless it is given, not 4e-5"},
    TfCnnFlag{"winograd_nonfused", Form::kSwitch, Answer::kIgnored, "cuDNN and oneDNN choose algorithms"},
    TfCnnFlag{"worker_hosts", Form::kValue, Answer::kRefused, kCluster},
    TfCnnFlag{"xla", Form::kSwitch, Answer::kIgnored, "nothing is compiled; kernels are those of libtorch", "false"},
    TfCnnFlag{"xla_compile", Form::kSwitch, Answer::kIgnored, "nothing is compiled; kernels are those of libtorch",
              "false"}};

struct TfCnnNetwork {
  std::string_view name;
  std::string_view here;  // the same one's name; empty: it is not here
  std::string_view near = {};
};
constexpr std::string_view kNoClassifier = "it does not classify images";
constexpr std::array kNetworks{TfCnnNetwork{"deepspeech2", "", kNoClassifier},
                               TfCnnNetwork{"densenet100_k12", "", "densenet121 is near"},
                               TfCnnNetwork{"densenet100_k24", "", "densenet121 is near"},
                               TfCnnNetwork{"densenet40_k12", "", "densenet121 is near"},
                               TfCnnNetwork{"inception3", "inception_v3"},
                               TfCnnNetwork{"inception4", "", "inception_v3 is near"},
                               TfCnnNetwork{"lenet", "", "alexnet and mlp are small"},
                               TfCnnNetwork{"mobilenet", "mobilenet_v2"},
                               TfCnnNetwork{"nasnet", "", "efficientnet_b0 is near"},
                               TfCnnNetwork{"nasnetlarge", "", "efficientnet_b7 is near"},
                               TfCnnNetwork{"ncf", "", kNoClassifier},
                               TfCnnNetwork{"overfeat", "", "alexnet is near"},
                               TfCnnNetwork{"resnet50_v1.5", "resnet50"},
                               TfCnnNetwork{"ssd300", "", kNoClassifier},
                               TfCnnNetwork{"trivial", "", "mlp is near"}};

std::string near_resnet(std::string_view name) {
  constexpr std::string_view kOfficial = "official_", kSecond = "_v2";
  const bool official = name.starts_with(kOfficial);
  if (official) name.remove_prefix(kOfficial.size());
  if (!name.starts_with("resnet")) return {};
  if (official && !name.starts_with("resnet200")) {
    const bool small = name == "resnet18_v2" || name == "resnet34_v2";
    return std::string(small ? name.substr(0, name.size() - kSecond.size()) : name);
  }
  if (official) return "resnet152";
  for (const std::string_view cifar : {"resnet20_v2", "resnet32_v2", "resnet44_v2", "resnet56_v2", "resnet110_v2"})
    if (name == cifar) return std::string(name.substr(0, name.size() - kSecond.size()));
  return {};
}

const TfCnnFlag* find_flag(std::string_view name) {
  const auto* const found = std::ranges::lower_bound(kFlags, name, {}, &TfCnnFlag::name);
  return found != kFlags.end() && found->name == name ? found : nullptr;
}

std::optional<std::string> switch_value(std::string_view value) {
  std::string small(value);
  std::ranges::transform(small, small.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  for (const std::string_view word : {"true", "t", "1", "yes", "y", "on"})
    if (small == word) return "true";
  for (const std::string_view word : {"false", "f", "0", "no", "n", "off"})
    if (small == word) return "false";
  return std::nullopt;
}

// A word of the command line, or a flag with its value.
struct Given {
  const TfCnnFlag* flag = nullptr;  // null: no flag of tf_cnn_benchmarks
  std::string text = {};            // the word, or the value
};

// `next` is the word behind, for a value that stands there; it becomes null once it is taken.
Result<Given> read_word(const std::string& word, const std::string*& next) {
  if (!word.starts_with("--")) return Given{.text = word};
  const auto equals = word.find('=');
  std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
  std::ranges::replace(name, '-', '_');
  const TfCnnFlag* flag = find_flag(name);
  if (flag == nullptr && name.starts_with("no") && equals == std::string::npos) {
    const std::size_t skipped = name.starts_with("no_") ? 3 : 2;
    flag = find_flag(std::string_view(name).substr(skipped));
    if (flag != nullptr && flag->form == Form::kSwitch) return Given{.flag = flag, .text = "false"};
    flag = nullptr;
  }
  if (flag == nullptr) return Given{.text = word};
  if (flag->form == Form::kSwitch) {
    if (equals == std::string::npos) return Given{.flag = flag, .text = "true"};
    const auto value = switch_value(std::string_view(word).substr(equals + 1));
    if (!value) return refused(flag->name, word.substr(equals + 1), "expected true or false");
    return Given{.flag = flag, .text = *value};
  }
  if (equals != std::string::npos) return Given{.flag = flag, .text = word.substr(equals + 1)};
  if (next == nullptr) return failure(Code::kInvalidArgument, "{} needs a value", dashed(flag->name));
  if (next->starts_with("--")) return Given{.text = word};  // the parser says that the value is missing
  return Given{.flag = flag, .text = *std::exchange(next, nullptr)};
}

bool is_silent(const TfCnnFlag& flag, std::string_view value) {
  return !flag.silent.empty() && std::ranges::count(split_text(flag.silent, '|'), value) > 0;
}

Result<TfCnnWords> answer_to(const Given& given, const TfCnnValues& all) {
  const TfCnnFlag& flag = *given.flag;
  // An empty value asks for nothing; as a word of its own the parser would take the next one for it.
  if (flag.form == Form::kValue && given.text.empty()) return TfCnnWords();
  if (flag.answer == Answer::kOwn && flag.form == Form::kSwitch) {
    // The last one counts. A switch that is off is left out: one that is there would exclude others.
    return given.text == "true" && value_in(all, flag.name) == "true" ? one_word(dashed(flag.name)) : TfCnnWords();
  }
  if (flag.answer == Answer::kOwn && flag.convert == nullptr) return one_word(dashed(flag.name) + "=" + given.text);
  if (flag.answer != Answer::kOwn && is_silent(flag, given.text)) return TfCnnWords();
  if (flag.convert != nullptr) return flag.convert(given.text, all);
  const std::string_view value =
      flag.form == Form::kSwitch && given.text == "true" ? std::string_view() : std::string_view(given.text);
  if (flag.answer == Answer::kRefused) return refused(flag.name, value, flag.text);
  return only_note(flag.text);
}

// What tf_cnn_benchmarks' command lines mean by these names is another variant.
std::string note_on_network(const TfCnnValues& all) {
  const std::string name = value_in(all, "model");
  if (name != "resnet50" && name != "resnet101" && name != "resnet152") return {};
  return fmt::format(
      "--model: {0} halves images in the 3x3 convolution of a block{1}; that of tf_cnn_benchmarks does it in the first "
      "1x1 convolution, which is less arithmetic",
      name, name == "resnet50" ? ", as its resnet50_v1.5" : "");
}

}  // namespace

std::span<const TfCnnFlag> tf_cnn_flags() noexcept { return kFlags; }

Result<std::string> network_of_tf_cnn(std::string_view name) {
  const auto* const found = std::ranges::find(kNetworks, name, &TfCnnNetwork::name);
  if (found != kNetworks.end() && !found->here.empty()) return std::string(found->here);
  std::string near = found != kNetworks.end() ? std::string(found->near) : near_resnet(name);
  if (near.empty()) return std::string(name);
  if (found == kNetworks.end()) near += " is near";
  return failure(Code::kInvalidArgument, "this network of tf_cnn_benchmarks is not here; {}", near);
}

Result<TfCnnLine> translate_tf_cnn_flags(const std::vector<std::string>& words) {
  if (words.size() < 2 || words[1] != "train") return TfCnnLine{.words = words};
  TfCnnLine line = {.words = {words[0], words[1]}};
  std::vector<Given> all;
  TfCnnValues values;
  std::size_t at = 2;
  while (at < words.size() && words[at] != "--") {
    const std::string& word = words[at++];
    const std::string* next = at < words.size() ? &words[at] : nullptr;
    const bool had_next = next != nullptr;
    XOE_ASSIGN(Given given, read_word(word, next));
    if (had_next && next == nullptr) ++at;
    if (given.flag != nullptr) values[std::string(given.flag->name)] = given.text;
    all.push_back(std::move(given));
  }
  bool only_ours = true;
  for (const Given& given : all) {
    if (given.flag == nullptr) {
      line.words.push_back(given.text);
      continue;
    }
    only_ours = only_ours && given.flag->answer == Answer::kOwn;
    XOE_ASSIGN(TfCnnWords answer, answer_to(given, values));
    std::ranges::move(answer.words, std::back_inserter(line.words));
    if (!answer.note.empty()) line.notes.push_back(dashed(given.flag->name) + ": " + answer.note);
  }
  if (std::string note = note_on_network(values); !only_ours && !note.empty()) line.notes.push_back(std::move(note));
  line.words.insert(line.words.end(), words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return line;
}

}  // namespace xoe::bench
