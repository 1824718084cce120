#include "frameworks/python/core/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

namespace xoe::python {
namespace {

namespace nb = nanobind;

std::uintptr_t round_up_to_pages(std::uintptr_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

// The shared memory at `shared` takes the place of the mapping of the file `fd` at `address`, with what that holds; the
// file gives its pages back. On failure nothing has changed.
void map_in_place(std::uintptr_t address, std::uintptr_t bytes, std::uintptr_t shared, int fd) {
  if (bytes == 0 || address % round_up_to_pages(1) != 0 || shared % round_up_to_pages(1) != 0)
    throw nb::value_error("map_in_place: both addresses must be those of pages");
  void* target = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  void* source = reinterpret_cast<void*>(shared);   // NOLINT(performance-no-int-to-ptr)
  std::memcpy(source, target, bytes);
  // Of shared memory, a mapping of no length is one more of the same pages.
  if (::mremap(source, 0, round_up_to_pages(bytes), MREMAP_MAYMOVE | MREMAP_FIXED, target) == MAP_FAILED)
    throw std::runtime_error("map_in_place: mremap: " + std::string(std::strerror(errno)));
  // Where the file system cannot do this, the pages stay until the file is closed.
  [[maybe_unused]] const int freed =
      ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes));
}

// The pages at `address`, a mapping of its own, become this process's, with what they hold.
void map_privately(std::uintptr_t address, std::uintptr_t bytes) {
  const std::uintptr_t whole = round_up_to_pages(bytes);
  void* copy = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) throw std::bad_alloc();
  void* target = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  std::memcpy(copy, target, bytes);
  if (::mremap(copy, whole, whole, MREMAP_MAYMOVE | MREMAP_FIXED, target) == MAP_FAILED) {
    const std::string why = std::strerror(errno);
    ::munmap(copy, whole);
    throw std::runtime_error("map_privately: mremap: " + why);
  }
}

}  // namespace

void bind_mapping(nb::module_& module) {
  module.def(
      "map_in_place", &map_in_place, nb::arg("address"), nb::arg("bytes"), nb::arg("shared"), nb::arg("fd"),
      "Puts shared memory in the place of a mapping of a file, with what that holds; the file's pages are freed.");
  module.def("map_privately", &map_privately, nb::arg("address"), nb::arg("bytes"),
             "Ends map_in_place(): the memory there is no longer shared, and holds what it held.");
}

}  // namespace xoe::python
