# Cross-compiles for ARM64 on Debian: g++-aarch64-linux-gnu, and the libraries of packages.txt as foreign packages (:arm64).
# scripts/portability.sh makes a root file system that has them.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
# Tests run under it.
find_program(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
