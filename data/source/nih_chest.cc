#include "data/source/nih_chest.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/files/csv.h"
#include "data/files/encoding.h"
#include "data/files/image_tree.h"
#include "data/files/listing.h"
#include "data/source/file_images.h"
#include "data/source/formats.h"
#include "data/source/nih_patients.h"

namespace xoe::data {
namespace {

constexpr std::size_t kMaxTableBytes = std::size_t{256} << 20;

using ImagePaths = std::unordered_map<std::string, std::string>;  // by file name

Status add_images(const std::string& folder, ImagePaths& paths) {
  XOE_ASSIGN(Listing listing, list_directory(folder));
  // A folder with the name of an image is told of.
  listing.files.insert(listing.files.end(), listing.folders.begin(), listing.folders.end());
  for (const std::string& name : listing.files)
    if (is_image_name(name)) paths.emplace(name, folder + "/" + name);
  return {};
}

// The images lie in images_001/images and so on, as the archives unpack, in images, or beside the table.
Result<ImagePaths> find_image_paths(const std::string& directory) {
  ImagePaths paths;
  XOE_TRY(add_images(directory, paths));
  XOE_ASSIGN(const Listing listing, list_directory(directory));
  for (const std::string& folder : listing.folders) {
    if (!folder.starts_with("images")) continue;
    const std::string inner = directory + "/" + folder + "/images";
    XOE_TRY(add_images(is_directory(inner) ? inner : directory + "/" + folder, paths));
  }
  return paths;
}

bool is_table_name(const std::string& name) {
  return name.starts_with("Data_Entry_2017") && has_extension(name, ".csv");
}

bool is_nih_chest(const std::string&, bool is_directory, const Listing& contents) {
  return is_directory && std::any_of(contents.files.begin(), contents.files.end(), is_table_name);
}

struct Table {
  std::string path;
  std::string warning;  // empty: it is the only one
};

// Of the two that the NIH published the later one, in which labels were corrected.
Result<Table> find_table(const std::string& directory) {
  static constexpr std::string_view kFirst = "Data_Entry_2017.csv";
  static constexpr std::string_view kCorrected = "Data_Entry_2017_v2020.csv";
  XOE_ASSIGN(const Listing listing, list_directory(directory));
  std::vector<std::string> tables;
  std::ranges::copy_if(listing.files, std::back_inserter(tables), is_table_name);
  if (tables.empty()) return failure(Code::kUnavailable, "{}: no Data_Entry_2017*.csv", directory);
  if (tables.size() == 1) return Table{directory + "/" + tables.front(), {}};
  if (tables.size() == 2 && tables[0] == kFirst && tables[1] == kCorrected)
    return Table{directory + "/" + tables[1],
                 fmt::format("{}: {} is read and {} is not, because it is the table that the NIH published later; to "
                             "train on the first one, move the other out of this directory",
                             directory, kCorrected, kFirst)};
  return failure(Code::kInvalidArgument,
                 "{}: {} tables, which may differ: {}; move all but the one that is meant out of this directory",
                 directory, tables.size(), fmt::join(tables, ", "));
}

Result<std::unordered_set<std::string>> read_list(const std::string& directory, const Listing& listing,
                                                  const std::string& name) {
  if (std::find(listing.files.begin(), listing.files.end(), name) == listing.files.end())
    return std::unordered_set<std::string>();
  XOE_ASSIGN(const auto lines, read_lines(directory + "/" + name));
  if (lines.empty()) return failure(Code::kDataLoss, "{}/{}: names no image", directory, name);
  return std::unordered_set<std::string>(lines.begin(), lines.end());
}

Result<NihLists> read_lists(const std::string& directory) {
  XOE_ASSIGN(const Listing listing, list_directory(directory));
  NihLists lists;
  XOE_ASSIGN(lists.train_val, read_list(directory, listing, "train_val_list.txt"));
  XOE_ASSIGN(lists.test, read_list(directory, listing, "test_list.txt"));
  return lists;
}

// Which of the images are wanted.
enum class Part : std::uint8_t {
  kTrainVal,    // train_val_list.txt, or everything where there is no such list
  kTraining,    // of it, those of patients who are not held out
  kValidation,  // of it, those of patients who are held out
  kTest,        // test_list.txt
};

Part part_of(const ImagePipelineOptions& options) {
  if (options.split == Split::kTest) return Part::kTest;
  if (options.training) return options.validation_share > 0 ? Part::kTraining : Part::kTrainVal;
  return options.validation_share > 0 ? Part::kValidation : Part::kTest;
}

struct Columns {
  std::size_t image = 0;
  std::size_t findings = 0;
  std::optional<std::size_t> patient = {};
};

Result<Columns> find_columns(const std::vector<std::string>& head) {
  const auto image = std::find(head.begin(), head.end(), "Image Index");
  const auto findings = std::find(head.begin(), head.end(), "Finding Labels");
  if (image == head.end() || findings == head.end())
    return failure(Code::kDataLoss, "no columns \"Image Index\" and \"Finding Labels\"");
  Columns columns{.image = static_cast<std::size_t>(image - head.begin()),
                  .findings = static_cast<std::size_t>(findings - head.begin())};
  if (const auto patient = std::find(head.begin(), head.end(), "Patient ID"); patient != head.end())
    columns.patient = static_cast<std::size_t>(patient - head.begin());
  return columns;
}

Status append_targets(std::string_view findings, std::vector<float>& targets) {
  const std::size_t start = targets.size();
  targets.resize(start + kChestFindings.size());
  if (findings == "No Finding") return {};
  for (const std::string& finding : split_text(findings, '|')) {
    const auto at = std::find(kChestFindings.begin(), kChestFindings.end(), finding);
    if (at == kChestFindings.end()) {
      targets.resize(start);
      return failure(Code::kDataLoss, "an unknown finding \"{}\"", finding.substr(0, 40));
    }
    targets[start + static_cast<std::size_t>(at - kChestFindings.begin())] = 1;
  }
  return {};
}

class TableReader {
 public:
  TableReader(const ImagePipelineOptions& options, MissingData& missing, BadRecords* bad, std::string path)
      : options_(options), part_(part_of(options)), missing_(missing), bad_(bad), path_(std::move(path)) {}

  Result<FileImages::Content> read() {
    XOE_ASSIGN(images_, find_image_paths(options_.directory));
    XOE_ASSIGN(lists_, read_lists(options_.directory));
    if (part_ == Part::kTest && lists_.test.empty())
      return failure(Code::kUnavailable, "{}: no test_list.txt", options_.directory);
    split_ = part_ == Part::kTest ? lists_.test : lists_.train_val;
    unlisted_ = split_;
    XOE_ASSIGN(const std::string text, read_whole(path_, kMaxTableBytes));
    XOE_TRY(read_patients(text));
    CsvReader reader(text);
    content_.root = options_.directory;
    content_.classes = static_cast<int>(kChestFindings.size());
    content_.class_names.assign(kChestFindings.begin(), kChestFindings.end());
    if (auto rows = read_rows(reader); !rows)
      return failure(rows.error().code(), "{}: line {}: {}", path_, reader.line(), rows.error().message());
    for (const std::string& name : unlisted_) missing_.add(name, "in the list of the split, but not in the table");
    FilesOfAKind unnamed;
    std::vector<std::string> paths;
    for (const auto& [name, path] : images_)
      if (!named_.contains(name)) paths.push_back(path);
    std::ranges::sort(paths);
    for (std::string& path : paths) unnamed.add(std::move(path));
    if (unnamed.count > 0)
      content_.warnings.push_back(fmt::format("{}: {} in no row of the table, left out: {}", options_.directory,
                                              counted(unnamed.count, "image"), unnamed.text()));
    XOE_TRY(both(check_rows(), missing_.check(options_.directory)));
    if (content_.paths.empty() && part_ == Part::kValidation)
      return failure(Code::kInvalidArgument, "{}: validation_share {} holds out no patient; choose a larger one", path_,
                     options_.validation_share);
    if (content_.paths.empty()) return failure(Code::kUnavailable, "{}: none of its images is there", path_);
    return std::move(content_);
  }

 private:
  // Patients of both lists count as bad, each once, where training opens its images.
  Status read_patients(const std::string& text) {
    patients_ = NihPatients(text, lists_);
    if (options_.validation_share > 0 && !patients_.known())
      return failure(Code::kDataLoss, "{}: no column \"Patient ID\", by which validation_share divides", path_);
    if (part_ == Part::kTest) return {};
    for (const std::string& problem : patients_.problems())
      lose(Error(Code::kDataLoss, fmt::format("{}: {}", path_, problem)));
    return {};
  }
  Status read_rows(CsvReader& reader) {
    std::vector<std::string> row;
    XOE_ASSIGN(bool more, reader.next(row));
    XOE_ASSIGN(const Columns columns, find_columns(row));
    for (;;) {
      XOE_ASSIGN(more, reader.next(row));
      if (!more) return {};
      if (row.size() == 1 && row[0].empty()) continue;
      if (auto added = add_row(row, columns); !added) {
        if (added.error().code() == Code::kUnavailable && options_.allow_missing) {
          missing_.add(fmt::format("{}: line {}", path_, reader.line()), added.error().message());
          continue;
        }
        lose(
            Error(added.error().code(), fmt::format("{}: line {}: {}", path_, reader.line(), added.error().message())));
      }
    }
  }
  void lose(const Error& row) {
    if (content_.lost++ == 0) first_lost_ = row.code();
    if (row.code() == Code::kUnavailable) lacks_images_ = true;
    lost_.add(row.message());
    if (bad_ != nullptr) bad_->add(row.message());
  }
  // An error names the first few rows.
  Status check_rows() const {
    if (content_.lost <= options_.max_bad) return {};
    std::string ways(kMayLeaveOut);
    if (lacks_images_) ways = fmt::format("{}; or {}", kMayGoOn, kMayLeaveOut);
    return failure(first_lost_, "{}; {}", lost_.text(), ways);
  }
  // `unavailable`: the row's image is missing.
  Status add_row(const std::vector<std::string>& row, const Columns& columns) {
    if (row.size() <= std::max(columns.image, columns.findings))
      return failure(Code::kDataLoss, "{} columns are too few", row.size());
    const std::string& name = row[columns.image];
    if (!named_.insert(name).second) return failure(Code::kDataLoss, "{} is in a row before, too", name);
    if (!split_.empty() && !split_.contains(name)) return {};
    unlisted_.erase(name);
    XOE_ASSIGN(const bool wanted, is_wanted(row, columns));
    if (!wanted) return {};
    const auto path = images_.find(name);
    if (path == images_.end()) return failure(Code::kUnavailable, "no image {} among {} files", name, images_.size());
    const auto size = size_of_file(path->second);
    if (!size) return failure(Code::kUnavailable, "{}: {}", path->second, size.error().message());
    XOE_TRY(append_targets(row[columns.findings], content_.targets));
    content_.paths.push_back(path->second);
    content_.sizes.push_back(*size);
    return {};
  }

  // By its patient.
  Result<bool> is_wanted(const std::vector<std::string>& row, const Columns& columns) const {
    if (part_ == Part::kTest || !columns.patient) return true;
    if (row.size() <= *columns.patient) {
      if (part_ == Part::kTrainVal) return true;
      return failure(Code::kDataLoss, "{} columns are too few: no patient", row.size());
    }
    const std::string& patient = row[*columns.patient];
    if (patients_.in_both(patient)) return false;
    return part_ == Part::kTrainVal || held_out(patient, options_.validation_share) == (part_ == Part::kValidation);
  }

  const ImagePipelineOptions& options_;
  Part part_;
  MissingData& missing_;
  BadRecords* bad_;
  std::string path_;
  NihLists lists_;
  NihPatients patients_;
  ImagePaths images_;
  std::unordered_set<std::string> split_;
  std::unordered_set<std::string> unlisted_;  // of the split, and in no row so far
  std::unordered_set<std::string> named_;     // in a row so far, of either split
  BadRecords lost_;                           // rows
  Code first_lost_ = Code::kDataLoss;
  bool lacks_images_ = false;
  FileImages::Content content_;
};

// Without lists all images are for training.
bool has_nih_split(const ImagePipelineOptions& options) {
  return part_of(options) != Part::kTest || is_there(options.directory + "/test_list.txt");
}

Result<SourcePtr> open_nih_chest(const ImagePipelineOptions& options, MissingData& missing, BadRecords* bad) {
  XOE_TRY(check_no_label_offset(options, "findings"));
  XOE_ASSIGN(Table table, find_table(options.directory));
  XOE_ASSIGN(auto content, TableReader(options, missing, bad, std::move(table.path)).read());
  if (!table.warning.empty()) content.warnings.insert(content.warnings.begin(), std::move(table.warning));
  return std::make_unique<FileImages>(std::move(content));
}

}  // namespace

constinit const SourceLayout kNihChestFormat = {SourceFormat::kNihChest, "nih-chest", is_nih_chest, has_nih_split,
                                                open_nih_chest};

}  // namespace xoe::data
