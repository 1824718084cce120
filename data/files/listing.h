// Contents of directories and small files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::data {

struct Listing {
  // Names, sorted, without hidden ones. Whatever is no folder is a file here, so that links that lead nowhere and pipes
  // are noticed (missing.h).
  std::vector<std::string> files;
  std::vector<std::string> folders;
  std::vector<std::string> hidden;  // files and folders whose names begin with a dot
};
// `unavailable`: it cannot be listed.
Result<Listing> list_directory(const std::string& path);

// Paths of what a directory holds, files or not (missing.h tells), whose names match a pattern with * and ?, sorted,
// without index files, be they Xoe's or another tool's. A hidden file matches only a pattern that starts with a dot.
// `unavailable`: no file matches.
Result<std::vector<std::string>> match_files(const std::string& directory, const std::string& pattern);

// The paths that match patterns of xoe/data/files.h, files or not.
Result<std::vector<std::string>> match_paths(const std::vector<std::string>& patterns);
// Whether a name matches a pattern with * and ?.
bool matches(const std::string& name, const std::string& pattern);

bool is_directory(const std::string& path);
// Whether there is anything of that name, be it a link that leads nowhere.
bool is_there(const std::string& path);
// "a/b/c" below "a" is "b/c"; a path that does not lie below is its last part.
std::string name_below(const std::string& directory, const std::string& path);

// A file's content. `data_loss`: more than `limit` bytes.
Result<std::string> read_whole(const std::string& path, std::size_t limit);
// The same, into a buffer that keeps its memory.
Status read_whole(const std::string& path, std::size_t limit, std::string& buffer);

inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // some programs put it before a text

// The lines of a small text file, without empty ones, without "\r" and without a byte order mark.
Result<std::vector<std::string>> read_lines(const std::string& path);
// The same of labels.txt, where a line's number is a label. `data_loss`: an empty line between others.
Result<std::vector<std::string>> read_names(const std::string& path);

// Whether the name ends in the extension, in any case of ASCII letters: "a/b.TXT", ".txt".
bool has_extension(std::string_view name, std::string_view extension) noexcept;
bool is_archive_name(std::string_view name) noexcept;  // .tar, .tar.gz, .tgz
// Of TFRecord files: .tfrecord and .tfrec anywhere in the name, .record and .records at its end or before a dash, as in
// "coco_train.record-00000-of-00100".
bool is_record_name(std::string_view name) noexcept;

}  // namespace xoe::data
