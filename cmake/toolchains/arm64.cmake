# Cross-compiles for ARM64 on Debian: g++-aarch64-linux-gnu, and the libraries of packages.txt as foreign packages (:arm64).
# scripts/portability.sh makes a root file system that has them; for wheels they are in root/ of what scripts/portable.sh made.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
# Tests run under it.
find_program(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)

if(XOE_PORTABLE)
  list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES XOE_PORTABLE)
  set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
  set(CMAKE_FIND_ROOT_PATH ${XOE_PORTABLE}/root)
  set(packages ${XOE_PORTABLE}/root/usr)
  # Before /usr/include, where the compiler looks too.
  set(CMAKE_C_FLAGS_INIT "-isystem ${packages}/include/aarch64-linux-gnu -isystem ${packages}/include")
  set(CMAKE_CXX_FLAGS_INIT ${CMAKE_C_FLAGS_INIT})
  set(ENV{PKG_CONFIG_SYSROOT_DIR} ${XOE_PORTABLE}/root)
  set(ENV{PKG_CONFIG_LIBDIR} ${packages}/lib/aarch64-linux-gnu/pkgconfig:${packages}/share/pkgconfig)
endif()
