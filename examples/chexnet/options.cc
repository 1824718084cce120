#include "chexnet/options.h"

#include <charconv>
#include <functional>
#include <string_view>

namespace chexnet {
namespace {

using xoe::Code;
using xoe::failure;

template <class T>
bool read_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

const char* const kUsage = R"(CheXNet: which of 14 findings does a chest X-ray show?

  xoe run -np 2 example_chexnet FOLDER --run RUN [options]

FOLDER is NIH ChestX-ray14, or phantoms of `xoe data make-xray`.
  --run RUN               folder of the checkpoint, from which the same command goes on, and of scores.json
  --model NAME            detector (small, for phantoms), or a network of xoe train (densenet121)
  --weights FILE          begin with these, but for the last layer: a state dict of torchvision's network (.pth, .pt),
                          or safetensors; images are then normalised as ImageNet's were for it
  --image-size PIXELS     (224)
  --batch IMAGES          of all ranks in a step (64)
  --epochs N              (20)
  --lr RATE               the highest, of AdamW (0.001)
  --patience EPOCHS       without a better validation AUROC before training ends (5)
  --validation-share S    of the patients of train_val_list.txt (0.1)
  --flip                  mirror training images at random, as CheXNet does; not for phantoms
  --shuffle-labels        a control: train on other images' labels; AUROCs must be 0.5
  --seed N                (1)
)";

std::map<std::string, std::string> Options::facts() const {
  std::map<std::string, std::string> facts = {{"model", model},
                                              {"image-size", std::to_string(image_size)},
                                              {"batch", std::to_string(batch)},
                                              {"epochs", std::to_string(epochs)},
                                              {"lr", std::to_string(lr)},
                                              {"patience", std::to_string(patience)},
                                              {"validation-share", std::to_string(validation_share)},
                                              {"flip", flip ? "yes" : "no"},
                                              {"shuffle-labels", shuffle_labels ? "yes" : "no"},
                                              {"seed", std::to_string(seed)}};
  if (!weights.empty()) facts["weights"] = weights;
  return facts;
}

xoe::Result<Options> parse_options(int argc, char** argv) {
  Options options;
  const std::map<std::string_view, std::function<bool(std::string_view)>> values = {
      {"--run", [&](std::string_view text) { return !(options.run = text).empty(); }},
      {"--model", [&](std::string_view text) { return !(options.model = text).empty(); }},
      {"--weights", [&](std::string_view text) { return !(options.weights = text).empty(); }},
      {"--image-size", [&](std::string_view text) { return read_number(text, options.image_size); }},
      {"--batch", [&](std::string_view text) { return read_number(text, options.batch); }},
      {"--epochs", [&](std::string_view text) { return read_number(text, options.epochs); }},
      {"--lr", [&](std::string_view text) { return read_number(text, options.lr); }},
      {"--patience", [&](std::string_view text) { return read_number(text, options.patience); }},
      {"--validation-share", [&](std::string_view text) { return read_number(text, options.validation_share); }},
      {"--seed", [&](std::string_view text) { return read_number(text, options.seed); }}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = values.find(word);
    if (word == "--flip") {
      options.flip = true;
    } else if (word == "--shuffle-labels") {
      options.shuffle_labels = true;
    } else if (value != values.end()) {
      if (++i == argc || !value->second(argv[i]))
        return failure(Code::kInvalidArgument, word + ": a value is missing or wrong");
    } else if (options.folder.empty() && !word.starts_with("-")) {
      options.folder = word;
    } else {
      return failure(Code::kInvalidArgument, word + ": unknown");
    }
  }
  if (options.folder.empty() || options.run.empty())
    return failure(Code::kInvalidArgument, "FOLDER and --run are needed");
  if (options.epochs < 1 || options.batch < 1 || options.patience < 1 || options.image_size < 1)
    return failure(Code::kInvalidArgument, "--epochs, --batch, --patience and --image-size must be 1 or more");
  if (options.model == "detector" && options.image_size % 32 != 0)
    return failure(Code::kInvalidArgument, "--image-size of the detector must be a multiple of 32");
  if (options.model == "detector" && !options.weights.empty())
    return failure(Code::kInvalidArgument, "--weights are those of a network of photographs, not of the detector");
  return options;
}

}  // namespace chexnet
