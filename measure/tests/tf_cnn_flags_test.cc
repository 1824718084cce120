#include "measure/cli/tf_cnn_flags.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "core/testing/places.h"

namespace xoe::bench {
namespace {

using Texts = std::vector<std::string>;

TfCnnLine translated(Texts words) {
  words.insert(words.begin(), {"xoe", "train"});
  auto line = translate_tf_cnn_flags(words);
  EXPECT_TRUE(line) << line.error().message();
  if (!line) return {};
  EXPECT_EQ((Texts{line->words.begin(), line->words.begin() + 2}), (Texts{"xoe", "train"}));
  line->words.erase(line->words.begin(), line->words.begin() + 2);
  return *line;
}

Texts words_of(Texts words) {
  const TfCnnLine line = translated(std::move(words));
  EXPECT_EQ(line.notes, Texts());
  return line.words;
}

std::string mistake(Texts words) {
  words.insert(words.begin(), {"xoe", "train"});
  const auto line = translate_tf_cnn_flags(words);
  return line ? std::string() : line.error().message();
}

TEST(TfCnnFlags, AreAllOfThem) {
  EXPECT_EQ(tf_cnn_flags().size(), 138U);
  EXPECT_TRUE(std::ranges::is_sorted(tf_cnn_flags(), {}, &TfCnnFlag::name));
  EXPECT_EQ(std::ranges::adjacent_find(tf_cnn_flags(), {}, &TfCnnFlag::name), tf_cnn_flags().end());
  for (const TfCnnFlag& flag : tf_cnn_flags()) {
    if (flag.answer != TfCnnFlag::Answer::kOwn) {
      EXPECT_EQ(flag.convert != nullptr, flag.answer == TfCnnFlag::Answer::kBecomes) << flag.name;
    }
    EXPECT_TRUE(!flag.text.empty() || flag.answer == TfCnnFlag::Answer::kOwn) << flag.name;
  }
}

TEST(TfCnnFlags, ThePageHasARowForEach) {
  std::ifstream page(source_file("docs/reference/tf-cnn-benchmarks.md"));
  std::set<std::string> rows;
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("| `--")) rows.insert(line.substr(5, line.find('`', 5) - 5));
  std::set<std::string> flags;
  for (const TfCnnFlag& flag : tf_cnn_flags()) flags.emplace(flag.name);
  EXPECT_EQ(rows, flags);
}

TEST(TfCnnFlags, EveryFlagIsAnsweredInEverySpelling) {
  for (const TfCnnFlag& flag : tf_cnn_flags()) {
    std::string dashes(flag.name);
    std::ranges::replace(dashes, '_', '-');
    const bool is_switch = flag.form == TfCnnFlag::Form::kSwitch;
    std::vector<Texts> spellings, offs;
    for (const std::string& name : {std::string(flag.name), dashes}) {
      if (is_switch) {
        spellings.insert(spellings.end(), {{"--" + name},
                                           {"--" + name + "=true"},
                                           {"--" + name + "=True"},
                                           {"--" + name + "=1"},
                                           {"--" + name + "=t"},
                                           {"--" + name + "=yes"},
                                           {"--" + name + "=On"}});
        offs.insert(offs.end(), {{"--no" + name},
                                 {"--" + name + "=false"},
                                 {"--" + name + "=0"},
                                 {"--" + name + "=F"},
                                 {"--" + name + "=No"},
                                 {"--" + name + "=off"}});
      } else {
        spellings.insert(spellings.end(), {{"--" + name + "=1"}, {"--" + name, "1"}});
      }
    }
    const auto answer = [](const Texts& words) {
      auto all = words;
      all.insert(all.begin(), {"xoe", "train"});
      const auto line = translate_tf_cnn_flags(all);
      return line ? std::pair(line->words, line->notes) : std::pair(Texts(), Texts{line.error().message()});
    };
    const auto first = answer(spellings.front());
    for (const Texts& words : spellings) EXPECT_EQ(answer(words), first) << words.front();
    for (const Texts& words : offs) EXPECT_EQ(answer(words), answer(offs.front())) << words.front();
    // It becomes other words, or a message names it, or it asks for what happens anyway.
    for (const std::string& note : first.second) EXPECT_TRUE(note.starts_with("--" + dashes)) << note;
    const auto silent = [&flag] {
      const std::string all = "|" + std::string(flag.silent) + "|";
      return all.find(flag.form == TfCnnFlag::Form::kSwitch ? "|true|" : "|1|") != std::string::npos;
    };
    const bool nothing = first.second.empty() && first.first.size() == 2;
    if (flag.answer == TfCnnFlag::Answer::kIgnored || flag.answer == TfCnnFlag::Answer::kRefused) {
      EXPECT_EQ(nothing, silent()) << flag.name;
    }
    EXPECT_FALSE(nothing && flag.answer == TfCnnFlag::Answer::kOwn) << flag.name;
  }
}

TEST(TfCnnFlags, OwnFlagsStay) {
  EXPECT_EQ(words_of({"--batch_size", "8", "--model=resnet50", "--eval", "--noforward_only", "--repeat", "3"}),
            (Texts{"--batch-size=8", "--model=resnet50", "--eval", "--repeat", "3"}));
  EXPECT_EQ(words_of({"word", "-x", "--modle", "--", "--xla"}), (Texts{"word", "-x", "--modle", "--", "--xla"}));
  const Texts other = {"xoe", "collectives", "--xla", "--num_gpus=4"};
  EXPECT_EQ(translate_tf_cnn_flags(other)->words, other);
}

TEST(TfCnnFlags, EmptyValuesAskForNothing) {
  for (const TfCnnFlag& flag : tf_cnn_flags()) {
    if (flag.form != TfCnnFlag::Form::kValue) continue;
    EXPECT_EQ(words_of({"--" + std::string(flag.name) + "=", "--repeat=2"}), Texts{"--repeat=2"}) << flag.name;
  }
}

TEST(TfCnnFlags, TheLastOfASwitchCountsAndOneThatIsOffIsNoWord) {
  EXPECT_EQ(words_of({"--forward_only", "--noeval"}), Texts{"--forward-only"});
  EXPECT_EQ(words_of({"--use_fp16", "--nouse_fp16"}), Texts());
  EXPECT_EQ(words_of({"--nouse_fp16", "--use_fp16=on"}), Texts{"--use-fp16"});
}

TEST(TfCnnFlags, AMissingValueIsLeftToTheParser) {
  EXPECT_EQ(words_of({"--data_dir", "--eval"}), (Texts{"--data_dir", "--eval"}));
  EXPECT_EQ(words_of({"--num_gpus", "--", "--eval"}), (Texts{"--num_gpus", "--", "--eval"}));
  EXPECT_EQ(words_of({"--momentum", "-1"}), Texts{"--momentum=-1"});
}

TEST(TfCnnFlags, TheLengthOfAnEvaluationIsItsOwn) {
  EXPECT_EQ(words_of({"--batch_size=64", "--eval", "--eval_batch_size=32"}), (Texts{"--eval", "--batch-size=32"}));
  EXPECT_EQ(words_of({"--batch_size=64", "--eval", "--eval_batch_size=0"}), (Texts{"--batch-size=64", "--eval"}));
  EXPECT_EQ(words_of({"--num_batches=100", "--eval", "--num_eval_batches=10"}), (Texts{"--eval", "--num-batches=10"}));
  EXPECT_EQ(words_of({"--num_epochs=1", "--eval", "--num_eval_batches=10"}), (Texts{"--eval", "--num-batches=10"}));
  EXPECT_EQ(words_of({"--num_batches=9", "--num_eval_epochs=2", "--eval"}), (Texts{"--num-epochs=2", "--eval"}));
  EXPECT_EQ(words_of({"--num_batches=9", "--num_eval_batches=", "--eval"}), (Texts{"--num-batches=9", "--eval"}));
  EXPECT_EQ(translated({"--batch_size=64", "--num_batches=9", "--eval_batch_size=32", "--num_eval_epochs=2"}).words,
            (Texts{"--batch-size=64", "--num-batches=9"}));
}

TEST(TfCnnFlags, SomeBecomeOthers) {
  EXPECT_EQ(words_of({"--tf_random_seed=7", "--gradient_clip=0.5", "--num_intra_threads=4", "--data_format=NHWC",
                      "--device=gpu", "--save_model_steps=20", "--max_ckpts_to_keep=2"}),
            (Texts{"--seed=7", "--clip-value=0.5", "--threads=4", "--memory-format=nhwc", "--device=cuda",
                   "--checkpoint-every=20", "--checkpoint-keep=2"}));
  EXPECT_EQ(words_of({"--num_intra_threads=0", "--num_gpus=1", "--device=CPU"}), (Texts{"--device=cpu"}));
  EXPECT_EQ(words_of({"--eval", "--num_eval_batches=9", "--eval_batch_size=4"}),
            (Texts{"--eval", "--num-batches=9", "--batch-size=4"}));
  EXPECT_EQ(translated({"--num_eval_batches=9"}).notes,
            (Texts{"--num-eval-batches: nothing is evaluated without --eval"}));
  EXPECT_EQ(words_of({"--data_dir=d", "--resize_method=bilinear", "--nodistortions"}),
            (Texts{"--data-dir=d", "--interpolation=bilinear", "--no-antialias"}));
  EXPECT_EQ(words_of({"--train_dir=t", "--summary_verbosity=1", "--save_summaries_steps=5"}),
            (Texts{"--train-dir=t", "--tensorboard=t", "--report-every=5"}));
}

TEST(TfCnnFlags, RatesBecomeASchedule) {
  EXPECT_EQ(words_of({"--piecewise_learning_rate_schedule=0.3;10;0.2"}),
            (Texts{"--lr-schedule=0.3;10;0.2", "--lr-warmup=0"}));
  EXPECT_EQ(words_of({"--piecewise_learning_rate_schedule=0.3;10;0.2", "--num_learning_rate_warmup_epochs=5"}),
            (Texts{"--lr-schedule=0.3;10;0.2", "--lr-warmup=5"}));
  EXPECT_EQ(words_of({"--num_learning_rate_warmup_epochs=5"}), (Texts{"--lr-warmup=5"}));
  EXPECT_EQ(words_of({"--init_learning_rate=0.5", "--num_epochs_per_decay=2", "--learning_rate_decay_factor=0.5",
                      "--minimum_learning_rate=0.2"}),
            (Texts{"--lr-schedule=0.5;2;0.25;4;0.2", "--lr-warmup=0"}));
  EXPECT_EQ(words_of({"--init_learning_rate=0.5"}), (Texts{"--init-learning-rate=0.5"}));
  EXPECT_EQ(translated({"--num_epochs_per_decay=2"}).words, Texts());
  EXPECT_NE(
      mistake({"--num_epochs_per_decay=2", "--learning_rate_decay_factor=0.5"}).find("needs --init-learning-rate"),
      std::string::npos);
  EXPECT_EQ(words_of({"--resnet_base_lr=0.128"}), (Texts{"--init-learning-rate=0.128"}));
  EXPECT_EQ(translated({"--resnet_base_lr=0.128", "--init_learning_rate=1"}).notes.size(), 1U);
}

TEST(TfCnnFlags, ThoseWithoutMeaningAreNamed) {
  const TfCnnLine line = translated({"--xla", "--mkl", "--kmp_blocktime=0", "--gradient_repacking=8",
                                     "--variable_update=parameter_server", "--distortions"});
  EXPECT_EQ(line.words, (Texts{"--variable-update=parameter_server"}));
  ASSERT_EQ(line.notes.size(), 6U);
  EXPECT_EQ(line.notes[0], "--xla: nothing is compiled; kernels are those of libtorch");
  EXPECT_TRUE(line.notes[3].starts_with("--gradient-repacking: ")) << line.notes[3];
  EXPECT_NE(line.notes[4].find("there is no server"), std::string::npos);
  EXPECT_EQ(words_of({"--noxla", "--gradient_repacking=0", "--cross_replica_sync", "--task_index=0", "--ps_hosts="}),
            Texts());
}

TEST(TfCnnFlags, OtherRunsAreRefused) {
  EXPECT_EQ(mistake({"--num_gpus=8"}), "--num-gpus=8: a rank has one GPU; start `xoe run -np 8 xoe bench train ...`");
  EXPECT_NE(mistake({"--worker_hosts=a,b"}).find("xoe run -np N -H"), std::string::npos);
  EXPECT_NE(mistake({"--nocross_replica_sync"}).find("--cross-replica-sync=false: ranks take each step together"),
            std::string::npos);
  EXPECT_NE(mistake({"--stop_at_top_1_accuracy=0.7"}).find("xoe train --eval-every"), std::string::npos);
  EXPECT_NE(mistake({"--optimizer=rmsprop"}).find("choose sgd"), std::string::npos);
  EXPECT_NE(mistake({"--data_format=NCHWc"}).find("choose NCHW or NHWC"), std::string::npos);
  EXPECT_NE(mistake({"--data_dir=d", "--resize_method=crop"}).find("choose bilinear"), std::string::npos);
  EXPECT_NE(mistake({"--data_dir=d", "--distortions"}).find("--distortions: no colours"), std::string::npos);
  EXPECT_NE(mistake({"--xla=perhaps"}).find("--xla=perhaps: expected true or false"), std::string::npos);
  EXPECT_NE(mistake({"--fp16_vars"}).find("--fp16-vars: weights are kept in float32"), std::string::npos);
  EXPECT_EQ(mistake({"--num_gpus"}), "--num-gpus needs a value");
}

TEST(TfCnnFlags, NetworksHaveTheirNamesThere) {
  EXPECT_EQ(network_of_tf_cnn("resnet50_v1.5").value(), "resnet50");
  EXPECT_EQ(network_of_tf_cnn("inception3").value(), "inception_v3");
  EXPECT_EQ(network_of_tf_cnn("mobilenet").value(), "mobilenet_v2");
  for (const char* same : {"resnet50", "vgg11", "alexnet", "resnet20", "resnet152_v2", "mlp", "nothing"})
    EXPECT_EQ(network_of_tf_cnn(same).value(), same);
  for (const auto& [name, near] :
       {std::pair{"resnet20_v2", "resnet20 is near"}, std::pair{"resnet110_v2", "resnet110 is near"},
        std::pair{"official_resnet50", "resnet50 is near"}, std::pair{"official_resnet50_v2", "resnet50_v2 is near"},
        std::pair{"official_resnet18_v2", "resnet18 is near"}, std::pair{"official_resnet200", "resnet152 is near"},
        std::pair{"nasnet", "efficientnet_b0"}, std::pair{"ssd300", "does not classify images"},
        std::pair{"trivial", "mlp"}, std::pair{"lenet", "mlp"}}) {
    const auto network = network_of_tf_cnn(name);
    ASSERT_FALSE(network) << name;
    EXPECT_NE(network.error().message().find(near), std::string::npos) << network.error().message();
  }
  EXPECT_NE(mistake({"--model=overfeat"}).find("--model=overfeat: this network of tf_cnn_benchmarks is not here"),
            std::string::npos);
  // Their resnet50 is another variant, which is told where the command line is theirs.
  EXPECT_EQ(words_of({"--model=resnet50", "--batch-size=4"}), (Texts{"--model=resnet50", "--batch-size=4"}));
  const Texts notes = translated({"--model=resnet50", "--num_gpus=1"}).notes;
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("as its resnet50_v1.5"), std::string::npos) << notes[0];
  const Texts larger = translated({"--model=resnet101", "--num_gpus=1"}).notes;
  ASSERT_EQ(larger.size(), 1U);
  EXPECT_EQ(larger[0].find("v1.5"), std::string::npos) << larger[0];
  EXPECT_EQ(words_of({"--model=resnet50_v1.5", "--num_gpus=1"}), (Texts{"--model=resnet50"}));
}

}  // namespace
}  // namespace xoe::bench
