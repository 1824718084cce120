// The verbs of `xoe data`, each in a file of its own.
#pragma once

#include "core/command_line/parse/command_line.h"
#include "data/cli/max_bad_option.h"
#include "xoe/data/images.h"

namespace xoe::tools {

// Adds a verb. If the command line names it, parse() runs it: it prints its result, errors to stderr, and sets the
// program's exit code.
void add_make(CLI::App& app, int& code);
void add_make_xray(CLI::App& app, int& code);
void add_convert(CLI::App& app, int& code);
void add_inspect(CLI::App& app, int& code);
void add_verify(CLI::App& app, int& code);
void add_stats(CLI::App& app, int& code);
void add_index(CLI::App& app, int& code);
void add_bench(CLI::App& app, int& code);
void add_compare(CLI::App& app, int& code);

// "--split train" or "--split validation".
inline void add_split_option(CLI::App& verb, bool& training) {
  add_choice<bool>(verb, "--split", training, {{"train", true}, {"validation", false}}, "which images");
}

inline void add_missing_option(CLI::App& verb, bool& allow_missing) {
  verb.add_flag("--allow-missing", allow_missing, "go on without files that should be there and are not");
}

// Bad images of a data set.
inline void add_max_bad_option(CLI::App& verb, data::ImagePipelineOptions& from) {
  add_max_bad_option(verb, from.max_bad, "bad images to leave out; one more is an error");
}

// How labels are read; the names of features are for TFRecord files.
inline void add_label_options(CLI::App& verb, data::ImagePipelineOptions& from) {
  verb.add_option("--image-key", from.image_key, "the feature of TFRecord files that holds the image")
      ->capture_default_str();
  verb.add_option("--label-key", from.label_key, "the feature that holds the label")->capture_default_str();
  verb.add_option("--label-offset", from.label_offset,
                  "the label stored for the first class (default: 1 in TFRecord files, as in ImageNet's; 0 in others)");
}

}  // namespace xoe::tools
