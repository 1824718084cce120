// Which file a descriptor stands for.
#pragma once

#include <string>

namespace xoe {

// "DEVICE:INODE", the same for all descriptors of one file or pipe of this host; empty where `fd` is not open.
std::string file_identity(int fd);

}  // namespace xoe
