// xoe bench collectives: the table of nccl-tests, over Xoe's communicators.
#include <unistd.h>

#include <fmt/chrono.h>

#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/text.h"
#include "core/bootstrap/launch_env.h"
#include "core/command_line/parse/answer_once.h"
#include "measure/cli/collectives/collective_table.h"
#include "measure/cli/collectives/measure.h"
#include "measure/cli/output_flags.h"
#include "measure/cli/verbs/verbs.h"
#include "measure/cli/words.h"

namespace xoe::bench {
namespace {

constexpr const char* kCollectives = "xoe bench collectives";
constexpr const char* kCollectiveExamples = R"(
Examples:
  xoe bench collectives -b 8 -e 64M -f 4
  xoe run -np 4 xoe bench collectives reduce_scatter -b 1M -e 64M -f 2 -d half -o max
  XOE_BACKEND=gloo xoe bench collectives all -e 1M --output collectives.json

Options are those of nccl-tests; without a launcher, two ranks start here.

Exit codes: 0 done, 1 failed or wrong values, 2 wrong usage.)";

struct CollectiveFlags {
  std::string collective = "all_reduce";
  std::string low = "32M", high = "32M", step = "1M";
  std::size_t factor = 1;
  std::vector<std::string> types = {"float"}, ops = {"sum"};
  int root = 0;
  int check = 1;
  int average = 1;
  int ranks = 2;
  MeasureOptions measure;
  OutputFlags out;
};

struct CollectivePlan {
  std::vector<CollectiveKind> kinds;
  std::vector<DType> types;
  std::vector<ReduceOp> ops;
  std::size_t low = 0, high = 0, step = 0;
};

Result<std::size_t> bytes_of(std::string_view name, const std::string& text) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 46;
  const auto bytes = parse_bytes(text);
  if (bytes && *bytes <= kMost) return static_cast<std::size_t>(*bytes);
  return failure(Code::kInvalidArgument, "{}: expected a size up to 64T such as 8, 64K or 1G, not {}", name, text);
}

// The values from 0 to `every` - 1 that `names` stand for, "all" for each that has a name.
template <class Value>
Result<std::vector<Value>> values_of(std::string_view option, const std::vector<std::string>& names, int every,
                                     std::string_view (*name_of)(Value)) {
  std::vector<Value> values;
  std::string known;
  for (int i = 0; i < every; ++i)
    if (const auto name = name_of(Value(i)); !name.empty()) known += fmt::format("{}, ", name);
  for (const std::string& wanted : names) {
    const std::size_t before = values.size();
    for (int i = 0; i < every; ++i)
      if (const auto name = name_of(Value(i)); !name.empty() && (wanted == "all" || wanted == name))
        values.push_back(Value(i));
    if (values.size() == before)
      return failure(Code::kInvalidArgument, "{}: choose {}or all, not {}", option, known, wanted);
  }
  return values;
}

Result<CollectivePlan> plan_of(const CollectiveFlags& flags) {
  CollectivePlan plan;
  XOE_ASSIGN(plan.low, bytes_of("--minbytes", flags.low));
  XOE_ASSIGN(plan.high, bytes_of("--maxbytes", flags.high));
  XOE_ASSIGN(plan.step, bytes_of("--stepbytes", flags.step));
  if (plan.low > plan.high)
    return failure(Code::kInvalidArgument, "--minbytes {} is above --maxbytes {}", flags.low, flags.high);
  if (flags.factor <= 1 && plan.low < plan.high && plan.step == 0)
    return failure(Code::kInvalidArgument, "{}", "--stepbytes must be above 0, or give --stepfactor");
  XOE_ASSIGN(plan.kinds,
             values_of<CollectiveKind>("COLLECTIVE", {flags.collective}, kCollectiveKinds.size(), collective_name));
  XOE_ASSIGN(plan.types, values_of<DType>("--datatype", flags.types, kDTypeCount, nccl_type_name));
  XOE_ASSIGN(plan.ops, values_of<ReduceOp>("--op", flags.ops, kReduceOpCount, nccl_op_name));
  return plan;
}

std::string now_text() { return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(std::time(nullptr))); }

// Collective: every rank's process and host, by rank.
Result<std::vector<CollectiveRank>> gather_ranks(Communicator& comm) {
  const std::string mine = fmt::format("{} {}", ::getpid(), host_name("unknown"));
  XOE_ASSIGN(const Gathered all, comm.allgather(ConstTensor(mine.data(), mine.size(), DType::kUint8)));
  std::vector<CollectiveRank> ranks;
  const char* from = reinterpret_cast<const char*>(all.data.data());
  for (const std::size_t length : all.counts) {
    const auto words = words_of({from, length});
    from += length;
    ranks.push_back({.rank = static_cast<int>(ranks.size()),
                     .pid = static_cast<int>(parse_integer(words.at(0)).value_or(0)),
                     .host = words.size() > 1 ? words[1] : ""});
  }
  return ranks;
}

// Calls measure(case) for all that is asked, in the order of nccl-tests.
template <class Measure>
Status for_each_case(const CollectivePlan& plan, const CollectiveFlags& flags, int ranks, Measure measure) {
  const std::vector<ReduceOp> none = {ReduceOp::kSum};
  for (const CollectiveKind kind : plan.kinds)
    for (const DType type : plan.types)
      for (const ReduceOp op : reduces(kind) ? plan.ops : none)
        for (const std::size_t bytes : sizes_between(plan.low, plan.high, plan.step, flags.factor))
          XOE_TRY(measure(collective_case(kind, type, op, flags.root, bytes, ranks)));
  return {};
}

Status run(const CollectiveFlags& flags, const CollectivePlan& plan, Communicator& comm, CollectiveReport& report) {
  const bool tells = comm.rank() == 0 && !flags.out.json;
  const auto print = [tells](const std::string& text) {
    if (!tells) return;
    fmt::print("{}", text);
    std::fflush(stdout);
  };
  report.backend = comm.backend_name();
  report.memory = flags.measure.memory == Memory::kShared ? "shared" : "private";
  report.low = plan.low;
  report.high = plan.high;
  report.step = plan.step;
  report.factor = flags.factor;
  report.warmup = flags.measure.warmup;
  report.iterations = flags.measure.iterations;
  report.check = flags.measure.check;
  report.rewrite = flags.measure.rewrite;
  report.started = now_text();
  XOE_ASSIGN(report.ranks, gather_ranks(comm));
  print(head_lines(report));
  std::optional<CollectiveKind> kind;
  XOE_TRY(for_each_case(plan, flags, comm.size(), [&](const CollectiveCase& one) -> Status {
    XOE_ASSIGN(const CollectiveRow row, measure_collective(comm, one, flags.measure));
    if (plan.kinds.size() > 1 && kind != one.kind) print(fmt::format("# {}\n", collective_name(one.kind)));
    kind = one.kind;
    print(row_line(row));
    report.rows.push_back(row);
    return {};
  }));
  report.ended = now_text();
  print(foot_lines(report));
  return {};
}

int run_here(const CollectiveFlags& flags, const CollectivePlan& plan, std::vector<std::string> command) {
  auto comm = init();
  if (!comm) return failed("collectives", comm.error());
  if (flags.root >= comm->size())
    return tools::usage_error(kCollectives,
                              fmt::format("--root {}: there are {}", flags.root, counted(comm->size(), "rank")));
  CollectiveReport report;
  report.command = std::move(command);
  if (const Status done = run(flags, plan, *comm, report); !done) return failed("collectives", done.error());
  if (comm->rank() == 0)
    if (const Status told = put_out(flags.out, "", to_json(report), [&] { return collectives_page(report); }); !told)
      return failed("collectives", told.error());
  // So that no rank ends before rank 0 has told.
  (void)comm->barrier();
  return report.wrong() == 0 ? 0 : kFailed;
}

// Becomes `xoe run` of this command line.
int start_ranks(int ranks, char** argv) {
  std::vector<std::string> words = {
      program_beside("xoe"),      "run", "--no-tag-output", "-H", fmt::format("localhost:{}", ranks),
      program_beside("xoe-bench")};
  for (char** word = argv + 1; *word != nullptr; ++word) words.emplace_back(*word);
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(pointers.front(), pointers.data());
  return failed("collectives",
                Error(Code::kUnavailable, fmt::format("cannot run {}: {}", words[0], errno_text(errno))));
}

int collectives(CollectiveFlags& flags, char** argv) {
  const auto plan = plan_of(flags);
  if (!plan) return tools::usage_error(kCollectives, plan.error().message());
  flags.measure.check = flags.check > 0;
  flags.measure.average = AverageOf(flags.average);
  const auto info = bootstrap::read_launch_info(Env::process());
  if (info && info->launcher == "none" && flags.ranks > 1) return start_ranks(flags.ranks, argv);
  std::vector<std::string> command = {"xoe", "bench"};
  for (char** word = argv + 1; *word != nullptr; ++word) command.emplace_back(*word);
  return run_here(flags, *plan, std::move(command));
}

}  // namespace

void add_collectives(CLI::App& app, char** argv, int& code) {
  const auto flags = std::make_shared<CollectiveFlags>();
  auto* verb = app.add_subcommand("collectives", "times of collectives, in the table of nccl-tests, values checked");
  verb->footer(kCollectiveExamples);
  tools::add_setting(*verb, "COLLECTIVE", flags->collective,
                     "all_reduce, all_gather, broadcast, reduce_scatter, alltoall, or all");
  verb->option_defaults()->group("Sizes");
  tools::add_setting(*verb, "-b,--minbytes", flags->low, "the smallest size")->type_name("SIZE");
  tools::add_setting(*verb, "-e,--maxbytes", flags->high, "the largest size")->type_name("SIZE");
  tools::add_setting(*verb, "-i,--stepbytes", flags->step, "from one size to the next")->type_name("SIZE");
  verb->add_option("-f,--stepfactor", flags->factor, "multiply in place of adding")->check(CLI::Range(1, 1 << 20));
  verb->option_defaults()->group("Operation");
  tools::add_list(*verb, "-d,--datatype", flags->types, "int8, half, bfloat16, float, ..., or all")
      ->type_name("TYPE")
      ->default_str("float");
  tools::add_list(*verb, "-o,--op", flags->ops, "sum, prod, min, max, avg, or all")
      ->type_name("OP")
      ->default_str("sum");
  tools::add_setting(*verb, "-r,--root", flags->root, "of a broadcast")->check(CLI::NonNegativeNumber);
  tools::add_choice<Memory>(*verb, "--memory", flags->measure.memory,
                            {{"private", Memory::kPrivate}, {"shared", Memory::kShared}},
                            "shared: ranks of a host reduce each other's buffers in place");
  verb->option_defaults()->group("Measurement");
  tools::add_number(*verb, "-n,--iters", flags->measure.iterations, 1, 1'000'000'000, "timed collectives of each size");
  tools::add_number(*verb, "-w,--warmup-iters", flags->measure.warmup, 0, 1'000'000'000, "collectives before them");
  tools::add_number(*verb, "-c,--check", flags->check, 0, 1, "0: values are not checked");
  tools::add_number(*verb, "-a,--average", flags->average, 0, 3,
                    "of the ranks' times: 0 rank 0, 1 mean, 2 least, 3 largest");
  verb->add_flag("--rewrite", flags->measure.rewrite,
                 "fresh values before each collective, not timed, as in training: buffers in a cache flatter");
  tools::add_number(*verb, "-g,--ranks", flags->ranks, 1, 4096, "to start where no launcher has started some");
  add_output(*verb, flags->out, "-J,--output");
  verb->callback([flags, argv, &code] { code = collectives(*flags, argv); });
}

}  // namespace xoe::bench
