#include "launch/options/torchrun.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/nearest_word.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "launch/options/options.h"

namespace xoe::launch {
namespace {

// Without a `what` an option has no meaning here, or is refused: `why`.
struct TorchrunOption {
  std::string_view name;         // with dashes; underscores stand for those within it
  std::string_view letter = {};  // its other name
  std::string_view value = {};   // what stands for its value; empty: it takes none
  std::string_view what = {};
  std::string_view why = {};
  bool refused = false;
};

constexpr std::string_view kLogs =
    "ranks write to the files of --log-dir, in which rank.N/stdout and rank.N/stderr are";
constexpr std::string_view kOwn = "`xoe run` starts and watches the ranks in its own way";

constexpr std::array kTorchrunOptions{
    TorchrunOption{.name = "--nnodes",
                   .value = "N",
                   .what = "hosts, on each of which this command runs (default: 1); MIN:MAX: they come and go"},
    TorchrunOption{
        .name = "--nproc-per-node", .value = "N", .what = "ranks on each: a number, gpu, cpu or auto (default: 1)"},
    TorchrunOption{.name = "--node-rank", .value = "I", .what = "which of the hosts this one is, from 0"},
    TorchrunOption{.name = "--master-addr", .value = "HOST", .what = "host 0, by which the others find it"},
    TorchrunOption{.name = "--master-port", .value = "PORT", .what = "at which host 0 listens (default: 29500)"},
    TorchrunOption{
        .name = "--rdzv-endpoint", .value = "HOST[:PORT]", .what = "the same as --master-addr and --master-port"},
    TorchrunOption{.name = "--rdzv-conf", .value = "KEY=VALUE,...", .what = "join_timeout is --rendezvous-timeout"},
    TorchrunOption{.name = "--standalone", .what = "one host"},
    TorchrunOption{.name = "--max-restarts", .value = "N", .what = "how often the ranks are restarted after a failure"},
    TorchrunOption{.name = "--module", .letter = "-m", .what = "the program is a module of Python"},
    TorchrunOption{.name = "--no-python", .what = "the program is no script of Python"},
    TorchrunOption{.name = "--run-path", .what = "the program is a script of Python, as it is without this option"},
    TorchrunOption{.name = "--log-dir", .value = "DIR", .what = "also write DIR/rank.N/stdout and DIR/rank.N/stderr"},
    TorchrunOption{
        .name = "--redirects", .letter = "-r", .value = "WHAT", .what = "3: only there. Others: as without it"},
    TorchrunOption{
        .name = "--tee", .letter = "-t", .value = "WHAT", .what = "there and here, which --log-dir alone says"},
    TorchrunOption{.name = "--local-ranks-filter", .value = "LIST", .what = "show these ranks of this host alone"},
    TorchrunOption{.name = "--local-addr", .value = "ADDRESS", .what = "the address of this host that ranks talk over"},
    TorchrunOption{
        .name = "--numa-binding", .value = "node|socket|exclusive|core-complex", .what = "bind ranks to cores"},
    TorchrunOption{.name = "--rdzv-backend", .value = "NAME", .why = "hosts meet at host 0"},
    TorchrunOption{.name = "--rdzv-id", .value = "ID", .why = "a job has a name of its own"},
    TorchrunOption{.name = "--monitor-interval", .value = "S", .why = "the end of a rank is noticed at once"},
    TorchrunOption{.name = "--start-method", .value = "NAME", .why = kOwn},
    TorchrunOption{.name = "--role", .value = "NAME", .why = kOwn},
    TorchrunOption{.name = "--event-log-handler", .value = "NAME", .why = kOwn},
    TorchrunOption{.name = "--signals-to-handle", .value = "LIST", .why = kOwn},
    TorchrunOption{.name = "--shutdown-timeout", .value = "S", .why = "--grace of xoe run says it"},
    TorchrunOption{.name = "--logs-specs", .value = "NAME", .why = kLogs},
    TorchrunOption{.name = "--duplicate-stdout-filters", .value = "TEXT", .why = kLogs},
    TorchrunOption{.name = "--duplicate-stderr-filters", .value = "TEXT", .why = kLogs},
    TorchrunOption{
        .name = "--log-line-prefix-template", .value = "TEXT", .why = "`[N] ` stands before lines of rank N"},
    TorchrunOption{
        .name = "--print-completion", .value = "SHELL", .why = "`xoe completion SHELL` prints it", .refused = true},
    TorchrunOption{.name = "--virtual-local-rank",
                   .why = "LOCAL_RANK counts the ranks of a host, each of which sees all of its GPUs",
                   .refused = true},
    TorchrunOption{.name = "--help", .letter = "-h", .what = "print this help"}};

constexpr const char* kTorchrunFooter = R"(Examples:
  xoe torchrun --nproc-per-node 4 train.py --epochs 10
  xoe torchrun --standalone --nproc-per-node gpu -m package.train
  xoe torchrun --nnodes 2 --node-rank 0 --master-addr node1 train.py

torchrun's other options are accepted, and explained. On several hosts the
members prove to each other that they know a secret: XOE_RENDEZVOUS_SECRET_FILE.)";

std::string dashed(std::string_view name) {
  std::string text(name);
  if (text.starts_with("--")) std::ranges::replace(text, '_', '-');
  return text;
}

// torchrun takes the beginning of a name where no other one begins so.
const TorchrunOption* find(std::string_view name) {
  const std::string wanted = dashed(name);
  const TorchrunOption* begun = nullptr;
  bool several = false;
  for (const TorchrunOption& one : kTorchrunOptions) {
    if (one.name == wanted || (!one.letter.empty() && one.letter == wanted)) return &one;
    if (wanted.size() < 3 || !one.name.starts_with(wanted)) continue;
    several = begun != nullptr;
    begun = &one;
  }
  return several ? nullptr : begun;
}

// torchrun's variable of an option: PET_NPROC_PER_NODE.
std::string variable_of(const TorchrunOption& option) {
  std::string name = "PET_";
  for (const char c : option.name.substr(2)) name.push_back(c == '-' ? '_' : static_cast<char>(std::toupper(c)));
  return name;
}

// What was given, by the names of the options; the program with its arguments.
struct TorchrunGiven {
  std::map<std::string_view, std::string> values = {};
  std::vector<std::string> program = {};

  bool has(std::string_view name) const { return values.contains(name); }
  std::string text(std::string_view name, std::string_view otherwise = {}) const {
    const auto found = values.find(name);
    return found == values.end() ? std::string(otherwise) : found->second;
  }
};

Result<TorchrunGiven> read_arguments(std::span<const std::string_view> arguments) {
  TorchrunGiven given;
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].size() > 1 && arguments[at].starts_with('-')) {
    std::string_view word = arguments[at++];
    if (word == "--") break;
    std::optional<std::string_view> attached;
    if (const auto equals = word.find('='); word.starts_with("--") && equals != std::string_view::npos) {
      attached = word.substr(equals + 1);
      word = word.substr(0, equals);
    }
    const TorchrunOption* option = find(word);
    if (option == nullptr && word.size() > 2 && !word.starts_with("--") && find(word.substr(0, 2)) != nullptr) {
      attached = word.substr(2);  // -r3
      option = find(word.substr(0, 2));
    }
    if (option == nullptr) {
      std::vector<std::string_view> names;
      for (const TorchrunOption& one : kTorchrunOptions) names.push_back(one.name);
      return failure(Code::kInvalidArgument, "torchrun: unknown option {}{}", printable_utf8(word),
                     did_you_mean(dashed(word), names, "; see xoe torchrun --help"));
    }
    if (option->value.empty() && attached)
      return failure(Code::kInvalidArgument, "torchrun: {} takes no value", option->name);
    if (!option->value.empty() && !attached) {
      if (at == arguments.size()) return failure(Code::kInvalidArgument, "torchrun: {} needs a value", option->name);
      attached = arguments[at++];
    }
    given.values[option->name] = attached.value_or("1");
  }
  given.program.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
  return given;
}

void add_variables(TorchrunGiven& given, const Env& env) {
  for (const TorchrunOption& option : kTorchrunOptions) {
    const auto value = env.text(variable_of(option));
    if (!value || given.has(option.name) || (option.value.empty() && *value == "0")) continue;
    given.values[option.name] = *value;
  }
}

tl::unexpected<Error> wrong(std::string_view name, std::string_view value, std::string_view expected) {
  return failure(Code::kInvalidArgument, "torchrun: {} {}: expected {}", name, printable_utf8(value), expected);
}

Result<int> number_of(const TorchrunGiven& given, std::string_view name, int otherwise, int low, int high) {
  if (!given.has(name)) return otherwise;
  const std::string text = given.text(name);
  const auto number = parse_integer(text);
  if (!number || *number < low || *number > high) return wrong(name, text, fmt::format("{} to {}", low, high));
  return static_cast<int>(*number);
}

Result<int> ranks_per_host(const TorchrunGiven& given, const TorchrunFacts& facts) {
  const std::string text = given.text("--nproc-per-node", "1");
  if (text == "gpu" && facts.gpus == 0)
    return failure(Code::kInvalidArgument, "{}", "torchrun: --nproc-per-node gpu: this host has no GPU");
  if (text == "gpu" || (text == "auto" && facts.gpus > 0)) return std::min(facts.gpus, kMaxRanksPerHost);
  if (text == "cpu" || text == "auto") return std::min(facts.cores, kMaxRanksPerHost);
  const auto number = parse_integer(text);
  if (!number || *number < 1 || *number > kMaxRanksPerHost)
    return wrong("--nproc-per-node", text, fmt::format("1 to {}, gpu, cpu or auto", kMaxRanksPerHost));
  return static_cast<int>(*number);
}

// "2", or "2:4".
struct HostRange {
  int least = 1;
  int most = 1;
};
Result<HostRange> hosts_of(const TorchrunGiven& given) {
  if (given.has("--standalone")) return HostRange();
  const std::string text = given.text("--nnodes", "1");
  const auto colon = text.find(':');
  const auto least = parse_integer(text.substr(0, colon));
  const auto most = colon == std::string::npos ? least : parse_integer(text.substr(colon + 1));
  if (!least || !most || *least < 1 || *most < *least || *most > kMostMembers)
    return wrong("--nnodes", text, "a number of hosts");
  return HostRange{.least = static_cast<int>(*least), .most = static_cast<int>(*most)};
}

std::string endpoint_of(const std::string& host, const std::string& port) {
  const bool number = host.find(':') != std::string::npos;  // of IPv6
  return number ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Status add_hosts(const TorchrunGiven& given, const HostRange& hosts, int ranks, std::vector<std::string>& words) {
  if (hosts.most == 1) {
    // Not those of a batch system's job around us.
    words.insert(words.end(), {"-H", fmt::format("localhost:{}", ranks)});
    return {};
  }
  std::string at = given.text("--rdzv-endpoint");
  if (at.empty() && given.has("--master-addr"))
    at = endpoint_of(given.text("--master-addr"), given.text("--master-port", "29500"));
  if (at.empty())
    return failure(Code::kInvalidArgument, "torchrun: --nnodes {}: where is host 0? Add --master-addr HOST, or {}",
                   hosts.most, "--rdzv-endpoint HOST:PORT");
  words.insert(words.end(), {"--rendezvous", at, "--nodes",
                             hosts.least == hosts.most ? std::to_string(hosts.most)
                                                       : fmt::format("{}:{}", hosts.least, hosts.most)});
  if (given.has("--node-rank")) words.insert(words.end(), {"--node-rank", given.text("--node-rank")});
  for (const std::string& setting : split_text(given.text("--rdzv-conf"), ',')) {
    constexpr std::string_view kJoin = "join_timeout=";
    if (setting.starts_with(kJoin)) words.insert(words.end(), {"--rendezvous-timeout", setting.substr(kJoin.size())});
  }
  return {};
}

// A number of this host's ranks becomes one of the job's.
Status add_filter(const TorchrunGiven& given, int hosts, int ranks, std::vector<std::string>& words) {
  const std::string only = given.text("--redirects");
  if (only == "3" && !given.has("--log-dir"))
    return failure(Code::kInvalidArgument, "{}", "torchrun: --redirects 3: into which folder? Add --log-dir DIR");
  if (only == "3" && given.text("--tee", "0") == "0") {
    words.insert(words.end(), {"--only-rank", "none"});
    return {};
  }
  if (!given.has("--local-ranks-filter")) return {};
  if (hosts > 1 && !given.has("--node-rank"))
    return failure(Code::kInvalidArgument, "{}", "torchrun: --local-ranks-filter on several hosts: add --node-rank I");
  XOE_ASSIGN(const int host, number_of(given, "--node-rank", 0, 0, kMostMembers - 1));
  std::vector<int> shown;
  for (const std::string& one : split_text(given.text("--local-ranks-filter"), ',')) {
    const auto local = parse_integer(trimmed(one));
    if (!local || *local < 0 || *local >= ranks)
      return wrong("--local-ranks-filter", one, fmt::format("ranks of this host, 0 to {}", ranks - 1));
    shown.push_back(host * ranks + static_cast<int>(*local));
  }
  words.insert(words.end(), {"--only-rank", fmt::format("{}", fmt::join(shown, ","))});
  return {};
}

Status add_binding(const TorchrunGiven& given, std::vector<std::string>& words) {
  using Pair = std::pair<std::string_view, std::string_view>;
  constexpr std::array kBindings{Pair("node", "numa"), Pair("socket", "socket"), Pair("exclusive", "core"),
                                 Pair("core-complex", "core")};
  if (!given.has("--numa-binding")) return {};
  const std::string text = given.text("--numa-binding");
  const auto found = std::ranges::find(kBindings, text, &Pair::first);
  if (found == kBindings.end()) return wrong("--numa-binding", text, "node, socket, exclusive or core-complex");
  words.insert(words.end(), {"--bind-to", std::string(found->second)});
  return {};
}

Status add_program(const TorchrunGiven& given, const std::string& python, std::vector<std::string>& words) {
  if (given.program.empty())
    return failure(Code::kInvalidArgument, "{}",
                   "torchrun: no program given; for example: xoe torchrun --nproc-per-node 2 train.py");
  if (given.has("--module") && given.has("--no-python"))
    return failure(Code::kInvalidArgument, "{}", "torchrun: --module with --no-python: choose one of them");
  if (given.has("--module")) {
    words.emplace_back("-m");
  } else {
    words.emplace_back("--");
    if (!given.has("--no-python")) words.push_back(python);
  }
  words.insert(words.end(), given.program.begin(), given.program.end());
  return {};
}

}  // namespace

Result<TorchrunWords> translate_torchrun(std::span<const std::string_view> arguments, const Env& env,
                                         const TorchrunFacts& facts) {
  TorchrunWords run;
  XOE_ASSIGN(TorchrunGiven given, read_arguments(arguments));
  run.help = given.has("--help");
  if (run.help) return run;
  add_variables(given, env);
  for (const TorchrunOption& option : kTorchrunOptions) {
    if (!given.has(option.name) || option.why.empty()) continue;
    if (option.refused) return failure(Code::kUnsupported, "torchrun: {}: {}", option.name, option.why);
    run.notes.push_back(fmt::format("torchrun's {} has no meaning here: {}", option.name, option.why));
  }
  XOE_ASSIGN(const HostRange hosts, hosts_of(given));
  XOE_ASSIGN(const int ranks, ranks_per_host(given, facts));
  XOE_ASSIGN(const int restarts, number_of(given, "--max-restarts", 0, 0, 1000));
  run.words = {"-np", std::to_string(ranks)};
  XOE_TRY(add_hosts(given, hosts, ranks, run.words));
  // torchrun counts the restarts of all ranks together, `xoe run` those of each.
  if (restarts > 0)
    run.words.insert(run.words.end(), {"--restarts", std::to_string(std::min<std::int64_t>(
                                                         kMostRestarts, std::int64_t{restarts} * ranks * hosts.most))});
  if (given.has("--log-dir")) run.words.insert(run.words.end(), {"--output-dir", given.text("--log-dir")});
  if (given.has("--local-addr")) run.words.insert(run.words.end(), {"--network-interface", given.text("--local-addr")});
  XOE_TRY(add_filter(given, hosts.most, ranks, run.words));
  XOE_TRY(add_binding(given, run.words));
  XOE_TRY(add_program(given, facts.python, run.words));
  return run;
}

command_line::Command torchrun_command() {
  command_line::Command command{.name = "xoe torchrun",
                                .what = "runs a command line that was written for torchrun, as `xoe run` does.",
                                .usage = "[options] SCRIPT [arguments of the script]",
                                .footer = kTorchrunFooter};
  for (const TorchrunOption& option : kTorchrunOptions) {
    if (option.what.empty()) continue;
    command_line::Argument& argument = command.options.emplace_back();
    if (!option.letter.empty()) argument.names.emplace_back(option.letter);
    argument.names.emplace_back(option.name);
    argument.value = option.value;
    argument.what = option.what;
  }
  return command;
}

}  // namespace xoe::launch
