#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/text.h"
#include "xoe/data/opened.h"
#include "xoe/data/stages.h"

namespace xoe::data {
namespace {

// The texts that ranks exchange: fields, each with its length in front ("5:hello"), so that they may hold anything.
std::string pack(const std::vector<std::string>& fields) {
  std::string text;
  for (const std::string& field : fields) text += fmt::format("{}:{}", field.size(), field);
  return text;
}

Result<std::vector<std::string>> unpack(std::string_view text, std::size_t count) {
  std::vector<std::string> fields;
  while (!text.empty()) {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<std::size_t>(end - text.data());
    if (error != std::errc() || digits == text.size() || *end != ':' || length > text.size() - digits - 1) break;
    fields.emplace_back(text.substr(digits + 1, length));
    text.remove_prefix(digits + 1 + length);
  }
  if (!text.empty() || fields.size() != count)
    return failure(Code::kInternal, "what another rank says about its data is malformed: {} bytes are left",
                   text.size());
  return fields;
}

std::uint64_t print_of(std::string_view text) {
  std::uint64_t print = text.size();
  for (std::size_t at = 0; at < text.size(); at += 8) {
    std::uint64_t word = 0;
    for (const char byte : text.substr(at, 8)) word = word << 8 | static_cast<std::uint8_t>(byte);
    print = mix(print, word);
  }
  return print;
}

// Of the first files.
std::uint64_t print_of(const OpenedData& data, std::size_t files) {
  std::uint64_t print = 0;
  for (std::size_t i = 0; i < files; ++i) {
    const OpenedFile file = data.file(i);
    print = mix(mix(print, print_of(file.name)), file.bytes, static_cast<std::uint64_t>(file.records));
  }
  return print;
}

// "41,000 records"
std::string grouped(std::int64_t number, std::string_view noun) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return fmt::format("{} {}{}", text, noun, number == 1 ? "" : "s");
}

// What a rank says of itself.
struct Summary {
  enum Field : std::uint8_t {
    kCode,
    kError,
    kHost,
    kWhere,
    kRecords,
    kBatches,
    kLabels,
    kOrder,
    kFiles,
    kPrint,
    kFields
  };
  std::vector<std::string> fields;

  const std::string& at(Field field) const { return fields[field]; }
  std::int64_t number(Field field) const { return parse_integer(at(field)).value_or(-1); }
  std::string opened() const {
    std::string text = grouped(number(kFiles), "file");
    if (number(kRecords) >= 0) text += ", " + grouped(number(kRecords), "record");
    return text;
  }
};

std::string summary_of(const Result<OpenedData>& mine) {
  std::vector<std::string> fields(Summary::kFields);
  fields[Summary::kHost] = host_name("unknown");
  if (!mine) {
    fields[Summary::kCode] = std::to_string(static_cast<int>(mine.error().code()));
    fields[Summary::kError] = mine.error().message();
    return pack(fields);
  }
  fields[Summary::kWhere] = mine->where;
  fields[Summary::kRecords] = std::to_string(mine->records);
  fields[Summary::kBatches] = std::to_string(mine->batches);
  fields[Summary::kLabels] = fmt::format("{:x}", mine->labels);
  fields[Summary::kOrder] = fmt::format("{:x}", mine->order);
  fields[Summary::kFiles] = std::to_string(mine->files);
  fields[Summary::kPrint] = fmt::format("{:x}", print_of(*mine, mine->files));
  return pack(fields);
}

// All ranks take the same steps, because each step follows from what all have gathered.
class Comparison {
 public:
  Comparison(const Result<OpenedData>& mine, int rank, const GatherTexts& gather)
      : mine_(mine), rank_(rank), gather_(gather) {}

  Status run() {
    XOE_ASSIGN(const auto texts, gather_(summary_of(mine_)));
    for (const std::string& text : texts) {
      XOE_ASSIGN(auto fields, unpack(text, Summary::kFields));
      ranks_.push_back({std::move(fields)});
    }
    if (ranks_.empty()) return failure(Code::kInternal, "no rank has said what it opened");
    XOE_TRY(check_errors());
    const auto same = [this](const Summary& other) {
      return std::equal(other.fields.begin() + Summary::kRecords, other.fields.end(),
                        ranks_[0].fields.begin() + Summary::kRecords);
    };
    const auto other = std::ranges::find_if_not(ranks_, same);
    if (other == ranks_.end()) return {};
    other_ = static_cast<std::size_t>(other - ranks_.begin());
    const auto differing = std::ranges::count_if(ranks_, [&](const Summary& one) { return !same(one); });
    return differ(differing - 1);
  }

 private:
  Status check_errors() const {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto code = parse_integer(ranks_[rank].at(Summary::kCode));
      if (!code) continue;
      const std::string& message = ranks_[rank].at(Summary::kError);
      if (ranks_.size() == 1) return failure(static_cast<Code>(*code), message);
      return failure(static_cast<Code>(*code), "{}: {}", name(rank), message);
    }
    return {};
  }

  // `more`: ranks that differ, too.
  Status differ(std::int64_t more) {
    const Summary& first = ranks_[0];
    const Summary& other = ranks_[other_];
    std::string what;
    if (first.at(Summary::kPrint) != other.at(Summary::kPrint)) {
      XOE_ASSIGN(const std::string difference, first_difference());
      what = fmt::format("{} opened {}; {} {}. First difference: {}. Give every rank the same files", name(other_),
                         other.opened(), name(0), first.opened(), difference);
    } else if (first.at(Summary::kBatches) != other.at(Summary::kBatches)) {
      what = fmt::format(
          "{} makes {} batches an epoch of these files, {} {}. Give every rank the same batch, size and remainder",
          name(other_), other.at(Summary::kBatches), name(0), first.at(Summary::kBatches));
    } else if (first.at(Summary::kLabels) != other.at(Summary::kLabels)) {
      what = fmt::format(
          "{} has other classes or labels than {} for the same images. Give every rank the same folders "
          "and tables",
          name(other_), name(0));
    } else {
      what = fmt::format(
          "{} reads the same files in another order than {}. Give every rank the same seed, "
          "shuffle_buffer, shard_by_file and training",
          name(other_), name(0));
    }
    if (more > 0)
      what += fmt::format("; {}, too", more == 1 ? "1 more rank differs" : fmt::format("{} more ranks differ", more));
    return failure(Code::kInvalidArgument, "{}: the ranks have different data: {}", first.at(Summary::kWhere), what);
  }

  // In which file, by halving what is known to be equal: the first files up to there are.
  Result<std::string> first_difference() {
    const auto least = std::min(ranks_[0].number(Summary::kFiles), ranks_[other_].number(Summary::kFiles));
    std::int64_t equal = 0;
    for (std::int64_t beyond = least + 1; beyond - equal > 1;) {
      const std::int64_t middle = (equal + beyond) / 2;
      XOE_ASSIGN(const auto prints, ask([&](const OpenedData& data) {
                   return fmt::format("{:x}", print_of(data, static_cast<std::size_t>(middle)));
                 }));
      (prints.first == prints.second ? equal : beyond) = middle;
    }
    const auto at = static_cast<std::size_t>(equal);
    XOE_ASSIGN(const auto files, ask([&](const OpenedData& data) {
                 if (at >= data.files) return std::string();
                 const OpenedFile file = data.file(at);
                 return pack({file.name, std::to_string(file.bytes), std::to_string(file.records)});
               }));
    return describe(files);
  }

  using Pair = std::pair<std::string, std::string>;  // of rank 0, and of the rank that differs

  Result<std::string> describe(const Pair& files) {
    std::vector<std::string> here(3);
    std::vector<std::string> there(3);
    if (!files.first.empty()) {
      XOE_ASSIGN(here, unpack(files.first, here.size()));
    }
    if (!files.second.empty()) {
      XOE_ASSIGN(there, unpack(files.second, there.size()));
    }
    if (here[0] == there[0]) {
      const auto facts = [](const std::vector<std::string>& file) {
        const auto records = parse_integer(file[2]).value_or(-1);
        return grouped(parse_integer(file[1]).value_or(0), "byte") +
               (records >= 0 ? " and " + grouped(records, "record") : "");
      };
      return fmt::format("{} has {} on rank {}, {} on rank 0", here[0], facts(there), other_, facts(here));
    }
    XOE_ASSIGN(const auto known, ask([&](const OpenedData& data) {
                 return std::string(has(data, here[0]) ? "1" : "0") + (has(data, there[0]) ? "1" : "0");
               }));
    if (!files.first.empty() && known.second.starts_with('0'))
      return fmt::format("{} is absent on rank {}", here[0], other_);
    if (!files.second.empty() && known.first.ends_with('0')) return fmt::format("{} is absent on rank 0", there[0]);
    return fmt::format("rank {} has {} where rank 0 has {}", other_, there[0], here[0]);
  }
  static bool has(const OpenedData& data, const std::string& name) {
    for (std::size_t i = 0; i < data.files; ++i)
      if (data.file(i).name == name) return true;
    return false;
  }

  // What rank 0 and the rank that differs answer.
  Result<Pair> ask(const std::function<std::string(const OpenedData&)>& question) {
    const bool answers = rank_ == 0 || static_cast<std::size_t>(rank_) == other_;
    XOE_ASSIGN(const auto texts, gather_(answers ? question(*mine_) : std::string()));
    if (texts.size() != ranks_.size())
      return failure(Code::kInternal, "{} ranks answered about their data, not {}", texts.size(), ranks_.size());
    return Pair(texts[0], texts[other_]);
  }

  std::string name(std::size_t rank) const {
    return fmt::format("rank {} on host {}", rank, ranks_[rank].at(Summary::kHost));
  }

  const Result<OpenedData>& mine_;
  int rank_;
  const GatherTexts& gather_;
  std::vector<Summary> ranks_;
  std::size_t other_ = 0;  // the first rank that differs from rank 0
};

}  // namespace

std::uint64_t files_fingerprint(const OpenedData& data) { return print_of(data, data.files); }

Status compare_opened(const Result<OpenedData>& mine, int rank, const GatherTexts& gather) {
  return Comparison(mine, rank, gather).run();
}

}  // namespace xoe::data
