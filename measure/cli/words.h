// The words of command lines of `xoe bench`.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace xoe::bench {

// With "-" in place of "_" in the names of flags, so that both spellings are understood: --batch_size=a_b becomes
// --batch-size=a_b. Words after "--" stay as they are.
inline std::vector<std::string> with_dashes(std::vector<std::string> words) {
  for (std::string& word : words) {
    if (word == "--") break;
    if (!word.starts_with("--")) continue;
    for (char& c : word) {
      if (c == '=') break;
      if (c == '_') c = '-';
    }
  }
  return words;
}

inline std::vector<const char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<const char*> pointers;
  pointers.reserve(words.size());
  for (const std::string& word : words) pointers.push_back(word.c_str());
  return pointers;
}

// The program of this name in the folder of this process's program.
inline std::string program_beside(std::string_view name) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).replace_filename(name);
}

}  // namespace xoe::bench
