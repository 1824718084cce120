// Folders for files that are about to be written.
#pragma once

#include <string>

namespace xoe {

// Makes the folder that `path` lies in, and those above it, where they are missing. False: errno says why not.
bool make_folder_of(const std::string& path);

}  // namespace xoe
